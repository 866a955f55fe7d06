"""Lemma 1: the raw absolute moment against quadrature and closed forms."""

import math

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from privot.accounting.wasserstein.absolute_moment import log_absolute_moment
from privot.errors import UsageError

DECADES = (1e-3, 1e-2, 1e-1, 1.0, 10.0, 100.0, 1e3)


def quadrature(mu, mean, deviation):
    """ln E|Z|^μ by mpmath's own integration, not by the hypergeometric function."""
    with mpmath.workdps(20):
        ratio, mu = mpmath.mpf(mean) / mpmath.mpf(deviation), mpmath.mpf(mu)
        peak = (ratio + mpmath.sqrt(ratio**2 + 4 * mu)) / 2  # of |z|^μ φ(z − r) for z > 0
        reach = (-16, -10, -6, -3, 0, 3, 6, 10, 16)
        edges = sorted({mpmath.mpf(0), *(peak + k for k in reach if peak + k > 0)})
        top = mu * mpmath.log(peak) - (peak - ratio) ** 2 / 2

        def density(z):
            if z == 0:
                return mpmath.mpf(0)
            both = mpmath.exp(-((z - ratio) ** 2) / 2) + mpmath.exp(-((z + ratio) ** 2) / 2)
            return mpmath.exp(mu * mpmath.log(z) - top) * both

        total = mpmath.quad(density, edges, maxdegree=6) / mpmath.sqrt(2 * mpmath.pi)
        return float(mpmath.log(total) + top + mu * mpmath.log(deviation))


@pytest.mark.gate(2)
@pytest.mark.slow
@pytest.mark.parametrize("mu", [1.0, 2.5, 16.0, 33.3, 64.0])
def test_the_moment_is_that_of_quadrature_over_six_decades(mu):
    generator = np.random.default_rng(int(mu * 10))
    triples = [(q, d, s) for q in (1e-6, 1.0) for d in (1e-3, 1e3) for s in (1e-3, 1e3)]
    triples += [tuple(10.0 ** generator.uniform((-6, -3, -3), (0, 3, 3))) for _ in range(5)]
    for q, d, sigma in triples:
        deviation = sigma * math.sqrt(2 - 2 * q + 2 * q * q)
        found = float(log_absolute_moment(mu, q * d, deviation))
        assert math.isfinite(found)
        assert found == pytest.approx(quadrature(mu, q * d, deviation), abs=1e-10)


@pytest.mark.parametrize(("mean", "deviation"), [(0.0, 2.0), (3.0, 4.0), (1e-5, 1.0), (40.0, 0.1), (1e9, 1e-3)])
def test_whole_even_orders_are_the_moments_everybody_knows(mean, deviation):
    m, s = mean, deviation
    assert math.exp(float(log_absolute_moment(2, m, s)) / 2) == pytest.approx(math.hypot(m, s), rel=1e-13)
    fourth = m**4 + 6 * m * m * s * s + 3 * s**4
    assert float(log_absolute_moment(4, m, s)) == pytest.approx(math.log(fourth), abs=1e-12)


def test_nothing_underflows_where_float32_would():
    moment = float(log_absolute_moment(16, 0.001 * 0.01, 1.41e-3))
    assert np.float32(math.exp(moment)) < np.finfo(np.float32).tiny
    centred = 1.41e-3 * math.exp(float(log_absolute_moment(16, 0, 1)) / 16)
    assert math.exp(moment / 16) == pytest.approx(centred, rel=1e-3)
    assert math.isfinite(float(log_absolute_moment(64, 1e-30, 1e-30)))


@given(st.floats(1, 64), st.floats(0, 1e4), st.floats(1e-3, 1e3), st.floats(1e-3, 1e3))
def test_scaling_and_lyapunov(mu, mean, deviation, factor):
    one = float(log_absolute_moment(mu, mean, deviation))
    assert float(log_absolute_moment(mu, factor * mean, factor * deviation)) == pytest.approx(
        one + mu * math.log(factor), abs=1e-9
    )
    assert float(log_absolute_moment(mu + 1, mean, deviation)) / (mu + 1) >= one / mu - 1e-12


@pytest.mark.parametrize("bad", [(0.5, 1, 1), (2, math.nan, 1), (2, 1, 0), (2, 1, -1), ("2", 1, 1), (2, 1e70, 1)])
def test_bad_arguments_are_refused(bad):
    with pytest.raises(UsageError):
        log_absolute_moment(*bad)
