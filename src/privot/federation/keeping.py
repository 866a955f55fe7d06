"""Files that are whole or not there: what parties and coordinators keep so that a kill loses nothing."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path


def write_whole(path: Path, content: bytes) -> None:
    """`content` under `path`, on disk when this returns, readable by its owner alone, and never half of it."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}", suffix=".part")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """See names in `folder` onto the disk."""
    if os.name == "posix":
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def lock_folder(folder: Path, what: str) -> int:
    """Keep every other process out of `folder` until this one ends; answers the descriptor that holds the lock."""
    import fcntl

    from privot.errors import UsageError

    descriptor = os.open(folder / ".lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        raise UsageError(f"Another process works in {folder} as this {what}: stop it first.") from None
    return descriptor
