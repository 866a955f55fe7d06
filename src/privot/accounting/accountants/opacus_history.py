"""Reads the history that Opacus keeps, as events: needs neither Opacus nor tensors."""

from __future__ import annotations

from collections.abc import Sequence

from privot.accounting.events import Composed, Event, Gaussian, Sampled, repeated
from privot.accounting.sampling import Poisson
from privot.common.arguments import check_count, check_positive
from privot.errors import DataError, PrivotError, brief
from privot.guarantee import Adjacency

ASSUMPTION = "every batch was drawn by Poisson sampling (Opacus: poisson_sampling=True), which its history does not say"


def history_step(noise_multiplier: float, sample_rate: float) -> Event:
    """One step of DP-SGD as Opacus reports it: noise of `noise_multiplier`·C on a sum whose terms have norm ≤ C."""
    check_positive("The noise multiplier", noise_multiplier)
    # in units of C: the sensitivity is 1 when a record is added or removed, σ is the multiplier
    return Sampled(Gaussian(float(noise_multiplier), 1.0, Adjacency.ADD_REMOVE), Poisson(float(sample_rate)))


def history_event(history: Sequence[tuple[float, float, int]]) -> Event:
    """(noise multiplier, sampling rate, steps), as in an Opacus accountant's `history`, as one event, add-remove.

    >>> history_event([(1.0, 0.01, 100)]).to_dict()["kind"]
    'composed'
    """
    steps: list[Event] = []
    try:
        for noise_multiplier, sample_rate, times in history:
            check_count("The number of steps", times)
            step = history_step(noise_multiplier, sample_rate)
            steps.append(repeated(step, times))
    except PrivotError:
        raise
    except (TypeError, ValueError):
        raise DataError(f"This is not a history of (noise multiplier, rate, steps): {brief(history)}.") from None
    if not steps:
        raise DataError("The history is empty: nothing has been counted yet.")
    return Composed(tuple(steps))
