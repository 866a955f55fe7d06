"""Estimates distances from sketches whose noise level is known. It touches released numbers only, never a record.

Each sketch is read once: mean features f (their noise variance is known, so ‖f‖² can be debiased), and histograms
projected onto the simplex. With C the radius of the design and n records,

    D = E‖x − c‖² − C²‖f‖²         the spread, from the shells (whose mean of r² is exact) less the debiased mean
    M = C²‖f_a − f_b‖² − noise     the squared distance between the means, debiased

    SW_2² ≈ (M + W_2²(q_a, q_b))/d     q: the marginal of a cloud that is a mixture of isotropic Gaussians with the
                                       shells' radii, the projection of such a cloud on any direction
    W_2²  ≈ OT(cells_a, cells_b) + ρ_n (R_a + R_b)    R = E‖x − nearest prototype‖², with public data
    W_2²  ≈ M + r_n (D_a + D_b)                       without

W_2 here is the distance between the two *samples*, which in many dimensions is mostly the mismatch ρ_n (r_n) that even
two samples of one distribution leave; it is measured on public data, or assumed.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy.special import ndtr

from privot.common.extras import needing
from privot.federation.wire.messages import Array

_TAIL = 1e-4
PROBABILITIES: Array = np.concatenate(
    [np.linspace(0.5, 0.98, 120, endpoint=False), 1.0 - np.geomspace(0.02, _TAIL, 80)]
)
_GRID: Array = np.concatenate([[0.0], np.geomspace(1e-3, 1.0, 160)])
"""Where the mixture of Gaussians is evaluated, in parts of five times its largest deviation."""
MIN_SPREAD = 0.02
"""Smallest spread, as a share of E‖x − c‖²: noise can make the estimate negative, which no data is."""


@dataclass(frozen=True)
class Shared:
    """What two sketches of one design have in common, from their public facts."""

    dim: int
    radius: float
    knots: Array
    costs: Array
    unmatched: Array
    bounded: bool = False

    @classmethod
    def of(cls, public: Mapping[str, Any], *others: Mapping[str, Any]) -> Shared:
        """From the public facts of one sketch; records count as bounded only if all sketches state it."""
        costs = np.array(public["prototype_costs"], dtype=np.float64)
        return cls(
            int(public["dim"]),
            float(public["radius"]),
            np.array(public["knots"], dtype=np.float64),
            costs if costs.size else np.zeros((0, 0)),
            np.array(public["unmatched"], dtype=np.float64),
            all(facts.get("bounded", False) for facts in (public, *others)),
        )

    @property
    def most(self) -> tuple[float, float, float]:
        """Upper bounds on W_2, sliced W_2 and OTDD between records, as far as a sketch counts them.

        In a box the bound is its diagonal. Without a box no record counts as further out than the last knot. Prototypes
        may lie anywhere, so with public data there is no bound. The mean of (u·v)² over directions u is ‖v‖²/d, so
        sliced W_2 is at most the diameter over √d; OTDD adds a squared distance between classes, again at most
        the diameter's.
        """
        if len(self.costs):
            return math.inf, math.inf, math.inf
        diameter = 2.0 * (self.radius if self.bounded else math.sqrt(float(self.knots[-1])))
        return diameter, diameter / math.sqrt(self.dim), diameter * math.sqrt(2.0)

    def left(self, records: float) -> tuple[float, float]:
        """(r_n, ρ_n): interpolated and extrapolated by a power of n that never rises."""
        spread, residual = self.left_of(np.array(records))
        return float(spread), float(residual)

    def left_of(self, records: Array) -> tuple[Array, Array]:
        """The spread and residual left, for each record count."""
        sizes, table = np.log(self.unmatched[:, 0]), np.log(self.unmatched[:, 1:])
        slope = np.zeros(2)
        if len(sizes) > 1:
            slope = np.minimum((table[-1] - table[0]) / (sizes[-1] - sizes[0]), 0.0)
        beyond = np.log(records) - sizes[-1]
        return np.exp(table[-1, 0] + slope[0] * beyond), np.exp(table[-1, 1] + slope[1] * beyond)


@dataclass(frozen=True)
class Reading:
    """One sketch as means: features and histograms, and the noise variance of each coordinate of the features."""

    shared: Shared
    features: Array
    noise: float
    shells: Array
    cells: Array | None
    residuals: Array | None
    records: float

    @cached_property
    def spread(self) -> float:
        """D, the trace of the covariance."""
        square = float(self.shells @ self.shared.knots)
        mean = float(self.features @ self.features) - self.noise * len(self.features)
        return max(square - self.shared.radius**2 * mean, MIN_SPREAD * square, 1e-300)

    @cached_property
    def quantiles(self) -> Array:
        """Upper quantiles at `PROBABILITIES` of the mixture of Gaussians with the shells' radii, scaled to D."""
        square = float(self.shells @ self.shared.knots)
        variance = np.full(len(self.shared.knots), self.spread)
        # with much noise all shells but the innermost can be empty: the radii then say nothing about the shape
        if square > 1e-12 * float(self.shared.knots[-1]):
            variance = self.shared.knots * (self.spread / square)
        keep = self.shells > 1e-12
        deviation = np.sqrt(np.maximum(variance[keep], 1e-12 * max(self.spread, 1e-300)))
        x = _GRID * 5.0 * deviation.max()
        below = self.shells[keep] @ ndtr(x[None, :] / deviation[:, None])
        return np.asarray(np.interp(PROBABILITIES, below / below[-1], x))

    @cached_property
    def residual(self) -> float:
        """R, the mean squared distance to the nearest prototype."""
        return 0.0 if self.residuals is None else float(self.residuals @ self.shared.knots)

    def means_apart(self, other: Reading) -> float:
        """M, the unbiased estimate of the squared distance between the means: negative half the time if that is 0."""
        gap = self.features - other.features
        return (float(gap @ gap) - (self.noise + other.noise) * len(gap)) * self.shared.radius**2


def estimate(a: Reading, b: Reading, *, signed: bool = False) -> tuple[float, float]:
    """(W_2², SW_2²) between the records behind two readings; `signed` keeps a negative M as it is."""
    shared = a.shared
    means = a.means_apart(b) if signed else max(0.0, a.means_apart(b))
    apart = (a.quantiles - b.quantiles) ** 2
    # the lower half of a symmetric law mirrors the upper
    line = float(2.0 * (np.diff(PROBABILITIES) * (apart[1:] + apart[:-1]) / 2.0).sum())
    spread_share, residual_share = shared.left(math.sqrt(a.records * b.records))
    if a.cells is None or b.cells is None:
        whole = means + spread_share * (a.spread + b.spread)
    else:
        with needing("Comparing sketches needs", "torch"):
            from privot.transport._exact import couple

        found = couple(shared.costs, a.cells, b.cells)
        moved = float(found.mass @ shared.costs[found.i, found.j])
        whole = moved + residual_share * (a.residual + b.residual)
    return whole, (means + line) / shared.dim


def simplex(values: Array) -> Array:
    """The nearest point with non-negative coordinates that sum to 1."""
    down = np.sort(values)[::-1]
    level = (np.cumsum(down) - 1.0) / np.arange(1, len(values) + 1)
    return np.asarray(np.maximum(values - level[np.flatnonzero(down > level)[-1]], 0.0))
