"""Files and folders for one owner: a folder locked by one process, and keys that are never overwritten."""

from __future__ import annotations

import os
from pathlib import Path

from privot.errors import UsageError


def lock_folder(folder: Path, what: str, part: str | None = None) -> int:
    """Keep every other process out of `folder` until this one ends; returns the descriptor that holds the lock.

    With a `part` (hexadecimal digits) only those that want the same part are kept out.
    """
    descriptor = os.open(folder / ".lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        import fcntl
    except ImportError:
        # only POSIX has it; elsewhere two processes on one folder are not kept apart
        return descriptor
    try:
        if part is None:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        else:
            # one byte of an endless file stands for a part
            fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, int(part[:15], 16))
    except OSError:
        os.close(descriptor)
        raise UsageError(f"Another process works in {folder} as this {what}: stop it first.") from None
    return descriptor


def write_key(path: Path, content: bytes) -> None:
    """Write a new private key that only its owner may read."""
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        raise UsageError(f"The key {path} exists already: it is never overwritten.") from None
    with open(descriptor, "wb") as file:
        file.write(content)
