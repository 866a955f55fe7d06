"""What the commands ask a ledger: where it lies, a vault on its budget, and how often a job was charged."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from os.path import realpath
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from privot.ledger import Ledger
    from privot.vault import Vault

MAX_LEDGERS = 100
"""Ledgers of one folder that are looked at for copies."""
BUILT_IN = ("digits",)
"""Data that comes with privot and belongs to nobody."""


def default_ledger(data: str, out: Path) -> Path:
    """One ledger per data set: beside its file, whatever link led there; beside `out` for built-in data."""
    if data in BUILT_IN:
        return out.parent / f"{data}.ledger"
    file = Path(realpath(data))
    return file.with_name(file.name + ".ledger")


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


def label_of(data: str | Path) -> str:
    """The name under which a ledger lists the records of a file: the file's own, whatever link leads to it."""
    return Path(realpath(data)).name


@contextmanager
def naming_the_option() -> Iterator[None]:
    """Add the option that states new records to the refusal of records that the ledger does not guard."""
    from privot.errors import OtherRecordsError

    try:
        yield
    except OtherRecordsError as error:
        raise OtherRecordsError(f"{str(error).removesuffix('.')} (--new-records).") from None


def warn_of_copies(book: Ledger, rows: Any, *places: str | Path) -> None:
    """Say on standard error which other ledgers in reach guard these very records, before they get a second budget.

    In reach is every `.ledger` file beside `book` and beside the `places`, and one folder up. A copy of a file keeps
    its records, and the people in them would be promised two budgets.
    """
    import typer

    from privot.errors import PrivotError
    from privot.ledger import Ledger
    from privot.vault.budget import row_digests

    digests = row_digests(rows)
    if any(place in BUILT_IN for place in places) or book.budget(book.fingerprint({"x": digests})) is not None:
        return
    beside = [Path(realpath(place)).parent for place in (book.path, *places)]
    folders = dict.fromkeys(folder for near in beside for folder in (near, near.parent))
    for path in [path for folder in folders for path in _ledgers_in(folder)]:
        try:
            if os.path.samefile(path, book.path):
                continue
            with Ledger.open(path) as other:
                budget = other.budget(other.fingerprint({"x": digests}))
                spent = None if budget is None else other.spent(budget.fingerprint)
        except (PrivotError, OSError):
            continue  # not a ledger, or not ours to read
        if budget is not None:
            cost = 0.0 if spent is None else spent.epsilon()
            typer.echo(
                f"Warning: {path} guards these very records ({budget.label}) and has spent ε = {cost:.4g} of "
                f"{budget.epsilon:g}: a second budget is a second promise to the same people, so use --ledger {path}.",
                err=True,
            )


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
    where: str | None = None,
    **held: Any,
) -> Vault:
    """A vault on the budget that `book` has for these records, else on a new one of `terms` = (ε, δ).

    `where` is the file of the records, beside which other ledgers are looked for.
    """
    from privot.vault import Vault
    from privot.vault.budget import row_digests

    with naming_the_option():
        name = book.fingerprint({"x": row_digests(held["x"])})
        known = book.admit(name, new_records=new_records) is not None
        if not known and terms is not None:
            warn_of_copies(book, held["x"], *([] if where is None else [where]))
        return Vault(**held, ledger=book, budget=None if known else terms, new_records=new_records)


def check_no_job(out: Path) -> None:
    """Refuse a folder that already holds a job, unless the user asked to resume it."""
    from privot.errors import UsageError
    from privot.jobs.job import NAME

    if (out / NAME).exists():
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
