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

BUILT_IN = ("digits",)
"""Data that comes with privot and belongs to nobody."""


def default_ledger(data: str, out: Path) -> Path:
    """One ledger per data set: beside its file, whatever link led there; beside `out` for built-in data.

    A pattern and the folder that it looks in have one ledger, beside that folder. Addresses lie beside nothing.
    """
    from privot.errors import UsageError
    from privot.opening.remote_files import fixed_part, is_remote

    if data in BUILT_IN:
        return out.parent / f"{data}.ledger"
    if is_remote(data):
        raise UsageError("Records at an address lie beside no ledger: name the ledger file with --ledger.")
    file = Path(realpath(fixed_part(data)))
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
    from privot.vault.record_files import file_label

    return file_label(data)


@contextmanager
def naming_the_option() -> Iterator[None]:
    """Add the option that states new records to the refusal of records that the ledger does not guard."""
    from privot.errors import OtherRecordsError

    try:
        yield
    except OtherRecordsError as error:
        raise OtherRecordsError(f"{str(error).removesuffix('.')} (--new-records).") from None


def open_vault(book: Ledger, *, terms: tuple[float, float] | None, new_records: bool, **held: Any) -> Vault:
    """A vault on the budget that `book` has for these records, else on a new one of `terms` = (ε, δ)."""
    from privot.vault import Vault
    from privot.vault.partitioned_records import digest_of

    with naming_the_option():
        name = book.fingerprint({"x": digest_of(held["x"])})
        known = book.admit(name, new_records=new_records) is not None
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
