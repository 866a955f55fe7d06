"""The one bounded way to open a file that another party wrote: size after unpacking, depth, counts, no links.

Everything here refuses in one sentence (`DataError`), before memory is taken for what a header claims. Arrays and
archives are in `privot.opening.archives`, Parquet in `privot.opening.parquet`; they are imported where they are needed.
The limits are listed in docs/reference/opening.md.
"""

from privot.opening.json_toml import parse_json, read_json, read_text
from privot.opening.plain_files import read_bytes

__all__ = [
    "parse_json",
    "read_bytes",
    "read_json",
    "read_text",
]
