"""Whether a ledger has a budget for the records of a file: one name has one, unless it is stated otherwise."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from privot.ledger import Ledger
    from privot.synthesis.job import Job


def label_of(data: str | Path) -> str:
    """The name by which a ledger lists the records of a file: the file's own, whatever link leads to it."""
    return Path(data).resolve().name


def has_budget(book: Ledger, rows: Any, label: str, new_records: bool) -> bool:
    """Whether `book` knows these `rows`; refuses a name that it has for others, unless `new_records` states that.

    A ledger knows records by the numbers they are. Read in another way (another schema, or none) the same file becomes
    other numbers, which must not buy it a second budget.
    """
    from privot.budget import row_digests
    from privot.errors import BudgetError

    known = book.budget(book.fingerprint({"x": row_digests(rows)})) is not None
    if not known and not new_records and any(budget.label == label for budget in book.datasets()):
        raise BudgetError(
            f"{book.path} has a budget for {label} as it was read before: read it in the same way (the same schema), "
            "or add --new-records if its records are others now."
        )
    return known


def check_no_job(out: Path) -> None:
    """Refuse a folder that has a job already, where the user did not say to go on with it."""
    from privot.errors import UsageError
    from privot.synthesis.job import NAME

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
    from privot.synthesis.spending import total

    paid = [entry for entry in book.entries() if job.any_mark in entry.purpose]
    if not paid:
        return None
    whole, own = book.spent(paid[0].fingerprint), book.spent(paid[0].fingerprint, job.any_mark)
    return None if whole is None or own is None else total(whole, own, len(paid))


def charges(book: Ledger) -> Callable[[str], int]:
    """How often `book` was charged for a job, by the mark that its charges carry."""

    def spent(mark: str) -> int:
        return sum(mark in entry.purpose for entry in book.entries())

    return spent
