"""Adds Gaussian noise to a value so that floating point does not give the value away; it may not keep either.

A plain sum v + n in floating point leaks: where the sum is smaller than its terms it is exact, so it must lie on the
grid of floats that n can be, shifted by v, and a wrong guess of v can be ruled out at a glance (Mironov 2012, "On
significance of the least significant bits for differential privacy"). Here value and noise are both rounded to one grid
g = 2^(⌊log₂ σ⌋ − 40) and added as whole numbers, which 64-bit integers do exactly:

    out = g·(rint(v/g) + rint(n/g)) = round(rint(v/g)·g + n)  to the grid.

A sum of more than 53 bits is rounded to float64 only after that: what is rounded is the noisy number, not the value.

That is a rounding of the Gaussian mechanism applied to the rounded value, and every whole number within reach can
occur, for every v. Rounding moves the value by at most g/2 a coordinate, so neighbours' k coordinates by at most
g·√k ≤ 2⁻⁴⁰·σ·√k more: callers keep a margin below their stated sensitivity that covers it
(`privot.mechanisms.clipping.MARGIN`).

Whole numbers of 64 bits reach ±2²¹·σ, so coordinates beyond that are clamped first. That is a projection P onto a box,
and ‖P(v) − P(w)‖ ≤ ‖v − w‖ for every v and w: neighbours come no further apart, so the sensitivity holds as stated. An
error in its place would tell whether a private value is that large.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from privot.errors import UsageError
from privot.noise.kept_noise import KeptNoise
from privot.noise.noise_source import NoiseSource
from privot.noise.shared_noise import SharedNoise

GRID_BITS = 40
LARGEST_RATIO = 2.0**21
"""Of a value's coordinates to σ: beyond it the whole numbers (here up to 2⁶²) would not fit 64 bits."""


def grid_of(sigma: float) -> float:
    """The power of two to which value and noise are rounded."""
    return math.ldexp(1.0, math.frexp(sigma)[1] - 1 - GRID_BITS)


def check_ratio(bound: float, sigma: float) -> None:
    """Refuse noise so small, next to values of up to the public `bound`, that they would be clamped; before paying."""
    # written so that a bound that is not a number is refused
    if not bound <= LARGEST_RATIO * sigma:
        raise UsageError(
            f"σ = {sigma:g} is too small to be added safely to values of up to {bound:g}: raise it to at least "
            f"{bound / LARGEST_RATIO:.3g}."
        )


def add_noise(value: NDArray[np.float64], noise: NoiseSource, sigma: float) -> NDArray[np.float64]:
    """`value`, clamped to ±2²¹·σ, plus N(0, `sigma`²) in every coordinate, on the grid; of values, only a NaN raises.

    A NaN has no place in the box, and no mechanism may make one of a record: it is refused as the defect it is.
    """
    if np.isnan(value).any():
        raise UsageError("Noise cannot hide a value that is not a number: correct the mechanism that computed it.")
    grid = grid_of(sigma)
    held = np.clip(value, -LARGEST_RATIO * sigma, LARGEST_RATIO * sigma)
    whole = np.rint(held / grid).astype(np.int64)
    return add_steps(whole, noise, sigma, grid).astype(np.float64) * grid


def add_steps(whole: NDArray[np.int64], noise: NoiseSource, sigma: float, grid: float) -> NDArray[np.int64]:
    """`whole` numbers of steps of `grid`, changed in place, plus N(0, `sigma`²) rounded to that grid.

    Where the noise is shared by many parties, the same for the sum of their whole numbers.
    """
    if isinstance(noise, SharedNoise):
        return noise.total(whole, sigma, grid, add_steps)
    if isinstance(noise, KeptNoise):
        # another value under the same secret gets independent noise
        noise = noise.bound_to(whole.astype("<i8").tobytes())
    whole += np.rint(noise.normal(whole.shape, sigma) / grid).astype(np.int64)
    return whole
