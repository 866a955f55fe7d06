"""Writes tables as CSV, CSV.GZ and Parquet, in the columns and types of their schema; it reads no file."""

from __future__ import annotations

import csv
import gzip
import io
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privot.errors import DataError, UsageError
from privot.extras import needing
from privot.tables.columns import Column
from privot.tables.schema import Schema
from privot.tables.table import Table

KINDS = (".csv", ".csv.gz", ".parquet")
"""Endings of the files that hold tables."""


def kind_of(path: str | Path) -> str:
    """Which of `KINDS` a file's name says it is."""
    name = Path(path).name
    for kind in KINDS:
        if name.lower().endswith(kind):
            return kind
    raise DataError(f"{name!r} is of no kind that holds a table: give .csv, .csv.gz or .parquet.")


def write_table(table: Table, path: str | Path, schema: Schema) -> None:
    """Write `table` as the file's ending says; the file is read back by the same schema."""
    Path(path).write_bytes(table_bytes(table, path, schema))


def table_bytes(table: Table, path: str | Path, schema: Schema) -> bytes:
    """What `write_table` writes to `path`."""
    if list(table) != list(schema.names):
        raise UsageError("The table to write has other columns than the schema.")
    kind = kind_of(path)
    if kind == ".parquet":
        return _parquet(table, schema)
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(schema.names)
    cells = [_texts(column, table[column.name], schema.marks[0]) for column in schema.columns]
    writer.writerows(zip(*cells, strict=True))
    plain = text.getvalue().encode()
    return gzip.compress(plain, mtime=0) if kind == ".csv.gz" else plain


def _texts(column: Column, values: NDArray[Any], mark: str) -> Iterator[str]:
    for value in values:
        if value is None or (isinstance(value, float | np.floating) and np.isnan(value)):
            yield mark
        elif isinstance(value, bool | np.bool_):
            yield str(column.words[int(value)])
        elif isinstance(value, date):
            yield value.strftime(column.format)
        elif isinstance(value, float | np.floating):
            yield repr(float(value))
        else:
            yield str(value)


def arrow() -> Any:
    """The library that knows Parquet."""
    with needing("Parquet files need", "synthesis"):
        import pyarrow
        import pyarrow.parquet
    return pyarrow


def _parquet(table: Table, schema: Schema) -> bytes:
    library = arrow()
    columns = {}
    for column in schema.columns:
        kind = _arrow_type(library, column)
        values: Any = table[column.name].tolist()
        if library.types.is_string(kind):
            values = list(_texts(column, table[column.name], ""))
            values = [None if v is None else text for v, text in zip(table[column.name], values, strict=True)]
        # a missing number is null in the file, whatever stands for it in memory
        columns[column.name] = library.array(values, type=kind, from_pandas=True)
    buffer = io.BytesIO()
    library.parquet.write_table(library.table(columns), buffer)
    return buffer.getvalue()


def _arrow_type(library: Any, column: Column) -> Any:
    """By the schema and not by the values: a column that happens to be all missing keeps its type."""
    if column.type == "continuous":
        return library.float64()
    if column.type == "integer":
        return library.int64()
    if column.type == "date":
        return library.date32() if column.daily else library.timestamp("us")
    if column.type == "boolean" and column.categories == ("false", "true"):
        return library.bool_()
    return library.int64() if all(isinstance(word, int) for word in column.words) else library.string()
