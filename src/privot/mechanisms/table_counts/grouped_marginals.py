"""Releases a table's fine one-way marginals, then its coarse pairs, for one charge; the second rests on the first.

First every column's fine cells are counted (by class, where there are labels). From those noisy counts a public rule
merges cells; then every pair of columns is counted over the merged cells. That is the adaptive composition of two
Gaussian mechanisms, charged together before either runs.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privot.accounting.events import Composed, Event
from privot.errors import UsageError
from privot.guarantee import Standing
from privot.mechanisms.mechanism import Facts, Needs, Records
from privot.mechanisms.table_counts.cell_axes import LABEL, Axis
from privot.mechanisms.table_counts.cell_counts import CellCounts, merge_cells
from privot.mechanisms.table_counts.cell_grouping import GroupRule
from privot.mechanisms.table_counts.marginals import Marginals
from privot.mechanisms.table_counts.pair_weights import WeightRule, label_association
from privot.noise import NoiseSource
from privot.noise.noisy_counts import check_counting_sigma

DEFAULT_RULE = GroupRule()
DEFAULT_WEIGHTS = WeightRule()
MAX_PAIR_CELLS = 1 << 22
"""Cells of pairs before grouping up to which they are counted ahead, in the pass of the fine counts: 32 MiB."""


@dataclass(frozen=True)
class GroupedMarginals:
    """`axes` are the columns; `classes` the number of labels (None without); see `fine` and `pairs` for the two parts.

    `sigma` = (σ of the fine counts, σ of the pairs). `by_class` counts the pairs by class too. With labels, `weighing`
    gives less noise to pairs of columns that inform about the label, and more to others; None treats all alike.

    The value holds `fine` and `pairs` (noisy counts, one long array each) and `groups` (the group of every fine cell,
    a function of `fine`). Formal guarantees: those of `Marginals`, twice. Groups and weights of the second part are
    functions of the first part's noisy counts; its sensitivity is not: Σ w² is the number of pairs, always.
    """

    axes: tuple[Axis, ...]
    classes: int | None
    sigma: tuple[float, float]
    by_class: bool = False
    rule: GroupRule = DEFAULT_RULE
    weighing: WeightRule | None = DEFAULT_WEIGHTS
    steps: int = 1
    seed: int | None = None

    def __post_init__(self) -> None:
        if self.steps != 1 or self.seed is not None:
            raise UsageError("Marginals are released once and draw nothing public: leave out steps and seed.")
        if self.by_class and self.classes is None:
            raise UsageError("Pairs can be counted by class only where there are labels.")
        if any(axis.start == LABEL or axis.groups is not None for axis in self.axes):
            raise UsageError("The axes are the ungrouped columns; labels are stated by their number of classes.")
        # both parts refuse now what they cannot do, for the largest number of groups, and not while they run
        self.fine()
        widest = self._pairs(self._widest())
        if widest is not None and self.weighing is not None:
            # no pair can be given more than the whole
            check_counting_sigma(self.sigma[1] / widest.norm)

    def fine(self) -> Marginals:
        """Every column's cells, by class where there are labels."""
        labels = self._labels()
        sets = tuple((i, len(self.axes)) if labels else (i,) for i in range(len(self.axes)))
        return Marginals((*self.axes, *labels), sets, self.sigma[0])

    def pairs(self, groups: NDArray[np.int64], weights: tuple[float, ...] | None = None) -> Marginals | None:
        """Every pair of columns over grouped cells, by class if asked; None where there is but one column."""
        return self._pairs(self.grouped_axes(groups), weights)

    def grouped_axes(self, groups: NDArray[np.int64]) -> tuple[Axis, ...]:
        """The columns with their cells sent to `groups`."""
        parts = self._by_axis(np.asarray(groups))
        return tuple(axis.grouped(part) for axis, part in zip(self.axes, parts, strict=True))

    def _by_axis(self, groups: NDArray[np.int64]) -> list[NDArray[np.int64]]:
        return np.split(groups, np.cumsum([axis.cells for axis in self.axes])[:-1])

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
        return Needs(labels=self.classes is not None, sums_only=True)

    @property
    def standing(self) -> Standing:
        """PROVEN: adaptive composition of Gaussian mechanisms."""
        return Standing.PROVEN

    def identity(self) -> bytes:
        """Every choice, to the last bit."""
        said = (self.axes, self.classes, self.sigma, self.by_class, self.rule, self.weighing, MAX_PAIR_CELLS)
        return repr(said).encode()

    def event(self, facts: Facts) -> Event:
        """Both parts, one after the other."""
        pairs = self._pairs(self._widest())
        fine = self.fine().event(facts)
        return fine if pairs is None else Composed((fine, pairs.event(facts)))

    def run(
        self, records: Records, noise: NoiseSource, event: Event, step: int
    ) -> tuple[Mapping[str, NDArray[Any]], Mapping[str, Any]]:
        """Fine counts, groups and pair counts."""
        first, *rest = event.events if isinstance(event, Composed) else (event,)
        fine = self.fine()
        if first != fine.event(records.facts):
            raise UsageError("Marginals run on the event they made.")
        ahead = self._pairs_of_cells()
        counted = records.sums(self.summands(records.facts)[0])
        counts, facts = fine.noisy(counted[: len(fine.sets)], noise)
        # from here to the noise of the pairs nothing but released counts decides
        groups = self.groups(counts)
        pairs = self.pairs(groups, self.weights(counts, groups))
        value: dict[str, NDArray[Any]] = {"fine": counts, "groups": groups}
        public: dict[str, Any] = {"mechanism": "grouped marginals", "classes": self.classes, "by_class": self.by_class}
        public["fine"] = dict(facts)
        if pairs is not None:
            if rest[0] != pairs.event(records.facts):
                raise UsageError("Marginals run on the event they made.")
            if ahead:
                merged = self._merged(ahead, counted[len(fine.sets) :], groups)
                value["pairs"], of_pairs = pairs.noisy(merged, noise)
            else:
                value["pairs"], of_pairs = pairs.run(records, noise, rest[0], 0)
            public["pairs"] = dict(of_pairs)
        return value, public

    def summands(self, facts: Facts) -> list[CellCounts]:
        """What each pass over the records adds up: one where the pairs can be counted ahead, else two."""
        ahead, axes = self._pairs_of_cells(), (*self.axes, *self._labels())
        first = CellCounts(axes, (*self.fine().sets, *ahead))
        pairs = self._pairs(self._widest())
        return [first] if ahead or pairs is None else [first, CellCounts(pairs.axes, pairs.sets)]

    def _pairs_of_cells(self) -> tuple[tuple[int, ...], ...]:
        """The pairs over ungrouped cells, to be counted together with the fine counts; none where they are too many.

        Merged afterwards (`merge_cells`) they are the counts over groups, which saves a pass over the records.
        """
        sizes = [axis.size for axis in (*self.axes, *self._labels())]
        sets: tuple[tuple[int, ...], ...] = tuple(combinations(range(len(self.axes)), 2))
        if self.by_class:
            sets = tuple((*pair, len(self.axes)) for pair in sets)
        cells = sum(math.prod(sizes[place] for place in places) for places in sets)
        return sets if cells <= MAX_PAIR_CELLS else ()

    def _merged(
        self, sets: tuple[tuple[int, ...], ...], counts: Sequence[NDArray[np.int64]], groups: NDArray[np.int64]
    ) -> list[NDArray[np.int64]]:
        """Counts of pairs over `groups`, from those over cells."""
        axes = (*self.axes, *self._labels())
        of_axis: list[NDArray[np.int64] | None] = [*self._by_axis(groups), None]
        return [
            merge_cells(part, tuple(axes[place].size for place in places), tuple(of_axis[place] for place in places))
            for places, part in zip(sets, counts, strict=True)
        ]

    def groups(self, counts: NDArray[np.float64]) -> NDArray[np.int64]:
        """The group of every fine cell, axis after axis, by the rule; a function of noisy counts alone."""
        fine = self.fine()
        classes = self.classes or 1
        parts = np.split(counts, np.cumsum(fine.lengths)[:-1])
        out = [
            self.rule.groups(part.reshape(-1, classes).sum(axis=1), scale * classes**0.5, axis.ordered, axis.missing)
            for part, scale, axis in zip(parts, fine.scales, self.axes, strict=True)
        ]
        return np.concatenate(out)

    def weights(self, counts: NDArray[np.float64], groups: NDArray[np.int64]) -> tuple[float, ...] | None:
        """The weight of every pair, by the rule; a function of noisy counts alone. None: all alike."""
        if self.weighing is None or self.classes is None or len(self.axes) < 3:
            return None
        fine = self.fine()
        found = []
        parts = np.split(counts, np.cumsum(fine.lengths)[:-1])
        for part, scale, of_axis in zip(parts, fine.scales, self._by_axis(groups), strict=True):
            cells = part.reshape(-1, self.classes)
            merged = np.zeros((int(of_axis.max()) + 1, self.classes))
            np.add.at(merged, of_axis, cells)
            found.append(label_association(merged, scale * np.sqrt(np.bincount(of_axis))[:, None]))
        return self.weighing.weights(np.array(found))
