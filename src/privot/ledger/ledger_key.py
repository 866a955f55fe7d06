"""The secret of a ledger: 32 random bytes beside it that give its three keys; it touches nothing else.

Without the key nobody can test a guess of the data against a fingerprint, nor recompute a seal. It is made
once and never rewritten, because losing it makes the ledger unreadable.
"""

from __future__ import annotations

import hmac
import os
import stat
from dataclasses import dataclass, field
from pathlib import Path

from privot.errors import CorruptLedgerError, DataError, UsageError
from privot.ledger.ledger_files import beside
from privot.opening import read_bytes

_BYTES = 32
MAX_KEY = 1 << 12
"""Bytes of a key file, line ends and all."""


@dataclass(frozen=True)
class Key:
    """One key for each use, so that no value made for one use means anything in another."""

    fingerprint: bytes = field(repr=False)
    chain: bytes = field(repr=False)
    anchor: bytes = field(repr=False)

    @classmethod
    def derive(cls, secret: bytes) -> Key:
        """key_use = HMAC-SHA256(secret, use)."""
        uses = ("fingerprint", "chain", "anchor")
        return cls(*(hmac.digest(secret, f"privot ledger {use}".encode(), "sha256") for use in uses))

    @classmethod
    def create(cls, ledger: Path) -> Key:
        """Make the secret of a new ledger, readable by its owner only, and see it onto the disk."""
        path = beside(ledger, ".key")
        secret = os.urandom(_BYTES)
        try:
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        except FileExistsError:
            raise UsageError(
                f"The key {path} exists already: it may belong to a ledger, so choose another name."
            ) from None
        try:
            with open(descriptor, "w", encoding="utf-8") as file:
                file.write(secret.hex() + "\n")
                file.flush()
                os.fsync(file.fileno())
        except BaseException:
            path.unlink()
            raise
        return cls.derive(secret)

    @classmethod
    def read(cls, ledger: Path) -> Key:
        """Read the secret of an existing ledger."""
        path = beside(ledger, ".key")
        try:
            if os.name == "posix" and path.stat().st_mode & stat.S_IRWXO:
                raise DataError(f"The key {path} is open to everybody: run chmod 600 on it.")
            secret = bytes.fromhex(read_bytes(path, most=MAX_KEY).decode("ascii", "replace").strip())
        except FileNotFoundError:
            raise DataError(
                f"The key {path} is missing; without it the ledger cannot be read or charged: restore it."
            ) from None
        except OSError as error:
            raise DataError(f"The key {path} cannot be read ({error.strerror}).") from None
        except ValueError as error:
            if isinstance(error, DataError):
                raise
            secret = b""
        if len(secret) != _BYTES:
            raise CorruptLedgerError(f"The key {path} is not {_BYTES} bytes in hexadecimal: restore it.")
        return cls.derive(secret)
