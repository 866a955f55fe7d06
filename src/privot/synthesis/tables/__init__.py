"""Tables: the one release that is planned from a schema, and the model that is fitted to it; it sees no record.

codec = TableCodec(Schema.load("schema.json"))
x, y = encode_file("private.csv", codec, compact=True)
vault = Vault(x, y, clip=codec.bound(compact=True), classes=codec.classes, adjacency="add-remove", budget=(1.0, 1e-6))
synthesizer = Synthesizer(1.0, 1e-6, codec=codec).fit(vault)
table, _ = synthesizer.sample(10_000)
"""

from privot.synthesis.tables.axes import axes_of
from privot.synthesis.tables.fit import fit_table
from privot.synthesis.tables.model import TableModel
from privot.synthesis.tables.releasing import table_mechanism

__all__ = ["TableModel", "axes_of", "fit_table", "table_mechanism"]
