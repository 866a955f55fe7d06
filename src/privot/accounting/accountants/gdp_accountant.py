"""Gaussian differential privacy by the central limit theorem: an estimate for many small steps, never a bound."""

from __future__ import annotations

import math
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from privot.accounting.accountants.running_accountant import GaussianStep, RunningAccountant
from privot.accounting.events import Event, Sampled
from privot.accounting.laws import gaussian
from privot.common.arguments import check_delta
from privot.guarantee import Standing

Array = NDArray[np.float64]


class GaussianLimitAccountant(RunningAccountant):
    """μ² = Σ_t q²(e^{(Δ/σ)²} − 1) for Poisson-sampled Gaussian steps (Bu, Dong, Long & Su 2020), then ε(δ) of μ-GDP.

    ASYMPTOTIC: exact only in the limit of infinitely many steps with q√T fixed; it may lie below the true ε. Steps that
    are not sampled count exactly, (Δ/σ)².
    """

    name: str = "Gaussian limit"
    standing: ClassVar[Standing] = Standing.ASYMPTOTIC
    meaning: ClassVar[str] = "an estimate of the run's (ε, δ) from a limit theorem; the truth may be larger"

    def _cost(self, leaf: Event, distances: ArrayLike | None, times: int) -> Array:
        GaussianStep.of(leaf, poisson_only=True)
        return np.zeros(0)

    def shift(self) -> float:
        """μ of everything so far; infinite where e^{(Δ/σ)²} has no float."""
        total = 0.0
        for event, times in self._steps.items():
            step = GaussianStep.of(event)
            squared = (step.sensitivity / step.sigma) ** 2
            if isinstance(event, Sampled) and step.share < 1.0:
                squared = step.share**2 * math.expm1(squared) if squared < 700.0 else math.inf
            total += times * squared
        return math.sqrt(total)

    def epsilon(self, delta: float) -> float:
        """ε at `delta` of μ-GDP."""
        check_delta(delta)
        shift = self.shift()
        if shift == 0.0:
            return 0.0
        return gaussian.epsilon(shift, delta) if shift < 1e100 else math.inf
