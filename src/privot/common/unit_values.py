"""Whose a record is, as text: one value per record; it quotes no value and keeps none."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from privot.errors import DataError

MISSING = frozenset({"", "?", "na", "n/a", "nan", "nat", "null", "none", "<na>", "--"})
"""Texts, in small letters, that stand for a missing value in files and in the texts that libraries make of one."""


@dataclass(frozen=True)
class Owners:
    """Whose each record of a block is, as text; and whether whole numbers said so, or texts."""

    texts: list[str] = field(repr=False)
    numbers: bool


def block_owners(values: Any, records: int, name: str, marks: frozenset[str] = frozenset()) -> Owners:
    """`unit_texts` of one value per record; refuses another number of them.

    >>> block_owners([7, 12], 2, "patient_id").numbers
    True
    """
    if isinstance(values, np.ma.MaskedArray):
        # what is masked becomes None, and is refused as missing
        values = values.tolist()
    held = np.asarray(values, dtype=object if not isinstance(values, np.ndarray) else None)
    if held.ndim != 1 or len(held) != records:
        raise DataError(f"There must be one unit per record: {records} records, units of shape {held.shape}.")
    found = held.tolist()
    return Owners(unit_texts(found, name, marks), bool(found) and not isinstance(found[0], str))


def unit_texts(values: Iterable[Any], name: str, marks: frozenset[str] = frozenset()) -> list[str]:
    """The values of the unit column `name`, as texts without spaces around them; equal texts are one unit.

    They are all texts or all whole numbers, so that the text of one does not hang on what another is: a reader that
    makes 7.0 of "007" because of a value elsewhere would change whose rows are whose. A missing value (None, NaN, NA,
    or one of the texts `MISSING` and `marks`) is refused: a row that is nobody's could be anybody's, and could not be
    bounded.

    >>> unit_texts([7, 12], "patient_id"), unit_texts([" a ", "007"], "patient_id")
    (['7', '12'], ['a', '007'])
    """
    out: list[str] = []
    texts = numbers = False
    for value in values:
        if isinstance(value, str):
            text, texts = value.strip(), True
        elif isinstance(value, int | np.integer) and not isinstance(value, bool):
            # a number beyond any key has no text: Python refuses to write it out
            if abs(int(value)) >= 1 << 4096:
                raise unit_as_text(name)
            text, numbers = str(int(value)), True
        elif _is_missing(value):
            text = ""
        else:
            raise unit_as_text(name)
        if text in marks or text.casefold() in MISSING:
            raise DataError(f"The unit column {name!r} has a missing value: every row must say whose it is.")
        out.append(text)
    if texts and numbers:
        raise unit_as_text(name)
    return out


def _is_missing(value: Any) -> bool:
    if value is None or value is np.ma.masked:
        return True
    try:
        # NaN, and the missing times of some libraries, are not equal to themselves
        return bool(value != value)
    except TypeError:
        # of some missing values no library says whether they are equal
        return True
    except ValueError:
        return False


def unit_as_text(name: str) -> DataError:
    """The sentence for a unit column of another type."""
    return DataError(
        f"The unit column {name!r} holds neither texts alone nor whole numbers alone: give the unit column as text."
    )
