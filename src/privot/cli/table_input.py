"""Tables with a schema, as the commands read them; a file goes straight into a vault or an evaluation."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from privot.common.visible import command_line

if TYPE_CHECKING:
    from privot.common.privacy_unit import Unit
    from privot.data.loading import Dataset
    from privot.kinds import Kind
    from privot.partitions.source import PartitionedSource
    from privot.tables import Table, TableCodec


@dataclass(frozen=True)
class UnitOptions:
    """`--unit`, `--per-unit` and the setting `unit_file`, as they were typed."""

    column: str | None = None
    rows: int | None = None
    file: Path | None = None

    @property
    def unit(self) -> Unit | None:
        """The unit that is asked for; None for single records. Refuses what is none."""
        from privot.common.privacy_unit import DEFAULT_ROWS, Unit

        return None if self.column is None else Unit(self.column, DEFAULT_ROWS if self.rows is None else self.rows)

    def check(self, schema: Path | None, adjacency: str | None, data: str = "") -> None:
        """Refuse, before anything is read, a unit of data without one, rows without a unit, and replace-one.

        Tables with a schema have units; so has `data`, where it is named, in a `.npz` file, a pattern of them, tar
        shards, or a folder of images with its `unit_file`.
        """
        from privot.errors import UsageError
        from privot.guarantee import Adjacency

        images = schema is None and is_image_folder(data)
        if self.column is None:
            if self.rows is not None:
                raise UsageError("--per-unit bounds the rows of a unit: name its column with --unit.")
            if self.file is not None:
                raise UsageError("--set unit_file says whose the images of a folder are: name its column with --unit.")
            return
        _ = self.unit
        if self.file is not None and not images:
            raise UsageError("--set unit_file says whose the images of a folder are: leave it out for other data.")
        if images and self.file is None:
            raise UsageError(
                "A folder of images does not say whose an image is: give --set unit_file=FILE, a CSV file with the "
                f"columns file_name and {self.column}."
            )
        if schema is None and not images and not _has_units(data):
            arrays = ", or give a .npz file and name an array" if data else ""
            raise UsageError(f"--unit names a column of a table: give its --schema{arrays}.")
        if adjacency is not None and Adjacency.parse(adjacency) is not Adjacency.ADD_REMOVE:
            raise UsageError(
                "--unit works with --adjacency add-remove only: under replace-one the number of records would be "
                "public, and it may change with one unit."
            )

    def held(self, records: Dataset | PartitionedSource) -> dict[str, Any]:
        """What a vault is told of the units of these records; partitions were opened with theirs."""
        from privot.data.loading import Dataset

        if self.column is None:
            return {}
        told = {"unit": self.unit}
        return {"units": records.units, **told} if isinstance(records, Dataset) else told


NO_UNIT = UnitOptions()


def is_image_folder(data: str) -> bool:
    """Whether data of this name, without a schema, is a folder of images by class; no image is read."""
    from privot.cli.records import is_folder
    from privot.partitions.source_opening import is_partitioned

    return bool(data) and is_folder(data) and not is_partitioned(data, None)


def _has_units(data: str) -> bool:
    """Whether data of this name, without a schema, may say whose each record is; nothing of it is read."""
    from privot.partitions.source_opening import is_partitioned

    return bool(data) and (data.lower().endswith(".npz") or is_partitioned(data, None))


def open_codec(schema: Path | None, units: UnitOptions = NO_UNIT) -> TableCodec | None:
    """The codec of the schema in a file, without the column of the unit; None where none is given."""
    from privot.tables import Schema, TableCodec
    from privot.tables.unit_column import schema_for_unit

    if schema is None:
        return None
    read = Schema.load(schema)
    return TableCodec(read if units.column is None else schema_for_unit(read, units.column))


def ask_for_unit(codec: TableCodec) -> None:
    """Warn where the schema names what looks like an identifier, and no unit was stated; no value is looked at."""
    from privot.cli.printing.command_warnings import warn
    from privot.tables.unit_column import identifier_names

    described, dropped = identifier_names(codec.schema)
    if dropped:
        warn(
            f"Single records are protected, and the schema drops {dropped[0]!r}: if one can have several rows, give "
            f"--unit {command_line([dropped[0]])} to protect everything of one."
        )
    if described:
        warn(
            f"Column {described[0]!r} looks like an identifier by its name, and is treated as any other: drop it "
            f'in the schema ("drop": true), or give --unit {command_line([described[0]])} if it says whose a row is.'
        )


def table_hint(data: str) -> str:
    """What to add to a refusal where a file of this name may be a table; nothing of it is read."""
    if not data.lower().endswith((".csv", ".csv.gz", ".parquet")):
        return ""
    return ", or --schema FILE if it is a table with named columns (privot schema dictionary begins one)"


def codec_for(folder: Path | None, schema: Path | None) -> TableCodec | None:
    """The codec of what lies in a folder that `privot synth` made, or of a schema file; None where it is no table."""
    from privot.errors import UsageError
    from privot.jobs.released_files import read_json
    from privot.synthesis.output.saved_model import CONFIG
    from privot.tables import TableCodec
    from privot.tables.related_codec import KIND as RELATED

    if folder is None:
        return open_codec(schema)
    if schema is not None:
        raise UsageError("--schema cannot be combined with a folder: the folder has its own schema.")
    params = read_json(folder / CONFIG).get("params")
    raw = params.get("codec") if isinstance(params, dict) else None
    if isinstance(raw, dict) and raw.get("kind") == RELATED:
        raise UsageError(
            f"{folder} holds related tables, which are evaluated one by one: name the file of one of them, with the "
            "--schema of that table, in which the key is dropped."
        )
    return None if raw is None else TableCodec.from_dict(raw)


def table_records(data: str, codec: TableCodec, units: UnitOptions = NO_UNIT) -> Dataset:
    """The file's rows as a vault of tables holds them. Always the compact layout: one data set has one budget."""
    from privot.data.loading import Dataset
    from privot.tables import encode_file
    from privot.tables.unit_column import encode_file_with_units

    if units.column is None:
        return Dataset(*encode_file(data, codec, compact=True))
    rows, labels, whose = encode_file_with_units(data, codec, units.column)
    return Dataset(rows, labels, units=whose)


def check_table(data: str, codec: TableCodec, units: UnitOptions = NO_UNIT) -> None:
    """Refuse, before a record is read, a file that is there and has other columns than the schema (and the unit)."""
    from privot.tables.table_files import check_columns
    from privot.tables.table_writing import kind_of

    kind_of(data)
    if Path(data).is_file():
        check_columns(data, codec, units.column)


def read_table(data: str) -> Table:
    """A public table, as it stands in its file."""
    from privot.tables import read_table as read

    return read(data)


def read_labelled_table(data: str, codec: TableCodec) -> Dataset:
    """Rows as a network takes them, and their labels."""
    from privot.adaptation.stand_in.table_rows import labelled_rows
    from privot.data.loading import Dataset

    return Dataset(*labelled_rows(data, codec))


def unlabelled_records(data: str, codec: TableCodec, units: UnitOptions = NO_UNIT) -> Dataset:
    """The rows of a private file as a vault holds them; the label's column is not read if there is one."""
    from privot.adaptation.stand_in.table_rows import unlabelled_file, unlabelled_file_with_units
    from privot.data.loading import Dataset

    if units.column is None:
        return Dataset(unlabelled_file(data, codec))
    rows, whose = unlabelled_file_with_units(data, codec, units.column)
    return Dataset(rows, units=whose)


def stated_records(data: str, kind: Kind, units: UnitOptions = NO_UNIT) -> Dataset:
    """The records in a file as a vault holds them, read by the kind that a schema file states."""
    from privot.data.loading import Dataset
    from privot.kinds import Files

    read = kind.read(Files(data, unit_file=units.file), units.column)
    return Dataset(read.x, read.y, units=read.units)


def schema_facts(kind: Kind, given: dict[str, Any]) -> dict[str, Any]:
    """What options state for other data, of records of a kind that a schema file states."""
    check_alone(given)
    found = {"low": kind.low, "high": kind.high, "classes": kind.class_names or kind.count, "shape": kind.shape}
    return found if kind.clip is None else {**found, "clip": kind.clip}


def table_facts(codec: TableCodec, given: dict[str, Any]) -> dict[str, Any]:
    """The facts that options state for other data; `given` are those options, which a table must not have."""
    check_alone(given)
    return {"low": 0.0, "high": 1.0, "classes": codec.classes, "clip": codec.bound(compact=True)}


def check_alone(given: dict[str, Any]) -> None:
    """Refuse options beside a schema that says what they say."""
    from privot.errors import UsageError

    for name, value in given.items():
        if value is not None:
            raise UsageError(f"{name} cannot be combined with --schema: the schema states all that is public.")


def kind_for(data: str, codec: TableCodec | None) -> str | None:
    """The ending of the synthetic table: that of the data, without its compression."""
    from privot.tables.table_writing import kind_of

    return None if codec is None else kind_of(data).removesuffix(".gz")


def check_spreadsheet_safe(kind: str | None) -> None:
    """Refuse what is safe for spreadsheets, before anything is paid, unless the synthetic file is a CSV table."""
    from privot.errors import UsageError

    if kind is None or not kind.startswith(".csv"):
        raise UsageError("--set spreadsheet_safe works for CSV tables with a schema only: leave it out.")
