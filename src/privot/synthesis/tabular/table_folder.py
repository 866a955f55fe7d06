"""The output files of a table: synthetic rows, and the numbers behind their pictures; it sees no record."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privot.evaluation.schema_axes import axes_of, with_edges
from privot.evaluation.table_figures import Coded, associations, column_shares
from privot.jobs.released_files import write_bytes, write_json
from privot.release import Release
from privot.synthesis.tabular.column_laws.consistent_marginals import estimate
from privot.synthesis.tabular.expected_error import expected_errors
from privot.synthesis.tabular.lost_links import lost_links, lost_sentences
from privot.synthesis.tabular.table_design import TableDesign
from privot.synthesis.tabular.table_fit import released_axes
from privot.tables.codec import TableCodec
from privot.tables.constraints.differences import differences_of
from privot.tables.schema import Schema
from privot.tables.table import Table
from privot.tables.table_writing import table_bytes

SYNTHETIC = "synthetic"
FIGURES = "figures.json"
"""The numbers behind the report's pictures of columns and pairs."""


def write_drawn(path: Path, table: Table, codec: TableCodec, spreadsheet_safe: bool = False) -> None:
    """Synthetic rows as `path`'s ending says, whole or not at all."""
    write_schema_table(path, table, codec.schema, spreadsheet_safe)


def write_schema_table(path: Path, table: Table, schema: Schema, spreadsheet_safe: bool = False) -> None:
    """The same for the columns that `schema` states."""
    write_bytes(path, table_bytes(table, path, schema, spreadsheet_safe))


def find_synthetic(folder: Path) -> Path | None:
    """The synthetic table in a folder, whatever its kind; None where there is none."""
    found = sorted(folder.glob(f"{SYNTHETIC}.csv*")) + sorted(folder.glob(f"{SYNTHETIC}.parquet"))
    return found[0] if found else None


def write_figures(
    folder: Path,
    rows: NDArray[np.float64],
    labels: NDArray[np.int64] | None,
    codec: TableCodec,
    drowned: Sequence[str] = (),
) -> None:
    """The numbers behind the report's pictures, from synthetic rows: shares of columns, associations of pairs; and
    sentences that say what noise drowned (`drowned_of`)."""
    write_json(folder / FIGURES, figures_of(rows, labels, codec) | {"drowned": list(drowned)})


def drowned_of(design: TableDesign, release: Release, rows: NDArray[np.float64]) -> list[str]:
    """A sentence for each thing that noise drowned, for as many records as the released counts say there are, and for
    each link of two columns that these counts show and the synthetic `rows` lack."""
    known = estimate(release)
    found = expected_errors(design, round(known.records)).warnings()
    cut = [None if a.edges is None else np.array(a.edges) for a in released_axes(release, design.codec)]
    lost = lost_links(known, with_edges(axes_of(design.codec, compact=True), cut), rows)
    names = [column.name for column in design.codec.features]
    return [
        *(f"By the released counts, {sentence[0].lower()}{sentence[1:]}" for sentence in found),
        *lost_sentences(lost, names),
    ]


def figures_of(rows: NDArray[np.float64], labels: NDArray[np.int64] | None, codec: TableCodec) -> dict[str, Any]:
    """These numbers, as plain JSON types."""
    coded = Coded(rows, labels, codec)
    names, matrix = associations(coded.subset())
    return {"columns": column_shares(coded), "correlations": {"names": names, "synthetic": matrix}}


def facts_of(params: Mapping[str, Any], learned: Mapping[str, Any]) -> list[list[str]]:
    """How the model was made, for the report."""
    schema = params["codec"]["schema"]
    kinds: dict[str, int] = {}
    for column in schema["columns"]:
        kind = "dropped" if column.get("drop") is True else column["type"]
        kinds[kind] = kinds.get(kind, 0) + 1
    stated = Schema.from_dict(schema)
    names = [column.name for column in stated.learned.features]
    order = [schema["label"] if f["column"] is None else names[f["column"]] for f in learned["factors"]]
    apart = [f"{c.name} in place of {c.column}" for c in differences_of(stated.constraints)]
    return [
        ["method", f"{params['method']}: noisy marginals of the table's cells"],
        ["columns", ", ".join(f"{count} {kind}" for kind, count in kinds.items())],
        ["label", ", ".join(schema.get("labels", [schema["label"] or "none"]))],
        *([["interactions", "; ".join(" × ".join(n) for n in named)]] if (named := schema.get("interactions")) else []),
        *([["differences", "; ".join(apart)]] if apart else []),
        ["drawn in this order", ", ".join(order)[:300]],
    ]
