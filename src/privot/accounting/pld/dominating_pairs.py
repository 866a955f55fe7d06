"""Dominating pairs: for each mechanism two distributions (P, Q) that are at least as far apart as any neighbours'.

A pair is known by its tails. With ℓ = ln(dP/dQ), `tails(c)` answers P(ℓ > c), Q(ℓ > c) and their difference, c ≥ 0. All
base pairs here are *symmetric*: −ℓ under Q has the law of ℓ under P. A step has two sides, each by its tails: what
happens at positive losses, and what happens at negative ones, seen from the other end.

Sampling (share q) turns the base ratio r = e^ℓ into 1 − q + q·r:

* **Poisson, add/remove** (Zhu, Dong & Wang 2022, Theorem 11): removing is dominated by ((1−q)Q + qP, Q), adding by
  (Q, (1−q)Q + qP). Each direction composes on its own.
* **Fixed size, replace-one.** With A, B, B' the output given that the changed record is out, in (old), in (new),
  advanced joint convexity (Balle, Barthe & Gaboardi 2018, Theorem 2) gives, for α ≥ 1,
  H_α((1−q)A + qB ‖ (1−q)A + qB') ≤ q·δ_M(1 + (α−1)/q) with δ_M the base mechanism's replace-one profile. Neighbours
  are symmetric, so the same holds with the roles exchanged. The function h that equals this for α ≥ 1 and
  1 − α + α·h(1/α) below is convex (its one-sided slopes at 1 are ordered because q ≤ 1), so it is the profile of a
  pair, and that pair dominates every step of an adaptive composition (Zhu et al. 2022, Theorem 10). Composing only
  the "remove" direction, as is done for Poisson, would *not* be a bound (Lebeda et al. 2024): the pair used here
  is symmetric: on ℓ' > 0 it is the "remove" pair, on ℓ' < 0 its mirror image, and the rest sits at 0.

**Projections** are mixtures over the law of H with H visible (the directions are public). The profile of a Gaussian
pair with shift s is convex in TV(s) = erf(s/√8) for every ε (its derivative by TV is e^{ε/2}·exp(−ε²/2s²), which grows
with s), so moving the mass between two values of H to those two, keeping the mean TV, gives a pair that dominates:
a second-order discretisation that is still a bound.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.special import erf, erfc, ndtr

from privot.accounting.events import Event, Gaussian, Laplace, Projection, Sampled
from privot.accounting.laws.projection_law import law
from privot.accounting.sampling import Poisson

Array = NDArray[np.float64]
Tails = Callable[[Array], tuple[Array, Array, Array]]
"""P(ℓ > c), Q(ℓ > c) and their difference, which is given on its own because under tiny sampling shares it would be
lost between two nearly equal numbers."""

_NODES = 64
SMALLEST_SHIFT = 1e-6
"""Smaller shifts are raised to this one (which dominates them): differences of tails would drown in rounding."""
SMALLEST_SHARE = 1e-12
"""Smaller sampling shares are raised to this one, over the shift where that is below 1; more sampling dominates less.

A sampled step's losses are about share times shift: far below that they would drown in rounding together.
"""


class BasePair(Protocol):
    """A symmetric pair by its tails, with `lost` mass at infinite loss."""

    @property
    def lost(self) -> float:
        """Mass at infinite loss."""
        ...

    @property
    def ceiling(self) -> float:
        """The largest loss."""
        ...

    @property
    def widest(self) -> float:
        """The largest shift."""
        ...

    def tails(self, c: Array) -> tuple[Array, Array, Array]:
        """(P(ℓ > c), Q(ℓ > c), their difference) for c ≥ 0, without the lost mass."""
        ...


@dataclass(frozen=True)
class GaussianMixture:
    """Gaussians `shifts` apart with `weights`, the component visible: ℓ = s·Z + s²/2 under P."""

    shifts: tuple[float, ...]
    weights: tuple[float, ...]
    lost: float = 0.0
    ceiling: float = math.inf

    @property
    def widest(self) -> float:
        """The largest shift."""
        return max(self.shifts)

    def tails(self, c: Array) -> tuple[Array, Array, Array]:
        """Φ(s/2 − c/s) and Φ(−s/2 − c/s), averaged over the components."""
        s, w = np.array(self.shifts), np.array(self.weights)
        with np.errstate(over="ignore"):
            ratio = c[:, None] / s
        p, q = ndtr(s / 2.0 - ratio), ndtr(-s / 2.0 - ratio)
        return p @ w, q @ w, (p - q) @ w


@dataclass(frozen=True)
class LaplacePair:
    """Two Laplace laws of unit scale, `shift` apart: |ℓ| ≤ shift, with atoms at both ends."""

    shift: float
    lost: float = 0.0

    @property
    def ceiling(self) -> float:
        """Pure ε."""
        return self.shift

    @property
    def widest(self) -> float:
        """The shift."""
        return self.shift

    def tails(self, c: Array) -> tuple[Array, Array, Array]:
        """1 − ½e^{−(s−c)/2} and ½e^{−(s+c)/2} for c < s, else 0."""
        inside = c < self.shift
        near, far = np.where(inside, self.shift - c, 0.0), self.shift + np.where(inside, c, 0.0)
        p = np.where(inside, 1.0 - 0.5 * np.exp(-near / 2.0), 0.0)
        q = np.where(inside, 0.5 * np.exp(-far / 2.0), 0.0)
        return p, q, np.where(inside, -0.5 * (np.expm1(-near / 2.0) + np.expm1(-far / 2.0)), 0.0)


def _total_variation_gap(low: Array, high: Array) -> Array:
    """TV(high) − TV(low) for shifts low ≤ high, without cancellation at either end."""
    a, b = low / 8**0.5, high / 8**0.5
    return np.asarray(np.where(b < 0.5, erf(b) - erf(a), erfc(a) - erfc(b)))


def projection_pair(dim: int, slices: int, orthogonal: bool, ratio: float) -> GaussianMixture:
    """The mixture over H of shifts `ratio`·√H (ratio = Δ/σ), on a few dozen values of H, from above."""
    table = law(dim, slices, orthogonal)
    shifts = np.maximum(ratio * np.sqrt(table.values), SMALLEST_SHIFT)
    if len(shifts) <= _NODES:
        return GaussianMixture(tuple(shifts), tuple(table.masses), table.lost)
    used = np.flatnonzero(table.masses > 0.0)
    shifts, masses = shifts[used], table.masses[used]
    nodes = np.linspace(shifts[0], shifts[-1], _NODES)
    upper = np.searchsorted(nodes, shifts, side="left").clip(1, _NODES - 1)
    low, high = nodes[upper - 1], nodes[upper]
    whole = _total_variation_gap(low, high)
    part = _total_variation_gap(low, np.clip(shifts, low, high))
    # where both ends have TV = 1 to the last bit, all mass goes to the upper end, which is cautious
    share = np.where(whole > 0.0, np.divide(part, whole, out=np.ones_like(part), where=whole > 0.0), 1.0).clip(0, 1)
    weights = np.bincount(upper, masses * share, _NODES) + np.bincount(upper - 1, masses * (1 - share), _NODES)
    kept = weights > 0.0
    return GaussianMixture(tuple(nodes[kept]), tuple(weights[kept]), table.lost)


def base_pair(event: Event) -> BasePair | None:
    """The symmetric dominating pair of an unsampled event, or None where only its Rényi curve is known."""
    if isinstance(event, Gaussian):
        return GaussianMixture((max(event.sensitivity / event.sigma, SMALLEST_SHIFT),), (1.0,))
    if isinstance(event, Laplace):
        return LaplacePair(max(event.sensitivity / event.scale, SMALLEST_SHIFT))
    if isinstance(event, Projection):
        if event.bound == "exact":
            return projection_pair(
                event.dim, event.slices, event.frame == "orthogonal", event.sensitivity / event.sigma
            )
        if event.fails_once:
            # no pair: a failure that is given up once for many draws belongs to no single step
            return None
        # outside the bad event (probability `failure`, independent of the data) this is a Gaussian mechanism
        failure = event.failure or 0.0
        shift = max(math.sqrt(event.squared_sensitivity) / event.sigma, SMALLEST_SHIFT)
        return GaussianMixture((shift,), (1.0 - failure,), failure)
    return None


@dataclass(frozen=True)
class Step:
    """One step of a composition: tails of (P', Q') and of (Q', P'), each for losses ≥ 0, and the lost mass."""

    forward: Tails
    backward: Tails
    lost: float
    ceiling: float = math.inf
    """The largest loss of (P', Q')."""
    floor: float = math.inf
    """The largest loss of (Q', P')."""

    def reversed(self) -> Step:
        """The same step seen from the other neighbour."""
        return Step(self.backward, self.forward, self.lost, self.floor, self.ceiling)


def _stretch(loss: Array, share: float) -> Array:
    """The base loss c with 1 − q + q·e^c = e^loss: ln(1 + (e^loss − 1)/q), for loss ≥ 0 of any size."""
    with np.errstate(over="ignore"):
        small = np.log1p(np.expm1(np.minimum(loss, 1.0)) / share)
        large = loss - math.log(share) + np.log1p(-(1.0 - share) * np.exp(-loss))
    return np.where(loss < 1.0, small, large)


def step_of(event: Event) -> tuple[Step, bool] | None:
    """The step of a leaf event, and whether it is symmetric; None where no pair is known."""
    pair = base_pair(event.event if isinstance(event, Sampled) else event)
    if pair is None:
        return None
    whole = Step(pair.tails, pair.tails, pair.lost, pair.ceiling, pair.ceiling)
    if not isinstance(event, Sampled) or event.sampling.share == 1.0:
        return whole, True
    q = max(event.sampling.share, SMALLEST_SHARE / min(1.0, pair.widest))

    def inward(loss: Array) -> tuple[Array, Array, Array]:
        """((1−q)Q + qP, Q) beyond a positive loss."""
        _, q_tail, gap = pair.tails(_stretch(loss, q))
        return q_tail + q * gap, q_tail, q * gap

    def outward(loss: Array) -> tuple[Array, Array, Array]:
        """(Q, (1−q)Q + qP) beyond a positive loss, which is below ln 1/(1−q); uses the base pair's symmetry."""
        fall = -np.expm1(-loss) / q
        inside = fall < 1.0
        with np.errstate(divide="ignore"):
            base = np.where(inside, -np.log1p(-np.where(inside, fall, 0.0)), np.inf)
        p_tail, _, gap = pair.tails(np.where(inside, base, 0.0))
        p_tail, gap = np.where(inside, p_tail, 0.0), np.where(inside, q * gap, 0.0)
        return p_tail, p_tail - gap, gap

    ceiling = math.log1p(q * math.expm1(pair.ceiling)) if pair.ceiling < 700.0 else math.inf
    if isinstance(event.sampling, Poisson):
        # the base pair's lost mass is lost only if the record takes part; charging it in full is cautious
        return Step(inward, outward, pair.lost, ceiling, -math.log1p(-q)), False
    return Step(inward, inward, pair.lost, ceiling, ceiling), True
