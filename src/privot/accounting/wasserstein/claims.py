"""Every claim of the WDP paper with its verdict; a refuted one names its counterexample (`counterexamples`)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from privot.accounting.wasserstein import counterexamples
from privot.accounting.wasserstein.counterexamples import Counterexample
from privot.guarantee import Standing


class Verdict(StrEnum):
    """What became of a claim."""

    HOLDS = "holds"
    HOLDS_UNDER = "holds under"
    REFUTED = "refuted"


@dataclass(frozen=True)
class Claim:
    """One statement of the paper, what it says in plain words, and what became of it."""

    key: str
    name: str
    statement: str
    verdict: Verdict
    condition: str
    """Under what it holds, or what is true instead."""
    counter: Callable[[], Counterexample] | None = None

    @property
    def standing(self) -> Standing:
        """What stands behind the claim *as published*."""
        return Standing.PROVEN if self.verdict is Verdict.HOLDS else Standing.UNPROVEN

    def to_dict(self) -> dict[str, Any]:
        """As plain JSON types, the counterexample computed now."""
        return {
            "claim": self.key,
            "name": self.name,
            "statement": self.statement,
            "verdict": str(self.verdict),
            "condition": self.condition,
            "standing": str(self.standing),
            "counterexample": None if self.counter is None else self.counter().to_dict(),
        }


CLAIMS: tuple[Claim, ...] = (
    Claim("1", "symmetry", "W_μ(M(D), M(D')) = W_μ(M(D'), M(D))", Verdict.HOLDS, "W_μ is a metric"),
    Claim("2", "triangle inequality", "W_μ(1, 3) ≤ W_μ(1, 2) + W_μ(2, 3)", Verdict.HOLDS, "W_μ is a metric"),
    Claim("3", "non-negativity", "W_μ ≥ 0", Verdict.HOLDS, "W_μ is a metric"),
    Claim("4", "monotonicity", "W_μ grows with μ", Verdict.HOLDS, "Lyapunov's inequality"),
    Claim(
        "5",
        "parallel composition",
        "disjoint parts together cost the largest of their ε",
        Verdict.HOLDS_UNDER,
        "add-remove neighbours and independent noise; a replaced record may move from one part to another",
        counterexamples.moving_between_parts,
    ),
    Claim(
        "6",
        "sequential composition",
        "ε adds up",
        Verdict.HOLDS_UNDER,
        "independent, non-adaptive releases; a later release may stretch an earlier output without using any data",
        counterexamples.adaptive,
    ),
    Claim(
        "7",
        "Laplace mechanism",
        "W_μ ≤ ½Δ(√(2[1/λ + e^(−1/λ) − 1]))^(1/μ)",
        Verdict.REFUTED,
        "true: W_μ = Δ for every λ and μ; noise does not change how far a translation moves",
        counterexamples.laplace,
    ),
    Claim(
        "8",
        "Gaussian mechanism",
        "W_μ ≤ ½(Δ/σ)^(1/μ)",
        Verdict.REFUTED,
        "true: W_μ = Δ for every σ and μ; the formula is an upper bound only where σ ≤ Δ/(2Δ)^μ",
        counterexamples.gaussian,
    ),
    Claim(
        "9",
        "from DP to WDP",
        "ε-DP gives W_μ ≤ ½Δ(2ε(e^ε − 1))^(1/2μ)",
        Verdict.REFUTED,
        "true with the diameter R of the output space in place of Δ: W_μ ≤ R·tanh(ε/2)^(1/μ)",
        counterexamples.from_dp,
    ),
    Claim(
        "10",
        "from RDP to WDP",
        "(α, ε)-RDP gives W_μ ≤ ½Δ(2ε)^(1/2μ)",
        Verdict.REFUTED,
        "true with the diameter R of the output space in place of Δ: W_μ ≤ R·min(√(ε/2), √(1 − e^−ε))^(1/μ)",
        counterexamples.from_rdp,
    ),
    Claim(
        "11",
        "from WDP to RDP",
        "if ln p is L-Lipschitz, (μ, ε)-WDP gives α/(α−1)·L·ε^(μ/(μ+1)) of RDP",
        Verdict.REFUTED,
        "true for additive noise: L·W_μ of pure DP, without the root",
        counterexamples.to_rdp,
    ),
    Claim(
        "11 (DP)",
        "from WDP to DP",
        "… and L·ε^(μ/(μ+1)) of pure DP",
        Verdict.REFUTED,
        "true for additive noise: L·W_μ of pure DP, without the root",
        counterexamples.to_dp,
    ),
    Claim(
        "11 (zCDP)",
        "from WDP to zCDP",
        "… and ½(L·ε^(μ/(μ+1)))² of zCDP",
        Verdict.REFUTED,
        "true for additive noise: ½(L·W_μ)²",
        counterexamples.to_zcdp,
    ),
    Claim(
        "12",
        "post-processing",
        "any map of the output keeps (μ, ε)-WDP",
        Verdict.REFUTED,
        "true for 1-Lipschitz maps only: WDP depends on the units the output is written in",
        counterexamples.post_processing,
    ),
    Claim("13", "group privacy", "k records cost k·ε", Verdict.HOLDS, "the triangle inequality, one record at a time"),
    Claim(
        "Theorem 1",
        "advanced composition",
        "Pr[W ≥ ε] ≤ exp(β·ΣE W − β·ε) for any β > 0",
        Verdict.REFUTED,
        "Jensen's inequality is used the wrong way round; and as β is free, δ would cost nothing",
        counterexamples.theorem_1,
    ),
    Claim(
        "Theorem 2",
        "loss of a sampled step",
        "W_μ = inf_d [E|Z|^μ]^(1/μ), Z ~ N(qd, (2−2q+2q²)σ²)",
        Verdict.REFUTED,
        "a mixture is taken for a sum and the independent coupling for the best one; exact W_μ tends to q^(1/μ)·d",
        counterexamples.theorem_2,
    ),
    Claim(
        "Lemma 1",
        "raw absolute moment",
        "E|Z|^μ = (2Var)^(μ/2)·Γ((μ+1)/2)/√π · ₁F₁(−μ/2; ½; −q²d²/2Var)",
        Verdict.HOLDS,
        "Winkelbauer 2012; only the last line of its derivation (eq. 125) has 4ⁿ where 2ⁿ belongs",
    ),
    Claim(
        "Theorem 3",
        "tail bound",
        "ln δ = β·Σ inf_d [E|Z|^μ]^(1/μ) − β·ε",
        Verdict.REFUTED,
        "rests on Theorems 1 and 2",
        counterexamples.theorem_3,
    ),
    Claim(
        "Corollary 1",
        "the accountant's ε",
        "ε = Σ inf_d [E|Z|^μ]^(1/μ) − ln(δ)/β",
        Verdict.REFUTED,
        "rests on Theorems 1 and 2; it is below the exact W_μ of a single step",
        counterexamples.corollary_1,
    ),
    Claim(
        "noise",
        "more noise is more private",
        "taken for granted by every use of the accountant",
        Verdict.REFUTED,
        "the accounted ε grows with σ: by it, no noise at all is the most private choice",
        counterexamples.noise_growth,
    ),
    Claim(
        "Table 2",
        "attack probability",
        "the printed probabilities are 1/(1 + e^−ε)",
        Verdict.REFUTED,
        "the formula gives 0.948 for 2.9; and it is about pure DP, so it says nothing of a WDP number",
        counterexamples.attack,
    ),
)


def claim(key: str) -> Claim:
    """The claim called `key` ("7", "Theorem 2" …)."""
    return next(c for c in CLAIMS if c.key == key)
