"""The files that the blocks of the documents speak of: small, made up, of the stated shapes and columns."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np

EXAMPLES = Path(__file__).parents[2] / "docs/examples"


def images(path: Path, count: int = 120, seed: int = 0, unit: str = "") -> None:
    """Ten classes of 28 × 28 pixels from 0 to 255; with a `unit`, an array of that name says whose each is."""
    g = np.random.default_rng(seed)
    y = np.arange(count) % 10
    middle = np.random.default_rng(1).uniform(0, 255, size=(10, 28, 28))
    x = np.clip(middle[y] + g.normal(0, 20, size=(count, 28, 28)), 0, 255)
    np.savez(path, x=x.astype(np.uint8), y=y, **({unit: g.integers(0, count // 3, count)} if unit else {}))


def image_folder(folder: Path, count: int = 60) -> None:
    """Two classes of images by name in `scans`, and whose each is in `units.csv`."""
    from PIL import Image

    g = np.random.default_rng(8)
    lines = ["file_name,patient_id"]
    for number, pixels in enumerate(g.integers(0, 256, size=(count, 28, 28), dtype=np.uint8)):
        name = ("healthy", "ill")[number % 2]
        (folder / "scans" / name).mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels).save(folder / "scans" / name / f"{number:04}.png")
        lines.append(f"{name}/{number:04}.png,P{number % 20}")
    (folder / "units.csv").write_text("\n".join(lines) + "\n")


def census(path: Path, count: int = 300, seed: int = 0, label: bool = True, unit: str = "") -> None:
    """The columns of docs/examples/dictionary.json; a long education makes a high income more likely.

    With a `unit` the first column says whose a row is; about three rows are of one.
    """
    g = np.random.default_rng(seed)
    names = ["school", "college", "master", "phd"]
    rows = ["age,education,hours,married,joined,income"]
    for _ in range(count):
        level = int(g.integers(0, 4))
        rich = g.uniform() < 0.15 + 0.2 * level
        day = np.datetime64("2000-01-01") + int(g.integers(0, 7000))
        age = "" if g.uniform() < 0.02 else str(g.integers(17, 91))
        married = "true" if g.uniform() < 0.5 else "false"
        rows.append(f"{age},{names[level]},{g.uniform(0, 99):.1f},{married},{day},{'>50K' if rich else '<=50K'}")
    if unit:
        rows = [f"{unit},{rows[0]}", *(f"{g.integers(0, count // 3)},{row}" for row in rows[1:])]
    path.write_text("\n".join(row if label else row.rpartition(",")[0] for row in rows) + "\n")


def related(folder: Path) -> None:
    """`patients.csv` and `stays.csv`: about two stays per patient, longer ones of older patients; and their schemas."""
    g = np.random.default_rng(8)
    age, sex = g.integers(0, 100, 150), g.choice(["f", "m"], 150)
    rows = [f"P{i},{age[i]},{sex[i]}" for i in range(150)]
    (folder / "patients.csv").write_text("\n".join(["patient_id,age,sex", *rows]) + "\n")
    rows = [f"P{i},{g.integers(0, 1 + age[i] // 4)},{g.choice(['a', 'b'])}" for i in g.integers(0, 150, 300)]
    (folder / "stays.csv").write_text("\n".join(["patient_id,days,ward", *rows]) + "\n")
    key: dict[str, object] = {"name": "patient_id", "drop": True}
    columns: dict[str, list[dict[str, object]]] = {
        "patients": [
            key,
            {"name": "age", "type": "integer", "low": 0, "high": 120},
            {"name": "sex", "type": "categorical", "categories": ["f", "m"]},
        ],
        "stays": [
            key,
            {"name": "days", "type": "integer", "low": 0, "high": 60},
            {"name": "ward", "type": "categorical", "categories": ["a", "b"]},
        ],
    }
    for name, of_table in columns.items():
        (folder / f"{name}.json").write_text(json.dumps({"columns": of_table}))


def partitions(folder: Path) -> None:
    """The census as `visits/*.parquet` and as a table of a DuckDB file; other records than those of census.csv.

    In `clinics/*.parquet` each row says whose it is.
    """
    import duckdb
    import pyarrow.csv
    import pyarrow.parquet

    (folder / "visits").mkdir()
    (folder / "clinics").mkdir()
    parts = []
    for number in range(3):
        path = folder / f"part-{number}.csv"
        census(path, count=100, seed=10 + number)
        parts.append(pyarrow.csv.read_csv(path))
        path.unlink()
        pyarrow.parquet.write_table(parts[-1], folder / "visits" / f"part-{number}.parquet")
        census(path, count=100, seed=20 + number, unit="patient_id")
        pyarrow.parquet.write_table(pyarrow.csv.read_csv(path), folder / "clinics" / f"part-{number}.parquet")
        path.unlink()
    with duckdb.connect(str(folder / "clinic.db")) as database:
        database.register("held", pyarrow.concat_tables(parts[:2]))
        database.execute("CREATE TABLE visits AS SELECT * FROM held")


def fill(folder: Path, schema: bool = True) -> None:
    """Every file that a block may name; without `schema` where the page itself makes one."""
    images(folder / "mnist.npz")
    images(folder / "mine.npz", seed=2)
    images(folder / "scans.npz", seed=7, unit="patient_id")
    image_folder(folder)
    images(folder / "source.npz", seed=3)
    images(folder / "target.npz", seed=4)
    images(folder / "new.npz", count=10, seed=5)
    images(folder / "from-a-stranger.npz", count=10, seed=6)
    census(folder / "census.csv")
    census(folder / "visits.csv", seed=5, unit="patient_id")
    census(folder / "census-test.csv", seed=1)
    census(folder / "public.csv", seed=2)
    census(folder / "private.csv", seed=3, label=False)
    census(folder / "new.csv", count=10, seed=4, label=False)
    partitions(folder)
    related(folder)
    shutil.copy(EXAMPLES / "dictionary.json", folder / "dictionary.json")
    if schema:
        (folder / "schema.json").write_text(json.dumps({"label": "income", "columns": _columns()}))


def _columns() -> list[dict[str, object]]:
    return [
        {"name": "age", "type": "integer", "low": 17, "high": 90, "missing": True},
        {"name": "education", "type": "categorical", "categories": ["school", "college", "master", "phd"]},
        {"name": "hours", "type": "continuous", "low": 0, "high": 99, "decimals": 1},
        {"name": "married", "type": "boolean", "categories": ["false", "true"]},
        {"name": "joined", "type": "date", "low": "2000-01-01", "high": "2019-12-31"},
        {"name": "income", "type": "categorical", "categories": ["<=50K", ">50K"]},
    ]
