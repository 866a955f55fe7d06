"""The Gaussian mechanism in closed form: exact δ(ε), ε(δ) and the largest shift that meets both.

Everything depends on one number, the shift s = Δ/σ. With x₁ = ε/s − s/2 and x₂ = ε/s + s/2,

    δ(ε) = Φ(−x₁) − e^ε Φ(−x₂) = φ(x₁)·[R(x₁) − R(x₂)],     R(x) = Φ(−x)/φ(x)  (Mills' ratio),

because φ(x₁) = e^ε φ(x₂) (Balle & Wang 2018, Theorem 8). The right-hand form neither overflows nor underflows
before δ itself does. T such releases, adaptively, are one with shift s√T. Shifts below 1e-8 are raised to it, which
dominates them, because the difference of Mills' ratios would drown in rounding.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import erfcx, ndtr

_ROOT_HALF_PI = math.sqrt(math.pi / 2.0)
_ROOT_TWO_PI = math.sqrt(2.0 * math.pi)


def delta(shift: ArrayLike, epsilon: ArrayLike) -> NDArray[np.float64]:
    """Exact δ at `epsilon` ≥ 0 of Gaussians `shift` standard deviations apart; broadcasts."""
    given = np.asarray(shift, float)
    s, e = np.broadcast_arrays(np.where(given > 0.0, np.maximum(given, 1e-8), 0.0), np.asarray(epsilon, float))
    with np.errstate(over="ignore", under="ignore", divide="ignore", invalid="ignore"):
        low, high = e / s - s / 2.0, e / s + s / 2.0
        # Mills' form where x₁ ≥ 0 (erfcx would overflow far on the other side), the plain one elsewhere
        mills = np.exp(-0.5 * low**2) / _ROOT_TWO_PI * _ROOT_HALF_PI * (erfcx(low / 2**0.5) - erfcx(high / 2**0.5))
        second = np.exp(-0.5 * low**2) * 0.5 * erfcx(high / 2**0.5)
        plain = ndtr(-low) - second
        out = np.where(low >= 0.0, mills, plain)
    return np.asarray(np.clip(np.where(np.isnan(out), 0.0, out), 0.0, 1.0))


def bisect(low: float, high: float, above: Callable[[float], bool], relative: float = 0.0) -> float:
    """Shrink [low, high] around the point where `above` turns false; returns the far end, where it is false."""
    for _ in range(200):
        middle = 0.5 * (low + high)
        if not low < middle < high or high - low <= relative * abs(high):
            break
        if above(middle):
            low = middle
        else:
            high = middle
    return high


@lru_cache(maxsize=4096)
def epsilon(shift: float, target: float) -> float:
    """The smallest ε with δ(ε) ≤ `target`, rounded up in the last places; 0 if even ε = 0 meets it."""
    if float(delta(shift, 0.0)) <= target:
        return 0.0
    high = shift * shift / 2.0 + shift
    while float(delta(shift, high)) > target:
        high *= 2.0
    return bisect(0.0, high, lambda e: float(delta(shift, e)) > target)


@lru_cache(maxsize=4096)
def largest_shift(epsilon_target: float, delta_target: float) -> float:
    """The largest shift s = Δ/σ whose δ(ε) stays at or below the target; rounded down in the last places."""
    high = 1.0
    while float(delta(high, epsilon_target)) <= delta_target:
        high *= 2.0
    return -bisect(-high, 0.0, lambda s: float(delta(-s, epsilon_target)) > delta_target)
