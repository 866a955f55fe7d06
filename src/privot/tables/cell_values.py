"""From the texts and numbers of one column to floats and back; no error here repeats a value.

Everything is done by value, with no look at the other rows: what one record becomes never depends on another.
"""

from __future__ import annotations

import math
import re
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privot.errors import DataError, brief
from privot.tables.columns import Column

_TRUE = {"true", "1", "yes", "t", "y"}
_FALSE = {"false", "0", "no", "f", "n"}
_FEW = 64
_WHOLE = re.compile(r"(-?[0-9]+)\.0+")


def parse(column: Column, values: NDArray[Any], marks: frozenset[str]) -> NDArray[np.float64]:
    """One float a value: the number within the public range, or the place of the category; NaN where it is missing.

    Numbers outside the range are clamped to it. Refuses, naming the column only, what is missing where nothing may be,
    what is no number or date, and (where the schema says so) what is no known category.
    """
    return checked(column, numbers_of(column, values, marks) if column.is_number else _places(column, values, marks))


def checked(column: Column, out: NDArray[np.float64]) -> NDArray[np.float64]:
    """What `parse` gives, from numbers (or places of categories) that may be missing or outside the range."""
    if not column.missing and np.isnan(out).any():
        raise DataError(
            f"Column {brief(column.name)} has missing values, which the schema does not allow: "
            "set missing = true there."
        )
    if column.is_number:
        out = np.clip(out, *column.range)
        if column.is_whole:
            out = np.rint(out)
    return out


def is_missing(value: Any, marks: frozenset[str]) -> bool:
    """Whether `value` stands for a missing one."""
    if value is None or (isinstance(value, float | np.floating) and math.isnan(value)):
        return True
    if isinstance(value, np.datetime64):
        return bool(np.isnat(value))
    return isinstance(value, str) and value.strip() in marks


def numbers_of(column: Column, values: NDArray[Any], marks: frozenset[str]) -> NDArray[np.float64]:
    """One float per value of a column of numbers or dates, as it stands, also outside the range; NaN where missing."""
    if values.dtype.kind in "fiub" and column.type != "date" and not np.isinf(values).any():
        return values.astype(np.float64)
    read = _date if column.type == "date" else _number
    if values.dtype == object and len(values) > _FEW and all(type(value) is str for value in values):
        distinct = set(values)
        if len(distinct) <= len(values) // 2:
            # each text once: what it becomes depends on the text alone
            texts = np.empty(len(distinct), dtype=object)
            texts[:] = list(distinct)
            known = dict(zip(texts, numbers_of(column, texts, marks), strict=True))
            return np.array([known[value] for value in values], dtype=np.float64)
    out = np.empty(len(values))
    failed = False
    try:
        for place, value in enumerate(values):
            out[place] = math.nan if is_missing(value, marks) else read(column, value)
    except Exception:  # an object may throw anything, and quote itself
        failed = True
    # raised out here, so that the message that quotes the value is gone
    if failed:
        kind = f"date in the format {column.format}" if column.type == "date" else "number"
        raise DataError(f"Column {brief(column.name)} holds a value that is no {kind}: correct the file or the schema.")
    return out


def _number(column: Column, value: Any) -> float:
    if isinstance(value, np.complexfloating):
        raise TypeError  # float() would only warn, and quietly drop a part
    number = float(value)
    if math.isinf(number) or (isinstance(value, str) and "_" in value):
        raise ValueError  # not what people write for a number
    return number


def _date(column: Column, value: Any) -> float:
    if isinstance(value, np.datetime64):
        value = value.astype("datetime64[s]").item()
    if isinstance(value, date):
        return column.to_number(value)
    if not isinstance(value, str):
        raise TypeError
    text = value.strip()
    if column.format == "%Y-%m-%d":
        return column.to_number(date.fromisoformat(text))
    return column.to_number(datetime.strptime(text, column.format))


def _places(column: Column, values: NDArray[Any], marks: frozenset[str]) -> NDArray[np.float64]:
    place_of = {str(word): float(place) for place, word in enumerate(column.words)}
    if column.type == "boolean":
        for place, usual in enumerate((_FALSE, _TRUE)):
            for word in usual:
                place_of.setdefault(word, float(place))
    elsewhere = float(len(column.words) - 1) if column.unknown == "other" else None
    known: dict[Any, float] = {}
    out = np.empty(len(values))
    unknown = False
    for row, value in enumerate(values):
        at = known.get(value) if isinstance(value, str) else None
        if at is None:
            text = _word(value, column)
            at = None if text is None else place_of.get(text)
            if at is None and is_missing(value, marks):
                at = math.nan
            if at is None and text is not None:
                at = place_of.get(_whole(text))
            if at is None:
                at = elsewhere
            if at is None:
                unknown, at = True, math.nan
            if isinstance(value, str):
                known[value] = at
        out[row] = at
    if unknown:
        raise DataError(
            f"Column {brief(column.name)} holds a category that the schema does not list: list it, "
            'or set unknown = "other" there.'
        )
    return out


def _word(value: Any, column: Column) -> str | None:
    """The text by which a category is known: 3.0 and 3 are one, and so are True and the boolean's yes; None: none."""
    if isinstance(value, bool | np.bool_) and column.type == "boolean":
        return str(column.categories[int(value)])
    if isinstance(value, float | np.floating) and math.isfinite(value) and value == math.floor(value):
        return str(int(value))
    if isinstance(value, Decimal) and value.is_finite():
        # how many zeros a decimal ends in goes by the other records of its column
        return format(value.normalize(), "f")
    try:
        text = str(value).strip()
    except Exception:  # an object may throw anything, and quote itself
        return None
    return text.lower() if column.type == "boolean" and text not in map(str, column.categories) else text


def _whole(text: str) -> str:
    """The text 3 for 3.0, which some writers put for every 3 of a column where one value is missing."""
    whole = _WHOLE.fullmatch(text)
    return whole[1] if whole else text


def rounded(column: Column, numbers: NDArray[np.float64]) -> NDArray[np.float64]:
    """Numbers of a column of continuous values as they are written: to its decimals, within its range."""
    if column.type != "continuous":
        return numbers
    shorter = numbers if column.decimals is None else np.round(numbers, column.decimals)
    out: NDArray[np.float64] = np.clip(shorter, *column.range)
    return out


def unparse(column: Column, numbers: NDArray[np.float64]) -> NDArray[Any]:
    """Values of the column's own type from what `parse` gives: float64, int64, bool, texts, dates; None if missing."""
    gone = np.isnan(numbers)
    filled = np.where(gone, column.range[0] if column.is_number else 0.0, numbers)
    if column.type == "continuous":
        # a missing float is NaN in its own type
        return np.where(gone, np.nan, rounded(column, filled))
    values: NDArray[Any]
    if column.type == "integer":
        values = np.rint(filled).astype(np.int64)
    elif column.type == "date":
        # a date is whole days or seconds: each is made once, however many rows have it
        distinct, places = np.unique(np.rint(filled), return_inverse=True)
        dates = np.empty(len(distinct), dtype=object)
        dates[:] = [column.to_date(v) for v in distinct]
        values = dates[places]
    elif column.type == "boolean":
        values = filled > 0.5
    else:
        words = np.empty(len(column.words), dtype=object)
        words[:] = column.words
        values = words[np.rint(filled).astype(np.int64)]
    if gone.any():
        values = values.astype(object)
        values[gone] = None
    return values
