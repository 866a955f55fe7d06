"""The cells in which a table's columns are counted, from the schema alone; no record is seen."""

from __future__ import annotations

from privot.mechanisms.table_counts.cell_axes import Axis
from privot.tables.codec import TableCodec, edges_of


def axes_of(codec: TableCodec, compact: bool = False) -> tuple[Axis, ...]:
    """The fine cells of every column but the label, in the layout of rows that `compact` says."""
    out, start = [], 0
    for column, width in zip(codec.features, codec.widths, strict=True):
        size = 1 if compact else width
        if column.is_number:
            edges = tuple(float(e) for e in edges_of(column))
            out.append(Axis(start, len(edges) + 1 + column.missing, edges, size, column.missing, ordered=True))
        else:
            cells = len(column.words) + column.missing
            out.append(Axis(start, cells, None, size, column.missing, ordered=column.type == "ordinal"))
        start += size
    return tuple(out)
