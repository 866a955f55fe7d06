"""Whose a record is, as text: one value per record; it quotes no value and keeps none."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Any

import numpy as np

from privot.errors import DataError


def unit_texts(values: Iterable[Any], name: str, marks: frozenset[str] = frozenset({""})) -> list[str]:
    """The values of the unit column `name`, as texts without spaces around them; equal texts are one unit.

    Whole numbers are written as such, also where a file keeps them as floats: 7, 7.0 and "7" are one unit, "007" is
    another. A missing value (None, NaN, or one of the texts `marks`) is refused: a row that is nobody's could be
    anybody's, and could not be bounded.

    >>> unit_texts([7, 7.0, " a "], "patient_id")
    ['7', '7', 'a']
    """
    known: dict[Any, str] = {}
    out: list[str] = []
    for value in values:
        if not isinstance(value, Hashable):
            raise _no_name(name)
        # by type too: True and 1 are equal, and only one of them is a unit
        found = known.get((type(value), value))
        if found is None:
            found = known[(type(value), value)] = _text(value, name, marks)
        out.append(found)
    return out


def _text(value: Any, name: str, marks: frozenset[str]) -> str:
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, bool | bytes | complex):
        raise _no_name(name)
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    # NaN, and the missing times of some libraries, are not equal to themselves
    text = "" if value is None or value != value else str(value).strip()
    if not text or text in marks or isinstance(value, float):
        what = "a number that is not whole" if isinstance(value, float) and value == value else "a missing value"
        raise DataError(f"The unit column {name!r} has {what}: every row must say whose it is.")
    return text


def _no_name(name: str) -> DataError:
    return DataError(f"The unit column {name!r} holds neither texts nor whole numbers: write them as text.")
