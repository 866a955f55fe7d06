"""Attacks DP-SGD's noisy sums of clipped gradients: one record's gradient lies far beyond the bound, at every step.

The gradients are the records themselves, so the worst case is known. Under add-remove D' has one more record, FAR·C·e;
the gradients of the others are C/2·e⊥, which shows what one record does to the others, or −C·e (`opposite`), which
shows which record it displaced from a sample of fixed size. Under replace-one the record is −C·e in D, like all others:
a sample with it differs by 2C from a sample without it.

A trial is observed through the likelihood ratio of a correct mechanism, and through what faulty ones would show: the
sum of the others, the best single step, and the spread of the steps (repeated noise cancels between them).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from privot.accounting import account
from privot.accounting.events import repeated
from privot.accounting.sampling import Sampling
from privot.audit.findings import Claim
from privot.audit.simulation.far_records import FAR
from privot.audit.simulation.gaussian_trials import core_scores, likelihood_ratios
from privot.audit.simulation.neighbours import Neighbour, counted_under, releases, sampled
from privot.audit.simulation.noiseless import NoNoise
from privot.guarantee import Adjacency
from privot.mechanisms import ClippedGradients
from privot.mechanisms.gradients.gradient_function import Query
from privot.mechanisms.mechanism import Facts
from privot.noise import NoiseSource, SystemNoise

Array = NDArray[np.float64]

_SIZE = 2


class RowGradients:
    """Gradients that are the records themselves, so that the worst case is known."""

    def __init__(self, size: int) -> None:
        self.size = size

    def each(self, weights: Array, rows: Array, labels: NDArray[np.int64]) -> Array:
        """The rows."""
        return rows

    def mean(self, weights: Array, rows: Array, labels: NDArray[np.int64]) -> Array:
        """Their mean."""
        return np.asarray(rows.mean(axis=0))


@dataclass(frozen=True)
class DPSGDAttack:
    """An attack on `ClippedGradients` over `steps` steps.

    A Poisson `sampling` is counted under add-remove, a fixed-size one under replace-one. `sigma` is the standard
    deviation of the noise, `clip` the clipping norm, `make` the class to attack.
    """

    sigma: float
    delta: float
    sampling: Sampling
    clip: float = 1.0
    records: int = 5
    steps: int = 1
    opposite: bool = False
    noise: NoiseSource = field(default_factory=SystemNoise, repr=False)
    device: str = "cpu"
    make: type[ClippedGradients] = field(default=ClippedGradients, repr=False)

    @property
    def adjacency(self) -> Adjacency:
        """The adjacency under which the sampler is counted."""
        return counted_under(self.sampling)

    @property
    def name(self) -> str:
        """The mechanism and its parameters, in a few words."""
        return f"DP-SGD, σ {self.sigma:g}, C {self.clip:g}, {sampled(self.sampling, self.steps)}"

    @property
    def description(self) -> str:
        """The data sets and the statistic, in words."""
        what = "added" if self.adjacency is Adjacency.ADD_REMOVE else "reversed"
        return (
            f"one record {what} whose gradient lies far beyond C; likelihood ratio of all steps, and the other records"
        )

    @cached_property
    def mechanism(self) -> ClippedGradients:
        """The mechanism under attack."""
        return self.make(RowGradients(_SIZE), Query(np.zeros(_SIZE)), self.sigma, self.clip, self.sampling)

    @property
    def _facts(self) -> Facts:
        public = self.records if self.adjacency is Adjacency.REPLACE_ONE else None
        return Facts(_SIZE, public, self.clip, self.adjacency, 1)

    @cached_property
    def claim(self) -> Claim:
        """What the mechanism's own event costs."""
        event = self.mechanism.event(self._facts)
        shift = math.sqrt(self.steps) * self._gap / self.sigma if self.sampling.share == 1.0 else None
        return Claim.of(account(repeated(event, self.steps), self.delta), shift)

    @property
    def _gap(self) -> float:
        return self.adjacency.sensitivity(self.clip)

    def neighbour(self, present: bool) -> Neighbour:
        """D, or D' if `present`."""
        if self.adjacency is Adjacency.ADD_REMOVE:
            other = [-self.clip, 0.0] if self.opposite else [0.0, self.clip / 2.0]
            x = np.tile(other, (self.records, 1))
            if present:
                x = np.vstack([x, [FAR * self.clip, 0.0]])
        else:
            x = np.tile([-self.clip, 0.0], (self.records, 1))
            if present:
                x[0, 0] = FAR * self.clip
        return Neighbour(x, np.zeros(len(x), dtype=np.int64), 1)

    def real(self, present: bool, trials: int) -> Array:
        """Rows of (likelihood ratio, sum of the others, best single step, spread of the steps)."""
        seen = self._values(present, trials * self.steps, self.noise)
        usual, gap, sigma = self.measured_gap
        along = seen[:, 0] - usual
        ratios = likelihood_ratios(along, np.full(len(seen), gap or self._gap), sigma, self.sampling.share)
        ratios, along = (a.reshape(trials, self.steps) for a in (ratios, along))
        others = seen[:, 1].reshape(trials, self.steps)
        columns = [ratios.sum(axis=1), others.sum(axis=1)]
        if self.steps > 1:
            columns += [along.max(axis=1), np.ptp(along, axis=1)]
        return np.column_stack(columns)

    def _values(self, present: bool, steps: int, noise: NoiseSource) -> Array:
        found = releases(
            self.neighbour(present), self.mechanism, steps, clip=self.clip, adjacency=self.adjacency, noise=noise
        )
        return np.array([np.asarray(r.value) for r in found])

    @cached_property
    def measured_gap(self) -> tuple[float, float, float]:
        """(typical sum without the record, how far the record moves it, σ of the noise), as the code computes them."""
        quiet = NoNoise(self.noise)
        share = self.sampling.share
        tries = 1 if share == 1.0 else min(20_000, math.ceil(40.0 / share))
        tries = math.ceil(tries / self.steps) * self.steps
        usual = float(np.median(self._values(False, tries, quiet)[:, 0]))
        moved = float(self._values(True, tries, quiet)[:, 0].max())
        return usual, moved - usual, max(quiet.sigmas)

    def simulated(self, present: bool, trials: int) -> Array | None:
        """The gap that the code makes, the noise that it asks for, and its sampler."""
        _, gap, sigma = self.measured_gap
        if gap <= 0.0 or self.opposite:
            return None
        return core_scores(
            present,
            trials,
            gap=gap,
            sigma=sigma,
            noise=self.noise,
            sampling=None if self.sampling.share == 1.0 else self.sampling,
            steps=self.steps,
            device=self.device,
        )
