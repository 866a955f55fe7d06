"""The normals are normal, of the σ that was asked for, and the tests would notice if they were not.

Every bound has a false-alarm probability below 10⁻⁶.
"""

from __future__ import annotations

import math
import os

import numpy as np
import pytest
import torch
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms
from numpy.typing import NDArray
from scipy.special import bdtr, bdtrc, chdtrc, ndtr

from privot.errors import UsageError
from privot.noise import SystemNoise
from privot.noise.chacha import normal_chunk
from privot.noise.keystream import Keystream
from privot.noise.normals import SUMMANDS, fill_normal

Floats = NDArray[np.float64]
FALSE_ALARM = 1e-7


@pytest.fixture(scope="module")
def ten_million() -> Floats:
    return SystemNoise().normal(10**7, 1.0)


def has_sigma(draws: Floats, sigma: float) -> bool:
    """Σx²/σ² is χ² with n degrees of freedom; five of its standard deviations either way."""
    n = draws.size
    return abs(float(np.sum((draws / sigma) ** 2)) - n) < 5.2 * math.sqrt(2 * n)


def kolmogorov(draws: Floats) -> float:
    """√n·sup|F_n − Φ|; P(> x) ≤ 2 exp(−2x²)."""
    n = draws.size
    law = ndtr(np.sort(draws))
    ranks = np.arange(n)
    return math.sqrt(n) * max(float(np.max((ranks + 1) / n - law)), float(np.max(law - ranks / n)))


KOLMOGOROV_BOUND = math.sqrt(math.log(2 / FALSE_ALARM) / 2)


@pytest.mark.statistical
def test_ten_million_draws_pass_kolmogorov_smirnov(ten_million: Floats) -> None:
    assert kolmogorov(ten_million) < KOLMOGOROV_BOUND


def test_kolmogorov_smirnov_can_fail(ten_million: Floats) -> None:
    assert kolmogorov(ten_million[: 10**6] * 1.03) > KOLMOGOROV_BOUND
    assert kolmogorov(ten_million[: 10**6] + 0.02) > KOLMOGOROV_BOUND


def test_tail_masses_out_to_five_sigma(ten_million: Floats) -> None:
    n = ten_million.size
    for side in (ten_million, -ten_million):
        for k in range(6):
            count, chance = int(np.count_nonzero(side > k)), float(ndtr(-k))
            assert bdtr(count, n, chance) > FALSE_ALARM
            assert count == 0 or bdtrc(count - 1, n, chance) > FALSE_ALARM


@pytest.mark.slow
def test_neighbours_and_partners_are_uncorrelated(ten_million: Floats) -> None:
    # 2¹⁵ apart lie the cosine and the sine of the same angles
    for values in (ten_million, ten_million**2 - 1.0, np.sign(ten_million)):
        spread = float(np.mean(values**2))
        for lag in (1, 2, 3, 1 << 15, 1 << 16):
            left, right = values[:-lag], values[lag:]
            assert abs(float(np.mean(left * right))) < 5.4 * spread / math.sqrt(left.size)


def low_bits_p_value(draws: Floats, low: float, high: float) -> float:
    """χ² of the last four bits of the draws between `low` and `high` in size: 16 values, equally likely."""
    part = draws[(np.abs(draws) >= low) & (np.abs(draws) < high)]
    counts = np.bincount((part.view(np.uint64) & np.uint64(15)).astype(np.int64), minlength=16)
    return float(chdtrc(15, float(np.sum((counts - part.size / 16) ** 2)) / (part.size / 16)))


def test_no_value_repeats(ten_million: Floats) -> None:
    assert np.unique(ten_million[: 10**6]).size > 10**6 - 5


@pytest.mark.parametrize("sigma", [1.0, 1.5, 0.37, 1000.1])
def test_low_bits_are_uniform(sigma: float) -> None:
    system = SystemNoise().normal(10**6, sigma)
    tensor = normal_chunk(os.urandom(32), sigma, 200_000, "cpu").numpy()
    for draws in (system, tensor):
        for power in (0, -1, -2, -5):
            low = sigma * 2.0**power
            assert low_bits_p_value(draws, low, 2 * low) > FALSE_ALARM


def test_low_bits_of_undithered_sums_are_not(ten_million: Floats) -> None:
    # why there is a dither: the bare sum and the bare product both have a grain that shows
    terms = ten_million[: 6 * 10**6].reshape(3, -1)
    assert low_bits_p_value(terms[0] + terms[1] + terms[2], 0.5, 1.0) < FALSE_ALARM
    product = 1.5 * ten_million
    reached = product[(product >= 1.5) & (product < 2.0)].view(np.uint64) % np.uint64(3)
    assert np.bincount(reached.astype(np.int64), minlength=3).max() > 0.45 * reached.size


@pytest.mark.parametrize("sigma", [1e-120, 0.37, 1.0, 25.0, 1e120])
def test_sigma_is_accepted_and_two_thirds_of_it_rejected(sigma: float) -> None:
    noise = SystemNoise()
    assert has_sigma(noise.normal(100_000, sigma), sigma)
    assert not has_sigma(noise.normal(100_000, sigma * 2 / 3), sigma)
    assert not has_sigma(noise.normal(100_000, sigma * 1.05), sigma)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_tensor_sigma_is_accepted_and_two_thirds_of_it_rejected(dtype: torch.dtype) -> None:
    noise = SystemNoise()
    draws = noise.normal_tensor((100, 1001), 3.0, "cpu", dtype)
    assert draws.dtype is dtype
    assert draws.shape == (100, 1001)
    assert has_sigma(draws.double().numpy().ravel(), 3.0)
    assert not has_sigma(noise.normal_tensor(100_000, 2.0, "cpu", dtype).double().numpy(), 3.0)


def test_normals_are_the_box_muller_sum_of_their_keystream() -> None:
    key, pairs = os.urandom(32), 501
    count = 2 * pairs * (SUMMANDS + 1)
    words = Keystream(key, count).words(count).reshape(SUMMANDS + 1, 2, pairs)
    radial, angular = words[:-1, 0], words[:-1, 1].view(np.int64)
    dither = words[-1].view(np.int64).ravel() / 2.0**93
    radius = np.sqrt(-2 * np.log(((radial >> np.uint64(11)) + np.uint64(1)) / 2.0**53))
    angle = np.pi * (angular / 2.0**64) + np.pi * (radial & np.uint64(1))
    expected = np.stack([radius * np.cos(angle), radius * np.sin(angle)]).sum(axis=1) / math.sqrt(SUMMANDS)
    drawn = np.empty(2 * pairs)
    fill_normal(key, 3.0, drawn)
    np.testing.assert_allclose(drawn, 3.0 * (expected.ravel() + dither), rtol=0, atol=3e-14)


@pytest.mark.parametrize("count", [1, 2, 7, 1000])
def test_tensor_normals_are_the_box_muller_sum_of_openssl_words(count: int) -> None:
    key, pairs = os.urandom(32), (count + 1) // 2
    stream = Cipher(algorithms.ChaCha20(key, bytes(16)), None).encryptor().update(bytes(64 * pairs))
    words = np.frombuffer(stream, dtype="<i4").reshape(pairs, 16).T.astype(np.int64)
    radial = (words[0:3] << 21) + (words[3:6] & 0x1FFFFF)
    angular = (words[6:9] << 21) + (words[9:12] & 0x1FFFFF)
    dither = ((words[12:14] << 21) + (words[14:16] & 0x1FFFFF)) / 2.0**82
    radius = np.sqrt(-2 * np.log((radial + 2**52 + 1) / 2.0**53))
    angle = 2 * np.pi * (angular / 2.0**53)
    expected = np.stack([radius * np.cos(angle), radius * np.sin(angle)]).sum(axis=1) / math.sqrt(SUMMANDS)
    drawn = normal_chunk(key, 3.0, count, "cpu")
    assert drawn.dtype is torch.float64
    expected = 3.0 * (expected + dither).ravel()[:count]
    np.testing.assert_allclose(drawn.numpy(), expected, rtol=0, atol=3e-14)


def test_chacha_normals_pass_kolmogorov_smirnov() -> None:
    draws = normal_chunk(os.urandom(32), 1.0, 300_001, "cpu").numpy()
    assert draws.shape == (300_001,)
    assert kolmogorov(draws) < KOLMOGOROV_BOUND
    assert has_sigma(draws, 1.0)
    assert not has_sigma(draws * 2 / 3, 1.0)


needs_cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")


@needs_cuda
def test_cuda_normals() -> None:
    noise = SystemNoise()
    draws = noise.normal_tensor((5, 10**6 + 1), 2.0, "cuda", torch.float32)
    assert draws.is_cuda
    assert draws.dtype is torch.float32
    host = draws.double().cpu().numpy().ravel()
    assert kolmogorov(host / 2.0) < KOLMOGOROV_BOUND
    assert has_sigma(host, 2.0)
    assert not has_sigma(host, 3.0)
    key = os.urandom(32)
    on_host, on_device = (normal_chunk(key, 1.0, 1001, place).cpu() for place in ("cpu", "cuda"))
    np.testing.assert_allclose(on_device.numpy(), on_host.numpy(), rtol=0, atol=1e-13)


@needs_cuda
def test_a_cuda_graph_cannot_capture_noise() -> None:
    torch.cuda.init()
    with pytest.raises(UsageError, match="replay"), torch.cuda.graph(torch.cuda.CUDAGraph()):
        SystemNoise().normal_tensor(3, 1.0, "cuda", torch.float32)
