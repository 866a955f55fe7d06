"""From a table with a schema to a DataFrame in a given form; what is written was drawn from a release."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from privot.common.extras import needing
from privot.tables.columns import Column
from privot.tables.frames.frame_form import (
    CATEGORY,
    ENUM,
    MOMENT,
    ORDERED,
    TEXT,
    FrameForm,
    decided_dtype,
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
    # decided again: a form may have been read from a file
    dtypes = {name: decided_dtype(form.kind, column, form.dtype(name)) for name, column in columns.items()}
    if form.kind == "pandas":
        with needing("A pandas DataFrame needs", "frames"):
            import pandas
        parts = {name: _series(pandas, columns.get(name), table[name], dtypes.get(name)) for name in table}
        return pandas.DataFrame(parts, columns=list(table))
    library = arrow()
    arrays = {name: _array(library, columns.get(name), table[name], dtypes.get(name)) for name in table}
    whole = library.table(arrays)
    if form.kind == "arrow":
        return whole
    with needing("A Polars DataFrame needs", "frames"):
        import polars
    out: Any = polars.from_arrow(whole)
    enums = [name for name, dtype in dtypes.items() if dtype == ENUM]
    return out.with_columns([polars.col(n).cast(polars.Enum([str(w) for w in columns[n].words])) for n in enums])


def _shown(column: Column, values: NDArray[Any]) -> list[Any]:
    """Values in the words of the column."""
    return [column.words[int(value)] if isinstance(value, bool) else value for value in values.tolist()]


def _as_texts(words: list[Any]) -> list[str | None]:
    return [None if word is None else str(word) for word in words]


# --- pandas


def _series(pandas: Any, column: Column | None, values: NDArray[Any], dtype: str | None) -> Any:
    if column is None:
        return pandas.Series(values.tolist())
    if column.type == "continuous":
        return pandas.Series(values, dtype="float64").astype(dtype or "float64")
    if column.type == "date":
        plain = [np.datetime64("NaT") if v is None else np.datetime64(v, "s") for v in values]
        return pandas.Series(np.array(plain, dtype="M8[s]")).astype(MOMENT)
    if column.type == "integer":
        return _of_objects(pandas, values.tolist(), dtype or ("Int64" if column.missing else "int64"))
    if column.is_false_or_true and dtype not in (CATEGORY, ORDERED):
        return _of_objects(pandas, values.tolist(), "boolean" if column.missing else "bool")
    shown = _shown(column, values)
    if dtype in (None, CATEGORY, ORDERED):
        kind = pandas.CategoricalDtype(list(column.words), ordered=dtype == ORDERED)
        return pandas.Series(pandas.Categorical(shown, dtype=kind))
    if dtype == TEXT:
        later = int(pandas.__version__.partition(".")[0]) >= 3
        return pandas.Series(_as_texts(shown), dtype="str" if later else "object")
    return _of_objects(pandas, shown, dtype)


def _of_objects(pandas: Any, values: list[Any], dtype: str | None) -> Any:
    """Whole numbers, or yes and no; None where one is missing, if the dtype can hold that."""
    return pandas.Series(values, dtype="object").astype(dtype) if values else pandas.Series(values, dtype=dtype)


# --- Arrow, and Polars through it


def _array(library: Any, column: Column | None, values: NDArray[Any], dtype: str | None) -> Any:
    if column is None:
        return library.array(values.tolist())
    if dtype in (ENUM, CATEGORY):
        places = {word: place for place, word in enumerate(column.words)}
        indices = library.array([places.get(word) for word in _shown(column, values)], type=library.int32())
        return library.DictionaryArray.from_arrays(indices, library.array([str(word) for word in column.words]))
    kind = arrow_type(library, column) if dtype is None else library.type_for_alias(dtype)
    if library.types.is_floating(kind):
        return library.array(values, type=kind, from_pandas=True)
    if column.is_number or library.types.is_boolean(kind):
        return library.array(values.tolist(), type=kind)
    shown = _shown(column, values)
    return library.array(shown if library.types.is_integer(kind) else _as_texts(shown), type=kind)
