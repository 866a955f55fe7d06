"""Releases a table's fine one-way marginals, then its coarse ones by class, then its pairs, for one charge.

First every column's fine cells are counted. From those noisy counts a public rule merges cells. Where there are labels,
every column's merged cells are counted by class; at last every pair of columns is counted over the merged cells. That
is the adaptive composition of Gaussian mechanisms, charged together before any runs.
"""

from __future__ import annotations

from collections.abc import Mapping
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
from privot.mechanisms.table_counts.cell_grouping import GroupRule
from privot.mechanisms.table_counts.marginals import Marginals
from privot.mechanisms.table_counts.pair_weights import WeightRule, label_association
from privot.noise import NoiseSource
from privot.noise.noisy_counts import check_counting_sigma

DEFAULT_RULE = GroupRule()
DEFAULT_WEIGHTS = WeightRule()


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
        if self.steps != 1 or self.seed is not None:
            raise UsageError("Marginals are released once and draw nothing public: leave out steps and seed.")
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
        parts = self._by_axis(np.asarray(groups))
        return tuple(axis.grouped(part) for axis, part in zip(self.axes, parts, strict=True))

    def _by_axis(self, groups: NDArray[np.int64]) -> list[NDArray[np.int64]]:
        return np.split(groups, np.cumsum([axis.cells for axis in self.axes])[:-1])

    @property
    def _fine_classes(self) -> int:
        """How many classes the fine counts tell apart."""
        return 1 if self.classes is None or self.label_sigma is not None else self.classes

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
        return Needs(labels=self.classes is not None)

    @property
    def standing(self) -> Standing:
        """PROVEN: adaptive composition of Gaussian mechanisms."""
        return Standing.PROVEN

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
        counts, facts = self.fine().run(records, noise, events.pop(0), 0)
        # from here on groups and weights are made from released counts, and nothing else
        groups = self.groups(counts)
        value: dict[str, NDArray[Any]] = {"fine": counts, "groups": groups}
        public: dict[str, Any] = {"mechanism": "grouped marginals", "classes": self.classes, "by_class": self.by_class}
        public["fine"] = dict(facts)
        labelled = self.labelled(groups)
        if labelled is not None:
            value["labelled"], of_labelled = labelled.run(records, noise, events.pop(0), 0)
            public["labelled"] = dict(of_labelled)
        pairs = self.pairs(groups, self.weights(value))
        if pairs is not None:
            value["pairs"], of_pairs = pairs.run(records, noise, events.pop(0), 0)
            public["pairs"] = dict(of_pairs)
        return value, public

    def groups(self, counts: NDArray[np.float64]) -> NDArray[np.int64]:
        """The group of every fine cell, axis after axis, by the rule; a function of noisy counts alone."""
        fine, classes = self.fine(), self._fine_classes
        parts = np.split(counts, np.cumsum(fine.lengths)[:-1])
        pair_sd = self.sigma[1] if len(self.axes) > 1 else 0.0
        out = [
            self.rule.groups(
                part.reshape(-1, classes).sum(axis=1), scale * classes**0.5, axis.ordered, axis.missing, pair_sd
            )
            for part, scale, axis in zip(parts, fine.scales, self.axes, strict=True)
        ]
        return np.concatenate(out)

    def weights(self, value: Mapping[str, NDArray[Any]]) -> tuple[float, ...] | None:
        """The weight of every pair, by the rule; a function of the noisy counts so far. None: all alike."""
        if self.weighing is None or self.classes is None or len(self.axes) < 3:
            return None
        groups = self._by_axis(value["groups"])
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
