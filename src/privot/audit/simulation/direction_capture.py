"""Draws the share of a changed record that random directions capture, by its law. It draws no directions."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def captured(count: int, dim: int, slices: int, orthogonal: bool) -> Array:
    """`count` values of H = ‖eᵀU‖² for a unit vector e.

    Independent directions: a sum of `slices` Beta(½, (d − 1)/2). Frames: one for each whole frame, and for r columns of
    another Beta(r/2, (d − r)/2). Mechanisms draw U itself; runs of a mechanism test that its H has this law.
    """
    generator: Any = np.random.default_rng()
    if dim == 1:
        return np.full(count, float(slices))
    if not orthogonal:
        out = np.zeros(count)
        for _ in range(slices):
            out += generator.beta(0.5, (dim - 1) / 2.0, count)
        return out
    full, rest = divmod(slices, dim)
    out = np.full(count, float(full))
    return out + generator.beta(rest / 2.0, (dim - rest) / 2.0, count) if rest else out
