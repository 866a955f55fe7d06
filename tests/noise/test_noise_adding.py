"""Noise added on a grid: exact whole-number sums, the right law, and no way to rule out a wrong value."""

from __future__ import annotations

import numpy as np
import pytest

from privot.errors import UsageError
from privot.noise import SystemNoise
from privot.noise.adding import LARGEST_RATIO, add_noise, check_ratio, grid_of


class Fixed:
    """A source that answers with given numbers."""

    def __init__(self, numbers):
        self.numbers = numbers

    def normal(self, shape, sigma):
        return self.numbers.reshape(shape) * sigma


@pytest.mark.parametrize("sigma", [1e-100, 0.3, 1.0, 1.3907, 5e40])
def test_sums_are_exact_on_the_grid(sigma):
    generator = np.random.default_rng(0)
    value, numbers = generator.normal(size=1000) * 3 * sigma, generator.normal(size=1000)
    grid = grid_of(sigma)
    assert 2.0**-41 * sigma < grid <= 2.0**-40 * sigma
    out = add_noise(value, Fixed(numbers), sigma)
    whole = out / grid
    assert np.array_equal(whole, np.rint(whole))
    # Python's integers know the exact sum
    exact = [int(np.rint(v / grid)) + int(np.rint(n * sigma / grid)) for v, n in zip(value, numbers, strict=True)]
    assert [int(w) for w in whole] == exact
    assert np.max(np.abs(out - value - numbers * sigma)) <= 1.01 * grid


@pytest.mark.parametrize("ratio", [2.0**11, 2.0**14, 2.0**20])
def test_large_values_are_added_exactly_and_rounded_afterwards(ratio):
    generator = np.random.default_rng(2)
    sigma = 0.3
    value, numbers = generator.uniform(0.5, 1.0, 500) * ratio * sigma, generator.normal(size=500)
    grid = grid_of(sigma)
    out = add_noise(value, Fixed(numbers), sigma)
    for v, n, o in zip(value, numbers, out, strict=True):
        exact = int(np.rint(v / grid)) + int(np.rint(n * sigma / grid))
        # int → float rounds the exact sum correctly: anything else would have rounded the value first
        assert o == float(exact) * grid


def test_the_law_is_the_noise_s():
    drawn = add_noise(np.full(200_000, 0.7), SystemNoise(), 2.0) - 0.7
    # χ² with 200,000 degrees of freedom: five deviations either way
    assert abs(drawn.std() / 2.0 - 1.0) < 5 / np.sqrt(400_000)
    assert abs(drawn.mean()) < 5 * 2.0 / np.sqrt(200_000)


def reachable(out, candidate, sigma):
    """Whether some float n near out − candidate could have been the noise, were the sum a plain one."""
    n = out - candidate
    tries = [n]
    for _ in range(3):
        tries += [np.nextafter(tries[-1], np.inf)]
    low = n
    for _ in range(3):
        low = np.nextafter(low, -np.inf)
        tries.append(low)
    return np.any([candidate + t == out for t in tries], axis=0)


def test_a_wrong_value_cannot_be_ruled_out_by_its_last_bits():
    """The attack that works on a plain sum: some floats cannot be v' + n for any float n near out − v'."""
    generator = np.random.default_rng(1)
    truth, wrong = generator.uniform(0.01, 0.4, 4000), generator.uniform(0.01, 0.4, 4000)
    sigma = 1.3907
    plain = truth + SystemNoise().normal(truth.shape, sigma)
    assert np.all(reachable(plain, truth, sigma))
    assert np.mean(~reachable(plain, wrong, sigma)) > 0.01  # the attack sees something on plain sums
    safe = add_noise(truth, SystemNoise(), sigma)
    grid = grid_of(sigma)
    for candidate in (truth, wrong):
        # on the grid, every whole number is as good as any other: nothing about `safe` depends on the candidate's bits
        whole = (safe - np.rint(candidate / grid) * grid) / grid
        assert np.array_equal(whole, np.rint(whole))
        assert np.max(np.abs(whole)) < 2.0**45


@pytest.mark.parametrize("sigma", [1e-100, 1.0, 1.9999, 5e40])
def test_values_beyond_the_whole_numbers_are_clamped_and_raise_nothing(sigma):
    """An error would tell whether a private value is that large."""
    top = LARGEST_RATIO * sigma
    for factor in (1.0, 1.1, 1e9, np.inf):
        value = np.array([factor * top, -factor * top, sigma])
        out = add_noise(value, Fixed(np.full(3, 14.9)), sigma)
        again = add_noise(np.array([top, -top, sigma]), Fixed(np.full(3, 14.9)), sigma)
        assert np.array_equal(out, again)
        np.testing.assert_allclose(out[:2], [top, -top], rtol=1e-5)


def test_clamping_brings_no_two_values_further_apart():
    generator = np.random.default_rng(3)
    silent = Fixed(np.zeros(20))
    for scale in (0.5, 1.0, 3.0):
        a, b = generator.normal(size=(2, 20)) * scale * LARGEST_RATIO
        apart = np.linalg.norm(add_noise(a, silent, 1.0) - add_noise(b, silent, 1.0))
        assert apart <= np.linalg.norm(a - b) + grid_of(1.0) * np.sqrt(20)


def test_a_value_that_is_no_number_is_refused():
    with pytest.raises(UsageError, match="not a number"):
        add_noise(np.array([1.0, np.nan]), SystemNoise(), 1.0)


@pytest.mark.parametrize("bound", [LARGEST_RATIO * 1.1, np.inf, np.nan])
def test_noise_too_small_for_a_public_bound_is_refused(bound):
    with pytest.raises(UsageError, match="too small"):
        check_ratio(bound, 1.0)
    check_ratio(LARGEST_RATIO, 1.0)
