"""Files that are whole or not there, locked folders, keys of one owner; it knows nothing of what is in them."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from privot.errors import UsageError

PART = ".part"
"""How the name of a file ends that is still being written: a kill may leave one behind."""


@contextmanager
def writing(path: Path, *, mode: int = 0o600, fresh: bool = False) -> Iterator[BinaryIO]:
    """A file to write to that gets its name when all of it is on disk; who reads `path` sees the old file or the new.

    It is readable by its owner alone unless `mode` says otherwise. With `fresh` it raises FileExistsError instead of
    replacing anything, even if another process is quicker by a hair.
    """
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}", suffix=PART)
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
            # a name that reaches the disk before its content would be an empty file after a power cut
            file.flush()
            os.fsync(file.fileno())
        os.chmod(name, mode)
        if fresh:
            _name_once(name, path)
        os.replace(name, path)
    finally:
        # still there after a failure, and after replacing one name of a file by another of the same
        Path(name).unlink(missing_ok=True)
    sync(path.parent)


def write_whole(path: Path, content: bytes, *, mode: int = 0o600, fresh: bool = False) -> None:
    """`content` under `path`, on disk when this returns, and never half of it; otherwise as `writing`."""
    with writing(path, mode=mode, fresh=fresh) as file:
        file.write(content)


def is_taken(path: Path) -> bool:
    """Whether anything has this name: a file, a folder, or a link, also one that leads nowhere."""
    return os.path.lexists(path)


def private_folder(path: Path) -> Path:
    """Make `path` if need be, and close it to everybody but its owner, whatever the umask and its mode so far.

    For folders that hold secrets or a history of requests. Parents that are made follow the umask. A folder that
    belongs to somebody else keeps its mode: only its owner can change that.
    """
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    _close(path)
    return path


def private_file(path: Path) -> Path:
    """Make `path` if need be, empty, and close it to everybody but its owner; what it holds stays.

    For files that grow (logs, histories, databases of other libraries); `write_whole` is for all others.
    """
    if not path.exists():
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600))
    _close(path)
    return path


def _close(path: Path) -> None:
    mode = path.stat().st_mode & 0o777
    if mode & 0o077:
        with suppress(PermissionError):
            os.chmod(path, mode & 0o700)


def _name_once(name: str, path: Path) -> None:
    """Give the file `name` the name `path` as well, which only one can have."""
    try:
        os.link(name, path)
    except FileExistsError:
        raise
    except OSError:
        # a file system without hard links: an empty file takes the name, and its content follows in one step
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644))


def sync(path: Path) -> None:
    """Wait until `path` (a file, or a folder's list of names) is on disk; only POSIX can open a folder."""
    if os.name == "posix":
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


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
