"""Adds Gaussian noise to whole-number counts so that only a rounding of the noisy count is seen; it may keep neither.

Counts need no margin. On a grid g = 2⁻ᵏ with k ≥ 0 every count c is a grid point, so

    g·(c/g + rint(n/g)) = c + n rounded to the grid

exactly: what is released is post-processing of the Gaussian mechanism itself, and two counts that differ by one move it
by exactly one. `privot.noise.adding` says what goes wrong with a plain floating-point sum. The whole numbers are added
as int64, so counts of up to 2³² are safe with any σ ≥ 2⁻¹⁰, whatever they are: no count can make the sum refuse.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from privot.errors import UsageError
from privot.noise.source import NoiseSource

GRID_BITS = 20
LEAST_SIGMA = 2.0**-10
MOST_COUNTED = 2**32


def counting_grid(sigma: float) -> float:
    """The power of two, at most 1, to which counts with noise `sigma` are rounded: σ·2⁻²⁰ or a little finer."""
    return min(1.0, math.ldexp(1.0, math.frexp(sigma)[1] - 1 - GRID_BITS))


def check_counting_sigma(sigma: float) -> None:
    """Refuse noise so small that it cannot be added to counts safely."""
    if not sigma >= LEAST_SIGMA:
        raise UsageError(f"σ = {sigma:g} is too small to be added to counts: raise it to at least {LEAST_SIGMA:g}.")


def add_noise_to_counts(counts: NDArray[np.int64], noise: NoiseSource, sigma: float) -> NDArray[np.float64]:
    """`counts` plus N(0, `sigma`²) in every cell, on the grid."""
    check_counting_sigma(sigma)
    grid = counting_grid(sigma)
    whole = counts.astype(np.int64) * np.int64(round(1.0 / grid))
    whole += np.rint(noise.normal(counts.shape, sigma) / grid).astype(np.int64)
    # rounding a whole number to a float happens after the noise is in: post-processing
    return whole.astype(np.float64) * grid
