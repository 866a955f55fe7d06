"""Attacks the events of a guarantee: each is simulated with the real noise and samplers, at its stated bound.

The mechanism that ran is not known; the test is whether the claimed ε covers the events of the guarantee, for
neighbours exactly as far apart as each event allows. Directions of projections are drawn by their law. No record is
involved.
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
"""Largest number of steps of one event: more could not be simulated often enough."""


@dataclass(frozen=True)
class EventAttack:
    """An attack on all events of a guarantee, with the worst neighbours that they allow."""

    guarantee: Guarantee
    noise: NoiseSource = field(default_factory=SystemNoise, repr=False)
    device: str = "cpu"

    @property
    def name(self) -> str:
        """The mechanism and its parameters, in a few words."""
        parts = []
        for leaf, times in self._leaves:
            inner = leaf.event if isinstance(leaf, Sampled) else leaf
            what = inner.kind + (" of a sample" if isinstance(leaf, Sampled) else "")
            parts.append(what if times == 1 else f"{what} × {times}")
        return "events: " + ", ".join(parts)

    @property
    def description(self) -> str:
        """The data sets and the statistic, in words."""
        return (
            "each event with neighbours as far apart as it allows; likelihood ratio of all of them; no mechanism is run"
        )

    @cached_property
    def claim(self) -> Claim:
        """The guarantee, with its shift if all events are Gaussian."""
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
            # the bound of a projection changes its claim, not what is released
            if not isinstance(leaf, Laplace) and not isinstance(inner, Gaussian | Projection):
                what = "sampled Laplace" if isinstance(inner, Laplace) else inner.kind
                raise UsageError(
                    f"A {what} event cannot be simulated: only Gaussian and Laplace noise and random projections can."
                )
            if times > MAX_STEPS:
                raise UsageError(f"{times} steps are too many to simulate often enough: at most {MAX_STEPS} are.")
        return found

    def real(self, present: bool, trials: int) -> Array:
        """Raises `UsageError`: a guarantee names no mechanism to run."""
        raise UsageError("A guarantee names no mechanism that could be run: set runs to 0 and use trials.")

    def simulated(self, present: bool, trials: int) -> Array | None:
        """The sum of the likelihood ratios of all events."""
        total = np.zeros(trials)
        for leaf, times in self._leaves:
            sampling: Sampling | None = leaf.sampling if isinstance(leaf, Sampled) else None
            inner = leaf.event if isinstance(leaf, Sampled) else leaf
            if isinstance(inner, Laplace):
                for _ in range(times):
                    total += self._laplace_scores(inner, present, trials)
                continue
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

    def _laplace_scores(self, event: Laplace, present: bool, trials: int) -> Array:
        """The likelihood ratio (|x| − |x − Δ|)/b of Laplace noise of scale b at 0 or at Δ.

        Half the sum of two squared normals is exponential, and the difference of two exponentials is Laplace.
        """
        squares = self.noise.normal((4, trials), 1.0) ** 2
        x = event.scale * 0.5 * (squares[0] + squares[1] - squares[2] - squares[3])
        if present:
            x += event.sensitivity
        # the same number, and exactly ±Δ/b beyond 0 and Δ: rounding there would tell the two apart
        return np.asarray(np.clip(2.0 * x - event.sensitivity, -event.sensitivity, event.sensitivity) / event.scale)


def _gaps(event: Projection) -> Gaps:
    """Δ·√H, H drawn independently for each step."""
    return lambda count: (
        event.sensitivity * np.sqrt(captured(count, event.dim, event.slices, event.frame == "orthogonal"))
    )
