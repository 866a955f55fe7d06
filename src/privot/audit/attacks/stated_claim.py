"""Tests another claim about the same mechanism with the trials of an existing attack."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from privot.accounting.events import Event
from privot.accounting.wasserstein.wasserstein_accountant import WassersteinAccountant
from privot.audit.attack import Attack
from privot.audit.findings import Claim
from privot.guarantee import Standing

Array = NDArray[np.float64]


@dataclass(frozen=True)
class StatedClaim:
    """The trials of `attack`, compared with `claim` instead of the attack's own claim."""

    attack: Attack
    claim: Claim
    name: str

    @property
    def description(self) -> str:
        """The attack's."""
        return self.attack.description

    def real(self, present: bool, trials: int) -> Array:
        """The attack's."""
        return self.attack.real(present, trials)

    def simulated(self, present: bool, trials: int) -> Array | None:
        """The attack's."""
        return self.attack.simulated(present, trials)


def wasserstein_claim(event: Event, steps: int, delta: float, *, mu: float = 16.0, beta: float = 32.0) -> Claim:
    """The ε of the Wasserstein accountant for `steps` such events, read as differential privacy: unproven."""
    accountant = WassersteinAccountant(mu, beta, allow_unproven=True)
    accountant.step(event, times=steps)
    return Claim(accountant.epsilon(delta), delta, accountant.adjacency, Standing.UNPROVEN, "as published")
