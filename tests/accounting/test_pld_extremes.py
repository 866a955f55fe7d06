"""Compositions far from the comfortable middle: huge and tiny losses side by side, large δ, and both ways of asking."""

from __future__ import annotations

import math
from decimal import Decimal, localcontext

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.stats import norm

from privot import Adjacency
from privot.accounting import Composed, FixedSize, Gaussian, Laplace, Poisson, Repeated, Sampled, account
from privot.accounting.accountant import EventCurve
from privot.accounting.events import Event
from privot.accounting.laws import gaussian
from privot.accounting.pld.composition import Composition
from privot.accounting.pld.dominating_pairs import Step

ADD, REPLACE = Adjacency.ADD_REMOVE, Adjacency.REPLACE_ONE


def test_a_rare_huge_loss_is_not_cut_off():
    """With probability 1 − 0.99³ the record is sampled and the loss is far above 10; that alone bounds δ(10) below."""
    rare = Repeated(Sampled(Gaussian(1.0, 50.0, REPLACE), FixedSize(1, 100)), 3)
    curve = EventCurve((Composed((Gaussian(1.0, 1.0, REPLACE), rare)),))
    assert curve.delta(10.0) >= 1 - 0.99**3 - 1e-9
    assert curve.delta(10.0) == pytest.approx(1 - 0.99**3, rel=1e-3)


@pytest.mark.slow
def test_a_composition_never_costs_less_than_a_part_of_it():
    gaussians = Repeated(Gaussian(1.0, 300.0, REPLACE), 2)
    alone = gaussian.epsilon(300 * math.sqrt(2), 1e-5)
    both = account(Composed((gaussians, Laplace(1.0, 1e-6, REPLACE))), 1e-5).epsilon()
    assert alone <= both <= alone * (1 + 1e-3)


def test_an_answer_below_the_window_is_not_taken_for_zero():
    steps = (
        Repeated(Sampled(Laplace(1.0, 0.0432, REPLACE), FixedSize(8, 10000)), 5),
        Repeated(Sampled(Laplace(1.0, 0.000135, REPLACE), FixedSize(31, 10000)), 30),
    )
    curve = EventCurve(steps)
    assert curve.delta(0.0) > 3e-5
    found = curve.epsilon(1.8e-5)
    assert found > 0
    assert curve.delta(found) <= 1.8e-5 * (1 + 1e-3)


@pytest.mark.slow
def test_large_delta_is_answered_tightly():
    curve = EventCurve((Repeated(Laplace(1.0, 0.5, REPLACE), 2),))
    target = 0.9 * curve.delta(0.0)
    assert curve.delta(curve.epsilon(target)) == pytest.approx(target, rel=1e-3)


@pytest.mark.parametrize(("rate", "steps"), [(1e-9, 10**9), (1e-7, 10**9), (1e-6, 10**7)])
def test_tiny_sampling_rates_do_not_drown_in_rounding(rate, steps):
    """So many tiny steps are Gaussian to high order: μ = q·√(T(e^{s²} − 1)) (Bu et al. 2020) is close to exact."""
    found = account(Repeated(Sampled(Gaussian(1.0, 0.01, ADD), Poisson(rate)), steps), 1e-8).epsilon()
    shift = rate * math.sqrt(steps * math.expm1(1e-4))
    assert found >= gaussian.epsilon(shift, 1e-8) * (1 - 1e-3)
    assert found <= gaussian.epsilon(shift, 1e-8) * 1.05 + 1e-12


def test_noise_beyond_reason_still_counts():
    assert account(Gaussian(1e16, 1.0, ADD), 1e-20).epsilon() > 0


STEPS = st.builds(
    lambda base, size, share, times: Repeated(
        Sampled(
            Gaussian(1.0, size, REPLACE) if base else Laplace(1.0, size, REPLACE),
            FixedSize(max(1, int(share * 1000)), 1000),
        ),
        times,
    ),
    st.booleans(),
    st.floats(-4, 1.0).map(lambda e: 10.0**e),
    st.sampled_from([0.001, 0.03, 0.4, 1.0]),
    st.sampled_from([1, 2, 7, 60, 1000]),
)


@pytest.mark.slow
@settings(max_examples=8, deadline=None)
@given(st.lists(STEPS, min_size=1, max_size=3), st.floats(-10, -0.5).map(lambda e: 10.0**e))
def test_both_ways_of_asking_agree_and_parts_cost_less(steps: list[Event], delta: float):
    curve = EventCurve(tuple(steps))
    epsilon = curve.epsilon(delta)
    # near the largest loss there can be, δ falls to 0 within a cell of the grid
    assert curve.delta(epsilon * (1 + 2e-3)) <= delta * (1 + 5e-3) + 1e-13
    for step in steps:
        assert EventCurve((step,)).epsilon(delta) <= epsilon * (1 + 1e-3) + 1e-12


def test_tiny_delta_is_not_read_beyond_the_window():
    for shift, delta in ((1.0, 1e-60), (5.0, 1e-50), (0.3, 1e-80)):
        alone = gaussian.epsilon(shift, delta)
        both = account(Composed((Gaussian(1.0, shift, ADD), Laplace(1.0, 1e-6, ADD))), delta).epsilon()
        assert alone <= both <= alone * 1.01


def test_more_steps_than_the_fft_can_carry_are_still_bounded():
    """δ at ε = 0 alone exceeds the target, so 0 would be wrong; the Gaussian limit is below any valid ε."""
    share, steps, shift, delta = 1 / 9446114630, 32403168325, 0.3418994924860385, 1.453e-06
    event = Repeated(Sampled(Gaussian(1.0, shift, REPLACE), FixedSize(1, 9446114630)), steps)
    limit = gaussian.epsilon(share * math.sqrt(steps * math.expm1(shift**2)), delta)
    assert account(event, delta).epsilon() >= limit > 0


@pytest.mark.gate(2)
@pytest.mark.slow
@pytest.mark.parametrize("times", [13, 1000, 10**6, 10**9])
def test_rounding_noise_only_ever_raises_what_is_read(times):
    """At tilts far from the best one the answer drowns in noise; every attempt must still be a bound."""
    from privot.accounting.pld.composition import Composition
    from privot.accounting.pld.dominating_pairs import step_of
    from privot.accounting.pld.grid import atoms_of

    shift = 2.0 / math.sqrt(times)
    step, _ = step_of(Gaussian(1.0, shift, ADD))
    composition = Composition([(step, times)])
    exact = gaussian.epsilon(2.0, 1e-5)
    cut = 1e-11 / times
    atoms = [atoms_of(step, times, cut)]
    for tilt in (0.3, 1.0, 2.0, 4.0, 8.0, 16.0, 40.0):
        found, _ = composition._attempt(atoms, tilt, cut, None, 1e-5)
        assert found >= exact * (1 - 1e-9)


def _two_points(p, q, times):
    """A pair of two-point laws P = (p, 1−p), Q = (q, 1−q), composed, and its exact curve by the binomial."""
    first, second = Decimal(p), Decimal(q)
    up, down = (first / second).ln(), ((1 - first) / (1 - second)).ln()
    gap = float(first - second)

    def tail(at, on_p, on_q):
        return lambda c: (np.where(c < at, on_p, 0.0), np.where(c < at, on_q, 0.0), np.where(c < at, gap, 0.0))

    step = Step(tail(float(up), p, q), tail(float(-down), 1 - q, 1 - p), 0.0, float(up), float(-down))

    def exact(epsilon):
        total = Decimal(0)
        for k in range(times + 1):
            loss = k * up + (times - k) * down
            if loss > Decimal(epsilon):
                mass = math.comb(times, k) * first**k * (1 - first) ** (times - k)
                total += mass * (1 - (Decimal(epsilon) - loss).exp())
        return float(total)

    return Composition([(step, times)]), exact


@pytest.mark.gate(2)
@pytest.mark.slow
@pytest.mark.parametrize(
    ("p", "q", "times", "delta"),
    [
        (0.9999938621398092, 0.9999924611374543, 2, 2.8019893446323406e-09),
        (0.9999957869192773, 0.9999957868469286, 12, 8.68e-13),
        (0.6, 0.4, 5, 1e-2),
    ],
)
def test_losses_far_larger_one_way_than_the_other_are_not_lost(p, q, times, delta):
    """The tails of P and Q then agree to their last digits, and δ is what is left between them."""
    with localcontext() as context:
        context.prec = 60
        composition, exact = _two_points(p, q, times)
        found = composition.epsilon(delta)
        assert exact(found) <= delta * (1 + 1e-6)
        for epsilon in (0.0, 0.5 * found):
            assert composition.delta(epsilon) >= exact(epsilon) * (1 - 1e-9)


@pytest.mark.slow
def test_a_minute_share_of_records_is_not_counted_short():
    """Two steps at share q = 1e-12: to first order δ(c·q) = q·E[(r₁ + r₂ − 2 − c)₊], r the likelihood ratios."""
    q, c = 1e-12, 0.1

    def second(r):
        k = 2.0 + c - r
        return 1.0 - k if k <= 0 else norm.cdf(0.5 - math.log(k)) - k * norm.cdf(-0.5 - math.log(k))

    exact = q * quad(lambda z: norm.pdf(z) * second(math.exp(z - 0.5)), -12, 12, limit=400, epsabs=0, epsrel=1e-10)[0]
    curve = EventCurve((Repeated(Sampled(Gaussian(1.0, 1.0, ADD), Poisson(q)), 2),))
    assert exact <= curve.delta(c * q) <= exact * (1 + 1e-2)


@pytest.mark.parametrize("steps", [1, 1000, 10**6])
@pytest.mark.parametrize("sigma", [1e2, 1e6, 1e9])
def test_hardly_any_sampling_of_hardly_any_signal_is_answered(steps: int, sigma: float) -> None:
    """Losses of 1e-18 drowned in rounding, and the search for a tilt divided by zero.

    One step changes the law by q·(2Φ(s/2) − 1) ≈ q·s/√(2π) in total variation, and T steps by T times that at most;
    what is counted is above the true δ(0) ≈ q·s·√(T/2π) and far below anything that matters.
    """
    share = 1e-12
    event = Repeated(Sampled(Gaussian(sigma, 1.0, ADD), Poisson(share)), steps)
    guarantee = account(event, 1e-15)
    assert 0.0 <= guarantee.epsilon() <= 1e-8
    least = share / sigma * math.sqrt(steps / (2.0 * math.pi))
    assert 0.99 * least <= guarantee.delta(0.0) <= 1e-9


def test_hardly_any_sampling_beside_an_ordinary_step_costs_nothing_more() -> None:
    plain = Gaussian(1.0, 1.0, ADD)
    both = Composed((plain, Repeated(Sampled(Gaussian(1e6, 1.0, ADD), Poisson(1e-12)), 100)))
    alone, together = account(plain, 1e-5).epsilon(), account(both, 1e-5).epsilon()
    assert alone * (1.0 - 1e-6) <= together <= alone * 1.001
