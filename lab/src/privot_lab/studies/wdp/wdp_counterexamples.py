"""Counterexamples to claims of the WDP paper: pairs of numbers, computed when they are called.

A counterexample is the upper bound that the paper claims, and the exact value that it should bound. Both can be
recomputed at any time; no result is stored here, and no data is touched.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from privot.accounting import Gaussian, Laplace, Poisson, Sampled, WassersteinAccountant
from privot.accounting.rdp import curve
from privot.accounting.wasserstein import published
from privot.accounting.wasserstein.absolute_moment import log_absolute_moment
from privot.accounting.wasserstein.distance import sampled_distance, translation_distance
from privot.accounting.wasserstein.wasserstein_privacy import additive_mechanism
from privot.guarantee import Adjacency

_AR = Adjacency.ADD_REMOVE


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


def moving_between_parts() -> Counterexample:
    # the record leaves part 1 and enters part 2: both sums move by Δ, at right angles
    return Counterexample(
        "two parts, a sum with Δ = 1 released of each; one record is replaced by one that belongs to the other part",
        max(additive_mechanism(1.0, 2.0, _AR).epsilon, additive_mechanism(1.0, 2.0, _AR).epsilon),
        translation_distance(math.hypot(1.0, 1.0)),
        "W₂ of the pair of releases",
    )


def adaptive() -> Counterexample:
    factor = 100.0
    return Counterexample(
        "first f(D) + noise with Δ = 1; then 100 times that output, which uses no data (ε₂ = 0)",
        additive_mechanism(1.0, 2.0, _AR).epsilon + 0.0,
        translation_distance(math.hypot(1.0, factor)),
        "W₂ of both outputs together",
    )


def laplace() -> Counterexample:
    return Counterexample(
        "Laplace noise, λ = 1, Δ = 1, μ = 1",
        published.laplace(1.0, 1.0, 1.0, _AR, allow_unproven=True).epsilon,
        translation_distance(1.0),
        "W₁ of the outputs, a translation by Δ",
    )


def gaussian() -> Counterexample:
    return Counterexample(
        "Gaussian noise, σ = 1, Δ = 1, μ = 1",
        published.gaussian(1.0, 1.0, 1.0, _AR, allow_unproven=True).epsilon,
        translation_distance(1.0),
        "W₁ of the outputs, a translation by Δ",
    )


def from_dp() -> Counterexample:
    epsilon = 0.1
    return Counterexample(
        "Laplace noise with λ = 10 and Δ = 1 is 0.1-DP; μ = 1",
        published.from_dp(epsilon, 1.0, 1.0, _AR, allow_unproven=True).epsilon,
        translation_distance(1.0),
        "W₁ of the outputs",
    )


def from_rdp() -> Counterexample:
    alpha, sigma = 2.0, 10.0
    epsilon = float(curve(Gaussian(sigma, 1.0, _AR), np.array([alpha]))[0])
    return Counterexample(
        "Gaussian noise with σ = 10 and Δ = 1 is (2, 0.01)-RDP; μ = 1",
        published.from_rdp(epsilon, 1.0, 1.0, _AR, allow_unproven=True).epsilon,
        translation_distance(1.0),
        "W₁ of the outputs",
    )


def to_rdp() -> Counterexample:
    shift, scale, alpha = 4.0, 1.0, 10.0
    wasserstein = additive_mechanism(shift, 1.0, _AR)
    return Counterexample(
        "Laplace noise, λ = 1 (so L = 1), Δ = 4, hence W₁ = 4; α = 10",
        published.to_rdp(wasserstein, 1.0 / scale, alpha, allow_unproven=True),
        float(curve(Laplace(scale, shift, _AR), np.array([alpha]))[0]),
        "Rényi divergence of order 10",
    )


def to_dp() -> Counterexample:
    wasserstein = additive_mechanism(4.0, 1.0, _AR)
    return Counterexample(
        "Laplace noise, λ = 1 (so L = 1), Δ = 4, hence W₁ = 4",
        published.to_dp(wasserstein, 1.0, allow_unproven=True),
        4.0 / 1.0,
        "pure ε, which is Δ/λ for Laplace noise",
    )


def to_zcdp() -> Counterexample:
    shift, scale = 4.0, 1.0
    wasserstein = additive_mechanism(shift, 1.0, _AR)
    orders = 1.0 + np.geomspace(1e-3, 100.0, 200)
    return Counterexample(
        "Laplace noise, λ = 1 (so L = 1), Δ = 4, hence W₁ = 4",
        published.to_zcdp(wasserstein, 1.0 / scale, allow_unproven=True),
        float(np.max(curve(Laplace(scale, shift, _AR), orders) / orders)),
        "the least ρ with D_α ≤ ρα for the α tried",
    )


def post_processing() -> Counterexample:
    return Counterexample(
        "f(D) + noise with Δ = 1, then multiplied by 100",
        additive_mechanism(1.0, 1.0, _AR).epsilon,
        translation_distance(100.0),
        "W₁ after the map",
    )


def theorem_1() -> Counterexample:
    # W takes the values 0 and 2 with equal odds (d_t is 0 or 2, additive noise): E W = 1
    beta, epsilon, mean = 10.0, 1.5, 1.0
    return Counterexample(
        "one step whose W is 0 or 2 with equal odds (it depends on the batch); β = 10, ε = 1.5",
        math.exp(beta * mean - beta * epsilon),
        0.5,
        "the probability that W ≥ ε, which the theorem calls δ",
    )


def theorem_2() -> Counterexample:
    mu, q, d, sigma = 2.0, 0.01, 1.0, 1e-3
    variance = (2.0 - 2.0 * q + 2.0 * q * q) * sigma**2
    return Counterexample(
        "one sampled Gaussian step, q = 0.01, d = 1, σ = 0.001, μ = 2",
        math.exp(float(log_absolute_moment(mu, q * d, math.sqrt(variance))) / mu),
        sampled_distance(mu, q, d, sigma),
        "W₂ between the mixture and the noise, exactly",
    )


def theorem_3() -> Counterexample:
    beta, epsilon, step = 32.0, 0.74, _one_step()
    accountant = WassersteinAccountant(mu=16.0, beta=beta, allow_unproven=True)
    accountant.step(step)
    actual = sampled_distance(16.0, 0.01, 1.0, 1e-3)
    return Counterexample(
        "the same step, μ = 16, β = 32, ε = 0.74; W is not random here, and it is above ε",
        accountant.delta(epsilon),
        1.0 if actual >= epsilon else 0.0,
        "the probability that W ≥ ε, which the theorem calls δ",
    )


def corollary_1() -> Counterexample:
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


def noise_growth() -> Counterexample:
    little, much = (_accounted(sigma) for sigma in (1e-4, 100.0))
    return Counterexample(
        "the accountant's ε for one step with σ = 0.0001 (claimed to be less private) and with σ = 100; δ = 1e-5",
        little,
        much,
        "accounted ε of the step with a million times more noise",
    )


def _accounted(sigma: float) -> float:
    accountant = WassersteinAccountant(allow_unproven=True)
    accountant.step(Sampled(Gaussian(sigma, 1.0, _AR), Poisson(0.01)))
    return accountant.epsilon(1e-5)


def attack() -> Counterexample:
    return Counterexample(
        "Table 2, Fashion-MNIST: ε = 2.9 printed with 0.623", 0.623, published.attack_probability(2.9), "1/(1 + e^−ε)"
    )
