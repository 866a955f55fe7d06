"""What happened to the data, as immutable facts; who counts them is another module's business.

An event says what was released, with which noise and which sensitivity *under which adjacency*. A bare
"noise multiplier" appears nowhere: libraries read it in two ways (σ/Δ or σ/C), so the same number means
two different ε. Events serialise to plain JSON and read back equal.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Literal, get_args

from privot.accounting.laws.projection_law import LARGEST_DIM, MAX_INDEPENDENT, bernstein_bound, clt_bound
from privot.accounting.sampling import FixedSize, Poisson, Sampling, sampling_from_dict
from privot.common.arguments import (
    LARGEST,
    LARGEST_COUNT,
    check_count,
    check_delta,
    check_frame,
    check_kind,
    check_positive,
    is_number,
)
from privot.common.privacy_unit import Unit
from privot.errors import DataError, NoTheoremError, UsageError, brief
from privot.guarantee import Adjacency, Standing

Frame = Literal["orthogonal", "independent"]
Bound = Literal["exact", "bernstein", "clt", "published", "published-clt"]
DEEPEST = 100


class Event:
    """Base of all events. Equality, hashing and JSON come from the dataclass fields."""

    kind: ClassVar[str]
    shows_row_count: ClassVar[bool] = False
    """Whether the number of records taking part can be read off the release."""
    depth: int = 1
    """How many levels of events this one has."""

    def _hold(self, name: str, *events: Event) -> None:
        """Check the events inside this one; deep trees would run out of stack when they are compared or written."""
        for event in events:
            check_kind(name, event, Event)
        object.__setattr__(self, "depth", 1 + max(event.depth for event in events))
        if self.depth > DEEPEST:
            raise UsageError(f"Events may be nested at most {DEEPEST} levels deep: compose them side by side.")

    def to_dict(self) -> dict[str, Any]:
        """The event as plain JSON types."""
        out: dict[str, Any] = {"kind": self.kind}
        for f in fields(self):  # type: ignore[arg-type]
            value = getattr(self, f.name)
            if isinstance(value, Event | Poisson | FixedSize):
                value = value.to_dict()
            elif isinstance(value, tuple):
                value = [v.to_dict() if isinstance(v, Event) else None if v == math.inf else v for v in value]
            elif isinstance(value, Adjacency | Standing):
                value = str(value)
            elif value == math.inf:
                value = None
            out[f.name] = value
        return out


@dataclass(frozen=True)
class Gaussian(Event):
    """N(0, `sigma`²) added to every coordinate of a value whose L2 `sensitivity` holds under `adjacency`."""

    sigma: float
    sensitivity: float
    adjacency: Adjacency
    kind: ClassVar[str] = "gaussian"

    def __post_init__(self) -> None:
        check_positive("σ", self.sigma)
        check_positive("The sensitivity", self.sensitivity)
        object.__setattr__(self, "adjacency", Adjacency.parse(self.adjacency))


@dataclass(frozen=True)
class Laplace(Event):
    """Laplace noise of `scale` added to *one* real number whose `sensitivity` holds under `adjacency`."""

    scale: float
    sensitivity: float
    adjacency: Adjacency
    kind: ClassVar[str] = "laplace"

    def __post_init__(self) -> None:
        check_positive("The scale", self.scale)
        check_positive("The sensitivity", self.sensitivity)
        object.__setattr__(self, "adjacency", Adjacency.parse(self.adjacency))


@dataclass(frozen=True)
class Projection(Event):
    """(U, XU + V): every row of X projected on `slices` public random directions in `dim` dimensions, plus
    N(0, `sigma`²); two values of one row differ by at most `sensitivity` in norm.

    `frame`: Haar-random orthonormal frames (`orthogonal`) or independent unit vectors (`independent`).
    `bound`: `exact`, or the published high-probability bounds on ‖zᵀU‖² (Rakotomamonjy & Ralaivola 2021, Lemma 2
    and its CLT version), which fail with probability `failure` at every draw of U and are charged for it. `published`
    and `published-clt` are the same bounds with `failure` given up once however often U is drawn, as the paper counts:
    there is no theorem for that, and no mechanism releases anything on such a number.

    The release has a row for every record, so only replace-one neighbours (equal row counts) can be close.
    """

    dim: int
    slices: int
    sigma: float
    sensitivity: float
    adjacency: Adjacency
    frame: Frame = "orthogonal"
    bound: Bound = "exact"
    failure: float | None = None
    kind: ClassVar[str] = "projection"
    shows_row_count: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_kind("The frame", self.frame, str)
        check_kind("The bound", self.bound, str)
        check_count("The dimension", self.dim, most=LARGEST_DIM)
        most = MAX_INDEPENDENT if self.frame == "independent" else LARGEST_DIM
        check_count("The number of slices", self.slices, most=most)
        check_positive("σ", self.sigma)
        check_positive("The sensitivity", self.sensitivity)
        object.__setattr__(self, "adjacency", Adjacency.parse(self.adjacency))
        check_frame(self.frame)
        if self.bound not in get_args(Bound):
            raise UsageError(f"Unknown bound {brief(self.bound)}: say one of {', '.join(get_args(Bound))}.")
        if self.adjacency is not Adjacency.REPLACE_ONE:
            raise NoTheoremError(
                "A projection release shows how many records took part, so adding or removing one is never private: "
                "use replace-one neighbours."
            )
        if self.bound == "exact":
            if self.failure is not None:
                raise UsageError("The exact law of the directions has no failure probability: leave it out.")
            return
        if self.frame != "independent":
            raise NoTheoremError(f"The {self.bound} bound is stated for independent directions only.")
        if self.failure is None:
            raise UsageError(f"The {self.bound} bound needs its failure probability per draw of the directions.")
        check_delta(self.failure)

    @property
    def squared_sensitivity(self) -> float:
        """The published bound w(k, failure)·Δ² on the squared sensitivity (for bounds other than `exact`)."""
        if self.failure is None:
            raise UsageError("Only the published bounds have one squared sensitivity; the exact law is a mixture.")
        published = clt_bound if self.bound in ("clt", "published-clt") else bernstein_bound
        return published(self.dim, self.slices, self.failure) * self.sensitivity**2

    @property
    def fails_once(self) -> bool:
        """Whether `failure` is given up once for all draws, as published, in place of at every draw."""
        return self.bound in ("published", "published-clt")


@dataclass(frozen=True)
class Renyi(Event):
    """Any mechanism known only by its Rényi curve: (`orders`[i], `epsilons`[i])-RDP for every i.

    `pure` is its ε at order ∞ where one is known. `standing` is the caller's claim about the curve itself.
    """

    orders: tuple[float, ...]
    epsilons: tuple[float, ...]
    adjacency: Adjacency
    standing: Standing
    pure: float = math.inf
    kind: ClassVar[str] = "renyi"

    def __post_init__(self) -> None:
        object.__setattr__(self, "adjacency", Adjacency.parse(self.adjacency))
        check_kind("The standing", self.standing, Standing)
        orders, epsilons = self.orders, self.epsilons
        if not isinstance(orders, tuple) or not isinstance(epsilons, tuple) or not 0 < len(orders) == len(epsilons):
            raise UsageError("A Rényi curve needs tuples of as many ε as orders, and at least one.")
        if not all(is_number(a) and 1 < a <= LARGEST for a in orders) or list(orders) != sorted(set(orders)):
            raise UsageError("Rényi orders must be finite, greater than 1 and rising.")
        if not all(
            (is_number(e) and e <= LARGEST) or (isinstance(e, float) and e == math.inf) for e in (*epsilons, self.pure)
        ):
            raise UsageError("Rényi ε must be numbers (up to 1e60, or infinite).")
        if epsilons[0] < 0 or list(epsilons) != sorted(epsilons):
            raise UsageError("Rényi ε must be at least 0 and may not fall as the order grows.")
        if self.pure < epsilons[-1]:
            raise UsageError("ε at order ∞ cannot be smaller than at a finite order.")


@dataclass(frozen=True)
class Downgraded(Event):
    """`event`, whose standing is no better than `standing`, because of `reason` (seeded noise, an open proof)."""

    event: Event
    standing: Standing
    reason: str
    kind: ClassVar[str] = "downgraded"

    def __post_init__(self) -> None:
        self._hold("What is downgraded", self.event)
        check_kind("The standing", self.standing, Standing)
        check_kind("The reason", self.reason, str)


@dataclass(frozen=True)
class Unbounded(Event):
    """A release with no noise and no theorem (FedWad, TriangleWad): ε is infinite at every δ."""

    name: str
    adjacency: Adjacency
    kind: ClassVar[str] = "unbounded"

    def __post_init__(self) -> None:
        check_kind("The name", self.name, str)
        object.__setattr__(self, "adjacency", Adjacency.parse(self.adjacency))


@dataclass(frozen=True)
class PerUnit(Event):
    """`event`, counted for neighbours that differ in everything that one `unit` has: at most `rows` records.

    The sensitivities inside `event` are already those of `rows` records (`privot.accounting.units.for_unit` makes them
    so): reading what is inside can never count less than the whole does.
    """

    event: Event
    unit: str
    rows: int
    kind: ClassVar[str] = "unit"

    def __post_init__(self) -> None:
        self._hold("What is counted for a unit", self.event)
        Unit(self.unit, self.rows)
        for leaf, _ in leaves(self.event):
            if not isinstance(leaf, Gaussian | Laplace):
                raise NoTheoremError(
                    f"No theorem here covers a {leaf.kind} event for a unit with several records: release sums of all "
                    "records, or protect single records."
                )
            if leaf.adjacency is not Adjacency.ADD_REMOVE:
                raise NoTheoremError(
                    "A unit is protected under add-remove only: replacing one can change the number of records."
                )
        if units_in(self.event) != {None}:
            raise UsageError("An event is counted for one unit, once.")


@dataclass(frozen=True)
class Sampled(Event):
    """`event` run on a fresh random sample of the records, drawn by `sampling`.

    Only combinations with a theorem exist: Poisson sampling under add/remove where the release does not show how
    many records took part (Zhu, Dong & Wang 2022, Theorem 11); fixed-size sampling without replacement under
    replace-one (Balle, Barthe & Gaboardi 2018, Theorem 9, made a dominating pair in `pairs`).
    """

    event: Event
    sampling: Sampling
    kind: ClassVar[str] = "sampled"

    def __post_init__(self) -> None:
        check_kind("What is sampled", self.event, Event)
        if not isinstance(self.sampling, Poisson | FixedSize):
            raise UsageError("The sampling must be Poisson or FixedSize.")
        if not isinstance(self.event, Gaussian | Laplace | Projection | Renyi):
            raise NoTheoremError(f"No theorem here covers sampling a {self.event.kind} event: sample each release.")
        adjacency = self.event.adjacency
        if isinstance(self.sampling, Poisson):
            if adjacency is not Adjacency.ADD_REMOVE:
                raise NoTheoremError(
                    "Poisson sampling is counted under add-remove only: use fixed-size sampling for replace-one."
                )
        elif adjacency is not Adjacency.REPLACE_ONE:
            raise NoTheoremError(
                "Fixed-size sampling is counted under replace-one only: use Poisson sampling for add-remove."
            )


@dataclass(frozen=True)
class Repeated(Event):
    """`event` run `times` times, adaptively, with fresh randomness each time."""

    event: Event
    times: int
    kind: ClassVar[str] = "repeated"

    def __post_init__(self) -> None:
        self._hold("What is repeated", self.event)
        check_count("The number of repetitions", self.times)


def repeated(event: Event, times: int) -> Event:
    """`event`, `times` times over; what happened once is the event itself."""
    return event if times == 1 else Repeated(event, times)


@dataclass(frozen=True)
class Composed(Event):
    """All `events`, one after another, each free to depend on what the earlier ones released."""

    events: tuple[Event, ...]
    kind: ClassVar[str] = "composed"

    def __post_init__(self) -> None:
        if not isinstance(self.events, tuple) or not self.events:
            raise UsageError("A composition needs a tuple of at least one event.")
        self._hold("What is composed", *self.events)


_KINDS: dict[str, type[Event]] = {
    c.kind: c
    for c in (Gaussian, Laplace, Projection, Renyi, Downgraded, Unbounded, PerUnit, Sampled, Repeated, Composed)
}


def event_from_dict(raw: Mapping[str, Any]) -> Event:
    """Read what `Event.to_dict` wrote; refuses unknown kinds, missing or unknown fields and bad values."""
    try:
        values = dict(raw)
        named = values.pop("kind")
        kind = _KINDS.get(named)
        if kind is None:
            raise DataError(f"This is not an event privot wrote: {brief(named)} is no kind of event.")
        names = {f.name for f in fields(kind)}  # type: ignore[arg-type]
        if set(values) != names:
            raise DataError(f"A {kind.kind} event has the fields {sorted(names)}, got {brief(sorted(values))}.")
        for name, value in values.items():
            if name == "event":
                values[name] = event_from_dict(value)
            elif name == "events":
                values[name] = tuple(event_from_dict(v) for v in value)
            elif name == "sampling":
                values[name] = sampling_from_dict(value)
            elif name == "adjacency":
                values[name] = Adjacency(value)
            elif name == "standing":
                values[name] = Standing(value)
            elif name == "pure" and value is None:
                values[name] = math.inf
            elif isinstance(value, list):
                values[name] = tuple(math.inf if v is None else float(v) for v in value)
        return kind(**values)
    except RecursionError:
        raise DataError("This is not an event privot wrote: it is nested too deeply.") from None
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        if isinstance(error, DataError):
            raise
        raise DataError(f"This is not an event privot wrote: {str(error)[:200]}.") from None


def of_standing(event: Event, standing: Standing) -> Event:
    """`event` of a mechanism that stands no better than `standing`, as a vault charges it."""
    if standing is Standing.PROVEN:
        return event
    return Downgraded(event, standing, f"the mechanism itself is {standing}")


def leaves(event: Event) -> list[tuple[Event, int]]:
    """The event tree as (unrepeated step, how often), equal steps merged, first seen first."""
    counts: dict[Event, int] = {}

    def walk(node: Event, times: int) -> None:
        if isinstance(node, Repeated):
            walk(node.event, times * node.times)
        elif isinstance(node, Composed):
            for child in node.events:
                walk(child, times)
        elif isinstance(node, Downgraded | PerUnit):
            walk(node.event, times)
        else:
            counts[node] = counts.get(node, 0) + times

    check_kind("What is counted", event, Event)
    walk(event, 1)
    if sum(counts.values()) > LARGEST_COUNT:
        raise UsageError(f"More than {LARGEST_COUNT} steps are not counted.")
    return list(counts.items())


def adjacency_of(events: Sequence[Event]) -> Adjacency:
    """The one adjacency under which all `events` were counted; refuses a mixture."""
    found: set[Adjacency] = set()
    for event in events:
        for leaf, _ in leaves(event):
            inner = leaf.event if isinstance(leaf, Sampled) else leaf
            found.add(inner.adjacency)  # type: ignore[attr-defined]
    if len(found) != 1:
        raise NoTheoremError("Events under add-remove and under replace-one do not compose: count all under one.")
    return found.pop()


def units_in(event: Event) -> set[Unit | None]:
    """The units for which the leaves of `event` are counted; None for single records."""
    if isinstance(event, PerUnit):
        return {Unit(event.unit, event.rows)}
    if isinstance(event, Composed):
        return {unit for child in event.events for unit in units_in(child)}
    if isinstance(event, Repeated | Downgraded):
        return units_in(event.event)
    return {None}


def unit_of(events: Sequence[Event]) -> Unit | None:
    """The one unit for which all `events` are counted, with the most rows of any; refuses a mixture.

    Neighbours differ in everything that one unit has, however many of its rows a release uses. So releases that use
    different numbers of them compose. A unit and single records do not: a record of a unit is neither of the two.
    """
    found = {unit for event in events for unit in units_in(event)}
    if len({unit and unit.name for unit in found}) != 1:
        raise NoTheoremError("Releases that protect different units do not compose: count all for one unit.")
    return max((unit for unit in found if unit is not None), key=lambda unit: unit.rows, default=None)
