"""The cells in which a table's columns are counted, from the schema alone; no record is seen."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from privot.mechanisms.table_counts.cell_axes import Axis
from privot.tables.cell_grid import grid_of
from privot.tables.codec import TableCodec, edges_of


def axes_of(codec: TableCodec, compact: bool = False) -> tuple[Axis, ...]:
    """The fixed fine cells of every column but the label, in the layout of rows that `compact` says.

    Those of a number without a stated scale are even; a release cuts such a number by noisy counts (`grids_of`).
    """
    out, start = [], 0
    for column, width in zip(codec.features, codec.widths, strict=True):
        size = 1 if compact else width
        if column.is_number:
            edges = tuple(float(e) for e in edges_of(column, codec.fine_ends))
            out.append(Axis(start, len(edges) + 1 + column.missing, edges, size, column.missing, ordered=True))
        else:
            cells = len(column.words) + column.missing
            out.append(Axis(start, cells, None, size, column.missing, ordered=column.type == "ordinal"))
        start += size
    return tuple(out)


def grids_of(codec: TableCodec, compact: bool = False) -> tuple[Axis | None, ...]:
    """The fine grids of the columns whose cells a release chooses; None where cells are fixed."""
    edges = [grid_of(column) for column in codec.features]
    cut = with_edges(axes_of(codec, compact), edges)
    return tuple(None if own is None else axis for axis, own in zip(cut, edges, strict=True))


def with_edges(axes: Sequence[Axis], edges: Sequence[NDArray[np.float64] | None]) -> tuple[Axis, ...]:
    """The axes cut at other `edges`; where these are None, as they are."""
    out = []
    for axis, own in zip(axes, edges, strict=True):
        cuts = axis.edges if own is None else tuple(float(e) for e in own)
        out.append(axis if cuts is None else replace(axis, cells=len(cuts) + 1 + axis.missing, edges=cuts))
    return tuple(out)
