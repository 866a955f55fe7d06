"""Which kinds of records there are, by name, and the kind that a schema or the files of a job state."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from privot.common.extras import Registry
from privot.errors import DataError, UsageError, brief
from privot.kinds.kind import Kind

KINDS = Registry(
    "kind of records",
    {
        "vectors": "privot.kinds.numbers:Vectors",
        "images": "privot.kinds.numbers:Images",
        "table": "privot.kinds.table_kinds:TableRows",
        "related tables": "privot.kinds.table_kinds:RelatedRows",
    },
    "privot.kinds",
)
"""By the name that a schema file and a job's files say. A kind of another distribution is one entry point."""


def as_kind(schema: Any) -> Kind:
    """The kind that `schema` states: a kind, a `Schema`, a codec, or the file of a schema.

    A file may describe a kind by its name, {"kind": "images", "shape": [28, 28], "high": 255}; without one it is the
    schema of a table.

    >>> from privot.kinds import Images
    >>> as_kind(Images((8, 8))).name
    'images'
    """
    if isinstance(schema, Kind):
        return schema
    # only here: vectors need no reader of tables
    from privot.kinds.table_kinds import RelatedRows, TableRows
    from privot.opening import read_json
    from privot.tables import RelatedCodec, Schema, TableCodec

    if isinstance(schema, str | os.PathLike):
        path = Path(schema)
        if path.suffix.lower() == ".json" and path.is_file():
            fields = read_json(path)
            if isinstance(fields, Mapping) and "kind" in fields:
                return _described(fields)
        schema = Schema.load(path)
    makers: dict[type, Any] = {Schema: lambda s: TableRows(TableCodec(s)), TableCodec: TableRows}
    makers[RelatedCodec] = RelatedRows
    for known, make in makers.items():
        if isinstance(schema, known):
            kind: Kind = make(schema)
            return kind
    raise UsageError(f"Expected a Schema or the path of a schema file, got {type(schema).__name__}.")


def kind_of_params(params: Mapping[str, Any]) -> Kind:
    """The kind that `Kind.to_params` wrote into the files of a job."""
    codec = params.get("codec")
    if "kind" in params:
        return _described(params)
    if codec is not None:
        said = codec.get("kind") if isinstance(codec, Mapping) else None
        return _described({"kind": said if said == "related tables" else "table", "codec": codec})
    return _described({**params, "kind": "vectors" if params.get("shape") is None else "images"})


def _described(fields: Mapping[str, Any]) -> Kind:
    """The kind that a file describes, which anybody may have written."""
    held = dict(fields)
    name = held.pop("kind")
    if not isinstance(name, str):
        raise DataError("The kind of records is named by a text.")
    kind: Kind = KINDS.load(name).from_dict(held)
    if not isinstance(kind, Kind):
        raise UsageError(f"What stands behind the kind {brief(name)} is none: derive it from privot.kinds.Kind.")
    return kind
