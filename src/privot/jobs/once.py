"""What only its owner may have: a folder for one process, keys that are never overwritten, secrets of one release."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from privot.common.files import sync, write_whole
from privot.errors import BudgetError, UsageError
from privot.opening import read_json

KEPT = ".secret"
"""How the name of a secret ends that lies beside a file until that is on disk."""


def lock_folder(folder: Path, what: str) -> int:
    """Keep every other process out of `folder` until this one ends; answers the descriptor that holds the lock."""
    import fcntl

    descriptor = os.open(folder / ".lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        raise UsageError(f"Another process works in {folder} as this {what}: stop it first.") from None
    return descriptor


def write_key(path: Path, content: bytes) -> None:
    """A new private key, for its owner's eyes only."""
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        raise UsageError(f"The key {path} exists already: it is never overwritten.") from None
    with open(descriptor, "wb") as file:
        file.write(content)


def made_once(
    path: Path, choose: Callable[[], Mapping[str, Any]], make: Callable[[bytes, Mapping[str, Any]], bytes]
) -> bytes:
    """The content of `path` by `make`(secret, choices), for `Vault.release_once`: a kill loses neither budget nor file.

    The secret and what was chosen lie beside `path` from before the charge until the file is on disk. `path` is not
    there yet; the caller keeps other processes out (`lock_folder`).
    """
    kept = path.with_suffix(KEPT)
    if not kept.exists():
        write_whole(kept, json.dumps({**choose(), "secret": os.urandom(32).hex()}).encode())
    said = read_json(kept, inside=path.parent)
    try:
        content = make(bytes.fromhex(said["secret"]), said)
    except BudgetError:
        # refused before anything was charged or touched: the secret hides nothing
        kept.unlink(missing_ok=True)
        raise
    write_whole(path, content)
    kept.unlink(missing_ok=True)
    sync(path.parent)
    return content
