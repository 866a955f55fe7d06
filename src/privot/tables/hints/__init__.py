"""Public documents about a table (SQL definitions, data dictionaries, maps of dtypes) as hints for a schema.

None of them is the private table: what is read here is published in the schema.
"""

from privot.tables.hints.dictionaries import Hints, merged_hints, read_dictionary, read_dtypes
from privot.tables.hints.sql_ddl import read_ddl

__all__ = ["Hints", "merged_hints", "read_ddl", "read_dictionary", "read_dtypes"]
