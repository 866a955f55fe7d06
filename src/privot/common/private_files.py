"""Files and folders for one owner: a folder locked by one process, and keys that are never overwritten."""

from __future__ import annotations

import os
from pathlib import Path

from privot.errors import UsageError


def lock_folder(folder: Path, what: str) -> int:
    """Keep every other process out of `folder` until this one ends; returns the descriptor that holds the lock."""
    import fcntl

    descriptor = os.open(folder / ".lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
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
