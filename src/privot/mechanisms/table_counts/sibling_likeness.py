"""Sums that say how alike the children of one parent are, column by column; a function of one parent's row at a time.

For a column with an order every group has a rank r in [−1, 1], made from released counts; a parent adds the mean of
r·r′ over pairs of its children. For a column without an order it adds the share of such pairs that lie in one group.
Parents with fewer than two children add nothing, and the others are counted. No noise is added here.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from privot.common.block_sums import Totals
from privot.guarantee import Adjacency
from privot.mechanisms.table_counts.cell_axes import LABEL, Axis
from privot.mechanisms.table_counts.cell_grouping import nearest_counts
from privot.mechanisms.table_counts.row_views import ChildView

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
PARTS = 1 << 12
"""What a parent adds is cut, towards 0, to a whole number of such parts."""
_BLOCK = 1 << 12
_UP = 1.0 + 1e-12


def columns_of(view: ChildView) -> int:
    """How many columns of a child are looked at: its own, and its label."""
    return view.width + (view.classes is not None)


def likeness_sensitivity(view: ChildView, adjacency: Adjacency) -> float:
    """How far one parent moves the vector of `SiblingSums`, in whole units: √(columns + 1), replaced twice that.

    Formal guarantee: each entry that a parent adds is a mean of products of two numbers in [−1, 1], a share, or 1, so
    it lies in [−1, 1] however many children take part; cutting it towards 0 makes none larger, and it is clamped. The
    number of children does not enter.
    """
    return math.sqrt(columns_of(view) + 1) * (1.0 if adjacency is Adjacency.ADD_REMOVE else 2.0) * _UP


def ranks_of(counts: Floats, groups: Ints) -> Floats:
    """The rank of every group of an ordered column, in [−1, 1]: the middle of its place among the noisy `counts`.

    >>> ranks_of(np.array([1.0, 1.0, 2.0]), np.array([0, 0, 1]))
    array([-0.5,  0.5])
    """
    mass = np.bincount(groups, nearest_counts(np.asarray(counts, dtype=np.float64)))
    total = max(float(mass.sum()), 1e-300)
    out: Floats = np.clip(2.0 * (np.cumsum(mass) - 0.5 * mass) / total - 1.0, -1.0, 1.0)
    return out


@dataclass(frozen=True, eq=False)
class SiblingSums:
    """Σ over parents of one vector, in whole parts: how alike children are in every column, and 1 if there are two.

    `axes` are the child's own columns, and its label where there is one, with cells sent to groups; `ranks` are the
    ranks of the groups of each, in whole parts, or None for a column without an order.
    """

    view: ChildView
    axes: tuple[Axis, ...]
    ranks: tuple[tuple[int, ...] | None, ...]
    labels: bool = False

    def zeros(self) -> Totals:
        """One array, a place for each column and one for the number of parents."""
        return (np.zeros(len(self.axes) + 1, dtype=np.int64),)

    def add(self, totals: Totals, rows: Floats, labels: Ints | None) -> None:
        """Add one block of parents."""
        for start in range(0, len(rows), _BLOCK):
            totals[0][:] += self.of_parents(rows[start : start + _BLOCK]).sum(axis=0)

    def of_parents(self, rows: Floats) -> Ints:
        """What each parent adds, (parents, columns + 1), every entry from −`PARTS` to `PARTS`."""
        filled = self.view.filled(rows)
        children, of_child = self.view.records(rows)
        owner = np.repeat(np.arange(len(rows)), filled)
        several = filled >= 2
        pairs = np.where(several, filled * (filled - 1), 1)
        out = np.zeros((len(rows), len(self.axes) + 1), dtype=np.int64)
        out[:, -1] = np.where(several, PARTS, 0)
        for place, (axis, ranks) in enumerate(zip(self.axes, self.ranks, strict=True)):
            cell = axis.index(children, of_child if axis.start == LABEL else None)
            if ranks is None:
                held = np.bincount(owner * axis.size + cell, minlength=len(rows) * axis.size)
                held = held.reshape(len(rows), axis.size)
                alike = (held * (held - 1)).sum(axis=1) * PARTS
            else:
                # whole numbers: (Σr)² − Σr² is the sum of r·r′ over ordered pairs, without rounding
                rank = np.clip(np.asarray(ranks, dtype=np.int64), -PARTS, PARTS)[cell]
                total, square = np.zeros(len(rows), dtype=np.int64), np.zeros(len(rows), dtype=np.int64)
                np.add.at(total, owner, rank)
                np.add.at(square, owner, rank * rank)
                alike = np.trunc((total * total - square) / PARTS).astype(np.int64)
            mean = np.trunc(alike / pairs).astype(np.int64)
            out[:, place] = np.where(several, np.clip(mean, -PARTS, PARTS), 0)
        return out
