"""Attacks what a guarantee says happened: each event is played with the real noise and samplers, at its stated bound.

Nothing is known of the mechanism that ran; what is tested is whether the counted ε covers the events it names, with
neighbours exactly as far apart as each event allows. Directions of projections are drawn by their law.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from privot.accounting.events import Event, Gaussian, Laplace, Projection, Sampled, event_from_dict, leaves
from privot.accounting.sampling import Sampling
from privot.audit.findings import Claim
from privot.audit.simulation.direction_capture import captured
from privot.audit.simulation.gaussian_trials import Gaps, core_scores
from privot.errors import UsageError
from privot.guarantee import Guarantee
from privot.noise import NoiseSource, SystemNoise

Array = NDArray[np.float64]

MAX_STEPS = 2000
"""Steps of one event that are played out; a run of more could not be tried often enough."""


@dataclass(frozen=True)
class EventAttack:
    """Everything that a guarantee's events say happened, played with the worst neighbours they allow."""

    guarantee: Guarantee
    noise: NoiseSource = field(default_factory=SystemNoise, repr=False)
    device: str = "cpu"

    @property
    def name(self) -> str:
        """In a few words."""
        parts = []
        for leaf, times in self._leaves:
            inner = leaf.event if isinstance(leaf, Sampled) else leaf
            what = inner.kind + (" of a sample" if isinstance(leaf, Sampled) else "")
            parts.append(what if times == 1 else f"{what} × {times}")
        return "events: " + ", ".join(parts)

    @property
    def how(self) -> str:
        """In words."""
        return (
            "each event with neighbours as far apart as it allows; likelihood ratio of all of them; no mechanism is run"
        )

    @cached_property
    def claim(self) -> Claim:
        """What the guarantee says, and its shift where it is a Gaussian's."""
        squares = 0.0
        for leaf, times in self._leaves:
            if not isinstance(leaf, Gaussian):
                return Claim.of(self.guarantee)
            squares += times * (leaf.sensitivity / leaf.sigma) ** 2
        return Claim.of(self.guarantee, math.sqrt(squares))

    @cached_property
    def _leaves(self) -> list[tuple[Event, int]]:
        found: list[tuple[Event, int]] = []
        for fields in self.guarantee.events:
            found += leaves(event_from_dict(fields))
        for leaf, times in found:
            inner = leaf.event if isinstance(leaf, Sampled) else leaf
            # a projection is the same release whichever bound it is counted by
            if not isinstance(inner, Gaussian | Projection):
                what = "Laplace" if isinstance(inner, Laplace) else inner.kind
                raise UsageError(f"A {what} event cannot be played: only Gaussian noise and random projections can.")
            if times > MAX_STEPS:
                raise UsageError(f"{times} steps are too many to be played often enough; up to {MAX_STEPS} are.")
        return found

    def real(self, present: bool, trials: int) -> Array:
        """Nothing real can be run on a guarantee alone."""
        raise UsageError(
            "A guarantee names no mechanism that could be run: ask for trials of the core only, without runs."
        )

    def core(self, present: bool, trials: int) -> Array | None:
        """The sum of the likelihood ratios of all events."""
        total = np.zeros(trials)
        for leaf, times in self._leaves:
            sampling: Sampling | None = leaf.sampling if isinstance(leaf, Sampled) else None
            inner = leaf.event if isinstance(leaf, Sampled) else leaf
            assert isinstance(inner, Gaussian | Projection)
            total += core_scores(
                present,
                trials,
                gap=inner.sensitivity if isinstance(inner, Gaussian) else _gaps(inner),
                sigma=inner.sigma,
                noise=self.noise,
                sampling=sampling,
                steps=times,
                device=self.device,
            )
        return total


def _gaps(event: Projection) -> Gaps:
    """Δ·√H, H drawn anew for each step."""
    return lambda count: (
        event.sensitivity * np.sqrt(captured(count, event.dim, event.slices, event.frame == "orthogonal"))
    )
