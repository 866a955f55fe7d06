"""Made-up records in many files, for benchmarks: Parquet files of a table, and tar shards of grey images."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path
from typing import Any

import numpy as np

from privot.tables import Column, Schema

SCHEMA = Schema(
    (
        Column.from_dict({"name": "visit", "type": "date", "low": "2010-01-01", "high": "2024-12-31", "missing": True}),
        Column("code", "categorical", categories=tuple(f"C{i:02d}" for i in range(50)), missing=True),
        Column("region", "categorical", categories=tuple(f"R{i:02d}" for i in range(16))),
        Column("amount", "continuous", 0, 1e6, scale="log", decimals=2),
        Column("weight", "continuous", 30, 200, missing=True),
        Column("age", "integer", 0, 110),
        Column("nights", "integer", 0, 365),
        Column("ward", "ordinal", categories=("low", "middle", "high", "intensive")),
        Column("urgent", "boolean"),
        Column("outcome", "categorical", categories=("no", "yes")),
    ),
    label="outcome",
)


def made_up(rng: np.random.Generator, rows: int) -> Any:
    """`rows` made-up records as an Arrow table; whole columns at a time."""
    import pyarrow as pa

    age = rng.integers(0, 111, rows)
    severity = rng.random(rows) * 0.6 + age / 275.0
    wards = pa.array(["low", "middle", "high", "intensive"])
    columns = {
        "visit": pa.array(rng.integers(14610, 20088, rows).astype(np.int32), mask=rng.random(rows) < 0.05).cast(
            pa.date32()
        ),
        "code": pa.DictionaryArray.from_arrays(
            pa.array(np.minimum(rng.geometric(0.1, rows) - 1, 49).astype(np.int32), mask=rng.random(rows) < 0.03),
            pa.array([f"C{i:02d}" for i in range(50)]),
        ),
        "region": pa.DictionaryArray.from_arrays(
            pa.array(rng.integers(0, 16, rows).astype(np.int32)), pa.array([f"R{i:02d}" for i in range(16)])
        ),
        "amount": pa.array(np.round(np.exp(rng.normal(6.0 + severity, 1.0, rows)), 2)),
        "weight": pa.array(np.round(rng.normal(78.0, 15.0, rows), 1), mask=rng.random(rows) < 0.1),
        "age": pa.array(age),
        "nights": pa.array(rng.poisson(4.0 * severity, rows)),
        "ward": pa.DictionaryArray.from_arrays(pa.array(np.minimum(severity * 4, 3).astype(np.int32)), wards),
        "urgent": pa.array(rng.random(rows) < severity),
        "outcome": pa.DictionaryArray.from_arrays(
            pa.array((severity + 0.2 * rng.normal(size=rows) > 0.7).astype(np.int32)), pa.array(["no", "yes"])
        ),
    }
    return pa.table(columns)


def write_table_files(folder: Path, rows: int, files: int) -> None:
    """The same records for the same `rows` and `files`, one generator per file."""
    import pyarrow.parquet as parquet

    folder.mkdir(parents=True, exist_ok=True)
    SCHEMA.save(folder.parent / "schema.json")
    for number in range(files):
        count = rows * (number + 1) // files - rows * number // files
        rng = np.random.default_rng((number, rows, files))
        with parquet.ParquetWriter(folder / f"part-{number:03d}.parquet", made_up(rng, 1).schema) as writer:
            for start in range(0, count, 500_000):
                writer.write_table(made_up(rng, min(500_000, count - start)), row_group_size=500_000)


def write_shards(folder: Path, count: int, files: int) -> None:
    """`count` made-up grey images of 28 × 28 and their classes, in tar shards."""
    from PIL import Image

    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(0)
    grid = np.linspace(-1.0, 1.0, 28)
    number = 0
    for shard in range(files):
        with tarfile.open(folder / f"shard-{shard:03d}.tar", "w") as archive:
            for _ in range(count * (shard + 1) // files - count * shard // files):
                label = int(rng.integers(10))
                turn = label * np.pi / 10 + 0.1 * rng.normal()
                line = np.cos(turn) * grid[:, None] + np.sin(turn) * grid[None, :] + 0.2 * rng.normal()
                pixels = (255 * np.exp(-8.0 * line * line)).astype(np.uint8)
                held = io.BytesIO()
                Image.fromarray(pixels).save(held, "PNG", compress_level=1)
                for ending, content in ((".png", held.getvalue()), (".cls", str(label).encode())):
                    member = tarfile.TarInfo(f"{number:08d}{ending}")
                    member.size = len(content)
                    archive.addfile(member, io.BytesIO(content))
                number += 1
