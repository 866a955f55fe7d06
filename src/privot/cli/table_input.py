"""Tables with a schema, as the commands read them; a file goes straight into a vault or an evaluation."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from privot.data import Dataset
    from privot.tables import Table, TableCodec


def open_codec(schema: Path | None) -> TableCodec | None:
    """The codec of the schema in a file; None where none is given."""
    from privot.tables import Schema, TableCodec

    return None if schema is None else TableCodec(Schema.load(schema))


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

    if folder is None:
        return open_codec(schema)
    if schema is not None:
        raise UsageError("--schema cannot be combined with a folder: the folder has its own schema.")
    params = read_json(folder / CONFIG).get("params")
    raw = params.get("codec") if isinstance(params, dict) else None
    return None if raw is None else TableCodec.from_dict(raw)


def table_records(data: str, codec: TableCodec) -> Dataset:
    """The file's rows as a vault of tables holds them. Always the compact layout: one data set has one budget."""
    from privot.data import Dataset
    from privot.tables import encode_file

    return Dataset(*encode_file(data, codec, compact=True))


def read_table(data: str) -> Table:
    """A public table, as it stands in its file."""
    from privot.tables import read_table as read

    return read(data)


def read_labelled_table(data: str, codec: TableCodec) -> Dataset:
    """Rows as a network takes them, and their labels."""
    from privot.adaptation.stand_in.table_rows import labelled_rows
    from privot.data import Dataset

    return Dataset(*labelled_rows(data, codec))


def unlabelled_rows_of(data: str, codec: TableCodec) -> Any:
    """The rows of a private file as a vault holds them; the label's column is not read if there is one."""
    from privot.adaptation.stand_in.table_rows import unlabelled_file

    return unlabelled_file(data, codec)


def table_facts(codec: TableCodec, given: dict[str, Any]) -> dict[str, Any]:
    """The facts that options state for other data; `given` are those options, which a table must not have."""
    from privot.errors import UsageError

    for name, value in given.items():
        if value is not None:
            raise UsageError(f"{name} cannot be combined with --schema: the schema states all that is public.")
    return {"low": 0.0, "high": 1.0, "classes": codec.classes, "clip": codec.bound(compact=True)}


def kind_for(data: str, codec: TableCodec | None) -> str | None:
    """The ending of the synthetic table: that of the data, without its compression."""
    from privot.tables.table_writing import kind_of

    return None if codec is None else kind_of(data).removesuffix(".gz")


def check_spreadsheet_safe(kind: str | None) -> None:
    """Refuse --spreadsheet-safe, before anything is paid, unless the synthetic file is a CSV table."""
    from privot.errors import UsageError

    if kind is None or not kind.startswith(".csv"):
        raise UsageError("--spreadsheet-safe works for CSV tables with a schema only: leave it out.")
