"""From Arrow's columns to coordinates, a batch at a time, without a Python object per cell; it keeps no batch.

What a value becomes is what `cell_values.parse` makes of it, and depends on that value alone. Numbers and dates go
through whole arrays; of anything else each *distinct* value is parsed once, and the rows refer to it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from privot.errors import DataError, brief
from privot.tables.cell_values import checked, parse
from privot.tables.codec import TableCodec
from privot.tables.columns import Column
from privot.tables.table_writing import arrow

FIRST_DAY, LAST_DAY = -719162, 2932896
"""Days from 1970 to the first and the last day of Python's calendar."""
_PER_SECOND = {"s": 1, "ms": 1000, "us": 1_000_000}


def encode_batch(batch: Any, codec: TableCodec) -> tuple[NDArray[np.float64], NDArray[np.int64] | None]:
    """Compact rows and labels of a record batch, bit for bit as `codec.encode` gives them for its values."""
    names = [str(name) for name in batch.schema.names]
    codec.check_names(names)
    columns = dict(zip(names, batch.columns, strict=True))

    def coordinates(column: Column) -> NDArray[np.float64]:
        numbers = codec.read(column, lambda written: _numbers(written, columns[written.name], codec.marks))
        return codec.coordinates(column, numbers)

    # column by column in memory, as they are written here and read later
    rows = np.empty((batch.num_rows, len(codec.features)), order="F")
    for place, column in enumerate(codec.features):
        rows[:, place] = coordinates(column)
    if codec.schema.label is None:
        return rows, None
    return rows, np.rint(coordinates(codec.schema[codec.schema.label])).astype(np.int64)


def _numbers(column: Column, values: Any, marks: frozenset[str]) -> NDArray[np.float64]:
    """What `parse` gives for every value."""
    kinds, kind = arrow().types, values.type
    if column.is_number and column.type != "date":
        if kinds.is_integer(kind) or kinds.is_floating(kind) or kinds.is_boolean(kind):
            return parse(column, _floats(values), marks)
    elif column.type == "date":
        whole = _moments(column, values)
        if whole is not None:
            return checked(column, whole)
    return _by_distinct_value(column, values, marks)


def _floats(values: Any) -> NDArray[np.float64]:
    """Numbers in float64, NaN where there is none; whole numbers round as `float` rounds them."""
    whole = arrow().float64()
    if arrow().types.is_boolean(values.type):
        values = values.cast(arrow().int8())
    return np.asarray(values.cast(whole, safe=False).to_numpy(zero_copy_only=False), dtype=np.float64)


def _moments(column: Column, values: Any) -> NDArray[np.float64] | None:
    """Days (or seconds) since 1970 of dates and moments without a zone; None where a value has to be looked at alone.

    Nanoseconds, zones and moments outside Python's calendar are left to the slow way, which may refuse them.
    """
    kinds, kind = arrow().types, values.type
    gone = np.asarray(values.is_null())
    if kinds.is_date32(kind):
        days = np.asarray(values.cast(arrow().int32()).fill_null(0)).astype(np.int64)
        seconds = days * 86400
    elif kinds.is_timestamp(kind) and kind.tz is None and kind.unit in _PER_SECOND:
        seconds = np.asarray(values.cast(arrow().int64()).fill_null(0)) // _PER_SECOND[kind.unit]
        days = seconds // 86400
    else:
        return None
    if len(days) and (days.min() < FIRST_DAY or days.max() > LAST_DAY):
        return None
    return np.where(gone, np.nan, (days if column.daily else seconds).astype(np.float64))


def _by_distinct_value(column: Column, values: Any, marks: frozenset[str]) -> NDArray[np.float64]:
    """Parse each distinct value that occurs, once."""
    library = arrow()
    if len(values) == 0:
        return np.empty(0)
    values = _without_views(values)
    if not library.types.is_dictionary(values.type):
        try:
            values = values.dictionary_encode()
        except (library.ArrowInvalid, library.ArrowNotImplementedError):
            return parse(column, python_values(values, column.name), marks)
    gone = np.asarray(values.indices.is_null())
    places = np.asarray(values.indices.fill_null(0)).astype(np.int64)
    # an entry that no row refers to may not decide whether the batch is refused
    used = np.flatnonzero(np.bincount(places[~gone], minlength=len(values.dictionary)))
    becomes = np.zeros(max(len(values.dictionary), 1))
    if len(used):
        becomes[used] = parse(column, python_values(values.dictionary.take(library.array(used)), column.name), marks)
    out = becomes[places]
    if gone.any():
        out[gone] = parse(column, np.array([None], dtype=object), marks)[0]
    return out


def _without_views(values: Any) -> Any:
    """The same values, texts that are views as plain texts: no version of Arrow takes single entries out of views."""
    library = arrow()
    # not every version of the library knows them
    views = getattr(library.types, "is_string_view", lambda _: False)
    if views(values.type):
        return values.cast(library.large_string())
    if library.types.is_dictionary(values.type) and views(values.type.value_type):
        return library.DictionaryArray.from_arrays(values.indices, values.dictionary.cast(library.large_string()))
    return values


def python_values(values: Any, name: str) -> NDArray[Any]:
    """The values of a column called `name` as Python objects."""
    held: list[Any] | None = None
    try:
        held = values.to_pylist()
    except Exception:  # a moment that Python's calendar lacks, say; the message would quote it
        held = None
    if held is None:
        raise DataError(f"Column {brief(name)} holds what no table can, such as a date outside the calendar.")
    out = np.empty(len(held), dtype=object)
    out[:] = held
    return out
