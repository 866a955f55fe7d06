"""The law of H = ‖zᵀU‖²/‖z‖², the share of a changed record that random directions catch.

U is public and independent of the data, so H has one law for every z: k directions in d dimensions, drawn
*independently*, give a sum of k Beta(½, (d−1)/2); drawn as Haar-random *orthonormal frames*, k = b·d + r of them
give b + Beta(r/2, (d−r)/2). Everything privot claims about a projection follows from this law: its logarithmic
moments (exact Rényi accounting), and a discrete law that lies above it (exact mixtures).

`bernstein_bound` and `clt_bound` are the published high-probability bounds on H (Rakotomamonjy & Ralaivola 2021,
Lemma 2 and §8.3); the second is a limit argument and no bound.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import betainc, betaincc, betainccinv, ndtri

from privot.accounting.laws.hyp1f1 import log_hyp1f1

Array = NDArray[np.float64]

LARGEST_DIM = 10**9
"""Beyond it Kummer's function is not evaluated."""
MAX_INDEPENDENT = 10**6
"""Independent directions are convolved on a grid, which takes seconds from here on; whole frames cost nothing."""
LOST_TAIL = 1e-40
"""Mass of the upper tail of H that is charged as an infinite loss instead of being resolved."""
_CELLS = 1 << 14
_FFT_CELLS = 1 << 20


def bernstein_bound(dim: int, slices: int, failure: float) -> float:
    """w(k, δ) = k/d + ⅔ ln(1/δ) + (2/d)·√(k (d−1)/(d+2) · ln(1/δ)); H exceeds it with probability ≤ δ."""
    log = math.log(1.0 / failure)
    return slices / dim + 2.0 / 3.0 * log + 2.0 / dim * math.sqrt(slices * (dim - 1) / (dim + 2) * log)


def clt_bound(dim: int, slices: int, failure: float) -> float:
    """w(k, δ) = k/d + (z_{1−δ}/d)·√(2k (d−1)/(d+2)): the normal quantile of H, not a bound."""
    z = -float(ndtri(failure))
    return slices / dim + z / dim * math.sqrt(2.0 * slices * (dim - 1) / (dim + 2))


def log_moment(dim: int, slices: int, orthogonal: bool, c: float | Array) -> Array:
    """ln E exp(c·H) for c ≥ 0, exactly: k·ln ₁F₁(½; d/2; c), or b·c + ln ₁F₁(r/2; d/2; c) for frames."""
    c = np.atleast_1d(np.asarray(c, float))
    if not orthogonal:
        return slices * np.asarray(log_hyp1f1(0.5, dim / 2.0, c))
    whole, rest = divmod(slices, dim)
    out = whole * c
    return out + np.asarray(log_hyp1f1(rest / 2.0, dim / 2.0, c)) if rest else out


@dataclass(frozen=True)
class ProjectionLaw:
    """A discrete law on `values` (rising) with `masses`, stochastically above H; `lost` is charged as infinite."""

    values: Array
    masses: Array
    lost: float


def _point(value: float) -> ProjectionLaw:
    return ProjectionLaw(np.array([value]), np.array([1.0]), 0.0)


def _from_survival(values: Array, survival: Array) -> ProjectionLaw:
    """Put the mass between two values on the upper one: rounding H up can only raise ε."""
    survival = np.minimum.accumulate(np.clip(survival, 0.0, 1.0))
    masses = -np.diff(survival, prepend=1.0)
    return ProjectionLaw(values, masses, float(survival[-1]))


def _frame_law(dim: int, slices: int) -> ProjectionLaw:
    whole, rest = divmod(slices, dim)
    if rest == 0:
        return _point(float(whole))
    a, b = rest / 2.0, (dim - rest) / 2.0
    top = math.sqrt(min(1.0, float(betainccinv(a, b, LOST_TAIL)) * (1 + 1e-9)))
    bottom = math.sqrt(max(0.0, float(1.0 - betainccinv(b, a, 1e-20))))
    bottom = bottom if bottom < top else 0.0
    # a law with many degrees of freedom is narrow, and its distribution function slow: fewer cells do
    cells = _CELLS if rest < 8 else _CELLS // 2
    share = np.linspace(bottom, top, cells + 1) ** 2
    return _from_survival(whole + share, betaincc(a, b, np.minimum(share, 1.0)))


def _independent_law(dim: int, slices: int) -> ProjectionLaw:
    """k-fold convolution of Beta(½, (d−1)/2), each summand rounded up to a grid, by one FFT.

    Where the FFT's own rounding error could matter (survival below `noise`) Chernoff's bound
    P(H > h) ≤ E e^{θH}·e^{−θh} takes over: it is valid for every θ, so any grid of θ will do.
    """
    if dim == 1:
        return _point(float(slices))
    if slices == 1:
        return _frame_law(dim, 1)
    mean = slices / dim
    # P(H < mean − t) ≤ exp(−t²/(2k E Y²)) for non-negative summands (Maurer 2003), E Y² = 3/(d(d+2))
    second = 3.0 / (dim * (dim + 2.0))
    low = max(0.0, mean - math.sqrt(2.0 * slices * second * 46.0))
    thetas = np.geomspace(1e-3 * dim / slices, 1e4 * dim, 600)
    logs = log_moment(dim, slices, False, thetas)

    def log_chernoff(h: Array) -> Array:
        return np.asarray(np.min(logs[:, None] - thetas[:, None] * h[None, :], axis=0))

    def quantile(log_mass: float) -> float:
        return min(float(slices), float(np.min((logs - log_mass) / thetas)))

    high = quantile(math.log(1e-18))
    step = (high - low) * 1.02 / (_FFT_CELLS - 2.0 * slices) if slices < _FFT_CELLS // 8 else 0.0
    cells = _FFT_CELLS
    if step <= 0.0 or step * dim > 2e-3:  # a finer grid than the usual one is needed
        step = 2e-3 / dim
        cells = 1 << max(20, math.ceil(math.log2((high - low) * 1.02 / step + 2.0 * slices)))
    single_top = min(1.0, float(betainccinv(0.5, (dim - 1) / 2.0, LOST_TAIL)))
    edges = np.arange(0, math.ceil(single_top / step) + 1) * step
    single = np.diff(betainc(0.5, (dim - 1) / 2.0, np.minimum(edges, 1.0)))
    wrapped = np.bincount(np.arange(1, len(single) + 1) % cells, weights=single, minlength=cells)
    spectrum = np.fft.rfft(wrapped)
    total = np.fft.irfft(np.exp(slices * np.log(np.where(spectrum == 0, 1e-300, spectrum))), n=cells)
    first = int(low / step)
    total = np.roll(total, -(first % cells))
    values: Array = (first + np.arange(cells, dtype=np.float64)) * step
    kept = values <= high + slices * step
    # the survival of the sum from above, so that small masses are not lost next to large ones
    survival = np.cumsum(total[::-1])[::-1] - total
    noise = max(1e-13, slices * 4e-15)
    values, survival = values[kept], survival[kept] + noise
    # thin to at most _CELLS values, evenly in √h, then let Chernoff carry the tail
    marks = np.linspace(math.sqrt(values[0]), math.sqrt(values[-1]), _CELLS + 1) ** 2
    pick = np.unique(np.searchsorted(values, marks, side="left").clip(0, len(values) - 1))
    values, survival = values[pick], survival[pick]
    tail_top = quantile(math.log(LOST_TAIL))
    values = np.concatenate([values, np.linspace(values[-1], max(tail_top, values[-1] * (1 + 1e-9)), 513)[1:]])
    survival = np.concatenate([survival, np.ones(512)])
    chernoff = np.exp(np.maximum(np.concatenate([log_chernoff(v) for v in np.array_split(values, 64)]), -745.0))
    survival = np.minimum(survival, np.where(values >= slices, 0.0, chernoff))
    return _from_survival(values, survival)


@lru_cache(maxsize=64)
def law(dim: int, slices: int, orthogonal: bool) -> ProjectionLaw:
    """A discrete law that lies stochastically above H, fine enough that ε moves by less than a part in a thousand."""
    return _frame_law(dim, slices) if orthogonal else _independent_law(dim, slices)
