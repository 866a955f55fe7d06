"""Partitions of records of which one unit has several: arrays, tables, shards and queries, cut in any way."""

from __future__ import annotations

import csv
import io
import tarfile
from pathlib import Path
from typing import Any

import numpy as np

from privot import Vault
from privot.common.privacy_unit import Unit
from privot.kinds import Files, Images
from privot.partitions.engines.local_engine import LocalEngine
from privot.tables import Column, Schema

UNIT = "patient_id"
SCHEMA = Schema(
    (Column("age", "integer", 0, 99), Column("sex", "categorical", categories=("f", "m")),
     Column("ill", "categorical", categories=("no", "yes"))),
    label="ill",
)  # fmt: skip
TERMS: dict[str, Any] = {"adjacency": "add-remove", "budget": (1e300, 0.5)}
HERE = LocalEngine(1)


def visits(count: int = 200, planted: int = 0, seed: int = 0, alike: bool = False) -> list[dict[str, Any]]:
    """Rows of 40 patients, a few of them equal, and `planted` rows of one patient more; `alike`: all one row."""
    dice = np.random.default_rng(seed)

    def row(patient: str) -> dict[str, Any]:
        drawn = {"age": int(dice.integers(0, 6)), "sex": "fm"[dice.integers(2)], "ill": ("no", "yes")[dice.integers(2)]}
        return {UNIT: patient, **drawn}

    rows = [row(f"patient {dice.integers(40)}") for _ in range(count)]
    own = [row("planted") for _ in range(planted)]
    if alike:
        own = [{**one, "age": 5, "sex": "m", "ill": "yes"} for one in own]
    return [(rows + own)[place] for place in dice.permutation(count + planted)]


def without(rows: list[dict[str, Any]], patient: str = "planted") -> list[dict[str, Any]]:
    return [row for row in rows if row[UNIT] != patient]


def shuffled(rows: list[dict[str, Any]], seed: int) -> list[dict[str, Any]]:
    return [rows[place] for place in np.random.default_rng(seed).permutation(len(rows))]


def parts_of(rows: list[dict[str, Any]], parts: int) -> list[list[dict[str, Any]]]:
    return [[rows[place] for place in cut] for cut in np.array_split(np.arange(len(rows)), parts)]


def write_csv(folder: Path, parts: list[list[dict[str, Any]]]) -> Path:
    folder.mkdir(parents=True)
    for number, rows in enumerate(parts):
        with (folder / f"part-{number:03}.csv").open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, (UNIT, *SCHEMA.names))
            writer.writeheader()
            writer.writerows(rows)
    return folder


def write_parquet(folder: Path, parts: list[list[dict[str, Any]]], group: int = 13, unit: Any = None) -> Path:
    import pyarrow as pa
    import pyarrow.parquet as parquet

    folder.mkdir(parents=True)
    kinds = {UNIT: unit or pa.string(), "age": pa.int64(), "sex": pa.string(), "ill": pa.string()}
    for number, rows in enumerate(parts):
        table = pa.table({name: pa.array([row[name] for row in rows], kind) for name, kind in kinds.items()})
        parquet.write_table(table, folder / f"part-{number:03}.parquet", row_group_size=group)
    return folder


def as_arrays(rows: list[dict[str, Any]]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    x = np.array([[row["age"], row["sex"] == "m"] for row in rows], dtype=np.float64).reshape(-1, 2)
    return x, np.array([row["ill"] == "yes" for row in rows], dtype=np.int64), np.array([row[UNIT] for row in rows])


def write_arrays(folder: Path, parts: list[list[dict[str, Any]]]) -> Path:
    folder.mkdir(parents=True)
    for number, rows in enumerate(parts):
        x, y, units = as_arrays(rows)
        np.savez(folder / f"part-{number:03}.npz", x=x, y=y, **{UNIT: units})
    return folder


def write_shards(folder: Path, parts: list[list[dict[str, Any]]], unit: str = UNIT) -> Path:
    """Images of 2 × 1 pixels, a class, and whose each is."""
    from PIL import Image

    folder.mkdir(parents=True)
    for number, rows in enumerate(parts):
        with tarfile.open(folder / f"part-{number:03}.tar", "w") as tar:
            for place, row in enumerate(rows):
                pixels, image = io.BytesIO(), np.array([[row["age"]], [row["sex"] == "m"]], dtype=np.uint8)
                Image.fromarray(image).save(pixels, "png")
                files = {"png": pixels.getvalue(), "cls": str(int(row["ill"] == "yes")).encode()}
                if row[UNIT] is not None:
                    files[unit] = f"{row[UNIT]}\n".encode()
                for ending, content in files.items():
                    info = tarfile.TarInfo(f"{place:06}.{ending}")
                    info.size = len(content)
                    tar.addfile(info, io.BytesIO(content))
    return folder


def in_one_place(rows: list[dict[str, Any]], per_unit: int, **more: Any) -> Vault:
    """The same arrays, in memory: what partitions are compared with."""
    x, y, units = as_arrays(rows)
    return Vault(x, y, classes=2, clip=200.0, units=units, unit=Unit(UNIT, per_unit), **{**TERMS, **more})


def of_arrays(folder: Path, per_unit: int, engine: Any = HERE, **more: Any) -> Vault:
    told: dict[str, Any] = {"unit": Unit(UNIT, per_unit), **TERMS, **more}
    return Vault.open(Files(str(folder / "*.npz"), engine=engine), Images((2,), classes=2, clip=200.0), **told)


def of_table(place: Path | str, per_unit: int, engine: Any = HERE, **more: Any) -> Vault:
    cut = {name: more.pop(name) for name in ("query", "parts") if name in more}
    return Vault.open(Files(place, engine=engine, **cut), SCHEMA, unit=Unit(UNIT, per_unit), **{**TERMS, **more})
