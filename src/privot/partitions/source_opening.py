"""From what a user names (a folder, a pattern, an address, a query) to a partitioned source; no record is read."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from privot.common.privacy_unit import Unit
from privot.data.stated_facts import StatedFacts
from privot.errors import DataError, UsageError, brief
from privot.kinds.table_kinds import TableRows
from privot.opening.addresses import check_no_secret, is_remote, shown_address
from privot.opening.remote_files import Located, check_once, locate
from privot.partitions.engines.engine import Engine
from privot.partitions.engines.local_engine import LocalEngine
from privot.partitions.partition import Partition
from privot.partitions.readers.array_partitions import ArrayPartition
from privot.partitions.readers.query_partitions import QueryCount, QueryPartition, is_database, query_partitions
from privot.partitions.readers.shard_partitions import ShardPartition
from privot.partitions.readers.table_partitions import table_partitions
from privot.partitions.source import PartitionedSource
from privot.tables import TableCodec
from privot.tables.table_files import check_columns

TABLES = (".parquet", ".csv", ".csv.gz")
ARRAYS = (".npz", ".npy", ".csv", ".csv.gz")
SHARDS = (".tar",)


def is_partitioned(
    data: str | Path, codec: TableCodec | None, query: str | None = None, *, engine: bool = False
) -> bool:
    """Whether `data` names partitions: a query, a pattern, an address, tar shards, or with a schema a folder.

    With an `engine` so does one file of a table.
    """
    text, table = str(data), codec is not None
    if (engine and table) or query is not None or is_database(text) or is_remote(text):
        return True
    path, failed = Path(text), ""
    try:
        if any(mark in text for mark in "*?[") and not path.exists():
            return True
        if path.is_dir():
            return table or (any(path.glob("*.tar")) and not any(p.is_dir() for p in path.iterdir()))
    except OSError as error:
        failed = error.strerror or type(error).__name__
    if failed:
        raise DataError(f"{brief(text)} cannot be looked at ({failed}): check the name and your rights.")
    return text.lower().endswith(SHARDS)


def open_source(
    data: str | Path,
    *,
    codec: TableCodec | None = None,
    classes: int | None = None,
    shape: Sequence[int] | None = None,
    query: str | None = None,
    parts: int | None = None,
    engine: Engine | None = None,
    unit: str | None = None,
) -> PartitionedSource:
    """The source that `data` names.

    Parameters
    ----------
    data
        A folder or pattern (`visits/*.parquet`) of Parquet or CSV files, tar shards or arrays; an fsspec address of
        either; `duckdb:///file.db` or `postgresql://…` with a `query`.
    codec
        The codec of a table's public schema. Without it the records are arrays or images.
    classes
        The public number of classes of arrays and images; 0 leaves labels out.
    shape
        The public shape of an image or row; tar shards need it.
    query
        A SELECT whose rows are the records, each a function of one person's rows only.
    parts
        Into how many partitions a query is cut, by a hash of the row; 1 unless given.
    engine
        What goes over the partitions; processes of this machine unless given.
    unit
        What says whose each record is, where a unit is protected: a column of the table or query that is none of the
        codec's, an array of each `.npz` file, or the ending of a file beside each image of a shard.
    """
    if unit is not None:
        # refuses what is no name before anything is opened
        unit = Unit(unit).name
    if is_remote(data):
        check_no_secret(str(data))
    if isinstance(codec, TableCodec):
        if unit is not None and unit in codec.schema.names:
            raise UsageError(f"The unit {brief(unit)} is a column of the codec: make it of schema.dropping(unit).")
        found: list[Partition] = list(_table_partitions(str(data), codec, query, parts, unit))
        facts: dict[str, Any] = {"dim": len(codec.features), "classes": codec.classes, "clip": codec.bound(True)}
        facts["kind"] = TableRows(codec)
    else:
        if query is not None or is_database(str(data)):
            raise UsageError("The rows of a query are a table with a public schema: state the schema.")
        found, facts = _array_partitions(str(data), classes, shape, unit)
    label = shown_address(data) if is_remote(data) else Path(str(data)).name
    if not found:
        raise DataError(f"{brief(label)} holds no records: give at least one.")
    first = found[0]
    if isinstance(first, QueryPartition) and first.parts > 1:
        facts["whole"] = QueryCount(first.address, first.query)
    return PartitionedSource(tuple(found), label=label, engine=engine or LocalEngine(), unit=unit, **facts)


def _table_partitions(
    data: str, codec: TableCodec, query: str | None, parts: int | None, unit: str | None
) -> list[Partition]:
    if is_database(data) or query is not None:
        return list(query_partitions(data, query, codec, parts, unit))
    if parts is not None:
        raise UsageError("Only a query is cut into a stated number of partitions: files are cut as they lie.")
    files = _files(data, TABLES)
    # the other files are checked when they are read
    check_columns(files[0].address, codec, unit)
    return [part for file in files for part in table_partitions(file, codec, unit)]


def _array_partitions(
    data: str, classes: int | None, shape: Sequence[int] | None, unit: str | None
) -> tuple[list[Partition], dict[str, Any]]:
    if classes is None:
        raise UsageError(f"The number of classes of {Path(data).name!r} is public: state it, or 0 to leave labels out.")
    if shape is None:
        raise UsageError(f"The shape of one record of {Path(data).name!r} is public: state it.")
    stated = StatedFacts(classes, tuple(shape))
    files = _files(data, SHARDS + ARRAYS)
    shards = files[0].name.lower().endswith(SHARDS)
    if unit is not None and not shards and not files[0].name.lower().endswith(".npz"):
        raise UsageError("A unit of arrays is an array of each .npz file: give a pattern of such files.")
    found: list[Partition] = [
        ShardPartition(file, stated, unit=unit) if shards else ArrayPartition(file, classes, stated.shape, unit=unit)
        for file in files
    ]
    if is_remote(data) and not shards:
        raise UsageError("Arrays are read from files of this machine: use tar shards or a table with a schema instead.")
    dim = math.prod(shape)
    return found, {"dim": dim, "classes": stated.count or None, "clip": None}


def _files(data: str, endings: tuple[str, ...]) -> list[Located]:
    """The files that `data` names, all of them of one of these kinds."""
    if is_remote(data) and data.endswith("/"):
        # as a folder of this machine is read: an ending may be written in capitals, and hidden files are no data
        found = [file for file in locate(f"{data}*") if file.name.lower().endswith(endings)]
        found = [file for file in found if not file.name.startswith(".")]
    else:
        found = locate(data, endings)
    found = sorted({file.address: file for file in found}.values(), key=lambda file: file.address)
    check_once(found)
    if not found:
        raise DataError(f"There are no files of records at {brief(shown_address(data))}: give {', '.join(endings)}.")
    kinds = sorted({next((e for e in endings if file.name.lower().endswith(e)), "") for file in found} - {""})
    if len(kinds) > 1:
        # the same records once more in another format would be counted twice
        raise DataError(
            f"{brief(shown_address(data))} names files that end in {' and in '.join(kinds)}, perhaps the same records "
            "twice: give a pattern of one kind."
        )
    odd = [file.name for file in found if not file.name.lower().endswith(endings)]
    if odd:
        raise DataError(f"{odd[0]!r} is of another kind than the records that are read: give {', '.join(endings)}.")
    return found
