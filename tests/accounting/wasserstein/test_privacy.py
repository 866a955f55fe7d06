"""Propositions that hold are properties of laws drawn at random; sound conversions are never below exact distances."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privot import Adjacency, Standing
from privot.accounting.wasserstein.distance import distance, sampled_distance
from privot.accounting.wasserstein.line_laws import LineLaw
from privot.accounting.wasserstein.wasserstein_privacy import (
    WassersteinPrivacy,
    additive_mechanism,
    additive_to_dp,
    from_dp,
    from_kl,
    sampled_mechanism,
)
from privot.errors import UsageError

AR, RO = Adjacency.ADD_REMOVE, Adjacency.REPLACE_ONE


@st.composite
def laws(draw):
    n = draw(st.integers(1, 2))
    raw = [draw(st.floats(0.05, 1)) for _ in range(n)]
    centres = tuple(draw(st.floats(-5, 5)) for _ in range(n))
    weights = [r / sum(raw) for r in raw]
    weights[-1] = 1.0 - sum(weights[:-1])
    return LineLaw(centres, tuple(weights), draw(st.floats(0.05, 3)), draw(st.sampled_from(["gaussian", "laplace"])))


few = settings(max_examples=5)


@pytest.mark.slow
@few
@given(laws(), laws(), st.floats(1, 16))
def test_1_symmetry_and_3_non_negativity(p, q, mu):
    assert distance(mu, p, q) == pytest.approx(distance(mu, q, p), rel=1e-9, abs=1e-12)
    assert distance(mu, p, q) >= 0.0
    assert distance(mu, p, p) == 0.0


@pytest.mark.slow
@few
@given(laws(), laws(), laws(), st.floats(1, 8))
def test_2_triangle_inequality(p, q, r, mu):
    assert distance(mu, p, r) <= (distance(mu, p, q) + distance(mu, q, r)) * (1 + 1e-9) + 1e-12


@pytest.mark.slow
@few
@given(laws(), laws(), st.floats(1, 16), st.floats(0, 16))
def test_4_monotonicity(p, q, mu, more):
    assert distance(mu, p, q) <= distance(mu + more, p, q) * (1 + 1e-9) + 1e-12


def clouds(generator, n=7, k=3):
    return [generator.normal(size=(n, k)) * generator.uniform(0.1, 3) for _ in range(2)]


def exact_discrete(p, q, mu):
    """W_μ between two uniform point clouds of one size, by assignment."""
    from scipy.optimize import linear_sum_assignment

    cost = np.linalg.norm(p[:, None] - q[None], axis=-1) ** mu
    i, j = linear_sum_assignment(cost)
    return float(cost[i, j].mean() ** (1 / mu))


@pytest.mark.parametrize("mu", [1.0, 2.0, 5.0])
def test_5_parallel_and_6_sequential_composition_of_independent_releases(mu):
    """Products of discrete laws: one factor changes (parallel), or all do (sequential)."""
    for seed in range(15):
        generator = np.random.default_rng(seed)
        (p1, q1), (p2, q2) = clouds(generator, 5, 2), clouds(generator, 5, 2)

        def product(a, b):
            return np.array([np.concatenate([x, y]) for x in a for y in b])

        one, two = exact_discrete(p1, q1, mu), exact_discrete(p2, q2, mu)
        assert exact_discrete(product(p1, p2), product(q1, p2), mu) == pytest.approx(one, rel=1e-9)
        both = exact_discrete(product(p1, p2), product(q1, q2), mu)
        assert both <= (one + two) * (1 + 1e-9)
        assert both >= max(one, two) * (1 - 1e-9)


@pytest.mark.parametrize("mu", [1.0, 3.0])
def test_12_one_lipschitz_maps_keep_it(mu):
    for seed in range(20):
        generator = np.random.default_rng(seed)
        p, q = clouds(generator)
        rotate, _ = np.linalg.qr(generator.normal(size=(3, 3)))

        def shrink(x, rotate=rotate):
            return np.tanh(x @ rotate)[:, :2]

        assert exact_discrete(shrink(p), shrink(q), mu) <= exact_discrete(p, q, mu) * (1 + 1e-9)
    wide = additive_mechanism(2.0, mu, AR).lipschitz(0.5)
    assert (wide.epsilon, wide.standing) == (1.0, Standing.PROVEN)


@given(st.floats(1, 64), st.floats(0.01, 10), st.integers(1, 50))
def test_13_group_privacy(mu, shift, records):
    group = additive_mechanism(shift, mu, AR).group(records)
    assert group.epsilon == pytest.approx(
        distance(mu, LineLaw((0.0,), (1.0,), 1.0), LineLaw((shift * records,), (1.0,), 1.0))
    )


@given(st.floats(1, 32), st.floats(1e-3, 20), st.integers(2, 6))
def test_9_and_10_hold_with_the_diameter(mu, epsilon, size):
    """Randomised response on points of the line: ε-DP, and every distance is at hand."""
    points = np.linspace(0.0, 3.0, size)
    weights = np.ones(size) / (size - 1 + math.exp(epsilon))
    p, q = weights.copy(), weights.copy()
    p[0], q[-1] = math.exp(epsilon) * weights[0], math.exp(epsilon) * weights[0]
    f, g = np.cumsum(p)[:-1], np.cumsum(q)[:-1]
    cuts = np.unique(np.concatenate([[0.0], f, g, [1.0]]))
    middle = 0.5 * (cuts[1:] + cuts[:-1])
    gap = np.abs(points[np.searchsorted(f, middle)] - points[np.searchsorted(g, middle)])
    exact = float(np.sum(np.diff(cuts) * gap**mu) ** (1 / mu))
    assert exact <= from_dp(epsilon, 3.0, mu, RO).epsilon * (1 + 1e-9)
    divergence = float(np.sum(p * np.log(p / q)))
    assert exact <= from_kl(divergence, 3.0, mu, RO).epsilon * (1 + 1e-9)
    if size == 2:  # two points: the bound is attained
        assert exact == pytest.approx(from_dp(epsilon, 3.0, mu, RO).epsilon, rel=1e-9)
    assert from_dp(epsilon, 3.0, mu, RO, delta=1.0).epsilon == pytest.approx(3.0)


@given(st.floats(0.01, 50), st.floats(0.01, 50))
def test_11_holds_for_additive_noise(shift, scale):
    """Laplace noise attains it: pure ε is Δ/λ."""
    assert additive_to_dp(additive_mechanism(shift, 3.0, AR), 1.0 / scale) == pytest.approx(shift / scale)


def test_a_sampled_sum_is_bounded_by_its_worst_shift():
    whole = sampled_mechanism(0.5, 2.0, 0.1, 4.0)
    assert whole.standing is Standing.PROVEN
    for shift in (0.1, 1.0, 1.9):
        assert sampled_distance(4.0, 0.1, shift, 0.5) < whole.epsilon
    with pytest.raises(UsageError):
        sampled_mechanism(0.5, 2.0, 0.1, 4.0, RO)


def test_what_is_put_together_keeps_the_weakest_standing():
    a = WassersteinPrivacy(2.0, 0.5, AR, Standing.PROVEN)
    b = WassersteinPrivacy(2.0, 0.7, AR, Standing.UNPROVEN)
    assert a.then(b) == WassersteinPrivacy(2.0, 1.2, AR, Standing.UNPROVEN)
    assert a.beside(b).epsilon == 0.7
    assert a.at_order(1.5).mu == 1.5
    assert a.to_dict()["standing"] == "proven"
    for wrong in (
        lambda: a.at_order(3.0),
        lambda: a.then(WassersteinPrivacy(3.0, 0.5, AR, Standing.PROVEN)),
        lambda: a.then(WassersteinPrivacy(2.0, 0.5, RO, Standing.PROVEN)),
        lambda: WassersteinPrivacy(2.0, 0.5, RO, Standing.PROVEN).beside(),
        lambda: a.lipschitz(-1.0),
        lambda: a.group(0),
        lambda: WassersteinPrivacy(2.0, -0.5, AR, Standing.PROVEN),
        lambda: WassersteinPrivacy(0.5, 0.5, AR, Standing.PROVEN),
        lambda: from_dp(-1.0, 1.0, 1.0, AR),
        lambda: from_kl(-1.0, 1.0, 1.0, AR),
        lambda: additive_to_dp(a, -1.0),
    ):
        with pytest.raises(UsageError):
            wrong()
