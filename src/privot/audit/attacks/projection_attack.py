"""Attacks random projections: one record is reversed, all others are known; replace-one neighbours.

D has x' = −C·e in its first row, D' has a record far beyond C in the direction +e, which a correct mechanism clips to
+C·e: two values 2C apart. The other rows of both are C·e⊥, which also shows what one record does to the *others*. Given
the public U, the log-likelihood ratio of the first row is a·y/σ², a = (x − x')ᵀU.

With a batch all other records are x' as well, and rows come in random order: the likelihood ratio is the mean over the
possible places of the record.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from privot.accounting import account
from privot.accounting.events import repeated
from privot.accounting.log_sums import log_sum_exp
from privot.accounting.sampling import FixedSize
from privot.audit.findings import Claim
from privot.audit.simulation.direction_capture import captured
from privot.audit.simulation.far_records import FAR
from privot.audit.simulation.gaussian_trials import core_scores
from privot.audit.simulation.neighbours import Neighbour, releases
from privot.audit.simulation.noiseless import NoNoise
from privot.guarantee import Adjacency
from privot.mechanisms import RandomProjection
from privot.mechanisms.directions import directions_of
from privot.mechanisms.mechanism import Facts
from privot.noise import NoiseSource, SystemNoise
from privot.release import Release

Array = NDArray[np.float64]


@dataclass(frozen=True)
class ProjectionAttack:
    """An attack on `RandomProjection` with these parameters, over `steps` releases of all records or of a batch.

    `dim` columns, `slices` directions, noise of deviation `sigma`, rows clipped to `clip`; `make` builds the mechanism.
    """

    dim: int
    slices: int
    sigma: float
    delta: float
    clip: float = 0.5
    frame: str = "orthogonal"
    records: int = 4
    batch: int | None = None
    steps: int = 1
    noise: NoiseSource = field(default_factory=SystemNoise, repr=False)
    device: str = "cpu"
    make: Callable[..., RandomProjection] = field(default=RandomProjection, repr=False)

    @property
    def name(self) -> str:
        """The mechanism and its parameters, in a few words."""
        part = "" if self.batch is None else f", {self.batch} of {self.records}"
        times = "" if self.steps == 1 else f", {self.steps} steps"
        return f"projection, {self.frame}, {self.slices} of {self.dim}, σ {self.sigma:g}, C {self.clip:g}{part}{times}"

    @property
    def description(self) -> str:
        """The data sets and the statistic, in words."""
        others = "far from it" if self.batch is None else "equal to the old one"
        return (
            f"one record of {self.records} moved from −C to far beyond +C, the others {others}; likelihood ratio of "
            "its row given the public directions" + ("" if self.batch is None else ", averaged over its place")
        )

    @cached_property
    def mechanism(self) -> RandomProjection:
        """The mechanism under attack."""
        return self.make(self.slices, self.sigma, self.frame, self.batch)

    @cached_property
    def claim(self) -> Claim:
        """What the mechanism's own event costs."""
        facts = Facts(self.dim, self.records, self.clip, Adjacency.REPLACE_ONE)
        event = self.mechanism.event(facts)
        whole = self.frame == "orthogonal" and self.slices % self.dim == 0 and self.batch is None
        shift = math.sqrt(self.steps * self.slices / self.dim) * 2.0 * self.clip / self.sigma if whole else None
        return Claim.of(account(repeated(event, self.steps), self.delta), shift)

    def neighbour(self, present: bool) -> Neighbour:
        """D, or D' if `present`."""
        x = np.zeros((self.records, self.dim))
        if self.batch is None:
            x[1:, -1] = self.clip
        else:
            x[:, 0] = -self.clip
        x[0, 0] = FAR * self.clip if present else -self.clip
        return Neighbour(x)

    def real(self, present: bool, trials: int) -> Array:
        """Scores of whole runs or, without a batch, rows of (likelihood ratio, mean of the other records)."""
        found = self._releases(present, trials * self.steps, self.noise)
        seen = np.array([self._seen(np.asarray(r.value), directions_of(r.public)) for r in found])
        summed = np.asarray(seen.reshape(trials, self.steps, -1).sum(axis=1))
        return summed if self.batch is None else np.asarray(summed[:, 0])

    def _releases(self, present: bool, steps: int, noise: NoiseSource) -> Iterator[Release]:
        return releases(
            self.neighbour(present), self.mechanism, steps, clip=self.clip, adjacency=Adjacency.REPLACE_ONE, noise=noise
        )

    @cached_property
    def measured_gap(self) -> tuple[float, float]:
        """(gap between the record's two values before projection, σ of the noise), as the code computes them.

        Without noise a row is c·eᵀU, from which c follows.
        """
        quiet = NoNoise(self.noise)
        tries = 1 if self.batch is None else math.ceil(40.0 * self.records / self.batch)
        ends = []
        for present in (False, True):
            values = []
            for release in self._releases(present, tries, quiet):
                along = directions_of(release.public)[0]
                values.append(float(np.asarray(release.value)[0] @ along / (along @ along)))
            ends.append(values)
        return max(ends[1]) - min(ends[0]), max(quiet.sigmas)

    def _seen(self, value: Array, directions: Array) -> tuple[float, float]:
        gap = 2.0 * self.clip * directions[0]
        if self.batch is None:
            others = value[1:] @ directions[-1]
            return float(value[0] @ gap) / self.sigma**2, float(others.mean())
        # rows against −C·eᵀU; ln((1 − q) + q/b·Σ_j e^ℓ_j)
        losses = (value + self.clip * directions[0]) @ gap / self.sigma**2 - gap @ gap / (2.0 * self.sigma**2)
        share = self.batch / self.records
        placed = math.log(share / self.batch) + float(log_sum_exp(losses))
        return (placed if share >= 1.0 else float(np.logaddexp(math.log1p(-share), placed))), 0.0

    def simulated(self, present: bool, trials: int) -> Array | None:
        """The noise along the record's own projection, and the law of the share that the directions capture."""
        if self.batch is not None and self.batch > 1:
            return None  # the record's place is hidden: nothing is simpler than the mechanism itself
        sampling = None if self.batch is None else FixedSize(self.batch, self.records)
        _, sigma = self.measured_gap
        return core_scores(
            present,
            trials,
            gap=self._gaps,
            sigma=sigma,
            noise=self.noise,
            sampling=sampling,
            steps=self.steps,
            device=self.device,
        )

    def _gaps(self, count: int) -> Array:
        """The gap times √H, H = ‖eᵀU‖², drawn independently for each step."""
        gap, _ = self.measured_gap
        return gap * np.sqrt(captured(count, self.dim, self.slices, self.frame == "orthogonal"))
