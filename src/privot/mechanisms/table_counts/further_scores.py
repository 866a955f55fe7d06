"""Releases a table's marginals, and then where models of further columns are wrong; one charge for all.

`ScoredMarginals` scores the law of the label. Here the laws of other columns are scored in the same way, after all that
`then` releases: of a further label t by the groups of every column that is drawn before it, and of a named interaction
by the groups of two columns together,

    S_gk = Σ_records 1[x in g]·(1[t = k] − p(k | x)),   g a group of one column or a pair of groups of two, k ≥ 1,

plus Gaussian noise. All laws are made from what `then` released, and nothing else; all scores are summed in one pass.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from privot.accounting.events import Composed, Event, Gaussian
from privot.common import arguments
from privot.common.block_sums import Totals
from privot.errors import UsageError
from privot.guarantee import Adjacency, Standing
from privot.mechanisms.mechanism import Facts, Needs, Records
from privot.mechanisms.table_counts.cell_axes import LABEL, Axis
from privot.mechanisms.table_counts.cell_counts import CellCounts
from privot.mechanisms.table_counts.grouped_marginals import GroupedMarginals
from privot.mechanisms.table_counts.marginals import check_once
from privot.mechanisms.table_counts.scored_marginals import (
    PARTS,
    LabelPredictor,
    ScoredMarginals,
    planner_identity,
    residuals,
    try_law,
)
from privot.noise import NoiseSource
from privot.noise.noisy_counts import add_noise_to_counts, check_counting_sigma

Floats = NDArray[np.float64]
_UP = 1.0 + 1e-12


@dataclass(frozen=True)
class LabelScore:
    """The scores of column `target`, by the groups of each of `columns`, with noise `sigma`."""

    target: int
    columns: tuple[int, ...]
    sigma: float

    @property
    def named(self) -> tuple[int, ...]:
        """All columns of it, the target first."""
        return (self.target, *self.columns)

    @property
    def targets(self) -> tuple[int, ...]:
        """The columns whose law may be scored."""
        return (self.target,)

    def stated(self) -> dict[str, Any]:
        """What is public about it, as plain JSON types."""
        return {"columns": list(self.named), "together": False, "sigma": self.sigma}

    def sets(self, target: int) -> tuple[tuple[int, ...], ...]:
        """The columns, alone or together, by whose groups the residuals of `target` are summed."""
        return tuple((column,) for column in self.columns)


@dataclass(frozen=True)
class InteractionScore:
    """The scores of one of three `columns` by the groups of the other two together, with noise `sigma`.

    Where the label is among them (`LABEL`), it is the label's law that is scored; else that of the column which the
    planner's model draws last.
    """

    columns: tuple[int, int, int]
    sigma: float

    @property
    def named(self) -> tuple[int, ...]:
        """All columns of it."""
        return self.columns

    def stated(self) -> dict[str, Any]:
        """What is public about it, as plain JSON types."""
        return {"columns": list(self.columns), "together": True, "sigma": self.sigma}

    @property
    def targets(self) -> tuple[int, ...]:
        """The columns whose law may be scored."""
        return (LABEL,) if LABEL in self.columns else self.columns

    def sets(self, target: int) -> tuple[tuple[int, ...], ...]:
        """The other two columns, together."""
        return (tuple(sorted(column for column in self.columns if column != target)),)


Score = LabelScore | InteractionScore


class FurtherLaw(LabelPredictor, Protocol):
    """The law of one column by the groups of all columns."""

    @property
    def target(self) -> int:
        """The column; `LABEL` stands for the label."""
        ...


class FurtherPlanner(Protocol):
    """Makes one law for each score from released numbers; it is never given a record."""

    def laws(self, value: Mapping[str, NDArray[Any]], public: Mapping[str, Any]) -> Sequence[FurtherLaw]:
        """From the value of what is released first, and what is public about it."""
        ...


@runtime_checkable
class FurtherCellPlanner(FurtherPlanner, Protocol):
    """Such a planner that can plan for other cells of the same columns, once they are chosen."""

    def over(self, axes: tuple[Axis, ...]) -> FurtherPlanner:
        """The planner for columns of these cells."""
        ...


@dataclass(frozen=True)
class FurtherScores:
    """`then`, and after it each of `scores` for the law that `planner` makes for it.

    The value is that of `then`, with `further.0.scores` (a long array: the cells of the first set by class but the
    first, the cells of the second …), `further.0.target` and the law's own arrays after "further.0.", and so on.

    Formal guarantees. Let r_k = 1[t = k] − p(k | x) for k ≥ 1, t the group of the target. With two classes |r₁| ≤ 1;
    with more, Σ r_k² ≤ 2. A record stands in one group of a column and in one pair of groups of two, so it adds r to
    one cell of each of a score's m sets, whatever the groups are: adding or removing it moves that score by at most
    Δ = √(m·(1 or 2)), and replacing it by 2Δ. The 1 is used only for a target of at most two *fixed* cells, so that Δ
    is known before cells and groups are. Each score has its own noise σ and is an event of its own (Δ, σ): all of them
    and those of `then` are one adaptive composition, in which Σ (Δ/σ)² adds up, so no claim is made of the stacked
    vector beyond that. A privacy unit of several records multiplies each Δ (`privot.accounting.units`). Laws are
    functions of released numbers, the same for neighbours, of one row alone (`try_law` tests it on public rows), and
    their values are clamped to shares (`residuals`). Cutting r to whole parts, towards 0, makes none larger, and sums
    of whole numbers are exact.
    """

    stable_name: ClassVar[str] = "privot.mechanisms.table_counts.further_scores.FurtherScores"

    then: GroupedMarginals | ScoredMarginals
    scores: tuple[Score, ...]
    planner: FurtherPlanner
    steps: int = 1
    seed: int | None = None

    def __post_init__(self) -> None:
        check_once(self.steps, self.seed)
        if not self.scores:
            raise UsageError("Further scores need at least one further label or interaction.")
        for score in self.scores:
            check_counting_sigma(score.sigma)
            check_counting_sigma(score.sigma * PARTS)
            named = score.named
            least = LABEL if isinstance(score, InteractionScore) else 0
            for column in named:
                arguments.whole("A scored column", column, least)
            if max(named) >= len(self.marginals.axes) or len(set(named)) != len(named) or len(named) < 2:
                raise UsageError("A score names different columns of the table.")
            if LABEL in named and (self.marginals.classes or 1) < 2:
                raise UsageError("Scores of the label need at least two classes.")

    @property
    def marginals(self) -> GroupedMarginals:
        """The counts that are released first."""
        return self.then.marginals if isinstance(self.then, ScoredMarginals) else self.then

    @property
    def needs(self) -> Needs:
        """Labels, where classes are stated."""
        return self.then.needs

    @property
    def standing(self) -> Standing:
        """PROVEN: adaptive composition of Gaussian mechanisms."""
        return Standing.PROVEN

    def identity(self) -> bytes:
        """Every choice, to the last bit; refuses a planner that does not say its own (`identity`)."""
        # laws of a label of more classes than two are others than they once were: no earlier release is made again
        others = (self.marginals.classes or 1) > 2 and any(LABEL in score.named for score in self.scores)
        kind = b" all classes " if others else b""
        return self.then.identity() + repr(self.scores).encode() + kind + planner_identity(self.planner)

    def over(self, axes: tuple[Axis, ...]) -> FurtherScores:
        """The same over other cells of the same columns: the event does not change."""
        if not isinstance(self.planner, FurtherCellPlanner):
            raise UsageError("This planner plans for the cells that it was made for, and no others.")
        then = self.then.over(axes) if isinstance(self.then, ScoredMarginals) else replace(self.then, axes=axes)
        return replace(self, then=then, planner=self.planner.over(axes))

    def sensitivity(self, score: Score, adjacency: Adjacency) -> float:
        """Of one score: √(m·(1 or 2)) if a record is added or removed, twice that if one is replaced."""
        sets = max(len(score.sets(target)) for target in score.targets)
        most = sets * max(self._residual(target) for target in score.targets)
        return math.sqrt(most) * (1.0 if adjacency is Adjacency.ADD_REMOVE else 2.0) * _UP

    def _residual(self, target: int) -> int:
        """A bound on Σ r_k² that holds for all cells which a column's axis may stand for."""
        if target == LABEL:
            return 1 if self.marginals.classes == 2 else 2
        axis = self.marginals.axes[target]
        # numbers can still be cut into other cells
        return 1 if axis.edges is None and axis.cells <= 2 else 2

    def event(self, facts: Facts) -> Event:
        """All parts, one after another."""
        first = self.then.event(facts)
        scores = [Gaussian(s.sigma, self.sensitivity(s, facts.adjacency), facts.adjacency) for s in self.scores]
        return Composed((*(first.events if isinstance(first, Composed) else (first,)), *scores))

    def run(
        self, records: Records, noise: NoiseSource, event: Event, step: int
    ) -> tuple[Mapping[str, NDArray[Any]], Mapping[str, Any]]:
        """What comes first, the laws made from it, and their scores."""
        if event != self.event(records.facts):
            raise UsageError("Scores run on the event they made.")
        value, public = self.then.run(records, noise, self.then.event(records.facts), step)
        # laws are made from what was released: records come in again only below, inside the sums
        laws = self.planner.laws(dict(value), public)
        axes = self.marginals.grouped_axes(value["groups"])
        out: dict[str, NDArray[Any]] = dict(value)
        summands = []
        for place, (score, law) in enumerate(zip(self.scores, laws, strict=True)):
            target = int(law.target)
            if target not in score.targets:
                raise UsageError("A law is of a column that its score does not name.")
            # copied now: a law that kept the rows it sees below could otherwise release them
            shown = {f"further.{place}.{name}": np.array(array) for name, array in law.arrays().items()}
            shown[f"further.{place}.target"] = np.array(target, dtype=np.int64)
            if f"further.{place}.scores" in shown or not shown.keys().isdisjoint(out):
                raise UsageError("A law may not name its arrays like those of the marginals and scores.")
            out |= shown
            said: LabelPredictor = getattr(law, "predictor", law)
            try_law(said, [axis.size for axis in axes])
            classes = (self.marginals.classes or 1) if target == LABEL else axes[target].size
            summands.append(SetScores(axes, target, classes, score.sets(target), said))
        sums = iter(records.sums(AllScores(tuple(summands))))
        for place, (score, summand) in enumerate(zip(self.scores, summands, strict=True)):
            flat = np.concatenate([next(sums).ravel() for _ in summand.sets])
            out[f"further.{place}.scores"] = add_noise_to_counts(flat, noise, score.sigma * PARTS) / PARTS
        return out, {**public, "mechanism": "further scores", "further": self.stated()}

    def stated(self) -> list[dict[str, Any]]:
        """What is public about each score, as plain JSON types."""
        return [score.stated() for score in self.scores]

    def summands(self, facts: Facts) -> list[CellCounts]:
        """What each pass over the records adds up; counts stand for scores, whose laws are not known beforehand."""
        counts = self.then.summands(facts)
        return [*counts, counts[0]]


@dataclass(frozen=True)
class SetScores:
    """Σ of residuals of `law`, in whole parts, by the cells of each of `sets` and by class of the target.

    The first class is left out. `axes` are all columns with their cells sent to groups.
    """

    axes: tuple[Axis, ...]
    target: int
    classes: int
    sets: tuple[tuple[int, ...], ...]
    law: LabelPredictor

    def zeros(self) -> Totals:
        """One array (cells, classes − 1) per set."""
        sizes = [math.prod(self.axes[place].size for place in places) for places in self.sets]
        return tuple(np.zeros((size, self.classes - 1), dtype=np.int64) for size in sizes)

    def add(self, totals: Totals, cells: NDArray[np.int64], labels: NDArray[np.int64] | None) -> None:
        """Add the residuals of one block of rows, given by the group of every row in every column."""
        happened = labels if self.target == LABEL else cells[:, self.target]
        assert happened is not None
        parts = residuals(self.law.probabilities(cells), happened, self.classes)
        for places, total in zip(self.sets, totals, strict=True):
            code = np.zeros(len(cells), dtype=np.int64)
            for place in places:
                code = code * self.axes[place].size + cells[:, place]
            for k in range(self.classes - 1):
                # whole numbers far below 2⁵³: floats add them without rounding
                added = np.bincount(code, weights=parts[:, k], minlength=len(total))
                total[:, k] += np.rint(added).astype(np.int64)


@dataclass(frozen=True)
class AllScores:
    """The sums of several `parts` in one pass, one after another."""

    parts: tuple[SetScores, ...]

    @property
    def labels(self) -> bool:
        """Whether a law is the label's."""
        return any(part.target == LABEL for part in self.parts)

    def zeros(self) -> Totals:
        """Those of all parts."""
        return tuple(total for part in self.parts for total in part.zeros())

    def add(self, totals: Totals, rows: Floats, labels: NDArray[np.int64] | None) -> None:
        """Add one block of rows."""
        cells = np.stack([axis.index(rows, None) for axis in self.parts[0].axes], axis=1)
        start = 0
        for part in self.parts:
            part.add(totals[start : start + len(part.sets)], cells, labels)
            start += len(part.sets)
