"""Records that are rows of a table, or of related tables: what their schemas state, and how a row is read."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from privot.common.arguments import check_file_name
from privot.errors import DataError, UsageError
from privot.kinds.kind import Kind, Read
from privot.kinds.record_places import Files
from privot.kinds.related_records import ORPHANS, RelatedTables
from privot.tables import RelatedCodec, TableCodec, encode_file
from privot.tables.encoded_columns import encoded_columns
from privot.tables.frames.frame_form import FrameForm, frame_kind
from privot.tables.frames.frame_reading import encode_frame
from privot.tables.unit_column import encode_file_with_units, schema_for_unit


@dataclass(frozen=True, eq=False)
class TableRows(Kind):
    """Rows of a table, by its public schema; `form` is that of the DataFrame they came in."""

    name: ClassVar[str] = "table"
    by_schema: ClassVar[bool] = True
    rows_are: ClassVar[str] = "rows of a table"

    codec: TableCodec
    form: FrameForm | None = None

    @property
    def clip(self) -> float:  # type: ignore[override]
        """The largest norm that a compact row can have."""
        return self.codec.bound(compact=True)

    @property
    def count(self) -> int | None:
        """How many values the label has."""
        return self.codec.classes

    @property
    def columns(self) -> tuple[Any, ...]:  # type: ignore[override]
        """The schema's columns, with their places."""
        return encoded_columns(self.codec.schema)

    def for_unit(self, unit: str | None) -> TableRows:
        """The same rows without the column `unit`, which says whose each is and is an identifier."""
        return self if unit is None else TableRows(TableCodec(schema_for_unit(self.codec.schema, unit)), self.form)

    def unlabelled(self) -> TableRows:
        """The same rows without the column of the label."""
        return TableRows(TableCodec(self.codec.schema.without_label()), self.form)

    def read(self, files: Files, unit: str | None = None) -> Read:
        """Compact rows, one coordinate per column of the schema besides its label. With a `unit` that column says whose
        each row is, and is no column of the rows."""
        codec, kind = self.for_unit(unit).codec, frame_kind(files.data)
        if files.unit_file is not None:
            raise UsageError("The unit of a table is one of its columns: leave the file of units out.")
        if kind is None:
            check_file_name(files.data, "the name of a table's file, or a DataFrame of pandas, Polars or Arrow")
            if unit is None:
                rows, labels = encode_file(files.data, codec, compact=True)
                return Read(rows, labels, TableRows(codec))
            rows, labels, units = encode_file_with_units(files.data, codec, unit)
            return Read(rows, labels, TableRows(codec), units)
        if files.query is not None or files.parts is not None or files.engine is not None:
            raise UsageError("A DataFrame is one table in memory: leave out query, parts and engine.")
        if unit is not None:
            # a library may have chosen the type of the unit's column by its values, which changes who is whose
            raise UsageError("A unit is read from a CSV or Parquet file: write the DataFrame to one first.")
        rows, labels = encode_frame(files.data, codec)
        return Read(rows, labels, TableRows(codec, FrameForm.of(files.data, codec.schema)))

    def to_params(self) -> dict[str, Any]:
        """What the files of a job say of the kind."""
        return {"shape": None, "low": 0.0, "high": 1.0, "codec": self.codec.to_dict(), "class_names": None}

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> TableRows:
        """The kind that `to_params` wrote."""
        return cls(TableCodec.from_dict(fields["codec"]))


@dataclass(frozen=True, eq=False)
class RelatedRows(Kind):
    """Rows of a parent table and of its children: one record is a parent with its children.

    `orphans` says what is done with children whose key no parent has: "refuse" or "drop".
    """

    name: ClassVar[str] = "related tables"
    by_schema: ClassVar[bool] = True
    rows_are: ClassVar[str] = "related records"
    whole_units: ClassVar[bool] = True

    codec: RelatedCodec
    orphans: str = ORPHANS[0]

    @property
    def clip(self) -> float:  # type: ignore[override]
        """The largest norm that a row can have."""
        return self.codec.bound()

    def read(self, files: Files, unit: str | None = None) -> Read:
        """One row per parent of the related tables in the files of a mapping."""
        if unit not in (None, self.codec.key):
            raise UsageError("Related tables have their own labels and key: leave out y, classes and units.")
        return Read(read_related(files.data, self.codec, self.orphans), None, self)

    def to_params(self) -> dict[str, Any]:
        """What the files of a job say of the kind."""
        return {"shape": None, "low": 0.0, "high": 1.0, "codec": self.codec.to_dict(), "class_names": None}

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> RelatedRows:
        """The kind that `to_params` wrote."""
        return cls(RelatedCodec.from_dict(fields["codec"]))


def read_related(paths: Any, codec: RelatedCodec, orphans: str = ORPHANS[0]) -> RelatedTables:
    """The related tables in CSV or Parquet files, by the names of the tables."""
    if not isinstance(paths, Mapping) or set(paths) != set(codec.names):
        raise UsageError(f"Give one file for each of the names {', '.join(codec.names)}.")
    tables: dict[str, Any] = {}
    for name, of_file in zip(codec.names, codec.file_codecs, strict=True):
        try:
            # without the one parent who has children their table is empty: that may not be refused
            tables[name] = encode_file_with_units(paths[name], of_file, codec.key, may_be_empty=name != codec.parent)
        except DataError as error:
            file, said = Path(os.fspath(paths[name])).name, str(error)
            raise DataError(said if repr(file) in said else f"{file}: {said}") from None
    return RelatedTables(codec, tables, orphans)
