"""Whether a ledger has a budget for the records of a file: one name has one, unless it is stated otherwise."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from privot.ledger import Ledger


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


def charges(book: Ledger) -> Callable[[str], int]:
    """How often `book` was charged for a job, by the mark that its charges carry."""

    def spent(mark: str) -> int:
        return sum(mark in entry.purpose for entry in book.entries())

    return spent
