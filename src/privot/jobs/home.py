"""The home of a run: what its charges are called in the ledger, and where its releases are kept.

`Job` is a folder of the user's, `Question` a private place beside the ledger, `Memory` keeps nothing.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

from privot.errors import LostReleaseError
from privot.jobs.paid_file import PaidFile

Spent = Callable[[str], int]
"""Counts the charges whose purpose carries a mark."""


class Home:
    """What a run asks its home for; without more it keeps nothing."""

    folder: Path | None
    name: str
    """Of the job; "" where there is none."""

    @property
    def any_mark(self) -> str:
        """The beginning of the mark of every charge, whichever part it is for."""
        return f"(job {self.name}"

    def marked(self, part: str = "") -> str:
        """The mark in the purpose of the charges of this part; no mark contains another."""
        return f"{self.any_mark}, {part})" if part else f"{self.any_mark})"

    def charged(self, spent: Spent, part: str = "") -> int:
        """How often the ledger was charged for this part."""
        return spent(self.marked(part))

    def file(self, part: str = "") -> PaidFile | None:
        """Where the release of this part is kept."""
        return None

    def clear(self, made: Sequence[str], keep: Sequence[str]) -> None:
        """Remove files that match a pattern in `made`, except those named in `keep`: another release is paid for."""

    def alone(self) -> AbstractContextManager[None]:
        """Keep every other process out."""
        return nullcontext()

    def lost(self, part: str) -> LostReleaseError:
        """The sentence for a release that was paid for and can neither be found nor made again."""
        what = f"the charge for its {part}" if part else "its charge"
        return LostReleaseError(
            f"The job in {self.folder} was stopped between {what} and its release: that budget is spent and the "
            "release is lost, so allow a second charge (pay_again)."
        )


class Memory(Home):
    """The home of a run that ends with its process."""

    folder, name = None, ""

    def __init__(self) -> None:
        self._mark = f"(run {secrets.token_hex(8)}"

    @property
    def any_mark(self) -> str:
        """A mark that no other run has."""
        return self._mark
