"""The label term of OTDD between two labelled sketches. It touches released numbers only, never a record.

Class c of a party has a share p_c, a mean m_c (its noise known) and, like all its classes, the spread W within classes.
With B = Σ p_c ‖m_c − m‖² the spread between them, and all distances squared (Alvarez-Melis & Fusi 2020),

    OTDD² ≈ W_2² + min over plans π of Σ π_cc′ (‖m_c − m_c′‖² + ‖Σ_c^½ − Σ_c′^½‖²)
          ≈ W_2² + ‖m − m′‖² + B + B′ − 2 max_π Σ π_cc′ X_cc′ + (√W − √W′)² + 2κ √(W W′)
    X_cc′ = ⟨m_c − m, m_c′ − m′⟩

The second line is exact except for what a sketch does not contain: W stands for every class's spread, and 1 − κ for the
cosine between roots of covariances (‖Σ^½‖² = W). The sum of two minima is at most the minimum of the sum, so the
estimate is a lower one.

At a small budget a class of a hundred records is mostly noise of known size, so all estimates are shrunk by as much as
the noise hides (empirical Bayes; James & Stein 1961, "Estimation with quadratic loss"): B towards a quarter of the
spread, and X towards √(B B′) for classes of one name and 0 for others. Without noise, names play no part.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from privot.common.extras import needing
from privot.errors import DataError
from privot.federation.wire.messages import Array

KAPPA = 0.22
"""1 − cos between roots of the covariances of two classes: see lab/docs/notebook/federation.md."""
BETWEEN, BETWEEN_DEVIATION = 0.25, 0.5
"""Prior mean of the share of the spread that lies between classes, and its deviation relative to that mean."""
NAMES_DEVIATION = 0.15
"""Prior deviation of the cosine, expected to be 1, between the means of two classes of one name."""
MIN_WITHIN = 0.05
CAUTION = 2.0
"""How many noise deviations an observation must lie from the prior before the prior is widened."""


@dataclass(frozen=True, eq=False)
class Classes:
    """The classes of one party that stand out from the noise: names, shares (sum 1), C(m_c − m), noise, B and W."""

    names: NDArray[np.int64]
    share: Array
    apart: Array
    noise: Array
    between: float
    within: float

    @classmethod
    def of(cls, names: NDArray[np.int64], share: Array, sums: Array, deviation: float, spread: float) -> Classes:
        """From C Σ_c v/n (one row per class, noise of this deviation in each coordinate) and D.

        A row over its share less the sum of all rows has noise s²(1/p² − 2/p + k) in each coordinate, k the number of
        classes; weighted by shares that is s²(Σ 1/p − k).
        """
        width = sums.shape[1]
        apart = sums / share[:, None] - sums.sum(0)
        noise = deviation**2 * (1.0 / share**2 - 2.0 / share + len(share))
        square = (apart * apart).sum(1)
        debiased = square - width * noise
        raw = float(share @ debiased)
        variance = float(share**2 @ (2.0 * width * noise**2 + 4.0 * noise * np.maximum(debiased, max(raw, 0.0))))
        expected = BETWEEN * spread
        # further off than noise explains: the prior was too narrow, and is widened to fit
        model = max((BETWEEN_DEVIATION * expected) ** 2, (raw - expected) ** 2 - CAUTION**2 * variance)
        doubt = model + variance
        # all records in one place and no noise: nothing is uncertain
        between = max(0.0, (raw * model + expected * variance) / doubt if doubt > 0.0 else raw)
        return cls(names, share, apart, noise, between, max(spread - between, MIN_WITHIN * spread))


def label_term(a: Classes, b: Classes, means: float) -> float:
    """The least Σ π L above, given the squared distance between the means of all records."""
    most = math.sqrt(a.between * b.between)
    aligned = min(_aligned(a, b, most), most)
    apart = means + a.between + b.between - 2.0 * aligned
    shapes = (math.sqrt(a.within) - math.sqrt(b.within)) ** 2 + 2.0 * KAPPA * math.sqrt(a.within * b.within)
    return apart + shapes


def _aligned(a: Classes, b: Classes, most: float) -> float:
    """max_π Σ π X; `most` is √(B B′), which it cannot exceed (Cauchy & Schwarz)."""
    with needing("Comparing sketches needs", "torch"):
        from privot.transport._exact import couple

    seen = a.apart @ b.apart.T
    cross = np.outer(a.noise, b.noise) * a.apart.shape[1]
    variance = np.outer(a.noise, np.full(len(b.noise), b.between)) + a.between * b.noise + cross
    named = a.names[:, None] == b.names
    weight = np.minimum(a.share[:, None], b.share) * named
    expected = np.zeros_like(seen)
    scale = most * float(weight.sum())
    if scale > 0.0:
        doubt = float((weight**2 * variance).sum()) / scale**2
        found = float((weight * seen).sum()) / scale
        model = NAMES_DEVIATION**2
        expected = named * most * min(1.0, max(0.0, (found * model + doubt) / (model + doubt)))
    rest, pairs = seen - expected, np.outer(a.share, b.share)
    noise = float((pairs * variance).sum()) + CAUTION * math.sqrt(2.0 * float((pairs**2 * variance**2).sum()))
    energy = float((pairs * rest * rest).sum())
    kept = max(0.0, 1.0 - noise / energy) if energy > 0.0 else 0.0
    x = expected + kept * rest
    if not np.isfinite(x).all():
        raise DataError("The sketches hold numbers too large to compare: ask their makers for new ones.")
    plan = couple(x.max() - x, a.share, b.share)
    return float(plan.mass @ x[plan.i, plan.j])
