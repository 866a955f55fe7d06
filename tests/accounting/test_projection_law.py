"""The law of H against drawn directions, Beta tails, numerical convolution and its own moments."""

from __future__ import annotations

import math

import numpy as np
import pytest
from accounting_oracles import draw_shares, log_beta_moment
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate, stats

from privot.accounting.laws.projection_law import ProjectionLaw, bernstein_bound, clt_bound, law, log_moment

pytestmark = pytest.mark.filterwarnings("error::RuntimeWarning:privot")

COUNT = 200_000
SMALL = [(5, 3, True), (5, 3, False), (3, 7, True), (2, 4, False), (12, 8, False), (12, 8, True)]
LARGE = [(784, 200, False), (784, 1000, False), (2, 100_000, False), (100_000, 1000, False), (10**6, 5, False)]


def survival(table: ProjectionLaw, at: np.ndarray) -> np.ndarray:
    """P(H > at) under the discrete law, lost mass included."""
    tails = np.concatenate([np.cumsum(table.masses[::-1])[::-1], [0.0]]) + table.lost
    return tails[np.searchsorted(table.values, at, side="right")]


@pytest.mark.gate(2)
@pytest.mark.statistical
@pytest.mark.parametrize(("dim", "slices", "orthogonal"), SMALL)
def test_the_law_lies_above_drawn_directions_and_close(dim: int, slices: int, orthogonal: bool) -> None:
    """Against the empirical survival: never below by five standard errors, never above by more than that and 1 %."""
    shares = draw_shares(dim, slices, orthogonal, COUNT, seed=3)
    at = np.quantile(shares, [0.001, 0.05, 0.3, 0.5, 0.7, 0.95, 0.99, 0.999])
    drawn = (shares[None, :] > at[:, None]).mean(1)
    error = 5.0 * np.sqrt(drawn * (1.0 - drawn) / COUNT)
    ours = survival(law(dim, slices, orthogonal), at)
    assert np.all(ours >= drawn - error)
    assert np.all(ours <= 1.01 * drawn + error)


@pytest.mark.parametrize(("dim", "slices"), [(2, 1), (10, 3), (784, 200), (784, 783), (10**6, 10**5), (784, 1000)])
def test_the_law_of_frames_lies_above_the_beta_law_everywhere(dim: int, slices: int) -> None:
    """Far out in both tails too: the tail decides δ = 1e-12."""
    table = law(dim, slices, True)
    whole, rest = divmod(slices, dim)
    beta = stats.beta(rest / 2.0, (dim - rest) / 2.0)
    at = np.concatenate([beta.ppf([1e-15, 1e-6, 0.01, 0.4]), beta.isf([0.4, 0.01, 1e-6, 1e-12, 1e-20, 1e-30])])
    true = beta.sf(at)
    ours = survival(table, whole + at)
    assert np.all(ours >= true * (1 - 1e-9))
    # and rounds a share up by no more than one cell of 1/4096 in its root
    rounded = beta.sf(np.maximum(np.sqrt(at) - 1.0 / 4096, 0.0) ** 2)
    assert np.all(ours <= rounded * (1 + 1e-9) + 1e-39)
    assert 0.0 <= table.lost <= 1e-39


def test_the_law_of_two_directions_lies_above_an_integrated_convolution() -> None:
    """P(Y₁ + Y₂ > h) = E[P(Y > h − Y₁)], by adaptive quadrature, down to the tail."""
    dim = 6
    beta = stats.beta(0.5, (dim - 1) / 2.0)
    table = law(dim, 2, False)
    for h in (0.05, 0.3, 0.6, 1.0, 1.4, 1.7):

        def inside(root: float, h: float = h) -> float:  # Y₁ = root², so that the pole at 0 is gone
            return float(beta.pdf(root**2) * beta.sf(h - root**2)) * 2.0 * root

        kinks = [min(1.0, math.sqrt(h)), math.sqrt(max(0.0, h - 1.0))]
        true, _ = integrate.quad(inside, 0.0, 1.0, points=kinks, limit=400)
        ours = float(survival(table, np.array([h]))[0])
        assert true * (1 - 1e-7) <= ours <= true * 1.02 + 1e-12, h


@pytest.mark.gate(3)
@pytest.mark.slow
@pytest.mark.parametrize(("dim", "slices", "orthogonal"), [*SMALL, *LARGE])
def test_moments_of_the_law_are_never_below_the_exact_ones(dim: int, slices: int, orthogonal: bool) -> None:
    """E e^{cH} rises with the law, so a law above H has larger moments, here by at most 1 % of the logarithm."""
    table = law(dim, slices, orthogonal)
    spread = math.sqrt(2.0 * slices) / dim
    for c in np.minimum(np.array([0.1, 0.4, 1.0]) / spread, dim / 4.0):
        exact = float(log_moment(dim, slices, orthogonal, c)[0])
        ours = math.log(float(table.masses @ np.exp(c * table.values)))
        assert exact * (1 - 1e-9) <= ours <= exact * 1.01


@pytest.mark.slow
@pytest.mark.gate(5)
@pytest.mark.parametrize(("dim", "slices", "orthogonal"), [*SMALL, *LARGE, (1, 4, False), (4, 8, True), (7, 1, False)])
def test_a_law_is_a_law(dim: int, slices: int, orthogonal: bool) -> None:
    table = law(dim, slices, orthogonal)
    assert np.all(np.diff(table.values) > 0.0) or len(table.values) == 1
    assert np.all(table.masses >= 0.0)
    assert float(table.masses.sum()) + table.lost == pytest.approx(1.0, abs=1e-9)
    assert table.values[0] >= 0.0
    assert table.values[-1] <= slices * (1 + 1e-4)


def test_cases_without_randomness() -> None:
    """Whole frames catch all of a record; one dimension has one direction; one direction is one column of a frame."""
    for dim, slices, orthogonal, value in [(4, 8, True, 2.0), (1, 5, False, 5.0), (1, 3, True, 3.0)]:
        table = law(dim, slices, orthogonal)
        np.testing.assert_array_equal(table.values, [value])
        np.testing.assert_array_equal(table.masses, [1.0])
        assert table.lost == 0.0
    np.testing.assert_array_equal(law(9, 1, True).masses, law(9, 1, False).masses)


@settings(max_examples=40, deadline=None)
@given(st.integers(2, 60), st.integers(1, 130), st.booleans(), st.floats(1e-9, 50.0))
def test_log_moments_agree_with_mpmath(dim: int, slices: int, orthogonal: bool, c: float) -> None:
    if orthogonal:
        whole, rest = divmod(slices, dim)
        truth = whole * c + (log_beta_moment(rest, dim, c) if rest else 0)
    else:
        truth = slices * log_beta_moment(1, dim, c)
    assert float(log_moment(dim, slices, orthogonal, c)[0]) == pytest.approx(float(truth), rel=1e-10)


@pytest.mark.gate(3)
@pytest.mark.slow
@pytest.mark.parametrize(("dim", "slices"), [(5, 3), (12, 8), (2, 40)])
@pytest.mark.parametrize("failure", [0.2, 0.01, 1e-4])
def test_bernsteins_bound_holds_and_the_clt_does_not_always(dim: int, slices: int, failure: float) -> None:
    """P(H > w) ≤ failure for Bernstein with room to spare; the CLT's quantile only comes near it."""
    shares = draw_shares(dim, slices, False, COUNT, seed=4)
    above = float((shares > bernstein_bound(dim, slices, failure)).mean())
    assert above <= failure
    clt = float((shares > clt_bound(dim, slices, failure)).mean())
    assert above <= clt
    # the normal quantile of the exact mean and variance: E H = k/d, Var H = 2k(d−1)/(d²(d+2))
    assert float(shares.mean()) == pytest.approx(slices / dim, rel=0.01)
    deviation = (clt_bound(dim, slices, failure) - slices / dim) / float(stats.norm.isf(failure))
    assert float(shares.std()) == pytest.approx(deviation, rel=0.02)


@pytest.mark.slow
def test_the_clt_is_no_bound() -> None:
    """Five directions in thirty dimensions exceed the CLT's 1e-4 quantile many times more often than 1e-4."""
    shares = draw_shares(30, 5, False, COUNT, seed=5)
    assert float((shares > clt_bound(30, 5, 1e-4)).mean()) > 10 * 1e-4
