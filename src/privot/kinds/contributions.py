"""Bounds what one unit contributes: at most so many of its rows take part, before anything is computed.

Which rows of a unit take part is a function of that unit's own rows, as a multiset, and of a public constant: never of
where they stand in the file, and never of another unit. Adding or removing a unit therefore adds or removes at most
`most` rows and leaves all others as they were, and every sensitivity for one record holds `most` times over.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privot.common.unit_values import block_owners
from privot.data.unit_marks import KEY, row_marks, smallest_copies


def checked_units(units: Any, records: int, name: str) -> list[str]:
    """The unit of every record, as text; refuses another number of them, missing ones and what is no name."""
    return block_owners(units, records, name).texts


def kept_rows(
    units: list[str], rows: NDArray[Any], labels: NDArray[np.int64] | None, most: int, key: bytes = KEY
) -> NDArray[np.int64]:
    """The places, rising, of the rows that take part: at most `most` of each unit.

    Of a unit with more rows, those with the smallest hashes take part. The hash is keyed BLAKE2b of the unit, the row
    in float64 with its label, and, of equal rows, which copy it is: first, second … (`privot.data.unit_marks`). Which
    of two equal rows is called the first makes no difference to what is kept.

    Formal guarantee: the multiset of rows kept of a unit is a function of the multiset of its rows, of `most` and of
    `key`. It is the same for every order of the file, and whatever other units there are. Records that lie in
    partitions keep the same rows (`privot.partitions.chosen_rows`).

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
        own = None if labels is None else labels[places]
        marks = row_marks([units[places[0]]] * len(places), rows[places], own, key)
        left = smallest_copies(Counter(marks), most, key)
        for place, mark in zip(places, marks, strict=True):
            if left.get(mark, 0):
                left[mark] -= 1
                takes_part[place] = True
    return np.flatnonzero(takes_part)
