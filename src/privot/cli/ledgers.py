"""What the commands ask a ledger: a vault on the budget of these records, and how often a job was charged."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from privot.jobs.job import Job
    from privot.ledger import Ledger
    from privot.vault import Vault


def label_of(data: str | Path) -> str:
    """The name by which a ledger lists the records of a file: the file's own, whatever link leads to it."""
    return Path(data).resolve().name


@contextmanager
def naming_the_option() -> Iterator[None]:
    """Add, where a ledger refuses other records than it guards, how new ones are stated on the command line."""
    from privot.errors import OtherRecordsError

    try:
        yield
    except OtherRecordsError as error:
        raise OtherRecordsError(f"{str(error).removesuffix('.')} (--new-records).") from None


def open_vault(book: Ledger, *, terms: tuple[float, float] | None, new_records: bool, **held: Any) -> Vault:
    """A vault on the budget that `book` has for these records, else on a new one of `terms` = (ε, δ)."""
    from privot.vault import Vault
    from privot.vault.budget import row_digests

    with naming_the_option():
        name = book.fingerprint({"x": row_digests(held["x"])})
        known = book.admit(name, new_records=new_records) is not None
        return Vault(**held, ledger=book, budget=None if known else terms, new_records=new_records)


def check_no_job(out: Path) -> None:
    """Refuse a folder that has a job already, where the user did not say to go on with it."""
    from privot.errors import UsageError
    from privot.jobs.job import NAME

    if (out / NAME).exists():
        raise UsageError(f"{out} is not empty: choose another folder, or add --resume to go on with its job.")


@contextmanager
def second_charges() -> Iterator[None]:
    """Say which option allows a second charge, where a release was lost."""
    from privot.errors import LostReleaseError

    try:
        yield
    except LostReleaseError as error:
        raise LostReleaseError(f"{error} Add --resume --pay-again to charge a second time.") from None


def spent_in_ledger(book: Ledger, job: Job) -> dict[str, Any] | None:
    """What `book` holds for the records that `job` paid for, in all and for this job; None where it paid nothing."""
    from privot.jobs.spending import total

    paid = [entry for entry in book.entries() if job.any_mark in entry.purpose]
    if not paid:
        return None
    name = paid[-1].fingerprint
    whole, own = book.spent(name), book.spent(name, job.any_mark)
    return None if whole is None or own is None else total(whole, own, sum(e.fingerprint == name for e in paid))


def check_same_records(new_records: bool) -> None:
    """Refuse `--new-records` for a job that goes on: it has a budget, and its folder may not set another."""
    from privot.errors import UsageError

    if new_records:
        raise UsageError("A job goes on with the records it was started with: --new-records is for a new job.")


def charges(book: Ledger) -> Callable[[str], int]:
    """How often `book` was charged for a job, by the mark that its charges carry."""

    def spent(mark: str) -> int:
        return sum(mark in entry.purpose for entry in book.entries())

    return spent
