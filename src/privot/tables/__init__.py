"""Tables with mixed columns: public schema, codec to rows of numbers, files. It hands out raw rows, knows no privacy.

The records of a table go straight into a vault:

    schema = Schema.load("schema.json")
    vault = Vault.open("private.csv", schema, adjacency="add-remove", budget=(1.0, 1e-6))
"""

from privot.tables.codec import TableCodec
from privot.tables.columns import Column
from privot.tables.related_codec import RelatedCodec
from privot.tables.schema import Schema, propose
from privot.tables.schema_proposal import propose_from_sample
from privot.tables.table import Table
from privot.tables.table_files import encode_file, read_header, read_table
from privot.tables.table_writing import write_table

__all__ = [
    "Column",
    "RelatedCodec",
    "Schema",
    "Table",
    "TableCodec",
    "encode_file",
    "propose",
    "propose_from_sample",
    "read_header",
    "read_table",
    "write_table",
]
