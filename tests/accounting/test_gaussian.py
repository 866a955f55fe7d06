"""The closed form of the Gaussian mechanism against 60-digit arithmetic and sampled densities."""

from __future__ import annotations

import math

import numpy as np
import pytest
from accounting_oracles import gaussian_delta, hockey_stick
from hypothesis import given, settings
from hypothesis import strategies as st

from privot.accounting.laws import gaussian

pytestmark = pytest.mark.filterwarnings("error::RuntimeWarning")

SHIFTS = (1e-4, 0.01, 0.3, 1.0, 4.0, 25.0, 300.0)
POSITIONS = (-6.0, -1.0, 0.0, 0.5, 3.0, 8.0, 20.0, 35.0)


@pytest.mark.parametrize("shift", SHIFTS)
def test_delta_agrees_with_sixty_digits(shift: float) -> None:
    """Relative error 1e-9 wherever δ is a normal float, on both sides of the switch between the two forms."""
    for position in POSITIONS:
        epsilon = max(0.0, shift * (position + shift / 2.0))
        truth = gaussian_delta(shift, epsilon)
        if truth > 1e-300:
            assert float(gaussian.delta(shift, epsilon)) == pytest.approx(float(truth), rel=1e-9), (position, epsilon)


def test_delta_is_the_hockey_stick_of_the_two_densities() -> None:
    x = np.linspace(-12.0, 14.0, 400_001)
    p, q = (np.exp(-0.5 * (x - m) ** 2) / math.sqrt(2.0 * math.pi) for m in (1.5, 0.0))
    for epsilon in (0.0, 0.7, 2.0, 5.0):
        brute = hockey_stick(p, q, epsilon, float(x[1] - x[0]))
        assert float(gaussian.delta(1.5, epsilon)) == pytest.approx(brute, rel=1e-6)


def test_delta_broadcasts_and_knows_the_ends() -> None:
    assert gaussian.delta(np.array([0.5, 1.0]), 1.0).shape == (2,)
    assert float(gaussian.delta(0.0, 0.0)) == 0.0
    assert float(gaussian.delta(1e-9, 1.0)) == 0.0
    assert float(gaussian.delta(1e9, 1.0)) == 1.0
    assert float(gaussian.delta(1.0, 1e9)) == 0.0


def test_known_values() -> None:
    """ε of one release with σ = Δ at δ = 1e-5, as every exact accountant gives it."""
    assert gaussian.epsilon(1.0, 1e-5) == pytest.approx(4.377178095681225, rel=1e-12)


@settings(max_examples=100, deadline=None)
@given(st.floats(-4.0, 2.5), st.floats(-250.0, -0.05))
def test_epsilon_is_the_smallest_that_meets_delta(log_shift: float, log_delta: float) -> None:
    shift, delta = 10.0**log_shift, 10.0**log_delta
    epsilon = gaussian.epsilon(shift, delta)
    assert gaussian_delta(shift, epsilon) <= delta * (1 + 1e-9)
    if epsilon > 0.0:
        assert gaussian_delta(shift, epsilon * (1 - 1e-7)) > delta
    else:
        assert gaussian_delta(shift, 0.0) <= delta * (1 + 1e-9)


@pytest.mark.slow
@settings(max_examples=100, deadline=None)
@given(st.floats(-3.0, 3.0), st.floats(-100.0, -0.05))
def test_the_largest_shift_inverts_epsilon(log_epsilon: float, log_delta: float) -> None:
    epsilon, delta = 10.0**log_epsilon, 10.0**log_delta
    shift = gaussian.largest_shift(epsilon, delta)
    assert gaussian_delta(shift, epsilon) <= delta * (1 + 1e-9)
    assert gaussian_delta(shift * (1 + 1e-7), epsilon) > delta
    assert gaussian.epsilon(shift, delta) <= epsilon * (1 + 1e-9)


@settings(max_examples=100, deadline=None)
@given(st.floats(0.01, 20.0), st.floats(0.01, 20.0), st.floats(0.0, 50.0))
def test_delta_rises_with_the_shift_and_falls_with_epsilon(first: float, second: float, epsilon: float) -> None:
    low, high = sorted((first, second))
    assert float(gaussian.delta(low, epsilon)) <= float(gaussian.delta(high, epsilon)) * (1 + 1e-12)
    assert float(gaussian.delta(low, epsilon)) >= float(gaussian.delta(low, epsilon + 0.5))


def test_bisect_answers_on_the_safe_side() -> None:
    """The far end, where the condition is false, however coarse the tolerance."""
    root = gaussian.bisect(0.0, 8.0, lambda x: x * x <= 2.0)
    assert root * root > 2.0
    assert math.nextafter(root, 0.0) ** 2 <= 2.0
    coarse = gaussian.bisect(0.0, 8.0, lambda x: x * x <= 2.0, 0.1)
    assert root <= coarse <= root * 1.12
