"""The raw absolute moment of a Gaussian, in logarithms; knows no mechanism and no ε.

For Z ~ N(m, s²), r = |m|/s and x = r²/2 (Winkelbauer 2012, eq. 17; Lemma 1 of Yang, Qi & Zhou 2024)

    E|Z|^μ = s^μ · 2^{μ/2} Γ((μ+1)/2)/√π · ₁F₁(−μ/2; ½; −x)
           = s^μ · 2^{μ/2} Γ((μ+1)/2)/√π · e^{−x} ₁F₁((μ+1)/2; ½; x).

The first form alternates in sign unless μ is even, so it cancels; the second has positive terms only and is summed in
logarithms. Where x is large beside μ², the moment is summed by powers of 1/x instead,

    E|Z|^μ = |m|^μ · Σ_k μ(μ−1)…(μ−2k+1) / (k! (4x)^k),

whose terms shrink at once (it ends for even μ; otherwise what is left out is of the order of e^{−x}).
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import gammaln

from privot.common.arguments import LARGEST, is_number
from privot.errors import UsageError, brief

Array = NDArray[np.float64]

LARGEST_ORDER = 1024.0
_SETTLED = 64.0  # e⁻⁶⁴: what the expansion in 1/x leaves out
_TERMS = 80


def check_order(mu: float) -> float:
    """Return the order μ of a Wasserstein distance as a float if it can be meant: from 1 to 1024."""
    if not is_number(mu) or not 1.0 <= mu <= LARGEST_ORDER:
        raise UsageError(f"The order μ must be a number from 1 to {LARGEST_ORDER:g}, got {brief(mu)}.")
    return float(mu)


def log_absolute_moment(mu: float, mean: ArrayLike, deviation: ArrayLike) -> Array:
    """ln E|Z|^μ for Z ~ N(`mean`, `deviation`²), elementwise; `deviation` > 0.

    >>> float(np.exp(log_absolute_moment(2.0, 3.0, 4.0))).__round__(9)
    25.0
    """
    mu = check_order(mu)
    m, s = np.broadcast_arrays(np.abs(np.asarray(mean, float)), np.asarray(deviation, float))
    usable = np.isfinite(m) & np.isfinite(s) & (s >= 1.0 / LARGEST) & (s <= LARGEST) & (m <= LARGEST)
    if not usable.all():
        raise UsageError("A Gaussian needs a finite mean and a deviation greater than 0 (1e-60 to 1e60).")
    ratio = (m / s).ravel()
    x = ratio * ratio / 2.0
    out = np.empty(x.shape)
    far = x > _SETTLED + mu * mu / 2.0
    out[far] = mu * np.log(ratio[far]) + _inverse_series(mu, x[far])
    for i in np.flatnonzero(~far):
        out[i] = _kummer_series(mu, float(x[i]))
    return np.asarray(out.reshape(m.shape) + mu * np.log(s))


def _kummer_series(mu: float, x: float) -> float:
    """ln E|ξ + √(2x)|^μ for a standard normal ξ, from Σ ((μ+1)/2)_n xⁿ / ((½)_n n!), all terms positive."""
    a = (mu + 1.0) / 2.0
    front = 0.5 * mu * math.log(2.0) + float(gammaln(a)) - 0.5 * math.log(math.pi)
    if x == 0.0:
        return front
    # terms rise until (a+n)x = (½+n)(n+1), and fall at least geometrically well past that
    peak = x + math.sqrt(max(a * x, 1.0))
    n = np.arange(int(peak + 40.0 + 12.0 * math.sqrt(peak + a)) + 1, dtype=float)
    ratios = np.log(x) + np.log(a + n) - np.log(0.5 + n) - np.log1p(n)
    logs = np.concatenate([[0.0], np.cumsum(ratios)])
    top = float(logs.max())
    return front - x + top + math.log(float(np.exp(logs - top).sum()))


def _inverse_series(mu: float, x: Array) -> Array:
    """ln Σ_k μ(μ−1)…(μ−2k+1) / (k!·(4x)^k) for x beyond the settled range."""
    term = np.ones_like(x)
    excess = np.zeros_like(x)
    for k in range(_TERMS):
        term = term * ((mu - 2 * k) * (mu - 2 * k - 1) / ((k + 1) * 4.0)) / x
        excess += term
    return np.log1p(excess)
