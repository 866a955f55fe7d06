"""Which library a DataFrame is of, and the dtypes of the frame that comes out; it sees names and dtypes, no value.

The dtypes of a frame are taken for public, as the types of a Parquet file are. Some are chosen by a library from the
values: pandas makes whole numbers float64 as soon as one of them is missing. Where a single record could decide so, the
schema decides instead: the form of neighbouring frames is the same.
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
_WHOLE = re.compile(r"(u?)int(8|16|32|64)", re.IGNORECASE)
_FLOAT = re.compile(r"(float(32|64)?|double)(\[pyarrow\])?", re.IGNORECASE)


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
        """The form of what comes out where `frame` went in: its kind, and dtypes as far as no record decides them."""
        kind = frame_kind(frame)
        if kind is None:
            raise UsageError(f"Expected a DataFrame of pandas, Polars or Arrow, got {type(frame).__name__}.")
        told = _pandas_dtypes(frame) if kind == "pandas" else _arrow_types(frame, kind)
        resolve = _pandas_target if kind == "pandas" else _arrow_target
        found = ((column, resolve(column, told[column.name])) for column in schema.columns if column.name in told)
        return cls(kind, tuple((column.name, target) for column, target in found if target is not None))


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


def fits(column: Column, whole: str) -> bool:
    """Whether every value of a column of whole numbers, or of categories that are, fits the dtype `whole`."""
    found = _WHOLE.match(whole)
    if found is None:
        return False
    low, high = column.range if column.is_number else (float(min(whole_words(column))), float(max(whole_words(column))))
    bits = int(found[2])
    least, most = (0.0, 2.0**bits - 1) if found[1] else (-(2.0 ** (bits - 1)), 2.0 ** (bits - 1) - 1)
    return least <= low and high <= most


def whole_words(column: Column) -> list[int]:
    """The categories as whole numbers, in order; empty unless all of them are."""
    texts = [str(word) for word in column.words]
    return [int(text) for text in texts] if all(re.fullmatch(r"-?\d{1,15}", text) for text in texts) else []


def is_text(dtype: str) -> bool:
    """Whether a dtype holds texts."""
    return dtype in (TEXT, "str") or dtype.lower().startswith(("string", "large_string"))


def is_category(dtype: str) -> bool:
    """Whether a dtype holds categories."""
    return dtype in (CATEGORY, ORDERED, ENUM) or dtype.startswith("dictionary")


def is_moment(dtype: str) -> bool:
    """Whether a dtype holds dates or moments."""
    return dtype.startswith(("datetime64", "timestamp", "date32"))


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


def _pandas_target(column: Column, told: str) -> str | None:
    """The dtype of pandas for a column of the schema, given the one that went in."""
    if column.type == "continuous":
        return told if _FLOAT.fullmatch(told) else "float64"
    if column.type == "integer":
        return _pandas_whole(column, told)
    if column.type == "date":
        return TEXT if told == "str" else told if is_text(told) or is_moment(told) else "object"
    if is_category(told):
        return CATEGORY if told.startswith("dictionary") else told
    if told in ("object", "str"):
        # yes and no become objects as soon as one is missing
        plain = column.type == "boolean" and column.categories == ("false", "true")
        return ("boolean" if column.missing else "bool") if plain and told == "object" else TEXT
    if is_text(told):
        return told
    if column.type == "boolean" and told.lower().startswith("bool"):
        return told if "pyarrow" in told else "boolean" if column.missing else "bool"
    return _pandas_whole(column, told) if whole_words(column) else TEXT


def _pandas_whole(column: Column, told: str) -> str:
    name = told if _WHOLE.match(told) and fits(column, told) else "int64"
    if "pyarrow" in name:
        return name
    # a dtype that holds missing values wherever there may be some, whether there are any or not
    lower = name.lower()
    return (
        lower.replace("uint", "UInt")
        if column.missing and lower[0] == "u"
        else (lower.capitalize() if column.missing else lower)
    )


def _arrow_target(column: Column, told: str) -> str | None:
    """The type of Arrow for a column of the schema, given the one that went in; None: the schema's own."""
    if column.type == "continuous":
        return told if told in ("float", "double") else None
    if column.type == "integer":
        return told if _WHOLE.match(told) and fits(column, told) else None
    if column.type == "date":
        return told if is_text(told) or is_moment(told) else None
    if is_category(told):
        return ENUM if told == ENUM else CATEGORY
    if is_text(told):
        return told
    if column.type == "boolean" and told == "bool":
        return told
    return told if _WHOLE.match(told) and whole_words(column) and fits(column, told) else None
