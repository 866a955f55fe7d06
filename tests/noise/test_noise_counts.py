"""Noise on counts is a rounding of the Gaussian mechanism itself, whatever the counts are."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privot.errors import UsageError
from privot.noise import SeededNoise, SystemNoise
from privot.noise.counts import LEAST_SIGMA, add_noise_to_counts, counting_grid


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**31), st.floats(LEAST_SIGMA, 1e9), st.integers(0, 2**32))
def test_two_counts_that_differ_by_one_move_the_value_by_exactly_one(count: int, sigma: float, seed: int) -> None:
    here, there = (
        add_noise_to_counts(np.full(64, c, dtype=np.int64), SeededNoise(seed), sigma) for c in (count, count + 1)
    )
    grid = counting_grid(sigma)
    assert grid <= 1.0
    # exact wherever a float can hold the sum; beyond 2⁵³ grid steps only the last, public rounding shows
    exact = np.abs(there) / grid < 2.0**52
    assert (there - here)[exact].tolist() == [1.0] * int(exact.sum())
    np.testing.assert_allclose(there - here, 1.0, atol=1e-3)


def test_the_value_is_the_noisy_count_rounded_to_the_grid() -> None:
    sigma = 37.3
    value = add_noise_to_counts(np.full(1000, 12345, dtype=np.int64), SeededNoise(1), sigma)
    noise = SeededNoise(1).normal(1000, sigma)
    grid = counting_grid(sigma)
    assert grid == 2.0**-15
    np.testing.assert_array_equal(value, np.rint((12345 + noise) / grid) * grid)


def test_noise_has_the_deviation_that_is_counted() -> None:
    value = add_noise_to_counts(np.full(40_000, 10**6, dtype=np.int64), SystemNoise(), 3.0) - 1e6
    # the sample deviation of 40,000 is within 1.8 % with probability 1 − 1e-6, and ⅔σ is far outside
    assert value.std() == pytest.approx(3.0, rel=0.018)
    assert abs(value.mean()) < 5 * 3.0 / 200


def test_large_counts_next_to_little_noise_are_not_refused() -> None:
    value = add_noise_to_counts(np.array([0, 2**32 - 1]), SystemNoise(), LEAST_SIGMA)
    assert abs(value[1] - (2**32 - 1)) < 1.0
    with pytest.raises(UsageError):
        add_noise_to_counts(np.zeros(2, dtype=np.int64), SystemNoise(), LEAST_SIGMA / 2)
