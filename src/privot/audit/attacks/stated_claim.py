"""Holds the trials of one attack against a claim that somebody else states of the same mechanism."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from privot.accounting.events import Event
from privot.accounting.wasserstein import WassersteinAccountant
from privot.audit.attack import Attack
from privot.audit.findings import Claim
from privot.guarantee import Standing

Array = NDArray[np.float64]


@dataclass(frozen=True)
class StatedClaim:
    """`attack`, judged by `claim`."""

    attack: Attack
    claim: Claim
    name: str

    @property
    def how(self) -> str:
        """The attack's."""
        return self.attack.how

    def real(self, present: bool, trials: int) -> Array:
        """The attack's."""
        return self.attack.real(present, trials)

    def core(self, present: bool, trials: int) -> Array | None:
        """The attack's."""
        return self.attack.core(present, trials)


def wasserstein_claim(event: Event, steps: int, delta: float, *, mu: float = 16.0, beta: float = 32.0) -> Claim:
    """What the Wasserstein accountant says of `steps` such events, read as an ε of differential privacy: unproven."""
    accountant = WassersteinAccountant(mu, beta, allow_unproven=True)
    accountant.step(event, times=steps)
    return Claim(accountant.epsilon(delta), delta, accountant.adjacency, Standing.UNPROVEN, "as published")
