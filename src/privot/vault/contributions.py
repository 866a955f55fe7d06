"""Bounds what one unit contributes: at most so many of its rows take part, before anything is computed.

Which rows of a unit take part is a function of that unit's own rows, as a multiset, and of a public constant: never of
where they stand in the file, and never of another unit. Adding or removing a unit therefore adds or removes at most
`most` rows and leaves all others as they were, and every sensitivity for one record holds `most` times over.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privot.common.unit_values import unit_texts
from privot.errors import DataError

KEY = b"privot: rows of a unit that take part, version 1"
"""The key of the hash: one constant for everybody.

The guarantee holds for every fixed key, known or not, because it holds whatever rows of a unit are kept, if only that
unit decides. A key taken from the data would let one unit decide about another's rows. A fresh one per vault would show
other rows in every release, and a job that is resumed would not find its records again.
"""


def checked_units(units: Any, records: int, name: str) -> list[str]:
    """The unit of every record, as text; refuses another number of them, missing ones and what is no name."""
    if isinstance(units, np.ma.MaskedArray):
        # what is masked becomes None, and is refused as missing
        units = units.tolist()
    values = np.asarray(units, dtype=object if not isinstance(units, np.ndarray) else None)
    if values.ndim != 1 or len(values) != records:
        raise DataError(f"There must be one unit per record: {records} records, units of shape {values.shape}.")
    return unit_texts(values.tolist(), name)


def kept_rows(
    units: list[str], rows: NDArray[Any], labels: NDArray[np.int64] | None, most: int, key: bytes = KEY
) -> NDArray[np.int64]:
    """The places, rising, of the rows that take part: at most `most` of each unit.

    Of a unit with more rows, those with the smallest hashes take part. The hash is keyed BLAKE2b of the unit (`_salt`),
    the row in float64 with its label, and, of equal rows, which copy it is: first, second … Which of two equal rows is
    called the first makes no difference to what is kept. Two different rows with one hash are put in order by their
    content.

    Formal guarantee: the multiset of rows kept of a unit is a function of the multiset of its rows, of `most` and of
    `key`. It is the same for every order of the file, and whatever other units there are.

    >>> kept_rows(["a", "b", "a"], np.array([[1.0], [1.0], [1.0]]), None, 1).shape
    (2,)
    """
    numbers: dict[str, int] = {}
    owner = np.fromiter((numbers.setdefault(unit, len(numbers)) for unit in units), dtype=np.int64, count=len(units))
    sizes = np.bincount(owner)
    crowded = np.flatnonzero(sizes[owner] > most)
    takes_part = np.ones(len(units), dtype=bool)
    takes_part[crowded] = False
    of_unit: dict[int, list[int]] = {}
    for place in crowded.tolist():
        of_unit.setdefault(int(owner[place]), []).append(place)
    for places in of_unit.values():
        takes_part[_smallest(units[places[0]], places, rows, labels, most, key)] = True
    return np.flatnonzero(takes_part)


def _salt(unit: str) -> str:
    """What of a unit's text enters the hash: of a whole number, the number as such, without sign + and leading zeros.

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


def _smallest(
    unit: str, places: list[int], rows: NDArray[Any], labels: NDArray[np.int64] | None, most: int, key: bytes
) -> list[int]:
    """Those `places` of one unit whose rows have the smallest hashes."""
    name = _salt(unit).encode("utf-8", "surrogatepass")
    start = blake2b(len(name).to_bytes(8, "little") + name, key=key)
    copies: dict[bytes, int] = {}
    found: list[tuple[bytes, bytes, int, int]] = []
    # −0 is 0, as for the ledger
    plain = np.asarray(rows[places], dtype="<f8") + 0.0
    for place, row in zip(places, plain, strict=True):
        content = row.tobytes() + (b"" if labels is None else int(labels[place]).to_bytes(8, "little", signed=True))
        copy = copies.get(content, 0)
        copies[content] = copy + 1
        digest = start.copy()
        digest.update(content + copy.to_bytes(8, "little"))
        found.append((digest.digest(), content, copy, place))
    found.sort()
    return [place for _, _, _, place in found[:most]]
