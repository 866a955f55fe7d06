"""The one bounded way to open a file that another party wrote: size after unpacking, depth, counts, no links.

Everything here refuses in one sentence (`DataError`), before memory is taken for what a header claims. Arrays and
archives are in `privot.opening.archives`, Parquet in `privot.opening.parquet`; they are imported where they are needed.
The limits are listed in docs/reference/opening.md.
"""

from privot.opening.csv_lines import CsvRows, csv_rows
from privot.opening.json_toml import parse_json, parse_toml, read_json, read_text, read_toml
from privot.opening.limits import (
    MAX_DEPTH,
    MAX_DIGITS,
    MAX_NODES,
    MAX_TEXT,
    Meter,
    max_events,
    max_unpacked,
    set_limits,
    too_large,
)
from privot.opening.plain_files import check_inside, counted, open_file, read_bytes, stays_inside

__all__ = [
    "MAX_DEPTH",
    "MAX_DIGITS",
    "MAX_NODES",
    "MAX_TEXT",
    "CsvRows",
    "Meter",
    "check_inside",
    "counted",
    "csv_rows",
    "max_events",
    "max_unpacked",
    "open_file",
    "parse_json",
    "parse_toml",
    "read_bytes",
    "read_json",
    "read_text",
    "read_toml",
    "set_limits",
    "stays_inside",
    "too_large",
]
