"""Sums of whole numbers over records, block by block: exact, so the same in any order and however the data are cut.

A mechanism says what one block of rows adds (`BlockSum`). Whoever holds the records calls it: `RowSums` for rows in
memory, an engine for partitions. Neither draws noise.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

Totals = tuple[NDArray[np.int64], ...]


class BlockSum(Protocol):
    """What each record adds to a few arrays of whole numbers. It can be pickled, and holds no record.

    What a record adds depends on that record alone, never on the block it stands in. A sum that is computed by PyTorch
    says so by `tensors = True`, and is then added only by workers whose PyTorch rounds alike.
    """

    @property
    def labels(self) -> bool:
        """Whether `add` needs labels."""
        ...

    def zeros(self) -> Totals:
        """Arrays of int64 to add to, all zero."""
        ...

    def add(self, totals: Totals, rows: NDArray[np.float64], labels: NDArray[np.int64] | None) -> None:
        """Add a block of rows, of shape (records, columns), to `totals`, in place."""
        ...


BLOCK = 1 << 15
"""Rows of a block: with ten columns their cells stay in a core's second cache."""


class RowSums:
    """`sums` for records that are held in memory; whoever inherits has `count`, `rows(indices)`, `labels(indices)`."""

    __slots__ = ()

    def sums(self: Any, summand: BlockSum) -> Totals:
        """Σ of what `summand` adds, over all records."""
        totals = summand.zeros()
        for start in range(0, self.count, BLOCK):
            taken = np.arange(start, min(start + BLOCK, self.count))
            summand.add(totals, self.rows(taken), self.labels(taken) if summand.labels else None)
        return totals


def add_totals(totals: Totals, more: Totals) -> None:
    """Add `more` to `totals`, in place; both come from one `BlockSum`."""
    for total, part in zip(totals, more, strict=True):
        total += part
