"""By which rows of a unit are told apart and put in order: keyed hashes of the unit and the row; it chooses none.

Which rows of a unit take part (`privot.kinds.contributions`) is decided by these hashes alone, so it can be decided
where no row is: whoever holds the hashes of all rows of a unit knows which of them are the smallest, whichever files
the rows lie in.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.typing import NDArray

KEY = b"privot: rows of a unit that take part, version 2"
"""The key of the hashes: one constant for everybody.

The guarantee holds for every fixed key, known or not, because it holds whatever rows of a unit are kept, if only that
unit decides. A key taken from the data would let one unit decide about another's rows. A fresh one per vault would show
other rows in every release, and a job that is resumed would not find its records again.
"""
OWNER_BYTES = 32
"""Bytes of a mark that say whose a row is."""
MARK_BYTES = 64
"""Bytes of a mark: whose a row is, and which row it is."""


def row_marks(
    owners: Sequence[str], rows: NDArray[Any], labels: NDArray[np.int64] | None, key: bytes = KEY
) -> list[bytes]:
    """The mark of every row: BLAKE2b-256 of the owner's text, then that of (`_salt` of the owner, row, label).

    Rows of one owner have one mark exactly if they are equal, with equal labels; rows of two owners never have. That
    rests on BLAKE2b with 256 bits having no collisions that anybody can find. Rows are hashed in float64, −0 as 0.

    >>> marks = row_marks(["a", "b", "a"], np.array([[1.0], [1.0], [-0.0]]), None)
    >>> marks == row_marks(["a", "b", "a"], np.array([[1.0], [1.0], [0.0]], dtype=np.float32), None), len(set(marks))
    (True, 3)
    """
    plain = np.ascontiguousarray(rows, dtype="<f8") + 0.0
    ends = [b""] * len(plain) if labels is None else [label.tobytes() for label in labels.astype("<i8")]
    known: dict[str, tuple[bytes, Any]] = {}
    out = []
    for owner, row, end in zip(owners, plain, ends, strict=True):
        found = known.get(owner)
        if found is None:
            text, name = _bytes(owner), _bytes(_salt(owner))
            whose = blake2b(text, digest_size=OWNER_BYTES, key=key, person=b"owner").digest()
            size = MARK_BYTES - OWNER_BYTES
            start = blake2b(len(name).to_bytes(8, "little") + name, digest_size=size, key=key, person=b"row")
            found = known[owner] = whose, start
        digest = found[1].copy()
        digest.update(row.tobytes() + end)
        out.append(found[0] + digest.digest())
    return out


def smallest_copies(copies: Mapping[bytes, int], most: int, key: bytes = KEY) -> dict[bytes, int]:
    """How many copies of each row of *one* unit take part: at most `most` in all, those with the smallest hashes.

    `copies` says of every mark of the unit how often it occurs. Each copy, first, second …, has a hash of its own, of
    the row's part of the mark and its number, so that a row which occurs three times is three times as likely to be
    kept as one which occurs once.

    Formal guarantee: what comes back is a function of `copies`, `most` and `key`: of the unit's rows as a multiset.

    >>> found = smallest_copies({bytes(64): 3, bytes(63) + b"x": 2}, 4)
    >>> sum(found.values()), len(found)
    (4, 2)
    """
    found: list[tuple[bytes, bytes]] = []
    for mark, times in copies.items():
        start = blake2b(mark[OWNER_BYTES:], digest_size=32, key=key, person=b"copy")
        for number in range(times):
            digest = start.copy()
            digest.update(number.to_bytes(8, "little"))
            found.append((digest.digest(), mark))
    found.sort()
    out: dict[bytes, int] = {}
    for _, mark in found[:most]:
        out[mark] = out.get(mark, 0) + 1
    return out


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _salt(unit: str) -> str:
    """What of a unit's text enters the hash of its rows: of a whole number the number, without + and leading zeros.

    Without anything of the unit, units with equal rows would all keep the same ones, and a table of few categories
    would be bent. With its text as it stands, a reader before privot that takes "007" for 7 unless some other unit is
    no number would let that other unit decide. Two units may share a salt: each decides about its own rows only.

    >>> [_salt(text) for text in ("007", "7", "+7", "-07", "000", "a07")]
    ['7', '7', '7', '-7', '0', 'a07']
    """
    digits = unit[1:] if unit[:1] in ("+", "-") else unit
    if not (digits.isascii() and digits.isdigit()):
        return unit
    number = digits.lstrip("0") or "0"
    return f"-{number}" if unit[0] == "-" and number != "0" else number
