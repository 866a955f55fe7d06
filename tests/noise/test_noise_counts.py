"""Noise on counts is a rounding of the Gaussian mechanism itself, whatever the counts are."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from privot.errors import UsageError
from privot.noise import SeededNoise, SystemNoise
from privot.noise.noisy_counts import MAX_SIGMA, MIN_SIGMA, add_noise_to_counts, counting_grid, counting_limit
from weaker_noise import WeakerNoise


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**31), st.floats(MIN_SIGMA, 1e9), st.integers(0, 2**32))
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


def looks_like(noise: np.ndarray, sigma: float) -> bool:
    """Whether a sample could be N(0, σ²): its squares (χ²) and its whole law (Kolmogorov), each at level 10⁻⁶."""
    squares = float(np.sum(np.square(noise / sigma)))
    low, high = stats.chi2.ppf([5e-7, 1 - 5e-7], noise.size)
    return bool(low < squares < high and stats.kstest(noise / sigma, "norm").pvalue > 1e-6)


@pytest.mark.parametrize("sigma", [MIN_SIGMA, 0.3, 31.6, 46.5 / 1.66, 2.0**21, 1e9, MAX_SIGMA])
@pytest.mark.parametrize("count", [0, 1, 12345, 2**31])
def test_noise_of_the_stated_deviation_is_accepted_and_two_thirds_of_it_is_not(sigma: float, count: int) -> None:
    counts = np.full(4000, count, dtype=np.int64)
    right, weak = (add_noise_to_counts(counts, WeakerNoise(factor), sigma) - count for factor in (1.0, 2.0 / 3.0))
    assert looks_like(right, sigma)
    assert not looks_like(weak, sigma)


@pytest.mark.parametrize("sigma", [MIN_SIGMA, 0.7, 40.0, 2.0**25, MAX_SIGMA])
def test_the_last_bits_say_nothing_about_the_count(sigma: float) -> None:
    grid = counting_grid(sigma)
    for count in (0, 1, 2, 7):
        value = add_noise_to_counts(np.full(16_000, count, dtype=np.int64), SystemNoise(), sigma)
        last = (value / grid).astype(np.int64) % 8
        assert stats.chisquare(np.bincount(last, minlength=8)).pvalue > 1e-7


def test_noise_so_large_that_its_floats_skip_whole_numbers_is_refused() -> None:
    # what would happen: the sum shows the count modulo 2
    assert np.mean(np.abs(SystemNoise().normal(1000, 2.0**60)) % 2 == 0) > 0.9
    for sigma in (2 * MAX_SIGMA, 2.0**60, 1e30, float("inf"), float("nan")):
        with pytest.raises(UsageError):
            add_noise_to_counts(np.zeros(2, dtype=np.int64), SystemNoise(), sigma)


def test_no_count_is_refused_and_cutting_brings_none_further_apart() -> None:
    for sigma in (MIN_SIGMA, 1.0, 2.0**21, MAX_SIGMA):
        limit = counting_limit(sigma)
        counts = np.array([-(2**62), -5, 0, 3, limit - 1, limit, limit + 1, 2**63 - 1], dtype=np.int64)
        value = add_noise_to_counts(counts, SystemNoise(), sigma)
        assert np.isfinite(value).all()
        # a sum beyond 2⁵³ grid steps is rounded to a float, after the noise
        rounded = limit * 2.0**-52
        assert (np.abs(value - np.clip(counts, -limit, limit)) < 15 * sigma + 1e-3 + rounded).all()
    counts = np.array([-(2**40), -5, 0, 3, counting_limit(1.0), 2**62], dtype=np.int64)
    here, there = (add_noise_to_counts(counts + step, SeededNoise(1), 1.0) for step in (0, 1))
    assert set((there - here).tolist()) <= {0.0, 1.0}


@pytest.mark.parametrize("sigma", [MIN_SIGMA, 0.9999, 1.0, 2.0**20 - 0.5, 2.0**21, 2.0**22, MAX_SIGMA])
def test_the_grid_holds_every_count_and_is_fine_next_to_the_noise(sigma: float) -> None:
    grid = counting_grid(sigma)
    assert (1.0 / grid).is_integer()
    assert grid <= sigma * 2.0**-20
    # what the whole numbers have to hold: the largest count and the furthest noise, 15σ
    assert counting_limit(sigma) / grid + 15 * sigma / grid < 2.0**63
    assert counting_limit(sigma) >= 2**32


def test_large_counts_next_to_little_noise_are_not_refused() -> None:
    value = add_noise_to_counts(np.array([0, 2**32 - 1]), SystemNoise(), MIN_SIGMA)
    assert abs(value[1] - (2**32 - 1)) < 1.0
    with pytest.raises(UsageError):
        add_noise_to_counts(np.zeros(2, dtype=np.int64), SystemNoise(), MIN_SIGMA / 2)


def test_kept_noise_is_bound_to_the_counts_it_hides() -> None:
    from privot.noise.kept_noise import KeptNoise

    counts = np.arange(200)

    def kept() -> KeptNoise:
        return KeptNoise(bytes(range(32)), b"a question")

    first = add_noise_to_counts(counts, kept(), 4.0)
    np.testing.assert_array_equal(first, add_noise_to_counts(counts, kept(), 4.0))
    # one count more: under the same noise the difference would show exactly that
    other = add_noise_to_counts(counts + (counts == 7), kept(), 4.0)
    assert np.count_nonzero(other != first) > 190
    # a second part of one release with the same counts has noise of its own
    noise = kept()
    pair = [add_noise_to_counts(counts, noise, 4.0) for _ in range(2)]
    np.testing.assert_array_equal(pair[0], first)
    assert np.count_nonzero(pair[1] != first) > 190
