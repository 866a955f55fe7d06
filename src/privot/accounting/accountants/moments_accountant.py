"""The moments accountant as published by Abadi et al. 2016: proven, and looser than what came after it."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from privot.accounting import rdp
from privot.accounting.accountants.log_moments import POWERS, PowersAccountant
from privot.accounting.accountants.running_accountant import GaussianStep
from privot.accounting.events import Event
from privot.common.arguments import check_delta
from privot.common.declared import declared
from privot.guarantee import Standing

Array = NDArray[np.float64]


class MomentsAccountant(PowersAccountant):
    """α(λ) = ln max(E₁, E₂) at whole λ, summed over steps; ε = min_λ (Σα(λ) + ln 1/δ)/λ (Abadi et al. 2016, Theorem 2).

    For a Poisson-sampled Gaussian step E₂ = E_{N(0)}[(mixture/N(0))^{λ+1}] is the larger moment (Mironov, Talwar &
    Zhang 2019, Theorem 5), a binomial sum: α(λ) is λ times the Rényi divergence of order λ + 1. They took λ ≤ 32.

    Formal guarantee: the run is (epsilon(δ), δ)-DP, add-remove, Poisson sampling.
    """

    name: str = "moments"
    standing: ClassVar[Standing] = Standing.PROVEN
    meaning: ClassVar[str] = "(ε, δ)-differential privacy of the whole run, by the moments accountant of 2016"

    @declared(powers="list")
    def __init__(self, powers: tuple[int, ...] = POWERS) -> None:
        super().__init__(powers)

    def _cost(self, leaf: Event, distances: ArrayLike | None, times: int) -> Array:
        GaussianStep.of(leaf, poisson_only=True)
        powers = np.array(self.powers, float)
        return np.asarray(times * powers * rdp.curve(leaf, powers + 1.0))

    def epsilon(self, delta: float) -> float:
        """ε at `delta` at the best power."""
        check_delta(delta)
        if not self._steps:
            return 0.0
        return self._at_best_power(delta)
