"""Small tables and ways to cut them, for the tests of partitions."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from privot import Vault
from privot.audit.simulation.noiseless import NoNoise
from privot.evaluation.schema_axes import axes_of
from privot.kinds import Files
from privot.noise import SystemNoise
from privot.synthesis.tabular.table_fit import TablePlanner
from privot.synthesis.tabular.table_release import table_mechanism
from privot.tables import Column, Schema, TableCodec

SCHEMA = Schema(
    (
        Column("age", "integer", 0, 120, missing=True),
        Column("income", "continuous", 0, 1e6, scale="log", missing=True),
        Column("city", "categorical", categories=("Ulm", "Bonn", "Jena"), unknown="other", missing=True),
        Column("born", "date", "1900-01-01", "2024-12-31", missing=True),
        Column("smokes", "boolean", missing=True),
        Column("ill", "categorical", categories=("no", "yes")),
    ),
    label="ill",
)
CODEC = TableCodec(SCHEMA)
BUDGET = (1e6, 1e-5)


def people(count: int, seed: int = 0) -> list[dict[str, Any]]:
    """Made-up records, some of them with missing or odd values."""
    rng = np.random.default_rng(seed)

    def maybe(value: Any) -> Any:
        return None if rng.random() < 0.1 else value

    return [
        {
            "age": maybe(int(rng.integers(-5, 130))),
            "income": maybe(float(np.exp(rng.normal(8, 2)))),
            "city": maybe(str(rng.choice(["Ulm", "Bonn", "Jena", "Elsewhere"]))),
            "born": maybe(date(1900 + int(rng.integers(0, 120)), 1 + int(rng.integers(0, 12)), 3)),
            "smokes": maybe(bool(rng.integers(2))),
            "ill": "yes" if rng.random() < 0.3 else "no",
        }
        for _ in range(count)
    ]


def arrow_table(records: list[dict[str, Any]]) -> Any:
    """With stated types, so that an empty part has the same columns."""
    import pyarrow as pa

    kinds = {
        "age": pa.int64(), "income": pa.float64(), "city": pa.string(), "born": pa.date32(), "smokes": pa.bool_(),
        "ill": pa.string(),
    }  # fmt: skip
    return pa.table({name: pa.array([r[name] for r in records], kind) for name, kind in kinds.items()})


def cut(records: list[dict[str, Any]], parts: int) -> list[list[dict[str, Any]]]:
    """`parts` lists of about equal length, some of them empty where there are more parts than records."""
    at = [len(records) * k // parts for k in range(parts + 1)]
    return [records[a:b] for a, b in pairwise(at)]


def write_parquet(folder: Path, parts: list[list[dict[str, Any]]], group: int = 1000) -> Path:
    import pyarrow.parquet as parquet

    folder.mkdir(parents=True)
    for number, records in enumerate(parts):
        parquet.write_table(arrow_table(records), folder / f"part-{number:03d}.parquet", row_group_size=group)
    return folder


def write_csv(folder: Path, parts: list[list[dict[str, Any]]]) -> Path:
    import csv

    folder.mkdir(parents=True)
    for number, records in enumerate(parts):
        with (folder / f"part-{number:03d}.csv").open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, SCHEMA.names)
            writer.writeheader()
            writer.writerows({k: "" if v is None else v for k, v in r.items()} for r in records)
    return folder


def exact(vault: Vault, mechanism: Any) -> dict[str, np.ndarray]:
    """What a vault without noise releases: the value before noise."""
    value = vault.release(mechanism, purpose="test", allow_unproven=True).value
    return dict(value) if hasattr(value, "items") else {"value": np.asarray(value)}


def same(first: dict[str, np.ndarray], second: dict[str, np.ndarray]) -> bool:
    """To the bit."""
    return first.keys() == second.keys() and all(first[k].tobytes() == second[k].tobytes() for k in first)


def silent() -> NoNoise:
    return NoNoise(SystemNoise())


def table_release(epsilon: float = 5.0) -> Any:
    """All parts of a table's release, with a small model of the label in between."""
    made = _planned(epsilon)
    planner = TablePlanner(axes_of(CODEC, compact=True), population=50)
    # `born` has no stated scale, so a tree of counts chooses its cells first
    return replace(made, then=replace(made.then, planner=planner))


@cache
def _planned(epsilon: float) -> Any:
    return table_mechanism(CODEC, epsilon=epsilon, delta=1e-5, adjacency="add-remove")


def open_table(place: Path | str, **more: Any) -> Vault:
    how = {name: more.pop(name) for name in ("query", "parts", "engine", "label") if name in more}
    return Vault.open(Files(place, **how), SCHEMA, adjacency="add-remove", budget=BUDGET, noise=silent(), **more)
