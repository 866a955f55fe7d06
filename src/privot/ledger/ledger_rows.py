"""What stands in a ledger, as immutable facts: rows as stored, and the budgets and entries they mean.

This module opens no file and counts no privacy. A body is canonical JSON (keys sorted, no spaces), so that
one fact has one text, and equal events are recognised by equal text.
"""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, NamedTuple

from privot.accounting.events import Event, event_from_dict
from privot.accounting.privacy_filter import Counted
from privot.common.privacy_unit import RECORD, Unit
from privot.errors import CorruptLedgerError, DataError, UsageError
from privot.guarantee import Adjacency
from privot.opening import parse_json

HEADER, BUDGET, CHARGE, RAISE, RESERVE = "header", "budget", "charge", "raise", "reserve"

LONGEST_NOTE = 200
_FINGERPRINT = re.compile(r"[0-9a-f]{64}")


class Row(NamedTuple):
    """One row as it is stored; `mac` seals it and, through the one before, every earlier row."""

    id: int
    kind: str
    fingerprint: str
    body: str
    note: str
    at: str
    mac: str


@dataclass(frozen=True)
class BudgetRaise:
    """One raise of a budget: from which ε to which, why, and when. It stays in the ledger for ever."""

    id: int
    before: float
    epsilon: float
    reason: str
    at: str


@dataclass(frozen=True)
class Budget:
    """What a data set may spend in all: ε at δ under one adjacency. Only a raise changes it, for a stated reason."""

    id: int
    fingerprint: str
    epsilon: float
    delta: float
    adjacency: Adjacency
    label: str
    at: str
    new_records: bool = False
    """Whether it was stated, when the budget was set, that these are new records beside those already guarded."""
    by_sum: bool = False
    """Whether the fingerprint is of a sum over rows, which partitions have too; earlier versions took another."""
    unit: str | None = None
    """The column whose values tell units apart, if everything of one unit is protected; None: single records."""
    grouping: str | None = None
    """A keyed hash of whose each record is, where there is a unit: the budget holds for no other grouping."""
    raises: tuple[BudgetRaise, ...] = ()
    """Every raise since it was set, oldest first; `epsilon` is the last one's."""
    tables: tuple[str, ...] = ()
    """Of related tables, the fingerprints that each of them would have as a data set by itself."""

    @property
    def relation(self) -> str:
        """The adjacency, and the unit where it is not a record: "add-remove of one patient_id"."""
        return str(self.adjacency) if self.unit is None else f"{self.adjacency} of one {self.unit}"

    @property
    def first_epsilon(self) -> float:
        """ε as it was set, before any raise."""
        return self.raises[0].before if self.raises else self.epsilon

    def raised(self, row: Row) -> Budget:
        """The budget after the raise that `row` records."""
        try:
            epsilon = float(parse_json(row.body)["epsilon"])
        except (KeyError, TypeError, ValueError):
            epsilon = math.nan
        # written so that a number that is none is refused too
        if not self.epsilon < epsilon < math.inf:
            raise CorruptLedgerError(f"Row {row.id} of the ledger holds no raise this version can read.")
        made = BudgetRaise(row.id, self.epsilon, epsilon, row.note, row.at)
        return replace(self, epsilon=epsilon, raises=(*self.raises, made))

    def to_dict(self) -> dict[str, Any]:
        """The budget as plain JSON types."""
        said = {"adjacency": str(self.adjacency), "unit": self.unit or RECORD, "relation": self.relation}
        return {**vars(self), **said, "raises": [vars(r) for r in self.raises]}


@dataclass(frozen=True)
class Entry:
    """One charge: which data set paid, for which event, to what purpose, and when."""

    id: int
    fingerprint: str
    event: Event
    purpose: str
    at: str
    reserved: bool = False
    """Whether it draws on what its job had reserved, and so takes nothing more of the budget."""

    def to_dict(self) -> dict[str, Any]:
        """The entry as plain JSON types."""
        return {**vars(self), "event": self.event.to_dict()}


@dataclass(frozen=True)
class Reservation(Entry):
    """All that a job may release, charged whole before its first release; its charges carry `mark`."""

    mark: str = ""


def canonical(fields: dict[str, Any]) -> str:
    """`fields` as the one JSON text that stands for them."""
    return json.dumps(fields, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def now() -> str:
    """This moment in UTC, as ISO 8601."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def check_fingerprint(fingerprint: str) -> str:
    """Return `fingerprint` if it looks like one."""
    if not isinstance(fingerprint, str) or not _FINGERPRINT.fullmatch(fingerprint):
        raise UsageError("A data set is named by its fingerprint, 64 hexadecimal digits: use Ledger.fingerprint.")
    return fingerprint


def checked_grouping(unit: str | None, grouping: str | None) -> tuple[str | None, str | None]:
    """The name of a budget's unit and the hash of whose each record is; both, or neither for single records."""
    if (unit is None) != (grouping is None):
        raise UsageError("A budget for a unit needs the unit's name and a fingerprint of whose each record is.")
    if unit is None or grouping is None:
        return None, None
    return Unit(unit).name, check_fingerprint(grouping)


def check_note(name: str, text: str) -> str:
    """Return `text` if it is short and printable; it is kept for ever and shown, so it may hold no data."""
    if not isinstance(text, str) or not text.strip() or len(text) > LONGEST_NOTE or not text.isprintable():
        raise UsageError(f"The {name} must be 1 to {LONGEST_NOTE} printable characters on one line.")
    return text


def event_text(event: Event) -> dict[str, Any]:
    """The event as plain JSON types; refuses one that would not read back equal and be counted later."""
    if not isinstance(event, Event):
        raise UsageError(f"Only an event of privot.accounting can be charged, got {type(event).__name__}.")
    try:
        plain = event.to_dict()
        same = event_from_dict(parse_json(canonical(plain))) == event
    except (TypeError, ValueError):
        same = False
    if not same:
        raise UsageError(f"This {event.kind} event cannot be written down exactly, so it cannot be charged.")
    return plain


def charge_body(event: Event, counted: Counted | None, mark: str = "") -> str:
    """The text of a charge, with what it takes of the budget's filter; None where its job had reserved it."""
    body: dict[str, Any] = {"event": event_text(event)}
    if counted is None:
        body["reserved"] = True
    else:
        # the first event is charged for its exact cost, even where no Gaussian dominates it
        body |= {"shift": counted.shift if math.isfinite(counted.shift) else None, "lost": counted.lost}
    if mark:
        body["mark"] = mark
    return canonical(body)


class Charged(NamedTuple):
    """What the body of a charge or a reservation says."""

    event: Event
    reserved: bool
    counted: Counted | None
    """None where it takes nothing, and in rows of versions before the filter, which are counted when read."""
    mark: str


@lru_cache(maxsize=4096)
def _charged(body: str) -> Charged:
    raw = parse_json(body)
    if not isinstance(raw, dict):
        raise DataError("This is not an event privot wrote.")
    if "kind" in raw:
        return Charged(event_from_dict(raw), False, None, "")
    event, mark = event_from_dict(raw.pop("event")), str(raw.pop("mark", ""))
    if raw == {"reserved": True}:
        return Charged(event, True, None, mark)
    shift, lost = raw.pop("shift"), raw.pop("lost")
    shift = math.inf if shift is None else shift
    if raw or isinstance(shift, bool) or isinstance(lost, bool) or not (shift >= 0.0 and 0.0 <= lost < 1.0):
        raise DataError("This is not a charge privot wrote.")
    return Charged(event, False, Counted(float(shift), float(lost)), mark)


def as_budget(row: Row) -> Budget:
    """The budget that `row` sets."""
    try:
        terms = parse_json(row.body)
        unit, grouping = checked_grouping(terms.get("unit"), terms.get("grouping"))
        return Budget(
            id=row.id,
            fingerprint=row.fingerprint,
            epsilon=float(terms["epsilon"]),
            delta=float(terms["delta"]),
            adjacency=Adjacency(terms["adjacency"]),
            label=row.note,
            at=row.at,
            new_records=terms.get("new_records", False) is True,
            by_sum=terms.get("by_sum", False) is True,
            unit=unit,
            grouping=grouping,
            tables=tuple(check_fingerprint(table) for table in terms.get("tables", ())),
        )
    except (AttributeError, KeyError, TypeError, ValueError):
        raise CorruptLedgerError(f"Row {row.id} of the ledger holds no budget this version can read.") from None


def as_entry(row: Row) -> Entry:
    """The charge that `row` records."""
    found = charged(row)
    return Entry(row.id, row.fingerprint, found.event, row.note, row.at, found.reserved)


def as_reservation(row: Row) -> Reservation:
    """The reservation that `row` records."""
    found = charged(row)
    return Reservation(row.id, row.fingerprint, found.event, row.note, row.at, mark=found.mark)


def charged(row: Row) -> Charged:
    """What `row` charges or reserves."""
    try:
        found = _charged(row.body)
        if row.kind == RESERVE and (found.counted is None or not found.mark):
            raise DataError("This is not a reservation privot wrote.")
        return found
    except (KeyError, TypeError, ValueError):
        raise CorruptLedgerError(f"Row {row.id} of the ledger holds no event this version can read.") from None
