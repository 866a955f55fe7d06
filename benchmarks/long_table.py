"""A long table through the command line: writes a CSV of N rows and runs `privot synth` on it; time and memory.

python benchmarks/long_table.py [ROWS]
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from privot.tables import Column, Schema, TableCodec, encode_file, write_table

SCHEMA = Schema(
    (
        Column("day", "date", "2010-01-01", "2024-12-31", missing=True),
        Column("code", "categorical", categories=tuple(f"C{i:02d}" for i in range(50)), missing=True),
        Column("amount", "continuous", 0, 1e6, scale="log", decimals=2),
        Column("age", "integer", 0, 110),
        Column("flag", "boolean"),
        Column("outcome", "categorical", categories=("no", "yes")),
    ),
    label="outcome",
)
TERMS = ["--epsilon", "1", "--delta", "1e-6", "--adjacency", "add-remove", "--device", "cpu", "--seed", "1"]


def write_rows(path: Path, rows: int) -> float:
    """A made-up table in `path`; the share of its label."""
    codec, rng, yes = TableCodec(SCHEMA), np.random.default_rng(0), 0
    part = path.with_name("part.csv")
    with path.open("w", encoding="utf-8") as file:
        for start in range(0, rows, 50_000):
            count = min(50_000, rows - start)
            age = rng.random(count)
            compact = np.column_stack(
                [
                    np.where(rng.random(count) < 0.1, -1.0, rng.random(count)),
                    np.minimum(rng.geometric(0.1, count) - 1, 50),
                    np.clip(0.5 * age + 0.3 * rng.random(count), 0, 1),
                    age,
                    rng.integers(0, 2, count),
                ]
            )
            labels = (age + 0.3 * rng.normal(size=count) > 0.7).astype(np.int64)
            yes += int(labels.sum())
            write_table(codec.decode(compact, labels, compact=True), part, SCHEMA)
            names, lines = part.read_text(encoding="utf-8").split("\n", 1)
            file.write((names + "\n" if start == 0 else "") + lines)
    return yes / rows


def timed(*arguments: str) -> str:
    """Run one command; its seconds, and the most memory any command so far has held."""
    clock = time.perf_counter()
    subprocess.run([sys.executable, "-m", "privot", *arguments], check=True)  # noqa: S603
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    return f"{time.perf_counter() - clock:.0f} s, peak memory {peak:.0f} MB"


def main() -> None:
    """Write the rows, synthesise them and draw as many, and print how long it took."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("rows", type=int, nargs="?", default=1_000_000, help="rows of the table")
    rows = parser.parse_args().rows
    with tempfile.TemporaryDirectory() as folder:
        data, schema, out = Path(folder) / "long.csv", Path(folder) / "schema.json", Path(folder) / "out"
        real = write_rows(data, rows)
        SCHEMA.save(schema)
        print(f"{rows} rows, {data.stat().st_size / 1e6:.0f} MB", flush=True)
        public = ["--schema", str(schema), *TERMS, "--out", str(out)]
        print("synth: ", timed("synth", str(data), *public), flush=True)
        more = Path(folder) / "more.csv"
        print("sample:", timed("sample", str(out), "--count", str(rows), "--out", str(more), "--seed", "1"), flush=True)
        _, labels = encode_file(more, TableCodec(SCHEMA))
        assert labels is not None
        print(f"share of yes: {real:.4f} real, {labels.mean():.4f} synthetic")


if __name__ == "__main__":
    main()
