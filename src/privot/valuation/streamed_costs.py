"""Label-aware costs of many records, block by block: the kernel of their transport is kept in single precision.

For n records and m validation records the matrix of costs would take 8·n·m bytes, and as much again for its kernel. The
costs are computed twice, in blocks of rows, and only the kernel is kept, in 4·n·m bytes. It sees both sides' records
and no privacy, like `score_by_records`, which is its only caller.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from privot.valuation.labelled_records import Array, Labels
from privot.valuation.relaxed_duals import potential_of_kernel

BLOCK_ENTRIES = 1 << 23
"""Costs in one block: 64 MiB."""
BINS = 1 << 20
"""Bins of the histogram that the median is read from; it is off by at most a bin, a millionth of the largest cost."""
SMALLEST_COLUMN = 1e-30
"""Single precision ends at 1e-38. A target whose kernel is below this floor takes part in no plan: what it would add to
a row is at most the cube root of the floor, 1e-10, times its share."""


@dataclass(frozen=True, eq=False, repr=False)
class StreamedCosts:
    """‖x_i − v_j‖² + L[a_i, b_j] for rows x (n, d), targets v (m, d), their classes a, b and the cost of labels L."""

    x: Array
    v: Array
    own_class: Labels
    target_class: Labels
    label_cost: Array

    def blocks(self) -> Iterator[tuple[slice, Array]]:
        """Consecutive rows and their costs, (rows, m)."""
        # about one point: differences of large squares would lose digits otherwise
        middle = self.v.mean(0)
        v = self.v - middle
        squares = (v * v).sum(1)
        step = max(1, BLOCK_ENTRIES // len(v))
        for start in range(0, len(self.x), step):
            at = slice(start, start + step)
            x = self.x[at] - middle
            cost = x @ v.T
            cost *= -2.0
            cost += (x * x).sum(1)[:, None]
            cost += squares
            np.maximum(cost, 0.0, out=cost)
            cost += self.label_cost[self.own_class[at]][:, self.target_class]
            yield at, cost

    def median(self) -> float:
        """The median cost, to a millionth of an upper bound of all costs."""
        middle = self.v.mean(0)
        far = sum(float(np.sqrt(((side - middle) ** 2).sum(1).max())) for side in (self.x, self.v))
        largest = max(far * far + float(self.label_cost.max()), 1e-300)
        counts = np.zeros(BINS + 1, dtype=np.int64)
        for _, cost in self.blocks():
            cost *= BINS / largest
            counts += np.bincount(np.minimum(cost.ravel().astype(np.int64), BINS), minlength=BINS + 1)
        below = np.cumsum(counts)
        return float((np.searchsorted(below, (below[-1] + 1) // 2) + 0.5) * largest / BINS)

    def potential(self, reg: float, relaxation: float) -> Array:
        """f of the relaxed transport to equal masses on the targets; see `relaxed_duals`."""
        n, m = len(self.x), len(self.v)
        kernel, least = np.empty((n, m), dtype=np.float32), np.empty(n)
        for at, cost in self.blocks():
            least[at] = cost.min(1)
            cost -= least[at, None]
            cost /= -reg
            np.exp(cost.astype(np.float32), out=kernel[at])
        step = max(1, BLOCK_ENTRIES // m)

        def rows_of(u: Array) -> Array:
            small, size = _single(u)
            return np.asarray((kernel @ small).astype(np.float64) * size)

        def columns_of(v: Array) -> Array:
            # blocks add up in double precision: single sums over all rows would lose digits
            small, size = _single(v)
            total = np.zeros(m)
            for start in range(0, n, step):
                total += small[start : start + step] @ kernel[start : start + step]
            return total * size

        share = np.full(m, 1.0 / m)
        return potential_of_kernel(least, rows_of, columns_of, share, reg, relaxation, smallest=SMALLEST_COLUMN)


def _single(u: Array) -> tuple[NDArray[np.float32], float]:
    """`u` over its largest number in single precision, and that number."""
    size = float(u.max())
    return (u / size).astype(np.float32), size
