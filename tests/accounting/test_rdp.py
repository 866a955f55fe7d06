"""Rényi curves against mpmath, quadrature, simulation, autodp and the published proposition."""

from __future__ import annotations

import math
import warnings

import mpmath as mp
import numpy as np
import pytest
from accounting_oracles import GaussianGrid, draw_shares, log_beta_moment
from autodp import rdp_acct
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from scipy.special import ndtri

from privot.accounting import FixedSize, Gaussian, Laplace, Poisson, Repeated, Sampled, account, rdp
from privot.accounting.events import Bound, Composed, Event, Frame, Projection, Renyi
from privot.errors import UsageError
from privot.guarantee import Adjacency, Standing
from privot.mechanisms import RandomProjection

pytestmark = pytest.mark.filterwarnings("error::RuntimeWarning:privot")

ADD, REPLACE = Adjacency.ADD_REMOVE, Adjacency.REPLACE_ONE

# (dim, slices): 1 … 10⁶ and 1 … 10⁵, with every way a frame can be full, nearly full, half full or one column
SHAPES = [
    (2, 1),
    (2, 100_000),
    (3, 4),
    (10, 9),
    (784, 1),
    (784, 200),
    (784, 783),
    (784, 1000),
    (8192, 4096),
    (100_000, 100_000),
    (1_000_000, 1),
    (1_000_000, 99_999),
]
NOISE_AND_ORDER = [(0.05, 1.01), (0.05, 512.0), (0.3, 32.0), (1.0, 2.0), (1.0, 512.0), (7.0, 64.0), (100.0, 1.01)]


def exact_curve(dim: int, slices: int, frame: str, sigma: float, order: float) -> mp.mpf:
    """The law of projections, again: k·ln ₁F₁(½; d/2; c)/(α−1), or b·c/(α−1) + ln ₁F₁(r/2; d/2; c)/(α−1)."""
    with mp.workdps(40):
        c = mp.mpf(order) * (mp.mpf(order) - 1) / (2 * mp.mpf(sigma) ** 2)
        if frame == "independent":
            total = slices * log_beta_moment(1, dim, c)
        else:
            total = (slices // dim) * c + (log_beta_moment(slices % dim, dim, c) if slices % dim else 0)
        return total / (mp.mpf(order) - 1)


@pytest.mark.gate(3, each="frame")
@pytest.mark.slow
@pytest.mark.parametrize("frame", ["independent", "orthogonal"])
@pytest.mark.parametrize(("dim", "slices"), SHAPES)
def test_projection_curves_agree_with_mpmath(dim: int, slices: int, frame: Frame) -> None:
    for sigma, order in NOISE_AND_ORDER:
        event = Projection(dim, slices, sigma, 1.0, REPLACE, frame)
        ours = float(rdp.curve(event, np.array([order]))[0])
        assert abs(ours / exact_curve(dim, slices, frame, sigma, order) - 1) < 1e-9, (sigma, order)


@pytest.mark.parametrize(
    ("dim", "slices", "frame"), [(5, 3, "independent"), (5, 3, "orthogonal"), (4, 6, "orthogonal")]
)
@pytest.mark.parametrize("order", [1.5, 2.0, 4.0])
def test_projection_curves_agree_with_simulated_directions(dim: int, slices: int, frame: Frame, order: float) -> None:
    """E over drawn directions of exp(α(α−1)Δ²H/2σ²), within five standard errors, which are below 1 %."""
    sigma = 1.5
    shares = draw_shares(dim, slices, frame == "orthogonal", 400_000, seed=1)
    inside = np.exp(order * (order - 1.0) * shares / (2.0 * sigma**2))
    mean, error = float(inside.mean()), float(inside.std()) / math.sqrt(len(inside))
    ours = float(rdp.curve(Projection(dim, slices, sigma, 1.0, REPLACE, frame), np.array([order]))[0])
    assert error < 0.01 * (mean - 1.0)
    assert abs(math.exp((order - 1.0) * ours) - mean) < 5.0 * error


def test_a_projection_curve_is_the_divergence_of_the_release_itself() -> None:
    """Draw (U, zᵀU + V) and average the density ratio to the power α: nothing about H or Beta laws is used."""
    dim, slices, sigma, order, count = 4, 2, 1.0, 2.0, 400_000
    rng = np.random.default_rng(2)
    directions = rng.standard_normal((count, slices, dim))
    directions /= np.linalg.norm(directions, axis=2, keepdims=True)
    record = np.array([0.6, 0.0, -0.8, 0.0])
    means = directions @ record
    released = sigma * rng.standard_normal((count, slices))  # under the neighbour, whose row is 0
    log_ratio = ((released**2).sum(1) - ((released - means) ** 2).sum(1)) / (2.0 * sigma**2)
    inside = np.exp(order * log_ratio)
    mean, error = float(inside.mean()), float(inside.std()) / math.sqrt(count)
    ours = float(rdp.curve(Projection(dim, slices, sigma, 1.0, REPLACE, "independent"), np.array([order]))[0])
    assert abs(math.exp((order - 1.0) * ours) - mean) < 5.0 * error
    assert error < 0.03 * (mean - 1.0)


@settings(max_examples=25, deadline=None)
@given(st.floats(0.05, 5.0), st.floats(1.05, 60.0))
def test_gaussian_and_laplace_curves_agree_with_quadrature(ratio: float, order: float) -> None:
    """Both densities integrated; the Laplace integral is split at its kinks."""
    gaussian = GaussianGrid(ratio, order).remove(1.0, order) / (order - 1.0)
    assert float(rdp.curve(Gaussian(1.0 / ratio, 1.0, ADD), np.array([order]))[0]) == pytest.approx(gaussian, rel=1e-7)
    # a sum of positive terms to 1e-6: more digits than a float's would only cost time
    with mp.workdps(16):
        t, a = mp.mpf(1.0) / mp.mpf(1.0 / ratio), mp.mpf(order)

        def ratio_power(x: mp.mpf) -> mp.mpf:
            return mp.exp(-abs(x - t) * a - abs(x) * (1 - a)) / 2

        moment = mp.quad(ratio_power, [-mp.inf, 0, t, mp.inf])
        laplace = float(mp.log(moment) / (a - 1))
    ours = float(rdp.curve(Laplace(1.0 / ratio, 1.0, ADD), np.array([order]))[0])
    assert ours == pytest.approx(laplace, rel=1e-6, abs=1e-12)


SAMPLED_SHIFTS = [(0.01, 1.0), (0.1, 0.5), (0.5, 2.0), (0.9, 1.0), (0.003, 3.0), (0.3, 0.1)]


@pytest.mark.parametrize(("q", "shift"), SAMPLED_SHIFTS)
def test_poisson_curves_are_exact_at_integers_and_above_between(q: float, shift: float) -> None:
    event = Sampled(Gaussian(1.0, shift, ADD), Poisson(q))
    for order in (1.3, 2.0, 3.0, 7.5, 12.0):
        grid = GaussianGrid(shift, order)
        remove, add = grid.remove(q, order), grid.add(q, order)
        ours = (order - 1.0) * float(rdp.curve(event, np.array([order]))[0])
        assert ours >= max(remove, add) * (1 - 1e-7) - 1e-13
        if order == int(order):
            assert ours == pytest.approx(remove, rel=1e-6)


@pytest.mark.parametrize(("q", "shift"), SAMPLED_SHIFTS)
def test_fixed_size_curves_lie_above_every_lower_bound(q: float, shift: float) -> None:
    """Between the "remove" pair, both directions (attained by real data), the symmetric pair, and the bound itself."""
    sampling = FixedSize(round(1000 * q), 1000)
    event = Sampled(Gaussian(1.0, shift, REPLACE), sampling)
    base = rdp.curve(event.event, np.arange(2.0, 25.0))
    for order in (1.3, 2.0, 3.0, 5.0, 7.5, 12.0, 24.0):
        grid = GaussianGrid(shift, order)
        lower = max(grid.remove(sampling.share, order), grid.add(sampling.share, order))
        symmetric = grid.symmetric(sampling.share, order)
        ours = (order - 1.0) * float(rdp.curve(event, np.array([order]))[0])
        assert lower <= symmetric * (1 + 1e-7) + 1e-12
        assert symmetric <= ours * (1 + 1e-7) + 1e-12
        if order == int(order):
            pair = rdp._fixed_size_pair(int(order), sampling.share, base[: int(order) - 1])
            assert symmetric <= pair * (1 + 1e-7) + 1e-12
            # not so far above as to be useless: the two-sided term costs at most a factor of two
            assert pair <= 2.0 * symmetric + 1e-12


@pytest.mark.gate(1)
@pytest.mark.slow
@pytest.mark.parametrize(("q", "sigma"), [(0.01, 0.5), (0.3, 0.7), (0.9, 2.0)])
def test_fixed_size_curves_of_projections_lie_above_their_remove_pair(q: float, sigma: float) -> None:
    """The same lower bound with the share H visible: the moments averaged over the quantiles of its Beta law."""
    sampling = FixedSize(round(1000 * q), 1000)
    event = Sampled(Projection(10, 3, sigma, 1.0, REPLACE), sampling)
    shares = stats.beta(1.5, 3.5).ppf((np.arange(16) + 0.5) / 16)
    for order in (2.0, 5.0, 9.0):
        grids = [GaussianGrid(math.sqrt(h) / sigma, order) for h in shares]
        ours = (order - 1.0) * float(rdp.curve(event, np.array([order]))[0])
        for moment in ("remove", "add", "symmetric"):
            logs = [getattr(grid, moment)(sampling.share, order) for grid in grids]
            assert float(np.logaddexp.reduce(logs)) - math.log(16) <= ours


def autodp_curve(event: Event, q: float, orders: list[float]) -> np.ndarray:
    """autodp's fixed-size bound, fed with the base mechanism's curve."""

    def base(order: float) -> float:
        return math.inf if math.isinf(order) else float(rdp.curve(event, np.array([float(order)]))[0])

    accountant = rdp_acct.anaRDPacct(m=2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        accountant.compose_subsampled_mechanism(base, q)
        return accountant.get_rdp(orders)


@pytest.mark.gate(each="event")
@pytest.mark.slow
@pytest.mark.parametrize(("batch", "records"), [(1, 1000), (128, 10_000), (100, 1000), (900, 1000)])
@pytest.mark.parametrize(
    "event",
    [
        Gaussian(1.0, 1.0, REPLACE),
        Gaussian(0.3, 1.0, REPLACE),
        Gaussian(10.0, 1.0, REPLACE),
        Projection(784, 200, 0.75, 1.0, REPLACE, "independent"),
        Projection(10, 3, 0.5, 1.0, REPLACE),
        Renyi((1.5, 2.0, 3.0, 200.0), (0.08, 0.1, 0.3, 20.0), REPLACE, Standing.PROVEN),
    ],
    ids=["gaussian", "low-noise", "high-noise", "independent", "frame", "curve"],
)
def test_fixed_size_curves_are_never_above_autodp(event: Event, batch: int, records: int) -> None:
    sampling = FixedSize(batch, records)
    orders = [1.2, 2.0, 3.0, 5.5, 6.6, 10.0, 40.0]
    ours = rdp.curve(Sampled(event, sampling), np.array(orders))
    theirs = autodp_curve(event, sampling.share, orders)
    assert np.all(ours <= theirs * (1 + 1e-8))
    if isinstance(event, Gaussian) and event.sigma == 10.0 and batch == 100:
        assert ours[1] < 0.6 * theirs[1]  # and usually well below


@pytest.mark.parametrize("q", [0.01, 0.2, 0.7])
def test_a_curve_alone_is_poisson_sampled_as_published(q: float) -> None:
    """Zhu & Wang 2019, Theorem 5, summed in mpmath; above the exact curve of the Gaussian whose curve was given."""
    known = [float(a) for a in range(2, 13)]
    event = Sampled(Renyi(tuple(known), tuple(0.5 * a for a in known), ADD, Standing.PROVEN), Poisson(q))
    exact = rdp.curve(Sampled(Gaussian(1.0, 1.0, ADD), Poisson(q)), np.array(known))
    ours = rdp.curve(event, np.array(known))
    assert np.all(ours >= exact * (1 - 1e-12))
    for order, value in zip(range(2, 13), ours, strict=True):
        total = (1 - mp.mpf(q)) ** (order - 1) * (order * mp.mpf(q) - q + 1)
        for j in range(2, order + 1):
            term = mp.binomial(order, j) * (1 - mp.mpf(q)) ** (order - j) * mp.mpf(q) ** j * mp.exp((j - 1) * 0.5 * j)
            total += term if j == 2 else 3 * term
        published = float(mp.log(total) / (order - 1))
        assert value == pytest.approx(min(published, 0.5 * order), rel=1e-9)


def test_a_curve_with_a_pure_bound_uses_it() -> None:
    """ε(∞) amplifies to ln(1 + q(e^ε − 1)) at every order, even where the curve itself is unknown."""
    event = Sampled(Renyi((2.0,), (0.4,), REPLACE, Standing.PROVEN, pure=0.5), FixedSize(1, 100))
    values = rdp.curve(event, np.array([2.0, 40.0, 900.0]))
    assert np.all(values <= math.log1p(event.sampling.share * math.expm1(0.5)) * (1 + 1e-12))
    assert values[0] < values[1]


def test_curves_interpolate_from_above_and_end_where_knowledge_ends() -> None:
    """Chords of (α−1)ε(α), which is convex: a Gaussian's tabulated curve must lie above the Gaussian's own."""
    known = (1.5, 2.0, 5.0, 20.0)
    event = Renyi(known, tuple(0.5 * a for a in known), REPLACE, Standing.PROVEN)
    orders = np.array([1.1, 1.5, 1.7, 3.0, 5.0, 19.0, 20.0, 20.5])
    values = rdp.curve(event, orders)
    assert np.all(values[:-1] >= 0.5 * orders[:-1] * (1 - 1e-12))
    np.testing.assert_allclose(values[[1, 4, 6]], 0.5 * orders[[1, 4, 6]], rtol=1e-12)
    assert values[3] == pytest.approx(0.5 * (1.0 * 2.0 / 3.0 * 2.0 + 4.0 * 5.0 / 3.0) / 2.0)
    assert values[-1] == math.inf


def test_infinite_stretches_of_a_curve_stay_infinite() -> None:
    event = Renyi((2.0, 4.0), (1.0, math.inf), REPLACE, Standing.PROVEN)
    np.testing.assert_array_equal(rdp.curve(event, np.array([2.0, 3.0, 4.0])), [1.0, math.inf, math.inf])


@settings(max_examples=60, deadline=None)
@given(st.floats(0.05, 20.0), st.floats(-12.0, -3.0))
def test_the_conversion_is_a_bound_and_not_a_loose_one(shift: float, log_delta: float) -> None:
    """Rényi ε of a Gaussian is above the exact one, by less than a fifth and 0.02."""
    delta = 10.0**log_delta
    event = Gaussian(1.0, shift, ADD)
    values = rdp.curve(event, rdp.ORDERS)
    through_renyi = rdp.epsilon(values, delta)
    exact = account(event, delta).epsilon()
    assert exact <= through_renyi * (1 + 1e-12) + 1e-12
    assert through_renyi <= 1.2 * exact + 0.02
    assert rdp.delta(values, through_renyi) == pytest.approx(delta, rel=1e-6) or through_renyi == 0.0


def proposition_two(dim: int, slices: int, sigma: float, delta: float, bound: str) -> float:
    """ε of one release as published: ε = w/2σ² + √(2·w·ln(2/δ))/σ with w = w(k, δ/2), both halves of δ spent."""
    log = math.log(2.0 / delta)
    if bound == "bernstein":
        w = slices / dim + 2.0 / 3.0 * log + 2.0 / dim * math.sqrt(slices * (dim - 1.0) / (dim + 2.0) * log)
    else:
        z = float(ndtri(1.0 - delta / 2.0))
        w = slices / dim + z / dim * math.sqrt(2.0 * slices * (dim - 1.0) / (dim + 2.0))
    return w / (2.0 * sigma**2) + math.sqrt(2.0 * w * log) / sigma


@pytest.mark.parametrize("bound", ["bernstein", "clt"])
@pytest.mark.parametrize(
    ("dim", "slices", "sigma", "delta"), [(784, 200, 4.0, 1e-5), (10, 3, 1.0, 1e-3), (2, 900, 9.0, 1e-7)]
)
def test_one_published_step_is_the_published_proposition(
    dim: int, slices: int, sigma: float, delta: float, bound: Bound
) -> None:
    event = Projection(dim, slices, sigma, 1.0, REPLACE, "independent", bound, delta / 2.0)
    guarantee = account(event, delta)
    assert guarantee.epsilon() == pytest.approx(proposition_two(dim, slices, sigma, delta, bound), rel=1e-9)
    assert guarantee.standing is (Standing.PROVEN if bound == "bernstein" else Standing.ASYMPTOTIC)


@pytest.mark.parametrize("bound", ["bernstein", "clt"])
def test_the_failure_is_charged_at_every_draw(bound: Bound) -> None:
    """T draws spend T·failure of δ: nothing is left, and nothing is claimed, once that reaches δ."""
    event = Projection(784, 200, 5.0, 1.0, REPLACE, "independent", bound, 1e-7)
    fits = account(Repeated(event, 99), 1e-5).epsilon()
    assert math.isfinite(fits)
    assert account(Repeated(event, 100), 1e-5).epsilon() == math.inf
    assert account(Repeated(event, 101), 1e-5).epsilon() == math.inf
    # by hand: the sum of T curves, and Mironov's conversion with what is left of δ
    c = 99 * event.squared_sensitivity / 25.0
    by_hand = c / 2.0 + math.sqrt(2.0 * c * math.log(1.0 / (1e-5 - 99e-7)))
    assert fits == pytest.approx(by_hand, rel=1e-9)


@pytest.mark.parametrize("bound", ["published", "published-clt"])
def test_as_published_the_failure_is_charged_once_and_nothing_is_proven(bound: Bound) -> None:
    sigma, times, delta = 40.0, 500, 1e-5
    event = Projection(784, 200, sigma, 1.0, REPLACE, "independent", bound, delta / 2.0)
    guarantee = account(Repeated(event, times), delta)
    # T curves of the bound at δ/2, and Mironov's conversion with the other half, as in Proposition 2
    wide = "clt" if bound == "published-clt" else "bernstein"
    w = times * Projection(784, 200, sigma, 1.0, REPLACE, "independent", wide, delta / 2.0).squared_sensitivity
    by_hand = w / (2.0 * sigma**2) + math.sqrt(2.0 * w * math.log(2.0 / delta)) / sigma
    assert guarantee.epsilon() == pytest.approx(by_hand, rel=1e-9)
    assert guarantee.standing is Standing.UNPROVEN
    # δ at that ε is no larger by any other road, and the failure is in it
    assert delta / 2.0 < guarantee.delta(guarantee.epsilon()) <= delta * (1.0 + 1e-9)
    # a step that is charged at every draw has nothing left
    honest = Projection(784, 200, sigma, 1.0, REPLACE, "independent", wide, delta / 2.0)
    assert account(Repeated(honest, times), delta).epsilon() == math.inf
    # beside other releases it is still unproven, and costs more than they do
    mixed = account(Composed((Repeated(event, times), Gaussian(10.0, 1.0, REPLACE))), delta)
    assert mixed.standing is Standing.UNPROVEN
    assert account(Gaussian(10.0, 1.0, REPLACE), delta).epsilon() < mixed.epsilon() < math.inf


def test_no_mechanism_releases_on_the_published_count() -> None:
    for bound in ("published", "published-clt"):
        with pytest.raises(UsageError, match="plan with it only"):
            RandomProjection(4, 1.0, "independent", bound=bound, failure=1e-6)  # type: ignore[arg-type]


def test_sampled_published_bounds_charge_the_failure_too() -> None:
    event = Sampled(Projection(784, 200, 5.0, 1.0, REPLACE, "independent", "bernstein", 1e-8), FixedSize(128, 10_000))
    one, many = (account(Repeated(event, t), 1e-5).epsilon() for t in (2, 900))
    assert 0.0 < one < many < math.inf
    assert account(Repeated(event, 1000), 1e-5).epsilon() == math.inf
