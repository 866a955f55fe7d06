"""What one table sees of rows that hold a parent with its children side by side; a function of one row at a time.

A row of related tables holds a parent's coordinates, its label if it has one, how many children it has in each table,
and so many slots of coordinates, of which the first ones are filled. A view makes the records of one table of it: one
per row for the parents, at most `most` per row for a table of children.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from privot.common import arguments
from privot.common.block_sums import BlockSum, Totals

Floats = NDArray[np.float64]
Seen = tuple[Floats, NDArray[np.int64] | None]
_RECORDS = 1 << 17
"""Records of a view that are made at once, at most."""


@dataclass(frozen=True)
class ParentView:
    """The first `width` coordinates of every row, and the coordinate `label` as its label, if there is one."""

    width: int
    label: int | None = None
    classes: int | None = None

    @property
    def most(self) -> int:
        """How many records one row can make."""
        return 1

    @property
    def dim(self) -> int:
        """How many coordinates a record of the view has."""
        return self.width

    def records(self, rows: Floats) -> Seen:
        """One record per row."""
        return rows[:, : self.width], None if self.label is None else _labels(rows[:, self.label], self.classes)


@dataclass(frozen=True)
class ChildView:
    """A record for every filled slot: the first `context` coordinates of its row, then the `width` of the slot.

    There are `most` slots, from coordinate `start` on, each with one more coordinate for a label where there are
    `classes`. The coordinate `count`, times `most`, says how many of them are filled.
    """

    context: int
    count: int
    start: int
    width: int
    most: int
    classes: int | None = None

    def __post_init__(self) -> None:
        arguments.whole("The number of slots", self.most, 1)

    @property
    def dim(self) -> int:
        """How many coordinates a record of the view has."""
        return self.context + self.width

    @property
    def slot(self) -> int:
        """Coordinates of one slot."""
        return self.width + (self.classes is not None)

    def filled(self, rows: Floats) -> NDArray[np.int64]:
        """How many slots of every row are filled: from 0 to `most`, whatever the row holds."""
        said = np.clip(np.nan_to_num(rows[:, self.count]), 0.0, 1.0)
        return np.rint(said * self.most).astype(np.int64)

    def records(self, rows: Floats) -> Seen:
        """At most `most` records per row."""
        filled = self.filled(rows)
        slots = rows[:, self.start : self.start + self.most * self.slot].reshape(len(rows), self.most, self.slot)
        there = np.arange(self.most)[None, :] < filled[:, None]
        own, context = slots[there], np.repeat(rows[:, : self.context], filled, axis=0)
        labels = None if self.classes is None else _labels(own[:, self.width], self.classes)
        return np.concatenate([context, own[:, : self.width]], axis=1), labels


RowView = ParentView | ChildView


def _labels(coordinates: Floats, classes: int | None) -> NDArray[np.int64]:
    """Labels from 0 to `classes` − 1, whatever the coordinates are."""
    return np.rint(np.clip(np.nan_to_num(coordinates), 0.0, (classes or 1) - 1.0)).astype(np.int64)


@dataclass(frozen=True)
class ViewedSums:
    """What `summand` adds up, over the records that `view` makes of rows."""

    summand: BlockSum
    view: RowView
    labels: bool = False

    def zeros(self) -> Totals:
        """Those of the summand."""
        return self.summand.zeros()

    def add(self, totals: Totals, rows: Floats, labels: NDArray[np.int64] | None) -> None:
        """Add the records of one block of rows."""
        for part in self._parts(rows):
            made, own = self.view.records(part)
            self.summand.add(totals, made, own if self.summand.labels else None)

    def _parts(self, rows: Floats) -> Iterator[Floats]:
        length = max(_RECORDS // self.view.most, 1)
        for start in range(0, len(rows), length):
            yield rows[start : start + length]
