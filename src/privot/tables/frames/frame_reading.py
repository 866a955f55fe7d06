"""From the rows of a DataFrame to coordinates, each row by itself; no error repeats a value, and no frame is kept."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from privot.errors import DataError, brief
from privot.tables.arrow_columns import encode_batch
from privot.tables.codec import TableCodec
from privot.tables.frames.frame_form import frame_kind
from privot.tables.table import Table
from privot.tables.table_files import CHUNK, check_arrow_schema
from privot.tables.table_writing import arrow


def encode_frame(frame: Any, codec: TableCodec) -> tuple[NDArray[np.float64], NDArray[np.int64] | None]:
    """Compact rows and labels of a DataFrame, as `codec.encode` gives them for its values; its index is not read.

    What a row becomes depends on its own values and on the schema. The dtype that pandas gives a column may depend on
    all of its values, but 3 and 3.0, True and a True among objects become the same.
    """
    kind = frame_kind(frame)
    if len(frame) == 0:
        raise DataError("The DataFrame holds no records: give at least one.")
    if kind == "pandas":
        return codec.encode(_pandas_table(frame), compact=True)
    # of the dtypes of Polars and Arrow none depends on a value
    held = _checked(frame) if kind == "arrow" else _in_arrow(frame)
    check_arrow_schema(held.schema, "the DataFrame")
    batches = held.to_batches(CHUNK) if hasattr(held, "to_batches") else [held]
    blocks = [encode_batch(batch, codec) for batch in batches if batch.num_rows]
    labels = [y for _, y in blocks if y is not None]
    return np.concatenate([x for x, _ in blocks]), np.concatenate(labels) if labels else None


def _checked(table: Any) -> Any:
    """An Arrow table or batch as it is; refuses one whose parts point to where nothing is."""
    broken = False
    try:
        table.validate(full=True)
    except arrow().ArrowException:  # the message may quote a value
        broken = True
    if broken:
        raise DataError(
            "The Arrow table contradicts itself, such as an index of a dictionary without an entry: make it anew."
        )
    return table


def _in_arrow(frame: Any) -> Any:
    """A Polars frame as an Arrow table; refuses dtypes that Arrow lacks."""
    for name in frame.columns:
        lacking = False
        try:
            frame.select(name).clear().to_arrow()
        except Exception:  # each version of the two has errors of its own
            lacking = True
        if lacking:
            raise DataError(
                f"Column {brief(name)} of the DataFrame has the dtype {frame.schema[name]}, which Arrow lacks: cast it "
                "to one that it has, such as Int64, Float64 or String."
            )
    return frame.to_arrow()


def _pandas_table(frame: Any) -> Table:
    names = [str(name) for name in frame.columns]
    if len(set(names)) != len(names):
        raise DataError("Two columns of the DataFrame have the same name.")
    return Table({name: _values(frame.iloc[:, place]) for place, name in enumerate(names)})


def _values(series: Any) -> NDArray[Any]:
    """Numbers as they are; of any other dtype Python objects, None where a value is missing."""
    if isinstance(series.dtype, np.dtype) and series.dtype.kind in "fiubM":
        return np.asarray(series.to_numpy())
    out = np.array(series.to_numpy(dtype=object), dtype=object)
    out[np.asarray(series.isna(), dtype=bool)] = None
    return out
