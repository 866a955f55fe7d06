"""Reads the records behind `Vault.open` by what is stated about them; it keeps none of them."""

from __future__ import annotations

import os
from typing import Any

from privot.errors import UsageError
from privot.kinds import Files, Kind
from privot.partitions.source_opening import is_partitioned, open_source


def opened(files: Files, kind: Kind, unit: str | None) -> dict[str, Any]:
    """Records, labels, units and kind of what lies in `files`: arguments of `Vault`.

    A pattern, an address, tar shards and a query, and of a table a folder too, become a `PartitionedSource`, of which
    no record is read here; so does one table where an engine is given.
    """
    named = isinstance(files.data, str | os.PathLike)
    table = kind.by_schema
    if named and is_partitioned(files.data, kind.codec, files.query, engine=files.engine is not None):
        if files.unit_file is not None:
            raise UsageError("Partitions say themselves whose each record is: leave the file of units out.")
        kind = kind.for_unit(unit)
        if kind.class_names is not None:
            raise UsageError("Partitions label records by numbers: state how many classes there are, not their names.")
        stated = (
            {"codec": kind.codec} if table else {"classes": getattr(kind, "classes", None), "shape": kind.row_shape}
        )
        source = open_source(files.data, query=files.query, parts=files.parts, engine=files.engine, unit=unit, **stated)
        return {"x": source, "kind": kind}
    if not table and files.engine is not None:
        raise UsageError("Only partitioned records have an engine: leave it out, or give a pattern, folder or query.")
    read = kind.read(files, unit)
    return {"x": read.x, "y": read.y, "units": read.units, "kind": read.kind}
