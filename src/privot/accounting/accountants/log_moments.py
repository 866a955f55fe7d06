"""Log moments at whole powers λ, summed step by step; which moments those are is for the accountants that keep them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privot.accounting.accountants.running_accountant import RunningAccountant
from privot.accounting.events import Event
from privot.errors import UsageError

Array = NDArray[np.float64]

POWERS: tuple[int, ...] = tuple(range(1, 33))


class PowersAccountant(RunningAccountant):
    """One sum Σ(λ) for each power; ε = min_λ (Σ(λ) + ln 1/δ)/λ (Abadi et al. 2016, Theorem 2)."""

    def __init__(self, powers: tuple[int, ...], *, allow_unproven: bool = False) -> None:
        super().__init__(allow_unproven=allow_unproven)
        if not powers or any(isinstance(p, bool) or not isinstance(p, int) or not 1 <= p <= 4096 for p in powers):
            raise UsageError("The powers of the moments must be whole numbers from 1 to 4096.")
        self.powers = tuple(sorted(set(powers)))
        self._log_moments = np.zeros(len(self.powers))

    def _add(self, cost: Array) -> None:
        self._log_moments = self._log_moments + cost

    def _at_best_power(self, delta: float) -> float:
        """ε at `delta`."""
        return float(max(0.0, np.min((self._log_moments - math.log(delta)) / np.array(self.powers))))

    def settings(self) -> dict[str, Any]:
        """The powers λ."""
        return {"powers": list(self.powers)}

    def totals(self) -> dict[str, Any]:
        """Σ(λ)."""
        return {"log_moments": [float(m) for m in self._log_moments]}

    def _restore(self, totals: Any, steps: Mapping[Event, int]) -> None:
        values = np.array([float(m) for m in totals["log_moments"]])
        if values.shape != self._log_moments.shape or not (values >= 0.0).all():
            raise ValueError("moments that no run can have")
        if not self.need_distances:
            # they follow from the steps, and a state that says less than those cost is damaged
            again = sum((self._cost(e, None, n) for e, n in steps.items()), np.zeros(len(self.powers)))
            if not np.allclose(values, again, rtol=1e-9, atol=1e-300):
                raise ValueError("moments that its steps do not have")
        self._log_moments = values
