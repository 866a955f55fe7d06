"""The mechanisms and conversions exactly as published (Yang, Qi & Zhou 2024, Propositions 7 to 11): all UNPROVEN.

Each is refuted in `claims`, where the counterexample is computed. They are here so that what the paper reports can be
recomputed and compared; a caller must say `allow_unproven=True`. Nothing proven is built on them.
"""

from __future__ import annotations

import math

from privot.accounting.wasserstein.absolute_moment import check_order
from privot.accounting.wasserstein.wasserstein_privacy import WassersteinPrivacy
from privot.common.arguments import check_positive, is_number
from privot.errors import UnprovenError, UsageError, brief
from privot.guarantee import Adjacency, Standing


def check_allowed(what: str, allow_unproven: bool) -> None:
    """Refuse a published formula that no theorem supports, unless it was asked for by name."""
    if allow_unproven is not True:
        raise UnprovenError(f"{what} is refuted as published: pass allow_unproven=True to compute it nevertheless.")


def _stated(mu: float, epsilon: float, adjacency: Adjacency | str) -> WassersteinPrivacy:
    return WassersteinPrivacy(check_order(mu), epsilon, Adjacency.parse(adjacency), Standing.UNPROVEN)


def laplace(
    sensitivity: float, scale: float, mu: float, adjacency: Adjacency | str, *, allow_unproven: bool = False
) -> WassersteinPrivacy:
    """Proposition 7: ½Δ·(√(2[1/λ + e^{−1/λ} − 1]))^{1/μ} for Laplace noise of scale λ."""
    check_allowed("Proposition 7 (Laplace mechanism)", allow_unproven)
    check_positive("The sensitivity", sensitivity)
    check_positive("The scale", scale)
    divergence = 1.0 / scale + math.expm1(-1.0 / scale)  # Rényi order one, for a shift of 1
    return _stated(mu, 0.5 * sensitivity * math.sqrt(2.0 * divergence) ** (1.0 / check_order(mu)), adjacency)


def gaussian(
    sensitivity: float, sigma: float, mu: float, adjacency: Adjacency | str, *, allow_unproven: bool = False
) -> WassersteinPrivacy:
    """Proposition 8: ½(Δ/σ)^{1/μ} for Gaussian noise."""
    check_allowed("Proposition 8 (Gaussian mechanism)", allow_unproven)
    check_positive("The sensitivity", sensitivity)
    check_positive("σ", sigma)
    return _stated(mu, 0.5 * (sensitivity / sigma) ** (1.0 / check_order(mu)), adjacency)


def from_dp(
    epsilon: float, sensitivity: float, mu: float, adjacency: Adjacency | str, *, allow_unproven: bool = False
) -> WassersteinPrivacy:
    """Proposition 9: ε-DP gives ½Δ·(2ε(e^ε − 1))^{1/2μ}."""
    check_allowed("Proposition 9 (from DP to WDP)", allow_unproven)
    check_positive("ε", epsilon)
    check_positive("The sensitivity", sensitivity)
    if epsilon > 700.0:
        raise UsageError(f"The published formula overflows for ε = {brief(epsilon)}.")
    power = 1.0 / (2.0 * check_order(mu))
    return _stated(mu, 0.5 * sensitivity * (2.0 * epsilon * math.expm1(epsilon)) ** power, adjacency)


def from_rdp(
    epsilon: float, sensitivity: float, mu: float, adjacency: Adjacency | str, *, allow_unproven: bool = False
) -> WassersteinPrivacy:
    """Proposition 10: (α, ε)-RDP, whatever α ≥ 1, gives ½Δ·(2ε)^{1/2μ}."""
    check_allowed("Proposition 10 (from RDP to WDP)", allow_unproven)
    check_positive("ε", epsilon)
    check_positive("The sensitivity", sensitivity)
    return _stated(mu, 0.5 * sensitivity * (2.0 * epsilon) ** (1.0 / (2.0 * check_order(mu))), adjacency)


def to_dp(privacy: WassersteinPrivacy, steepness: float, *, allow_unproven: bool = False) -> float:
    """Proposition 11 as α → ∞: with ln p L-Lipschitz, (μ, ε)-WDP gives L·ε^{μ/(μ+1)} of pure DP."""
    check_allowed("Proposition 11 (from WDP to DP)", allow_unproven)
    check_positive("The Lipschitz constant", steepness)
    return float(steepness * privacy.epsilon ** (privacy.mu / (privacy.mu + 1.0)))


def to_rdp(privacy: WassersteinPrivacy, steepness: float, alpha: float, *, allow_unproven: bool = False) -> float:
    """Proposition 11: with ln p L-Lipschitz, (μ, ε)-WDP gives (α, α/(α−1)·L·ε^{μ/(μ+1)})-RDP."""
    if not is_number(alpha) or alpha <= 1.0:
        raise UsageError(f"A Rényi order must be greater than 1, got {brief(alpha)}.")
    return alpha / (alpha - 1.0) * to_dp(privacy, steepness, allow_unproven=allow_unproven)


def to_zcdp(privacy: WassersteinPrivacy, steepness: float, *, allow_unproven: bool = False) -> float:
    """Discussion of the paper: ½(L·ε^{μ/(μ+1)})²-zCDP, Proposition 11 followed by Bun & Steinke 2016, Prop. 1.4."""
    return 0.5 * to_dp(privacy, steepness, allow_unproven=allow_unproven) ** 2


def attack_probability(epsilon: float) -> float:
    """1/(1 + e^{−ε}): how often the best guess between two neighbours is right if ε is *pure DP* (δ = 0).

    The paper prints it beside its WDP numbers too, where it has no such meaning; and for ε = 2.9 it prints 0.623, where
    the formula gives 0.948.
    """
    if not is_number(epsilon) or epsilon < 0.0:
        raise UsageError(f"ε must be a finite number of at least 0, got {brief(epsilon)}.")
    return 1.0 / (1.0 + math.exp(-min(float(epsilon), 700.0)))
