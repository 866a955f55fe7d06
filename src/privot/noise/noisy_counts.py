"""Adds Gaussian noise to whole-number counts so that only a rounding of the noisy count is seen; it may keep neither.

Counts need no margin. On a grid g = 2⁻ᵏ with k ≥ 0 every count c is a grid point, so

    g·(c/g + rint(n/g)) = c + n rounded to the grid

exactly: what is released is post-processing of the Gaussian mechanism itself, and two counts that differ by one move it
by exactly one. `privot.noise.adding` says what goes wrong with a plain floating-point sum. The argument, step by step,
for a count c, noise n of deviation σ in [2⁻¹⁰, 2⁴⁰] and g = min(1, 2^(⌊log₂ σ⌋ − 20)):

* Sensitivity. c is first cut to ±2⁶²·g, which is 2³² or more (sums of signed whole numbers are counts too). Cutting
  whole numbers at a whole number gives whole numbers and brings no two of them further apart, so a vector of counts
  moves by no more than it did before, and no count is refused.
* The noise meets the grid before it meets the count. rint(n/g) is a function of the noise alone; n/g is exact, g being
  a power of two, and |n| < 15σ (`privot.noise.normals` can reach no further), so |n/g| < 2⁴⁴ fits int64.
* The sum is exact. |c/g| ≤ 2⁶² is a whole number, because 1/g is one; |n/g| < 15·2²¹ for σ < 2²¹, and below 2⁴⁴ for
  larger σ, where g = 1. So the sum stays below 2⁶³: integer addition, no rounding, no overflow.
* Support. The sum is c/g plus a whole number whose law does not depend on c. Floats within the noise's reach lie at
  most 2⁻²⁷ grid steps apart (2⁻⁸ at σ = 2⁴⁰, where g is 1), so every whole number within that reach does occur. Which
  grid is used follows from σ, never from c. That |n| ends at 15σ is a property of the noise (probability below 10⁻⁴⁸),
  not of the sum.
* What follows is post-processing: the float64 nearest to a whole number, times a power of two.

Nothing here branches on a count or can fail because of one. A σ that is too small for the sum or too large for int64 is
refused by `check_counting_sigma`, which mechanisms ask when they are made, before any charge.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from privot.errors import UsageError
from privot.noise.adding import add_steps
from privot.noise.noise_source import NoiseSource

COUNT_BITS = 20
"""The grid is σ·2⁻²⁰ or a little finer, and at most 1."""
MIN_SIGMA = 2.0**-10
MAX_SIGMA = 2.0**40
"""From 2⁴⁹ on noise would skip whole numbers and so show a count's last bits; from 2⁵⁹ on it would not fit int64."""


def counting_grid(sigma: float) -> float:
    """The power of two, at most 1, to which counts with noise `sigma` are rounded: σ·2⁻²⁰ or a little finer."""
    return min(1.0, math.ldexp(1.0, math.frexp(sigma)[1] - 1 - COUNT_BITS))


def counting_limit(sigma: float) -> int:
    """What counts with noise `sigma` are cut to: 2⁶²·g, a whole number from 2³² to 2⁶² that follows from σ alone."""
    return int(2**62 * counting_grid(sigma))


def check_counting_sigma(sigma: float) -> None:
    """Refuse noise so small, or so large, that it cannot be added to counts safely."""
    if not sigma >= MIN_SIGMA:
        raise UsageError(f"σ = {sigma:g} is too small to be added to counts: raise it to at least {MIN_SIGMA:g}.")
    if not sigma <= MAX_SIGMA:
        raise UsageError(
            f"σ = {sigma:g} is too large to be added to counts: they would carry no information, so lower it."
        )


def add_noise_to_counts(counts: NDArray[np.int64], noise: NoiseSource, sigma: float) -> NDArray[np.float64]:
    """`counts` (cut to ± `counting_limit`) plus N(0, `sigma`²) in every cell, on the grid."""
    check_counting_sigma(sigma)
    grid = counting_grid(sigma)
    limit = counting_limit(sigma)
    whole = np.clip(counts.astype(np.int64), -limit, limit) * np.int64(round(1.0 / grid))
    # rounding a whole number to a float happens after the noise is in: post-processing
    return add_steps(whole, noise, sigma, grid).astype(np.float64) * grid
