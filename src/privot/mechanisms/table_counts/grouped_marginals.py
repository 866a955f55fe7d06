"""Releases a table's fine one-way marginals, then its coarse ones by class, then its pairs, for one charge.

First every column's fine cells are counted. From those noisy counts a public rule merges cells. Where there are labels,
every column's merged cells are counted by class; at last every pair of columns is counted over the merged cells. That
is the adaptive composition of Gaussian mechanisms, charged together before any runs.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from privot.accounting.events import Composed, Event
from privot.errors import UsageError
from privot.guarantee import Standing
from privot.mechanisms.mechanism import Facts, Needs, Records
from privot.mechanisms.table_counts.cell_axes import LABEL, Axis
from privot.mechanisms.table_counts.cell_counts import CellCounts, merge_cells
from privot.mechanisms.table_counts.cell_grouping import GroupRule, sums_elsewhere
from privot.mechanisms.table_counts.marginals import Marginals, check_once
from privot.mechanisms.table_counts.pair_weights import WeightRule, label_association
from privot.noise import NoiseSource
from privot.noise.noisy_counts import check_counting_sigma

DEFAULT_RULE = GroupRule()
DEFAULT_WEIGHTS = WeightRule()
MAX_PAIR_CELLS = 1 << 22
"""Cells of later parts before grouping up to which they are counted ahead, in the pass of the fine counts: 32 MiB."""


@dataclass(frozen=True)
class GroupedMarginals:
    """`axes` are the columns; `classes` the number of labels (None without); see `fine`, `labelled` and `pairs`.

    `sigma` = (σ of the fine counts, σ of the pairs); `label_sigma` = σ of the merged cells by class. Where there are
    labels and no `label_sigma`, the fine counts themselves are by class. `by_class` counts the pairs by class too. With
    labels, `weighing` gives less noise to pairs of columns that inform about the label, and more to others; None treats
    all alike.

    The value holds `fine`, `labelled` (where there is a `label_sigma`) and `pairs` (noisy counts, one long array each)
    and `groups` (the group of every fine cell, a function of `fine`). Formal guarantees: those of `Marginals`, once per
    part. Groups and weights of a later part are functions of the earlier parts' noisy counts; its sensitivity is not:
    every record stands in one merged cell per column, whatever the groups, and Σ w² is the number of pairs, always.
    """

    stable_name: ClassVar[str] = "privot.mechanisms.table_counts.grouped_marginals.GroupedMarginals"

    axes: tuple[Axis, ...]
    classes: int | None
    sigma: tuple[float, float]
    by_class: bool = False
    rule: GroupRule = DEFAULT_RULE
    weighing: WeightRule | None = DEFAULT_WEIGHTS
    label_sigma: float | None = None
    steps: int = 1
    seed: int | None = None

    def __post_init__(self) -> None:
        check_once(self.steps, self.seed)
        if self.by_class and self.classes is None:
            raise UsageError("Pairs can be counted by class only where there are labels.")
        if self.label_sigma is not None and self.classes is None:
            raise UsageError("Columns can be counted by class only where there are labels.")
        if any(axis.start == LABEL or axis.groups is not None for axis in self.axes):
            raise UsageError("The axes are the ungrouped columns; labels are stated by their number of classes.")
        # all parts refuse now what they cannot do, for the largest number of groups, and not while they run
        self.fine()
        self._labelled(self._widest())
        widest = self._pairs(self._widest())
        if widest is not None and self.weighing is not None:
            # no pair can be given more than the whole
            check_counting_sigma(self.sigma[1] / widest.norm)
            check_counting_sigma(self.sigma[1] / self.weighing.lowest)

    def fine(self) -> Marginals:
        """Every column's cells; by class where there are labels that `labelled` does not count."""
        if self.classes is None or self.label_sigma is not None:
            return Marginals(self.axes, tuple((i,) for i in range(len(self.axes))), self.sigma[0])
        return self._with_labels(self.axes, self.sigma[0])

    def labelled(self, groups: NDArray[np.int64]) -> Marginals | None:
        """Every column's merged cells by class; None without a `label_sigma`."""
        return self._labelled(self.grouped_axes(groups))

    def pairs(self, groups: NDArray[np.int64], weights: tuple[float, ...] | None = None) -> Marginals | None:
        """Every pair of columns over grouped cells, by class if asked; None where there is but one column."""
        return self._pairs(self.grouped_axes(groups), weights)

    def grouped_axes(self, groups: NDArray[np.int64]) -> tuple[Axis, ...]:
        """The columns with their cells sent to `groups`."""
        parts = self.by_axis(np.asarray(groups))
        return tuple(axis.grouped(part) for axis, part in zip(self.axes, parts, strict=True))

    def by_axis(self, groups: NDArray[np.int64]) -> list[NDArray[np.int64]]:
        """The groups of each column's cells."""
        return np.split(groups, np.cumsum([axis.cells for axis in self.axes])[:-1])

    @property
    def _fine_classes(self) -> int:
        """How many classes the fine counts tell apart."""
        return 1 if self.classes is None or self.label_sigma is not None else self.classes

    @property
    def fine_deviation(self) -> float:
        """The deviation of the noise of a fine cell, over all classes."""
        return float(self.sigma[0] * self._fine_classes**0.5)

    def _labelled(self, axes: tuple[Axis, ...]) -> Marginals | None:
        return None if self.label_sigma is None else self._with_labels(axes, self.label_sigma)

    def _with_labels(self, axes: tuple[Axis, ...], sigma: float) -> Marginals:
        return Marginals((*axes, *self._labels()), tuple((i, len(axes)) for i in range(len(axes))), sigma)

    def _labels(self) -> tuple[Axis, ...]:
        return () if self.classes is None else (Axis(LABEL, self.classes),)

    def _widest(self) -> tuple[Axis, ...]:
        """The axes with as many groups as the rule could make."""
        most = self.rule.bound
        return tuple(axis.grouped(np.minimum(np.arange(axis.cells), most - 1)) for axis in self.axes)

    def _pairs(self, axes: tuple[Axis, ...], weights: tuple[float, ...] | None = None) -> Marginals | None:
        sets: tuple[tuple[int, ...], ...] = tuple(combinations(range(len(axes)), 2))
        if not sets:
            return None
        if self.by_class:
            sets = tuple((*pair, len(axes)) for pair in sets)
        return Marginals((*axes, *(self._labels() if self.by_class else ())), sets, self.sigma[1], weights, len(sets))

    @property
    def needs(self) -> Needs:
        """Labels, where classes are stated."""
        return Needs(labels=self.classes is not None, sums_only=True, shareable=True)

    @property
    def standing(self) -> Standing:
        """PROVEN: adaptive composition of Gaussian mechanisms."""
        return Standing.PROVEN

    def identity(self) -> bytes:
        """Every choice, to the last bit."""
        said = (self.axes, self.classes, self.sigma, self.label_sigma, self.by_class, self.rule, self.weighing)
        return repr((*said, MAX_PAIR_CELLS)).encode()

    def event(self, facts: Facts) -> Event:
        """All parts, one after another."""
        widest = self._widest()
        parts = (self.fine(), self._labelled(widest), self._pairs(widest))
        events = tuple(part.event(facts) for part in parts if part is not None)
        return events[0] if len(events) == 1 else Composed(events)

    def run(
        self, records: Records, noise: NoiseSource, event: Event, step: int
    ) -> tuple[Mapping[str, NDArray[Any]], Mapping[str, Any]]:
        """Fine counts, groups, counts by class and pair counts."""
        events = list(event.events if isinstance(event, Composed) else (event,))
        fine = self.fine()
        if events.pop(0) != fine.event(records.facts):
            raise UsageError("Marginals run on the event they made.")
        by_label, of_pairs = self._ahead()
        counted = list(records.sums(self.summands(records.facts)[0]))
        counts, facts = fine.noisy([counted.pop(0) for _ in fine.sets], noise)
        # from here on groups and weights are made from released counts, and nothing else
        groups = self.groups(counts)
        value: dict[str, NDArray[Any]] = {"fine": counts, "groups": groups}
        public: dict[str, Any] = {"mechanism": "grouped marginals", "classes": self.classes, "by_class": self.by_class}
        public["fine"] = dict(facts)

        def release(part: Marginals, sets: tuple[tuple[int, ...], ...], paid: Event) -> tuple[NDArray[Any], Any]:
            """A later part: from what was counted ahead over `sets` of cells, or by a pass of its own."""
            if not sets:
                return part.run(records, noise, paid, 0)
            if paid != part.event(records.facts):
                raise UsageError("Marginals run on the event they made.")
            return part.noisy(self._merged(sets, [counted.pop(0) for _ in sets], groups), noise)

        labelled = self.labelled(groups)
        if labelled is not None:
            value["labelled"], said = release(labelled, by_label, events.pop(0))
            public["labelled"] = dict(said)
        pairs = self.pairs(groups, self.weights(value))
        if pairs is not None:
            value["pairs"], said = release(pairs, of_pairs, events.pop(0))
            public["pairs"] = dict(said)
        return value, public

    def summands(self, facts: Facts) -> list[CellCounts]:
        """What each pass over the records adds up: one where later parts can be counted ahead, else one for each."""
        by_label, of_pairs = self._ahead()
        first = CellCounts((*self.axes, *self._labels()), (*self.fine().sets, *by_label, *of_pairs))
        widest = self._widest()
        parts = () if by_label or of_pairs else (self._labelled(widest), self._pairs(widest))
        return [first, *[CellCounts(part.axes, part.sets) for part in parts if part is not None]]

    def _ahead(self) -> tuple[tuple[tuple[int, ...], ...], tuple[tuple[int, ...], ...]]:
        """Columns by class and pairs over ungrouped cells, to be counted together with the fine counts.

        Merged afterwards (`merge_cells`) they are the counts over groups, which saves a pass over the records for each
        of the two. None where they have too many cells.
        """
        sizes, label = [axis.size for axis in (*self.axes, *self._labels())], len(self.axes)
        by_label: tuple[tuple[int, ...], ...] = ()
        if self.label_sigma is not None:
            by_label = tuple((place, label) for place in range(label))
        of_pairs: tuple[tuple[int, ...], ...] = tuple(combinations(range(label), 2))
        if self.by_class:
            of_pairs = tuple((*pair, label) for pair in of_pairs)
        cells = sum(math.prod(sizes[place] for place in places) for places in (*by_label, *of_pairs))
        return (by_label, of_pairs) if cells <= MAX_PAIR_CELLS else ((), ())

    def _merged(
        self, sets: tuple[tuple[int, ...], ...], counts: Sequence[NDArray[np.int64]], groups: NDArray[np.int64]
    ) -> list[NDArray[np.int64]]:
        """Counts over `groups`, from those over cells; labels are not grouped."""
        axes = (*self.axes, *self._labels())
        of_axis: list[NDArray[np.int64] | None] = [*self.by_axis(groups), None]
        return [
            merge_cells(part, tuple(axes[place].size for place in places), tuple(of_axis[place] for place in places))
            for places, part in zip(sets, counts, strict=True)
        ]

    def groups(self, counts: NDArray[np.float64]) -> NDArray[np.int64]:
        """The group of every fine cell, axis after axis, by the rule; a function of noisy counts alone."""
        fine, classes = self.fine(), self._fine_classes
        parts = np.split(counts, np.cumsum(fine.lengths)[:-1])
        pair_sd = self.sigma[1] if len(self.axes) > 1 else 0.0
        tables = [part.reshape(-1, classes).sum(axis=1) for part in parts]
        spreads = [scale * classes**0.5 for scale in fine.scales]
        whole = sums_elsewhere(tables, spreads)
        out = [
            self.rule.groups(table, spread, axis.ordered, axis.missing, pair_sd, records)
            for table, spread, axis, records in zip(tables, spreads, self.axes, whole, strict=True)
        ]
        return np.concatenate(out)

    def weights(self, value: Mapping[str, NDArray[Any]]) -> tuple[float, ...] | None:
        """The weight of every pair, by the rule; a function of the noisy counts so far. None: all alike."""
        if self.weighing is None or self.classes is None or len(self.axes) < 3:
            return None
        groups = self.by_axis(value["groups"])
        labelled = self.labelled(value["groups"])
        tables = self.fine() if labelled is None else labelled
        parts = np.split(value["fine" if labelled is None else "labelled"], np.cumsum(tables.lengths)[:-1])
        found = []
        for part, scale, of_axis in zip(parts, tables.scales, groups, strict=True):
            merged, cells = part.reshape(-1, self.classes), np.ones(int(of_axis.max()) + 1)
            if labelled is None:
                fine, cells = merged, np.bincount(of_axis).astype(np.float64)
                merged = np.zeros((len(cells), self.classes))
                np.add.at(merged, of_axis, fine)
            found.append(label_association(merged, scale * np.sqrt(cells)[:, None]))
        return self.weighing.weights(np.array(found))
