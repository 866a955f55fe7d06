"""Proposes a schema from a *public* sample file; it must never be given the private table.

What it writes down (ranges, categories, whether values are missing) is read off the sample exactly, so whatever is
given here is published. It is a draft for the user to correct: a sample does not know what it has not seen.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from privot.errors import DataError, UsageError, brief
from privot.tables.columns import Column
from privot.tables.schema import MARKS, Schema, several_labels
from privot.tables.table_files import read_table

MAX_CATEGORIES = 200
MARGIN = 0.1
"""A range is widened on each side by this share of what the sample spans, so that it is not its own extremes."""
_DAY = "%Y-%m-%d"


def propose_from_sample(path: str | Path, label: str | Sequence[str] | None = None, *, public: bool) -> Schema:
    """A schema for tables like the one in `path`; `public` = True states that anybody may see that file.

    0 and 1, no and yes and the like become boolean, in the words of the sample; dates (as 2024-12-31) become dates,
    whole numbers integer, other numbers continuous, all else categories, with "other" for those the sample lacks.
    Labels keep exactly the categories that were seen. A column with no value, or with more than 200 different texts, is
    refused: describe it by hand.
    """
    if public is not True:
        raise UsageError(
            "A schema is proposed from a public sample only: pass public=True if anybody may see that file, and "
            "never the private table."
        )
    table = read_table(path)
    first, further = several_labels(label)
    labels = () if first is None else (first, *further)
    for name in labels:
        if name not in table:
            raise UsageError(f"The sample has no column {brief(name)}.")
    columns = tuple(_column(name, table[name], name in labels) for name in table)
    return Schema(columns, first, further_labels=further)


def _column(name: str, values: Any, is_label: bool) -> Column:
    texts = ["" if _gone(value) else str(value).strip() for value in values]
    known = [text for text in texts if text not in MARKS]
    missing = len(known) < len(texts)
    if not known:
        raise DataError(f"The sample has no value in column {brief(name)}: describe it by hand.")
    if not is_label:
        pair = _no_and_yes(set(known))
        if pair is not None:
            return Column(name, "boolean", categories=pair, missing=missing)
        if all(_is_day(text) for text in known):
            days = [datetime.strptime(text, _DAY) for text in known]
            return Column(name, "date", min(days).strftime(_DAY), max(days).strftime(_DAY), missing=missing)  # type: ignore[arg-type]
        numbers = [_number(text) for text in known]
        if not any(math.isnan(number) for number in numbers):
            return _range(name, numbers, missing)
    words = tuple(sorted(set(known)))
    if len(words) > MAX_CATEGORIES:
        raise DataError(f"Column {brief(name)} has more than {MAX_CATEGORIES} different texts: describe it by hand.")
    return Column(name, "categorical", categories=words, missing=missing, unknown=_unknown(words, is_label))


def _no_and_yes(words: set[str]) -> tuple[str | int, str | int] | None:
    """The words for no and yes, as they are written, if these two are such words."""
    for no, yes in (("0", "1"), ("no", "yes"), ("false", "true"), ("n", "y"), ("f", "t")):
        if len(words) == 2 and {word.lower() for word in words} == {no, yes}:
            first, second = sorted(words, key=lambda word: word.lower() == yes)
            return (0, 1) if no == "0" else (first, second)
    return None


def _range(name: str, numbers: list[float], missing: bool) -> Column:
    low, high = min(numbers), max(numbers)
    wider = MARGIN * (high - low)
    # what is never negative in the sample is taken never to be
    ends = max(low - wider, 0.0) if low >= 0.0 else low - wider, high + wider
    if all(number == math.floor(number) for number in numbers):
        return Column(name, "integer", math.floor(ends[0]), math.ceil(ends[1]), missing=missing)
    return Column(name, "continuous", *ends, missing=missing)


def _unknown(words: tuple[str, ...], is_label: bool) -> Any:
    return "refuse" if is_label or "other" in words else "other"


def _gone(value: Any) -> bool:
    return value is None or (isinstance(value, float) and math.isnan(value))


def _is_day(text: str) -> bool:
    try:
        return datetime.strptime(text, _DAY).strftime(_DAY) == text
    except ValueError:
        return False


def _number(text: str) -> float:
    """The finite number a text stands for, or NaN."""
    try:
        number = float(text)
    except ValueError:
        return math.nan
    return number if math.isfinite(number) and "_" not in text else math.nan
