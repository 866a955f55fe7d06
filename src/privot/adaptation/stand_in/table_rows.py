"""Tables as the rows that networks take: a labelled source, and records whose label is missing; all of it public.

A network sees the wide layout of `privot.tables.TableCodec`, the vault the compact one.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privot.errors import DataError, UsageError
from privot.tables import Table, TableCodec, encode_chunks, encode_file, read_chunks


def labelled_rows(source: Any, codec: TableCodec) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Wide rows and labels of a public table: a `Table`, a mapping of columns, or the path of a file."""
    if codec.schema.label is None:
        raise UsageError("The schema names no label, which is what the classifier predicts: name one.")
    if isinstance(source, str | Path):
        rows, labels = encode_file(source, codec)
    elif isinstance(source, Mapping):
        rows, labels = codec.encode(source if isinstance(source, Table) else Table(source))
    else:
        raise UsageError(f"The source of a table must be a Table or the path of one, got {type(source).__name__}.")
    assert labels is not None
    return rows, labels


def unlabelled_rows(table: Mapping[str, Any], codec: TableCodec, compact: bool = False) -> NDArray[np.float64]:
    """The rows of a table by the columns of `codec` but its label; a label's column is not read if there is one."""
    return _bare(codec).encode(_dropped(table, codec.schema.label), compact)[0]


def unlabelled_file(path: str | Path, codec: TableCodec) -> NDArray[np.float64]:
    """Compact rows of a file as a vault holds them; a label's column is not read if there is one."""
    chunks = (_dropped(chunk, codec.schema.label) for chunk in read_chunks(path))
    return encode_chunks(chunks, _bare(codec), compact=True, name=Path(path).name)[0]


def _bare(codec: TableCodec) -> TableCodec:
    return TableCodec(codec.schema.without_label())


def _dropped(table: Mapping[str, Any], label: str | None) -> Table:
    left = {name: table[name] for name in table if name != label}
    if not left:
        raise DataError("The table has no column besides the label.")
    return Table(left)
