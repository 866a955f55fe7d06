"""Keeps what finished partitions gave, encrypted, so that a job that was killed does not read them again.

What is kept are sums without noise, and digests. Each file is encrypted and authenticated under a key that the caller
derives from a ledger's secret key: without that key the files say nothing, and what was changed in them is not used.
They are removed when the release is on disk.
"""

from __future__ import annotations

import hashlib
import os
import pickle
import shutil
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np

from privot.common.files import private_folder, write_whole
from privot.opening import read_bytes
from privot.partitions.partition import Partition

FOLDER = "partitions"
"""The name of the folder beside a job's files."""
_NONCE = 12
_PADDED = 4096
"""Files are filled up to a multiple of so many bytes, so that their length tells no count."""


class KeptSums:
    """Results of partitions in `folder`, under a `key` of 32 bytes."""

    def __init__(self, folder: Path, key: bytes) -> None:
        self._folder, self._key = folder, key
        self._described: tuple[Any, bytes | None, dict[tuple[str, ...], str]] = (None, None, {})

    def checksum_key(self, unless_known: int) -> int:
        """The key of checksums that is kept; else this one, which is kept from now on."""
        found = self._read("key")
        if isinstance(found, int):
            return found
        self._write("key", unless_known)
        return unless_known

    def load(self, task: Any, partition: Partition) -> Any:
        """What this task once gave for this partition; None if that is not known, or the partition may have changed."""
        name = self._name(task, partition)
        return None if name is None else self._read(name)

    def save(self, task: Any, partition: Partition, result: Any) -> None:
        """Keep a result; that of a partition or task which nothing identifies is not kept."""
        name = self._name(task, partition)
        if name is not None:
            self._write(name, result)

    def remove(self) -> None:
        """Remove everything that is kept."""
        shutil.rmtree(self._folder, ignore_errors=True)

    def _name(self, task: Any, partition: Partition) -> str | None:
        """A digest of all that a result depends on: task, partition, schema, versions and rounding.

        Keyed, because a partition's stamp may depend on which of its rows take part: without the ledger's key a name
        confirms no guess.
        """
        if self._described[0] is not task:
            # once per pass: a task may hold thousands of numbers
            self._described = (task, described(task), {})
        _, said, marks = self._described
        if partition.readers not in marks:
            marks[partition.readers] = task.arithmetic(partition.readers)
        parts = [said, described(partition.stamp), described(marks[partition.readers])]
        if any(part is None for part in parts) or not partition.stamp:
            return None
        joined = b"\0".join(hashlib.sha256(part or b"").digest() for part in parts)
        return hashlib.blake2b(joined, digest_size=32, key=self._key).hexdigest()

    def _write(self, name: str, value: Any) -> None:
        from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

        private_folder(self._folder)
        nonce = os.urandom(_NONCE)
        plain = pickle.dumps(value)
        # the digits of a count change the length; reading ignores what follows the value
        plain += bytes(-len(plain) % _PADDED)
        sealed = ChaCha20Poly1305(self._key).encrypt(nonce, plain, name.encode())
        write_whole(self._folder / name, nonce + sealed)

    def _read(self, name: str) -> Any:
        from cryptography.exceptions import InvalidTag
        from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

        path = self._folder / name
        if not path.is_file():
            return None
        content = read_bytes(path, inside=self._folder)
        try:
            plain = ChaCha20Poly1305(self._key).decrypt(content[:_NONCE], content[_NONCE:], name.encode())
        except (InvalidTag, ValueError):
            # of another ledger, or changed: it is made again
            return None
        try:
            return pickle.loads(plain)  # noqa: S301 - sealed by this very key
        except (ImportError, AttributeError):
            # of a version whose classes lay elsewhere: it is made again
            return None


def described(value: Any) -> bytes | None:
    """Everything a value holds, to the last bit, the same in every process; None for what cannot be described."""
    if value is None or isinstance(value, bool | int | float | str | bytes):
        return f"{type(value).__name__} {value!r};".encode()
    if isinstance(value, np.ndarray) and value.dtype.kind in "biuf":
        return f"array {value.dtype.str} {value.shape};".encode() + np.ascontiguousarray(value).tobytes()
    if isinstance(value, np.generic):
        return described(value.item())
    exact = getattr(value, "exact_bytes", None)
    parts: list[Any]
    if exact is not None:
        return f"{_stable_name(type(value)).rpartition('.')[2]} exactly;".encode() + bytes(exact())
    if is_dataclass(value) and not isinstance(value, type):
        parts = [getattr(value, field.name) for field in fields(value)]
    elif isinstance(value, tuple | list):
        parts = list(value)
    elif isinstance(value, Mapping):
        parts = [part for name in sorted(value) for part in (name, value[name])]
    else:
        return None
    inner = [described(part) for part in parts]
    if any(part is None for part in inner):
        return None
    head = f"{_stable_name(type(value))} {len(parts)}(".encode()
    return head + b"".join(part for part in inner if part is not None) + b")"


def _stable_name(kind: type) -> str:
    """What names a class: its `stable_name` where it has one of its own, as a class that has moved does."""
    return str(vars(kind).get("stable_name", f"{kind.__module__}.{kind.__qualname__}"))
