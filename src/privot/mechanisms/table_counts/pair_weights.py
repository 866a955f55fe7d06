"""Decides from noisy counts how the budget of a second release is split over pairs; it may see noisy counts only.

A pair gets weight w, and with it noise σ/w; the sum of w² over all pairs is fixed beforehand (one each), so the
sensitivity is too, whatever the counts say. If v measures what an error in a pair does, and the error's variance goes
as 1/w², then Σ v/w² is least, for a given Σ w², where w² ∝ √v.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from privot.errors import UsageError

Floats = NDArray[np.float64]
_DOWN = 1.0 - 1e-9
"""Weights are made this much too small, which covers the rounding of their squares and of the sum of those."""


@dataclass(frozen=True)
class WeightRule:
    """w² ∝ √v with v = (tᵢ + l)·(tⱼ + l), t what a column tells about the label (`told`), l = `least` of the largest.

    `least` = 1 or more leaves little difference; labels that no column tells anything about leave none.
    """

    least: float = 0.05

    def __post_init__(self) -> None:
        if not (math.isfinite(self.least) and self.least >= 1e-3):
            raise UsageError("A weight rule needs a least share of 0.001 or more.")

    def weights(self, told: Floats) -> tuple[float, ...]:
        """The weight of every pair (i, j), i < j, in order: each positive, their squares adding up to their number.

        They never add up to more: see `_DOWN`.
        """
        told = np.nan_to_num(np.maximum(told, 0.0), nan=0.0, posinf=0.0)
        best = float(told.max(initial=0.0))
        share = (told / best if best > 0.0 else np.zeros(len(told))) + self.least
        square = np.array([math.sqrt(share[i] * share[j]) for i, j in combinations(range(len(told)), 2)])
        square *= len(square) / math.fsum(square)
        return tuple(float(w) for w in np.sqrt(square) * _DOWN)


def told(counts: Floats, sd: Floats) -> float:
    """χ² of a column's groups (rows) and the label (columns) per record, the noise of deviation `sd` subtracted, ≥ 0.

    Rows so thin that the noise drowns them count as little as it lets them: μ is at least `sd` in the denominator.
    """
    kept = np.maximum(counts, 0.0)
    total = max(float(kept.sum()), 1.0)
    expected = np.outer(kept.sum(axis=1), kept.sum(axis=0)) / total
    excess = np.square(counts - expected) - np.square(sd)
    return max(float((excess / np.maximum(expected, np.maximum(sd, 1.0))).sum()) / total, 0.0)
