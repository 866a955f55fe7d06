"""Every claim of the WDP paper with its verdict; a refuted one carries its counterexample, computed when asked for.

A counterexample is two numbers: what the paper claims to be an upper bound, and the exact value it claims to bound.
Whoever doubts a verdict recomputes both; nothing here is a stored result.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np

from privot.accounting.events import Gaussian, Laplace, Sampled
from privot.accounting.renyi import curve
from privot.accounting.sampling import Poisson
from privot.accounting.wasserstein import published
from privot.accounting.wasserstein.accountant import WassersteinAccountant
from privot.accounting.wasserstein.distance import sampled_distance, translation_distance
from privot.accounting.wasserstein.moment import log_absolute_moment
from privot.accounting.wasserstein.privacy import additive_mechanism
from privot.guarantee import Adjacency, Standing

_AR = Adjacency.ADD_REMOVE


class Verdict(StrEnum):
    """What became of a claim."""

    HOLDS = "holds"
    HOLDS_UNDER = "holds under"
    REFUTED = "refuted"


@dataclass(frozen=True)
class Counterexample:
    """`claimed` should bound `actual` from above, and does not."""

    setting: str
    claimed: float
    actual: float
    quantity: str

    @property
    def refutes(self) -> bool:
        """Whether the claimed inequality fails here, by more than rounding."""
        return self.actual > self.claimed * (1.0 + 1e-9)

    def to_dict(self) -> dict[str, Any]:
        """As plain JSON types."""
        return {
            "setting": self.setting,
            "quantity": self.quantity,
            "claimed": self.claimed,
            "actual": self.actual,
            "refutes": self.refutes,
        }


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


def _moving_between_parts() -> Counterexample:
    # the record leaves part 1 and enters part 2: both sums move by Δ, at right angles
    return Counterexample(
        "two parts, a sum with Δ = 1 released of each; one record is replaced by one that belongs to the other part",
        max(additive_mechanism(1.0, 2.0, _AR).epsilon, additive_mechanism(1.0, 2.0, _AR).epsilon),
        translation_distance(math.hypot(1.0, 1.0)),
        "W₂ of the pair of releases",
    )


def _adaptive() -> Counterexample:
    factor = 100.0
    return Counterexample(
        "first f(D) + noise with Δ = 1; then 100 times that output, which uses no data (ε₂ = 0)",
        additive_mechanism(1.0, 2.0, _AR).epsilon + 0.0,
        translation_distance(math.hypot(1.0, factor)),
        "W₂ of both outputs together",
    )


def _laplace() -> Counterexample:
    return Counterexample(
        "Laplace noise, λ = 1, Δ = 1, μ = 1",
        published.laplace(1.0, 1.0, 1.0, _AR, allow_unproven=True).epsilon,
        translation_distance(1.0),
        "W₁ of the outputs, a translation by Δ",
    )


def _gaussian() -> Counterexample:
    return Counterexample(
        "Gaussian noise, σ = 1, Δ = 1, μ = 1",
        published.gaussian(1.0, 1.0, 1.0, _AR, allow_unproven=True).epsilon,
        translation_distance(1.0),
        "W₁ of the outputs, a translation by Δ",
    )


def _from_dp() -> Counterexample:
    epsilon = 0.1
    return Counterexample(
        "Laplace noise with λ = 10 and Δ = 1 is 0.1-DP; μ = 1",
        published.from_dp(epsilon, 1.0, 1.0, _AR, allow_unproven=True).epsilon,
        translation_distance(1.0),
        "W₁ of the outputs",
    )


def _from_rdp() -> Counterexample:
    alpha, sigma = 2.0, 10.0
    epsilon = float(curve(Gaussian(sigma, 1.0, _AR), np.array([alpha]))[0])
    return Counterexample(
        "Gaussian noise with σ = 10 and Δ = 1 is (2, 0.01)-RDP; μ = 1",
        published.from_rdp(epsilon, 1.0, 1.0, _AR, allow_unproven=True).epsilon,
        translation_distance(1.0),
        "W₁ of the outputs",
    )


def _to_rdp() -> Counterexample:
    shift, scale, alpha = 4.0, 1.0, 10.0
    wasserstein = additive_mechanism(shift, 1.0, _AR)
    return Counterexample(
        "Laplace noise, λ = 1 (so L = 1), Δ = 4, hence W₁ = 4; α = 10",
        published.to_rdp(wasserstein, 1.0 / scale, alpha, allow_unproven=True),
        float(curve(Laplace(scale, shift, _AR), np.array([alpha]))[0]),
        "Rényi divergence of order 10",
    )


def _to_dp() -> Counterexample:
    wasserstein = additive_mechanism(4.0, 1.0, _AR)
    return Counterexample(
        "Laplace noise, λ = 1 (so L = 1), Δ = 4, hence W₁ = 4",
        published.to_dp(wasserstein, 1.0, allow_unproven=True),
        4.0 / 1.0,
        "pure ε, which is Δ/λ for Laplace noise",
    )


def _to_zcdp() -> Counterexample:
    shift, scale = 4.0, 1.0
    wasserstein = additive_mechanism(shift, 1.0, _AR)
    orders = 1.0 + np.geomspace(1e-3, 100.0, 200)
    return Counterexample(
        "Laplace noise, λ = 1 (so L = 1), Δ = 4, hence W₁ = 4",
        published.to_zcdp(wasserstein, 1.0 / scale, allow_unproven=True),
        float(np.max(curve(Laplace(scale, shift, _AR), orders) / orders)),
        "the least ρ with D_α ≤ ρα for the α tried",
    )


def _post_processing() -> Counterexample:
    return Counterexample(
        "f(D) + noise with Δ = 1, then multiplied by 100",
        additive_mechanism(1.0, 1.0, _AR).epsilon,
        translation_distance(100.0),
        "W₁ after the map",
    )


def _theorem_1() -> Counterexample:
    # W takes the values 0 and 2 with equal odds (d_t is 0 or 2, additive noise): E W = 1
    beta, epsilon, mean = 10.0, 1.5, 1.0
    return Counterexample(
        "one step whose W is 0 or 2 with equal odds (it depends on the batch); β = 10, ε = 1.5",
        math.exp(beta * mean - beta * epsilon),
        0.5,
        "the probability that W ≥ ε, which the theorem calls δ",
    )


def _theorem_2() -> Counterexample:
    mu, q, d, sigma = 2.0, 0.01, 1.0, 1e-3
    variance = (2.0 - 2.0 * q + 2.0 * q * q) * sigma**2
    return Counterexample(
        "one sampled Gaussian step, q = 0.01, d = 1, σ = 0.001, μ = 2",
        math.exp(float(log_absolute_moment(mu, q * d, math.sqrt(variance))) / mu),
        sampled_distance(mu, q, d, sigma),
        "W₂ between the mixture and the noise, exactly",
    )


def _theorem_3() -> Counterexample:
    beta, epsilon, step = 32.0, 0.74, _one_step()
    accountant = WassersteinAccountant(mu=16.0, beta=beta, allow_unproven=True)
    accountant.step(step)
    actual = sampled_distance(16.0, 0.01, 1.0, 1e-3)
    return Counterexample(
        "the same step, μ = 16, β = 32, ε = 0.74; W is no random number here, it is above ε",
        accountant.delta(epsilon),
        1.0 if actual >= epsilon else 0.0,
        "the probability that W ≥ ε, which the theorem calls δ",
    )


def _corollary_1() -> Counterexample:
    accountant = WassersteinAccountant(mu=16.0, beta=32.0, allow_unproven=True)
    accountant.step(_one_step())
    return Counterexample(
        "one sampled Gaussian step, q = 0.01, d = 1, σ = 0.001; μ = 16, β = 32, δ = 1e-10 as in the paper",
        accountant.epsilon(1e-10),
        sampled_distance(16.0, 0.01, 1.0, 1e-3),
        "W₁₆ between the mixture and the noise, exactly",
    )


def _one_step() -> Sampled:
    return Sampled(Gaussian(1e-3, 1.0, _AR), Poisson(0.01))


def _noise_growth() -> Counterexample:
    quiet, loud = (_accounted(sigma) for sigma in (1e-4, 100.0))
    return Counterexample(
        "the accountant's ε for one step with σ = 0.0001 (claimed to be the worse one) and with σ = 100; δ = 1e-5",
        quiet,
        loud,
        "accounted ε of the step with a million times more noise",
    )


def _accounted(sigma: float) -> float:
    accountant = WassersteinAccountant(allow_unproven=True)
    accountant.step(Sampled(Gaussian(sigma, 1.0, _AR), Poisson(0.01)))
    return accountant.epsilon(1e-5)


def _attack() -> Counterexample:
    return Counterexample(
        "Table 2, Fashion-MNIST: ε = 2.9 printed with 0.623", 0.623, published.attack_probability(2.9), "1/(1 + e^−ε)"
    )


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
        _moving_between_parts,
    ),
    Claim(
        "6",
        "sequential composition",
        "ε adds up",
        Verdict.HOLDS_UNDER,
        "independent, non-adaptive releases; a later release may stretch an earlier output without using any data",
        _adaptive,
    ),
    Claim(
        "7",
        "Laplace mechanism",
        "W_μ ≤ ½Δ(√(2[1/λ + e^(−1/λ) − 1]))^(1/μ)",
        Verdict.REFUTED,
        "true: W_μ = Δ for every λ and μ; noise does not change how far a translation moves",
        _laplace,
    ),
    Claim(
        "8",
        "Gaussian mechanism",
        "W_μ ≤ ½(Δ/σ)^(1/μ)",
        Verdict.REFUTED,
        "true: W_μ = Δ for every σ and μ; the formula is an upper bound only where σ ≤ Δ/(2Δ)^μ",
        _gaussian,
    ),
    Claim(
        "9",
        "from DP to WDP",
        "ε-DP gives W_μ ≤ ½Δ(2ε(e^ε − 1))^(1/2μ)",
        Verdict.REFUTED,
        "true with the diameter R of the output space in place of Δ: W_μ ≤ R·tanh(ε/2)^(1/μ)",
        _from_dp,
    ),
    Claim(
        "10",
        "from RDP to WDP",
        "(α, ε)-RDP gives W_μ ≤ ½Δ(2ε)^(1/2μ)",
        Verdict.REFUTED,
        "true with the diameter R of the output space in place of Δ: W_μ ≤ R·min(√(ε/2), √(1 − e^−ε))^(1/μ)",
        _from_rdp,
    ),
    Claim(
        "11",
        "from WDP to RDP",
        "if ln p is L-Lipschitz, (μ, ε)-WDP gives α/(α−1)·L·ε^(μ/(μ+1)) of RDP",
        Verdict.REFUTED,
        "true for additive noise: L·W_μ of pure DP, without the root",
        _to_rdp,
    ),
    Claim(
        "11 (DP)",
        "from WDP to DP",
        "… and L·ε^(μ/(μ+1)) of pure DP",
        Verdict.REFUTED,
        "true for additive noise: L·W_μ of pure DP, without the root",
        _to_dp,
    ),
    Claim(
        "11 (zCDP)",
        "from WDP to zCDP",
        "… and ½(L·ε^(μ/(μ+1)))² of zCDP",
        Verdict.REFUTED,
        "true for additive noise: ½(L·W_μ)²",
        _to_zcdp,
    ),
    Claim(
        "12",
        "post-processing",
        "any map of the output keeps (μ, ε)-WDP",
        Verdict.REFUTED,
        "true for 1-Lipschitz maps only: WDP depends on the units the output is written in",
        _post_processing,
    ),
    Claim("13", "group privacy", "k records cost k·ε", Verdict.HOLDS, "the triangle inequality, one record at a time"),
    Claim(
        "Theorem 1",
        "advanced composition",
        "Pr[W ≥ ε] ≤ exp(β·ΣE W − β·ε) for any β > 0",
        Verdict.REFUTED,
        "Jensen's inequality is used the wrong way round; and as β is free, δ would cost nothing",
        _theorem_1,
    ),
    Claim(
        "Theorem 2",
        "loss of a sampled step",
        "W_μ = inf_d [E|Z|^μ]^(1/μ), Z ~ N(qd, (2−2q+2q²)σ²)",
        Verdict.REFUTED,
        "a mixture is taken for a sum and the independent coupling for the best one; exact W_μ tends to q^(1/μ)·d",
        _theorem_2,
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
        _theorem_3,
    ),
    Claim(
        "Corollary 1",
        "the accountant's ε",
        "ε = Σ inf_d [E|Z|^μ]^(1/μ) − ln(δ)/β",
        Verdict.REFUTED,
        "rests on Theorems 1 and 2; it is below the exact W_μ of a single step",
        _corollary_1,
    ),
    Claim(
        "noise",
        "more noise is more private",
        "taken for granted by every use of the accountant",
        Verdict.REFUTED,
        "the accounted ε grows with σ: by it, no noise at all is the most private choice",
        _noise_growth,
    ),
    Claim(
        "Table 2",
        "attack probability",
        "the printed probabilities are 1/(1 + e^−ε)",
        Verdict.REFUTED,
        "the formula gives 0.948 for 2.9; and it is about pure DP, so it says nothing of a WDP number",
        _attack,
    ),
)


def claim(key: str) -> Claim:
    """The claim called `key` ("7", "Theorem 2" …)."""
    return next(c for c in CLAIMS if c.key == key)
