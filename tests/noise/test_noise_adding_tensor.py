"""Noise added to tensors: the same grid, exact whole-number sums, the right law, and no value that can raise."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from privot.errors import UsageError
from privot.noise import SystemNoise
from privot.noise.adding import LARGEST_RATIO, add_noise, grid_of
from privot.noise.adding_tensor import add_drawn, add_noise_tensor


class Fixed:
    """A source that answers with given numbers, as an array or as a tensor."""

    def __init__(self, numbers):
        self.numbers = numbers

    def normal(self, shape, sigma):
        return self.numbers.reshape(shape) * sigma

    def normal_tensor(self, shape, sigma, device, dtype):
        return torch.from_numpy(self.normal(shape, sigma)).to(device, dtype)


@pytest.mark.parametrize("sigma", [1e-100, 0.3, 1.0, 1.3907, 5e40])
def test_tensors_and_arrays_get_the_same_sums(sigma):
    generator = np.random.default_rng(0)
    value, noise = generator.normal(size=(20, 50)) * 3 * sigma, Fixed(generator.normal(size=1000))
    out = add_noise_tensor(torch.from_numpy(value), noise, sigma, 30 * sigma)
    assert out.dtype is torch.float64
    assert np.array_equal(out.numpy(), add_noise(value, noise, sigma))
    whole = out.numpy() / grid_of(sigma)
    assert np.array_equal(whole, np.rint(whole))


def test_float32_values_land_on_the_grid_too():
    value = torch.rand(500, generator=torch.Generator().manual_seed(1))
    out = add_noise_tensor(value, SystemNoise(), 0.7, 1.0)
    whole = out / grid_of(0.7)
    assert torch.equal(whole, whole.round())


def test_a_wrong_value_cannot_be_ruled_out_by_its_last_bits():
    """Of `out − candidate's grid point` nothing but its size can be told: it is a whole number for every candidate."""
    generator = np.random.default_rng(1)
    truth, wrong = (torch.from_numpy(generator.uniform(0.01, 0.4, 4000)) for _ in range(2))
    out, grid = add_noise_tensor(truth, SystemNoise(), 1.3907, 1.0), grid_of(1.3907)
    for candidate in (truth, wrong):
        whole = (out - torch.round(candidate / grid) * grid) / grid
        assert torch.equal(whole, whole.round())
        # parities and low bits are as those of noise: a fair coin, six deviations
        odd = float((whole.to(torch.int64) % 2).double().mean())
        assert abs(odd - 0.5) < 6 * 0.5 / math.sqrt(4000)
    plain = truth + torch.from_numpy(SystemNoise().normal(4000, 1.3907))
    assert not torch.equal(plain / grid, (plain / grid).round())


def has_sigma(draws, sigma):
    n = draws.numel()
    return abs(float((draws / sigma).square().sum()) - n) < 5.2 * math.sqrt(2 * n)


def test_the_law_is_the_noise_s_and_two_thirds_of_it_are_noticed():
    drawn = add_noise_tensor(torch.full((50_000,), 0.7), SystemNoise(), 2.0, 1.0) - 0.7
    assert has_sigma(drawn, 2.0)
    assert not has_sigma(drawn, 4.0 / 3.0)
    less = add_noise_tensor(torch.full((50_000,), 0.7), SystemNoise(), 4.0 / 3.0, 1.0) - 0.7
    assert not has_sigma(less, 2.0)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf, 1e30])
def test_no_value_can_raise_or_leave_the_bound(bad):
    out = add_noise_tensor(torch.tensor([bad, 0.25]), Fixed(np.zeros(2)), 1.0, 0.5)
    assert out.tolist() == [0.0 if math.isnan(bad) else math.copysign(0.5, bad), 0.25]


def test_noise_drawn_beforehand_is_the_noise_that_is_added():
    drawn = torch.tensor([1.0, -2.0], dtype=torch.float64)
    out = add_noise_tensor(torch.tensor([0.5, 0.5]), Fixed(np.full(2, 9.0)), 1.0, 1.0, drawn)
    assert out.tolist() == [1.5, -1.5]


def test_a_bound_too_large_for_the_noise_is_refused_whatever_the_value():
    with pytest.raises(UsageError, match="too small"):
        add_noise_tensor(torch.zeros(3), SystemNoise(), 1.0, LARGEST_RATIO * 1.1)


def test_noise_serves_one_value_once():
    value = torch.zeros(3, 4, dtype=torch.float64)
    with pytest.raises(UsageError, match="shape"):
        add_noise_tensor(value, SystemNoise(), 1.0, 1.0, torch.zeros(4, dtype=torch.float64))
    with pytest.raises(UsageError, match="vmap"):
        torch.func.vmap(lambda v: add_noise_tensor(v, SystemNoise(), 1.0, 1.0))(value)
    # inside grad everything is wrapped, also what is made of a plain tensor
    with pytest.raises(UsageError, match="grad"):
        torch.func.grad(lambda w: w * add_noise_tensor(value, SystemNoise(), 1.0, 1.0).sum())(torch.ones(()))


@pytest.mark.parametrize("drawn", [torch.zeros(3, 1).double(), torch.zeros(1, 4).double(), torch.zeros(3, 4)])
def test_noise_is_never_spread_over_several_numbers(drawn):
    """One column of noise under four of a value: their differences would be without any."""
    with pytest.raises(UsageError, match="twice"):
        add_drawn(torch.zeros(3, 4, dtype=torch.float64), drawn, 1.0, 1.0)
