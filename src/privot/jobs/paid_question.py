"""One answer that is paid for at most once and on disk before anybody sees it, until it is delivered.

The steps on disk, in a private folder beside the ledger: secret → charge → release → secret removed → delivered →
release removed. A kill between any two of them loses nothing: the same question goes on where it stopped, with the
noise that follows from the secret, and charges nothing more. docs/design/releases.md has every state.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, TypeVar

from privot.common.files import lock_folder, private_folder, sync, write_whole
from privot.common.interruption import finishing
from privot.errors import BudgetError, DataError, LostReleaseError, PrivotError, StoppedError, UsageError
from privot.jobs.home import Home, Spent
from privot.jobs.paid_file import PaidFile, load, save
from privot.jobs.run import Plan, Run
from privot.mechanisms.mechanism import Identified, name_of
from privot.opening import read_json
from privot.release import Release
from privot.vault import Vault
from privot.vault.release_steps import exact_columns

PAID, SECRET = ".paid", ".secret"
"""The suffixes of what was paid for, and of what makes it again until it is on disk."""
MARK = "mark"
"""The field beside the secret that names the charge: it is part of its purpose, so that the ledger can be asked."""
T = TypeVar("T")


def _nothing() -> Mapping[str, Any]:
    return {}


@dataclass(frozen=True)
class Question(Home):
    """The home of one thing that is asked of a data set: the files `name`.* in a private `folder` beside the ledger.

    The same question has the same name. `choose`() decides what a second attempt must find again. A release is read and
    written by `read` and `write`. Where it has several parts, the secret stays until all are on disk.
    """

    folder: Path
    name: str
    choose: Callable[[], Mapping[str, Any]] = _nothing
    parts: tuple[str, ...] = ("",)
    read: Callable[[Path], Release] = load
    write: Callable[[Release, Path], object] = save
    _chosen: dict[str, Any] = field(default_factory=dict, compare=False, repr=False)

    @property
    def chosen(self) -> Mapping[str, Any]:
        """What was chosen by the attempt that wrote the secret: this one, unless there was an earlier one."""
        if not self._chosen:
            if not self._secret.exists():
                fields = {MARK: f"(release {secrets.token_hex(8)})", **self.choose(), "secret": os.urandom(32).hex()}
                write_whole(self._secret, json.dumps(fields).encode())
            self._chosen.update(read_json(self._secret, inside=self.folder))
        return self._chosen

    @property
    def _secret(self) -> Path:
        return self.folder / (self.name + SECRET)

    @property
    def begun(self) -> bool:
        """Whether an attempt left anything of it."""
        return self._secret.exists() or self.kept is not False

    @property
    def kept(self) -> bool | None:
        """Whether all of it is on disk; None where some of it is."""
        there = {self.file(part).path.exists() for part in self.parts}
        return None if len(there) > 1 else there.pop()

    def paid(self, spent: Spent) -> bool:
        """Whether some of it is on disk, or charged; an earlier version kept all of it as one."""
        return any(self.charged(spent, part) for part in ("", *self.parts))

    def marked(self, part: str = "") -> str:
        """The mark of every charge; a secret of an earlier version has none."""
        return str(self.chosen.get(MARK, ""))

    def charged(self, spent: Spent, part: str = "") -> int:
        """How often the ledger was charged, as far as that is known here: a release on disk was paid for."""
        mark = self.marked(part) if self._secret.exists() else ""
        return max(int(self.file(part).path.exists()), spent(mark) if mark else 0)

    def file(self, part: str = "") -> PaidFile:
        """Where the release of a part is kept; all parts have one secret, which stays while one of them needs it."""
        path = self.folder / (f"{self.name}-{part}{PAID}" if part else self.name + PAID)
        return PaidFile(path, self._secret, self._bytes, lambda: self.kept is None, self.read, self.write)

    def _bytes(self, vault: Vault) -> bytes:
        return bytes.fromhex(self.chosen["secret"])

    def lost(self, part: str) -> LostReleaseError:
        """The sentence for a charge of which this machine, which rounds otherwise, would make another release."""
        return LostReleaseError(
            "This release was paid for elsewhere, with other versions or another processor, and cannot be made again "
            "here: go on there, or remove its file of the suffix .secret beside the ledger to pay a second time."
        )

    def tidy(self) -> None:
        """Finish what a kill left of `remove`: some parts without the secret, which stays until all are on disk."""
        if self.kept is None and not self._secret.exists():
            self.remove()

    def remove(self) -> None:
        """Remove the release: it is delivered."""
        for part in ("", *self.parts):
            self.file(part).path.unlink(missing_ok=True)
        self._secret.unlink(missing_ok=True)
        sync(self.folder)


@dataclass
class Paid(Generic[T]):
    """What was paid for, in a private file until it is delivered."""

    value: T
    before: bool
    """Whether an earlier attempt paid for it."""

    def put(self, place: Path, write: Callable[[Path], object]) -> None:
        """Deliver it to `place` by `write`(place)."""
        try:
            write(place)
        except OSError as error:
            # names the file that was asked for, not the temporary one, which is gone
            raise OSError(error.errno, error.strerror or str(error), str(place)) from None


@contextmanager
def delivering(question: Question, make: Callable[[], T], *, spent: Spent, what: str) -> Iterator[Paid[T]]:
    """What `make`() pays for by runs at home in `question`, for the block to deliver; removed when the block succeeds.

    `spent`(mark) asks the ledgers. An interrupt while it is made waits until it is on disk; one later, and whatever
    fails in the block, is told together with what was paid. `what` names it in those sentences.
    """
    private_folder(question.folder)
    # by order and not by folder: several processes may release from one data set at once
    lock = lock_folder(question.folder, f"{what}, or another one of the same name", question.name)
    try:
        question.tidy()
        before = question.paid(spent)
        try:
            with finishing():
                value = make()
        except KeyboardInterrupt:
            if question.kept:
                raise StoppedError(f"Interrupted: {_told(what)}") from None
            if question.paid(spent):
                raise StoppedError(
                    f"Interrupted: the {what} is paid for and not made yet, but what makes the very same one is kept "
                    "beside the ledger, so run the command again, which costs nothing more."
                ) from None
            raise
        except BudgetError:
            # refused before anything was charged or touched: the secret serves nothing
            if not question.paid(spent):
                question.remove()
            raise
        except OSError as error:
            raise DataError(
                f"{question.folder} cannot be written ({error.strerror}): make room there and run the command again; "
                f"if the {what} was paid for already, that costs nothing more."
            ) from None
        paid = Paid(value, before)
        try:
            yield paid
        except BaseException as error:
            raise _undelivered(error, what) from None
        question.remove()
    finally:
        os.close(lock)


def of_vault(vault: Vault, *asked: object, **more: Any) -> Question:
    """What is `asked` of the records of `vault`: beside its ledger, under a name that follows from both."""
    name = hashlib.sha256(json.dumps(asked).encode("utf-8", "surrogatepass")).hexdigest()[:32]
    return Question(beside(vault), name, **more)


def beside(vault: Vault, suffix: str = ".releases") -> Path:
    """The private folder beside the ledger of `vault`."""
    ledger = vault.ledger_file
    if ledger is None:
        raise UsageError("Only a ledger remembers what was paid for: give the vault a ledger.")
    return ledger.with_name(ledger.name + suffix)


@contextmanager
def release_once(vault: Vault, mechanism: Identified, *, purpose: str, delta: float) -> Iterator[Paid[Release]]:
    """One release of `mechanism` for the block to deliver, which a kill before that does not lose.

    Until the block succeeds it is kept beside the ledger of `vault`: the same call finds it there, at no further cost.

    Examples
    --------
    >>> import numpy as np
    >>> from tempfile import TemporaryDirectory
    >>> from privot import Count, Ledger, Vault
    >>> with TemporaryDirectory() as folder, Ledger.create(Path(folder) / "people.ledger") as book:
    ...     vault = Vault(np.zeros((9, 2)), clip=1.0, adjacency="add-remove", ledger=book, budget=(2.0, 1e-5))
    ...     count = Count(epsilon=1.0, delta=1e-6)
    ...     with release_once(vault, count, purpose="how many", delta=1e-6) as paid:
    ...         paid.before, len(book.entries())
    (False, 1)
    """
    facts = vault.facts
    asked = facts.identity(), delta, mechanism.identity().hex()
    question = of_vault(vault, vault.data_name(), *asked)
    if not question.begun:
        # earlier versions left these out: equal rows under other labels, or read as other columns, are other questions
        more = name_of(mechanism), hashlib.sha256(exact_columns(facts)).hexdigest()
        question = of_vault(vault, vault.content_name(), *asked, *more)
    run = Run(question, lambda: vault, vault.charges, plan=Plan(purpose, delta))
    with delivering(question, lambda: run.release(lambda: mechanism)[0], spent=vault.charges, what="release") as paid:
        yield paid


def _undelivered(error: BaseException, what: str) -> BaseException:
    """`error` with what was paid and how it is had."""
    if isinstance(error, KeyboardInterrupt):
        return StoppedError(f"Interrupted: {_told(what)}")
    if isinstance(error, OSError):
        where = error.filename or "Standard output"
        told = _told(what, ", with another --out if needed" if error.filename else "")
        return DataError(f"{where} cannot be written ({error.strerror or error}): {told}")
    if not isinstance(error, Exception):
        return error
    kind, why = (type(error), str(error)) if isinstance(error, PrivotError) else (PrivotError, type(error).__name__)
    return kind(f"It could not be delivered ({why.removesuffix('.')}): {_told(what)}")


def _told(what: str, how: str = "") -> str:
    return (
        f"the {what} is paid for and kept beside the ledger, so run the command again{how}, which costs nothing more."
    )
