"""Exact counts of records in the cells of many marginals, all of them in one pass over the rows; it adds no noise."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from privot.common.block_sums import Totals
from privot.mechanisms.table_counts.cell_axes import LABEL, Axis


@dataclass(frozen=True)
class CellCounts:
    """The counts of every marginal in `sets` (tuples of places in `axes`), each flat in C order.

    The cell of a row is found once per axis, not once per marginal. A marginal's cell is then one combined code,
    (c₁·s₂ + c₂)·s₃ + c₃ for sizes s, and its counts are one histogram of the codes of a block: no encoded table is
    kept, and what is touched stays in the cache.
    """

    axes: tuple[Axis, ...]
    sets: tuple[tuple[int, ...], ...]

    @property
    def labels(self) -> bool:
        """Whether a marginal has an axis of labels."""
        return any(self.axes[place].start == LABEL for places in self.sets for place in places)

    def zeros(self) -> Totals:
        """One array per marginal, as long as it has cells."""
        return tuple(
            np.zeros(math.prod(self.axes[place].size for place in places), dtype=np.int64) for places in self.sets
        )

    def add(self, totals: Totals, rows: NDArray[np.float64], labels: NDArray[np.int64] | None) -> None:
        """Count one block of rows."""
        used = sorted({place for places in self.sets for place in places})
        cells = {place: self.axes[place].index(rows, labels) for place in used}
        code = np.empty(len(rows), dtype=np.int64)
        for total, places in zip(totals, self.sets, strict=True):
            first, *rest = places
            code[:] = cells[first]
            for place in rest:
                code *= self.axes[place].size
                code += cells[place]
            total += np.bincount(code, minlength=total.size)


def merge_cells(
    counts: NDArray[np.int64], shape: tuple[int, ...], groups: tuple[NDArray[np.int64] | None, ...]
) -> NDArray[np.int64]:
    """Counts over groups of cells, from `counts` over the cells of a table of `shape`, flat; None keeps an axis.

    Exact, and the same as counting the records over the groups: a group holds the records of its cells.
    """
    table = counts.reshape(shape)
    for axis, group in enumerate(groups):
        if group is not None:
            merged = np.zeros((int(group.max()) + 1, *np.delete(table.shape, axis)), dtype=np.int64)
            np.add.at(merged, group, np.moveaxis(table, axis, 0))
            table = np.moveaxis(merged, 0, axis)
    return table.ravel()
