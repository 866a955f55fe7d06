"""Attacks sanitized gradients: one record reverses the whole clipped gradient.

One public point lies at 0. All records of D are just left of it, so the gradient of its transport cost points one way,
far beyond C. D' has a record far to the right that outweighs all others, so the gradient points the other way: ±C after
clipping, 2C apart, as claimed. With Poisson samples D' has that record in addition, with fixed-size samples it replaces
one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privot.accounting import account
from privot.accounting.events import repeated
from privot.accounting.sampling import Sampling
from privot.audit.findings import Claim
from privot.audit.simulation.gaussian_trials import core_scores, likelihood_ratios
from privot.audit.simulation.neighbours import Neighbour, counted_under, open_stream, sampled
from privot.audit.simulation.noiseless import NoNoise
from privot.guarantee import Adjacency
from privot.mechanisms import SanitizedGradient
from privot.mechanisms.gradients.sinkhorn_gradient import GradientQuery
from privot.mechanisms.mechanism import Facts
from privot.noise import NoiseSource, SystemNoise

Array = NDArray[np.float64]

_SWEEPS = 3


@dataclass(frozen=True)
class GradientAttack:
    """An attack on `SanitizedGradient` over `steps` queries about one point in one dimension.

    `sigma`, `clip` and `sampling` are those of the mechanism, `make` the class to attack.
    """

    sigma: float
    delta: float
    sampling: Sampling
    clip: float = 0.01
    records: int = 12
    steps: int = 1
    noise: NoiseSource = field(default_factory=SystemNoise, repr=False)
    device: str = "cpu"
    make: type[SanitizedGradient] = field(default=SanitizedGradient, repr=False)

    @property
    def adjacency(self) -> Adjacency:
        """The adjacency under which the sampler is counted."""
        return counted_under(self.sampling)

    @property
    def name(self) -> str:
        """The mechanism and its parameters, in a few words."""
        return f"gradient, σ {self.sigma:g}, C {self.clip:g}, {sampled(self.sampling, self.steps)}"

    @property
    def description(self) -> str:
        """The data sets and the statistic, in words."""
        what = "added" if self.adjacency is Adjacency.ADD_REMOVE else "replaced"
        return f"one record {what} that reverses the gradient of one public point; likelihood ratio of all steps"

    @cached_property
    def mechanism(self) -> SanitizedGradient:
        """The mechanism under attack."""
        return self.make(
            points=1,
            sigma=self.sigma,
            clip=self.clip,
            sampling=self.sampling,
            capacity=self.records + 1,
            mixture=0.0,
            sweeps=_SWEEPS,
            reg=1.0,
            low=-1.0,
            high=1.0,
        )

    @cached_property
    def claim(self) -> Claim:
        """What the mechanism's own event costs."""
        public = self.records if self.adjacency is Adjacency.REPLACE_ONE else None
        event = self.mechanism.event(Facts(1, public, 1.0, self.adjacency))
        shift = math.sqrt(self.steps) * 2.0 * self.clip / self.sigma if self.sampling.share == 1.0 else None
        return Claim.of(account(repeated(event, self.steps), self.delta), shift)

    def neighbour(self, present: bool) -> Neighbour:
        """D, or D' if `present`."""
        # so near that one record at 1 outweighs all of them, yet so far that their own gradient is clipped
        x = np.full((self.records, 1), -0.5 / self.records)
        if self.adjacency is Adjacency.ADD_REMOVE:
            return Neighbour(np.vstack([x, [[1.0]]]) if present else x)
        x[0] = 1.0 if present else x[1]
        return Neighbour(x)

    def _values(self, present: bool, steps: int, noise: NoiseSource) -> Array:
        import torch

        query = GradientQuery(torch.zeros(1, 1, dtype=torch.float64))
        stream = open_stream(
            self.neighbour(present), self.mechanism, steps, clip=1.0, adjacency=self.adjacency, noise=noise
        )
        answers: list[Any] = [stream.answer(query).value for _ in range(steps)]
        return np.array([float(a[0, 0]) for a in answers])

    @cached_property
    def measured_gap(self) -> tuple[float, float, float]:
        """(value without the record, how far the record moves it, σ of the noise), as the code computes them."""
        quiet = NoNoise(self.noise)
        share = self.sampling.share
        tries = 1 if share == 1.0 else min(5000, math.ceil(40.0 / share))
        base = self._values(False, tries, quiet)
        moved = self._values(True, tries, quiet)
        usual = float(np.median(base))
        return usual, float(moved.min() - usual), max(quiet.sigmas)

    def real(self, present: bool, trials: int) -> Array:
        """Likelihood ratios of whole runs."""
        usual, gap, sigma = self.measured_gap
        seen = (self._values(present, trials * self.steps, self.noise) - usual) * math.copysign(1.0, gap)
        ratios = likelihood_ratios(seen, np.full(len(seen), abs(gap)), sigma, self.sampling.share)
        return np.asarray(ratios.reshape(trials, self.steps).sum(axis=1))

    def simulated(self, present: bool, trials: int) -> Array | None:
        """The gap that the code makes, the noise that it asks for, and its sampler."""
        _, gap, sigma = self.measured_gap
        return core_scores(
            present,
            trials,
            gap=abs(gap),
            sigma=sigma,
            noise=self.noise,
            sampling=None if self.sampling.share == 1.0 else self.sampling,
            steps=self.steps,
            device=self.device,
        )
