"""Writes tables as CSV, CSV.GZ and Parquet, in the columns and types of their schema; it reads no file."""

from __future__ import annotations

import csv
import gzip
import io
from collections.abc import Callable, Iterator
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privot.common.declared import declared
from privot.common.extras import needing
from privot.errors import DataError, UsageError
from privot.tables.columns import Column
from privot.tables.schema import Schema
from privot.tables.table import Table

KINDS = (".csv", ".csv.gz", ".parquet")
"""Endings of the files that hold tables."""
FORMULA_STARTS = tuple("=+-@\t\r\n")
"""How a cell of text begins that a spreadsheet may take for a formula (OWASP, CSV injection)."""


def kind_of(path: str | Path) -> str:
    """Which of `KINDS` a file's name says it is."""
    name = Path(path).name
    for kind in KINDS:
        if name.lower().endswith(kind):
            return kind
    raise DataError(f"{name!r} is not a table file: give .csv, .csv.gz or .parquet.")


@declared(table="privot.tables.table:Table", path="path", schema="privot.tables.schema:Schema")
def write_table(table: Table, path: str | Path, schema: Schema, spreadsheet_safe: bool = False) -> None:
    """Write `table` as the file's ending says; the file is read back by the same schema.

    With `spreadsheet_safe` every cell of text in a CSV file, names of columns included, that a spreadsheet could take
    for a formula is written with an apostrophe before it. Numbers stay as they are. Such cells are then not the values
    of the schema any more, so that the file may no longer be read back by it.
    """
    Path(path).write_bytes(table_bytes(table, path, schema, spreadsheet_safe))


def table_bytes(table: Table, path: str | Path, schema: Schema, spreadsheet_safe: bool = False) -> bytes:
    """What `write_table` writes to `path`."""
    if list(table) != list(schema.output_names):
        raise UsageError("The table to write has other columns than the schema.")
    kind = kind_of(path)
    if kind == ".parquet":
        if spreadsheet_safe:
            raise UsageError("Only CSV files can be made safe for spreadsheets: a Parquet file holds no formulas.")
        return _parquet(table, schema)
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    text_cell = _defused if spreadsheet_safe else str
    writer.writerow(map(text_cell, schema.output_names))
    columns = {column.name: column for column in schema.columns}
    cells = [_texts(columns.get(name), table[name], schema.marks[0], text_cell) for name in table]
    writer.writerows(zip(*cells, strict=True))
    plain = text.getvalue().encode()
    return gzip.compress(plain, mtime=0) if kind == ".csv.gz" else plain


def _defused(cell: str) -> str:
    """A cell of text that no spreadsheet takes for a formula."""
    return f"'{cell}" if cell.startswith(FORMULA_STARTS) else cell


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _texts(
    column: Column | None, values: NDArray[Any], mark: str, text_cell: Callable[[str], str] = str
) -> Iterator[str]:
    """Values as cells; those that are text go through `text_cell`, numbers never do."""
    mark = mark if _is_number(mark) else text_cell(mark)
    for value in values:
        if value is None or (isinstance(value, float | np.floating) and np.isnan(value)):
            yield mark
        elif isinstance(value, bool | np.bool_):
            word = str(value).lower() if column is None else column.words[int(value)]
            yield text_cell(word) if isinstance(word, str) else str(word)
        elif isinstance(value, date):
            yield text_cell(str(value) if column is None else value.strftime(column.format))
        elif isinstance(value, float | np.floating):
            yield repr(float(value))
        elif isinstance(value, str):
            yield text_cell(value)
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
    columns, known = {}, {column.name: column for column in schema.columns}
    for name in table:
        values: Any = table[name].tolist()
        column = known.get(name)
        if column is None:
            # a column that is made by the schema has one kind of value
            columns[name] = library.array(values)
            continue
        kind = arrow_type(library, column)
        if column.type == "boolean" and not library.types.is_boolean(kind):
            values = [None if value is None else column.words[int(value)] for value in values]
        if library.types.is_string(kind):
            values = [None if value is None else str(value) for value in values]
        # a missing number is null in the file, whatever stands for it in memory
        columns[column.name] = library.array(values, type=kind, from_pandas=True)
    buffer = io.BytesIO()
    library.parquet.write_table(library.table(columns), buffer)
    return buffer.getvalue()


def arrow_type(library: Any, column: Column) -> Any:
    """By the schema and not by the values: a column that happens to be all missing keeps its type."""
    if column.type == "continuous":
        return library.float64()
    if column.type == "integer":
        return library.int64()
    if column.type == "date":
        return library.date32() if column.daily else library.timestamp("us")
    if column.is_false_or_true:
        return library.bool_()
    return library.int64() if all(isinstance(word, int) for word in column.words) else library.string()
