"""The column that says whose a row is: read beside the encoded rows, in the same pass; its name alone is public."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privot.common.unit_values import Owners, block_owners
from privot.errors import DataError, UsageError, brief
from privot.opening.csv_lines import NUMBER
from privot.opening.limits import Meter
from privot.tables.arrow_columns import encode_batch, python_values
from privot.tables.codec import TableCodec
from privot.tables.schema import Schema
from privot.tables.table_files import (
    CHUNK,
    check_columns,
    check_unit,
    csv_chunks,
    existing,
    is_parquet,
    parquet_batches,
)

_WHO = "patient|subject|person|customer|client|user|member|participant|respondent|household|employee|pupil|student"
_IDENTIFIER = re.compile(
    rf"(?i:(?:^|[_\-. ])(?:ids?|uuid|guid|identifier|ssn|mrn)$)|[a-z0-9](?:Id|ID|UUID|GUID)$"
    rf"|(?i:^(?:{_WHO})(?:[_\-. ]?(?:no|nr|num|number|code|key))?$)",
)
_CELL = 64
"""Bytes that one unit of a row takes at most, beside its text."""


def schema_for_unit(schema: Schema, unit: str) -> Schema:
    """`schema` as it reads a table with the unit column `unit`, which is an identifier and no column to synthesise.

    Refuses the label as a unit.
    """
    if unit in schema.labels:
        raise UsageError(f"The unit {brief(unit)} is the label of the schema: an identifier cannot be predicted.")
    return schema.dropping(unit)


def encode_file_with_units(
    path: str | Path, codec: TableCodec, unit: str, may_be_empty: bool = False
) -> tuple[NDArray[np.float64], NDArray[np.int64] | None, list[str]]:
    """Compact rows, labels and the unit of every row of a CSV or Parquet file, from one pass over it.

    A file without records is refused, unless it `may_be_empty`.
    """
    path = existing(path)
    check_columns(path, codec, unit)
    taken = Meter(path.name)
    rows, labels, units = [], [], []
    for block, of_block, whose in owned_blocks(path, codec, unit, rows=CHUNK, held=NUMBER):
        taken.add(block.nbytes + _CELL * len(whose.texts))
        rows.append(block)
        units += whose.texts
        if of_block is not None:
            labels.append(of_block)
    if not rows and may_be_empty:
        return np.empty((0, len(codec.features))), None if codec.classes is None else np.empty(0, dtype=np.int64), []
    if not rows:
        raise DataError(f"{path.name!r} holds no records: give at least one.")
    return np.concatenate(rows), np.concatenate(labels) if labels else None, units


def owned_blocks(
    path: str | Path,
    codec: TableCodec,
    unit: str,
    groups: Sequence[int] | None = None,
    rows: int = CHUNK,
    held: int = 0,
) -> Iterator[tuple[NDArray[np.float64], NDArray[np.int64] | None, Owners]]:
    """What `table_files.encoded_blocks` gives, and whose each row is by the column `unit`."""
    if is_parquet(Path(path)):
        for batch in parquet_batches(path, rows, groups):
            yield owned_batch(batch, codec, unit)
    else:
        for chunk in csv_chunks(path, rows, held):
            check_unit(unit, chunk)
            made = codec.encode(chunk, compact=True)
            yield *made, block_owners(chunk[unit].tolist(), len(made[0]), unit, codec.marks)


def owned_batch(
    batch: Any, codec: TableCodec, unit: str
) -> tuple[NDArray[np.float64], NDArray[np.int64] | None, Owners]:
    """Compact rows and labels of a record batch of Arrow, and whose each row is."""
    names = [str(name) for name in batch.schema.names]
    check_unit(unit, names)
    whose = python_values(batch.column(names.index(unit)), unit)
    return *encode_batch(batch, codec), block_owners(whose.tolist(), batch.num_rows, unit, codec.marks)


def identifier_names(schema: Schema) -> tuple[list[str], list[str]]:
    """Columns that look like identifiers *by their names*: those that are described, and those that are dropped.

    A value is never looked at. The label and columns of two categories are none.

    >>> from privot.tables.columns import Column
    >>> identifier_names(Schema((Column("patient_id", "integer", 0, 99), Column("age", "integer", 0, 120))))
    (['patient_id'], [])
    """
    described = [c.name for c in schema.features if _IDENTIFIER.search(c.name) and len(c.categories) != 2]
    return described, [name for name in schema.dropped if _IDENTIFIER.search(name)]
