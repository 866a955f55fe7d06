"""Reads the records behind `Vault.open` and `Vault.from_table` by what is stated about them; it keeps none of them.

Each function gives the arguments that `Vault` is made with: rows, labels and the public facts that go with them.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from privot.common.arguments import check_file_name
from privot.data import StatedFacts, load
from privot.errors import UsageError
from privot.opening.addresses import is_remote, shown_address
from privot.opening.remote_files import fixed_part
from privot.partitions import Engine, is_partitioned, open_source

if TYPE_CHECKING:
    from privot.tables import FrameForm, Schema


def read_file(
    path: str | Path,
    *,
    classes: int | Sequence[str] | None,
    shape: Sequence[int] | None,
    part: Literal["train", "test"],
    engine: Engine | None = None,
    unit: str | None = None,
    unit_file: str | Path | None = None,
) -> dict[str, Any]:
    """Rows, labels, number of classes and names of columns of a file or a folder of images: arguments of `Vault`.

    Refuses a folder of images without stated class names and shape, and labels without a stated number of classes. A
    pattern, an address and tar shards become a `PartitionedSource`, of which no record is read here. `unit` names the
    array of a `.npz` file, or the ending of a file of a shard, that says whose each record is; of a folder of images,
    the column of `unit_file`.
    """
    if is_partitioned(path, None):
        if unit_file is not None:
            raise UsageError("Partitions say themselves whose each record is: leave the file of units out.")
        if classes is not None and not isinstance(classes, int):
            raise UsageError("Partitions label records by numbers: state how many classes there are, not their names.")
        source = open_source(path, classes=classes, shape=shape, engine=engine, unit=unit)
        return {"x": source, "y": None, "classes": source.classes}
    if engine is not None:
        raise UsageError("Only partitioned records have an engine: leave it out, or give a pattern, folder or query.")
    name = Path(path).name
    if str(path) != "digits" and Path(path).is_dir():
        # a folder says neither before its first record, and no record may say it
        if classes is None:
            raise UsageError(
                f"{name!r} is a folder of images, and the names of its classes are public: state them as classes, "
                "or 0 to leave labels out."
            )
        if shape is None:
            raise UsageError(f"{name!r} is a folder of images, and their shape is public: state it as shape.")
    held = load(path, part, classes=classes, shape=shape, unit=unit, unit_file=unit_file)
    if held.y is not None and classes is None:
        raise UsageError(
            f"{name!r} holds labels, and the number of classes is public: state it as classes, or 0 to leave "
            "labels out."
        )
    return {
        "x": held.x,
        "y": held.y,
        "classes": None if held.y is None else StatedFacts(classes).count,  # type: ignore[arg-type]
        "columns": held.columns or (),
        "units": held.units,
    }


def read_encoded_table(
    path: Any,
    schema: Schema | str | Path,
    *,
    query: str | None = None,
    parts: int | None = None,
    engine: Engine | None = None,
    unit: str | None = None,
) -> tuple[dict[str, Any], FrameForm | None]:
    """Compact rows of a table, its labels, and the clip and classes that follow from its schema: arguments of `Vault`.

    Refuses what is neither a schema nor the file of one. A folder, a pattern, an address and a query become a
    `PartitionedSource`, of which no record is read here; so does one file where an engine is given. In place of a path
    there may be a DataFrame, whose public form is the second thing returned. With a `unit` that column says whose each
    row is, and is no column of the rows.
    """
    # only here: a vault of an array needs no reader of tables
    from privot.tables import (
        FrameForm,
        Schema,
        TableCodec,
        encode_file,
        encode_file_with_units,
        encode_frame,
        encoded_columns,
        frame_kind,
        schema_for_unit,
    )

    if isinstance(schema, str | os.PathLike):
        schema = Schema.load(schema)
    if not isinstance(schema, Schema):
        raise UsageError(f"Expected a Schema or the path of a schema file, got {type(schema).__name__}.")
    if unit is not None:
        schema = schema_for_unit(schema, unit)
    codec = TableCodec(schema)
    kind = frame_kind(path)
    if kind is None:
        check_file_name(path, "the name of a table's file, or a DataFrame of pandas, Polars or Arrow")
    facts: dict[str, Any] = {
        "clip": codec.bound(compact=True),
        "classes": codec.classes,
        "columns": encoded_columns(schema),
    }
    if kind is not None:
        if query is not None or parts is not None or engine is not None:
            raise UsageError("A DataFrame is one table in memory: leave out query, parts and engine.")
        if unit is not None:
            # a library may have chosen the type of the unit's column by its values, which changes who is whose
            raise UsageError("A unit is read from a CSV or Parquet file: write the DataFrame to one first.")
        rows, labels = encode_frame(path, codec)
        return {"x": rows, "y": labels, **facts}, FrameForm.of(path, schema)
    if engine is not None or is_partitioned(path, codec, query):
        source = open_source(path, codec=codec, query=query, parts=parts, engine=engine, unit=unit)
        return {"x": source, "y": None, **facts}, None
    if unit is not None:
        rows, labels, units = encode_file_with_units(path, codec, unit)
        return {"x": rows, "y": labels, "units": units, **facts}, None
    rows, labels = encode_file(path, codec, compact=True)
    return {"x": rows, "y": labels, **facts}, None


def file_label(path: str | Path) -> str:
    """The name by which a ledger lists the records of a file: the file's own, whatever link leads to it.

    A pattern is listed by its folder and itself, an address without user and options.
    """
    if is_remote(path):
        return shown_address(path)
    folder = fixed_part(path)
    if folder != Path(path):
        return f"{Path(os.path.realpath(folder)).name}/{Path(path).relative_to(folder)}"
    return os.path.basename(os.path.realpath(path))  # unlike Path.resolve it has an answer for a link to itself
