"""Tables: the one release that is planned from a schema, and the model that is fitted to it; it sees no record.

codec = TableCodec(Schema.load("schema.json"))
x, y = encode_file("private.csv", codec, compact=True)
vault = Vault(x, y, clip=codec.bound(compact=True), classes=codec.classes, adjacency="add-remove", budget=(1.0, 1e-6))
synthesizer = Synthesizer(1.0, 1e-6, codec=codec).fit(vault)
table, _ = synthesizer.sample(10_000)
"""

from privot.evaluation.schema_axes import axes_of
from privot.synthesis.tabular.table_fit import fit_table
from privot.synthesis.tabular.table_model import TableModel
from privot.synthesis.tabular.table_release import table_mechanism

__all__ = ["TableModel", "axes_of", "fit_table", "table_mechanism"]
