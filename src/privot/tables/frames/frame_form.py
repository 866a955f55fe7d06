"""Which library a DataFrame is of, and the dtypes of the frame that comes out; it sees names and dtypes, no value.

Readers choose most dtypes by the values: one cell that is missing, odd or a mark of the schema makes whole numbers
float64 or text, and dates text. So what comes out has the schema's own dtypes, and the form of neighbouring frames is
the same. Only dtypes that no reader chooses by values are kept, where the schema allows them: narrow numbers that hold
whatever the column may, and categories.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from privot.errors import DataError, UsageError, brief
from privot.tables.columns import Column
from privot.tables.schema import Schema

FRAME_KINDS = ("pandas", "polars", "arrow")
ENUM = "enum"
"""A Polars Enum. What comes out has the schema's categories: the frame's own may have been read off the records."""
CATEGORY, ORDERED = "category", "category, ordered"
TEXT = "text"
"""Text of pandas' own kind: object before pandas 3, str from then on."""
MOMENT = "datetime64[us]"
"""Dates and moments of pandas."""
_NARROW = re.compile(r"(u?)int(8|16|32)(\[pyarrow\])?", re.IGNORECASE)


@dataclass(frozen=True)
class FrameForm:
    """The `kind` of a DataFrame and, by column, the dtype in which that column is written; public, and no value.

    >>> from privot.tables import Column, Schema
    >>> FrameForm("pandas", (("age", "Int64"),)).to_dict()
    {'kind': 'pandas', 'dtypes': {'age': 'Int64'}}
    """

    kind: str
    dtypes: tuple[tuple[str, str], ...] = ()

    def __post_init__(self) -> None:
        if self.kind not in FRAME_KINDS:
            raise UsageError(f"A DataFrame is one of {', '.join(FRAME_KINDS)}, got {brief(self.kind)}.")

    def dtype(self, name: str) -> str | None:
        """The dtype of the column called `name`; None where the schema decides."""
        return dict(self.dtypes).get(name)

    def to_dict(self) -> dict[str, Any]:
        """As plain JSON types."""
        return {"kind": self.kind, "dtypes": dict(self.dtypes)}

    @classmethod
    def from_dict(cls, raw: Any) -> FrameForm:
        """Read what `to_dict` wrote."""
        held = raw.get("dtypes") if isinstance(raw, Mapping) else None
        if not isinstance(held, Mapping) or not all(isinstance(text, str) for text in [*held, *held.values()]):
            raise DataError("This does not describe the dtypes of a DataFrame.")
        return cls(raw.get("kind"), tuple(held.items()))

    @classmethod
    def of(cls, frame: Any, schema: Schema) -> FrameForm:
        """The form of what comes out where `frame` went in: its kind, and the dtypes of it that no record decides."""
        kind = frame_kind(frame)
        if kind is None:
            raise UsageError(f"Expected a DataFrame of pandas, Polars or Arrow, got {type(frame).__name__}.")
        told = _pandas_dtypes(frame) if kind == "pandas" else _arrow_types(frame, kind)
        found = ((c, decided_dtype(kind, c, told[c.name])) for c in schema.columns if c.name in told)
        return cls(kind, tuple((column.name, dtype) for column, dtype in found if dtype is not None))


def frame_kind(value: Any) -> str | None:
    """Of which library `value` is a DataFrame (or Arrow table); None where it is none. Nothing is imported."""
    for parent in type(value).__mro__:
        library = parent.__module__.partition(".")[0]
        if library in ("pandas", "polars") and parent.__name__ == "DataFrame":
            return library
        if library == "polars" and parent.__name__ == "LazyFrame":
            raise UsageError("A Polars LazyFrame holds no rows yet: call collect() first.")
        if library == "pyarrow" and parent.__name__ in ("Table", "RecordBatch"):
            return "arrow"
    return None


def decided_dtype(kind: str, column: Column, told: str | None) -> str | None:
    """The dtype in which `column` is written where one of dtype `told` went in; None: the schema's own of Arrow.

    Every dtype that some reader chooses by the values gives the same. What it gives is given again for itself.
    """
    if told is None:
        return None
    return _pandas_dtype(column, told) if kind == "pandas" else _arrow_dtype(kind, column, told)


def _pandas_dtype(column: Column, told: str) -> str:
    if column.type == "date":
        return MOMENT
    if column.type == "continuous":
        return told if told == "float32" else "float64"
    if column.type == "integer":
        return _pandas_whole(column, told)
    if told in (CATEGORY, ORDERED):
        return told
    if column.is_false_or_true:
        return "boolean" if column.missing else "bool"
    return _pandas_whole(column, told) if has_whole_words(column) else TEXT


def _pandas_whole(column: Column, told: str) -> str:
    if column.missing:
        # a narrow dtype becomes float64 in one reader, int64 in the next, as soon as one value is missing
        return "Int64"
    return told if _is_narrow(column, told) else "int64"


def _arrow_dtype(kind: str, column: Column, told: str) -> str | None:
    if column.type == "continuous":
        return told if told == "float" else None
    if column.type == "date":
        return None
    if column.type != "integer":
        if kind == "polars" and (told in (ENUM, CATEGORY) or told.startswith("dictionary")):
            return ENUM if told == ENUM else CATEGORY
        # Arrow's reader may choose a dictionary by how many texts it saw
        if not has_whole_words(column):
            return None
    return told if _is_narrow(column, told) else None


def _is_narrow(column: Column, told: str) -> bool:
    """Whether `told` is a dtype of whole numbers below 64 bits that holds every value of the column."""
    found = _NARROW.fullmatch(told)
    if found is None:
        return False
    low, high = column.range if column.is_number else (min(map(int, column.words)), max(map(int, column.words)))
    bits = int(found[2])
    least, most = (0, 2**bits - 1) if found[1] else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    return least <= low and high <= most


def has_whole_words(column: Column) -> bool:
    """Whether all categories are whole numbers, and no texts."""
    return all(isinstance(word, int) for word in column.words)


def _pandas_dtypes(frame: Any) -> dict[str, str]:
    """The dtype of every column; no category of one is looked at."""
    out = {}
    for name, dtype in zip(frame.columns, frame.dtypes, strict=True):
        text = str(dtype)
        out[str(name)] = ORDERED if text == CATEGORY and dtype.ordered else text
    return out


def _arrow_types(frame: Any, kind: str) -> dict[str, str]:
    held = frame if kind == "arrow" else frame.clear().to_arrow()
    out = {str(field.name): str(field.type) for field in held.schema}
    if kind == "polars":
        out |= {name: ENUM for name, dtype in frame.schema.items() if type(dtype).__name__ == "Enum"}
    return out
