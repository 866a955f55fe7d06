"""Counts by composing privacy losses: the tightest of the proven accountants."""

from __future__ import annotations

from typing import ClassVar

from privot.accounting.accountant import account
from privot.accounting.running.base import RunningAccountant
from privot.guarantee import Standing, check_delta


class PrivacyLossAccountant(RunningAccountant):
    """The composed law of the privacy loss (PLD), or a closed form where there is one: `privot.accounting.account`.

    Formal guarantee: the run is (epsilon(δ), δ)-DP under the adjacency of its events.
    """

    name: ClassVar[str] = "privacy loss"
    standing: ClassVar[Standing] = Standing.PROVEN
    meaning: ClassVar[str] = "(ε, δ)-differential privacy of the whole run, by composing privacy losses"

    def epsilon(self, delta: float) -> float:
        """The smallest proven ε at `delta`."""
        check_delta(delta)
        return account(self.event, delta).epsilon() if self._steps else 0.0
