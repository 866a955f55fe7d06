"""The SQLite file under a ledger: rows in, rows out, one writer at a time; it knows no budget, no seal.

Write-ahead log and synchronous=FULL: a commit that returned has reached the disk. SQLite's own write lock
is the only lock; the system drops it when a process dies. Nothing here opens the file except through
SQLite, because closing any other handle on it would drop that lock (POSIX advisory locks belong to the
process, not to the handle).
"""

from __future__ import annotations

import os
import sqlite3
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from privot.errors import CorruptLedgerError, DataError, PrivotError, UsageError
from privot.ledger.ledger_rows import Row

SCHEMA_VERSION = 1
UNIT_VERSION = 2
"""The version of a ledger with a budget for a unit: a privot that knows no units refuses it."""
FILTER_VERSION = 3
"""The version of a ledger that charged as a filter: a privot that adds events up refuses it."""
_APPLICATION = 0x50525654  # "PRVT"
_TIMEOUT = 30.0
_PATIENCE = 600.0
"""Seconds a charge waits for its turn: another one may be counting a long composition."""

# WITHOUT ROWID, so that every byte of a row means something and none can be flipped unseen: an ordinary
# table stores an unused placeholder for its key.
_SCHEMA = {
    ("table", "ledger"): (
        "CREATE TABLE ledger (id INTEGER PRIMARY KEY, kind TEXT NOT NULL, fingerprint TEXT NOT NULL, "
        "body TEXT NOT NULL, note TEXT NOT NULL, at TEXT NOT NULL, mac TEXT NOT NULL) WITHOUT ROWID"
    ),
    ("trigger", "ledger_update"): (
        "CREATE TRIGGER ledger_update BEFORE UPDATE ON ledger BEGIN SELECT RAISE(ABORT, 'append-only'); END"
    ),
    ("trigger", "ledger_delete"): (
        "CREATE TRIGGER ledger_delete BEFORE DELETE ON ledger BEGIN SELECT RAISE(ABORT, 'append-only'); END"
    ),
    # INSERT OR REPLACE fires no delete trigger
    ("trigger", "ledger_insert"): (
        "CREATE TRIGGER ledger_insert BEFORE INSERT ON ledger "
        "WHEN NEW.id IS NOT (SELECT coalesce(max(id), 0) + 1 FROM ledger) "
        "BEGIN SELECT RAISE(ABORT, 'append-only'); END"
    ),
}


_BUSY = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


def _primary(error: sqlite3.Error) -> int:
    """The error's primary result code; what Python found wrong by itself (texts that are none) is damage."""
    return int(getattr(error, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT)) & 0xFF


def _translated(path: Path, error: sqlite3.Error) -> PrivotError:
    """What SQLite says, as one of our sentences."""
    code = _primary(error)
    if code in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR):
        return DataError(f"The ledger {path} could not be written ({error}), so nothing was released: check the disk.")
    if code in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM):
        return DataError(f"The ledger {path} may not be written, so nothing was released: make it writable.")
    if code in (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_AUTH):
        return DataError(f"The ledger {path} cannot be opened: allow reading and writing it and its folder.")
    if code in _BUSY:
        return DataError(f"The ledger {path} is in use by another process, so nothing was released: try again.")
    if code == sqlite3.SQLITE_NOTADB:
        return CorruptLedgerError(f"{path} is not a privot ledger.")
    return CorruptLedgerError(f"The ledger {path} is damaged ({error}): restore a backup.")


class Store:
    """An open ledger file. One process, any of its threads (the caller takes turns)."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._process = os.getpid()
        try:
            if stat.S_ISDIR(os.stat(path).st_mode):
                raise DataError(f"{path} is a folder, not a ledger.")
        except FileNotFoundError:
            raise DataError(f"There is no ledger at {path}: make one first.") from None
        except OSError as error:
            raise DataError(f"The ledger {path} cannot be opened ({error.strerror}).") from None
        with self._speaking():
            self._sqlite: sqlite3.Connection | None = sqlite3.connect(
                f"{path.as_uri()}?mode=rw",
                uri=True,
                timeout=_TIMEOUT,
                isolation_level=None,
                check_same_thread=False,
            )
        try:
            with self._speaking():
                for setting in (
                    "synchronous=FULL",
                    "fullfsync=ON",
                    "trusted_schema=OFF",
                    "cell_size_check=ON",
                ):
                    self._run(f"PRAGMA {setting}")
        except BaseException:
            self.close()
            raise

    def build(self) -> None:
        """Lay out an empty file as a ledger, inside the caller's transaction."""
        with self._speaking():
            self._run(f"PRAGMA application_id={_APPLICATION}")
            for statement in _SCHEMA.values():
                self._run(statement)
            self._run(f"PRAGMA user_version={SCHEMA_VERSION}")

    def keep_log(self) -> None:
        """Switch to the write-ahead log, which the file then remembers."""
        with self._speaking():
            if self._run("PRAGMA journal_mode=WAL").fetchone() != ("wal",):
                raise DataError(f"SQLite cannot keep a write-ahead log at {self.path}: choose a local folder.")

    def raise_version(self, needed: int) -> None:
        """Mark the file as one of at least the version `needed`, inside the caller's transaction."""
        if self.version() < needed:
            with self._speaking():
                self._run(f"PRAGMA user_version={needed}")

    def version(self) -> int:
        """The version that the file states now."""
        with self._speaking():
            return int(self._run("PRAGMA user_version").fetchone()[0])

    def recognise(self) -> int:
        """The version of the file; refuses one that is not a ledger, or whose layout somebody changed."""
        version = self.version()
        with self._speaking():
            application = self._run("PRAGMA application_id").fetchone()[0]
            found = self._run("SELECT type, name, tbl_name, sql FROM sqlite_master").fetchall()
        expected = [(kind, name, "ledger", sql) for (kind, name), sql in _SCHEMA.items()]
        if application == _APPLICATION and version > FILTER_VERSION:
            raise CorruptLedgerError(
                f"The ledger {self.path} is of version {version}, newer than {FILTER_VERSION}: update privot."
            )
        if application != _APPLICATION and found != expected:
            raise CorruptLedgerError(f"{self.path} is not a privot ledger.")
        if (application, found) != (_APPLICATION, expected) or version < SCHEMA_VERSION:
            raise self.changed()
        return version

    def changed(self) -> CorruptLedgerError:
        """The sentence for a file whose layout or version is not the one that privot gave it."""
        return CorruptLedgerError(f"The layout of the ledger {self.path} has been changed: restore a backup.")

    def rows(self) -> list[tuple[Any, ...]]:
        """Every row as stored, in the order of the file's own tree."""
        with self._speaking():
            return self._run("SELECT id, kind, fingerprint, body, note, at, mac FROM ledger ORDER BY id").fetchall()

    def check_pages(self) -> None:
        """Let SQLite look at every page of the file."""
        with self._speaking():
            answer = self._run("PRAGMA integrity_check(1)").fetchone()
        if answer != ("ok",):
            said = " ".join(str(answer[0]).split())
            raise CorruptLedgerError(f"The ledger {self.path} is damaged ({said}): restore a backup.")

    @contextmanager
    def writing(self) -> Iterator[None]:
        """One transaction that no other writer can enter; once it ends without an error it is on disk."""
        self._begin()
        try:
            yield
            with self._speaking():
                self._run("COMMIT")
        except BaseException:
            self._rollback()
            raise

    @contextmanager
    def locked(self) -> Iterator[None]:
        """The write lock, for something other than writing rows."""
        self._begin()
        try:
            yield
        finally:
            self._rollback()

    def append(self, row: Row) -> None:
        """Add `row` inside a transaction."""
        with self._speaking():
            self._run("INSERT INTO ledger VALUES (?, ?, ?, ?, ?, ?, ?)", tuple(row))

    def close(self) -> None:
        """Close the file; a second time does nothing."""
        connection, self._sqlite = getattr(self, "_sqlite", None), None
        # a connection inherited through a fork still belongs to the parent
        if connection is not None and os.getpid() == self._process:
            connection.close()

    def _run(self, statement: str, values: tuple[Any, ...] = ()) -> sqlite3.Cursor:
        if self._sqlite is None:
            raise UsageError(f"The ledger {self.path} has been closed: open it again.")
        if os.getpid() != self._process:
            raise UsageError("This ledger was opened before the process forked: open it again in each process.")
        return self._sqlite.execute(statement, values)

    def _begin(self) -> None:
        deadline = time.monotonic() + _PATIENCE
        with self._speaking():
            while True:
                try:
                    self._run("BEGIN IMMEDIATE")
                    return
                except sqlite3.OperationalError as error:
                    if _primary(error) not in _BUSY or time.monotonic() > deadline:
                        raise
                    # SQLite answers at once, without waiting, where waiting might be a deadlock
                    time.sleep(0.005)

    def _rollback(self) -> None:
        # SQLite has already rolled back after some errors; the first error is the one to report
        with suppress(sqlite3.Error):
            if self._sqlite is not None and self._sqlite.in_transaction:
                self._sqlite.execute("ROLLBACK")

    @contextmanager
    def _speaking(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise _translated(self.path, error) from None
        except (MemoryError, UnicodeDecodeError):
            raise CorruptLedgerError(f"The ledger {self.path} is damaged (no such text): restore a backup.") from None
