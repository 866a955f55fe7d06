"""Writes the file of one release so that a kill loses neither the budget nor the file, and pays at most once."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from privot.common.files import sync, write_whole
from privot.errors import BudgetError
from privot.opening import read_json

KEPT_SUFFIX = ".secret"
"""The suffix of the file that holds the secret, beside the release, until the release is on disk."""
SALT_SUFFIX = ".salt"
"""The suffix of a file in a job's folder, of which only the ledger's key makes the secret (`Vault.secret_of`)."""


def write_once(
    path: Path, choose: Callable[[], Mapping[str, Any]], make: Callable[[bytes, Mapping[str, Any]], bytes]
) -> bytes:
    """Write `make`(secret, choices) to `path` and return it; `make` calls `Vault.release_once` with the secret.

    The secret and the choices lie beside `path` from before the charge until the file is on disk, so after a kill the
    same call makes the same release without a second charge. `path` must not exist yet, and the caller must keep other
    processes out (`lock_folder`).
    """
    kept = path.with_suffix(KEPT_SUFFIX)
    if not kept.exists():
        write_whole(kept, json.dumps({**choose(), "secret": os.urandom(32).hex()}).encode())
    choices = read_json(kept, inside=path.parent)
    try:
        content = make(bytes.fromhex(choices["secret"]), choices)
    except BudgetError:
        # refused before anything was charged or touched, so the secret protects nothing
        kept.unlink(missing_ok=True)
        raise
    write_whole(path, content)
    kept.unlink(missing_ok=True)
    sync(path.parent)
    return content
