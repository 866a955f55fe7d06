"""Decides from noisy counts how the budget of a second release is split over pairs; it may see noisy counts only.

A pair gets weight w, and with it noise σ/w; the sum of w² over all pairs is fixed beforehand (one each), so the
sensitivity is too, whatever the counts say. If v measures the harm of an error in a pair, and the error's variance is
proportional to 1/w², then Σ v/w² is least, for a given Σ w², where w² ∝ √v.
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
    """w² ∝ √v with v = (tᵢ + l)·(tⱼ + l), t the information of a column about the label, l = `least` of the largest.

    `least` = 1 or more leaves little difference; where no column informs about the label, there is none.
    """

    least: float = 0.05

    def __post_init__(self) -> None:
        if not (math.isfinite(self.least) and self.least >= 1e-3):
            raise UsageError("A weight rule needs a least share of 0.001 or more.")

    @property
    def lowest(self) -> float:
        """No pair ever has less weight: w² is at least l of a mean that is at most 1 + l."""
        return math.sqrt(self.least / (1.0 + self.least)) * _DOWN**2

    def weights(self, association: Floats) -> tuple[float, ...]:
        """The weight of every pair (i, j), i < j, in order: each positive, their squares adding up to their number.

        They never add up to more: see `_DOWN`.
        """
        association = np.nan_to_num(np.maximum(association, 0.0), nan=0.0, posinf=0.0)
        best = float(association.max(initial=0.0))
        share = (association / best if best > 0.0 else np.zeros(len(association))) + self.least
        square = np.array([math.sqrt(share[i] * share[j]) for i, j in combinations(range(len(association)), 2)])
        square *= len(square) / math.fsum(square)
        return tuple(float(w) for w in np.sqrt(square) * _DOWN)


def label_association(counts: Floats, sd: Floats) -> float:
    """χ² of a column's groups (rows) and the label (columns) per record, the noise of deviation `sd` subtracted, ≥ 0.

    In rows with fewer records than noise, μ is replaced by `sd` in the denominator, so that they count little.
    """
    kept = np.maximum(counts, 0.0)
    total = max(float(kept.sum()), 1.0)
    expected = np.outer(kept.sum(axis=1), kept.sum(axis=0)) / total
    excess = np.square(counts - expected) - np.square(sd)
    return max(float((excess / np.maximum(expected, np.maximum(sd, 1.0))).sum()) / total, 0.0)
