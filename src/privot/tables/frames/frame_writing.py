"""From a table with a schema to a DataFrame in a given form; what is written was drawn from a release."""

from __future__ import annotations

from datetime import date, datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privot.common.extras import needing
from privot.tables.columns import Column
from privot.tables.frames.frame_form import (
    CATEGORY,
    ENUM,
    ORDERED,
    TEXT,
    FrameForm,
    is_category,
    is_moment,
    is_text,
)
from privot.tables.schema import Schema
from privot.tables.table import Table
from privot.tables.table_writing import arrow, arrow_type


def frame_of(table: Table, schema: Schema, form: FrameForm) -> Any:
    """The rows of `table`, whose columns are the schema's, as a DataFrame of the kind and dtypes of `form`.

    Columns without a dtype in `form` get one by the schema. Whole numbers that may be missing are nullable integers.
    pandas gets a fresh index. It is post-processing: no record is looked at.

    Parameters
    ----------
    table
        What `TableCodec.decode` gives.
    schema
        Its schema; columns that are generated (keys, constants) follow it too.
    form
        Kind and dtypes; `FrameForm("pandas")` leaves all dtypes to the schema.

    >>> from privot.tables import Column, Schema, Table
    >>> schema = Schema((Column("age", "integer", 0, 120, missing=True),))
    >>> frame_of(Table({"age": [31, None]}), schema, FrameForm("arrow")).schema.field("age").type
    DataType(int64)
    """
    columns = {column.name: column for column in schema.columns}
    if form.kind == "pandas":
        with needing("A pandas DataFrame needs", "frames"):
            import pandas
        parts = {name: _series(pandas, columns.get(name), table[name], form.dtype(name)) for name in table}
        return pandas.DataFrame(parts, columns=list(table))
    library = arrow()
    arrays = {name: _array(library, columns.get(name), table[name], form.dtype(name)) for name in table}
    whole = library.table(arrays)
    if form.kind == "arrow":
        return whole
    with needing("A Polars DataFrame needs", "frames"):
        import polars
    out = polars.from_arrow(whole)
    enums = [n for n in table if form.dtype(n) == ENUM and n in columns]
    return out.with_columns([polars.col(n).cast(polars.Enum([str(w) for w in columns[n].words])) for n in enums])


def _shown(column: Column, values: NDArray[Any], dtype: str) -> list[Any]:
    """Python values in the words of the column: what stands in a cell of texts, categories or whole numbers."""
    out: list[Any] = []
    for value in values.tolist():
        if value is None:
            out.append(None)
        elif isinstance(value, date):
            out.append(value.strftime(column.format))
        else:
            word = column.words[int(value)] if isinstance(value, bool) else value
            out.append(str(word) if is_text(dtype) else word)
    return out


# --- pandas


def _series(pandas: Any, column: Column | None, values: NDArray[Any], dtype: str | None) -> Any:
    if column is None:
        return pandas.Series(values.tolist())
    if column.type == "continuous":
        return pandas.Series(values, dtype="float64").astype(dtype or "float64")
    if column.type == "date":
        return _moments(pandas, column, values, dtype or "datetime64[us]")
    if column.type == "integer":
        return _whole(pandas, values.tolist(), dtype or ("Int64" if column.missing else "int64"))
    if dtype is None and column.type == "boolean":
        dtype = "boolean" if column.missing else "bool"
    dtype = dtype or CATEGORY
    if is_category(dtype):
        words = list(column.words)
        shown = pandas.Categorical(_shown(column, values, dtype), categories=words, ordered=dtype == ORDERED)
        return pandas.Series(shown)
    if is_text(dtype) or dtype == "object":
        numbers = dtype != "object" and not all(isinstance(word, int) for word in column.words)
        shown_words = _shown(column, values, TEXT if numbers else "object")
        if dtype == TEXT:
            # whole numbers stay numbers: a column of them is no text
            texts = numbers and int(pandas.__version__.partition(".")[0]) >= 3
            return pandas.Series(shown_words, dtype="str" if texts else "object")
        return pandas.Series(shown_words, dtype=dtype)
    if dtype.lower().startswith("bool"):
        return _whole(pandas, values.tolist(), dtype)
    return _whole(pandas, [None if w is None else int(w) for w in _shown(column, values, "object")], dtype)


def _whole(pandas: Any, values: list[Any], dtype: str) -> Any:
    """Whole numbers, or yes and no; None where one is missing, if the dtype can hold that."""
    return pandas.Series(values, dtype="object").astype(dtype) if values else pandas.Series(values, dtype=dtype)


def _moments(pandas: Any, column: Column, values: NDArray[Any], dtype: str) -> Any:
    if is_text(dtype):
        shown = _shown(column, values, "object")
        later = int(pandas.__version__.partition(".")[0]) >= 3
        return pandas.Series(shown, dtype=("str" if later else "object") if dtype == TEXT else dtype)
    if not dtype.startswith("datetime64"):
        return pandas.Series(values.tolist(), dtype=dtype)
    plain = np.array([np.datetime64("NaT") if v is None else np.datetime64(v, "s") for v in values], dtype="M8[s]")
    zone = dtype.partition(",")[2].strip(" ]")
    if not zone:
        return pandas.Series(plain).astype(dtype)
    unit = dtype.partition("[")[2].partition(",")[0]
    local = pandas.Series(plain).astype(f"datetime64[{unit}]").dt
    # an hour that a clock skips or repeats is still one moment
    return local.tz_localize(zone, ambiguous=np.zeros(len(plain), dtype=bool), nonexistent="shift_forward")


# --- Arrow, and Polars through it


def _array(library: Any, column: Column | None, values: NDArray[Any], dtype: str | None) -> Any:
    if column is None:
        return library.array(values.tolist())
    if dtype == ENUM or (dtype is not None and is_category(dtype)):
        shown = _shown(column, values, "object" if dtype == CATEGORY else TEXT)
        words = list(column.words) if dtype == CATEGORY else [str(word) for word in column.words]
        if not all(isinstance(word, int) for word in words):
            shown, words = [None if w is None else str(w) for w in shown], [str(word) for word in words]
        places = {word: place for place, word in enumerate(words)}
        indices = library.array([None if w is None else places[w] for w in shown], type=library.int32())
        return library.DictionaryArray.from_arrays(indices, library.array(words))
    kind = arrow_type(library, column) if dtype is None else _type(library, dtype)
    if column.type == "date" and is_moment(str(kind)):
        return _moment_array(library, values, kind)
    if library.types.is_floating(kind):
        return library.array(values, type=kind, from_pandas=True)
    if library.types.is_boolean(kind) or column.type == "integer":
        return library.array(values.tolist(), type=kind)
    text = not library.types.is_integer(kind)
    shown = _shown(column, values, TEXT if text else "object")
    return library.array([None if w is None else w if text else int(w) for w in shown], type=kind)


def _type(library: Any, dtype: str) -> Any:
    """The type that a text of Arrow names."""
    if not dtype.startswith("timestamp"):
        return library.type_for_alias(dtype)
    unit, _, zone = dtype.removeprefix("timestamp[").removesuffix("]").partition(", tz=")
    return library.timestamp(unit, tz=zone or None)


def _moment_array(library: Any, values: NDArray[Any], kind: Any) -> Any:
    found = values.tolist()
    if library.types.is_date(kind):
        return library.array([v.date() if isinstance(v, datetime) else v for v in found], type=kind)
    whole = [v if v is None or isinstance(v, datetime) else datetime(v.year, v.month, v.day) for v in found]
    plain = library.array(whole, type=library.timestamp(kind.unit))
    if kind.tz is None:
        return plain
    import pyarrow.compute

    return pyarrow.compute.assume_timezone(plain, kind.tz, ambiguous="earliest", nonexistent="latest")
