"""What DP-SGD and its published variant share: checks before a charge, and what their witnesses receive."""

from __future__ import annotations

import math
from typing import Protocol

from privot.accounting.accountants.running_accountant import RunningAccountant
from privot.accounting.events import Event, Gaussian, Sampled
from privot.accounting.sampling import FixedSize, Poisson, Sampling
from privot.common import arguments
from privot.errors import UsageError, brief
from privot.mechanisms.clipping import MARGIN
from privot.mechanisms.gradients.clipped_sums import MAX_SAMPLE, norm_rounding, sum_rounding
from privot.mechanisms.mechanism import Facts
from privot.noise.adding import grid_of

LEFT_OUT = 8
"""Gradients with one record left out that the published variant compares, pair by pair, at every step."""


class NoisyGradients(Protocol):
    """The fields that both mechanisms have."""

    @property
    def sigma(self) -> float:
        """The noise, in multiples of the clipping bound."""
        ...

    @property
    def clip_norm(self) -> float:
        """The largest norm of a gradient."""
        ...

    @property
    def sampling(self) -> Sampling:
        """How the records of a step are drawn."""
        ...

    @property
    def steps(self) -> int:
        """How often noisy gradients are released."""
        ...

    @property
    def witnesses(self) -> tuple[RunningAccountant, ...]:
        """Accountants that count the same run."""
        ...


def check_fields(mechanism: NoisyGradients) -> None:
    """Check the fields of either mechanism, and store them in their final form."""
    set_ = object.__setattr__
    set_(mechanism, "sigma", arguments.sigma(mechanism.sigma))
    set_(mechanism, "steps", arguments.whole("The number of steps", mechanism.steps, 1))
    check_clip_norm(mechanism.clip_norm)
    if not isinstance(mechanism.sampling, Poisson | FixedSize):
        raise UsageError("The sampling must be Poisson or FixedSize.")
    # a list could grow after the standing was read
    set_(mechanism, "witnesses", tuple(mechanism.witnesses))
    if not all(w.need_distances for w in mechanism.witnesses):
        raise UsageError("A witness is an accountant that needs distances between gradients: leave out the others.")


def check_clip_norm(clip_norm: float) -> None:
    if isinstance(clip_norm, bool) or not isinstance(clip_norm, int | float) or not 1e-100 <= clip_norm <= 1e100:
        raise UsageError(f"The clipping bound clip_norm must be a number from 1e-100 to 1e100, got {brief(clip_norm)}.")


def check_terms(sampling: Sampling, facts: Facts, sigma: float, clip_norm: float, size: int) -> None:
    """Refuse, before anything is paid, a release that would fail or round too coarsely."""
    if isinstance(sampling, FixedSize) and sampling.records != facts.records:
        raise UsageError("The fixed-size sampling must be made for the public number of records of this vault.")
    # the size of a Poisson sample is private, so the largest that can be summed decides
    sample = sampling.batch if isinstance(sampling, FixedSize) else MAX_SAMPLE
    # for both neighbours: the grid on which noise is added moves each of `size` coordinates by half a step at most
    rounding = sum_rounding(sample) + norm_rounding(size) + grid_of(sigma) * math.sqrt(size) / clip_norm
    # written so that a NaN is refused
    if not (sample <= MAX_SAMPLE and rounding <= MARGIN):
        raise UsageError(
            "Rounding could outgrow the margin that keeps this release private: use fewer parameters, less noise or a "
            "smaller sample."
        )


def event_parts(event: Event) -> tuple[Sampled, Gaussian]:
    if not isinstance(event, Sampled) or not isinstance(event.event, Gaussian):
        raise UsageError("Gradients are released on the event the mechanism made.")
    return event, event.event


def tell_witnesses(witnesses: tuple[RunningAccountant, ...], event: Event, distances: list[float]) -> None:
    """Pass distances to the witnesses; where a sample has too few pairs, the worst distance is used instead."""
    padded = distances + [event_parts(event)[1].sensitivity] * max(0, 3 - len(distances))
    for witness in witnesses:
        witness.step(event, padded)
