"""The output files of a table: synthetic rows, and a figure of each column; it sees no record."""

from __future__ import annotations

import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from privot.evaluation.schema_axes import axes_of
from privot.jobs.released_files import write_bytes
from privot.synthesis.tabular.table_model import TableModel
from privot.tables.codec import TableCodec
from privot.tables.columns import Column
from privot.tables.table import Table
from privot.tables.table_writing import table_bytes

SYNTHETIC = "synthetic"
MARGINALS = "marginals.png"
_ACROSS, _MAX_PICTURES, _MAX_BARS = 3, 30, 20


def tensors_of(model: TableModel) -> dict[str, torch.Tensor]:
    """The model's arrays, for one safetensors file."""
    return {name: torch.from_numpy(np.array(array)) for name, array in model.arrays().items()}


def write_drawn(path: Path, table: Table, codec: TableCodec, spreadsheet_safe: bool = False) -> None:
    """Synthetic rows as `path`'s ending says, whole or not at all."""
    write_bytes(path, table_bytes(table, path, codec.schema, spreadsheet_safe))


def find_synthetic(folder: Path) -> Path | None:
    """The synthetic table in a folder, whatever its kind; None where there is none."""
    found = sorted(folder.glob(f"{SYNTHETIC}.csv*")) + sorted(folder.glob(f"{SYNTHETIC}.parquet"))
    return found[0] if found else None


def draw_marginals(rows: NDArray[np.float64], labels: NDArray[np.int64] | None, codec: TableCodec) -> bytes:
    """The share of each column's values among synthetic rows, as a PNG; at most thirty columns."""
    from matplotlib.figure import Figure

    shares = [
        (column, np.bincount(axis.index(rows, None), minlength=axis.cells) / len(rows))
        for column, axis in zip(codec.features, axes_of(codec, compact=True), strict=True)
    ]
    if labels is not None and codec.schema.label is not None:
        label = np.bincount(labels, minlength=codec.classes or 1) / len(labels)
        shares.insert(0, (codec.schema[codec.schema.label], label))
    shares = shares[:_MAX_PICTURES]
    down = -(-len(shares) // _ACROSS)
    figure = Figure(figsize=(3.6 * _ACROSS, 2.4 * down), layout="constrained")
    for place in range(down * _ACROSS):
        axes = figure.add_subplot(down, _ACROSS, place + 1)
        if place < len(shares):
            _draw(axes, *shares[place])
        else:
            axes.set_axis_off()
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=100)
    return buffer.getvalue()


def _draw(axes: Any, column: Column, share: NDArray[np.float64]) -> None:
    # a $ in a name or a category must not start a formula
    axes.set_title(column.name.replace("$", r"\$")[:40], fontsize=9)
    axes.tick_params(labelsize=7)
    if column.is_number:
        known = share[:-1] if column.missing else share
        # one shape in place of a bar per cell, which takes seconds to draw
        axes.stairs(known, np.arange(len(known) + 1) - 0.5, fill=True)
        ends = [_end(column, value) for value in column.range]
        axes.set_xticks([-0.5, len(known) - 0.5], ends if len(known) > 1 else ["", ends[0]])
        notes = ["log scale"] if column.scale == "log" else []
        notes += [f"missing {100 * share[-1]:.1f} %"] if column.missing else []
        axes.set_xlabel(", ".join(notes), fontsize=7)
        return
    words = [str(word) for word in column.words] + (["missing"] if column.missing else [])
    order = np.arange(len(words)) if column.type == "ordinal" else np.argsort(-share, kind="stable")
    order = order[:_MAX_BARS]
    axes.bar(np.arange(len(order)), share[order])
    axes.set_xticks(np.arange(len(order)), [words[i].replace("$", r"\$")[:12] for i in order], rotation=90)
    if len(words) > len(order):
        axes.set_xlabel(f"and {len(words) - len(order)} more", fontsize=7)


def _end(column: Column, value: float) -> str:
    return column.to_date(value).strftime(column.format) if column.type == "date" else f"{value:g}"


def facts_of(params: Mapping[str, Any], learned: Mapping[str, Any]) -> list[list[str]]:
    """How the model was made, for the report."""
    schema = params["codec"]["schema"]
    kinds: dict[str, int] = {}
    for column in schema["columns"]:
        kinds[column["type"]] = kinds.get(column["type"], 0) + 1
    order = [schema["label"] if f["column"] is None else _name(schema, f["column"]) for f in learned["factors"]]
    return [
        ["method", f"{params['method']}: noisy marginals of the table's cells"],
        ["columns", ", ".join(f"{count} {kind}" for kind, count in kinds.items())],
        ["label", schema["label"] or "none"],
        ["drawn in this order", ", ".join(order)[:300]],
    ]


def _name(schema: Mapping[str, Any], place: int) -> str:
    names = [column["name"] for column in schema["columns"] if column["name"] != schema["label"]]
    return str(names[place])
