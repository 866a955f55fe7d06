"""The budget of a vault: a ledger's account, or a budget in memory; it sees records only to fingerprint them.

Both refuse before they change anything. Both accept a given seed of public randomness only once for the same
records: the accountant multiplies moments of independent directions, so two releases along the same directions
would cost more than it counts.
"""

from __future__ import annotations

import hashlib
import hmac
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from privot.accounting.events import Event
from privot.common.arguments import check_delta, check_epsilon
from privot.common.privacy_unit import RECORD
from privot.data.record_digest import LANES
from privot.errors import BudgetError, UsageError
from privot.guarantee import Adjacency
from privot.ledger.ledger_rows import BUDGET, CHARGE, RESERVE, Row, canonical, charge_body, charged, event_text, now
from privot.ledger.refusal import refusal
from privot.ledger.tally import Draws, MarkedCharges, Offer, budget_of, filter_of, offered
from privot.mechanisms.mechanism import Facts
from privot.vault.array_records import _Records
from privot.vault.partitioned_records import PartitionedRecords
from privot.vault.record_sources import RecordSource, record_source

if TYPE_CHECKING:
    from privot.ledger import Ledger

_UNNAMED = "0" * 64
"""The fingerprint in rows that lie in memory, where there is one data set."""


def _used(seed: int) -> UsageError:
    return UsageError(
        f"The seed {seed} was already used on these records, and the guarantee needs new directions: "
        "give another seed, or none."
    )


class MemoryBudget:
    """The budget of a vault without a ledger: it is lost with the vault, and works in one process only.

    It accepts and refuses what a ledger does, by the same rows, which lie in memory.
    """

    def __init__(self, epsilon: float, delta: float, adjacency: Adjacency, unit: str | None) -> None:
        self.epsilon, self.delta = check_epsilon(epsilon), check_delta(delta)
        terms = {"epsilon": self.epsilon, "delta": self.delta, "adjacency": str(adjacency)}
        if unit is not None:
            terms |= {"unit": unit, "grouping": _UNNAMED}
        self._rows: list[Row] = []
        self._add(BUDGET, canonical(terms), "this vault")
        self._secret = os.urandom(32)
        self._seeds: set[int] = set()
        self._process = os.getpid()

    def charge(self, event: Event, purpose: str, seed: int | None) -> None:
        """Add `event`, or refuse it and change nothing."""
        if seed is not None and seed in self._seeds:
            raise _used(seed)
        offer = self._offered(event, purpose, Draws.WHOLE)
        # what the first takes of the filter is found out when a second comes: seconds, and most vaults see one
        first = not offer.filter.events and offer.due is not None
        self._add(CHARGE, canonical(event_text(event)) if first else charge_body(event, offer.counted), purpose)
        if seed is not None:
            self._seeds.add(seed)

    def reserve(self, event: Event, purpose: str, mark: str) -> None:
        """Charge whole all that the charges with this `mark` may release, as a ledger does."""
        again = any(row.kind == RESERVE and charged(row).mark == mark for row in self._rows)
        offer = self._offered(event, purpose, Draws.PART if again else Draws.NOTHING)
        if not again:
            self._add(RESERVE, charge_body(event, offer.counted, mark), purpose)

    def check(self, event: Event, purpose: str) -> None:
        """Refuse an event that does not fit; change nothing."""
        self._offered(event, purpose, Draws.WHOLE)

    def charges(self, mark: str) -> int:
        """How many charges carry `mark` in their purpose."""
        return sum(mark in row.note for row in self._rows if row.kind == CHARGE)

    def remaining(self) -> float:
        """The ε that is left, as a ledger counts it."""
        budget = budget_of(self._rows, _UNNAMED)
        assert budget is not None
        return filter_of(self._rows, budget).left

    def secret_of(self, salt: bytes) -> bytes:
        """32 bytes that follow from `salt` and from a secret of this budget, which goes with it."""
        return hmac.digest(self._secret, b"privot shared release" + salt, hashlib.sha256)

    path = identity = None
    """No ledger, so no file and no name of one."""

    def _offered(self, event: Event, purpose: str, draws: Draws) -> Offer:
        if os.getpid() != self._process:
            raise BudgetError("A forked process cannot share a budget kept in memory: give the vault a ledger.")
        offer = offered(self._rows, _UNNAMED, event, purpose, draws)
        if not offer.fits:
            raise refusal(offer, event, purpose)
        return offer

    def _add(self, kind: str, body: str, note: str) -> None:
        self._rows.append(Row(len(self._rows) + 1, kind, _UNNAMED, body, note, now(), ""))


class LedgerBudget:
    """A ledger's account of these records, opened with `terms` = (ε, δ) if there is none yet.

    A ledger that guards other records refuses, unless `new_records` states that these are new. The records are *all*
    rows, whatever the `unit` and however many of its rows take part: they have one budget, and it is for one unit and
    one grouping: the same rows under other owners are refused.
    """

    def __init__(
        self,
        ledger: Ledger,
        source: RecordSource,
        terms: tuple[float, float] | None,
        adjacency: Adjacency,
        label: str,
        new_records: bool = False,
        unit: str | None = None,
    ) -> None:
        self._ledger = ledger
        self._data = account_name(ledger, source)
        grouping = None if unit is None else grouping_name(ledger, source)
        found = ledger.admit(self._data, new_records=new_records)
        if found is None:
            if terms is None:
                raise UsageError(
                    "The ledger knows no budget for these records: give the vault budget=(ε, δ) to set one."
                )
            stated: dict[str, Any] = {"new_records": new_records, "by_sum": True, "unit": unit, "grouping": grouping}
            stated["tables"] = sorted({name for _, name in _names_alone(ledger, source)})
            found = ledger.set_budget(self._data, *terms, adjacency, label, **stated)
        elif terms is not None and terms not in ((e, found.delta) for e in (found.first_epsilon, found.epsilon)):
            raise UsageError(
                f"The ledger already grants these records ε = {found.epsilon:g} at δ = {found.delta:g}: "
                "a budget is set once, so leave it out or give the same."
            )
        if found.adjacency is not adjacency:
            raise UsageError(
                f"The ledger's budget is under {found.adjacency}, the vault was made under {adjacency}: "
                "use the ledger's."
            )
        if found.unit != unit:
            raise UsageError(
                f"The ledger's budget protects one {found.unit or RECORD}, the vault was made for one "
                f"{unit or RECORD}: these records have one budget, so use the ledger's unit."
            )
        # ε adds up only for one grouping: under another, a unit is made of rows of many
        if found.grouping != grouping:
            raise UsageError(
                f"The ledger's budget holds for other values of {unit}, or other labels: these records were grouped "
                f"otherwise when it was set, so give each record the {unit} and the label (or none) that it had then."
            )
        self.delta, self._grouping = found.delta, grouping

    def charge(self, event: Event, purpose: str, seed: int | None) -> None:
        """Write `event` to the ledger, or let it refuse."""
        if seed is None:
            self._ledger.charge(self._data, event, purpose)
            return
        mark = f" [seed {seed}]"
        self._check_unused(seed)
        self._ledger.charge(self._data, event, purpose + mark)
        # another process may have charged between the look and the charge: then neither may run
        if self._times(mark) > 1:
            raise _used(seed)

    def check(self, event: Event, purpose: str) -> None:
        """Let the ledger refuse what it would refuse now; nothing is written."""
        self._ledger.check(self._data, event, purpose)

    def reserve(self, event: Event, purpose: str, mark: str) -> None:
        """Let the ledger charge whole what a job may release under the charges that carry `mark`, or refuse."""
        self._ledger.reserve(self._data, event, purpose, mark)

    @property
    def data(self) -> str:
        """The ledger's name for these records."""
        return self._data

    @property
    def path(self) -> Path:
        """The file of the ledger."""
        return self._ledger.path

    def knows(self, mark: str) -> bool:
        """Whether a charge or a reservation carries `mark`."""
        return any(mark in row.purpose for row in (*self._ledger.entries(), *self._ledger.reservations()))

    def content_name(self, records: _Records | PartitionedRecords) -> str:
        """The ledger's name for the very records that a vault holds, with their labels; whose they are too."""
        unit = records.facts.unit
        # a SHA-256 of each row, or numbers for each class
        width, row = (1, 32) if records.in_one_place or unit is not None else (8, 1 + LANES)
        known = {"x": np.frombuffer(records.exact_digest(self.row_key), dtype=f"<u{width}")}
        if unit is None:
            known["x"] = known["x"].reshape(-1, row)
        else:
            told = f"{unit!r} {self._grouping}".encode("utf-8", "surrogatepass")
            known["unit"] = np.frombuffer(told, dtype=np.uint8)
        return self._ledger.fingerprint(known)

    def charges(self, mark: str) -> int:
        """How many charges of these records carry `mark` in their purpose, and what they were for."""
        return MarkedCharges.among(self._ledger.entries(self._data), mark)

    def remaining(self) -> float:
        """The ε that is left to these records in the ledger."""
        return self._ledger.remaining(self._data)

    @property
    def identity(self) -> str:
        """The public name of the ledger."""
        return self._ledger.identity

    @property
    def row_key(self) -> bytes:
        """The key under which this ledger adds up hashes of rows."""
        return row_key(self._ledger)

    def secret_of(self, salt: bytes) -> bytes:
        """32 bytes that follow from `salt` and from the ledger's key: nobody without that key finds them."""
        name = "secret of a release that can be made again"
        return bytes.fromhex(self._ledger.fingerprint({name: np.frombuffer(salt, dtype=np.uint8)}))

    def charged_once(self, mark: str) -> bool:
        """Whether this `mark` paid for a release before."""
        return bool(self._times(_once(mark)))

    def charge_once(self, event: Event, purpose: str, mark: str, seed: int | None = None) -> None:
        """Write `event` to the ledger unless this `mark` paid for it before, or let it refuse."""
        ending = _once(mark)
        # two processes at once may both charge: that over-counts, and they release the same value
        if self._times(ending):
            return
        if seed is not None:
            self._check_unused(seed)
            ending = f" [seed {seed}]{ending}"
        self._ledger.charge(self._data, event, purpose + ending)

    def _check_unused(self, seed: int) -> None:
        if any(f" [seed {seed}]" in entry.purpose for entry in self._ledger.entries(self._data)):
            raise _used(seed)

    def _times(self, mark: str) -> int:
        return sum(entry.purpose.endswith(mark) for entry in self._ledger.entries(self._data))


def opened_budget(
    ledger: Ledger | None,
    source: RecordSource,
    terms: tuple[float, float] | None,
    facts: Facts,
    label: str,
    new_records: bool,
) -> MemoryBudget | LedgerBudget:
    """The budget of the records of a vault with these `facts`: the ledger's, or one in memory."""
    unit = None if facts.unit is None else facts.unit.name
    if ledger is None:
        assert terms is not None
        return MemoryBudget(*terms, facts.adjacency, unit)
    return LedgerBudget(ledger, source, terms, facts.adjacency, label, new_records, unit)


def _once(mark: str) -> str:
    return f" [once {mark}]"


def row_key(ledger: Ledger) -> bytes:
    """The key of 32 bytes under which hashes of rows are added up for this ledger: a keyed hash of the ledger's own."""
    return bytes.fromhex(ledger.fingerprint({"key of the sum of hashes of rows": np.zeros(0)}))


def account_name(ledger: Ledger, records: Any) -> str:
    """The name under which a ledger has, or would have, a budget for these records, or for a source of them.

    It is a keyed hash of `records_digest`, the same however the records are cut. Ledgers made before that knew rows by
    `row_digests`, which needs all of them in one place: rows in memory are recognised by it; partitions cannot be
    compared with it, so a ledger that has such a budget refuses them, because they might be the very records.

    Related tables are one data set. A ledger with a budget for one of them alone, with or without the orphans that are
    dropped, refuses: the people in it would get a second one. So does a ledger with a budget for one of them together
    with others, whether it is given alone or with other tables.
    """
    source = record_source(records)
    alone = _names_alone(ledger, source)
    for table, name in alone:
        if ledger.budget(name) is not None:
            raise UsageError(
                f"The ledger {ledger.path.name!r} has a budget for {table!r} alone, and together with other tables "
                "its rows would get a second one: release from that table alone, or begin with related tables."
            )
    found = _name_of(ledger, source)
    names = {name for _, name in alone} or {found}
    if ledger.budget(found) is None and any(not names.isdisjoint(known.tables) for known in ledger.datasets()):
        raise UsageError(
            f"The ledger {ledger.path.name!r} has a budget for these rows together with other related tables, and they "
            "would get a second one: release from the same tables together."
        )
    return found


def _names_alone(ledger: Ledger, source: RecordSource) -> list[tuple[str, str]]:
    """Each related table and the name that it has, or would have, as a data set by itself; not of empty tables."""
    return [(table, _name_of(ledger, rows)) for table, rows in source.alone]


def _name_of(ledger: Ledger, source: RecordSource) -> str:
    name = ledger.fingerprint({source.naming: source.named(row_key(ledger))})
    if ledger.budget(name) is not None or all(known.by_sum for known in ledger.datasets()):
        return name
    older = source.older_names()
    if older is None:
        raise UsageError(
            f"The ledger {ledger.path.name!r} was made before partitioned data and cannot tell whether these are the "
            "records it guards: give the records in one file, or other records a ledger of their own."
        )
    known = (ledger.fingerprint({source.naming: digest}) for digest in older)
    return next((earlier for earlier in known if ledger.budget(earlier) is not None), name)


def owner_key(ledger: Ledger) -> bytes:
    """The key of 32 bytes under which hashes of rows with their owners are added up for this ledger."""
    return bytes.fromhex(ledger.fingerprint({"key of the sum of hashes of rows with their owners": np.zeros(0)}))


def expect_ledger(records: Any, ledger: Ledger) -> None:
    """Let the first pass over partitions name the records, and whose they are, for this ledger."""
    record_source(records).expect(row_key(ledger), owner_key(ledger))


def grouping_name(ledger: Ledger, source: RecordSource) -> str:
    """What a ledger knows by whose each row is: a keyed hash of (owner, row, label), the same in any order.

    Partitions know owners and labels themselves, and have the same name as the rows in one place.
    """
    return ledger.fingerprint({"owned": source.named_owners(owner_key(ledger))})
