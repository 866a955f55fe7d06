"""Weights of pairs follow the noisy counts by class: with those fixed, the records have no influence."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
import pytest
from mechanism_samples import Plain, Silent

from privot.errors import UsageError
from privot.guarantee import Adjacency
from privot.mechanisms.table_counts.cell_axes import Axis
from privot.mechanisms.table_counts.grouped_marginals import GroupedMarginals
from privot.mechanisms.table_counts.pair_weights import WeightRule
from privot.noise import SeededNoise
from privot.noise.noisy_counts import MAX_SIGMA
from replaced_noise import Answers

AXES = tuple(Axis(i, 4) for i in range(4))
GROUPED = GroupedMarginals(AXES, 2, (10.0, 10.0), label_sigma=5.0)
PAIRS = list(combinations(range(4), 2))


def coded(informative: tuple[int, int], rows: int = 3000, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Four columns of four cells, of which two say nearly everything about the label."""
    rng = np.random.default_rng(seed)
    x = rng.integers(0, 4, (rows, 4)).astype(np.float64)
    return x, (x[:, informative].sum(axis=1) + 0.5 * rng.normal(size=rows) > 3).astype(int)


def weights_of(public: dict[str, Any]) -> np.ndarray:
    return GROUPED.sigma[1] / np.array(public["pairs"]["scales"])


def by_hand(tables: list[np.ndarray], sigma: float, least: float = 0.05) -> np.ndarray:
    """w² ∝ √((tᵢ + l)(tⱼ + l)), t = χ² per record less what noise adds, l of the largest t; Σ w² their number."""
    told = []
    for table in tables:
        n = table.sum()
        expected = table.sum(axis=1, keepdims=True) * table.sum(axis=0) / n
        told.append(max(float((((table - expected) ** 2 - sigma**2) / expected).sum() / n), 0.0))
    share = np.array(told) / max(told) + least
    square = np.array([(share[i] * share[j]) ** 0.5 for i, j in combinations(range(len(tables)), 2)])
    return np.sqrt(square * len(square) / square.sum())


def run(monkeypatch: pytest.MonkeyPatch, records: tuple[np.ndarray, np.ndarray], given: dict[int, np.ndarray]) -> Any:
    Answers(monkeypatch, given)
    plain = Plain(*records, Adjacency.ADD_REMOVE, 2, 9.0)
    return GROUPED.run(plain, SeededNoise(0), GROUPED.event(plain.facts), 0)


def labelled(*informative: int) -> dict[int, np.ndarray]:
    """Answers to the second part, asked after four columns: those named tell the label, the others do not."""
    telling = np.array([[700, 50], [500, 250], [250, 500], [50, 700]], dtype=np.float64)
    even = np.array([[380, 370], [370, 380], [375, 375], [360, 390]], dtype=np.float64)
    return {4 + i: (telling if i in informative else even).ravel() for i in range(4)}


FINE = {i: np.array([760.0, 740.0, 755.0, 745.0]) for i in range(4)}


def test_weights_follow_the_noisy_counts_by_class_whatever_the_records_say(monkeypatch: pytest.MonkeyPatch) -> None:
    # the records say columns 0 and 1, or 1 and 3; the noisy counts say 0 and 2
    given = FINE | labelled(0, 2)
    told = [run(monkeypatch, coded(informative), given) for informative in ((0, 1), (1, 3))]
    expected = by_hand([given[4 + i].reshape(4, 2) for i in range(4)], GROUPED.label_sigma or 0.0)
    for value, public in told:
        found = weights_of(public)
        np.testing.assert_allclose(found, expected, rtol=1e-6)
        assert int(np.argmax(found)) == PAIRS.index((0, 2))
        assert np.square(found).sum() <= 6.0
        np.testing.assert_array_equal(value["labelled"], np.concatenate([given[4 + i] for i in range(4)]))
    # other noisy counts by class, the same records: other weights
    other = weights_of(run(monkeypatch, coded((0, 1)), FINE | labelled(1, 3))[1])
    assert int(np.argmax(other)) == PAIRS.index((1, 3))
    # other fine counts that make the same groups: the same weights
    moved = {i: counts[::-1] for i, counts in FINE.items()}
    same = weights_of(run(monkeypatch, coded((0, 1)), moved | labelled(0, 2))[1])
    np.testing.assert_array_equal(same, weights_of(told[0][1]))


def test_without_noise_the_weights_follow_the_columns_that_inform(monkeypatch: pytest.MonkeyPatch) -> None:
    # the counterpart: counts as they are, so that the test above is not about weights that follow nothing
    for informative in ((0, 1), (1, 3)):
        plain = Plain(*coded(informative), Adjacency.ADD_REMOVE, 2, 9.0)
        public = GROUPED.run(plain, Silent(), GROUPED.event(plain.facts), 0)[1]
        assert int(np.argmax(weights_of(public))) == PAIRS.index(informative)


def test_noise_that_the_lightest_pair_could_not_have_is_refused_before_anything_is_paid() -> None:
    rule = WeightRule()
    worst = min(min(rule.weights(np.eye(columns)[0])) for columns in (3, 4, 30))
    even = [1.0] * 40 + [0.0] * 2
    assert rule.lowest <= min(worst, *rule.weights(np.array(even))) < 1.1 * rule.lowest
    GroupedMarginals(AXES, 2, (10.0, MAX_SIGMA * 0.2), label_sigma=5.0)
    with pytest.raises(UsageError, match="too large"):
        GroupedMarginals(AXES, 2, (10.0, MAX_SIGMA * 0.25), label_sigma=5.0)
