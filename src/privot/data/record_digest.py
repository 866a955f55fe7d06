"""What a ledger knows a set of records by: a sum of hashes, the same in any order and however the records are cut.

Each row is hashed by BLAKE2s (32 bytes) and the hashes are added, as four numbers of 64 bits, modulo 2⁶⁴ each. A sum
can be taken a batch at a time, in any order, by processes that know no key; the ledger then keys it
(`Ledger.fingerprint`).

Who chooses records can make two sets of one sum, with work far below 2¹²⁸. That gains nothing: both sets then pay from
one budget. What matters is that the same records never get a second one, and a set of records has one sum.
"""

from __future__ import annotations

import secrets
from hashlib import blake2s
from typing import Any

import numpy as np
from numpy.typing import NDArray

LANES = 4
_ROWS = 1 << 13


def class_digests(rows: NDArray[Any], labels: NDArray[np.int64] | None, classes: int | None) -> NDArray[np.uint64]:
    """`records_digest` of the rows of each class, of shape (classes, 5), or (1, 5) without labels.

    Its sum over classes is that of all rows; together they tell which label belongs to which row.
    """
    if labels is None or classes is None:
        return records_digest(rows)[None, :]
    out = np.zeros((classes, 1 + LANES), dtype=np.uint64)
    for start in range(0, len(rows), _ROWS):
        some = labels[start : start + _ROWS]
        hashes = _hashes(np.ascontiguousarray(rows[start : start + _ROWS], dtype="<f8") + 0.0)
        np.add.at(out, some, np.concatenate([np.ones((len(some), 1), dtype=np.uint64), hashes], axis=1))
    return out


def _hashes(plain: NDArray[Any], ends: NDArray[Any] | None = None) -> NDArray[np.uint64]:
    """The hash of each row as four numbers; `ends` are hashed behind the rows."""
    joined = plain.view(np.uint8).reshape(len(plain), -1)
    if ends is not None:
        joined = np.concatenate([joined, ends.view(np.uint8).reshape(len(plain), 8)], axis=1)
    cells = joined.reshape(-1).view(f"V{joined.shape[1]}").tolist()
    return np.frombuffer(b"".join([blake2s(cell).digest() for cell in cells]), dtype="<u8").reshape(-1, LANES)


def records_digest(rows: NDArray[Any], labels: NDArray[np.int64] | None = None) -> NDArray[np.uint64]:
    """(number of rows, Σ BLAKE2s of each row in float64 as four numbers modulo 2⁶⁴), of shape (5,).

    The same records in another order, as float32 or float64, or with −0 for 0, are the same data set and share one
    budget; so are the same records with and without labels, since a label is part of its record. Records that were
    scaled, rounded or read by another schema are another data set, which a ledger of the first one refuses unless they
    are stated to be new. With `labels` each row is hashed together with its own: that tells which label belongs to
    which row, too. The digest of several batches is the sum of theirs.

    Examples
    --------
    >>> rows = np.arange(12.0).reshape(6, 2)
    >>> cut = records_digest(rows[4:]) + records_digest(rows[:4])
    >>> bool((cut == records_digest(rows[::-1])).all()), int(cut[0])
    (True, 6)
    """
    out = np.zeros(1 + LANES, dtype=np.uint64)
    out[0] = len(rows)
    for start in range(0, len(rows), _ROWS):
        plain = np.ascontiguousarray(rows[start : start + _ROWS], dtype="<f8") + 0.0
        ends = None if labels is None else np.ascontiguousarray(labels[start : start + _ROWS], dtype="<i8")
        out[1:] += _hashes(plain, ends).sum(axis=0, dtype=np.uint64)
    return out


class Checksum:
    """A quick keyed sum over rows and labels, to notice that records changed between two passes over them.

    Every coordinate is mixed with numbers drawn from `key`, rows are mixed again and added modulo 2⁶⁴: a change is
    missed with a chance of about 2⁻⁶⁴. It is no cryptographic hash, and no ledger knows records by it.
    """

    def __init__(self, key: int) -> None:
        self._key = key
        self._drawn: dict[int, NDArray[np.uint64]] = {}

    @staticmethod
    def fresh_key() -> int:
        """A key of the operating system's entropy."""
        return secrets.randbits(64)

    def of(self, rows: NDArray[np.float64], labels: NDArray[np.int64] | None) -> int:
        """The sum over these rows; that of two batches is their sum modulo 2⁶⁴."""
        columns = rows.shape[1] + 1
        if columns not in self._drawn:
            drawn = np.random.default_rng(self._key).integers(0, 2**64, (3, columns), dtype=np.uint64)
            self._drawn[columns] = drawn | np.uint64(1)
        add, times, again = self._drawn[columns]
        # −0 is 0 here too
        bits = (np.ascontiguousarray(rows, dtype=np.float64) + 0.0).view(np.uint64)
        mixed = np.full(len(rows), add[-1], dtype=np.uint64)
        if labels is not None:
            mixed += _mixed(labels.astype(np.int64).view(np.uint64), add[-1], times[-1], again[-1])
        for place in range(columns - 1):
            mixed += _mixed(bits[:, place], add[place], times[place], again[place])
        return int(_mixed(mixed, add[-1], times[-1], again[-1]).sum(dtype=np.uint64))


def _mixed(bits: NDArray[np.uint64], add: np.uint64, times: np.uint64, again: np.uint64) -> NDArray[np.uint64]:
    out = bits + add
    out *= times
    out ^= out >> np.uint64(32)
    out *= again
    out ^= out >> np.uint64(29)
    return out
