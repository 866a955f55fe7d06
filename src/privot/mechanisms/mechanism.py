"""The protocol of mechanisms: a mechanism states its cost from public facts alone and never sees the ledger."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from privot.accounting.events import Event, PerUnit
from privot.accounting.units import for_unit
from privot.common.arguments import is_number
from privot.common.block_sums import BlockSum, Totals
from privot.common.extras import require
from privot.common.privacy_unit import Unit
from privot.errors import DataError, UsageError
from privot.guarantee import Adjacency, Standing
from privot.noise import NoiseSource
from privot.release import Value


class PublicColumn(Protocol):
    """What is public about one column, and how its coordinate in a row is read; every part of it is stated."""

    @property
    def name(self) -> str:
        """What people call it."""
        ...

    @property
    def place(self) -> int:
        """Its coordinate in a row, from 0; −1 for the labels."""
        ...

    @property
    def range(self) -> tuple[float, float] | None:
        """The stated bounds of its values; None where none are stated, or values are categories."""
        ...

    @property
    def categories(self) -> tuple[str, ...] | None:
        """The names of its categories, in the order of their coordinates; None where values are numbers."""
        ...

    @property
    def missing(self) -> bool:
        """Whether a value may be missing. Of numbers it is then the coordinate −1, of categories the last one."""
        ...

    @property
    def whole(self) -> bool:
        """Whether its numbers are whole."""
        ...

    def values(self, coordinates: NDArray[np.float64]) -> NDArray[np.float64]:
        """The numbers that coordinates stand for; NaN where one is missing."""
        ...

    def coordinates(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """The coordinates of numbers, in the same order as the numbers."""
        ...


@dataclass(frozen=True)
class Facts:
    """The public facts about the records. The steward states them; only the shape is read off the data.

    `dim` is the number of columns, which all neighbours share. `records` is the number of rows: public under
    replace-one, where all neighbours have as many; None under add-remove, where it is what privacy hides.
    `clip` bounds the norm of a row and `classes` the labels 0 … classes − 1; neither is ever estimated from
    data. `columns` say how rows are read, column by column, where that was stated; they follow from the file's header
    or schema, so two facts are equal without them. `unit` is what neighbours differ in where that is not one record;
    the rows are then those that take part, at most `unit.rows` of each unit, and the adjacency is add-remove. With
    `whole_units` every row holds all that takes part of one unit, `unit.rows` records of it side by side: neighbours
    differ in one row, and an event that is stated for one row is the unit's.
    """

    dim: int
    records: int | None
    clip: float
    adjacency: Adjacency
    classes: int | None = None
    columns: tuple[PublicColumn, ...] = field(default=(), compare=False, repr=False)
    unit: Unit | None = field(default=None, repr=False)
    whole_units: bool = field(default=False, repr=False)

    def __post_init__(self) -> None:
        # a word is taken where the adjacency is
        object.__setattr__(self, "adjacency", Adjacency.parse(self.adjacency))
        if self.whole_units and self.unit is None:
            raise UsageError("Rows that hold everything of one unit need the unit.")
        if self.unit is not None and self.adjacency is not Adjacency.ADD_REMOVE:
            raise UsageError(
                "A unit is protected under add-remove only: under replace-one the number of records would be public, "
                f"and another {self.unit.name} may have more or fewer of them."
            )

    def identity(self) -> str:
        """What a release that can be made again is bound to; it never changes, whatever this class is called.

        The columns and the unit are not in it: the event that is charged names the unit.

        >>> Facts(2, None, 1.0, Adjacency.ADD_REMOVE).identity()
        "Facts(dim=2, records=None, clip=1.0, adjacency=<Adjacency.ADD_REMOVE: 'add-remove'>, classes=None)"
        """
        adjacency = f"<Adjacency.{self.adjacency.name}: {self.adjacency.value!r}>"
        said = f"dim={self.dim!r}, records={self.records!r}, clip={self.clip!r}, adjacency={adjacency}"
        return f"Facts({said}, classes={self.classes!r})"

    def plain(self) -> dict[str, Any]:
        """What a design writes down and compares beside the adjacency, as plain JSON types."""
        held = {"dim": self.dim, "records": self.records, "clip": self.clip, "classes": self.classes}
        if self.unit is None:
            return held
        return {**held, "unit": self.unit.to_dict(), **({"whole_units": True} if self.whole_units else {})}

    @classmethod
    def from_plain(cls, raw: Mapping[str, Any], adjacency: Adjacency) -> Facts:
        """Read what `plain` wrote; refuses what no facts are, since a file says it."""
        whole = [value for name in ("dim", "records", "classes") if (value := raw.get(name)) is not None]
        right = all(type(value) is int and 0 < value < 2**63 for value in whole)
        if not right or not is_number(raw.get("clip")) or type(raw.get("whole_units", False)) is not bool:
            raise DataError("This does not describe public facts of records.")
        return cls(**{**raw, "unit": Unit.from_dict(raw.get("unit"))}, adjacency=adjacency)

    def cost(self, event: Event) -> Event:
        """What an `event` that a mechanism states for one record costs for what these facts protect.

        It is what a vault charges: the same event where that is one record, else `privot.accounting.for_unit` of it.
        Of `whole_units` the event is the unit's already; it is named so, and refused where no theorem covers a unit.
        """
        if self.whole_units and self.unit is not None:
            return PerUnit(event, self.unit.name, self.unit.rows)
        return for_unit(event, self.unit)


def refuse_unit(facts: Facts, what: str) -> None:
    """Refuse a job that finds its noise for single records: for a unit that would be too little.

    >>> refuse_unit(Facts(2, None, 1.0, Adjacency.ADD_REMOVE), "An answer")
    """
    if facts.unit is not None:
        raise UsageError(
            f"{what} protects single records, and this vault protects {facts.unit}: release a table, an embedding or "
            "simple numbers, or open the records without a unit."
        )


@dataclass(frozen=True)
class Needs:
    """What a mechanism requires of the public facts; None or False where it requires nothing."""

    dim: int | None = None
    """The number of columns it was built for."""
    clip: float | None = None
    """The largest bound on a row's norm it can work with."""
    least_records: int = 1
    labels: bool = False
    tensors: bool = False
    """Whether it computes with PyTorch, which has to be there before anything is paid."""
    sums_only: bool = False
    """Whether it asks records for nothing but sums (`Records.sums`), so that partitioned records will do."""
    shareable: bool = False
    """Whether its noise meets nothing but such sums, so that many parties can make it together."""

    def check(self, facts: Facts) -> None:
        """Refuse records the mechanism cannot work with, by what is public about them."""
        if self.tensors:
            require("This mechanism needs", "torch", "torch")
        if self.dim is not None and facts.dim != self.dim:
            raise UsageError(f"The mechanism was built for {self.dim} columns, the vault holds {facts.dim}.")
        if self.clip is not None and facts.clip > self.clip:
            raise UsageError(
                f"The mechanism needs rows clipped to {self.clip:g} or less, the vault says {facts.clip:g}."
            )
        if self.labels and facts.classes is None:
            raise UsageError("The mechanism needs labels: give the vault y and the number of classes.")
        if self.least_records > 1 and facts.records is None:
            raise UsageError("The mechanism needs the number of records, which is public under replace-one only.")
        if facts.records is not None and facts.records < self.least_records:
            raise UsageError(f"The mechanism needs {self.least_records} records, the vault holds {facts.records}.")


class Records(Protocol):
    """The records as a mechanism sees them while it runs. It may not keep, log or quote anything of them."""

    @property
    def facts(self) -> Facts:
        """What is public about them."""
        ...

    @property
    def count(self) -> int:
        """How many there are; private under add-remove."""
        ...

    def sums(self, summand: BlockSum) -> Totals:
        """Σ of what `summand` adds, over all records, exactly; the one thing that partitioned records answer."""
        ...

    def clipped(self, indices: NDArray[np.int64] | None = None) -> NDArray[np.float64]:
        """The rows at `indices` (all, unless given), clipped to the public norm `facts.clip`; a copy."""
        ...

    def rows(self, indices: NDArray[np.int64] | None = None) -> NDArray[np.float64]:
        """The rows as given, *unbounded*: for a mechanism that bounds a public function of them itself."""
        ...

    def labels(self, indices: NDArray[np.int64] | None = None) -> NDArray[np.int64]:
        """The labels at `indices`, each from 0 to `facts.classes` − 1."""
        ...


class Mechanism(Protocol):
    """Says what it costs and what it needs of the data before it runs. Only a vault calls it."""

    @property
    def needs(self) -> Needs:
        """What it needs of the data."""
        ...

    @property
    def steps(self) -> int:
        """How often it runs for one charge, each time with fresh randomness."""
        ...

    @property
    def standing(self) -> Standing:
        """What stands behind its event."""
        ...

    @property
    def seed(self) -> int | None:
        """A given seed of its public randomness, taken once by a vault; None if every step draws its own."""
        ...

    def event(self, facts: Facts) -> Event:
        """What *one step* costs if *one record* changes, from public facts alone; all are charged before the first.

        Where the facts have a unit, the vault charges `facts.cost` of it. A mechanism that finds its own σ from ε finds
        it for that.
        """
        ...

    def run(self, records: Records, noise: NoiseSource, event: Event, step: int) -> tuple[Value, Mapping[str, Any]]:
        """Step number `step` (from 0): the value and what is public about it.

        `event` is the very object that was charged: sampling, σ and bounds are read off it, so that what runs
        is what was counted.
        """
        ...


class Once:
    """Base of mechanisms that release one value per charge and draw nothing public; each states its own standing."""

    @property
    def steps(self) -> int:
        """One release."""
        return 1

    @property
    def seed(self) -> int | None:
        """None: no guarantee rests on the law of a public draw, so a seed may be used again."""
        return None


class Identified(Mechanism, Protocol):
    """A mechanism that can be identified, so that a release that was paid for can be made again.

    Its class has a `stable_name` that no other mechanism has. Noise and charges are bound to that name: a class may
    move or be renamed, but its `stable_name` never changes, or what was paid for could not be made again.
    """

    stable_name: ClassVar[str]

    def identity(self) -> bytes:
        """Everything the value depends on besides the records and the noise, to the last bit."""
        ...


def name_of(mechanism: object) -> str:
    """The `stable_name` of a mechanism's own class; refuses a class that has none, or only that of its base."""
    name = vars(type(mechanism)).get("stable_name")
    if not isinstance(name, str) or not name:
        raise UsageError(
            f"The class {type(mechanism).__name__} has no stable_name of its own, so its release cannot be made again: "
            "give it one that no other mechanism has, or use release."
        )
    return name


Answer = Callable[[int, Any], tuple[Value, Mapping[str, Any]]]
"""(step, query) → the value and what is public about it."""


class Answering(Mechanism, Protocol):
    """A mechanism whose every step answers a public query, chosen by a training that saw the earlier answers.

    Adaptive composition covers that: a step's event must hold for *every* query. A query may be made of public
    things and earlier releases only; it is not charged, because it contains nothing else.
    """

    def begin(self, records: Records, noise: NoiseSource, event: Event) -> Answer:
        """Make the function that answers the steps of one charge; called once, when the first query comes.

        What it keeps between steps (records on a device, noise drawn ahead) lives and dies with the stream.
        """
        ...

    def check(self, query: Any) -> Any:
        """A plain copy of the query to be answered; refuses one that cannot be, before a step is used up."""
        ...
