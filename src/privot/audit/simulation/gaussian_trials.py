"""Simulates Gaussian steps by the million: the real noise, on the real grid, and the real sampler; no mechanism.

A step shows v + N(0, σ²) along the one direction in which two neighbours' un-noised values differ (the noise is the
same in all others), v being 0 or `gap`. With sampling the record takes part with probability q only. The score is the
log-likelihood ratio, the best there is (Neyman & Pearson): with s = gap/σ and z = y/σ,

    Σ_t ln(1 + q·(e^{s·z_t − s²/2} − 1)) .
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from privot.accounting.sampling import FixedSize, Poisson, Sampling
from privot.noise import NoiseSource
from privot.noise.adding import add_noise
from privot.noise.adding_tensor import add_noise_tensor

Array = NDArray[np.float64]
Gaps = Callable[[int], Array]
"""Count → that many independent gaps, for mechanisms whose public randomness decides how much of a record shows."""

_BLOCK = 4_000_000


def core_scores(
    present: bool,
    trials: int,
    *,
    gap: float | Gaps,
    sigma: float,
    noise: NoiseSource,
    sampling: Sampling | None = None,
    steps: int = 1,
    device: str = "cpu",
) -> Array:
    """One log-likelihood ratio per trial of `steps` steps; the record takes part only if `present`."""
    out = np.empty(trials)
    rows = max(1, _BLOCK // steps)
    share = 1.0 if sampling is None else sampling.share
    for start in range(0, trials, rows):
        count = min(rows, trials - start)
        size = count * steps
        gaps = gap(size) if callable(gap) else np.full(size, float(gap))
        there = takes_part(sampling, noise, size) if present else np.zeros(size, dtype=bool)
        seen = noisy(np.where(there, gaps, 0.0), noise, sigma, device)
        out[start : start + count] = likelihood_ratios(seen, gaps, sigma, share).reshape(count, steps).sum(1)
    return out


def likelihood_ratios(seen: Array, gaps: Array, sigma: float, share: float) -> Array:
    """ln(1 − q + q·e^ℓ), ℓ = s·z − s²/2, without overflow."""
    s = gaps / sigma
    loss = s * (seen / sigma) - 0.5 * s * s
    if share >= 1.0:
        return np.asarray(loss)
    return np.asarray(np.logaddexp(np.log1p(-share), np.log(share) + loss))


def takes_part(sampling: Sampling | None, noise: NoiseSource, size: int) -> NDArray[np.bool_]:
    """Whether a given record is in each of `size` samples.

    For Poisson samples the sampler itself decides, with each trial as one record of a long data set; for fixed-size
    samples the record's place in a random order, which is uniform.
    """
    if sampling is None:
        return np.ones(size, dtype=bool)
    there = np.zeros(size, dtype=bool)
    if isinstance(sampling, Poisson):
        there[noise.poisson_sample(size, sampling.rate)] = True
        return there
    assert isinstance(sampling, FixedSize)
    return np.asarray(noise.integers(sampling.records, size) < sampling.batch)


def noisy(values: Array, noise: NoiseSource, sigma: float, device: str) -> Array:
    """`values` with noise added as mechanisms add it, on the CPU or on the GPU."""
    if device == "cpu":
        return add_noise(values, noise, sigma)
    import torch

    held = torch.from_numpy(values).to(device)
    bound = max(float(np.abs(values).max(initial=0.0)), sigma)
    return np.asarray(add_noise_tensor(held, noise, sigma, bound).cpu().numpy())
