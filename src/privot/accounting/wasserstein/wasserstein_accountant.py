"""The Wasserstein accountant exactly as published (Yang, Qi & Zhou 2024, Theorems 1 to 3, Lemma 1, Corollary 1).

    ε(δ) = Σ_t inf_d [Σ_i E|Z_i|^μ]^{1/μ} + ln(1/δ)/β,        Z ~ N(q·d, (2 − 2q + 2q²)σ²),   d = ‖g − g'‖.

UNPROVEN: no theorem stands behind it (`claims` computes each point). Theorem 1 uses Jensen's inequality the wrong way
round, and its β is free, so δ can be made to cost nothing; Theorem 2 takes a mixture for a sum of variables and the
independent coupling for the best one, so the "privacy loss" *grows with the noise*; and the infimum over d looks at the
*least* exposed pair where a guarantee must look at the most exposed one. Lemma 1 is right, and is computed in
logarithms: at μ = 16 and the paper's σ = 0.01 the moment is near 1e-26, and at σ = 0.001 it leaves float32.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from privot.accounting.accountants.running_accountant import GaussianStep, RunningAccountant, checked_distances
from privot.accounting.events import Event
from privot.accounting.log_sums import log_sum_exp
from privot.accounting.wasserstein.absolute_moment import check_order, log_absolute_moment
from privot.common.arguments import check_delta, check_positive
from privot.errors import UsageError, brief
from privot.guarantee import Standing

Array = NDArray[np.float64]
Pairs = Literal["least", "sum"]


def log_step_losses(mu: float, sigma: float, share: float, distances: ArrayLike) -> Array:
    """ln [E|Z|^μ] for each distance d, Z ~ N(q·d, (2 − 2q + 2q²)σ²): Theorem 2 with Lemma 1."""
    d = checked_distances(distances)
    return log_absolute_moment(mu, share * d, sigma * math.sqrt(2.0 - 2.0 * share + 2.0 * share**2))


class WassersteinAccountant(RunningAccountant):
    """The W_μ "privacy loss" as published, counted step by step. UNPROVEN and refuted: it bounds no privacy.

    Parameters
    ----------
    mu
        μ, the order of the Wasserstein distance.
    beta
        β, the free parameter of Theorem 1.
    pairs
        Reads the published inf_d Σ_i: "least" takes the smallest loss of all pairs (the theorem as printed, one
        coordinate), "sum" adds the moments of all pairs before the root (what the authors' program does).
    allow_unproven
        Has to be True.

    Raises
    ------
    UnprovenError
        If `allow_unproven` is not True.
    UsageError
        If a parameter is out of range.

    Notes
    -----
    `step(event, distances)` counts a step from distances between gradients, which are private data, or without them in
    closed form at d = Δ. `epsilon(delta)` answers by Corollary 1.

    Formal guarantees: none. The answer is NOT an (ε, δ) of differential privacy, whatever its name; the module says
    which steps of the proofs fail, and `privot study claims` computes counterexamples.

    References
    ----------
    Yang, Qi & Zhou 2024, "Wasserstein differential privacy", Theorems 1 to 3, Lemma 1 and Corollary 1.

    Examples
    --------
    >>> from privot.accounting import Gaussian, Poisson, Sampled
    >>> from privot import Adjacency
    >>> accountant = WassersteinAccountant(allow_unproven=True)
    >>> accountant.step(Sampled(Gaussian(1.0, 1.0, Adjacency.ADD_REMOVE), Poisson(0.01)), times=100)
    >>> accountant.epsilon(1e-5) > 100 * 1.0  # grows with the noise: σ = 1, a hundred steps
    True
    """

    name: str = "Wasserstein"
    standing: ClassVar[Standing] = Standing.UNPROVEN
    meaning: ClassVar[str] = (
        "as published, refuted: neither differential privacy nor a bound on W_μ; it grows when noise is added"
    )
    need_distances: ClassVar[bool] = True

    def __init__(
        self, mu: float = 16.0, beta: float = 32.0, pairs: Pairs = "least", *, allow_unproven: bool = False
    ) -> None:
        super().__init__(allow_unproven=allow_unproven)
        self.mu = check_order(mu)
        check_positive("β", beta)
        self.beta = float(beta)
        if pairs not in ("least", "sum"):
            raise UsageError(f"Unknown reading of the pairs {brief(pairs)}: say least or sum.")
        self.pairs: Pairs = pairs
        if pairs == "sum":
            self.name = "Wasserstein, pairs summed"
        self._loss = 0.0

    def _cost(self, leaf: Event, distances: ArrayLike | None, times: int) -> Array:
        step = GaussianStep.of(leaf)
        d = np.array([step.sensitivity]) if distances is None else distances
        logs = log_step_losses(self.mu, step.sigma, step.share, d)
        total = float(logs.min()) if self.pairs == "least" else float(log_sum_exp(logs))
        return np.array([times * math.exp(total / self.mu)])

    def _add(self, cost: Array) -> None:
        self._loss += float(cost[0])

    @property
    def loss(self) -> float:
        """Σ_t of the published loss so far."""
        return self._loss

    def epsilon(self, delta: float) -> float:
        """Corollary 1: Σ_t loss − ln(δ)/β."""
        check_delta(delta)
        return self._loss - math.log(delta) / self.beta if self._steps else 0.0

    def delta(self, epsilon: float) -> float:
        """Theorem 3: exp(β·Σ_t loss − β·ε), at most 1."""
        return math.exp(min(0.0, self.beta * (self._loss - float(epsilon))))

    def settings(self) -> dict[str, Any]:
        """μ, β and how pairs are read."""
        return {"mu": self.mu, "beta": self.beta, "pairs": self.pairs}

    def totals(self) -> dict[str, Any]:
        """Σ_t loss."""
        return {"loss": self._loss}

    def _restore(self, totals: Any, steps: Mapping[Event, int]) -> None:
        loss = float(totals["loss"])
        if not 0.0 <= loss < math.inf:
            raise ValueError("a loss that no run can have")
        self._loss = loss
