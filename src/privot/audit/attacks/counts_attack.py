"""Attacks noisy counts: the record, among a few candidates, that moves all counts of a mechanism furthest.

It covers mechanisms that add N(0, σ_i²) to count i, all σ_i public. In units of its own noise every count has deviation
1, and the log-likelihood ratio of a release is its product with the change that one record makes.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privot.accounting import account
from privot.accounting.events import Gaussian
from privot.audit.attacks.learned_attack import flat
from privot.audit.findings import Claim
from privot.audit.simulation.far_records import furthest_neighbours
from privot.audit.simulation.gaussian_trials import core_scores
from privot.audit.simulation.neighbours import Neighbour, releases
from privot.audit.simulation.noiseless import NoNoise
from privot.guarantee import Adjacency
from privot.mechanisms import Facts
from privot.mechanisms.accuracy_counts import CorrectCounts
from privot.mechanisms.table_counts.marginals import Marginals
from privot.noise import NoiseSource, SystemNoise

Array = NDArray[np.float64]


@dataclass(frozen=True)
class CountsAttack:
    """`CorrectCounts` or `Marginals`, on records with these public facts.

    Under add-remove one record is added, under replace-one one is replaced. The records are the audit's own.
    """

    mechanism: CorrectCounts | Marginals
    facts: Facts
    delta: float
    noise: NoiseSource = field(default_factory=SystemNoise, repr=False)
    device: str = "cpu"

    @property
    def name(self) -> str:
        """The mechanism and its parameters, in a few words."""
        kind = "marginals" if isinstance(self.mechanism, Marginals) else "correct counts"
        return f"{kind}, {len(self.deviations)} counts, σ {self.mechanism.sigma:g}, {self.facts.adjacency}"

    @property
    def description(self) -> str:
        """The data sets and the statistic, in words."""
        what = "added" if self.facts.adjacency is Adjacency.ADD_REMOVE else "replaced"
        return f"one record {what} that moves the counts furthest among candidates; likelihood ratio along the change"

    @cached_property
    def claim(self) -> Claim:
        """What the mechanism's own event costs."""
        event = self.mechanism.event(self.facts)
        assert isinstance(event, Gaussian)
        return Claim.of(account(event, self.delta), event.sensitivity / event.sigma)

    @cached_property
    def deviations(self) -> Array:
        """The stated standard deviation of the noise in each count."""
        if isinstance(self.mechanism, Marginals):
            return np.repeat(self.mechanism.scales, self.mechanism.lengths)
        return np.full(len(self.mechanism.classifiers), self.mechanism.sigma)

    @cached_property
    def neighbours(self) -> tuple[Neighbour, Neighbour]:
        """(D, D')."""
        return furthest_neighbours(
            self.mechanism, self.facts, self.noise, lambda release: flat(release) / self.deviations
        )

    @cached_property
    def change(self) -> tuple[Array, float]:
        """(what one record does to the counts, in units of the stated noise; the noise that the code asks for)."""
        quiet = NoNoise(self.noise)
        values = [self._values(present, 1, quiet)[0] for present in (False, True)]
        return values[1] - values[0], max(quiet.sigmas) / float(self.deviations.max())

    def _values(self, present: bool, steps: int, noise: NoiseSource) -> Array:
        found: Any = releases(
            self.neighbours[int(present)],
            self.mechanism,
            steps,
            clip=self.facts.clip,
            adjacency=self.facts.adjacency,
            noise=noise,
        )
        return np.array([flat(release) / self.deviations for release in found])

    def real(self, present: bool, trials: int) -> Array:
        """Rows of (likelihood ratio, sum of all counts)."""
        seen = self._values(present, trials, self.noise)
        direction, _ = self.change
        return np.column_stack([seen @ direction, seen @ self.deviations])

    def simulated(self, present: bool, trials: int) -> Array | None:
        """The change that the code makes, along its own direction, and the noise that it asks for."""
        direction, sigma = self.change
        gap = float(np.linalg.norm(direction))
        return core_scores(present, trials, gap=gap, sigma=sigma, noise=self.noise, device=self.device)
