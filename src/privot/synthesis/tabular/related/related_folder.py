"""The output files of related tables: one file per table, and what the report says of them; it sees no record."""

from __future__ import annotations

from collections.abc import Mapping
from glob import escape
from pathlib import Path
from typing import Any

import numpy as np

from privot.errors import DataError, UsageError
from privot.jobs.released_files import write_json
from privot.synthesis.tabular import table_folder
from privot.synthesis.tabular.related.related_model import RelatedModel
from privot.tables.related_codec import RelatedCodec
from privot.tables.table import Table

ENDINGS = (".csv", ".parquet")


def made_files(codec: RelatedCodec) -> tuple[str, ...]:
    """Patterns of the files that a folder holds of the tables."""
    return tuple(escape(name) + ending for name in codec.names for ending in ENDINGS)


def kinds_in(folder: Path, codec: RelatedCodec) -> dict[str, str]:
    """The ending of each table's file in a folder; .csv where there is none."""
    return {
        name: next((ending for ending in ENDINGS if (folder / f"{name}{ending}").is_file()), ENDINGS[0])
        for name in codec.names
    }


def check_folder(path: Path) -> None:
    """Refuse what cannot be a new folder of tables, before anything is drawn."""
    if path.suffix.lower() in (*ENDINGS, ".gz"):
        raise UsageError(f"Related tables are several files: name a folder, not {path.name!r}.")
    if path.exists() and (not path.is_dir() or any(path.iterdir())):
        raise DataError(f"{path} is not an empty folder: choose another one.")


def write_tables(
    folder: Path,
    tables: Mapping[str, Table],
    codec: RelatedCodec,
    kinds: Mapping[str, str],
    spreadsheet_safe: bool = False,
) -> dict[str, int]:
    """Every table as a file of its own, called by its name; gives the number of rows of each."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, schema in zip(codec.names, codec.output_schemas, strict=True):
        table_folder.write_schema_table(folder / f"{name}{kinds[name]}", tables[name], schema, spreadsheet_safe)
    return {name: tables[name].rows for name in codec.names}


def write_figures(folder: Path, model: RelatedModel, parents: int, seed: int) -> None:
    """The numbers behind the report's pictures: of parents with their numbers of children, of children beside them."""
    codec, (first, *rest) = model.codec, model.draw(parents, seed)
    figures = {codec.parent: table_folder.figures_of(first.rows, first.labels, codec.parent_codec)}
    context = first.rows if first.labels is None else np.column_stack([first.rows, first.labels])
    for name, joined, made in zip(codec.children, codec.joined_codecs, rest, strict=True):
        assert made.parents is not None
        if len(made.rows):
            beside = np.column_stack([context[made.parents], made.rows])
            figures[name] = table_folder.figures_of(beside, made.labels, joined)
    write_json(folder / table_folder.FIGURES, {"tables": figures})


def facts_of(params: Mapping[str, Any]) -> list[list[str]]:
    """How the models were made, for the report."""
    codec = RelatedCodec.from_dict(params["codec"])
    columns = [f"{len(s.names)} of {name}" for name, s in zip(codec.names, codec.schemas, strict=True)]
    return [
        ["method", f"{params['method']}: noisy marginals of the tables' cells"],
        ["columns", ", ".join(columns)],
        ["linked by", codec.key],
        ["rows", codec.bounds_in_words],
    ]


def command_words(params: Mapping[str, Any]) -> list[str]:
    """The options that state the tables, as `privot synth` takes them."""
    codec = RelatedCodec.from_dict(params["codec"])
    words = [*(f"{name}.csv" for name in codec.children), "--schema", "SCHEMA.json"]
    for name, most in zip(codec.children, codec.per_parent, strict=True):
        words += ["--schema", f"{name}.json", "--per-unit", str(most)]
    return [*words, "--unit", codec.key]


LIMITS = (
    "Sequences: the children of one parent have no order. Each is drawn beside its parent's columns, and siblings are "
    "as alike in each column as real ones on average; other things that they have in common, a trend or a sum, are not "
    "kept."
)
"""What a report says that these tables are not good for."""
