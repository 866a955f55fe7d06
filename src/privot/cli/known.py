"""What the commands ask a ledger: a vault on the budget of these records, and how often a job was charged."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
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
    from privot.budget import row_digests
    from privot.vault import Vault

    with naming_the_option():
        name = book.fingerprint({"x": row_digests(held["x"])})
        known = book.admit(name, new_records=new_records) is not None
        return Vault(**held, ledger=book, budget=None if known else terms, new_records=new_records)


def charges(book: Ledger) -> Callable[[str], int]:
    """How often `book` was charged for a job, by the mark that its charges carry."""

    def spent(mark: str) -> int:
        return sum(mark in entry.purpose for entry in book.entries())

    return spent
