"""Public maps from a record to one of finitely many cells; each is total, so every record lands in exactly one.

An axis reads one column of a table from the vault's rows. Two layouts of rows are understood: *compact*, one
coordinate per column (a number in [0, 1], a category's place, or −1 for a missing number), and *wide*, where a category
is one-hot and a number that may be missing is followed by two indicators (present, missing).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privot.common import arguments
from privot.errors import UsageError

LABEL = -1
"""As the start of an axis: the labels, not a column of the rows."""


@dataclass(frozen=True)
class Axis:
    """Cells of one column: `edges` cut a number into len(edges) + 1 cells, `missing` adds one more at the end.

    Without edges the coordinate (or the largest of `width` coordinates) names a category from 0 to `cells` − 1.
    `groups` then sends each cell to a coarser one. `ordered` says whether neighbouring cells are alike.
    """

    start: int
    cells: int
    edges: tuple[float, ...] | None = None
    width: int = 1
    missing: bool = False
    ordered: bool = False
    groups: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        if self.start != LABEL:
            arguments.whole("The start of an axis", self.start, 0)
        arguments.whole("The number of cells", self.cells, 1)
        arguments.whole("The width of an axis", self.width, 1)
        if self.edges is not None:
            cuts = np.asarray(self.edges, dtype=np.float64)
            if not np.isfinite(cuts).all() or (np.diff(cuts) <= 0).any():
                raise UsageError("The edges of an axis must be finite and rising.")
            if self.cells != len(self.edges) + 1 + self.missing:
                raise UsageError("An axis has one cell more than edges, and one for missing values where allowed.")
            if self.width != 1 and not (self.missing and self.width == 3):
                raise UsageError("An axis of numbers has width 1, or 3 where values may be missing.")
        elif self.width not in (1, self.cells):
            raise UsageError("An axis of categories has width 1, or one coordinate per category.")
        if self.groups is not None and (
            len(self.groups) != self.cells or set(self.groups) != set(range(max(self.groups) + 1))
        ):
            raise UsageError("Groups name a group for every cell, and are numbered from 0 without gaps.")

    @property
    def size(self) -> int:
        """How many cells (or groups of them) there are."""
        return self.cells if self.groups is None else max(self.groups) + 1

    def grouped(self, groups: NDArray[np.int64]) -> Axis:
        """The same axis, with its cells sent to `groups`."""
        return replace(self, groups=tuple(np.asarray(groups, dtype=np.int64).tolist()))

    def index(self, rows: NDArray[np.float64], labels: NDArray[np.int64] | None) -> NDArray[np.int64]:
        """The cell of every row, from 0 to `size` − 1, whatever the row holds."""
        cell: NDArray[Any]
        if self.start == LABEL:
            if labels is None:
                raise UsageError("An axis of labels needs labels.")
            cell = labels
        elif self.edges is not None:
            value = rows[:, self.start]
            cell = np.searchsorted(np.asarray(self.edges, dtype=np.float64), value, side="right")
            if self.missing:
                gone = value < 0.0 if self.width == 1 else rows[:, self.start + 2] > rows[:, self.start + 1]
                cell = np.where(gone, self.cells - 1, cell)
        elif self.width > 1:
            cell = np.argmax(rows[:, self.start : self.start + self.width], axis=1)
        else:
            cell = np.rint(np.clip(np.nan_to_num(rows[:, self.start]), 0.0, self.cells - 1.0))
        out = np.clip(cell, 0, self.cells - 1).astype(np.int64)
        return out if self.groups is None else np.asarray(self.groups, dtype=np.int64)[out]
