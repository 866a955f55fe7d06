"""Reads tables from CSV, CSV.GZ and Parquet files; no error repeats a value, and nothing is unpickled.

Files are read in chunks, so that a long one never stands in memory as text. The first line of a CSV file names the
columns, and every further line that is not blank is one record, whatever quotes it holds; a Parquet file states its
columns and types. Neither depends on a record (docs/concepts/readers.md).
"""

from __future__ import annotations

import csv
import zlib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privot.common.arguments import check_file_name
from privot.errors import DataError, brief
from privot.opening.csv_lines import NUMBER, csv_rows
from privot.opening.limits import Meter
from privot.opening.parquet import check_batch, open_parquet
from privot.tables.arrow_columns import encode_batch, python_values
from privot.tables.codec import TableCodec
from privot.tables.table import Table
from privot.tables.table_writing import arrow, kind_of

CHUNK = 50_000
_CELLS = 5_000_000
"""Cells of one chunk: as Python objects each takes some sixty bytes."""
_CELL = 64


def read_header(path: str | Path) -> list[str]:
    """The names of the columns; they are public, what stands below them is not."""
    return _names_in(existing(path))


def _names_in(address: str | Path) -> list[str]:
    if is_parquet(Path(address)):
        # no row group is looked at: a file may have none
        return [str(name) for name in _open_parquet(address, []).schema_arrow.names]
    return next(_csv_lines(address, held=None))[1]


def check_columns(address: str | Path, codec: TableCodec, unit: str | None = None) -> None:
    """Refuse, before a record is read, a file or fsspec address whose columns are not the schema's and the `unit`."""
    names = _names_in(address)
    if unit is not None:
        check_unit(unit, names)
    codec.check_names(names)


def check_unit(unit: str, names: Iterable[str]) -> None:
    """Refuse a table with the columns `names` that lacks the column of the unit."""
    if unit not in list(names):
        raise DataError(f"The table lacks column {brief(unit)}, which is the unit: name a column that it has.")


def read_table(path: str | Path) -> Table:
    """The whole file as one table. Cells of a CSV file are texts; a Parquet file keeps its types."""
    path = existing(path)
    taken, chunks = Meter(path.name), []
    for chunk in read_chunks(path, held=_CELL):
        # every cell is a Python object here
        taken.add(_CELL * sum(len(chunk[name]) for name in chunk))
        chunks.append(chunk)
    return Table({name: np.concatenate([chunk[name] for chunk in chunks]) for name in chunks[0]})


def read_chunks(path: str | Path, rows: int = CHUNK, held: int = NUMBER) -> Iterator[Table]:
    """The file as tables of at most `rows` rows each, at least one, whose cells take `held` bytes in the end."""
    path = existing(path)
    seen = False
    for chunk in _parquet_chunks(path, rows) if is_parquet(path) else csv_chunks(path, rows, held):
        seen = True
        yield chunk
    if not seen:
        raise DataError(f"{path.name!r} holds no records: give at least one.")


def encode_file(
    path: str | Path, codec: TableCodec, compact: bool = False
) -> tuple[NDArray[np.float64], NDArray[np.int64] | None]:
    """What `codec.encode` gives for the file's table, chunk by chunk."""
    path = existing(path)
    check_columns(path, codec)
    taken, blocks = Meter(path.name), []
    for rows, labels in encoded_blocks(path, codec, held=NUMBER):
        made = rows if compact else codec.widen(rows)
        taken.add(made.nbytes)
        blocks.append((made, labels))
    if not blocks:
        raise DataError(f"{path.name!r} holds no records: give at least one.")
    rows = np.concatenate([rows for rows, _ in blocks])
    return rows, np.concatenate([y for _, y in blocks if y is not None]) if codec.classes is not None else None


def encoded_blocks(
    path: str | Path, codec: TableCodec, groups: Sequence[int] | None = None, rows: int = CHUNK, held: int = 0
) -> Iterator[tuple[NDArray[np.float64], NDArray[np.int64] | None]]:
    """Compact rows and labels, at most `rows` at a time, of a file or fsspec address; none where it has no record.

    Of a Parquet file, `groups` names the row groups to read; all of them unless given. `held` says how many bytes a
    cell takes where all blocks are kept.
    """
    if is_parquet(Path(path)):
        for batch in parquet_batches(path, rows, groups):
            yield encode_batch(batch, codec)
    else:
        for chunk in csv_chunks(path, rows, held):
            yield codec.encode(chunk, compact=True)


def encode_chunks(
    chunks: Iterable[Table], codec: TableCodec, compact: bool = False, name: str | None = None
) -> tuple[NDArray[np.float64], NDArray[np.int64] | None]:
    """What `codec.encode` gives for all chunks together; of a file called `name` no more than may be unpacked."""
    rows, labels = [], []
    taken = None if name is None else Meter(name)
    for chunk in chunks:
        x, y = codec.encode(chunk, compact)
        if taken is not None:
            taken.add(x.nbytes)
        rows.append(x)
        if y is not None:
            labels.append(y)
    return np.concatenate(rows), np.concatenate(labels) if labels else None


def existing(path: str | Path) -> Path:
    """`path`, if it is a file of a kind that tables have."""
    check_file_name(path, "the name of a table's file")
    path = Path(path)
    kind_of(path)
    if not path.is_file():
        raise DataError(f"There is no file {path.name!r}.")
    return path


def is_parquet(path: Path) -> bool:
    """Whether the file is named as Parquet."""
    return kind_of(path) == ".parquet"


def _csv_lines(address: str | Path, held: int | None) -> Iterator[tuple[int, list[str]]]:
    """(line number, cells) of every line that is not blank, the header first; one line is one record."""
    path = Path(address)
    broken = foreign = False
    width = before = 0
    try:
        with csv_rows(address, held=held, skipinitialspace=True) as reader:
            for cells in reader:
                spans, before = reader.line_num - before > 1, reader.line_num
                if spans:
                    # a quote that is never closed would swallow the records below it
                    raise DataError(
                        f"Line {before} of {path.name!r} ends a cell that began above it: remove line breaks from "
                        "cells, or save the table as Parquet."
                    )
                if width == 1 and not cells:
                    # of a single column it could be a missing value, and no record is dropped silently
                    raise DataError(f'Line {before} of {path.name!r} is empty: write "" where a value is missing.')
                if not cells:
                    continue
                if width == 0:
                    cells = _checked_names(path, cells)
                    width = len(cells)
                if len(cells) != width:
                    raise DataError(
                        f"Line {reader.line_num} of {path.name!r} has {len(cells)} cells where the header has {width}."
                    )
                yield reader.line_num, cells
    except UnicodeDecodeError:
        foreign = True
    except (OSError, EOFError, csv.Error, zlib.error):
        broken = True
    if foreign:
        raise DataError(f"{path.name!r} is not text in UTF-8: save it in that encoding.")
    if broken:
        raise DataError(f"{path.name!r} cannot be read as comma-separated values: it is damaged or of another kind.")
    if width == 0:
        raise DataError(f"{path.name!r} is empty: the first line names the columns.")


def _checked_names(path: Path, cells: list[str]) -> list[str]:
    names = [cell.strip() for cell in cells]
    for mark, word in ((";", "semicolons"), ("\t", "tabs")):
        if len(names) == 1 and mark in names[0]:
            raise DataError(f"The cells of {path.name!r} are separated by {word}: save it with commas between them.")
    if not all(names) or len(set(names)) != len(names):
        raise DataError(f"The first line of {path.name!r} must name every column, each differently.")
    return names


def csv_chunks(path: str | Path, rows: int, held: int = NUMBER) -> Iterator[Table]:
    """The lines of a CSV file as tables of at most `rows` rows, each cell of which takes `held` bytes in the end."""
    lines = _csv_lines(path, held)
    names = next(lines)[1]
    waiting: list[list[str]] = []
    for _, cells in lines:
        waiting.append(cells)
        if len(waiting) == rows or len(waiting) * len(names) >= _CELLS:
            yield _table(names, waiting)
            waiting = []
    if waiting:
        yield _table(names, waiting)


def _table(names: list[str], lines: list[list[str]]) -> Table:
    return Table(dict(zip(names, zip(*lines, strict=True), strict=True)))


def _open_parquet(path: str | Path, groups: Sequence[int] | None = None) -> Any:
    library = arrow()
    try:
        return open_parquet(path, library, groups)
    except DataError:
        raise
    except (OSError, ValueError, LookupError, library.ArrowException):
        pass
    raise DataError(f"{Path(path).name!r} cannot be read as Parquet: it is damaged or of another kind.")


def parquet_groups(path: str | Path) -> list[tuple[int, int]]:
    """(rows, bytes unpacked) of every row group, from the end of the file; no record is read."""
    meta = _open_parquet(path, ()).metadata
    groups = [meta.row_group(k) for k in range(meta.num_row_groups)]
    return [(group.num_rows, group.total_byte_size) for group in groups]


def parquet_batches(path: str | Path, rows: int, groups: Sequence[int] | None = None) -> Iterator[Any]:
    """Record batches of at most `rows` rows, at least one each."""
    file, library, shown = _open_parquet(path, groups), arrow(), Path(path).name
    check_arrow_schema(file.schema_arrow, shown)
    broken = False
    try:
        for batch in file.iter_batches(batch_size=rows, row_groups=groups, use_threads=False):
            if batch.num_rows:
                yield batch
    except DataError:
        raise
    except (OSError, ValueError, LookupError, OverflowError, library.ArrowException):
        # also a moment that Python's calendar lacks; the message would quote it
        broken = True
    finally:
        file.close(force=True)
    if broken:
        raise DataError(f"{shown!r} cannot be read as Parquet: it is damaged, or holds what no table can.")


def check_arrow_schema(schema: Any, shown: str) -> None:
    """Refuse columns of one name, and columns with more than one value per cell, in a file or query called `shown`."""
    names = [str(name) for name in schema.names]
    if len(set(names)) != len(names):
        raise DataError(f"Two columns of {shown!r} have the same name.")
    for name, kind in zip(names, schema.types, strict=True):
        if _is_nested(kind):
            raise DataError(f"Column {brief(name)} holds lists, objects or bytes: a table has one value per cell.")


def _parquet_chunks(path: Path, rows: int) -> Iterator[Table]:
    library = arrow()
    for batch in parquet_batches(path, rows):
        check_batch(path.name, batch, library)
        names = [str(name) for name in batch.schema.names]
        yield Table({name: python_values(batch.column(i), name) for i, name in enumerate(names)})


def _is_nested(kind: Any) -> bool:
    """Whether the type that the file states for a column has more than one value, or bytes, in a cell."""
    types = arrow().types
    if types.is_dictionary(kind):
        kind = kind.value_type
    kinds = ("nested", "binary", "large_binary", "fixed_size_binary", "binary_view")
    # not every version of the library knows all of them
    return any(getattr(types, f"is_{name}", lambda _: False)(kind) for name in kinds)
