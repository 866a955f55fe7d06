"""The moments accountant as published by Abadi et al. 2016: proven, and looser than what came after it."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from privot.accounting import renyi
from privot.accounting.events import Event
from privot.accounting.running.base import GaussianStep, RunningAccountant
from privot.errors import UsageError
from privot.guarantee import Standing, check_delta

Array = NDArray[np.float64]


class MomentsAccountant(RunningAccountant):
    """α(λ) = ln max(E₁, E₂) at whole λ, summed over steps; ε = min_λ (Σα(λ) + ln 1/δ)/λ (Abadi et al. 2016, Theorem 2).

    For a Poisson-sampled Gaussian step E₂ = E_{N(0)}[(mixture/N(0))^{λ+1}] is the larger moment (Mironov, Talwar &
    Zhang 2019, Theorem 5), a binomial sum: α(λ) is λ times the Rényi divergence of order λ + 1. They took λ ≤ 32.

    Formal guarantee: the run is (epsilon(δ), δ)-DP, add-remove, Poisson sampling.
    """

    name: str = "moments"
    standing: ClassVar[Standing] = Standing.PROVEN
    meaning: ClassVar[str] = "(ε, δ)-differential privacy of the whole run, by the moments accountant of 2016"

    def __init__(self, powers: tuple[int, ...] = tuple(range(1, 33))) -> None:
        super().__init__()
        if not powers or any(isinstance(p, bool) or not isinstance(p, int) or not 1 <= p <= 4096 for p in powers):
            raise UsageError("The powers of the moments must be whole numbers from 1 to 4096.")
        self.powers = tuple(sorted(set(powers)))
        self._log_moments = np.zeros(len(self.powers))

    def _cost(self, leaf: Event, distances: ArrayLike | None, times: int) -> Array:
        GaussianStep.of(leaf, poisson_only=True)
        powers = np.array(self.powers, float)
        return np.asarray(times * powers * renyi.curve(leaf, powers + 1.0))

    def _add(self, cost: Array) -> None:
        self._log_moments = self._log_moments + cost

    def epsilon(self, delta: float) -> float:
        """ε at `delta` at the best power."""
        check_delta(delta)
        if not self._steps:
            return 0.0
        return float(max(0.0, np.min((self._log_moments - math.log(delta)) / np.array(self.powers))))

    def settings(self) -> dict[str, Any]:
        """The powers λ."""
        return {"powers": list(self.powers)}

    def totals(self) -> dict[str, Any]:
        """Σα(λ)."""
        return {"log_moments": [float(m) for m in self._log_moments]}

    def _restore(self, totals: Any) -> None:
        values = np.array([float(m) for m in totals["log_moments"]])
        if values.shape != self._log_moments.shape or not (values >= 0.0).all():
            raise ValueError("moments that no run can have")
        self._log_moments = values
