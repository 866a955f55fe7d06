"""What a ledger knows records by: a keyed sum of hashes, the same in any order and however the records are cut.

Each row is hashed by BLAKE2s under a key (32 bytes) and the hashes are added, as four numbers of 64 bits, modulo 2⁶⁴
each. So a digest can be taken a batch at a time, in any order and by many processes.

Two different sets of N records have one digest with a chance of at most (2⁶⁴/N)⁻⁴ over the key (N = 10⁸: 2⁻¹⁴⁹), if
BLAKE2s under an unknown key behaves like a random function: some row r occurs c times more often in one of them; take
the r whose c has the fewest factors 2, say 2ᵛ ≤ N. Whatever the other hashes are, c·h(r) must be one number modulo 2⁶⁴
in each of four places, and at most 2ᵛ of 2⁶⁴ values do that.

The key is what this rests on. Without one, who chooses records finds two sets of one sum: by lists (Wagner's
generalised birthday attack) and, as rows may repeat, by short vectors of a lattice, against which even a sum of
thousands of bits does not help. Who knows the key can do the same; a ledger derives it from its own secret, and
workers, who read the records, get it for the time of a pass.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from hashlib import blake2s, sha256
from typing import Any

import numpy as np
from numpy.typing import NDArray

LANES = 4
KEY_BYTES = 32
_ROWS = 1 << 13
_MIXED = 1 << 16
"""Numbers that a checksum mixes at once: they stay in a core's second cache."""


def class_digests(
    key: bytes, rows: NDArray[Any], labels: NDArray[np.int64] | None = None, classes: int | None = None
) -> NDArray[np.uint64]:
    """`records_digest` of the rows of each class, of shape (classes, 5), or (1, 5) without labels.

    Its sum over classes is that of all rows; together they tell which label belongs to which row.
    """
    out = np.zeros((1 if labels is None else classes or 1, 1 + LANES), dtype=np.uint64)
    for start in range(0, len(rows), _ROWS):
        # −0 is 0, and float32 is the float64 of the same value
        hashes = _hashes(key, np.ascontiguousarray(rows[start : start + _ROWS], dtype="<f8") + 0.0)
        if labels is None:
            out[0, 0] += np.uint64(len(hashes))
            out[0, 1:] += hashes.sum(axis=0, dtype=np.uint64)
        else:
            counted = np.concatenate([np.ones((len(hashes), 1), dtype=np.uint64), hashes], axis=1)
            np.add.at(out, labels[start : start + _ROWS], counted)
    return out


def records_digest(key: bytes, rows: NDArray[Any]) -> NDArray[np.uint64]:
    """(number of rows, Σ keyed BLAKE2s of each row in float64 as four numbers modulo 2⁶⁴), of shape (5,).

    The same records in another order, as float32 or float64, or with −0 for 0, are the same data set and share one
    budget; so are the same records with and without labels, since a label is part of its record. Records that were
    scaled, rounded or read by another schema are another data set, which a ledger of the first one refuses unless they
    are stated to be new. The digest of several batches is the sum of theirs.

    Examples
    --------
    >>> key, rows = bytes(32), np.arange(12.0).reshape(6, 2)
    >>> cut = records_digest(key, rows[4:]) + records_digest(key, rows[:4])
    >>> bool((cut == records_digest(key, rows[::-1])).all()), int(cut[0])
    (True, 6)
    """
    out: NDArray[np.uint64] = class_digests(key, rows)[0]
    return out


def row_digests(rows: NDArray[Any], labels: NDArray[np.int64] | None = None) -> NDArray[np.uint8]:
    """SHA-256 of every row in float64, sorted, of shape (records, 32): it names rows in memory without a key.

    The same records in another order, as float32 or float64, or with −0 for 0, have the same digests. With `labels`
    each row is hashed together with its label, so that a changed label changes the digests.
    """
    ends = [b""] * len(rows) if labels is None else [label.tobytes() for label in labels.astype("<i8")]
    plain = [(np.asarray(row, dtype="<f8") + 0.0).tobytes() for row in rows]
    digests = sorted(sha256(row + end).digest() for row, end in zip(plain, ends, strict=True))
    return np.frombuffer(b"".join(digests), dtype=np.uint8).reshape(len(digests), 32)


def owned_digest(key: bytes, rows: NDArray[Any], owners: Sequence[str]) -> NDArray[np.uint64]:
    """`records_digest` of the pairs (owner, row): the same rows under other owners have another one.

    Give it another key than `records_digest`. An owner is hashed with the length of its text, so no other pair has the
    same bytes.

    >>> key, rows = bytes(32), np.arange(4.0).reshape(2, 2)
    >>> sums = [owned_digest(key, *pairs) for pairs in ((rows, ["a", "b"]), (rows[::-1], ["b", "a"]), (rows, "ba"))]
    >>> [bool((one == sums[0]).all()) for one in sums]
    [True, True, False]
    """
    out = np.zeros(1 + LANES, dtype=np.uint64)
    texts = [owner.encode("utf-8", "surrogatepass") for owner in owners]
    starts = [len(text).to_bytes(8, "little") + text for text in texts]
    for start in range(0, len(rows), _ROWS):
        plain = np.ascontiguousarray(rows[start : start + _ROWS], dtype="<f8") + 0.0
        hashes = _hashes(key, plain, starts[start : start + _ROWS])
        out[0] += np.uint64(len(hashes))
        out[1:] += hashes.sum(axis=0, dtype=np.uint64)
    return out


def _hashes(key: bytes, plain: NDArray[Any], starts: Sequence[bytes] | None = None) -> NDArray[np.uint64]:
    """The hash of each row, with what stands before it, as four numbers."""
    if len(key) != KEY_BYTES:
        raise ValueError(f"the key of a digest has {KEY_BYTES} bytes")
    width = plain.shape[1] * 8
    cells = plain.reshape(-1).view(f"V{width}").tolist() if width else [b""] * len(plain)
    if starts is not None:
        cells = [start + cell for start, cell in zip(starts, cells, strict=True)]
    joined = b"".join([blake2s(cell, key=key).digest() for cell in cells])
    return np.frombuffer(joined, dtype="<u8").reshape(-1, LANES)


class Checksum:
    """A quick keyed sum over rows and labels, to notice that records changed between two passes over them.

    Every coordinate is mixed with numbers drawn from `key`, rows are mixed again and added modulo 2⁶⁴. If the mixing
    behaved like a random function, a change of one row would be missed with a chance of 2⁻⁶⁴; no theorem says that it
    does, and more is missed where a row is repeated (2ᵛ more times: 2⁻⁶⁴⁺ᵛ). It notices accidents and late writers; it
    is no cryptographic hash, and neither a ledger nor a mark of a release knows records by it.
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
        mixed = np.full(len(rows), add[-1], dtype=np.uint64)
        if labels is not None:
            mixed += _mixed(labels.astype(np.int64).view(np.uint64), add[-1], times[-1], again[-1])
        step = max(1, _MIXED // columns)
        for start in range(0, len(rows), step):
            # −0 is 0 here too
            plain = np.ascontiguousarray(rows[start : start + step], dtype=np.float64) + 0.0
            each = _mixed(plain.view(np.uint64), add[:-1], times[:-1], again[:-1])
            mixed[start : start + step] += each.sum(axis=1, dtype=np.uint64)
        return int(_mixed(mixed, add[-1], times[-1], again[-1]).sum(dtype=np.uint64))

    def of_marks(self, marks: Sequence[bytes]) -> int:
        """The sum over the marks of rows (`unit_marks`): it changes when a row changes hands."""
        if not marks:
            return 0
        held = np.frombuffer(b"".join(marks), dtype="<u8").reshape(len(marks), -1)
        drawn = np.random.default_rng([self._key, 1]).integers(0, 2**64, (3, held.shape[1]), dtype=np.uint64)
        add, times, again = drawn | np.uint64(1)
        mixed = np.zeros(len(marks), dtype=np.uint64)
        for place in range(held.shape[1]):
            mixed += _mixed(held[:, place], add[place], times[place], again[place])
        return int(_mixed(mixed, add[0], times[0], again[0]).sum(dtype=np.uint64))


def _mixed(bits: NDArray[np.uint64], add: Any, times: Any, again: Any) -> NDArray[np.uint64]:
    """Mixed by the numbers of their columns; the same number for all where those are single."""
    out: NDArray[np.uint64] = bits + add
    out *= times
    out ^= out >> np.uint64(32)
    out *= again
    out ^= out >> np.uint64(29)
    return out
