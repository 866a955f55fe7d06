"""Tables with mixed columns: public schema, codec to rows of numbers, files. It hands out raw rows, knows no privacy.

The records of a table go straight into a vault:

    schema = Schema.load("schema.json")
    vault = Vault.open("private.csv", schema, adjacency="add-remove", budget=(1.0, 1e-6))
"""

from privot.tables.codec import TableCodec
from privot.tables.columns import Column
from privot.tables.encoded_columns import EncodedColumn, encoded_columns
from privot.tables.frames import FrameForm, encode_frame, frame_kind, frame_of
from privot.tables.related_codec import RelatedCodec
from privot.tables.schema import Schema, propose
from privot.tables.schema_proposal import propose_from_sample
from privot.tables.table import Table
from privot.tables.table_files import encode_chunks, encode_file, read_chunks, read_header, read_table
from privot.tables.table_writing import write_table
from privot.tables.unit_column import encode_file_with_units, identifier_names, schema_for_unit

__all__ = [
    "Column",
    "EncodedColumn",
    "FrameForm",
    "RelatedCodec",
    "Schema",
    "Table",
    "TableCodec",
    "encode_chunks",
    "encode_file",
    "encode_file_with_units",
    "encode_frame",
    "encoded_columns",
    "frame_kind",
    "frame_of",
    "identifier_names",
    "propose",
    "propose_from_sample",
    "read_chunks",
    "read_header",
    "read_table",
    "schema_for_unit",
    "write_table",
]
