"""What the commands ask a ledger: where it lies, a vault on its budget, and how often a job was charged."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from os.path import realpath
from pathlib import Path
from typing import TYPE_CHECKING, Any

from privot.common.visible import command_line

if TYPE_CHECKING:
    from privot.errors import UsageError
    from privot.ledger import Ledger
    from privot.vault import Vault

MAX_LEDGERS = 100
"""Ledgers of one folder that are looked at for copies."""
BUILT_IN = ("digits",)
"""Data that comes with privot and belongs to nobody."""
ENDING = ".ledger"
TOGETHER = "+"
"""Between the names of related tables in the name of their ledger."""


def default_ledger(data: str, out: Path) -> Path:
    """One ledger per data set: beside its file, whatever link led there; beside `out` for built-in data.

    Several files, addresses and queries have none. Nor has a file for which a new ledger would be made while one lies
    near it that may guard its records under another name: that of its folder, or one named for nothing beside it.
    """
    from privot.errors import UsageError
    from privot.partitions.source_opening import is_partitioned

    if data in BUILT_IN:
        return out.parent / f"{data}.ledger"
    if is_partitioned(data, None):
        raise UsageError(
            "Records in several files, at an address or in a database lie beside no ledger: name the one ledger of "
            "these records with --ledger."
        )
    file = Path(realpath(data))
    place = file.with_name(file.name + ENDING)
    near = [] if place.exists() else ledgers_near(file)
    if near:
        raise UsageError(
            f"{str(near[0])!r} may guard the records of {file.name!r} already, and a second ledger would be a second "
            "budget: name the ledger of these records with --ledger."
        )
    return place


def refuse_guarded(*data: str) -> None:
    """Refuse data that a ledger lies beside: what somebody keeps a budget for is not open. No ledger is opened."""
    from privot.errors import UsageError

    for each in data:
        if each in BUILT_IN:
            continue
        file = Path(realpath(each))
        place = file.with_name(file.name + ENDING)
        found = [place] if place.exists() else ledgers_near(file)
        if found:
            raise UsageError(
                f"{str(found[0])!r} guards the records of {file.name!r}, or may: what a ledger guards is not open data."
            )


def ledgers_near(file: Path) -> list[Path]:
    """Ledgers that may have been used for `file` together with others."""
    folder = file.parent
    found = [folder.with_name(folder.name + ENDING)] if folder.name else []
    for ledger in sorted(folder.glob("*" + ENDING)):
        of = ledger.name.removesuffix(ENDING)
        if of in BUILT_IN or (folder / of).exists():
            continue
        # the ledger of related tables is named for all of them, and guards no other file
        together = of.split(TOGETHER)
        named = len(together) > 1 and all((folder / name).exists() for name in together)
        # by the joined name: a file's own name may hold the mark
        if not named or TOGETHER + file.name + TOGETHER in TOGETHER + of + TOGETHER:
            found.append(ledger)
    # a ledger has its key beside it
    return [ledger for ledger in found if ledger.is_file() and ledger.with_name(ledger.name + ".key").exists()]


def check_ledger_file(path: Path) -> None:
    """Refuse a folder where the file of a ledger is expected."""
    from privot.errors import UsageError

    if not path.name or path.is_dir():
        raise UsageError(f"The ledger must be a file, and {str(path)!r} is a folder: name a file with --ledger.")


def open_ledger(path: Path, only_open: bool) -> Ledger:
    """The ledger at `path`. With `only_open` none is created: a new one would not know the charge of a resumed job."""
    from privot.errors import UsageError
    from privot.ledger import Ledger

    check_ledger_file(path)
    if only_open or path.exists():
        return Ledger.open(path)
    if path.parent.exists() and not os.access(path.parent, os.W_OK):
        raise UsageError(f"No ledger can be created in {path.parent}: choose another place with --ledger FILE.")
    path.parent.mkdir(parents=True, exist_ok=True)
    return Ledger.create(path)


@contextmanager
def paying_ledger(
    data: str, named: Path | None, out: Path, *, may_be_new: bool = False
) -> Iterator[tuple[Ledger, bool]]:
    """The ledger that pays for one release, and whether it may set a budget for records that it does not know.

    Only the ledger beside the data may be new. One that is named elsewhere has a budget for the records: otherwise a
    mistyped name would be a second budget for the same people. With `may_be_new` a named one may be new as well.
    """
    own = may_be_new or named is None or _lies_beside(named, data)
    with open_ledger(default_ledger(data, out) if named is None else named, only_open=not own) as book:
        yield book, own


def _lies_beside(ledger: Path, data: str) -> bool:
    """Whether this is the place of the ledger that a file has without naming one."""
    from privot.partitions.source_opening import is_partitioned

    if data in BUILT_IN or is_partitioned(data, None):
        return False
    file = Path(realpath(data))
    return Path(realpath(ledger)) == file.with_name(file.name + ENDING)


def label_of(data: str | Path) -> str:
    """The name under which a ledger lists the records of a file: the file's own, whatever link leads to it."""
    from privot.kinds.record_places import file_label

    return file_label(data)


@contextmanager
def naming_the_option() -> Iterator[None]:
    """Add the option that states new records to the refusal of records that the ledger does not guard."""
    from privot.errors import OtherRecordsError

    try:
        yield
    except OtherRecordsError as error:
        raise OtherRecordsError(f"{str(error).removesuffix('.')} (--new-records).") from None


def warn_of_copies(book: Ledger, rows: Any, *places: str | Path) -> None:
    """Warn of other ledgers in reach that guard these very records, before they get a second budget.

    In reach is every `.ledger` file beside `book` and beside the `places`, and one folder up. A copy of a file keeps
    its records, and the people in them would be promised two budgets. A file that cannot be read as a ledger is named:
    whether it guards them is not known then, nor of a ledger older than partitions. Any other failure is not hidden.
    Partitions are read once for all these ledgers.
    """
    from privot.cli.printing.command_warnings import warn
    from privot.errors import DataError, PrivotError, UsageError
    from privot.ledger import Ledger
    from privot.vault.budget import account_name, row_key
    from privot.vault.record_sources import record_source

    if any(place in BUILT_IN for place in places):
        return
    others, rows = _others_near(book, places), record_source(rows)
    keys = [row_key(book)]
    for path in others:
        with suppress(PrivotError, OSError), Ledger.open(path) as other:
            keys.append(row_key(other))
    rows.name_under(*keys)
    if book.budget(account_name(book, rows)) is not None:
        return
    for path in others:
        try:
            other = Ledger.open(path)
        except (DataError, OSError) as error:
            why = str(error) if isinstance(error, DataError) else f"it cannot be opened ({error.strerror})"
            warn(f"Whether {path} guards these very records is not known: {why.removesuffix('.')}.")
            continue
        with other:
            try:
                budget = other.budget(account_name(other, rows))
            except UsageError as error:
                # it knows rows by what partitions cannot be compared with
                warn(f"Whether {path} guards these very records is not known: {error}")
                continue
            if budget is not None:
                spent = other.spent(budget.fingerprint)
                cost = 0.0 if spent is None else spent.epsilon()
                warn(
                    f"{path} guards these very records ({budget.label}) and has spent ε = {cost:.4g} of "
                    f"{budget.epsilon:g} at δ = {budget.delta:g}, {budget.relation}: a second budget is a second "
                    f"promise to the same people, so use --ledger {command_line([str(path)])}."
                )


def _others_near(book: Ledger, places: Sequence[str | Path]) -> list[Path]:
    """Every other ledger beside `book` and beside the `places`, and one folder up; a place elsewhere has none."""
    from privot.opening.addresses import local_path
    from privot.opening.remote_files import fixed_part

    found_here = [local_path(place) for place in (book.path, *places)]
    here = [Path(realpath(fixed_part(place))) for place in found_here if place is not None]
    folders = dict.fromkeys(folder for place in here for folder in (place, place.parent, place.parent.parent))
    found: list[Path] = []
    for path in [path for folder in folders if folder.is_dir() for path in _ledgers_in(folder)]:
        with suppress(OSError):
            if not os.path.samefile(path, book.path):
                found.append(path)
    return found


def _ledgers_in(folder: Path) -> list[Path]:
    try:
        return sorted(path for path in folder.glob("*.ledger") if path.is_file())[:MAX_LEDGERS]
    except OSError:
        return []


def open_vault(
    book: Ledger,
    *,
    terms: tuple[float, float] | None,
    new_records: bool,
    where: str | Sequence[str] | None = None,
    **held: Any,
) -> Vault:
    """A vault on the budget that `book` has for these records, else on a new one of `terms` = (ε, δ).

    `where` is the file of the records, or the files, beside which other ledgers are looked for.
    """
    from privot.vault import Vault
    from privot.vault.budget import account_name, expect_ledger
    from privot.vault.record_sources import record_source

    with naming_the_option():
        source = record_source(held["x"], held.get("y"), held.get("units"))
        unit, _ = source.protected(held.get("unit"))
        # whose the records are is named in the same pass over them
        expect_ledger(source, book)
        places = [where] if isinstance(where, str) else list(where or ())
        # a new ledger knows none of the records: partitions are then read once for it and for those near it
        new = not book.datasets()
        if new and terms is not None:
            warn_of_copies(book, source, *places)
        found = book.admit(account_name(book, source), new_records=new_records)
        known = found is not None
        if found is not None and found.unit != unit:
            raise _other_unit(found.unit)
        if not new and not known and terms is not None:
            warn_of_copies(book, source, *places)
        return Vault(**held, ledger=book, budget=None if known else terms, new_records=new_records)


def _other_unit(unit: str | None) -> UsageError:
    """The sentence for records whose one budget is for another unit than the command states."""
    from privot.errors import UsageError

    said = "single records: leave --unit out" if unit is None else f"one {unit}: give --unit {command_line([unit])}"
    return UsageError(f"These records have one budget in the ledger, which protects {said}.")


def check_no_job(out: Path, place: Path) -> None:
    """Refuse a folder that already holds a job, unless nothing of it was paid by its ledger, the one at `place`.

    Such a job is removed: the same command simply begins it again.
    """
    from privot.errors import UsageError
    from privot.jobs.charges import discard_unpaid
    from privot.jobs.job import NAME
    from privot.ledger import Ledger

    if not (out / NAME).exists():
        return
    unpaid = False
    if place.is_file():
        with Ledger.open(place) as book:
            unpaid = discard_unpaid(out, book)
    if not unpaid:
        raise UsageError(f"{out} is not empty: choose another folder, or add --resume to go on with its job.")


@contextmanager
def second_charges() -> Iterator[None]:
    """Add the option that allows a second charge to the refusal of a job whose release was lost."""
    from privot.errors import LostReleaseError

    try:
        yield
    except LostReleaseError as error:
        raise LostReleaseError(f"{error} Add --resume --pay-again to charge a second time.") from None


def check_same_records(new_records: bool) -> None:
    """Refuse `--new-records` for a resumed job: it has a budget, and its folder may not set another."""
    from privot.errors import UsageError

    if new_records:
        raise UsageError(
            "--new-records cannot be combined with --resume: a job goes on with the records it was started with."
        )
