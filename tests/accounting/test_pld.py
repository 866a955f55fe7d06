"""Composed privacy losses against closed forms, exact two-step integrals and dp-accounting."""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
import pytest
from accounting_oracles import sampled_delta, twice_fixed_size_delta, twice_sampled_delta
from dp_accounting.pld import privacy_loss_distribution as theirs
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from privot.accounting import FixedSize, Gaussian, Laplace, Poisson, Sampled, rdp
from privot.accounting.events import Event, Frame, Projection
from privot.accounting.laws import gaussian
from privot.accounting.pld.composition import Composition
from privot.accounting.pld.dominating_pairs import GaussianMixture, Step, step_of
from privot.accounting.pld.grid import discretise
from privot.guarantee import Adjacency

pytestmark = pytest.mark.filterwarnings("error::RuntimeWarning:privot")

ADD, REPLACE = Adjacency.ADD_REMOVE, Adjacency.REPLACE_ONE


def step(event: Event, backward: bool = False) -> Step:
    found = step_of(event)
    assert found is not None
    return found[0].reversed() if backward else found[0]


def composed(event: Event, times: int, backward: bool = False) -> Composition:
    return Composition([(step(event, backward), times)])


# --- closed forms ------------------------------------------------------------------------------------------------


@pytest.mark.gate(4)
@pytest.mark.slow
@pytest.mark.parametrize(
    ("shift", "times", "delta"),
    [
        (1.0, 2, 1e-5),
        (0.1, 100, 1e-5),
        (0.01, 10_000, 1e-2),
        (0.01, 10_000, 0.3),
        (10.0, 3, 1e-6),
        (1e-3, 10**6, 1e-12),
        (3e-4, 10**7, 1e-12),
        (3e-3, 10**7, 1e-12),
        (1e-5, 10**7, 1e-6),
        (0.5, 50, 1e-100),
    ],
)
def test_gaussian_compositions_agree_with_the_closed_form(shift: float, times: int, delta: float) -> None:
    """T releases are one with shift s√T: never below it, and within 0.1 %; the other way round likewise."""
    exact = gaussian.epsilon(shift * math.sqrt(times), delta)
    composition = composed(Gaussian(1.0, shift, ADD), times)
    assert exact <= composition.epsilon(delta) <= exact * (1 + 1e-3)
    assert delta <= composition.delta(exact) * (1 + 1e-9)
    assert composition.delta(exact * (1 + 1e-3)) <= max(delta, 1e-19)  # asked for δ, tails are cut off at 1e-20


@settings(max_examples=25, deadline=None)
@given(st.floats(-3.0, 0.7), st.floats(0.31, 6.0), st.floats(-14.0, -0.5))
def test_gaussian_compositions_agree_wherever_they_are_tried(
    log_shift: float, log_times: float, log_delta: float
) -> None:
    shift, times, delta = 10.0**log_shift, int(10.0**log_times), 10.0**log_delta
    exact = gaussian.epsilon(shift * math.sqrt(times), delta)
    ours = composed(Gaussian(1.0, shift, ADD), times).epsilon(delta)
    assert exact <= ours * (1 + 1e-12)
    assert ours <= exact * (1 + 1e-3) + 1e-3 * shift * math.sqrt(times)


@pytest.mark.slow
@settings(max_examples=15, deadline=None)
@given(st.floats(-3.0, -0.02), st.floats(-1.5, 0.7), st.floats(-9.0, -1.0), st.booleans())
def test_two_sampled_steps_agree_with_an_exact_integral(
    log_q: float, log_shift: float, log_delta: float, adding: bool
) -> None:
    """δ of the second step averaged over the first one's loss: no grid, no FFT, either direction."""
    q, shift, delta = 10.0**log_q, 10.0**log_shift, 10.0**log_delta
    epsilon = composed(Sampled(Gaussian(1.0, shift, ADD), Poisson(q)), 2, adding).epsilon(delta)
    assert twice_sampled_delta(q, shift, epsilon, adding) <= delta * (1 + 1e-6) + 1e-15
    if twice_sampled_delta(q, shift, 0.0, adding) > delta:
        assert twice_sampled_delta(q, shift, epsilon * (1 - 2e-3), adding) > delta


@pytest.mark.slow
@settings(max_examples=15, deadline=None)
@given(st.integers(1, 999), st.floats(-1.0, 0.6), st.floats(-8.0, -1.0))
def test_two_fixed_size_steps_agree_with_an_exact_integral(batch: int, log_shift: float, log_delta: float) -> None:
    """The same for the symmetric pair, from the theorem's profile alone."""
    shift, delta = 10.0**log_shift, 10.0**log_delta
    event = Sampled(Gaussian(1.0, shift, REPLACE), FixedSize(batch, 1000))
    q = event.sampling.share
    epsilon = composed(event, 2).epsilon(delta)
    assert twice_fixed_size_delta(q, shift, epsilon) <= delta * (1 + 1e-4)
    if twice_fixed_size_delta(q, shift, 0.0) > delta * 1.01:
        assert twice_fixed_size_delta(q, shift, epsilon * (1 - 3e-3)) > delta


def test_one_step_needs_no_grid() -> None:
    for q, shift, epsilon in ((0.01, 1.0, 0.3), (0.5, 0.2, 0.01), (0.9, 3.0, 2.0)):
        event = Sampled(Gaussian(1.0, shift, ADD), Poisson(q))
        for adding in (False, True):
            truth = float(sampled_delta(q, shift, np.array([epsilon]), adding)[0])
            assert composed(event, 1, adding).delta(epsilon) == pytest.approx(truth, rel=1e-9, abs=1e-15)


@pytest.mark.slow
def test_pure_losses_end_at_their_sum() -> None:
    """T Laplace releases never cost more than T·ε, even at a δ that nothing else could meet."""
    composition = composed(Laplace(1.0, 0.5, ADD), 8)
    assert composition.ceiling == pytest.approx(4.0)
    assert composition.epsilon(1e-13) == pytest.approx(4.0, rel=1e-3)
    assert composed(Sampled(Laplace(1.0, 0.5, ADD), Poisson(0.1)), 3).ceiling == pytest.approx(
        3 * math.log1p(0.1 * math.expm1(0.5))
    )
    assert composed(Sampled(Gaussian(1.0, 0.5, ADD), Poisson(0.1)), 3, True).ceiling == pytest.approx(
        -3 * math.log1p(-0.1)
    )


@pytest.mark.slow
def test_lost_mass_is_charged_at_every_step() -> None:
    """A step that loses mass m with certainty of discovery has δ ≥ 1 − (1−m)^T at every ε."""
    pair = GaussianMixture((1e-3,), (1.0 - 1e-4,), 1e-4)
    composition = Composition([(Step(pair.tails, pair.tails, 1e-4), 50)])
    lost = -math.expm1(50 * math.log1p(-1e-4))
    assert composition.epsilon(lost * (1 - 1e-6)) == math.inf
    assert composition.epsilon(lost * 1.01) < 0.1
    assert composition.delta(5.0) == pytest.approx(lost, rel=1e-6)
    assert composition.ceiling == math.inf


# --- dp-accounting -----------------------------------------------------------------------------------------------


@lru_cache
def gaussian_pld(
    sigma: float, q: float, pessimistic: bool = True, grid: float = 1e-4
) -> theirs.PrivacyLossDistribution:
    return theirs.from_gaussian_mechanism(
        sigma, sampling_prob=q, value_discretization_interval=grid, pessimistic_estimate=pessimistic
    )


@pytest.mark.gate(2)
@pytest.mark.slow
@pytest.mark.parametrize(
    ("q", "sigma", "times"),
    [(0.01, 1.0, 1000), (0.001, 0.7, 10_000), (0.1, 2.0, 100), (0.5, 5.0, 300), (0.02, 0.6, 50), (0.9, 3.0, 10)],
)
def test_poisson_compositions_agree_with_dp_accounting(q: float, sigma: float, times: int) -> None:
    """Each direction within 0.2 % of their pessimistic estimate, and never below their optimistic one."""
    # few steps with large losses need no fine grid
    grid = 1e-4 if times > 100 else 5e-4
    above = gaussian_pld(sigma, q, grid=grid).self_compose(times)
    below = gaussian_pld(sigma, q, pessimistic=False, grid=grid).self_compose(times)
    for adding, upper, lower in (
        (False, above._pmf_remove, below._pmf_remove),
        (True, above._pmf_add, below._pmf_add),
    ):
        composition = composed(Sampled(Gaussian(sigma, 1.0, ADD), Poisson(q)), times, adding)
        for delta in (1e-5, 1e-8):
            ours = composition.epsilon(delta)
            assert ours == pytest.approx(upper.get_epsilon_for_delta(delta), rel=2e-3)
            assert ours >= lower.get_epsilon_for_delta(delta)


@pytest.mark.gate(1)
@pytest.mark.slow
@pytest.mark.parametrize(("scale", "times"), [(1.0, 10), (5.0, 100), (20.0, 1000)])
def test_laplace_compositions_agree_with_dp_accounting(scale: float, times: int) -> None:
    estimates = [
        theirs.from_laplace_mechanism(scale, value_discretization_interval=1e-4, pessimistic_estimate=p)
        .self_compose(times)
        .get_epsilon_for_delta(1e-6)
        for p in (False, True)
    ]
    ours = composed(Laplace(scale, 1.0, ADD), times).epsilon(1e-6)
    assert estimates[0] <= ours <= estimates[1] * (1 + 1e-3)


@pytest.mark.slow
def test_mixed_compositions_agree_with_dp_accounting() -> None:
    """Different mechanisms, rates and counts in one composition, each direction."""
    mixed = (
        gaussian_pld(1.0, 0.01)
        .self_compose(200)
        .compose(gaussian_pld(0.6, 0.02).self_compose(5))
        .compose(theirs.from_laplace_mechanism(4.0, value_discretization_interval=1e-4).self_compose(3))
        .compose(theirs.from_gaussian_mechanism(3.0, value_discretization_interval=1e-4))
    )
    parts = [
        (Sampled(Gaussian(1.0, 1.0, ADD), Poisson(0.01)), 200),
        (Sampled(Gaussian(0.6, 1.0, ADD), Poisson(0.02)), 5),
        (Laplace(4.0, 1.0, ADD), 3),
        (Gaussian(3.0, 1.0, ADD), 1),
    ]
    for adding, pmf in ((False, mixed._pmf_remove), (True, mixed._pmf_add)):
        composition = Composition([(step(event, adding), times) for event, times in parts])
        for delta in (1e-3, 1e-6):
            upper = pmf.get_epsilon_for_delta(delta)
            assert upper * (1 - 5e-4) <= composition.epsilon(delta) <= upper * (1 + 2e-3)
        assert composition.delta(2.0) == pytest.approx(pmf.get_delta_for_epsilon(2.0), rel=0.01)


# --- Rényi -------------------------------------------------------------------------------------------------------


@st.composite
def sampled_events(draw: st.DrawFn) -> Event:
    """Any event with a pair, at a noise that matters."""
    ratio = 10.0 ** draw(st.floats(-1.5, 0.6))
    kind = draw(st.sampled_from(["gaussian", "laplace", "projection"]))
    adjacency = REPLACE if kind == "projection" else draw(st.sampled_from([ADD, REPLACE]))
    event: Event
    if kind == "gaussian":
        event = Gaussian(1.0 / ratio, 1.0, adjacency)
    elif kind == "laplace":
        event = Laplace(1.0 / ratio, 1.0, adjacency)
    else:
        dim, slices = draw(st.sampled_from([(5, 3), (784, 200), (10, 25)]))
        frame: Frame = draw(st.sampled_from(["orthogonal", "independent"]))
        event = Projection(dim, slices, 1.0 / ratio, 1.0, REPLACE, frame)
    if draw(st.booleans()):
        return event
    batch = draw(st.integers(1, 900))
    return Sampled(event, Poisson(batch / 1000) if adjacency is ADD else FixedSize(batch, 1000))


@pytest.mark.slow
@settings(max_examples=7, deadline=None)
@given(sampled_events(), st.floats(0.31, 5.0), st.floats(-12.0, -2.0))
def test_composed_losses_are_never_above_renyi(event: Event, log_times: float, log_delta: float) -> None:
    times, delta = int(10.0**log_times), 10.0**log_delta
    through_renyi = rdp.epsilon(rdp.total([(event, times)]), delta)
    assume(through_renyi < 30.0)  # beyond, the accountant takes the smaller of the two
    poisson = isinstance(event, Sampled) and isinstance(event.sampling, Poisson)  # all others are symmetric
    for backward in (False, True) if poisson else (False,):
        assert composed(event, times, backward).epsilon(delta) <= through_renyi


# --- the grid ----------------------------------------------------------------------------------------------------


@settings(max_examples=40, deadline=None)
@given(sampled_events(), st.floats(-3.0, -0.5), st.floats(0.0, 20.0), st.sampled_from([1e-12, 1e-3]))
def test_a_discretised_step_is_a_law_that_dominates(event: Event, log_grid: float, tilt: float, cut: float) -> None:
    """Connecting the dots keeps P whole and never loses δ at any ε ≥ 0, however much of the tails is cut off."""
    one = step(event)
    grid = 10.0**log_grid
    index, mass, lost = discretise(one, grid, tilt, cut)
    losses = index * grid
    assert np.all(mass >= 0.0)
    assert float(mass.sum()) + lost == pytest.approx(1.0, abs=1e-9)
    assert float(mass @ np.exp(-losses)) <= 1.0 + 1e-6
    for epsilon in (0.0, 0.5 * grid, 0.02, 0.3, 1.0, 2.7, float(losses.max())):
        coarse = lost + float(mass @ np.maximum(-np.expm1(np.minimum(epsilon - losses, 0.0)), 0.0))
        assert coarse >= Composition([(one, 1)]).delta(epsilon) * (1 - 1e-9) - 1e-12


@pytest.mark.slow
@settings(max_examples=12, deadline=None)
@given(sampled_events(), st.integers(2, 2000), st.floats(-10.0, -2.0))
def test_epsilon_and_delta_invert_each_other(event: Event, times: int, log_delta: float) -> None:
    composition = composed(event, times)
    delta = 10.0**log_delta
    epsilon = composition.epsilon(delta)
    assume(1e-3 < epsilon < min(30.0, 0.99 * composition.ceiling))
    assert composition.delta(epsilon) == pytest.approx(delta, rel=0.1)
    assert composition.epsilon(delta / 2.0) >= epsilon
    assert composition.delta(epsilon * 1.2) <= composition.delta(epsilon)


def test_the_order_of_steps_does_not_matter() -> None:
    parts = [(step(Laplace(2.0, 1.0, ADD)), 3), (step(Sampled(Gaussian(1.0, 1.0, ADD), Poisson(0.1))), 40)]
    assert Composition(parts).epsilon(1e-6) == pytest.approx(Composition(parts[::-1]).epsilon(1e-6), rel=1e-6)
