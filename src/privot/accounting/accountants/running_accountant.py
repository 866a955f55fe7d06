"""What every running accountant promises: it is told each step as it happens and answers ε at any δ at any time.

The same interface for all, so that one run can feed proven and published accountants side by side. None of them sees a
record; those that `need_distances` are told distances between gradients, which are *private data*: an ε that was
computed from them is itself a release without noise, and must not be published as if it were free.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from privot.accounting.assumptions import standing_of
from privot.accounting.events import (
    Composed,
    Event,
    Gaussian,
    Sampled,
    adjacency_of,
    event_from_dict,
    leaves,
    repeated,
)
from privot.accounting.sampling import Poisson
from privot.common.arguments import LARGEST, check_count
from privot.errors import DataError, NoTheoremError, UnprovenError, UsageError, brief
from privot.guarantee import Adjacency, Standing

Array = NDArray[np.float64]


@dataclass(frozen=True)
class CountedEpsilon:
    """What one accountant says of a run: never a bare number."""

    accountant: str
    epsilon: float
    delta: float
    adjacency: Adjacency
    standing: Standing
    meaning: str

    def to_dict(self) -> dict[str, Any]:
        """As plain JSON types."""
        return {
            "accountant": self.accountant,
            "epsilon": self.epsilon if np.isfinite(self.epsilon) else None,
            "delta": self.delta,
            "adjacency": str(self.adjacency),
            "standing": str(self.standing),
            "meaning": self.meaning,
        }


@dataclass(frozen=True)
class GaussianStep:
    """One step as the published accountants know it: share q of N(d, σ²) against N(0, σ²), d ≤ `sensitivity`."""

    sigma: float
    sensitivity: float
    share: float

    @classmethod
    def of(cls, event: Event, poisson_only: bool = False) -> GaussianStep:
        """Read a (sampled) Gaussian event, or refuse it."""
        inner = event.event if isinstance(event, Sampled) else event
        if not isinstance(inner, Gaussian):
            raise NoTheoremError(f"This accountant counts Gaussian steps only, not a {event.kind} event.")
        if isinstance(event, Sampled):
            if poisson_only and not isinstance(event.sampling, Poisson):
                raise NoTheoremError("This accountant counts Poisson sampling only.")
            return cls(inner.sigma, inner.sensitivity, event.sampling.share)
        return cls(inner.sigma, inner.sensitivity, 1.0)


class RunningAccountant(ABC):
    """Told every step, asked for ε(δ) at any time; its state is plain JSON and reads back to the same answers."""

    name: str
    standing: ClassVar[Standing]
    meaning: ClassVar[str]
    need_distances: ClassVar[bool] = False
    """Whether `step` uses distances between gradients, which are private data."""

    def __init__(self, *, allow_unproven: bool = False) -> None:
        if self.standing is Standing.UNPROVEN and allow_unproven is not True:
            raise UnprovenError(
                f"The {self.name} accountant has no theorem behind it: pass allow_unproven=True to use it nevertheless."
            )
        self._steps: dict[Event, int] = {}
        self._weakest = self.standing

    def step(self, event: Event, distances: ArrayLike | None = None, times: int = 1) -> None:
        """`event` happened `times` times; `distances` are ‖g − g'‖ of the step's gradient pairs, where needed."""
        check_count("The number of steps", times)
        found = leaves(repeated(event, times))
        adjacency_of([*self._steps, *(leaf for leaf, _ in found)])
        costs = [self._cost(leaf, distances, count) for leaf, count in found]
        # only after every leaf was taken: a refused step changes nothing
        for (leaf, count), cost in zip(found, costs, strict=True):
            self._add(cost)
            self._steps[leaf] = self._steps.get(leaf, 0) + count
        # an event may itself stand less firmly than the way it is counted
        self._weakest = Standing.weakest([self._weakest, standing_of(event)])

    def _cost(self, leaf: Event, distances: ArrayLike | None, times: int) -> Array:
        """What `times` of one leaf add to the running sums, where there are any; refuses what cannot be counted."""
        return np.zeros(0)

    def _add(self, cost: Array) -> None:  # noqa: B027 - accountants without running sums add nothing
        """Add what `_cost` answered to the running sums."""

    @abstractmethod
    def epsilon(self, delta: float) -> float:
        """ε at `delta` of everything so far; 0 before the first step, infinite where nothing is claimed."""

    @property
    def steps(self) -> int:
        """How many steps were counted."""
        return sum(self._steps.values())

    @property
    def event(self) -> Event:
        """Everything that was counted, as one event."""
        if not self._steps:
            raise UsageError("Nothing has been counted yet: call step first.")
        return Composed(tuple(repeated(e, n) for e, n in self._steps.items()))

    @property
    def adjacency(self) -> Adjacency:
        """The adjacency under which everything was counted."""
        return adjacency_of([self.event])

    def count(self, delta: float) -> CountedEpsilon:
        """ε at `delta` with everything that belongs to it."""
        return CountedEpsilon(self.name, self.epsilon(delta), float(delta), self.adjacency, self._weakest, self.meaning)

    def settings(self) -> dict[str, Any]:
        """What the accountant was made with, as plain JSON types."""
        return {}

    def totals(self) -> dict[str, Any]:
        """Running sums beyond the events, as plain JSON types."""
        return {}

    def _restore(self, totals: Mapping[str, Any], steps: Mapping[Event, int]) -> None:  # noqa: B027 - none without sums
        """Take back what `totals` wrote of these steps."""

    def state_dict(self) -> dict[str, Any]:
        """Everything needed to go on counting, as plain JSON types."""
        return {
            "accountant": self.name,
            "settings": self.settings(),
            "standing": str(self._weakest),
            "steps": [{"event": e.to_dict(), "times": n} for e, n in self._steps.items()],
            "totals": self.totals(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from what `state_dict` wrote; refuses another accountant's, or one made with other settings."""
        try:
            if state["accountant"] != self.name or dict(state["settings"]) != self.settings():
                raise DataError(f"This state is not of a {self.name} accountant with these settings.")
            steps: dict[Event, int] = {}
            for entry in state["steps"]:
                check_count("The number of steps", entry["times"])
                steps[event_from_dict(entry["event"])] = entry["times"]
            if steps:
                adjacency_of(list(steps))
            weakest = Standing.weakest([self.standing, Standing(state["standing"]), *(standing_of(e) for e in steps)])
            totals = dict(state["totals"])
            if set(totals) != set(self.totals()):
                raise DataError(f"This state lacks what a {self.name} accountant keeps.")
            self._restore(totals, steps)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            if isinstance(error, DataError):
                raise
            raise DataError(f"This is not the state of an accountant: {str(error)[:200]}.") from None
        self._steps, self._weakest = steps, weakest

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.steps} steps, {self.standing})"


def checked_distances(distances: ArrayLike, least: int = 1) -> Array:
    """Distances as a flat array of finite numbers ≥ 0, at least `least` of them."""
    try:
        values = np.asarray(distances, dtype=np.float64).ravel()
    except (TypeError, ValueError):
        raise UsageError("Distances between gradients must be numbers.") from None
    if values.size < least:
        raise UsageError(f"At least {least} distances between gradients are needed, got {values.size}.")
    if not np.isfinite(values).all() or values.min() < 0.0 or values.max() > LARGEST:
        raise UsageError("Distances between gradients must be finite and at least 0.")
    return values


def gradient_distances(first: ArrayLike, second: ArrayLike) -> Array:
    """‖g − g'‖₂ for pairs of neighbouring gradients of shape (pairs, coordinates)."""
    try:
        a, b = np.atleast_2d(np.asarray(first, float)), np.atleast_2d(np.asarray(second, float))
    except (TypeError, ValueError):
        raise UsageError("Gradients must be arrays of numbers.") from None
    if a.shape != b.shape or a.ndim != 2:
        raise UsageError(f"Pairs of gradients must have one shape, got {brief(a.shape)} and {brief(b.shape)}.")
    return checked_distances(np.linalg.norm(a - b, axis=1))


def all_pairs(gradients: ArrayLike) -> Array:
    """‖g_i − g_j‖₂ for every i < j of gradients of shape (count, coordinates): the paper's leave-one-out pairs."""
    g = np.asarray(gradients, float)
    if g.ndim != 2 or g.shape[0] < 2:
        raise UsageError("Pairs need at least two gradients, as an array of shape (count, coordinates).")
    i, j = np.triu_indices(g.shape[0], 1)
    if g.shape[0] * g.shape[1] > 10**6:  # a pair at a time, so that memory stays that of the gradients
        return checked_distances([np.linalg.norm(g[a] - g[b]) for a, b in zip(i, j, strict=True)])
    return gradient_distances(g[i], g[j])
