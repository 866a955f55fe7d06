"""Every claim of the WDP paper with its verdict; a refuted claim has a counterexample (`wdp_counterexamples`)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from privot.guarantee import Standing
from privot_lab.studies.wdp import wdp_counterexamples
from privot_lab.studies.wdp.wdp_counterexamples import Counterexample


class Verdict(StrEnum):
    """The verdict on a claim."""

    HOLDS = "holds"
    HOLDS_UNDER = "holds under"
    REFUTED = "refuted"


@dataclass(frozen=True)
class WdpClaim:
    """One statement of the paper, in plain words, and the verdict on it."""

    key: str
    name: str
    statement: str
    verdict: Verdict
    condition: str
    """The condition under which it holds, or what is true instead."""
    counter: Callable[[], Counterexample] | None = None

    @property
    def standing(self) -> Standing:
        """What stands behind the claim *as published*."""
        return Standing.PROVEN if self.verdict is Verdict.HOLDS else Standing.UNPROVEN

    def to_dict(self) -> dict[str, Any]:
        """As plain JSON types; the counterexample is computed when this is called."""
        return {
            "claim": self.key,
            "name": self.name,
            "statement": self.statement,
            "verdict": str(self.verdict),
            "condition": self.condition,
            "standing": str(self.standing),
            "counterexample": None if self.counter is None else self.counter().to_dict(),
        }


CLAIMS: tuple[WdpClaim, ...] = (
    WdpClaim("1", "symmetry", "W_μ(M(D), M(D')) = W_μ(M(D'), M(D))", Verdict.HOLDS, "W_μ is a metric"),
    WdpClaim("2", "triangle inequality", "W_μ(1, 3) ≤ W_μ(1, 2) + W_μ(2, 3)", Verdict.HOLDS, "W_μ is a metric"),
    WdpClaim("3", "non-negativity", "W_μ ≥ 0", Verdict.HOLDS, "W_μ is a metric"),
    WdpClaim("4", "monotonicity", "W_μ grows with μ", Verdict.HOLDS, "Lyapunov's inequality"),
    WdpClaim(
        "5",
        "parallel composition",
        "disjoint parts together cost the largest of their ε",
        Verdict.HOLDS_UNDER,
        "add-remove neighbours and independent noise; a replaced record may move from one part to another",
        wdp_counterexamples.moving_between_parts,
    ),
    WdpClaim(
        "6",
        "sequential composition",
        "ε adds up",
        Verdict.HOLDS_UNDER,
        "independent, non-adaptive releases; a later release may stretch an earlier output without using any data",
        wdp_counterexamples.adaptive,
    ),
    WdpClaim(
        "7",
        "Laplace mechanism",
        "W_μ ≤ ½Δ(√(2[1/λ + e^(−1/λ) − 1]))^(1/μ)",
        Verdict.REFUTED,
        "true: W_μ = Δ for every λ and μ; noise does not change how far a translation moves",
        wdp_counterexamples.laplace,
    ),
    WdpClaim(
        "8",
        "Gaussian mechanism",
        "W_μ ≤ ½(Δ/σ)^(1/μ)",
        Verdict.REFUTED,
        "true: W_μ = Δ for every σ and μ; the formula is an upper bound only where σ ≤ Δ/(2Δ)^μ",
        wdp_counterexamples.gaussian,
    ),
    WdpClaim(
        "9",
        "from DP to WDP",
        "ε-DP gives W_μ ≤ ½Δ(2ε(e^ε − 1))^(1/2μ)",
        Verdict.REFUTED,
        "true with the diameter R of the output space in place of Δ: W_μ ≤ R·tanh(ε/2)^(1/μ)",
        wdp_counterexamples.from_dp,
    ),
    WdpClaim(
        "10",
        "from RDP to WDP",
        "(α, ε)-RDP gives W_μ ≤ ½Δ(2ε)^(1/2μ)",
        Verdict.REFUTED,
        "true with the diameter R of the output space in place of Δ: W_μ ≤ R·min(√(ε/2), √(1 − e^−ε))^(1/μ)",
        wdp_counterexamples.from_rdp,
    ),
    WdpClaim(
        "11",
        "from WDP to RDP",
        "if ln p is L-Lipschitz, (μ, ε)-WDP gives α/(α−1)·L·ε^(μ/(μ+1)) of RDP",
        Verdict.REFUTED,
        "true for additive noise: L·W_μ of pure DP, without the root",
        wdp_counterexamples.to_rdp,
    ),
    WdpClaim(
        "11 (DP)",
        "from WDP to DP",
        "… and L·ε^(μ/(μ+1)) of pure DP",
        Verdict.REFUTED,
        "true for additive noise: L·W_μ of pure DP, without the root",
        wdp_counterexamples.to_dp,
    ),
    WdpClaim(
        "11 (zCDP)",
        "from WDP to zCDP",
        "… and ½(L·ε^(μ/(μ+1)))² of zCDP",
        Verdict.REFUTED,
        "true for additive noise: ½(L·W_μ)²",
        wdp_counterexamples.to_zcdp,
    ),
    WdpClaim(
        "12",
        "post-processing",
        "any map of the output keeps (μ, ε)-WDP",
        Verdict.REFUTED,
        "true for 1-Lipschitz maps only: WDP depends on the units the output is written in",
        wdp_counterexamples.post_processing,
    ),
    WdpClaim(
        "13", "group privacy", "k records cost k·ε", Verdict.HOLDS, "the triangle inequality, one record at a time"
    ),
    WdpClaim(
        "Theorem 1",
        "advanced composition",
        "Pr[W ≥ ε] ≤ exp(β·ΣE W − β·ε) for any β > 0",
        Verdict.REFUTED,
        "uses Jensen's inequality in the wrong direction; and as β is free, δ would cost nothing",
        wdp_counterexamples.theorem_1,
    ),
    WdpClaim(
        "Theorem 2",
        "loss of a sampled step",
        "W_μ = inf_d [E|Z|^μ]^(1/μ), Z ~ N(qd, (2−2q+2q²)σ²)",
        Verdict.REFUTED,
        "treats a mixture as a sum and the independent coupling as the best one; exact W_μ tends to q^(1/μ)·d",
        wdp_counterexamples.theorem_2,
    ),
    WdpClaim(
        "Lemma 1",
        "raw absolute moment",
        "E|Z|^μ = (2Var)^(μ/2)·Γ((μ+1)/2)/√π · ₁F₁(−μ/2; ½; −q²d²/2Var)",
        Verdict.HOLDS,
        "Winkelbauer 2012; only the last line of its derivation (eq. 125) has 4ⁿ where 2ⁿ belongs",
    ),
    WdpClaim(
        "Theorem 3",
        "tail bound",
        "ln δ = β·Σ inf_d [E|Z|^μ]^(1/μ) − β·ε",
        Verdict.REFUTED,
        "rests on Theorems 1 and 2",
        wdp_counterexamples.theorem_3,
    ),
    WdpClaim(
        "Corollary 1",
        "the accountant's ε",
        "ε = Σ inf_d [E|Z|^μ]^(1/μ) − ln(δ)/β",
        Verdict.REFUTED,
        "rests on Theorems 1 and 2; it is below the exact W_μ of a single step",
        wdp_counterexamples.corollary_1,
    ),
    WdpClaim(
        "noise",
        "more noise is more private",
        "assumed by every use of the accountant",
        Verdict.REFUTED,
        "the accounted ε grows with σ: by it, no noise at all is the most private choice",
        wdp_counterexamples.noise_growth,
    ),
    WdpClaim(
        "Table 2",
        "attack probability",
        "the printed probabilities are 1/(1 + e^−ε)",
        Verdict.REFUTED,
        "the formula gives 0.948 for 2.9; and it holds for pure DP, so it does not apply to a WDP number",
        wdp_counterexamples.attack,
    ),
)


def claim(key: str) -> WdpClaim:
    """The claim called `key` ("7", "Theorem 2" …)."""
    return next(c for c in CLAIMS if c.key == key)
