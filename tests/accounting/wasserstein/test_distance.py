"""Exact W_μ: against mpmath quadrature, sorted samples, Kantorovich's dual, and one another."""

import math

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privot.accounting.wasserstein.distance import (
    _displacement,
    distance,
    kantorovich,
    potential,
    sampled_distance,
    translation_distance,
)
from privot.accounting.wasserstein.line_laws import LineLaw, additive, sampled
from privot.errors import UsageError


def by_quadrature(mu, q, d):
    """W_μ of a sampled unit Gaussian step: ∫ (y − x(y))^μ over the mixture, in 18 digits."""
    with mpmath.workdps(18):
        q, d, mu = mpmath.mpf(q), mpmath.mpf(d), mpmath.mpf(mu)

        def upper(z):
            return mpmath.erfc(z / mpmath.sqrt(2)) / 2

        def moved(y):
            target = (1 - q) * upper(y) + q * upper(y - d)
            low, high = y - d, y
            for _ in range(48):
                middle = (low + high) / 2
                low, high = (middle, high) if upper(middle) > target else (low, middle)
            return y - (low + high) / 2

        def density(y):
            both = (1 - q) * mpmath.npdf(y) + q * mpmath.npdf(y - d)
            return moved(y) ** mu * both

        edges = [-8, -3, 0, 3, 6, 9, 13, 20]
        return float(mpmath.quad(density, edges, maxdegree=4) ** (1 / mu))


@pytest.mark.gate(1)
@pytest.mark.slow
@pytest.mark.parametrize(("mu", "q", "d"), [(2, 0.1, 1.0), (8, 0.3, 2.0)])
def test_a_sampled_step_is_that_of_quadrature(mu, q, d):
    assert sampled_distance(mu, q, d, 1.0) == pytest.approx(by_quadrature(mu, q, d), rel=1e-8)


@pytest.mark.parametrize(
    ("mu", "q", "d", "sigma"), [(1.5, 1e-4, 1, 1), (2, 0.01, 3, 0.1), (16, 0.5, 1, 30), (64, 1e-3, 1, 0.5)]
)
def test_two_ways_to_the_same_distance(mu, q, d, sigma):
    """Quantiles by root-finding and displacements in logarithms share no code."""
    assert sampled_distance(mu, q, d, sigma) == pytest.approx(
        distance(mu, sampled(q, d, sigma), additive(0, sigma)), rel=1e-9
    )


def test_high_orders_are_decided_far_out():
    """At μ = 256 the integrand peaks 46 standard deviations out, where the noise has mass e^−1000."""
    exact = distance(256.0, sampled(1e-6, 0.3, 1.0), additive(0.0, 1.0))
    assert sampled_distance(256.0, 1e-6, 0.3, 1.0) == pytest.approx(exact, rel=1e-9)


@pytest.mark.parametrize("q", [1e-6, 0.7])
@pytest.mark.parametrize("d", [1e-5, 0.01, 3.0])
def test_small_displacements_keep_their_digits(q, d):
    """y − x(y) by bisection in 40 digits."""
    y = np.array([-9.0, -1.0, -0.01, 0.5, 4.0, 12.0])
    found = _displacement(q, d, y)
    with mpmath.workdps(40):
        for at, moved in zip(y, found, strict=True):
            sign = 1 if at >= 0 else -1

            def tail(z, sign=sign):
                return mpmath.erfc(sign * z / mpmath.sqrt(2)) / 2

            target = (1 - mpmath.mpf(q)) * tail(mpmath.mpf(at)) + q * tail(mpmath.mpf(at) - d)
            low, high = mpmath.mpf(at) - d, mpmath.mpf(at)
            for _ in range(100):
                middle = (low + high) / 2
                low, high = (middle, high) if sign * (tail(middle) - target) > 0 else (low, middle)
            assert moved == pytest.approx(float(at - (low + high) / 2), rel=1e-9)


@settings(max_examples=40)
@given(st.floats(1, 64), st.floats(-6, 0).map(lambda e: 10**e), st.floats(-3, 3).map(lambda e: 10**e), st.floats(-3, 3))
def test_bounds_and_limits_of_a_sampled_step(mu, q, d, exponent):
    found = sampled_distance(mu, q, d, 10**exponent)
    # W grows with μ from W₁ = q·d; moving the q-part alone is one coupling
    assert q * d * (1 - 1e-8) <= found <= q ** (1 / mu) * d * (1 + 1e-8)


def test_noise_lowers_it_and_none_leaves_the_diracs():
    found = [sampled_distance(2, 0.01, 1.0, s) for s in (1e-6, 1e-2, 0.1, 1.0, 10.0)]
    assert found == sorted(found, reverse=True)
    assert found[0] == pytest.approx(0.1, rel=1e-5)
    assert sampled_distance(1, 0.01, 1.0, 7.0) == 0.01
    assert sampled_distance(5, 1.0, 3.0, 7.0) == 3.0


@pytest.mark.gate(each="noise")
@pytest.mark.statistical
@pytest.mark.parametrize("noise", ["gaussian", "laplace"])
@pytest.mark.parametrize("mu", [1.0, 2.0, 3.5])
def test_against_sorted_quantiles(noise, mu):
    """Sorted points on a fine grid of quantiles, matched in order."""
    first, second = sampled(0.3, 2.0, 0.7, noise), LineLaw((-1.0, 0.5), (0.4, 0.6), 0.5, noise)
    u = (np.arange(20000) + 0.5) / 20000
    t = np.log(u) - np.log1p(-u)
    points = np.abs(np.sort(first.quantile(t)) - np.sort(second.quantile(t)))
    assert distance(mu, first, second) == pytest.approx(float(np.mean(points**mu) ** (1 / mu)), rel=2e-3)
    assert np.allclose(first.log_below(first.quantile(t)) - first.log_above(first.quantile(t)), t, atol=1e-9)


@pytest.mark.parametrize("noise", ["gaussian", "laplace"])
def test_kantorovichs_form_and_its_potential(noise):
    first, second = sampled(0.3, 2.0, 0.7, noise), LineLaw((-1.0, 2.5), (0.4, 0.6), 0.5, noise)
    dual = kantorovich(first, second)
    assert dual == pytest.approx(distance(1, first, second), rel=1e-8)
    test = potential(first, second)
    grid = np.linspace(-40, 45, 400001)
    values = test(grid)
    assert np.max(np.abs(np.diff(values))) <= (grid[1] - grid[0]) * (1 + 1e-9)
    mean = [np.trapezoid(values * np.exp(law.log_density(grid)), grid) for law in (first, second)]
    assert abs(mean[0] - mean[1]) == pytest.approx(dual, rel=1e-4)


@given(st.floats(0, 1e6), st.floats(1, 64), st.sampled_from(["gaussian", "laplace"]))
def test_an_additive_mechanism_moves_by_its_shift_whatever_the_noise(shift, mu, noise):
    found = {distance(mu, additive(0.0, s, noise), additive(shift, s, noise)) for s in (1e-3, 1.0, 1e3)}
    assert found == {translation_distance(shift)}


def test_a_translation_by_quantiles_too():
    """Not by the shortcut: the same law written as two halves has other weights, so quantiles are computed."""
    halves = LineLaw((1.0, 1.0), (0.25, 0.75), 2.0)
    assert distance(3.0, halves, additive(0.0, 2.0)) == pytest.approx(1.0, rel=1e-9)


@pytest.mark.parametrize("bad", [(2, 0.0, 1, 1), (2, 1.1, 1, 1), (2, 0.1, -1, 1), (2, 0.1, 1, 0), (0.5, 0.1, 1, 1)])
def test_bad_arguments_are_refused(bad):
    with pytest.raises(UsageError):
        sampled_distance(*bad)


def test_laws_are_checked():
    for wrong in [((), ()), ((0.0,), (0.5,)), ((0.0, 1.0), (1.0,)), ((math.nan,), (1.0,))]:
        with pytest.raises(UsageError):
            LineLaw(*wrong, 1.0)
    with pytest.raises(UsageError):
        LineLaw((0.0,), (1.0,), 1.0, "cauchy")
