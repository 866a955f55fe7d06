"""ln ₁F₁ against exact sums in integers, mpmath, Bessel functions and elementary closed forms."""

from __future__ import annotations

import math
from fractions import Fraction

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import gammaln, ive

from privot.accounting.laws.hyp1f1 import log_hyp1f1
from privot.errors import UsageError

pytestmark = pytest.mark.filterwarnings("error::RuntimeWarning")

TOLERANCE = 1e-12  # the contract says 1e-10; measured is 2e-13 up to d = 10⁶
DIMENSIONS = (2, 3, 10, 784, 8192, 10**5, 10**6)


def exact(r: int, d: int, x: float) -> mp.mpf:
    """ln ₁F₁(r/2; d/2; x) by summing its series in integers, outwards from the largest term."""
    p, q = Fraction(x).as_integer_ratio()
    rise = x - d / 2 - 1
    root = rise * rise + 4 * (r * x / 2 - d / 2)
    largest = int(max(0.0, (rise + math.sqrt(root)) / 2)) if root > 0 else 0
    with mp.workdps(60):

        def log_poch(z: mp.mpf) -> mp.mpf:
            return mp.loggamma(z + largest) - mp.loggamma(z)

        top = log_poch(mp.mpf(r) / 2) - log_poch(mp.mpf(d) / 2) - log_poch(mp.mpf(1)) + largest * mp.log(x)
        if top < 120:  # the terms may fall before they rise: start at the first one
            largest, top = 0, mp.mpf(0)
        one = 1 << (200 + 4 * max(0, -math.frexp(x)[1]))
        total, term, n = 0, one, largest
        while term << 130 > total or n < x - d / 2:
            term = term * ((r + 2 * n) * p) // ((d + 2 * n) * (n + 1) * q)
            n += 1
            total += term
        term, n = one, largest
        while n > 0 and term:
            term = term * ((d + 2 * n - 2) * n * q) // ((r + 2 * n - 2) * p)
            n -= 1
            total += term
        return top + mp.log1p(mp.mpf(total) / one)


def relative_errors(a: float, b: float, x: list[float], truth: list[mp.mpf]) -> list[float]:
    values = log_hyp1f1(a, b, np.array(x))
    return [float(abs(mp.mpf(float(v)) / m - 1)) for v, m in zip(values, truth, strict=True)]


def switch(r: int, d: int) -> float:
    """The x at which the series hands over to the integral."""
    return 0.5 * (d / 2) / max(r / 2, 1.0)


def awkward(r: int, d: int) -> list[float]:
    """Small, large, both sides of the switch, and the transition x ≈ b where the law's left tail matters."""
    b = d / 2
    x = [1e-12, 1e-4, 1.0, 37.0, 1e4, 1e6]
    x += [switch(r, d) * f for f in (0.3, 1.0, math.nextafter(1.0, 2.0), 1.01, 4.0)]
    x += [b * f for f in (0.7, 0.97, 1.0, 1.03, 2.0)]
    x += [b + k * math.sqrt(b) for k in (1.0, 4.0, 8.0, 13.0)]
    return x


@pytest.mark.gate(3)
@pytest.mark.slow
@pytest.mark.parametrize("d", DIMENSIONS)
def test_agrees_with_exact_sums(d: int) -> None:
    for r in sorted({1, 2, max(1, d // 2), d - 1} - {d}):
        x = awkward(r, d)
        errors = relative_errors(r / 2, d / 2, x, [exact(r, d, v) for v in x])
        assert max(errors) < TOLERANCE, (r, x[int(np.argmax(errors))], max(errors))


@pytest.mark.parametrize("r", [1, 10**8, 2 * 10**8 - 1])
def test_the_largest_dimension_keeps_the_contract(r: int) -> None:
    d = 2 * 10**8
    x = [switch(r, d) * f for f in (0.9, 1.1)]
    if r == 1:
        x += [1e8 + k * 1e4 for k in (0.0, 1.0, 3.0, 10.0)]
    assert max(relative_errors(r / 2, d / 2, x, [exact(r, d, v) for v in x])) < 1e-10


@pytest.mark.parametrize(("r", "d"), [(1, 2), (2, 3), (1, 784), (783, 784), (500, 8192), (250000, 10**6)])
@pytest.mark.parametrize("x", [1e12, 1e15, 1e18])
def test_agrees_with_mpmath_at_huge_x(r: int, d: int, x: float) -> None:
    with mp.workdps(60):
        truth = mp.log(mp.hyp1f1(mp.mpf(r) / 2, mp.mpf(d) / 2, x))
    assert relative_errors(r / 2, d / 2, [x], [truth])[0] < 1e-15


@settings(max_examples=150, deadline=None)
@given(
    log_a=st.floats(-3.0, 2.0),
    log_c=st.floats(-9.0, 2.5),
    log_x=st.floats(-6.0, 4.0),
)
def test_agrees_with_mpmath_away_from_half_integers(log_a: float, log_c: float, log_x: float) -> None:
    a, x = 10.0**log_a, 10.0**log_x
    b = a + 10.0**log_c
    with mp.workdps(60):
        truth = mp.log(mp.hyp1f1(mp.mpf(a), mp.mpf(b), mp.mpf(x)))
    assert relative_errors(a, b, [x], [truth])[0] < 1e-11 / min(a, 1.0)


@pytest.mark.parametrize("d", [2, 3, 10, 100, 784])
def test_half_of_the_dimension_is_a_bessel_function(d: int) -> None:
    """₁F₁(ν+½; 2ν+1; 2z) = Γ(1+ν) e^z (z/2)^−ν I_ν(z) (NIST DLMF 13.6.9); d = 2 is e^z I₀(z)."""
    nu = d / 4 - 0.5
    z = d * np.array([0.3, 0.5, 0.9, 1.0, 3.0, 30.0])
    closed = gammaln(1.0 + nu) + 2.0 * z - nu * np.log(z / 2.0) + np.log(ive(nu, z))
    np.testing.assert_allclose(log_hyp1f1(d / 4, d / 2, 2.0 * z), closed, rtol=2e-12)


def test_a_uniform_law_is_elementary() -> None:
    """₁F₁(1; 2; x) = (e^x − 1)/x."""
    x = np.array([1e-9, 0.5, 1.0, 2.0, 20.0, 600.0])
    np.testing.assert_allclose(log_hyp1f1(1.0, 2.0, x), np.log(np.expm1(x) / x), rtol=1e-13, atol=1e-16)
    assert log_hyp1f1(1.0, 2.0, 1e-9) == pytest.approx(0.5e-9 + 1e-18 / 24, rel=1e-15)


def test_the_ends_of_the_range() -> None:
    x = np.array([0.0, 1e-300, 0.3, 1e18, 1.7e308])
    np.testing.assert_array_equal(log_hyp1f1(392.0, 392.0, x), x)
    assert log_hyp1f1(0.5, 392.0, 0.0) == 0.0
    assert log_hyp1f1(0.5, 50.0, 1e-300) == pytest.approx(1e-302, rel=1e-15)
    for a, b in [(0.5, 1.0), (0.5, 5e8), (4.5e8, 5e8), (0.001, 1.0)]:
        assert log_hyp1f1(a, b, 1.7e308) == 1.7e308
        assert log_hyp1f1(a, b, 1e30) == pytest.approx(1e30, rel=1e-15)


def test_a_number_gives_a_number_and_an_array_an_array() -> None:
    grid = np.array([[0.0, 0.1, 3.0], [40.0, 1e3, 1e9]])
    values = log_hyp1f1(0.5, 5.0, grid)
    assert values.shape == grid.shape
    for x, value in zip(grid.ravel(), values.ravel(), strict=True):
        single = log_hyp1f1(0.5, 5.0, float(x))
        assert isinstance(single, float)
        assert single == value
    assert log_hyp1f1(0.5, 5.0, np.array([])).shape == (0,)


@pytest.mark.parametrize(
    ("a", "b", "x"),
    [
        (0.0, 1.0, 1.0),
        (-0.5, 1.0, 1.0),
        (1.5, 1.0, 1.0),
        (0.5, 1e10, 1.0),
        (1e-9, 1.0, 1.0),
        (math.nan, 1.0, 1.0),
        (0.5, math.nan, 1.0),
        (0.5, math.inf, 1.0),
        (math.inf, math.inf, 1.0),
        (0.5, 1.0, -1e-9),
        (0.5, 1.0, math.nan),
        (0.5, 1.0, math.inf),
        (0.5, 1.0, np.array([1.0, math.nan])),
        (1.0, 1.0, -1.0),
        (0.5, 1.0, "many"),
    ],
)
def test_refuses_what_it_cannot_answer(a: float, b: float, x: float) -> None:
    with pytest.raises(UsageError, match="Kummer"):
        log_hyp1f1(a, b, x)


@st.composite
def arguments(draw: st.DrawFn) -> tuple[int, int, float]:
    """r, d and x: x anywhere, or a share of b, since that is where the function changes its shape."""
    d = draw(st.sampled_from([*DIMENSIONS, 10**7]))
    r = 1 + int(draw(st.floats(0.0, 1.0)) * (d - 1))
    anywhere = st.floats(-9.0, 12.0).map(lambda e: 10.0**e)
    near_b = st.floats(0.01, 3.0).map(lambda f: f * d / 2)
    return r, d, draw(st.one_of(anywhere, near_b))


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(arguments())
def test_lies_between_jensen_and_the_largest_value(args: tuple[int, int, float]) -> None:
    """a·x/b = ln e^{x·E t} ≤ ln E e^{xt} ≤ x, up to rounding."""
    r, d, x = args
    value = log_hyp1f1(r / 2, d / 2, x)
    assert x * r / d * (1 - 1e-11) <= value <= x * (1 + 1e-11)


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(arguments(), st.floats(1e-3, 0.9))
def test_rises_and_is_convex(args: tuple[int, int, float], share: float) -> None:
    r, d, x = args
    low, middle, high = log_hyp1f1(r / 2, d / 2, x * np.array([1 - share, 1.0, 1 + share]))
    assert 0.0 < low < middle < high
    assert low + high - 2 * middle >= -1e-11 * high


@pytest.mark.parametrize("d", DIMENSIONS)
def test_does_not_jump_where_the_methods_meet(d: int) -> None:
    for r in sorted({1, 2, max(1, d // 3), d // 2, d - 1} - {0, d}):
        x = switch(r, d)
        below, above = log_hyp1f1(r / 2, d / 2, np.array([x, math.nextafter(x, math.inf)]))
        assert above == pytest.approx(below, rel=TOLERANCE)
