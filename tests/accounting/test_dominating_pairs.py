"""Dominating pairs against brute force: real samples of tiny data sets, discrete mechanisms, quadrature."""

from __future__ import annotations

import itertools
import math

import mpmath as mp
import numpy as np
import pytest
from accounting_oracles import draw_shares, hockey_stick, sampled_delta
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate, stats
from scipy.special import erf

from privot.accounting import FixedSize, Gaussian, Laplace, Poisson, Sampled, account
from privot.accounting.events import Event, Frame, Projection, Renyi
from privot.accounting.laws import gaussian
from privot.accounting.pld.composition import Composition
from privot.accounting.pld.dominating_pairs import GaussianMixture, LaplacePair, Step, projection_pair, step_of
from privot.guarantee import Adjacency, Standing

pytestmark = pytest.mark.filterwarnings("error::RuntimeWarning:privot")

ADD, REPLACE = Adjacency.ADD_REMOVE, Adjacency.REPLACE_ONE
EPSILONS = (0.0, 0.02, 0.1, 0.3, 0.7, 1.5, 3.0)


def step(event: Event) -> Step:
    found = step_of(event)
    assert found is not None
    return found[0]


def profile(event: Event, epsilon: float, backward: bool = False) -> float:
    """δ of one step of the pair, read from its tails."""
    one = step(event)
    return Composition([(one.reversed() if backward else one, 1)]).delta(epsilon)


# --- base pairs --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shift", [0.01, 0.5, 3.0])
def test_gaussian_and_laplace_pairs_are_the_hockey_sticks_of_their_densities(shift: float) -> None:
    x = np.linspace(-40.0, 40.0 + shift, 2_000_001)
    cell = float(x[1] - x[0])
    normal = [np.exp(-0.5 * (x - m) ** 2) / math.sqrt(2.0 * math.pi) for m in (shift, 0.0)]
    double = [0.5 * np.exp(-np.abs(x - m)) for m in (shift, 0.0)]
    for epsilon in (0.0, 0.3 * shift, 0.9 * shift, 1.5 * shift):
        assert profile(Gaussian(1.0, shift, ADD), epsilon) == pytest.approx(
            hockey_stick(normal[0], normal[1], epsilon, cell), rel=1e-5, abs=1e-12
        )
        assert profile(Laplace(1.0, shift, ADD), epsilon) == pytest.approx(
            hockey_stick(double[0], double[1], epsilon, cell), rel=1e-4, abs=1e-9
        )


def test_laplace_atoms_and_the_end_of_the_loss() -> None:
    """P(ℓ = s) = ½ and Q(ℓ = s) = ½e^{−s}; nothing lies beyond s."""
    p, q, gap = LaplacePair(0.8).tails(np.array([0.0, 0.8 - 1e-12, 0.8, 5.0]))
    assert p[1] == pytest.approx(0.5)
    assert q[1] == pytest.approx(0.5 * math.exp(-0.8))
    np.testing.assert_array_equal((p[2:], q[2:]), 0.0)
    np.testing.assert_allclose(gap, p - q, rtol=1e-12)


@settings(max_examples=60, deadline=None)
@given(st.floats(-12.0, -0.01), st.floats(0.05, 4.0), st.booleans(), st.floats(0.0, 3.0))
def test_the_gap_between_tails_keeps_its_digits(log_q: float, shift: float, outward: bool, share: float) -> None:
    """P(ℓ > c) − Q(ℓ > c) is q times the base pair's gap, however small q is (60 digits)."""
    q = 10.0**log_q
    one = step(Sampled(Gaussian(1.0, shift, ADD), Poisson(q)))
    loss = -share * math.log1p(-q) / 4.0 if outward else math.log1p(share * q)
    gap = float((one.backward if outward else one.forward)(np.array([loss]))[2][0])
    with mp.workdps(60):
        e, s, r = mp.mpf(loss), mp.mpf(shift), mp.mpf(q)
        base = -mp.log(1 - (1 - mp.exp(-e)) / r) if outward else mp.log(1 + mp.expm1(e) / r)
        true = r * (mp.ncdf(s / 2 - base / s) - mp.ncdf(-s / 2 - base / s))
    assert gap == pytest.approx(float(true), rel=1e-6)


# --- sampling ----------------------------------------------------------------------------------------------------


@settings(max_examples=60, deadline=None)
@given(st.floats(0.001, 0.999), st.floats(0.05, 4.0), st.floats(0.0, 4.0))
def test_poisson_pairs_are_exact_in_both_directions(q: float, shift: float, epsilon: float) -> None:
    event = Sampled(Gaussian(1.0, shift, ADD), Poisson(q))
    for adding in (False, True):
        truth = float(sampled_delta(q, shift, np.array([epsilon]), adding)[0])
        assert profile(event, epsilon, backward=adding) == pytest.approx(truth, rel=1e-6, abs=1e-14)


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 999), st.floats(0.05, 4.0), st.floats(0.0, 4.0))
def test_the_fixed_size_profile_is_the_theorem(batch: int, shift: float, epsilon: float) -> None:
    """q·δ_M(1 + (e^ε − 1)/q), the same in both directions (Balle, Barthe & Gaboardi 2018, Theorem 9)."""
    event = Sampled(Gaussian(1.0, shift, REPLACE), FixedSize(batch, 1000))
    q = event.sampling.share
    theorem = q * float(gaussian.delta(shift, math.log1p(math.expm1(epsilon) / q)))
    for backward in (False, True):
        assert profile(event, epsilon, backward) == pytest.approx(theorem, rel=1e-7, abs=1e-14)


@settings(max_examples=20, deadline=None)
@given(st.integers(1, 999), st.floats(-0.7, 0.7), st.floats(0.0, 3.0), st.booleans())
def test_the_profile_of_sampled_projections_is_the_theorem(
    batch: int, log_sigma: float, epsilon: float, orthogonal: bool
) -> None:
    release = Projection(784, 200, 10.0**log_sigma, 1.0, REPLACE, "orthogonal" if orthogonal else "independent")
    event = Sampled(release, FixedSize(batch, 1000))
    q = event.sampling.share
    theorem = q * account(release, 1e-5).delta(math.log1p(math.expm1(epsilon) / q))
    assert theorem * (1 - 1e-9) <= profile(event, epsilon) <= theorem * 1.01 + 1e-9


def ordered_mixture(values: np.ndarray, batch: int, grids: list[np.ndarray], sigma: float) -> np.ndarray:
    """The density of `batch` noisy rows, the rows being a uniformly random *ordered* sample of `values`."""
    total = np.zeros(tuple(len(g) for g in grids))
    count = 0
    for sample in itertools.permutations(range(len(values)), batch):
        rows = [np.exp(-0.5 * ((g - values[i]) / sigma) ** 2) for g, i in zip(grids, sample, strict=True)]
        total += np.multiply.outer(rows[0], rows[1])
        count += 1
    return total / (count * 2.0 * math.pi * sigma**2)


def summed_mixture(values: np.ndarray, batch: int, grid: np.ndarray, sigma: float) -> np.ndarray:
    """The density of a noisy sum over a random sample."""
    sums = [values[list(c)].sum() for c in itertools.combinations(range(len(values)), batch)]
    density = np.mean([np.exp(-0.5 * ((grid - s) / sigma) ** 2) for s in sums], axis=0)
    return density / (sigma * math.sqrt(2.0 * math.pi))


OTHERS = [(0.5, 0.5, 0.5), (-0.5, -0.5, -0.5), (0.5, -0.5, 0.5), (0.0, 0.0, 0.0), (-0.5, 0.5, 0.1), (0.3, -0.2, -0.5)]
CHANGES = [(0.5, -0.5), (0.5, 0.0), (-0.1, -0.5)]


@pytest.mark.parametrize("sigma", [0.4, 1.0, 3.0])
def test_no_tiny_data_set_beats_the_fixed_size_bound(sigma: float) -> None:
    """n = 4, m = 2, records in [−½, ½] (Δ = 1): rows released in sampled order, and sums; both directions.

    The worst data set must also come close to the bound, so that the test would notice a bound that is too large.
    """
    event = Sampled(Gaussian(sigma, 1.0, REPLACE), FixedSize(2, 4))
    bound = {e: profile(event, e) for e in EPSILONS}
    line = np.linspace(-0.5 - 8 * sigma, 0.5 + 8 * sigma, 301)
    wide = np.linspace(-1.0 - 9 * sigma, 1.0 + 9 * sigma, 4001)
    closest = 0.0
    for others, (old, new) in itertools.product(OTHERS, CHANGES):
        before, after = np.array([old, *others]), np.array([new, *others])
        rows = [ordered_mixture(v, 2, [line, line], sigma) for v in (before, after)]
        sums = [summed_mixture(v, 2, wide, sigma) for v in (before, after)]
        for epsilon, limit in bound.items():
            for pair, cell in ((rows, (line[1] - line[0]) ** 2), (sums, wide[1] - wide[0])):
                for p, q in (pair, pair[::-1]):
                    true = hockey_stick(p, q, epsilon, float(cell))
                    assert true <= limit * (1 + 1e-4) + 1e-12, (others, old, new, epsilon)
                    if limit > 1e-6:
                        closest = max(closest, true / limit)
    assert closest > 0.95


def test_rows_in_index_order_would_not_be_covered() -> None:
    """Why a sample comes in random order: sorted by index, two of three records beat the bound by two fifths."""
    sigma, epsilon = 1.0, 5.0
    line = np.linspace(-0.5 - 9 * sigma, 0.5 + 9 * sigma, 601)
    cell = float(line[1] - line[0]) ** 2
    index_order, random_order = [], []
    for values in (np.array([0.5, -0.5, 0.5]), np.array([-0.5, -0.5, 0.5])):
        bumps = [np.exp(-0.5 * ((line - v) / sigma) ** 2) / (sigma * math.sqrt(2.0 * math.pi)) for v in values]
        index_order.append(
            np.mean([np.multiply.outer(bumps[i], bumps[j]) for i, j in ((0, 1), (0, 2), (1, 2))], axis=0)
        )
        random_order.append(ordered_mixture(values, 2, [line, line], sigma))
    bound = profile(Sampled(Gaussian(sigma, 1.0, REPLACE), FixedSize(2, 3)), epsilon)
    worst = {
        name: max(hockey_stick(p, q, epsilon, cell) for p, q in (pair, pair[::-1]))
        for name, pair in (("index", index_order), ("random", random_order))
    }
    assert worst["index"] > 1.4 * bound
    assert worst["random"] <= bound


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.lists(st.floats(0.02, 1.0), min_size=3, max_size=3), min_size=3, max_size=3),
    st.integers(2, 4),
    st.data(),
)
def test_no_discrete_mechanism_beats_the_theorem(table: list[list[float]], batch: int, data: st.DataObject) -> None:
    """Random mechanisms on batches of three kinds of records, with their true profile δ_M in the theorem."""
    laws = np.array(table) / np.sum(table, axis=1, keepdims=True)
    records = 5
    others = data.draw(st.lists(st.integers(0, 2), min_size=records - 1, max_size=records - 1))
    old, new = 0, 1

    def release(batch_records: tuple[int, ...]) -> np.ndarray:
        """A law on three outcomes that each record pulls on: the normalised product of its records' laws."""
        product = np.prod(laws[list(batch_records)], axis=0)
        return product / product.sum()

    multisets = list(itertools.combinations_with_replacement(range(3), batch))
    neighbours = [
        (release(a), release(b))
        for a in multisets
        for b in multisets
        if sum(abs(a.count(v) - b.count(v)) for v in range(3)) == 2
    ]

    def base(epsilon: float) -> float:
        return max(hockey_stick(p, q, epsilon) for p, q in neighbours)

    before, after = (
        np.mean(
            [release(tuple(sorted(np.array([x, *others])[list(c)]))) for c in itertools.combinations(range(5), batch)],
            axis=0,
        )
        for x in (old, new)
    )
    q = batch / records
    for epsilon in EPSILONS:
        theorem = q * base(math.log1p(math.expm1(epsilon) / q))
        assert hockey_stick(before, after, epsilon) <= theorem + 1e-12
        assert hockey_stick(after, before, epsilon) <= theorem + 1e-12


@pytest.mark.slow
def test_composing_only_the_remove_direction_would_be_too_small() -> None:
    """The symmetric pair is needed: two fixed-size steps cost more than two "remove" steps (Lebeda et al. 2024)."""
    sampling = FixedSize(100, 1000)
    symmetric = step(Sampled(Gaussian(0.5, 1.0, REPLACE), sampling))
    remove = step(Sampled(Gaussian(0.5, 1.0, ADD), Poisson(sampling.share)))
    for times, delta in ((2, 1e-2), (50, 1e-3)):
        both = Composition([(symmetric, times)]).epsilon(delta)
        one = max(Composition([(s, times)]).epsilon(delta) for s in (remove, remove.reversed()))
        assert both >= one * (1 - 1e-6)
    assert Composition([(symmetric, 50)]).delta(0.5) > 1.01 * Composition([(remove, 50)]).delta(0.5)


def test_a_share_of_one_is_no_sampling_and_a_curve_has_no_pair() -> None:
    whole, symmetric = step_of(Sampled(Gaussian(1.0, 1.0, REPLACE), FixedSize(7, 7))) or (None, None)
    assert symmetric
    assert whole is not None
    assert Composition([(whole, 1)]).delta(1.0) == pytest.approx(float(gaussian.delta(1.0, 1.0)), rel=1e-12)
    assert step_of(Renyi((2.0,), (1.0,), REPLACE, Standing.PROVEN)) is None


# --- projections -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("epsilon", [0.0, 0.1, 1.0, 4.0, 15.0])
def test_the_profile_is_convex_in_total_variation(epsilon: float) -> None:
    """The claim behind the second-order discretisation: δ against erf(s/√8) has rising slopes, at every ε."""
    shifts = np.concatenate([np.linspace(0.02, 1.0, 60), np.linspace(1.05, 7.0, 60)])
    variation, delta = erf(shifts / math.sqrt(8.0)), gaussian.delta(shifts, epsilon)
    slopes = np.diff(delta) / np.diff(variation)
    assert np.all(np.diff(slopes) >= -1e-7 * (1.0 + np.abs(slopes[1:])))
    # and the slope is the one the docstring states
    middle = 0.5 * (shifts[1:] + shifts[:-1])
    stated = math.exp(epsilon / 2.0) * np.exp(-(epsilon**2) / (2.0 * middle**2))
    near = middle > max(0.3, 0.5 * epsilon)
    np.testing.assert_allclose(slopes[near], stated[near], rtol=0.02)


@pytest.mark.slow
@settings(max_examples=25, deadline=None)
@given(
    st.sampled_from([(2, 1), (10, 3), (784, 200), (784, 783), (1000, 1200)]),
    st.booleans(),
    st.floats(-1.5, 1.0),
    st.floats(0.0, 6.0),
)
def test_a_few_dozen_nodes_dominate_the_whole_law(
    shape: tuple[int, int], orthogonal: bool, log_ratio: float, epsilon: float
) -> None:
    """The thinned mixture is above the exact one-release δ, by less than 1 % or 1e-9."""
    dim, slices = shape
    ratio = 10.0**log_ratio
    pair = projection_pair(dim, slices, orthogonal, ratio)
    assert len(pair.shifts) <= 64
    assert sum(pair.weights) + pair.lost == pytest.approx(1.0, abs=1e-9)
    thinned = Composition([(Step(pair.tails, pair.tails, pair.lost), 1)]).delta(epsilon)
    frame: Frame = "orthogonal" if orthogonal else "independent"
    exact = account(Projection(dim, slices, 1.0 / ratio, 1.0, REPLACE, frame), 1e-5).delta(epsilon)
    assert exact * (1 - 1e-9) <= thinned * (1 + 1e-9) + 1e-15
    assert thinned <= exact * 1.03 + 1e-9


@pytest.mark.gate(4)
@pytest.mark.slow
@pytest.mark.parametrize(("dim", "slices"), [(2, 1), (10, 3), (50, 70), (784, 200), (784, 783)])
@pytest.mark.parametrize("sigma", [0.3, 1.0, 4.0])
def test_one_release_of_frames_agrees_with_an_integral_over_the_beta_law(dim: int, slices: int, sigma: float) -> None:
    whole, rest = divmod(slices, dim)
    beta = stats.beta(rest / 2.0, (dim - rest) / 2.0)

    def inside(u: float, epsilon: float) -> float:
        """Over the quantiles of H, in an angle, so that no density has a pole."""
        h = float(beta.ppf(math.sin(u) ** 2))
        return float(gaussian.delta(math.sqrt(whole + h) / sigma, epsilon)) * math.sin(2.0 * u)

    def true(epsilon: float) -> tuple[float, float]:
        return integrate.quad(inside, 0.0, math.pi / 2.0, (epsilon,), epsabs=1e-14, epsrel=1e-7, limit=400)

    guarantee = account(Projection(dim, slices, sigma, 1.0, REPLACE), 1e-5)
    for epsilon in (0.0, 0.3, 2.0, guarantee.epsilon()):
        value, error = true(epsilon)
        assert value - 5.0 * error - 1e-12 <= guarantee.delta(epsilon) * (1 + 1e-7)
        assert guarantee.delta(epsilon) <= value * (1 + 3e-3) + 1e-11
    # which is less than a part in a thousand of ε
    assert true(guarantee.epsilon() * (1 - 1e-3))[0] > 1e-5


@pytest.mark.gate(1)
@pytest.mark.statistical
@pytest.mark.parametrize(("dim", "slices", "sigma"), [(6, 4, 1.0), (12, 8, 0.5), (3, 9, 2.0)])
def test_one_release_of_independent_directions_agrees_with_simulation(dim: int, slices: int, sigma: float) -> None:
    """Drawn directions, five standard errors; the errors themselves are below 1 %."""
    shares = draw_shares(dim, slices, False, 400_000, seed=6)
    guarantee = account(Projection(dim, slices, sigma, 1.0, REPLACE, "independent"), 1e-5)
    for epsilon in (0.0, 0.3, 1.0):
        drawn = gaussian.delta(np.sqrt(shares) / sigma, epsilon)
        mean, error = float(drawn.mean()), float(drawn.std()) / math.sqrt(len(drawn))
        assert error < 0.01 * mean
        assert mean - 5.0 * error <= guarantee.delta(epsilon) <= (mean + 5.0 * error) * (1 + 1e-3)


def test_one_release_of_independent_directions_agrees_with_a_plain_convolution() -> None:
    """Three Beta(½, 2) laws convolved on a plain grid, no FFT, in the middle of cells: second order, to 1e-3."""
    cells = 6000
    edges = np.linspace(0.0, 1.0, cells + 1)
    single = np.diff(stats.beta(0.5, 2.0).cdf(edges))
    total = np.convolve(np.convolve(single, single), single)
    values = (np.arange(len(total)) + 1.5) / cells  # three midpoints
    guarantee = account(Projection(5, 3, 0.7, 1.0, REPLACE, "independent"), 1e-5)
    for epsilon in (0.0, 0.5, 2.0, 4.0):
        plain = float(total @ gaussian.delta(np.sqrt(values) / 0.7, epsilon))
        assert guarantee.delta(epsilon) == pytest.approx(plain, rel=1e-3)


def test_mixtures_show_their_component() -> None:
    """A visible component means that δ is the mean of δ's."""
    pair = GaussianMixture((0.5, 2.0), (0.7, 0.3))
    ours = Composition([(Step(pair.tails, pair.tails, 0.0), 1)]).delta(0.8)
    assert ours == pytest.approx(
        0.7 * float(gaussian.delta(0.5, 0.8)) + 0.3 * float(gaussian.delta(2.0, 0.8)), rel=1e-9
    )
