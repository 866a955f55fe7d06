"""Bounds the norm of every row by a public number; it may not look at any other row to do so."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

MARGIN = 1e-6
"""Rows are kept this share below the bound. That absorbs the rounding of the norm (below 1e-14), that the columns of a
frame are orthonormal only to about 1e-14, and that noise is added on a grid (2⁻⁴⁰·σ·√k): a projected row moves by no
more than is accounted, unless the directions catch less of it than 1e-6·σ·√k, which then tells as little."""


def clip_rows(rows: NDArray[np.floating], clip: float) -> NDArray[np.float64]:
    """Each row x of shape (records, dimension) as x·min(1, c/‖x‖) with c = `clip`·(1 − 1e-6).

    So ‖row‖ ≤ `clip` holds in floating point too.

    The norm is taken of x/max|x|, so neither 1e300 overflows nor 1e-300 vanishes. A row within the bound
    comes back bit for bit.
    """
    out = np.array(rows, dtype=np.float64, order="C")
    top = np.max(np.abs(out), axis=1, keepdims=True, initial=0.0)
    unit = out / np.where(top > 0.0, top, 1.0)
    length = np.sqrt(np.sum(unit * unit, axis=1, keepdims=True))
    with np.errstate(over="ignore", divide="ignore"):
        # ‖x‖ > c, with both sides divided by max|x|
        over = (length > clip * (1.0 - MARGIN) / top)[:, 0]
    out[over] = unit[over] * (clip * (1.0 - MARGIN) / length[over])
    return out
