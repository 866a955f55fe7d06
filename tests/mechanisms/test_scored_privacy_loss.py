"""What the whole release of a table tells about one record, by a second implementation, is no more than was charged.

Given two neighbours, the privacy loss of one run is a sum over all released numbers whose means differ. It is normal
with variance μ² ≤ Σ (Δ/σ)² over the three parts, whatever groups, weights and law the first parts led to, if the noise
is what it says; the best test of one neighbour against the other looks at nothing else.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from itertools import combinations, product
from typing import Any

import numpy as np
import pytest
from scipy import stats

from privot.accounting import Composed
from privot.common.block_sums import RowSums
from privot.guarantee import Adjacency
from privot.mechanisms import Facts
from privot.mechanisms.table_counts.cell_axes import Axis
from privot.mechanisms.table_counts.cell_grouping import GroupRule
from privot.mechanisms.table_counts.grouped_marginals import GroupedMarginals
from privot.mechanisms.table_counts.pair_weights import WeightRule
from privot.mechanisms.table_counts.scored_marginals import ScoredMarginals
from weaker_noise import WeakerNoise

AXES = (
    Axis(0, 4, (0.25, 0.5, 0.75), ordered=True),
    Axis(1, 3),
    Axis(2, 3, (0.5,), missing=True, ordered=True),
)
SIGMA = (3.0, 4.0, 5.0)
BASE = [([0.1, 0, 0.2], 0), ([0.6, 1, -1], 1), ([0.9, 2, 0.7], 1), ([0.6, 2, 0.1], 0)]
NEW, OTHER = ([0.3, 1, 0.8], 1), ([0.95, 2, -1.0], 0)
RUNS = 100
PAIRS = list(combinations(range(3), 2))


class Sure:
    """The law that is most wrong about NEW: it is sure of the first class, or of the last where there are three."""

    def __init__(self, classes: int) -> None:
        self.sure = np.eye(classes)[0 if classes == 2 else 2]

    def law(self, value: Mapping[str, Any], public: Mapping[str, Any]) -> Sure:
        return self

    def probabilities(self, groups: np.ndarray) -> np.ndarray:
        return np.tile(self.sure, (len(groups), 1))

    def arrays(self) -> dict[str, np.ndarray]:
        return {}


class Held(RowSums):
    """Records without a vault around them."""

    def __init__(self, records: list[Any], facts: Facts) -> None:
        self.x, self.y = np.array([x for x, _ in records]), np.array([y for _, y in records])
        self.count, self.facts = len(records), facts

    def rows(self, indices: np.ndarray) -> np.ndarray:
        return self.x[indices]

    def labels(self, indices: np.ndarray) -> np.ndarray:
        return self.y[indices]


def parts_of(record: Any, groups: list[np.ndarray], scales: list[float], sure: np.ndarray, by_class: bool) -> Any:
    """name of a released number → (what the record adds to it, the noise there), spelt out."""
    (a, b, c), y = record
    cell = [math.floor(4 * a), int(b), 2 if c < 0 else int(c >= 0.5)]
    group = [int(of_axis[at]) for of_axis, at in zip(groups, cell, strict=True)]
    yield from ((("fine", i, cell[i], y), 1.0, SIGMA[0]) for i in range(3))
    for (i, j), scale in zip(PAIRS, scales, strict=True):
        yield ("pair", i, j, group[i], group[j], y if by_class else 0), 1.0, scale
    for i, k in product(range(3), range(len(sure) == 2, len(sure))):
        yield ("score", i, group[i], k), (y == k) - sure[k], SIGMA[2]


def names_of(groups: list[np.ndarray], classes: int, by_class: bool) -> Iterator[tuple[Any, ...]]:
    """The names of all released numbers, in the order in which they are released."""
    sizes = [int(g.max()) + 1 for g in groups]
    yield from (("fine", i, a, y) for i in range(3) for a in range(len(groups[i])) for y in range(classes))
    for i, j in PAIRS:
        yield from (
            ("pair", i, j, *at) for at in product(*map(range, (sizes[i], sizes[j], classes if by_class else 1)))
        )
    yield from (("score", i, g, k) for i in range(3) for g in range(sizes[i]) for k in range(classes == 2, classes))


def losses(
    classes: int, adjacency: Adjacency, by_class: bool, factor: float = 1.0
) -> tuple[dict[str, list[float]], np.ndarray, float]:
    """Of runs on the records with NEW in them: the noise of each part in its own σ; μ² of each run; the μ² charged."""
    law = Sure(classes)
    counts = GroupedMarginals(AXES, classes, SIGMA[:2], by_class, GroupRule(4, 0.005, 1.0), WeightRule(0.01))
    made = ScoredMarginals(counts, SIGMA[2], law)
    changed = [(NEW, 1.0)] if adjacency is Adjacency.ADD_REMOVE else [(NEW, 1.0), (OTHER, -1.0)]
    held = Held([*BASE, NEW], Facts(3, None if len(changed) == 1 else 5, 9.0, adjacency, classes))
    event = made.event(held.facts)
    assert isinstance(event, Composed)
    noise: dict[str, list[float]] = {"fine": [], "pair": [], "score": []}
    squares = []
    for _ in range(RUNS):
        value, public = made.run(held, WeakerNoise(factor), event, 0)  # type: ignore[arg-type]
        groups = np.split(value["groups"], [4, 7])
        seen = np.concatenate([value["fine"], value["pairs"], value["scores"]])
        left = dict(zip(names_of(groups, classes, by_class), seen, strict=True))
        told = (groups, public["pairs"]["scales"], law.sure, by_class)
        for record in (*BASE, NEW):
            for name, adds, _ in parts_of(record, *told):
                left[name] -= adds
        scales = dict(zip(PAIRS, public["pairs"]["scales"], strict=True))
        for name, rest in left.items():
            sd = {"fine": SIGMA[0], "pair": scales.get(name[1:3], 0.0), "score": SIGMA[2]}[name[0]]
            noise[name[0]].append(rest / sd)
        moved: dict[Any, list[float]] = {}
        for record, sign in changed:
            for name, adds, scale in parts_of(record, *told):
                moved.setdefault(name, [0.0, scale])[0] += sign * adds
        squares.append(sum((by / sd) ** 2 for by, sd in moved.values()))
    charged = sum((e.sensitivity / e.sigma) ** 2 for e in event.events)  # type: ignore[attr-defined]
    return noise, np.array(squares), charged


def is_as_stated(noise: list[float]) -> bool:
    low, high = stats.chi2.ppf([5e-7, 1.0 - 5e-7], len(noise))
    return bool(low < np.sum(np.square(noise)) < high)


@pytest.mark.parametrize(
    ("classes", "adjacency", "by_class"),
    [(2, Adjacency.ADD_REMOVE, False), (3, Adjacency.ADD_REMOVE, True), (3, Adjacency.REPLACE_ONE, False)],
)
def test_the_loss_is_what_was_charged(classes: int, adjacency: Adjacency, by_class: bool) -> None:
    noise, squares, charged = losses(classes, adjacency, by_class)
    assert squares.max() <= charged
    if adjacency is Adjacency.ADD_REMOVE:
        # this record and this law reach the bound; the weights are a hair too small
        assert squares.min() >= charged * (1.0 - 1e-8)
    assert all(is_as_stated(part) for part in noise.values())


def test_less_noise_than_was_charged_is_noticed() -> None:
    noise, _, _ = losses(2, Adjacency.ADD_REMOVE, False, 2.0 / 3.0)
    assert not any(is_as_stated(part) for part in noise.values())
