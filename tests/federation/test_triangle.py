"""TriangleWad: what it computes (three bounds), that its published theorem is false, and that it protects nothing."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linear_sum_assignment, minimize_scalar

from privot.errors import DataError, UsageError
from privot.federation import triangle
from privot.federation.protocols.answering import exchange, local_party
from privot.federation.wire.messages import Question
from privot.transport import exact

T = st.floats(0.05, 0.95)
SEEDS = st.integers(0, 10**6)


def cloud(seed: int, n: int, d: int) -> np.ndarray:
    g = np.random.default_rng(seed)
    return g.normal(size=(n, d)) * g.uniform(0.2, 3.0) + g.normal(size=d)


def spread(gamma: np.ndarray, p: float) -> float:
    """σ_p(γ) = inf_c ‖γ − c‖ in L^p, on a line or for p = 2."""
    if p == 2:
        return float(np.sqrt(((gamma - gamma.mean(0)) ** 2).sum(1).mean()))
    line = gamma[:, 0]
    # the median is where it is for p = 1; for p > 1 the function is smooth and convex
    best = minimize_scalar(lambda c: np.mean(np.abs(line - c) ** p), bounds=(line.min(), line.max()), method="bounded")
    return float(min(best.fun, np.mean(np.abs(line - np.median(line)) ** p)) ** (1 / p))


@settings(max_examples=60)
@given(SEEDS, T, st.sampled_from([1.0, 1.5, 2.0, 3.0]), st.integers(1, 9), st.integers(1, 9), st.integers(1, 9))
def test_error_is_at_most_twice_t_times_the_spread_of_the_defence(seed, t, p, n, m, k) -> None:
    d = 3 if p == 2 else 1
    x, y, gamma = (cloud(seed + i, size, d) for i, size in enumerate((n, m, k)))
    found = (1 - t) * triangle(x, y, t, gamma, p).value
    assert abs(found - (1 - t) * exact(x, y, p).value) <= 2 * t * spread(gamma, p) + 1e-7


@settings(max_examples=40)
@given(SEEDS, T, st.integers(1, 9), st.integers(1, 9), st.integers(1, 9))
def test_at_order_two_it_never_underestimates(seed, t, n, m, k) -> None:
    x, y, gamma = (cloud(seed + i, size, 2) for i, size in enumerate((n, m, k)))
    assert triangle(x, y, t, gamma).value >= exact(x, y).value - 1e-7


@settings(max_examples=40)
@given(SEEDS, T, st.integers(2, 9))
def test_at_order_two_it_is_at_most_linearised_transport(seed, t, n) -> None:
    x, y, gamma = (cloud(seed + i, n, 2) for i in range(3))

    def in_order_of_gamma(z: np.ndarray) -> np.ndarray:
        rows, columns = linear_sum_assignment(((gamma[:, None] - z[None]) ** 2).sum(-1))
        return z[columns[np.argsort(rows)]]

    lot = np.sqrt(((in_order_of_gamma(x) - in_order_of_gamma(y)) ** 2).sum(1).mean())
    assert exact(x, y).value - 1e-7 <= triangle(x, y, t, gamma).value <= lot + 1e-7


@settings(max_examples=30)
@given(SEEDS, T, st.sampled_from([1.0, 2.0, 2.5]), st.integers(1, 12), st.integers(1, 12))
def test_constant_defence_is_the_direct_distance(seed, t, p, n, m) -> None:
    x, y = cloud(seed, n, 4), cloud(seed + 1, m, 4)
    assert triangle(x, y, t, p=p).value == pytest.approx(exact(x, y, p).value, rel=1e-6, abs=1e-9)


def test_the_published_theorem_is_false() -> None:
    # |W_2²(η_μ, η_ν) − t² W_2²(μ, ν)| ≤ σ_γ² is claimed; here both sides match γ the long way round
    L, a, s, t = 1.0, 10.0, 0.5, 0.5
    mu = np.array([[L, a], [-L, -a]])
    nu = np.array([[-L, a], [L, -a]])
    gamma = np.array([[s, 0.0], [-s, 0.0]])
    between = (1 - t) * triangle(mu, nu, t, gamma).value
    direct = exact(mu, nu).value
    assert between == pytest.approx((1 - t) * direct + 2 * t * s)
    assert abs(between**2 - t**2 * direct**2) > 2 * s**2
    assert between <= (1 - t) * direct + 2 * t * spread(gamma, 2) + 1e-12


def test_the_published_factor_doubles_the_answer() -> None:
    x, y = cloud(1, 20, 3), cloud(2, 20, 3)
    eta = [exchange(local_party(z), Question(np.ones((1, 3)), 0.5))[0].points for z in (x, y)]
    published = exact(*eta).value / 0.5**2
    assert published == pytest.approx(2 * exact(x, y).value)
    assert triangle(x, y, factor="published").value == pytest.approx(published)


@pytest.mark.parametrize(("t", "p"), [(0.3, 1.0), (0.5, 1.0), (0.7, 2.0), (0.4, 3.0)])
def test_the_published_factor_is_t_to_the_p_of_the_distance_between_interpolants(t: float, p: float) -> None:
    x, y = cloud(1, 12, 1), cloud(2, 9, 1)
    eta = [exchange(local_party(z), Question(np.ones((1, 1)), t, p))[0].points for z in (x, y)]
    found = triangle(x, y, t, p=p, factor="published")
    assert found.value == pytest.approx(exact(*eta, p).value / t**p, rel=1e-9)
    # right only for p = 1 and t = ½
    assert (found.value == pytest.approx(exact(x, y, p).value)) is ((t, p) == (0.5, 1.0))


@pytest.mark.parametrize("defence", ["constant", "random"])
def test_interpolants_compared_by_fedwad_approach_the_direct_comparison_from_above(defence: str) -> None:
    x, y = cloud(5, 15, 2), cloud(6, 15, 2)
    direct = triangle(x, y, 0.4, defence, seed=3)
    found = triangle(x, y, 0.4, defence, federated=True, rounds=40, seed=3)
    assert direct.value - 1e-7 <= found.value <= 1.05 * direct.value
    assert (found.rounds, direct.rounds) == (40, 1)
    assert found.history[0] >= found.value == found.history[-1]
    # the two sides hold interpolants here: the records themselves lie 1/(1 − t) times as far apart
    assert found.bytes_sent > direct.bytes_sent


@pytest.mark.parametrize("t", [0.3, 0.5, 0.9])
def test_a_shared_defence_gives_every_record_back(t: float) -> None:
    x = cloud(3, 40, 10)
    gamma = np.random.default_rng(4).normal(size=x.shape)
    eta = exchange(local_party(x), Question(gamma, t))[0].points
    plan = exact(eta, gamma).plan
    np.testing.assert_allclose((eta - t * gamma[plan.argmax(1)]) / (1 - t), x, atol=1e-9)


def test_a_private_defence_runs_and_states_that_it_protects_nobody() -> None:
    found = triangle(cloud(1, 20, 3), cloud(2, 20, 3), defence="random", shared=False, seed=1)
    assert found.value > 0
    assert "unproven" in found.privacy


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"t": 0.0}, UsageError),
        ({"t": 1.0}, UsageError),
        ({"p": 0.5}, UsageError),
        ({"defence": "magic"}, UsageError),
        ({"factor": "half"}, UsageError),
        ({"factor": "published", "t": 1.0}, UsageError),
        ({"federated": True, "rounds": 0}, UsageError),
        ({"federated": True, "t": 2.0}, UsageError),
        ({"defence": np.ones((2, 5))}, DataError),
    ],
)
def test_invalid_arguments_are_refused(arguments, error) -> None:
    with pytest.raises(error):
        triangle(cloud(1, 5, 3), cloud(2, 5, 3), **arguments)


def test_dimensions_must_agree() -> None:
    with pytest.raises(DataError):
        triangle(cloud(1, 5, 3), cloud(2, 5, 2))
