"""Attacks any mechanism: two neighbouring data sets, a view of its releases, and a score that is learned.

The data sets are the audit's own; nothing else of the mechanism is known.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privot.audit.findings import Claim
from privot.audit.simulation.neighbours import Neighbour, releases
from privot.mechanisms import Mechanism
from privot.noise import NoiseSource, SystemNoise
from privot.release import Release

Array = NDArray[np.float64]


def flat(release: Release) -> Array:
    """All numbers of a release in one row."""
    held = release._arrays()
    return np.concatenate([np.ravel(held[name]) for name in sorted(held)]).astype(np.float64)


@dataclass(frozen=True)
class LearnedAttack:
    """An attack on `mechanism`, one step per trial, on the data sets `without` (D) and `with_` (D').

    `view` turns a release into a row of numbers, from which a score is learned; `query` is asked in every step of a
    mechanism that answers queries. `claim` is for one step.
    """

    name: str
    mechanism: Mechanism
    without: Neighbour
    with_: Neighbour
    claim: Claim
    clip: float = 1.0
    view: Callable[[Release], Array] = field(default=flat, repr=False)
    noise: NoiseSource = field(default_factory=SystemNoise, repr=False)
    description: str = "two data sets that differ in one record; a linear or quadratic score learned on other trials"
    query: Any = field(default=None, repr=False)

    def real(self, present: bool, trials: int) -> Array:
        """Rows of what `view` returns."""
        found = releases(
            self.with_ if present else self.without,
            self.mechanism,
            trials,
            clip=self.clip,
            adjacency=self.claim.adjacency,
            noise=self.noise,
            query=self.query,
        )
        return np.array([self.view(r) for r in found])

    def simulated(self, present: bool, trials: int) -> Array | None:
        """None: nothing is known of the mechanism."""
        return None
