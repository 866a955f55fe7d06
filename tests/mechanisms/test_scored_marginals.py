"""Scores and weighted pairs cost what they say, whatever the law and whatever the first counts were."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mechanism_samples import Plain
from scipy import stats

from privot import Vault
from privot.accounting import Composed, Gaussian, account
from privot.errors import UsageError
from privot.guarantee import Adjacency
from privot.mechanisms.table_counts.cell_axes import Axis
from privot.mechanisms.table_counts.grouped_marginals import GroupedMarginals
from privot.mechanisms.table_counts.marginals import Marginals
from privot.mechanisms.table_counts.pair_weights import WeightRule, label_association
from privot.mechanisms.table_counts.scored_marginals import PARTS, ScoredMarginals, residuals, scored_classes
from privot.noise import SystemNoise
from weaker_noise import WeakerNoise

A, R = Adjacency.ADD_REMOVE, Adjacency.REPLACE_ONE
AXES = (Axis(0, 8, tuple(np.arange(1, 8) / 8), ordered=True), Axis(1, 5), Axis(2, 6))


@dataclass(frozen=True)
class Fixed:
    """A planner and its law in one: chances by the first column's group, whatever was released."""

    classes: int = 2
    tilt: float = 0.0

    def law(self, value: Mapping[str, Any], public: Mapping[str, Any]) -> Fixed:
        assert set(value) == {"fine", "groups", "pairs"}
        return self

    def probabilities(self, groups: np.ndarray) -> np.ndarray:
        raw = 1.0 + self.tilt * np.outer(groups[:, 0], np.arange(self.classes))
        return np.asarray(raw / raw.sum(axis=1, keepdims=True))

    def arrays(self) -> dict[str, np.ndarray]:
        return {"law.tilt": np.array([self.tilt])}


def mechanism(classes: int = 2, sigma: float = 10.0) -> ScoredMarginals:
    return ScoredMarginals(GroupedMarginals(AXES, classes, (30.0, 20.0)), sigma, Fixed(classes, 0.3))


def table(rows: int = 3000, classes: int = 2) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    x = np.column_stack([rng.random(rows), rng.integers(0, 5, rows), rng.integers(0, 6, rows)])
    return x, ((x[:, 0] + 0.2 * rng.random(rows)) * classes * 0.8).astype(int).clip(max=classes - 1)


def plain(x: np.ndarray, y: np.ndarray) -> Plain:
    return Plain(x, y, A, classes=int(y.max()) + 1, clip=9.0)


@pytest.mark.parametrize(("classes", "most"), [(2, 3.0), (3, 6.0), (7, 6.0)])
@pytest.mark.parametrize("adjacency", [A, R])
def test_one_charge_pays_for_all_three_parts(classes: int, most: float, adjacency: Adjacency) -> None:
    x, y = table(classes=classes)
    vault = Vault(x, y, clip=9.0, classes=classes, adjacency=adjacency, budget=(10.0, 1e-6))
    release = vault.release(mechanism(classes), purpose="test")
    factor = 1.0 if adjacency is A else 2.0
    counted = (3 * factor) ** 0.5 * (1 + 1e-12)
    expected = Composed(
        (
            Gaussian(30.0, counted, adjacency),
            Gaussian(20.0, counted, adjacency),
            Gaussian(10.0, math.sqrt(most) * factor * (1 + 1e-12), adjacency),
        )
    )
    assert release.guarantee.epsilon() == pytest.approx(account(expected, 1e-6).epsilon(), rel=1e-9)
    scored = 1 if classes == 2 else classes
    assert release.value["scores"].shape == (int(sum(g.max() + 1 for g in _groups(release))) * scored,)


def _groups(release: Any) -> list[np.ndarray]:
    return np.split(release.value["groups"], np.cumsum([axis.cells for axis in AXES])[:-1])


@settings(max_examples=150, deadline=None)
@given(st.integers(2, 6), st.integers(0, 2**32), st.booleans())
def test_no_record_moves_the_scores_by_more_than_stated(classes: int, seed: int, sure: bool) -> None:
    rng = np.random.default_rng(seed)
    chances = rng.dirichlet(np.full(classes, 0.05 if sure else 1.0), 2)
    labels = rng.integers(0, classes, 2)
    one, other = residuals(chances, labels, classes, first=classes - scored_classes(classes)) / PARTS
    assert len(one) == (1 if classes == 2 else classes)
    bound = 1.0 if classes == 2 else math.sqrt(2.0)
    assert max(np.linalg.norm(one), np.linalg.norm(other)) <= bound
    assert np.linalg.norm(one - other) <= 2 * bound


def test_the_bound_is_reached_and_no_nonsense_of_a_law_exceeds_it() -> None:
    sure = residuals(np.array([[1.0, 0.0], [0.0, 1.0]]), np.array([1, 0]), 2) / PARTS
    assert sure.ravel().tolist() == [1.0, -1.0]
    worst = residuals(np.array([[0.0, 1.0, 0.0]]), np.array([2]), 3) / PARTS
    assert np.linalg.norm(worst) == pytest.approx(math.sqrt(2.0))
    nonsense = np.array([[np.nan, 5.0, 9.0], [-3.0, np.inf, -np.inf], [2.0, 2.0, 2.0]])
    for first in (0, 1):
        moved = np.linalg.norm(residuals(nonsense, np.array([2, 2, 0]), 3, first) / PARTS, axis=1)
        assert (moved <= math.sqrt(2.0)).all()
        # a law that is sure of all of six classes at once
        assert np.linalg.norm(residuals(np.ones((1, 6)), np.array([2]), 6, first) / PARTS) <= math.sqrt(2.0)


def test_scores_of_all_of_three_classes_are_sums_over_the_records() -> None:
    """By hand; a release of three classes is not made again for one that has other scores."""
    x, y = table(200, 3)
    groups = np.concatenate([np.arange(axis.cells) for axis in AXES])
    made, law = mechanism(3), Fixed(3, 0.3)
    found = (made._sums(plain(x, y), law, groups) / PARTS).reshape(-1, 3)
    city = x[:, 1].astype(int)
    codes = np.column_stack([(8 * x[:, 0]).astype(int), city, x[:, 2].astype(int)])
    rest = np.eye(3)[y] - law.probabilities(codes)
    by_city = np.stack([rest[city == c].sum(axis=0) for c in range(5)])
    np.testing.assert_allclose(found[8:13], by_city, atol=200 / PARTS)
    assert np.abs(found.sum(axis=1)).max() < 3 * 200 / PARTS

    class Named(Fixed):
        def identity(self) -> bytes:
            return b"named"

    said = [replace(mechanism(classes), planner=Named(classes)).identity() for classes in (2, 3)]
    assert [b"all classes" in one for one in said] == [False, True]


def test_a_record_moves_one_group_a_column() -> None:
    x, y = table(400)
    groups = np.concatenate([np.arange(axis.cells) for axis in AXES])
    made = mechanism()
    law = Fixed(2, 0.3)
    with_it, without = (made._sums(plain(x[:n], y[:n]), law, groups) for n in (400, 399))
    moved = (with_it - without) / PARTS
    assert np.count_nonzero(moved) == 3
    assert np.linalg.norm(moved) <= made.sensitivity(A)
    # by hand: the residual of the last record, in its group of the first column
    chance = Fixed(2, 0.3).probabilities(np.array([[int(8 * x[399, 0])]]))[0, 1]
    assert moved[int(8 * x[399, 0])] == pytest.approx(y[399] - chance, abs=1 / PARTS)


@pytest.mark.statistical
def test_noise_on_scores_is_accepted_at_sigma_and_rejected_at_two_thirds() -> None:
    x, y = table(300)

    def sample(factor: float) -> np.ndarray:
        made = mechanism(sigma=10.0)
        out = []
        for _ in range(60):
            value, _ = made.run(plain(x, y), WeakerNoise(factor), made.event(plain(x, y).facts), 0)
            exact = made._sums(plain(x, y), made.planner, value["groups"]) / PARTS  # type: ignore[arg-type]
            out.append(value["scores"] - exact)
        return np.concatenate(out)

    for factor, right in ((1.0, True), (2.0 / 3.0, False)):
        noise = sample(factor)
        low, high = stats.chi2.ppf([5e-7, 1 - 5e-7], noise.size)
        assert bool(low < np.sum(np.square(noise / 10.0)) < high) is right


def test_what_cannot_be_scored_is_refused() -> None:
    for bad in ({"steps": 2}, {"sigma": 0.0}, {"sigma": 2.0**40}, {"marginals": GroupedMarginals(AXES, None, (9, 9))}):
        with pytest.raises(UsageError):
            replace(mechanism(), **bad)  # type: ignore[arg-type]
    made = mechanism()
    with pytest.raises(UsageError):
        made.run(plain(*table(50)), SystemNoise(), replace(made, sigma=11.0).event(plain(*table(50)).facts), 0)


# --- weights


@settings(max_examples=300, deadline=None)
@given(st.lists(st.floats(0.0, 1e12), min_size=2, max_size=30), st.floats(1e-3, 10.0))
def test_weights_never_cost_more_than_one_each(found: list[float], least: float) -> None:
    weights = WeightRule(least).weights(np.array(found))
    pairs = math.comb(len(found), 2)
    assert len(weights) == pairs
    assert 0.999999 * pairs < math.fsum(w * w for w in weights) <= pairs
    assert min(weights) > 1e-6


def test_weights_survive_numbers_that_are_none() -> None:
    for odd in (math.nan, math.inf, -1.0):
        weights = WeightRule().weights(np.array([0.1, odd, 0.2]))
        assert math.fsum(w * w for w in weights) == pytest.approx(3.0)


def test_the_best_split_of_a_budget_is_the_one_that_is_used() -> None:
    value = np.array([0.3, 0.02, 0.1, 0.0])
    rule = WeightRule(0.05)
    share = value / value.max() + 0.05
    harm = np.array([share[i] * share[j] for i, j in combinations(range(4), 2)])
    best = np.sum(harm / np.square(rule.weights(value)))
    rng = np.random.default_rng(0)
    for _ in range(300):
        assert best <= np.sum(harm / (6 * rng.dirichlet(np.full(6, 5.0)))) * (1 + 1e-6)


def test_what_a_column_tells_is_what_the_noise_did_not_make() -> None:
    rng = np.random.default_rng(0)
    nothing = np.full((10, 2), 500.0)
    much = nothing + np.linspace(-300, 300, 10)[:, None] * np.array([-1, 1])
    sd = np.full((10, 1), 40.0)
    none = [label_association(nothing + 40 * rng.normal(size=(10, 2)), sd) for _ in range(50)]
    assert np.mean(none) < 0.002
    assert label_association(much + 40 * rng.normal(size=(10, 2)), sd) == pytest.approx(
        label_association(much, 0 * sd), rel=0.15
    )


def test_weights_beyond_what_was_paid_are_refused() -> None:
    sets = ((0, 1), (0, 2))
    assert Marginals(AXES, sets, 9.0, (1.2, 0.7), 2.0).sensitivity(A) == pytest.approx(math.sqrt(2.0))
    for weights, most in (((1.2, 0.8), 2.0), (None, 1.9)):
        with pytest.raises(UsageError):
            Marginals(AXES, sets, 9.0, weights, most)
    with pytest.raises(UsageError):
        WeightRule(0.0)
    # a weight can be at most the whole: noise that would then be too little is refused before it is paid for
    with pytest.raises(UsageError):
        GroupedMarginals(AXES, 2, (1.0, 2.0**-10))


def test_weights_are_a_function_of_the_first_counts_and_change_no_price() -> None:
    x, y = table()
    made = GroupedMarginals(AXES, 2, (30.0, 20.0))
    release = Vault(x, y, clip=9.0, classes=2, adjacency=A, budget=(10.0, 1e-6)).release(made, purpose="test")
    weights = made.weights(release.value)
    assert weights is not None
    assert release.public["pairs"]["scales"] == [20.0 / w for w in weights]
    # the label follows the first column: its pairs are seen best
    assert min(weights[:2]) > weights[2]
    assert made.event(plain(x, y).facts) == replace(made, weighing=None).event(plain(x, y).facts)


def test_an_additive_law_says_what_a_product_with_one_hot_rows_says() -> None:
    from privot.mechanisms.table_counts.group_shares import GroupShares
    from privot.synthesis.tabular.column_laws.conditional import probabilities
    from privot.synthesis.tabular.table_model import Levels

    rng = np.random.default_rng(5)
    sizes, features = (4, 7, 3), ((0,), (1,), (2,), (0, 2), (~0, ~1))
    blocks = [np.sort(np.concatenate([np.arange(2), rng.integers(0, 2, size - 2)])) for size in sizes]
    levels = Levels([np.arange(size) for size in sizes], blocks)
    width = sum(levels.width(feature) for feature in features)
    theta, bias = rng.normal(size=(width, 3)), rng.normal(size=3)
    rows = rng.integers(0, sizes, (200, 3))
    law = GroupShares(features, tuple(blocks), theta, bias)
    # to the last bit: residuals are cut to whole parts
    np.testing.assert_array_equal(law.probabilities(rows), probabilities(levels.one_hot(rows, features), theta, bias))
