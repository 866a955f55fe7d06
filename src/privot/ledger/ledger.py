"""The ledger itself: budgets are set once; a charge passes the budget's filter and is written first; so is a raise.

It may read events and files beside its own; it never sees a record except to take its fingerprint, and it
draws no noise. One file guards one data set: other records in it have to be stated to be new, and the statement is
sealed like every row. What the ledger promises stands with `Ledger`; why it holds, in `accounting.privacy_filter`.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from threading import RLock
from types import TracebackType
from typing import Any, Self

from numpy.typing import NDArray

from privot.accounting.events import Event
from privot.common import interruption
from privot.common.arguments import check_delta, check_epsilon
from privot.common.declared import declared
from privot.common.files import sync
from privot.errors import DataError, UsageError
from privot.guarantee import Adjacency, Guarantee
from privot.ledger import chain
from privot.ledger.anchor import Anchor
from privot.ledger.fingerprints import fingerprint
from privot.ledger.ledger_facts import ledger_html
from privot.ledger.ledger_files import beside, ledger_path
from privot.ledger.ledger_key import Key
from privot.ledger.ledger_rows import (
    BUDGET,
    CHARGE,
    HEADER,
    RAISE,
    RESERVE,
    Budget,
    Entry,
    Reservation,
    Row,
    as_budget,
    as_entry,
    as_reservation,
    canonical,
    charge_body,
    charged,
    check_fingerprint,
    check_note,
    checked_grouping,
    now,
)
from privot.ledger.refusal import other_records, refusal
from privot.ledger.sqlite_store import FILTER_VERSION, SCHEMA_VERSION, UNIT_VERSION, Store
from privot.ledger.tally import (
    Draws,
    budget_of,
    budgets_of,
    charges_of,
    entries_of,
    filter_of,
    is_older,
    offered,
    reservations_of,
    spent_of,
)


class Ledger:
    """What a data set may spend and has spent, in one file that only grows.

    Make one with `Ledger.create`, come back with `Ledger.open`. A `Vault` that is given a ledger sets the budget and
    charges it; few people call `set_budget` and `charge` themselves. Several processes and threads may share one file.
    Every answer is given only after all seals have been checked. A ledger never sees a record except to take a
    fingerprint of it.

    Notes
    -----
    Formal guarantees:
      * when `charge` or `reserve` returns, the row is on disk;
      * all releases of a data set that were charged, whoever chose them and whatever earlier releases led to them, are
        together (ε, δ)-differentially private with the budget's ε and δ: the ledger is a privacy filter
        (`privot.accounting.privacy_filter`), which is more than composing what happened to be charged would prove;
      * a process that dies at any moment leaves either no row or a row that counts: it can only over-count;
      * a row that was changed, removed or put in is found, by a keyed hash chain and an anchor beside the file. An
        attacker who has the key file can forge both.

    One file guards one data set. Other records in it have to be stated to be new (`OtherRecordsError`), and the
    statement is sealed like every row.

    Raises
    ------
    CorruptLedgerError
        By every method, if the file, its key or its anchor do not agree.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> import numpy as np
    >>> from privot import Vault
    >>> from privot.mechanisms import RandomProjection
    >>> with TemporaryDirectory() as folder, Ledger.create(Path(folder) / "clinic.ledger") as ledger:
    ...     stated = {"clip": 0.5, "adjacency": "replace-one", "ledger": ledger, "label": "clinic"}
    ...     vault = Vault(np.eye(8), budget=(10.0, 1e-5), **stated)
    ...     _ = vault.release(RandomProjection(slices=4, sigma=2.0), purpose="a first look")
    ...     [(entry.purpose, entry.id) for entry in ledger.entries()], ledger.verify()
    ([('a first look', 3)], 3)
    """

    @declared(store="privot.ledger.sqlite_store:Store")
    def __init__(self, store: Store, key: Key) -> None:
        self._store = store
        self._key = key
        self._turn = RLock()
        self._known: list[Row] = []

    @classmethod
    @declared(path="path")
    def create(cls, path: str | os.PathLike[str]) -> Ledger:
        """Make a new ledger at `path`, with its key and anchor beside it; never touches an existing file."""
        file = ledger_path(path)
        made: list[Path] = []
        if os.path.lexists(file):
            raise UsageError(f"{file} exists already: open it, or choose another name.")
        for ending in (".anchor", "-wal", "-journal"):
            # SQLite would play another ledger's log into the new one
            if os.path.exists(beside(file, ending)):
                raise UsageError(f"{beside(file, ending)} is left from another ledger: choose another name.")
        try:
            os.close(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
            made.append(file)
            key = Key.create(file)
            made += [beside(file, e) for e in (".key", ".anchor", ".anchor.new", "-wal", "-shm", "-journal")]
            store = Store(file)
            try:
                store.keep_log()
                body = canonical({"schema": SCHEMA_VERSION})
                first = chain.next_row(key.chain, [], HEADER, "", body, "privot ledger", now())
                with store.writing():
                    store.build()
                    store.append(first)
                    # before the commit: a ledger without an anchor would look robbed of it
                    Anchor(1, first.mac).write(file, key.anchor)
                # the names too: a key lost in a power cut is a ledger lost
                sync(file.parent)
            except BaseException:
                store.close()
                raise
        except FileExistsError:
            raise UsageError(f"{file} exists already: open it, or choose another name.") from None
        except BaseException as error:
            for leftover in made:
                with suppress(OSError):
                    leftover.unlink()
            if isinstance(error, OSError):
                raise DataError(f"No ledger can be made at {file} ({error.strerror}).") from None
            raise
        return cls(store, key)

    @classmethod
    @declared(path="path")
    def open(cls, path: str | os.PathLike[str]) -> Ledger:
        """Open the ledger at `path`; needs its key and anchor, and checks every seal."""
        file = ledger_path(path)
        store = Store(file)
        try:
            store.recognise()
            ledger = cls(store, Key.read(file))
            ledger._rows()
        except BaseException:
            store.close()
            raise
        return ledger

    @property
    def path(self) -> Path:
        """Where the ledger stands."""
        return self._store.path

    @property
    def identity(self) -> str:
        """A public name that no other ledger has, and that stays: SHA-256 of the seal of its first row.

        Copies of one ledger share it; that rows are missing from an old copy is for the anchor to say.
        """
        return hashlib.sha256(f"privot ledger {self._snapshot()[0].mac}".encode()).hexdigest()

    def __repr__(self) -> str:
        return f"Ledger({str(self.path)!r})"

    def _repr_html_(self) -> str:
        return ledger_html(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the file; nothing is lost without it."""
        with self._turn:
            self._store.close()

    def fingerprint(self, arrays: Mapping[str, NDArray[Any]]) -> str:
        """The name of a data set in this ledger: a keyed hash of its arrays, which are read and not kept."""
        return fingerprint(self._key.fingerprint, arrays)

    def set_budget(
        self,
        fingerprint: str,
        epsilon: float,
        delta: float,
        adjacency: Adjacency | str,
        label: str,
        *,
        new_records: bool = False,
        by_sum: bool = False,
        unit: str | None = None,
        grouping: str | None = None,
        tables: Sequence[str] = (),
    ) -> Budget:
        """Say what a data set may spend: ε at δ under `adjacency`. Only `raise_budget` changes it.

        The same terms a second time change nothing, not even the label; other terms are refused. A ledger that guards
        another data set already refuses (`OtherRecordsError`) unless `new_records` states that these are records of
        others, not the guarded ones with a value changed; the statement is written down with the budget. `by_sum` says
        that the fingerprint is of a sum over rows, as a vault takes it: partitions can be compared with it. `unit`
        names the column whose values tell units apart, if everything of one unit is protected and not one record, and
        `grouping` is a fingerprint of whose each record is, as a vault takes it; a data set has one budget, whatever
        the unit, and it holds for that grouping alone. `tables` are, of related tables, the fingerprints that each of
        them would have by itself, so that a vault can tell that one of them alone is not new.
        """
        check_fingerprint(fingerprint)
        terms: dict[str, Any] = {
            "epsilon": check_epsilon(epsilon),
            "delta": check_delta(delta),
            "adjacency": str(Adjacency.parse(adjacency)),
        }
        unit, grouping = checked_grouping(unit, grouping)
        if unit is not None:
            terms |= {"unit": unit, "grouping": grouping}
        check_note("label", label)
        with self._turn:
            with self._store.writing():
                rows = self._rows()
                budget = self._admitted(rows, fingerprint, new_records)
                if budget is None:
                    if any(row.kind == BUDGET for row in rows):
                        terms["new_records"] = True
                    if by_sum:
                        terms["by_sum"] = True
                    if tables:
                        terms["tables"] = sorted(check_fingerprint(table) for table in tables)
                    if unit is not None:
                        self._store.raise_version(UNIT_VERSION)
                    row = self._append(rows, BUDGET, fingerprint, canonical(terms), label)
            if budget is None:
                self._anchor(row)
                return as_budget(row)
        wanted = (terms["delta"], terms["adjacency"], unit, grouping)
        known = (budget.first_epsilon, budget.epsilon)
        if terms["epsilon"] not in known or wanted != (
            budget.delta, str(budget.adjacency), budget.unit, budget.grouping
        ):  # fmt: skip
            raise UsageError(
                f"The data set {budget.label!r} has a budget already, ε = {budget.epsilon!r} at "
                f"δ = {budget.delta!r}, {budget.relation}: it is set once, and only its steward can raise it."
            )
        return budget

    def raise_budget(self, fingerprint: str, epsilon: float, reason: str, *, i_am_the_steward: bool = False) -> Budget:
        """Raise what a data set may spend to `epsilon`, at the δ and adjacency of its budget.

        What was promised to the people in the data was the old budget, so a raise is the steward's decision: it needs
        the statement `i_am_the_steward`, and a reason, which is sealed in the ledger and shown with the budget for
        ever. Nothing that was released changes.

        Raises `UsageError` without that statement, for a data set without a budget, and for an ε that is not greater.
        """
        check_fingerprint(fingerprint)
        check_epsilon(epsilon)
        check_note("reason", reason)
        if i_am_the_steward is not True:
            raise UsageError(
                "Only the steward of the data may raise a budget that was promised: state that you are the steward."
            )
        with self._turn:
            with self._store.writing():
                rows = self._rows()
                budget = budget_of(rows, fingerprint)
                if budget is None:
                    raise UsageError("This data set has no budget in the ledger: set one first.")
                if not epsilon > budget.epsilon:
                    raise UsageError(
                        f"A raise must exceed the budget, which is ε = {budget.epsilon!r}, got {epsilon!r}: a budget "
                        "is never lowered, so spend less."
                    )
                row = self._append(rows, RAISE, fingerprint, canonical({"epsilon": float(epsilon)}), reason)
            self._anchor(row)
        return budget.raised(row)

    def charge(self, fingerprint: str, event: Event, purpose: str) -> Entry:
        """Charge a data set for `event`, which may be released once this has returned and not before.

        It takes nothing of the budget where a `reserve` of the same job covers it. Raises `BudgetError`, naming the
        entries that spent the budget, and writes nothing when `event` does not pass the budget's filter, costs an
        infinite ε, or is under another adjacency or for another unit.
        """
        row = self._write(CHARGE, fingerprint, event, purpose)
        assert row is not None
        return as_entry(row)

    def reserve(self, fingerprint: str, event: Event, purpose: str, mark: str) -> Reservation | None:
        """Charge whole, before its first release, all that a job may release under the charges that carry `mark`.

        A job that pays in blocks or parts is then one event to the filter, which costs least; its charges draw on what
        is reserved and take nothing more. What is never charged stays reserved. A mark reserves once: a second time
        only what goes beyond it is checked, and the answer is None. Raises `BudgetError` as `charge` does, and then
        writes nothing.
        """
        check_note("mark", mark)
        if mark not in purpose:
            raise UsageError("The purpose of a reservation carries the mark of the charges that will draw on it.")
        row = self._write(RESERVE, fingerprint, event, purpose, mark)
        return None if row is None else as_reservation(row)

    def check(self, fingerprint: str, event: Event, purpose: str) -> None:
        """Refuse what the budget would refuse to `charge` now, and write nothing."""
        offer = offered(self._snapshot(), check_fingerprint(fingerprint), event, purpose, Draws.WHOLE)
        if not offer.fits:
            raise refusal(offer, event, purpose)

    def _write(self, kind: str, fingerprint: str, event: Event, purpose: str, mark: str = "") -> Row | None:
        """The row that charges or reserves `event`; None where the job has reserved before."""
        check_fingerprint(fingerprint)
        check_note("purpose", purpose)
        # refuses an event that cannot be written down
        charge_body(event, None)
        row: Row | None = None
        with self._turn:
            with self._store.writing():
                rows = self._rows()
                again = any(charged(row).mark == mark for row in reservations_of(rows, fingerprint))
                draws = Draws.WHOLE if kind == CHARGE else Draws.PART if again else Draws.NOTHING
                offer = offered(rows, fingerprint, event, purpose, draws)
                if offer.fits and (kind == CHARGE or not again):
                    self._store.raise_version(FILTER_VERSION)
                    body = charge_body(offer.due or event, offer.counted, mark)
                    row = self._append(rows, kind, fingerprint, body, purpose)
            if row is not None:
                self._anchor(row)
        # the lock is free again: finding out what each entry cost may take a while
        if not offer.fits:
            raise refusal(offer, event, purpose)
        return row

    def holds(self, number: int, seal: str) -> bool:
        """Whether row `number` is there with this `seal`: what an interrupted process began to write, and finished."""
        rows = self._snapshot()
        return 0 < number <= len(rows) and rows[number - 1].mac == seal

    def budget(self, fingerprint: str) -> Budget | None:
        """The budget of a data set, if it has one."""
        return budget_of(self._snapshot(), check_fingerprint(fingerprint))

    def admit(self, fingerprint: str, *, new_records: bool = False) -> Budget | None:
        """The budget of a data set; None if it has none and may be given one.

        Raises `OtherRecordsError` where the ledger guards other records, unless `new_records` states that these are
        new. Nothing is written.
        """
        return self._admitted(self._snapshot(), check_fingerprint(fingerprint), new_records)

    def datasets(self) -> list[Budget]:
        """Every data set of the ledger, as its budget, in the order they were set."""
        return budgets_of(self._snapshot())

    def entries(self, fingerprint: str | None = None) -> list[Entry]:
        """Every charge, or those of one data set, oldest first."""
        if fingerprint is not None:
            check_fingerprint(fingerprint)
        return entries_of(charges_of(self._snapshot(), fingerprint))

    def reservations(self, fingerprint: str | None = None) -> list[Reservation]:
        """Everything that was reserved, or what was of one data set, oldest first."""
        if fingerprint is not None:
            check_fingerprint(fingerprint)
        return [as_reservation(row) for row in reservations_of(self._snapshot(), fingerprint)]

    def spent(self, fingerprint: str, mark: str = "") -> Guarantee | None:
        """What all charges and reservations of a data set come to, at its budget's δ; None before the first.

        Its ε is the smallest that a budget had to have to accept them, one after another: what is promised of whoever
        chose them. For one charge, and for Gaussians only, that is the accountant's ε of all together; else it is a
        little more. With `mark`: what those charges alone whose purpose contains it cost by themselves, exactly.
        """
        rows = self._snapshot()
        budget = budget_of(rows, check_fingerprint(fingerprint))
        return None if budget is None else spent_of(rows, budget, mark)

    def remaining(self, fingerprint: str) -> float:
        """The ε of the largest Gaussian mechanism that may still be charged, at the budget's δ.

        Other mechanisms of that ε take a little more; `charge` decides what fits.
        """
        rows = self._snapshot()
        budget = budget_of(rows, check_fingerprint(fingerprint))
        if budget is None:
            raise UsageError("This data set has no budget in the ledger: set one first.")
        return filter_of(rows, budget).left

    def verify(self) -> int:
        """Check every row, every seal, the anchor and the file's pages; returns the number of rows."""
        with self._turn:
            self._known = []
            rows = self._rows()
            for row in rows:
                if row.kind in (CHARGE, RESERVE):
                    charged(row)
            # reads every budget with its raises
            budgets_of(rows)
            self._store.check_pages()
        return len(rows)

    def _admitted(self, rows: list[Row], fingerprint: str, new_records: bool) -> Budget | None:
        budget = budget_of(rows, fingerprint)
        guarded = [] if budget is not None or new_records is True else [r for r in rows if r.kind == BUDGET]
        if guarded:
            raise other_records(self.path, [as_budget(row) for row in guarded])
        return budget

    def _snapshot(self) -> list[Row]:
        with self._turn:
            return self._rows()

    def _rows(self) -> list[Row]:
        # the anchor first: a charge that comes in between may then only put rows ahead of it, never behind
        anchor = Anchor.read(self.path, self._key.anchor)
        before = self._store.recognise()
        self._known = chain.checked(self._key.chain, anchor, self._store.rows(), self._known)
        # the version rises with the first row that needs it, which may have come since it was read
        needed = _version(self._known)
        if (before if needed == SCHEMA_VERSION else self._store.version()) != needed:
            raise self._store.changed()
        return self._known

    def _append(self, rows: list[Row], kind: str, fingerprint: str, body: str, note: str) -> Row:
        row = chain.next_row(self._key.chain, rows, kind, fingerprint, body, note, now())
        # noted first: whether it was written, `holds` tells whoever is interrupted
        interruption.written.append(interruption.Written(str(self.path), kind, row.id, row.mac))
        self._store.append(row)
        return row

    def _anchor(self, row: Row) -> None:
        """Bring the anchor up to `row` unless a later charge did; under the lock, so it never goes back."""
        with self._store.locked():
            if Anchor.read(self.path, self._key.anchor).count < row.id:
                Anchor(row.id, row.mac).write(self.path, self._key.anchor)


def _version(rows: list[Row]) -> int:
    """The version of a file with these rows."""
    if any(row.kind == RESERVE or (row.kind == CHARGE and not is_older(row)) for row in rows):
        return FILTER_VERSION
    units = any(row.kind == BUDGET and as_budget(row).unit is not None for row in rows)
    return UNIT_VERSION if units else SCHEMA_VERSION
