"""Sums gradients, each clipped to a public bound, in whole numbers; it draws no noise and pays nothing.

The rounding of a float64 sum grows with the sum, so one more record could move it by more than its own gradient. Here
every gradient becomes whole numbers first, and whole numbers add up exactly in any order. `sum_rounding` and
`norm_rounding` bound the rounding that is left, for mechanisms that state a sensitivity.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from privot.common.arguments import LARGEST

if TYPE_CHECKING:
    from torch import Tensor

Array = NDArray[np.float64]
BITS = 32
"""A bound is at least 2³¹ and at most 2³² whole numbers long."""
MAX_SAMPLE = 2**31 - 1
"""So many gradients of 2³² + 1 whole numbers each stay below 2⁶³."""
_UNIT = 2.0**-53


def unit_of(bound: float) -> int:
    """The exponent e of the unit 2^e in which gradients clipped to `bound` are counted."""
    return math.frexp(bound)[1] - BITS


def clipped_sum(each: Array | Tensor, bound: float, used: int | None = None) -> tuple[NDArray[np.int64], Array]:
    """(Σ_i trunc(g_i·min(1, bound/‖g_i‖)/2^e), the clipped norms), on the device that holds the rows g_i.

    `each` has at most 2²⁰ rows, of which the first `used` count (all unless given); the others take as long and add
    nothing, so that timing does not reveal how many there were. e is `unit_of` the bound. A row that is not finite
    counts as 0; a norm that overflows gives the factor 0.

    A row's whole numbers are a function of that row alone, to the bit: every step is elementwise, the norm included
    (`_folded`), so neither the row's place nor other rows change its rounding. They are cut towards zero, so that no
    norm grows, and their sum stays below 2⁵³: exact in any order.
    """
    scale = math.ldexp(1.0, -unit_of(bound))
    used = len(each) if used is None else used
    if isinstance(each, np.ndarray):
        counts = np.isfinite(each).all(axis=1, keepdims=True) & (np.arange(len(each)) < used)[:, None]
        rows = np.where(counts, each, 0.0).astype(np.float64, copy=False)
        with np.errstate(over="ignore", under="ignore"):
            length = np.sqrt(_folded(rows * rows))
            factor = np.minimum(1.0, bound / np.maximum(length, 1e-300))
            rows *= factor[:, None]
            rows *= scale
        whole = np.trunc(rows, out=rows).sum(axis=0)
        return whole.astype(np.int64), (factor * np.minimum(length, LARGEST))[:used]
    kept = each.double()
    finite = kept.isfinite().all(dim=1, keepdim=True)
    finite[used:] = False
    kept = kept.where(finite, 0.0)
    length_ = _folded(kept * kept).sqrt()
    factor_ = (bound / length_.clamp(min=1e-300)).clamp(max=1.0)
    kept *= factor_[:, None]
    kept *= scale
    clipped = (factor_ * length_.clamp(max=LARGEST)).cpu().numpy()[:used]
    return np.asarray(kept.trunc_().sum(dim=0).cpu().numpy()).astype(np.int64), np.asarray(clipped)


def _folded(squares: Any) -> Any:
    """The sum of each row, the second half added to the first until one column is left; overwrites `squares`."""
    width = squares.shape[1]
    while width > 1:
        half = (width + 1) // 2
        squares[:, : width - half] += squares[:, half:width]
        width = half
    return squares[:, 0]


def float_of(whole: NDArray[np.int64], bound: float) -> Array:
    """Whole numbers of the bound's unit as float64, each rounded once."""
    return np.asarray(np.ldexp(whole.astype(np.float64), unit_of(bound)))


def norm_rounding(size: int) -> float:
    """The largest relative excess of a clipped gradient of `size` numbers over its bound: (⌈log₂ size⌉ + 8)·u.

    u = 2⁻⁵³. A square and ⌈log₂ size⌉ additions of what is never negative are off by a relative u each, the root by
    half of that and u more, the quotient and the product by u each; cutting towards zero only shortens.
    """
    return (math.ceil(math.log2(size)) + 8) * _UNIT


def sum_rounding(sample: int) -> float:
    """The distance, in units of the bound, that rounding adds between two neighbours' sums of n ≤ `sample`: 2·n·u.

    A sum S of n gradients has ‖S‖ ≤ n bounds; turning it to float64 moves every coordinate by a relative u at most.
    """
    return 2.0 * sample * _UNIT
