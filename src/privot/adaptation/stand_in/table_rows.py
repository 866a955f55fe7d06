"""Tables as rows of cells, which a linear classifier takes: a labelled source, and records whose label is missing.

Every column is cut into its public cells (`privot.evaluation.schema_axes`). A row has one coordinate per cell: of a
column of categories 1 in the cell it is in; of a column with an order 1 in that cell and in all before it, so that
neighbouring cells share what is learned of them. The vault holds compact rows instead, one coordinate per column.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privot.errors import DataError, UsageError
from privot.evaluation.schema_axes import axes_of
from privot.tables import Table, TableCodec, encode_file
from privot.tables.table_files import encode_chunks, read_chunks
from privot.tables.unit_column import encode_file_with_units


def cell_width(codec: TableCodec) -> int:
    """How many coordinates a row of cells has."""
    return sum(axis.cells for axis in axes_of(codec, compact=True))


def cell_rows(compact: NDArray[np.float64], codec: TableCodec) -> NDArray[np.float32]:
    """Rows of cells from compact ones, of shape (rows, `cell_width`)."""
    parts = []
    for axis in axes_of(codec, compact=True):
        at, cells = axis.index(compact, None)[:, None], np.arange(axis.cells)
        # a missing value has the last cell, and no order
        known = axis.cells - 1 if axis.missing else axis.cells
        before = (cells < at) & (at < known) if axis.ordered else np.zeros((1, axis.cells), dtype=bool)
        parts.append(((cells == at) | before).astype(np.float32))
    return np.concatenate(parts, axis=1)


def labelled_rows(source: Any, codec: TableCodec) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Rows of cells and labels of a public table: a `Table`, a mapping of columns, or the path of a file."""
    if codec.schema.label is None:
        raise UsageError("The schema names no label, which is what the classifier predicts: name one.")
    if isinstance(source, str | Path):
        rows, labels = encode_file(source, codec, compact=True)
    elif isinstance(source, Mapping):
        rows, labels = codec.encode(source if isinstance(source, Table) else Table(source), compact=True)
    else:
        raise UsageError(f"The source of a table must be a Table or the path of one, got {type(source).__name__}.")
    assert labels is not None
    return cell_rows(rows, codec), labels


def unlabelled_rows(table: Mapping[str, Any], codec: TableCodec) -> NDArray[np.float64]:
    """Compact rows of a table by the columns of `codec` but its label, whose column is not read if there is one."""
    return _bare(codec).encode(_dropped(table, codec.schema.label), compact=True)[0]


def unlabelled_file(path: str | Path, codec: TableCodec) -> NDArray[np.float64]:
    """Compact rows of a file as a vault holds them; a label's column is not read if there is one."""
    chunks = (_dropped(chunk, codec.schema.label) for chunk in read_chunks(path))
    return encode_chunks(chunks, _bare(codec), compact=True, name=Path(path).name)[0]


def unlabelled_file_with_units(path: str | Path, codec: TableCodec, unit: str) -> tuple[NDArray[np.float64], list[str]]:
    """The same, and whose each row is by the column `unit`, which is none of the codec's columns."""
    schema, label = codec.schema.without_label(), codec.schema.label
    # a dropped column may be in the file, and nobody reads it
    rows, _, units = encode_file_with_units(path, TableCodec(schema if label is None else schema.dropping(label)), unit)
    return rows, units


def _bare(codec: TableCodec) -> TableCodec:
    return TableCodec(codec.schema.without_label())


def _dropped(table: Mapping[str, Any], label: str | None) -> Table:
    left = {name: table[name] for name in table if name != label}
    if not left:
        raise DataError("The table has no column besides the label.")
    return Table(left)
