"""(μ, ε)-WDP as a type, with what can soundly be done with it; the published formulas are in `published`.

A mechanism is (μ, ε)-WDP if W_μ(M(D), M(D')) ≤ ε for all neighbours D, D' (Yang, Qi & Zhou 2024, Definition 3). It is
a statement about *how far the output moves*, in the output's own units. It is not differential privacy: a mechanism
with no noise at all is (μ, Δ)-WDP, and adding noise to it changes nothing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

from privot.accounting.wasserstein.absolute_moment import check_order
from privot.accounting.wasserstein.distance import sampled_distance, translation_distance
from privot.common.arguments import check_count, check_kind, is_number
from privot.errors import UsageError, brief
from privot.guarantee import Adjacency, Standing

MEANING = (
    "W_μ ≤ ε bounds how far the output moves when one record changes, in the output's own units; it does not bound how "
    "well that record can be guessed"
)


@dataclass(frozen=True)
class WassersteinPrivacy:
    """W_`mu`(M(D), M(D')) ≤ `epsilon` for neighbours under `adjacency`, as firmly as `standing` says.

    >>> WassersteinPrivacy(2.0, 0.5, Adjacency.ADD_REMOVE, Standing.PROVEN).group(3).epsilon
    1.5
    """

    mu: float
    epsilon: float
    adjacency: Adjacency
    standing: Standing

    def __post_init__(self) -> None:
        check_order(self.mu)
        if not is_number(self.epsilon) or self.epsilon < 0.0:
            raise UsageError(f"ε must be a finite number of at least 0, got {brief(self.epsilon)}.")
        object.__setattr__(self, "adjacency", Adjacency.parse(self.adjacency))
        check_kind("The standing", self.standing, Standing)

    def at_order(self, mu: float) -> WassersteinPrivacy:
        """The same at a smaller order: W_μ grows with μ (Proposition 4)."""
        if check_order(mu) > self.mu:
            raise UsageError(f"What holds at order {self.mu:g} holds at smaller orders only, not at {mu:g}.")
        return replace(self, mu=float(mu))

    def beside(self, *others: WassersteinPrivacy) -> WassersteinPrivacy:
        """Releases of *disjoint* parts, a record in one part for good: the largest ε (Proposition 5).

        Under replace-one a record may move to another part; then two parts change and this is no bound.
        """
        self._match(others)
        if self.adjacency is not Adjacency.ADD_REMOVE:
            raise UsageError("Parts compose side by side under add-remove only: a replaced record may change part.")
        return self._with(max(p.epsilon for p in (self, *others)), others)

    def then(self, *others: WassersteinPrivacy) -> WassersteinPrivacy:
        """Releases of the same data that do not look at each other's outputs: ε adds up (Proposition 6).

        Not for adaptive releases: a later one may stretch an earlier output without touching the data.
        """
        self._match(others)
        return self._with(math.fsum(p.epsilon for p in (self, *others)), others)

    def lipschitz(self, constant: float) -> WassersteinPrivacy:
        """After a map that stretches distances by at most `constant`, W_μ is at most that much larger (12, mended)."""
        if not is_number(constant) or constant < 0.0:
            raise UsageError(f"A Lipschitz constant must be a finite number of at least 0, got {brief(constant)}.")
        return replace(self, epsilon=self.epsilon * float(constant))

    def group(self, records: int) -> WassersteinPrivacy:
        """For data that differ in `records` records, one after another (Proposition 13)."""
        check_count("The size of the group", records)
        return replace(self, epsilon=self.epsilon * records)

    def to_dict(self) -> dict[str, Any]:
        """As plain JSON types."""
        return {
            "mu": self.mu,
            "epsilon": self.epsilon,
            "adjacency": str(self.adjacency),
            "standing": str(self.standing),
            "meaning": MEANING,
        }

    def _match(self, others: tuple[WassersteinPrivacy, ...]) -> None:
        if any(p.mu != self.mu or p.adjacency is not self.adjacency for p in others):
            raise UsageError("Only statements of one order and one adjacency are put together: use at_order first.")

    def _with(self, epsilon: float, others: tuple[WassersteinPrivacy, ...]) -> WassersteinPrivacy:
        standing = Standing.weakest([p.standing for p in (self, *others)])
        return replace(self, epsilon=epsilon, standing=standing)


def additive_mechanism(sensitivity: float, mu: float, adjacency: Adjacency | str) -> WassersteinPrivacy:
    """Exact for f(D) + V with any noise V: ε = Δ for every μ. The size of the noise does not enter."""
    return WassersteinPrivacy(
        check_order(mu), translation_distance(sensitivity), Adjacency.parse(adjacency), Standing.PROVEN
    )


def sampled_mechanism(
    sigma: float, sensitivity: float, share: float, mu: float, adjacency: Adjacency | str = Adjacency.ADD_REMOVE
) -> WassersteinPrivacy:
    """Exact for a Poisson-sampled sum of vectors of norm ≤ Δ plus N(0, σ²), add-remove neighbours.

    The worst shift is Δ itself, since the mixture moves further the larger its shift.
    """
    if Adjacency.parse(adjacency) is not Adjacency.ADD_REMOVE:
        raise UsageError("The exact distance of a sampled release is known here under add-remove only.")
    epsilon = sampled_distance(mu, share, sensitivity, sigma)
    return WassersteinPrivacy(check_order(mu), epsilon, Adjacency.ADD_REMOVE, Standing.PROVEN)


def _bounded(diameter: float, variation: float, mu: float, adjacency: Adjacency | str) -> WassersteinPrivacy:
    """W_μ ≤ R·TV^{1/μ}: leave the common mass where it is, and move the rest by at most the diameter R."""
    epsilon = translation_distance(diameter) * min(1.0, variation) ** (1.0 / check_order(mu))
    return WassersteinPrivacy(float(mu), epsilon, Adjacency.parse(adjacency), Standing.PROVEN)


def from_dp(
    epsilon: float, diameter: float, mu: float, adjacency: Adjacency | str, delta: float = 0.0
) -> WassersteinPrivacy:
    """(ε, δ)-DP with outputs in a set of `diameter` R: W_μ ≤ R·TV^{1/μ}, TV ≤ (e^ε − 1 + 2δ)/(e^ε + 1).

    Proposition 9 with the diameter of the output space where it belongs (Kairouz, Oh & Viswanath 2015 for TV).
    """
    for name, value in (("ε", epsilon), ("δ", delta)):
        if not is_number(value) or value < 0.0:
            raise UsageError(f"{name} must be a finite number of at least 0, got {brief(value)}.")
    small = math.exp(-float(epsilon))
    return _bounded(diameter, math.tanh(epsilon / 2.0) + 2.0 * delta * small / (1.0 + small), mu, adjacency)


def from_kl(divergence: float, diameter: float, mu: float, adjacency: Adjacency | str) -> WassersteinPrivacy:
    """Outputs in a set of `diameter` R whose Kullback–Leibler divergence is at most D: W_μ ≤ R·TV^{1/μ}.

    TV ≤ min(√(D/2), √(1 − e^{−D})) (Pinsker; Bretagnolle & Huber 1979). (α, ε)-RDP with α ≥ 1 gives D ≤ ε, and ρ-zCDP
    gives D ≤ ρ: Proposition 10 with the diameter where it belongs.
    """
    if not is_number(divergence) or divergence < 0.0:
        raise UsageError(f"A divergence must be a finite number of at least 0, got {brief(divergence)}.")
    variation = min(math.sqrt(divergence / 2.0), math.sqrt(-math.expm1(-divergence)))
    return _bounded(diameter, variation, mu, adjacency)


def additive_to_dp(privacy: WassersteinPrivacy, steepness: float) -> float:
    """ε of pure DP for *additive* noise whose log-density is `steepness`-Lipschitz: L·W_μ.

    For a translate, ln p(x − a) − ln p(x − b) ≤ L·‖a − b‖ = L·W_μ. Laplace noise has L = 1/λ and attains it; Gaussian
    noise has no L. Proposition 11 where it is true.
    """
    if not is_number(steepness) or steepness < 0.0:
        raise UsageError(f"A Lipschitz constant must be a finite number of at least 0, got {brief(steepness)}.")
    return float(steepness) * privacy.epsilon
