"""Counts events: the best proven ε among the closed forms, privacy-loss composition and Rényi composition.

Each route is a bound on its own, so the smallest may be taken. `account` is the one way to a `Guarantee`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from privot.accounting import rdp
from privot.accounting.assumptions import assumptions_of, samplings_of, standing_of
from privot.accounting.events import (
    Composed,
    Event,
    Gaussian,
    Projection,
    Sampled,
    Unbounded,
    adjacency_of,
    event_from_dict,
    leaves,
    unit_of,
)
from privot.accounting.laws import gaussian
from privot.accounting.laws.projection_law import law
from privot.accounting.pld.composition import Composition
from privot.accounting.pld.dominating_pairs import step_of
from privot.accounting.pure import pure_epsilon
from privot.common.arguments import check_delta
from privot.errors import ConvergenceError, DataError, UsageError
from privot.guarantee import Curve, Guarantee, Standing
from privot.opening.limits import EVENTS_VARIABLE, max_events

_LONG = 100_000
_LARGE_EPSILON = 30.0
"""Composed privacy losses are never above Rényi's bound while ε is small; where losses run to hundreds their cells grow
coarse, so from here on both are counted and the smaller one is taken."""

Steps = tuple[tuple[Event, int], ...]


def _gaussian_shift(steps: Steps) -> float | None:
    """√Σ T·s² when every step is exactly a Gaussian mechanism (whole frames are), else None."""
    total = 0.0
    for event, times in steps:
        if isinstance(event, Gaussian):
            squared = (event.sensitivity / event.sigma) ** 2
        elif (
            isinstance(event, Projection)
            and event.bound == "exact"
            and event.frame == "orthogonal"
            and event.slices % event.dim == 0
        ):
            squared = (event.slices // event.dim) * (event.sensitivity / event.sigma) ** 2
        else:
            return None
        total += times * squared
    return math.sqrt(total)


def _single_projection(steps: Steps) -> Projection | None:
    """The projection, if that is all that happened, once and unsampled."""
    if len(steps) == 1 and steps[0][1] == 1:
        event = steps[0][0]
        if isinstance(event, Projection) and event.bound == "exact":
            return event
    return None


def _single_delta(event: Projection, epsilon: float) -> float:
    """δ(ε) = E_H[Φ(s/2 − ε/s) − e^ε Φ(−s/2 − ε/s)], s = Δ√H/σ, over the law of H from above."""
    table = law(event.dim, event.slices, event.frame == "orthogonal")
    shifts = event.sensitivity / event.sigma * np.sqrt(np.maximum(table.values, 1e-300))
    return float(table.masses @ gaussian.delta(shifts, epsilon)) + table.lost


def _is_published(event: Event) -> bool:
    inner = event.event if isinstance(event, Sampled) else event
    return isinstance(inner, Projection) and inner.bound != "exact"


def _compositions(steps: Steps, fine: float = 1.0) -> list[Composition] | None:
    """The composition in each direction that matters, or None where a step has no pair privot can compose."""
    forward, symmetric = [], True
    for event, times in steps:
        found = step_of(event)
        if found is None:
            return None
        step, same = found
        symmetric = symmetric and same
        forward.append((step, times))
    directions = [Composition(forward, fine)]
    if not symmetric:
        directions.append(Composition([(step.reversed(), times) for step, times in forward], fine))
    return directions


@lru_cache(maxsize=256)
def _renyi_total(steps: Steps) -> np.ndarray[Any, np.dtype[np.float64]]:
    return rdp.total(list(steps))


@lru_cache(maxsize=1024)
def _epsilon(steps: Steps, delta: float) -> float:
    if any(isinstance(event, Unbounded) for event, _ in steps):
        return math.inf
    if all(_is_published(event) for event, _ in steps):
        return rdp.published_epsilon(list(steps), delta)
    shift = _gaussian_shift(steps)
    if shift is not None:
        return gaussian.epsilon(shift, delta)
    single = _single_projection(steps)
    if single is not None:
        return _smallest_epsilon(single, delta)
    composed = math.inf
    compositions = _compositions(steps)
    if compositions is not None:
        with suppress(ConvergenceError):
            composed = _largest(compositions, delta)
    if composed < _LARGE_EPSILON:
        return composed
    left = delta - rdp.failure(steps)
    return min(composed, rdp.epsilon(_renyi_total(steps), left)) if left > 0.0 else composed


def _largest(compositions: list[Composition], delta: float) -> float:
    """ε in the worst direction; a direction whose losses are bounded below another's ε need not be composed.

    Long compositions spend their time in FFTs, which leave the interpreter free: two directions then run side by side.
    """

    def cost(composition: Composition) -> float:
        return min(composition.epsilon(delta), composition.ceiling)

    if len(compositions) > 1 and compositions[0].total > _LONG:
        with ThreadPoolExecutor(len(compositions)) as pool:
            return max(list(pool.map(cost, compositions)))
    worst = 0.0
    for composition in compositions:
        if composition.ceiling > worst:
            worst = max(worst, cost(composition))
    return worst


def composed_epsilon(event: Event, delta: float, fine: float) -> float:
    """ε at `delta` by composed privacy losses alone, on cells `fine` times the usual width; else infinite."""
    found = _compositions(tuple(leaves(event)), fine)
    return math.inf if found is None else _largest(found, check_delta(delta))


def _smallest_epsilon(event: Projection, delta: float) -> float:
    if _single_delta(event, 0.0) <= delta:
        return 0.0
    high = 1.0
    while _single_delta(event, high) > delta:
        high *= 2.0
        if high > 1e18:
            return math.inf
    return gaussian.bisect(0.0, high, lambda e: _single_delta(event, e) > delta, 1e-12)


@lru_cache(maxsize=256)
def _delta(steps: Steps, epsilon: float) -> float:
    if any(isinstance(event, Unbounded) for event, _ in steps):
        return 1.0
    shift = _gaussian_shift(steps)
    if shift is not None:
        return float(gaussian.delta(shift, epsilon))
    single = _single_projection(steps)
    if single is not None:
        return min(1.0, _single_delta(single, epsilon))
    composed = 1.0
    compositions = _compositions(steps)
    if compositions is not None:
        with suppress(ConvergenceError):
            # no loss exceeds the ceiling, so nothing is left above it
            composed = max(0.0 if epsilon >= c.ceiling else c.delta(epsilon) for c in compositions)
    if compositions is not None and epsilon < _LARGE_EPSILON:
        return composed
    return min(composed, rdp.delta(_renyi_total(steps), epsilon) + rdp.failure(steps))


def closed_shift(event: Event) -> float | None:
    """µ where `event` is exactly a Gaussian mechanism with that shift, else None."""
    return _gaussian_shift(tuple(leaves(event)))


@lru_cache(maxsize=32)
def _deltas(steps: Steps, epsilons: tuple[float, ...]) -> np.ndarray[Any, np.dtype[np.float64]]:
    points = np.array(epsilons)
    if any(isinstance(event, Unbounded) for event, _ in steps):
        return np.ones(len(points))
    shift = _gaussian_shift(steps)
    if shift is not None:
        return gaussian.delta(shift, points)
    single = _single_projection(steps)
    if single is not None:
        return np.array([min(1.0, _single_delta(single, e)) for e in epsilons])
    compositions = _compositions(steps)
    found = np.ones(len(points))
    if compositions is not None:
        with suppress(ConvergenceError):
            found = np.asarray(np.max([c.deltas(points) for c in compositions], axis=0))
    if compositions is None or epsilons[-1] >= _LARGE_EPSILON:
        renyi, failure = _renyi_total(steps), rdp.failure(steps)
        found = np.minimum(found, [rdp.delta(renyi, e) + failure for e in epsilons])
    # one array answers many
    found.setflags(write=False)
    return found


def deltas(event: Event, epsilons: Sequence[float]) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Proven δ of `event` at each of `epsilons` ≥ 0, rising: a whole curve for little more than one point of it."""
    return _deltas(tuple(leaves(event)), tuple(map(float, epsilons)))


@dataclass(frozen=True)
class EventCurve:
    """The privacy curve of events, counted when asked."""

    events: tuple[Event, ...]

    @property
    def steps(self) -> Steps:
        """The unrepeated steps and how often each ran."""
        return tuple(leaves(Composed(self.events)))

    def epsilon(self, delta: float) -> float:
        """The smallest proven ε at `delta`; at 0 the pure one."""
        if check_delta(delta, pure=True) == 0.0:
            return pure_epsilon(Composed(self.events))
        return _epsilon(self.steps, delta)

    def delta(self, epsilon: float) -> float:
        """The smallest proven δ at `epsilon`."""
        return _delta(self.steps, float(epsilon))

    def compose(self, others: Sequence[Curve]) -> Curve:
        """All events together, counted anew."""
        events = list(self.events)
        for other in others:
            if not isinstance(other, EventCurve):
                raise UsageError("A guarantee read from a file composes after privot.accounting.read_guarantee.")
            events += other.events
        return EventCurve(tuple(events))


def account(event: Event, delta: float) -> Guarantee:
    """The guarantee of `event`, quoted at `delta`: the one way from what happened to what it costs.

    Parameters
    ----------
    event
        What was or will be released: one event, or several together (`Composed`, `Repeated`).
    delta
        The δ at which the guarantee is quoted. Its curve knows all others. 0 asks for pure differential privacy, which
        Laplace noise has and Gaussian noise has not.

    Returns
    -------
    Guarantee
        ε at any δ, counted when it is asked for.

    Raises
    ------
    UsageError
        If δ is neither 0 nor between 0 and 1, or is 0 and nothing is promised there.
    NoTheoremError
        If no theorem covers this combination of mechanism, sampling and adjacency.

    Notes
    -----
    Formal guarantee: ε is the smallest of several proven upper bounds: closed forms, composed privacy losses and Rényi
    composition. Discretisation and floating-point rounding raise it, never lower it. The standing is that of the
    weakest event.

    References
    ----------
    Koskela, Jälkö & Honkela 2020, "Computing tight differential privacy guarantees using FFT"; Zhu, Dong & Wang 2022,
    "Optimal accounting of differential privacy via characteristic function".

    Examples
    --------
    >>> from privot import Adjacency
    >>> from privot.accounting import account, Gaussian
    >>> round(account(Gaussian(1.0, 1.0, Adjacency.ADD_REMOVE), 1e-5).epsilon(), 4)
    4.3772
    """
    if check_delta(delta, pure=True) == 0.0 and not math.isfinite(pure_epsilon(event)):
        raise UsageError(
            "At δ = 0 nothing is promised, because not all noise is Laplace noise: choose a δ greater than 0."
        )
    return Guarantee(
        curve=EventCurve((event,)),
        adjacency=adjacency_of([event]),
        standing=standing_of(event),
        sampling="; ".join(samplings_of(event)),
        assumptions=tuple(dict.fromkeys(assumptions_of(event))),
        events=(event.to_dict(),),
        at_delta=check_delta(delta, pure=True),
        unit=unit_of([event]),
    )


def read_guarantee(text: str) -> Guarantee:
    """Read a guarantee's JSON and count its events anew, so that it composes and nothing in it is taken on trust.

    Refuses a file whose stated ε is smaller than what its events cost. What the file assumes beside its events (of the
    noise, of the random source) is kept: an assumption more can only weaken the claim. Also refuses a guarantee that
    would take minutes to count: equal events are counted as one and Gaussian ones in closed form, however many they
    are; of others at most `privot.opening.max_events` distinct ones are composed.
    """
    stated = Guarantee.from_json(text)
    events = tuple(event_from_dict(e) for e in stated.events)
    if not events:
        raise DataError("This guarantee names no events, so it cannot be counted again.")
    whole = events[0] if len(events) == 1 else Composed(events)
    _check_work(tuple(leaves(whole)))
    counted = account(whole, stated.at_delta)
    if counted.adjacency is not stated.adjacency:
        raise DataError(
            f"This guarantee says {stated.adjacency} but its events were counted under {counted.adjacency}."
        )
    if stated.unit != counted.unit:
        raise DataError("This guarantee says another unit than its events were counted for.")
    if stated.epsilon() < counted.epsilon() * (1.0 - 1e-6) - 1e-9:
        raise DataError(
            f"This guarantee states ε = {stated.epsilon():.6g}, but its events cost ε = {counted.epsilon():.6g} "
            f"at δ = {stated.at_delta:g}."
        )
    return Guarantee(
        curve=counted.curve,
        adjacency=counted.adjacency,
        standing=Standing.weakest([counted.standing, stated.standing]),
        sampling=counted.sampling,
        assumptions=tuple(dict.fromkeys((*counted.assumptions, *stated.assumptions))),
        events=counted.events,
        at_delta=stated.at_delta,
        unit=counted.unit,
    )


def _check_work(steps: Steps) -> None:
    """Refuse to compose more distinct steps than a reader's time allows; a closed form takes no time."""
    closed = any(isinstance(event, Unbounded) for event, _ in steps) or _gaussian_shift(steps) is not None
    if not closed and len(steps) > max_events():
        raise DataError(
            f"This guarantee has {len(steps)} distinct events where at most {max_events()} are composed on reading: "
            f"raise {EVENTS_VARIABLE} if you trust it and have the time."
        )
