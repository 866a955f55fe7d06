"""Data dictionaries (JSON, CSV) and maps of dtypes as hints for a schema; public documents, never the private table."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from privot.errors import DataError, UsageError, brief
from privot.opening import read_json
from privot.tables.columns import NUMBERS, TYPES
from privot.tables.constraints.stated import Constraint
from privot.tables.schema import use_of
from privot.tables.table_files import read_table

SYNONYMS = {
    "int": "integer", "whole": "integer", "long": "integer", "float": "continuous", "double": "continuous",
    "number": "continuous", "numeric": "continuous", "real": "continuous", "decimal": "continuous",
    "str": "categorical", "string": "categorical", "text": "categorical", "category": "categorical",
    "factor": "categorical", "nominal": "categorical", "bool": "boolean", "datetime": "date", "timestamp": "date",
}  # fmt: skip
"""Other words for the types of columns."""
_FIELDS = {"min": "low", "max": "high", "minimum": "low", "maximum": "high", "values": "categories", "column": "name"}
_TRUE, _FALSE = {"true", "yes", "1", "y"}, {"false", "no", "0", "n", ""}
_SMALL = {"int8": (-128, 127), "uint8": (0, 255)}
"""Dtypes whose own range is small enough to be a column's."""


@dataclass(frozen=True)
class Hints:
    """What public documents say: the fields of columns by name, in order, and constraints."""

    columns: dict[str, dict[str, Any]]
    constraints: tuple[Constraint, ...] = ()
    not_columns: tuple[str, ...] = field(default=())
    """Columns that are generated and not learned, such as primary keys."""


def read_dictionary(path: str | Path) -> Hints:
    """A data dictionary: JSON, from column names to their fields, or CSV with a line per column.

    The columns of a CSV file are `name`, `type`, `min` (or low), `max` (or high), `categories` (separated by | or ;),
    and as many other fields of a column as there are (use, missing, decimals, scale, format, unknown). Empty cells
    say nothing.
    """
    if Path(path).suffix.lower() == ".json":
        found = read_json(Path(path))
        if not isinstance(found, dict):
            raise DataError(f"{path} is not a JSON object: expected column names, each with its fields.")
        return Hints(found)
    table = read_table(path)
    named = {_FIELDS.get(name.strip().lower(), name.strip().lower()): table[name] for name in table}
    if "name" not in named:
        raise DataError(f"{Path(path).name!r} has no column called name: a data dictionary has a line per column.")
    out: dict[str, dict[str, Any]] = {}
    for row in range(table.rows):
        cells = {title: str(values[row] if values[row] is not None else "").strip() for title, values in named.items()}
        name = cells.pop("name")
        if not name or name in out:
            raise DataError(f"Line {row + 2} of {Path(path).name!r} names no column, or one that is named above.")
        out[name] = {title: _cell(title, text, name) for title, text in cells.items() if text}
    return Hints(out)


def _cell(title: str, text: str, name: str) -> Any:
    if title == "type":
        found = SYNONYMS.get(text.lower(), text.lower())
        if found not in TYPES:
            raise DataError(f"The data dictionary gives column {brief(name)} the unknown type {brief(text)}.")
        return found
    if title in ("categories", "quantiles"):
        words = [word.strip() for word in re.split(r"[|;]", text) if word.strip()]
        return [_number(word) for word in words] if all(_is_whole(word) for word in words) else words
    if title in ("missing", "drop"):
        if text.lower() not in _TRUE | _FALSE:
            asked = "may be missing" if title == "missing" else "is dropped"
            raise DataError(f"The data dictionary has {brief(text)} for whether {brief(name)} {asked}: say yes or no.")
        return text.lower() in _TRUE
    return _number(text)


def _is_whole(text: str) -> bool:
    return re.fullmatch(r"0|-?[1-9]\d{0,14}", text) is not None


def _number(text: str) -> int | float | str:
    """A number if the text is one; dates and words stay texts."""
    if _is_whole(text):
        return int(text)
    return float(text) if re.fullmatch(r"-?\d*\.?\d+([eE][-+]?\d+)?", text) else text


def read_dtypes(path: str | Path) -> Hints:
    """A map of dtypes as pandas has them: JSON, from column names to dtypes, or to objects with a `dtype` and fields.

    It says the types. Ranges and categories come from another document, unless a dtype has so few values (bool, int8).
    `DataFrame.dtypes.astype(str).to_dict()` of the *public* structure writes one.
    """
    raw = read_json(Path(path))
    if not isinstance(raw, dict) or not raw:
        raise DataError(f"{path} is not a JSON object: expected column names, each with its dtype.")
    out = {}
    for name, value in raw.items():
        fields = dict(value) if isinstance(value, Mapping) else {"dtype": value}
        dtype = fields.pop("dtype", None)
        if not isinstance(dtype, str):
            raise DataError(f"{path} gives column {brief(name)} no dtype.")
        out[name] = _dtype_fields(dtype) | fields
    return Hints(out)


def _dtype_fields(dtype: str) -> dict[str, Any]:
    lower = dtype.lower()
    whole = re.match(r"u?int\d+", lower)
    if whole:
        low_high = _SMALL.get(whole[0])
        ends = {} if low_high is None else dict(zip(("low", "high"), low_high, strict=True))
        # pandas writes whole numbers that may be missing with a capital
        return {"type": "integer", **ends, **({"missing": True} if dtype[0] in "IU" else {})}
    if lower.startswith(("float", "double")):
        return {"type": "continuous"}
    if lower.startswith("bool"):
        # as pandas writes them to CSV
        words = {"categories": ["False", "True"]}
        return {"type": "boolean", **words, **({"missing": True} if lower == "boolean" else {})}
    if lower.startswith(("datetime64", "timestamp", "date")):
        return {"type": "date"}
    return {"type": "categorical"}


def merged_hints(parts: Sequence[Hints], names: Sequence[str] | None = None) -> Hints:
    """One description of every column: later `parts` are asked first; `names` are the table's columns, if known.

    Categories make a column of numbers categorical: codes are no quantities. Refuses, naming them all, columns that are
    neither dropped nor the unit, and of which neither a range nor categories are known.
    """
    columns: dict[str, dict[str, Any]] = {}
    for part in parts:
        for name, fields in part.columns.items():
            if not isinstance(fields, Mapping):
                raise DataError(
                    f"The data dictionary describes column {brief(name)} by an object: low, high, categories …"
                )
            columns[name] = columns.get(name, {}) | dict(fields)
    gone = {name for part in parts for name in part.not_columns}
    if names is not None and not any(name in columns or name in gone for name in names):
        # such a first line may be a record, so nothing of it is quoted
        raise UsageError(
            "The public documents name none of the table's columns: is the table's first line a line of names?"
        )
    wanted = [name for name in (columns if names is None else names) if name not in gone]
    for fields in columns.values():
        if "categories" in fields and fields.get("type") in NUMBERS:
            fields["type"] = "categorical"
    left_out = {name for name in wanted if use_of(name, columns.get(name, {})) in ("drop", "unit")}
    unknown = [name for name in wanted if name not in left_out and not _is_described(columns.get(name, {}))]
    if unknown:
        shown = ", ".join(brief(name) for name in unknown[:8]) + (" …" if len(unknown) > 8 else "")
        raise UsageError(
            f"Nothing public is known about the values of column {shown}: describe a range or categories in a data "
            'dictionary, or leave it out there ("use": "drop", or "unit" where it says whose a row is).'
        )
    constraints = tuple(c for part in parts for c in part.constraints)
    return Hints({name: columns[name] for name in wanted}, constraints, tuple(gone))


def _is_described(fields: Mapping[str, Any]) -> bool:
    ranged = fields.get("low") is not None and fields.get("high") is not None
    return ranged or bool(fields.get("categories")) or fields.get("type") == "boolean"
