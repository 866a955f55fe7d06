"""What goes with a number: how firmly events stand, what is assumed of them, and how they choose records, in words."""

from __future__ import annotations

from privot.accounting.events import (
    Composed,
    Downgraded,
    Event,
    Gaussian,
    Laplace,
    PerUnit,
    Projection,
    Renyi,
    Repeated,
    Sampled,
    Unbounded,
    leaves,
)
from privot.guarantee import Standing

_LAPLACE = "the noise is Laplace; for δ = 0 it is drawn exactly, on a grid (added to a float it would show the value)"


def standing_of(event: Event) -> Standing:
    """The weakest standing anywhere in the tree."""
    if isinstance(event, Composed):
        return Standing.weakest([standing_of(e) for e in event.events])
    if isinstance(event, Downgraded):
        return Standing.weakest([event.standing, standing_of(event.event)])
    if isinstance(event, Repeated | Sampled | PerUnit):
        return standing_of(event.event)
    if isinstance(event, Renyi):
        return event.standing
    if isinstance(event, Unbounded):
        return Standing.UNPROVEN
    if isinstance(event, Projection) and event.fails_once:
        return Standing.UNPROVEN
    if isinstance(event, Projection) and event.bound == "clt":
        return Standing.ASYMPTOTIC
    return Standing.PROVEN


def assumptions_of(event: Event) -> list[str]:
    """What must hold for the number to hold, in words."""
    if isinstance(event, Composed):
        return [a for e in event.events for a in assumptions_of(e)]
    if isinstance(event, Repeated):
        return [*assumptions_of(event.event), "every repetition uses fresh randomness"]
    if isinstance(event, Downgraded):
        return [*assumptions_of(event.event), event.reason]
    if isinstance(event, PerUnit):
        kept = f"at most {event.rows} of its rows take part" if event.rows > 1 else "one of its rows takes part"
        return [
            *assumptions_of(event.event),
            f"everything about one {event.unit} carries the same value in that column; {kept}, chosen by a hash of the "
            "unit and the row alone",
        ]
    if isinstance(event, Sampled):
        return [*assumptions_of(event.event), f"each step draws a fresh sample: {event.sampling.describe()}"]
    noise = "the noise is Gaussian up to floating-point rounding"
    if isinstance(event, Gaussian):
        return [f"neighbours' values differ by at most {event.sensitivity:g} in L2 norm", noise]
    if isinstance(event, Laplace):
        return [f"neighbours' values differ by at most {event.sensitivity:g}", _LAPLACE]
    if isinstance(event, Projection):
        return [
            f"two values of one record, clipped to a public bound, differ by at most {event.sensitivity:g} in norm",
            "the directions are drawn without looking at the data",
            "the number of records is public",
            noise,
            *(
                ["the bound on the directions fails at no draw but with one failure for all: unproven"]
                * event.fails_once
            ),
        ]
    if isinstance(event, Renyi):
        return ["the mechanism's Rényi curve is as stated"]
    return ["nothing: the release carries no noise"]


def samplings_of(event: Event) -> list[str]:
    """How the steps choose records, in words."""
    found = []
    for leaf, _ in leaves(event):
        found.append(leaf.sampling.describe() if isinstance(leaf, Sampled) else "none")
    return list(dict.fromkeys(found))
