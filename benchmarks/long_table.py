"""A long table, end to end: writes a CSV of N rows, encodes it in chunks, releases, fits and samples; time and memory.

python benchmarks/long_table.py [ROWS]
"""

from __future__ import annotations

import resource
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from privot import Vault
from privot.synthesis.tables import fit_table, table_mechanism
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


def peak() -> float:
    """The most memory this process has held, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main() -> None:
    rows = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    codec = TableCodec(SCHEMA)
    rng = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "long.csv"
        header = None
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
                part = Path(folder) / "part.csv"
                write_table(codec.decode(compact, labels, compact=True), part, SCHEMA)
                lines = part.read_text(encoding="utf-8").split("\n", 1)
                file.write(("" if header else lines[0] + "\n") + lines[1])
                header = lines[0]
        print(f"wrote {rows} rows, {path.stat().st_size / 1e6:.0f} MB; peak memory {peak():.0f} MB", flush=True)
        clock = time.perf_counter()
        x, y = encode_file(path, codec, compact=True)
        print(f"encoded in {time.perf_counter() - clock:.0f} s; peak memory {peak():.0f} MB", flush=True)
        clock = time.perf_counter()
        vault = Vault(x, y, clip=codec.bound(True), classes=2, adjacency="add-remove", budget=(1.0, 1e-6))
        share = y.mean() if y is not None else 0.0
        del x, y
        mechanism = table_mechanism(codec, epsilon=1.0, delta=1e-6, adjacency="add-remove")
        release = vault.release(mechanism, purpose="a long table")
        print(f"released in {time.perf_counter() - clock:.0f} s; peak memory {peak():.0f} MB", flush=True)
        clock = time.perf_counter()
        model = fit_table(release, codec)
        print(f"fitted in {time.perf_counter() - clock:.0f} s; peak memory {peak():.0f} MB", flush=True)
        clock = time.perf_counter()
        _, labels = model.sample_rows(rows)
        assert labels is not None
        print(f"sampled {rows} rows in {time.perf_counter() - clock:.0f} s; peak memory {peak():.0f} MB", flush=True)
        print(f"share of yes: {share:.4f} real, {labels.mean():.4f} synthetic")


if __name__ == "__main__":
    main()
