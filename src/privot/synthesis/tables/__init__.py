"""Tables with mixed columns: a public schema, a codec, one private release and the model fitted to it.

schema = Schema.load("schema.json")
codec = TableCodec(schema)
x, y = encode_file("private.csv", codec, compact=True)
vault = Vault(x, y, clip=codec.bound(compact=True), classes=codec.classes, adjacency="add-remove", budget=(1.0, 1e-6))
mechanism = table_mechanism(codec, epsilon=1.0, delta=1e-6, adjacency="add-remove")
model = fit_table(vault.release(mechanism, purpose="synthetic table"), codec)
write_table(model.sample(10_000, seed=1), "synthetic.csv", schema)
"""

from privot.synthesis.tables.codec import TableCodec
from privot.synthesis.tables.columns import Column
from privot.synthesis.tables.files import encode_chunks, encode_file, read_chunks, read_header, read_table, write_table
from privot.synthesis.tables.fit import fit_table
from privot.synthesis.tables.model import TableModel
from privot.synthesis.tables.proposing import propose_from_sample
from privot.synthesis.tables.releasing import table_mechanism
from privot.synthesis.tables.schema import Schema, propose
from privot.synthesis.tables.table import Table

__all__ = [
    "Column",
    "Schema",
    "Table",
    "TableCodec",
    "TableModel",
    "encode_chunks",
    "encode_file",
    "fit_table",
    "propose",
    "propose_from_sample",
    "read_chunks",
    "read_header",
    "read_table",
    "table_mechanism",
    "write_table",
]
