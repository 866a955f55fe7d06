"""The Bayesian accountant as published by Triastcyn & Faltings 2020: an average over the data at hand, no worst case.

Its promise is about a changed record *drawn from the same distribution as the others*, estimated from their gradients;
a record that is unlike the others is not covered. As a worst-case statement it is therefore UNPROVEN, and because it is
computed from private gradients its ε is itself not private.
"""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import gammaln, stdtrit

from privot.accounting.accountants.log_moments import POWERS, PowersAccountant
from privot.accounting.accountants.running_accountant import GaussianStep, checked_distances
from privot.accounting.events import Event
from privot.accounting.log_sums import log_sum_exp
from privot.common.arguments import check_count, check_delta
from privot.errors import UsageError
from privot.guarantee import Standing

Array = NDArray[np.float64]


class BayesianAccountant(PowersAccountant):
    """For gradient pairs j at distance d_j, power λ and q the sampling share,

        c_j(λ) = ln E_{k ~ Binomial(λ+1, q)} exp((k² − k)·d_j²/2σ²),
        c_t(λ) = 1/T · ln( mean_j e^{T·c_j} + t_{1−γ, m−1}·sd_j(e^{T·c_j})/√(m−1) ),
        ε = min_λ (Σ_t c_t − ln δ')/λ,

    with T the number of steps that will run (Hölder's inequality), m pairs, and δ' = δ less γ a step. In logarithms.
    """

    name: str = "Bayesian"
    standing: ClassVar[Standing] = Standing.UNPROVEN
    meaning: ClassVar[str] = (
        "Bayesian differential privacy: an average over records like those at hand, estimated from their gradients; an "
        "unusual record is not protected by it"
    )
    need_distances: ClassVar[bool] = True

    def __init__(
        self,
        total_steps: int,
        powers: tuple[int, ...] = POWERS,
        failure: float = 1e-16,
        *,
        allow_unproven: bool = False,
    ) -> None:
        super().__init__(powers, allow_unproven=allow_unproven)
        check_count("The number of steps that will run", total_steps)
        check_delta(failure)
        self.total_steps, self.failure = total_steps, float(failure)

    def _cost(self, leaf: Event, distances: ArrayLike | None, times: int) -> Array:
        if distances is None:
            raise UsageError("The Bayesian accountant is told the distances between gradients at every step.")
        if self.steps + times > self.total_steps:
            raise UsageError(f"This accountant was made for {self.total_steps} steps, and more were counted.")
        step, d = GaussianStep.of(leaf), checked_distances(distances, least=3)
        squared = (d / step.sigma) ** 2
        return np.array([times * self._one(power, step.share, squared) for power in self.powers])

    def _one(self, power: int, q: float, squared: Array) -> float:
        """c_t(λ) of one step."""
        k = np.arange(power + 2.0)
        logs = gammaln(power + 2.0) - gammaln(k + 1.0) - gammaln(power + 2.0 - k) + k * math.log(q)
        if q < 1.0:
            logs = logs + (power + 1.0 - k) * math.log1p(-q)
        else:
            logs[:-1] = -math.inf
        each = self.total_steps * log_sum_exp(logs + 0.5 * (k * k - k) * squared[:, None])
        top = float(each.max())
        shares = np.exp(each - top)
        bound = float(shares.mean())
        if float(shares.std()) > 0.0:
            pairs = squared.size
            bound += -float(stdtrit(pairs - 1, self.failure)) * float(shares.std()) / math.sqrt(pairs - 1)
        return max(0.0, top + math.log(bound)) / self.total_steps

    def epsilon(self, delta: float) -> float:
        """ε at `delta`; infinite where the estimator's own failures use it up."""
        left = check_delta(delta) - self.steps * self.failure
        if not self._steps:
            return 0.0
        if left <= 0.0:
            return math.inf
        return self._at_best_power(left)

    def settings(self) -> dict[str, Any]:
        """Steps, powers and the estimator's failure probability a step."""
        return {"total_steps": self.total_steps, "failure": self.failure, **super().settings()}
