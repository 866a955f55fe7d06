"""Releases a table's marginals and then where a model of the label, made from them, is wrong; one charge for all.

After `GroupedMarginals` has run, a planner makes a law p(y | x) from what it released, and nothing else. Then, for
every group g of every column and every class k (of two, the second only),

    S_gk = Σ_records 1[x in g]·(1[y = k] − p(k | x))     plus Gaussian noise

is released: the score of an additive model, taken over the records themselves, so that no error in a model of x enters
it. Scores of all classes add up to 0 but for noise. Of three classes or more all are released, at no cost: a residual
is as long in all classes as it can be in all but one. It is the last part of one adaptive composition.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from privot.accounting.events import Composed, Event, Gaussian
from privot.common.block_sums import Totals
from privot.errors import UsageError
from privot.guarantee import Adjacency, Standing
from privot.mechanisms.mechanism import Facts, Needs, Records
from privot.mechanisms.table_counts.cell_axes import Axis
from privot.mechanisms.table_counts.cell_counts import CellCounts
from privot.mechanisms.table_counts.grouped_marginals import GroupedMarginals
from privot.mechanisms.table_counts.marginals import check_once
from privot.noise import NoiseSource
from privot.noise.noisy_counts import add_noise_to_counts, check_counting_sigma

Floats = NDArray[np.float64]
PARTS = 1 << 12
"""A residual is cut, towards 0, to a whole number of such parts: scores are sums of whole numbers, as counts are."""
_TRIED = 37
_UP = 1.0 + 1e-12


class LabelPredictor(Protocol):
    """p(y | x), a function of public numbers and of one row: its value for a row does not depend on other rows.

    This holds to the last bit. Residuals are cut to whole parts, so if adding or removing a record could move the last
    bit of the law for *other* records, all records that share a group could be cut differently at once.
    """

    def probabilities(self, groups: NDArray[np.int64]) -> Floats:
        """(rows, classes), from the group of every row in every column, (rows, columns)."""
        ...

    def arrays(self) -> Mapping[str, NDArray[Any]]:
        """The arrays that describe the law, by name: read before the law sees a record, released with the scores."""
        ...


class Planner(Protocol):
    """Makes a law from released numbers; it is never given a record."""

    def law(self, value: Mapping[str, NDArray[Any]], public: Mapping[str, Any]) -> LabelPredictor:
        """From the value of `GroupedMarginals` and what is public about it."""
        ...


@runtime_checkable
class CellPlanner(Planner, Protocol):
    """A planner that can plan for other cells of the same columns, once they are chosen."""

    def over(self, axes: tuple[Axis, ...]) -> Planner:
        """The planner for columns of these cells."""
        ...


@dataclass(frozen=True)
class ScoredMarginals:
    """`marginals`, then the scores of `planner`'s law with noise `sigma`.

    The value is that of `marginals`, with `scores` (a long array: groups of the first column by class, `scored_classes`
    of them, groups of the second …) and the law's own arrays.

    Formal guarantees. Let r_k = 1[y = k] − p(k | x). With two classes r₁ alone is used, and |r₁| ≤ 1. With more, all
    are: (1 − p_y)² ≤ 1, and the squares of the others add up to at most (Σ p_k)² ≤ 1, so Σ r_k² ≤ 2. A record adds r to
    one group of each of d columns, so adding or removing it moves the scores by at most Δ = √(d·(1 or 2)), and
    replacing it by 2Δ (two records can share a group and have opposite residuals). Cutting r to whole parts, towards 0,
    makes none larger. The law is a function of released numbers and the same for neighbours, so Δ holds whatever law
    the planner makes, if it is one: shares of the stated classes (`residuals` sees to that), of one row alone
    (`try_law` tests it on public rows; no test finds every law that looks at its neighbours).
    """

    stable_name: ClassVar[str] = "privot.mechanisms.table_counts.scored_marginals.ScoredMarginals"

    marginals: GroupedMarginals
    sigma: float
    planner: Planner
    steps: int = 1
    seed: int | None = None

    def __post_init__(self) -> None:
        check_once(self.steps, self.seed)
        if self.marginals.classes is None or self.marginals.classes < 2:
            raise UsageError("Scores need at least two classes.")
        check_counting_sigma(self.sigma)
        check_counting_sigma(self.sigma * PARTS)

    @property
    def needs(self) -> Needs:
        """Labels."""
        return self.marginals.needs

    @property
    def standing(self) -> Standing:
        """PROVEN: adaptive composition of Gaussian mechanisms."""
        return Standing.PROVEN

    def identity(self) -> bytes:
        """Every choice, to the last bit; refuses a planner that does not say its own (`identity`)."""
        # with more classes than two, scores and laws are others than they once were: no earlier release is made again
        kind = b" all classes " if (self.marginals.classes or 1) > 2 else b""
        return self.marginals.identity() + repr(self.sigma).encode() + kind + planner_identity(self.planner)

    def over(self, axes: tuple[Axis, ...]) -> ScoredMarginals:
        """The same over other cells of the same columns: the event does not change."""
        if not isinstance(self.planner, CellPlanner):
            raise UsageError("This planner plans for the cells that it was made for, and no others.")
        return replace(self, marginals=replace(self.marginals, axes=axes), planner=self.planner.over(axes))

    def sensitivity(self, adjacency: Adjacency) -> float:
        """Of the scores: √(d·(1 or 2)) if a record is added or removed, twice that if one is replaced."""
        most = len(self.marginals.axes) * (1 if self.marginals.classes == 2 else 2)
        return math.sqrt(most) * (1.0 if adjacency is Adjacency.ADD_REMOVE else 2.0) * _UP

    def event(self, facts: Facts) -> Event:
        """All parts, one after another."""
        first = self.marginals.event(facts)
        scores = Gaussian(self.sigma, self.sensitivity(facts.adjacency), facts.adjacency)
        return Composed((*(first.events if isinstance(first, Composed) else (first,)), scores))

    def run(
        self, records: Records, noise: NoiseSource, event: Event, step: int
    ) -> tuple[Mapping[str, NDArray[Any]], Mapping[str, Any]]:
        """Marginals, the law made from them, and its scores."""
        if event != self.event(records.facts):
            raise UsageError("Scores run on the event they made.")
        first = self.marginals.event(records.facts)
        value, public = self.marginals.run(records, noise, first, step)
        # the law is made from what was released: records come in again only below, inside the sums
        law = self.planner.law(dict(value), public)
        # copied now: a law that kept the rows it sees below could otherwise release them
        shown = {name: np.array(array) for name, array in law.arrays().items()}
        if not shown.keys().isdisjoint({*value, "scores"}):
            raise UsageError("A law may not name its arrays like those of the marginals and scores.")
        # what is tried is what runs: the law in a plain form, where it has one that workers can be sent
        said: LabelPredictor = getattr(law, "predictor", law)
        try_law(said, [axis.size for axis in self.marginals.grouped_axes(value["groups"])])
        sums = self._sums(records, said, value["groups"])
        noisy = add_noise_to_counts(sums, noise, self.sigma * PARTS) / PARTS
        return (
            {**value, "scores": noisy, **shown},
            {**public, "mechanism": "scored marginals", "scores": {"sigma": self.sigma}},
        )

    def summands(self, facts: Facts) -> list[CellCounts]:
        """What each pass over the records adds up; counts stand for the scores, whose law is not known beforehand."""
        counts = self.marginals.summands(facts)
        return [*counts, counts[0]]

    def _sums(self, records: Records, law: LabelPredictor, groups: NDArray[np.int64]) -> NDArray[np.int64]:
        """Σ of residuals in whole parts."""
        summand = ScoreSums(self.marginals.grouped_axes(groups), self.marginals.classes or 1, law)
        return np.concatenate([total.ravel() for total in records.sums(summand)])


def planner_identity(planner: object) -> bytes:
    """What a planner says of itself, to the last bit; one that says nothing is refused."""
    own = getattr(planner, "identity", None)
    if own is None:
        raise UsageError("This planner has no identity(), so its release cannot be made again: use release.")
    said: bytes = own()
    return said


def try_law(law: LabelPredictor, sizes: list[int]) -> None:
    """Refuse a law whose values for fixed public rows change with other rows or with the order of rows.

    `sizes` are the numbers of groups of all columns.
    """
    dice = np.random.default_rng(0)
    rows = dice.integers(0, sizes, (_TRIED, len(sizes)))
    together = np.asarray(law.probabilities(rows))
    alone = np.concatenate([law.probabilities(row[None]) for row in rows])
    backwards = np.asarray(law.probabilities(rows[::-1].copy()))[::-1]
    among = np.asarray(law.probabilities(np.concatenate([np.zeros_like(rows[:5]), rows])))[5:]
    if not all(np.array_equal(together, other, equal_nan=True) for other in (alone, backwards, among)):
        raise UsageError("The law gives a row other probabilities beside other rows: treat each row alone.")


@dataclass(frozen=True)
class ScoreSums:
    """Σ of residuals of `law`, in whole parts, by group of each of the `axes` and by class: of two, the second only."""

    axes: tuple[Axis, ...]
    classes: int
    law: LabelPredictor
    labels: bool = True

    def zeros(self) -> Totals:
        """One array (groups, scored classes) per axis."""
        return tuple(np.zeros((axis.size, scored_classes(self.classes)), dtype=np.int64) for axis in self.axes)

    def add(self, totals: Totals, rows: Floats, labels: NDArray[np.int64] | None) -> None:
        """Add the residuals of one block of rows."""
        assert labels is not None
        cells = np.stack([axis.index(rows, None) for axis in self.axes], axis=1)
        scored = scored_classes(self.classes)
        parts = residuals(self.law.probabilities(cells), labels, self.classes, first=self.classes - scored)
        for place, total in enumerate(totals):
            for k in range(scored):
                # whole numbers far below 2⁵³: floats add them without rounding
                added = np.bincount(cells[:, place], weights=parts[:, k], minlength=len(total))
                total[:, k] += np.rint(added).astype(np.int64)


def scored_classes(classes: int) -> int:
    """How many classes have scores: all, but of two only the second, since the first has its opposite."""
    return 1 if classes == 2 else classes


def residuals(chances: Floats, labels: NDArray[np.int64], classes: int, first: int = 1) -> NDArray[np.int64]:
    """1[y = k] − p(k | x) for k ≥ `first`, in whole parts, cut towards 0; (rows, classes − `first`).

    `chances` are clamped to a law: numbers from 0 to 1 that add up to at most 1. Another shape is refused: a single
    share for several classes would be counted for each of them.
    """
    if np.shape(chances) != (len(labels), classes):
        raise UsageError(f"A law must give one share per row for each of {classes} classes.")
    law = np.clip(np.nan_to_num(np.asarray(chances, dtype=np.float64), nan=0.0), 0.0, 1.0)
    law /= np.maximum(law.sum(axis=1, keepdims=True), 1.0)
    happened = labels[:, None] == np.arange(first, classes)[None, :]
    out: NDArray[np.int64] = np.trunc((happened - law[:, first:]) * PARTS).astype(np.int64)
    return out
