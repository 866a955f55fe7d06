"""Scores of further labels and interactions cost what they say, whatever their laws and whatever the first counts were.

The privacy loss of one run is a sum over all released numbers whose means differ between neighbours. By a second
implementation, written out record by record, its variance μ² is compared with Σ (Δ/σ)² of the events that are charged.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np
import pytest
from mechanism_samples import Plain
from scipy import stats

from privot import Vault
from privot.accounting import Composed, Gaussian, account
from privot.common.privacy_unit import Unit
from privot.errors import UsageError
from privot.guarantee import Adjacency
from privot.mechanisms import Facts
from privot.mechanisms.table_counts.cell_axes import LABEL, Axis
from privot.mechanisms.table_counts.further_scores import FurtherScores, InteractionScore, LabelScore, Score
from privot.mechanisms.table_counts.grouped_marginals import GroupedMarginals
from weaker_noise import WeakerNoise

A, R = Adjacency.ADD_REMOVE, Adjacency.REPLACE_ONE
AXES = (Axis(0, 4, (0.25, 0.5, 0.75), ordered=True), Axis(1, 3), Axis(2, 2), Axis(3, 5))
SCORES: tuple[Score, ...] = (
    LabelScore(1, (0, 3), 5.0),
    LabelScore(2, (0, 3, 1), 6.0),
    InteractionScore((0, 3, LABEL), 7.0),
    InteractionScore((0, 1, 2), 8.0),
)
TARGETS = (1, 2, LABEL, 1)
NEW, OTHER = ([0.3, 1.0, 1.0, 4.0], 1), ([0.3, 2.0, 0.0, 4.0], 0)


@dataclass(frozen=True)
class Sure:
    """A law that is sure of one class; for the record NEW it is the wrong one, and not the first."""

    target: int
    classes: int

    def probabilities(self, groups: np.ndarray) -> np.ndarray:
        # two classes: the first; more: the last
        return np.tile(np.eye(self.classes)[0 if self.classes == 2 else -1], (len(groups), 1))

    def arrays(self) -> dict[str, np.ndarray]:
        return {}


@dataclass(frozen=True)
class Planned:
    classes: int = 2
    targets: tuple[int, ...] = TARGETS

    def laws(self, value: Mapping[str, Any], public: Mapping[str, Any]) -> list[Sure]:
        sizes = [int(g.max()) + 1 for g in np.split(value["groups"], np.cumsum([a.cells for a in AXES])[:-1])]
        return [Sure(t, self.classes if t == LABEL else sizes[t]) for t in self.targets]


def mechanism(classes: int = 2, targets: tuple[int, ...] = TARGETS) -> FurtherScores:
    counts = GroupedMarginals(AXES, classes, (3.0, 4.0), label_sigma=3.5)
    return FurtherScores(counts, SCORES, Planned(classes, targets))


def records(rows: int = 400, classes: int = 2) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    sizes = [3, 2, 5]
    x = np.column_stack([rng.random(rows), *(rng.integers(0, size, rows) for size in sizes)])
    return x, rng.integers(0, classes, rows)


@pytest.mark.parametrize("adjacency", [A, R])
@pytest.mark.parametrize("classes", [2, 3])
def test_one_charge_pays_for_all_scores(classes: int, adjacency: Adjacency) -> None:
    x, y = records(classes=classes)
    vault = Vault(x, y, clip=9.0, classes=classes, adjacency=adjacency, budget=(100.0, 1e-6))
    release = vault.release(mechanism(classes), purpose="test")
    # by hand, in squares: sets of a score, times 1 for a target of two values and 2 for one of more
    squares = [2 * 2, 3 * 1, 1 * (1 if classes == 2 else 2), 1 * 2]
    once = (4 if adjacency is R else 1) * (1 + 1e-12) ** 2
    first = mechanism(classes).then.event(vault.facts)
    assert isinstance(first, Composed)
    last = [
        Gaussian(score.sigma, math.sqrt(square * once), adjacency)
        for score, square in zip(SCORES, squares, strict=True)
    ]
    expected = account(Composed((*first.events, *last)), 1e-6)
    assert release.guarantee.epsilon() == pytest.approx(expected.epsilon(), rel=1e-9)
    assert release.public["further"][1] == {"columns": [2, 0, 3, 1], "together": False, "sigma": 6.0}


def _moved(record: Any, sizes: list[int], groups: list[np.ndarray], classes: int) -> dict[Any, float]:
    """What one record adds to every score, spelt out: (score, set, cell, class) → residual."""
    x, y = record
    cell = [min(math.floor(4 * x[0]), 3), *(int(v) for v in x[1:])]
    group = [int(of_axis[at]) for of_axis, at in zip(groups, cell, strict=True)]
    out: dict[Any, float] = {}
    for place, (score, target) in enumerate(zip(SCORES, TARGETS, strict=True)):
        values = classes if target == LABEL else sizes[target]
        happened = y if target == LABEL else group[target]
        sure = 0 if values == 2 else values - 1
        for of, k in product(score.sets(target), range(1, values)):
            out[place, of, tuple(group[c] for c in of), k] = (happened == k) - (sure == k)
    return out


@pytest.mark.parametrize(("classes", "adjacency"), [(2, A), (3, A), (3, R)])
def test_a_record_moves_no_score_by_more_than_was_charged(classes: int, adjacency: Adjacency) -> None:
    x, y = records(classes=classes)
    made = mechanism(classes)
    held = [np.vstack([x, NEW[0]]), np.append(y, NEW[1])]
    other = [x, y] if adjacency is A else [np.vstack([x, OTHER[0]]), np.append(y, OTHER[1])]
    groups = np.concatenate([np.arange(axis.cells) for axis in AXES])
    moved: dict[int, float] = {}
    sums = []
    for x_of, y_of in (held, other):
        of = Plain(x_of, y_of, adjacency, classes=classes, clip=9.0)
        sums.append([np.concatenate([t.ravel() for t in part]) for part in _sums(made, of, groups, classes)])
    apart = [axis.cells for axis in AXES]
    ones = [np.arange(cells) for cells in apart]
    expected = _moved(NEW, apart, ones, classes)
    if adjacency is R:
        gone = _moved(OTHER, apart, ones, classes)
        expected = {name: expected.get(name, 0.0) - gone.get(name, 0.0) for name in {*expected, *gone}}
    for (place, *_), by in expected.items():
        moved[place] = moved.get(place, 0.0) + by**2
    for place, score in enumerate(SCORES):
        really = float(np.square((sums[0][place] - sums[1][place]) / 4096).sum())
        bound = made.sensitivity(score, adjacency) ** 2
        assert really == pytest.approx(moved[place], abs=1e-9)
        assert really <= bound
        if adjacency is A:
            # these laws are as wrong as laws can be, so the bound is reached
            assert really == pytest.approx(bound, rel=1e-9)


def _sums(made: FurtherScores, held: Plain, groups: np.ndarray, classes: int) -> list[list[np.ndarray]]:
    """The exact sums of every score, over ungrouped cells."""
    from privot.mechanisms.table_counts.further_scores import AllScores, SetScores

    axes = made.marginals.grouped_axes(groups)
    parts = []
    for score, target in zip(SCORES, TARGETS, strict=True):
        values = classes if target == LABEL else axes[target].size
        parts.append(SetScores(axes, target, values, score.sets(target), Sure(target, values)))
    flat = iter(held.sums(AllScores(tuple(parts))))
    return [[next(flat) for _ in part.sets] for part in parts]


@pytest.mark.parametrize(("factor", "right"), [(1.0, True), (2.0 / 3.0, False)])
def test_noise_is_what_was_charged(factor: float, right: bool) -> None:
    x, y = records(400)
    made = mechanism()
    held = Plain(x, y, A, classes=2, clip=9.0)
    noise: list[list[float]] = [[], [], [], []]
    for _ in range(25):
        value, _ = made.run(held, WeakerNoise(factor), made.event(held.facts), 0)
        true = _sums(made, held, value["groups"], 2)
        for place, score in enumerate(SCORES):
            exact = np.concatenate([t.ravel() for t in true[place]]) / 4096
            noise[place] += list((value[f"further.{place}.scores"] - exact) / score.sigma)
    for part in noise:
        low, high = stats.chi2.ppf([5e-7, 1.0 - 5e-7], len(part))
        assert bool(low < np.sum(np.square(part)) < high) is right


def test_a_unit_of_several_rows_costs_so_many_times_each_sensitivity() -> None:
    facts = Facts(4, None, 9.0, A, 2, unit=Unit("patient_id", 5))
    one, five = mechanism().event(facts), facts.cost(mechanism().event(facts))
    parts = five.to_dict()["event"]["events"]
    assert [e["sensitivity"] for e in parts] == pytest.approx([5 * e.sensitivity for e in one.events])  # type: ignore[attr-defined]


def test_the_bound_of_a_number_does_not_trust_cells_that_may_change() -> None:
    halves = replace(AXES[0], cells=2, edges=(0.5,))
    counts = GroupedMarginals((halves, Axis(1, 2), Axis(2, 2)), 2, (3.0, 4.0))
    score = InteractionScore((0, 1, 2), 5.0)
    made = FurtherScores(counts, (score,), Planned(2, (0,)))
    assert made.sensitivity(score, A) == pytest.approx(math.sqrt(2.0))
    # of columns whose two cells are fixed, 1
    assert made.sensitivity(InteractionScore((LABEL, 1, 2), 5.0), A) == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("scores", "message"),
    [
        ((), "at least one"),
        ((LabelScore(1, (0, 1), 5.0),), "different columns"),
        ((LabelScore(4, (0, 1), 5.0),), "different columns"),
        ((InteractionScore((0, 1, 4), 5.0),), "different columns"),
        ((LabelScore(1, (), 5.0),), "different columns"),
    ],
)
def test_scores_that_cannot_be_are_refused(scores: tuple[Score, ...], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        FurtherScores(mechanism().then, scores, Planned())


def test_the_label_is_scored_only_where_there_is_one() -> None:
    with pytest.raises(UsageError, match="two classes"):
        FurtherScores(GroupedMarginals(AXES, None, (3.0, 4.0)), (SCORES[2],), Planned())


def test_an_earlier_release_with_another_law_of_the_label_is_not_taken_for_this_one() -> None:
    """Laws of a label of more classes than two were fitted otherwise once: the same charge must not pay for both."""

    class Named(Planned):
        def identity(self) -> bytes:
            return b"named"

    def said(classes: int, score: Score) -> bool:
        counts = GroupedMarginals(AXES, classes, (3.0, 4.0), label_sigma=3.5)
        return b"all classes" in FurtherScores(counts, (score,), Named(classes)).identity()

    of_label, of_others = InteractionScore((0, 3, LABEL), 7.0), LabelScore(1, (0, 3), 5.0)
    assert [said(3, of_label), said(2, of_label), said(3, of_others)] == [True, False, False]


def test_a_law_of_another_column_is_refused() -> None:
    x, y = records(50)
    made = mechanism(targets=(0, 2, LABEL, 1))
    held = Plain(x, y, A, classes=2, clip=9.0)
    with pytest.raises(UsageError, match="does not name"):
        made.run(held, WeakerNoise(1.0), made.event(held.facts), 0)


def test_a_law_that_looks_at_other_rows_is_refused() -> None:
    class Neighbourly(Sure):
        def probabilities(self, groups: np.ndarray) -> np.ndarray:
            raw = np.ones((len(groups), self.classes))
            raw[:, 0] += len(groups)
            return np.asarray(raw / raw.sum(axis=1, keepdims=True))

    class Bad(Planned):
        def laws(self, value: Mapping[str, Any], public: Mapping[str, Any]) -> list[Sure]:
            return [Neighbourly(law.target, law.classes) for law in super().laws(value, public)]

    x, y = records(50)
    made = replace(mechanism(), planner=Bad())
    held = Plain(x, y, A, classes=2, clip=9.0)
    with pytest.raises(UsageError, match="other rows"):
        made.run(held, WeakerNoise(1.0), made.event(held.facts), 0)
