"""Adds Gaussian noise to a value so that floating point does not give the value away; it may not keep either.

A plain sum v + n in floating point leaks: where the sum is smaller than its terms it is exact, so it must lie on the
grid of floats that n can be, shifted by v, and a wrong guess of v can be ruled out at a glance (Mironov 2012, "On
significance of the least significant bits for differential privacy"). Here value and noise are both rounded to one grid
g = 2^(⌊log₂ σ⌋ − 40) and added as whole numbers, which float64 does exactly:

    out = g·(rint(v/g) + rint(n/g)) = round(rint(v/g)·g + n)  to the grid.

That is a rounding of the Gaussian mechanism applied to the rounded value, and every whole number within reach can
occur, for every v. Rounding moves the value by at most g/2 a coordinate, so neighbours' k coordinates by at most
g·√k ≤ 2⁻⁴⁰·σ·√k more: callers keep a margin below their stated sensitivity that covers it
(`privot.mechanisms.clipping.MARGIN`).
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from privot.errors import UsageError
from privot.noise.source import NoiseSource

GRID_BITS = 40
LARGEST_RATIO = 2.0**11
"""Of a value's coordinates to σ: beyond it the whole numbers would not fit float64."""


def grid_of(sigma: float, bits: int = GRID_BITS) -> float:
    """The power of two to which value and noise are rounded."""
    return math.ldexp(1.0, math.frexp(sigma)[1] - 1 - bits)


def check_ratio(bound: float, sigma: float, bits: int = GRID_BITS) -> None:
    """Refuse noise so small, next to values of up to `bound`, that it cannot be added safely."""
    largest = math.ldexp(LARGEST_RATIO, GRID_BITS - bits)
    if bound > largest * sigma:
        raise UsageError(
            f"σ = {sigma:g} is too small to be added safely to values of up to {bound:g}: raise it to at least "
            f"{bound / largest:.3g}."
        )


def add_noise(
    value: NDArray[np.float64], noise: NoiseSource, sigma: float, bits: int = GRID_BITS
) -> NDArray[np.float64]:
    """`value` plus N(0, `sigma`²) in every coordinate, on the grid 2^−`bits` of σ.

    Fewer bits let larger values in (up to 2^(51 − bits)·σ) and round them by more: at most 2^−bits·σ·√k between
    neighbours, which the caller's margin has to cover.
    """
    grid = grid_of(sigma, bits)
    top = float(np.max(np.abs(value), initial=0.0))
    check_ratio(top, sigma, bits)
    out: NDArray[np.float64] = (np.rint(value / grid) + np.rint(noise.normal(value.shape, sigma) / grid)) * grid
    return out
