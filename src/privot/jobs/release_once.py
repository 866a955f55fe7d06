"""One release that is paid for at most once and on disk before anybody sees it, until it is delivered.

The steps on disk, in a private folder beside the ledger: secret → charge → content → secret removed → delivered →
content removed. A kill between any two of them loses nothing: the same call goes on where it stopped, with the noise
that follows from the secret, and charges nothing more (`Vault.release_once`). docs/design/releases.md has every state.
"""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from privot.common.files import lock_folder, private_folder, sync, write_whole
from privot.common.interruption import finishing
from privot.errors import BudgetError, DataError, LostReleaseError, PrivotError, StoppedError
from privot.mechanisms.mechanism import Identified
from privot.opening import read_bytes, read_json
from privot.release import Release
from privot.vault import Vault

KEPT_SUFFIX = ".secret"
"""The suffix of the file that holds the secret, beside the release, until the release is on disk."""
MARK = "mark"
"""The field beside the secret that names the charge: it is part of its purpose, so that the ledger can be asked."""
Choose = Callable[[], Mapping[str, Any]]
Make = Callable[[bytes, Mapping[str, Any]], bytes]


@dataclass
class Kept:
    """What was paid for, in a private file until it is delivered."""

    path: Path
    before: bool
    """Whether an earlier attempt paid for it."""
    content: bytes = b""

    def put(self, place: Path, write: Callable[[Path], object]) -> None:
        """Deliver it to `place` by `write`(place)."""
        try:
            write(place)
        except OSError as error:
            # names the file that was asked for, not the temporary one, which is gone
            raise OSError(error.errno, error.strerror or str(error), str(place)) from None


@contextmanager
def delivering(
    path: Path, choose: Choose, make: Make, *, charged: Callable[[str], int], what: str, most: int
) -> Iterator[Kept]:
    """What `make`(secret, choices) releases, for the block to deliver; removed when the block succeeds, else kept.

    `choose`() decides what a second attempt must find again; `make` calls `release_marked`; `charged`(mark) asks the
    ledgers. An interrupt while it is made waits until it is on disk; one later, and whatever fails in the block, is
    told together with what was paid. `what` names it in those sentences; it has at most `most` bytes.
    """
    private_folder(path.parent)
    # by order and not by folder: several processes may release from one data set at once
    lock = lock_folder(path.parent, f"{what}, or another one of the same name", path.stem)
    try:
        kept = Kept(path, path.exists() or _paid(path, charged))
        try:
            with finishing():
                if path.exists():
                    kept.content = read_bytes(path, most=most, inside=path.parent)
                else:
                    kept.content = write_once(path, choose, make, charged)
        except KeyboardInterrupt:
            if path.exists():
                raise StoppedError(f"Interrupted: {_told(what)}") from None
            if _paid(path, charged):
                raise StoppedError(
                    f"Interrupted: the {what} is paid for and not made yet, but what makes the very same one is kept "
                    "beside the ledger, so run the command again, which costs nothing more."
                ) from None
            raise
        except OSError as error:
            raise DataError(
                f"{path.parent} cannot be written ({error.strerror}): make room there and run the command again; if "
                f"the {what} was paid for already, that costs nothing more."
            ) from None
        try:
            # a kill may have left it beside a content that is whole
            path.with_suffix(KEPT_SUFFIX).unlink(missing_ok=True)
            yield kept
        except BaseException as error:
            raise _undelivered(error, what) from None
        _remove(path)
    finally:
        os.close(lock)


def release_marked(
    vault: Vault, mechanism: Identified, secret: bytes, chosen: Mapping[str, Any], *, purpose: str, delta: float
) -> Release:
    """The release of `Vault.release_once`, under the mark among the choices; a second charge is refused.

    Where the ledger holds the charge and this machine would make another release (other versions round otherwise),
    the first one is lost, and only removing what is kept of it allows another.
    """
    # a secret of an earlier version has no mark
    mark = chosen.get(MARK)
    if mark and vault.charges(mark) and not vault.released_once(mechanism, secret=secret):
        raise LostReleaseError(
            "This release was paid for elsewhere, with other versions or another processor, and cannot be made again "
            "here: go on there, or remove its file of the suffix .secret beside the ledger to pay a second time."
        )
    return vault.release_once(mechanism, purpose=f"{purpose} {mark}" if mark else purpose, secret=secret, delta=delta)


def write_once(path: Path, choose: Choose, make: Make, charged: Callable[[str], int] = lambda mark: 0) -> bytes:
    """Write `make`(secret, choices) to `path` and return it; `make` calls `Vault.release_once` with the secret.

    The secret and the choices lie beside `path` from before the charge until the file is on disk, so after a kill the
    same call makes the same release without a second charge. `path` must not exist yet, and the caller must keep other
    processes out (`lock_folder`).
    """
    kept = path.with_suffix(KEPT_SUFFIX)
    if not kept.exists():
        fields = {MARK: f"(release {secrets.token_hex(8)})", **choose(), "secret": os.urandom(32).hex()}
        write_whole(kept, json.dumps(fields).encode())
    choices = read_json(kept, inside=path.parent)
    try:
        content = make(bytes.fromhex(choices["secret"]), choices)
    except BudgetError:
        # refused before anything was charged or touched: the secret serves nothing
        if not _paid(path, charged):
            kept.unlink(missing_ok=True)
        raise
    write_whole(path, content)
    kept.unlink(missing_ok=True)
    sync(path.parent)
    return content


def _paid(path: Path, charged: Callable[[str], int]) -> bool:
    """Whether the ledgers hold the charge that the secret beside `path` was written for."""
    kept = path.with_suffix(KEPT_SUFFIX)
    return kept.exists() and bool(charged(read_json(kept, inside=path.parent).get(MARK, "\0")))


def _remove(path: Path) -> None:
    path.unlink()
    sync(path.parent)


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
