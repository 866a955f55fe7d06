"""A long made-up table through the commands: `privot synth` and `privot sample`, each timed, with its peak memory."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from privot.errors import PrivotError, UsageError
from privot.tables import Column, Schema, TableCodec, encode_file, write_table

SCHEMA = Schema(
    (
        Column.from_dict({"name": "day", "type": "date", "low": "2010-01-01", "high": "2024-12-31", "missing": True}),
        Column("code", "categorical", categories=tuple(f"C{i:02d}" for i in range(50)), missing=True),
        Column("amount", "continuous", 0, 1e6, scale="log", decimals=2),
        Column("age", "integer", 0, 110),
        Column("flag", "boolean"),
        Column("outcome", "categorical", categories=("no", "yes")),
    ),
    label="outcome",
)
TERMS = ["--epsilon", "1", "--delta", "1e-6", "--adjacency", "add-remove", "--device", "cpu", "--seed", "1"]
PART = 50_000


def write_rows(path: Path, rows: int, seed: int = 0) -> float:
    """A made-up table in `path`, written in parts; the share of its positive class."""
    codec, g, yes = TableCodec(SCHEMA), np.random.default_rng(seed), 0
    part = path.with_name("part.csv")
    with path.open("w", encoding="utf-8") as file:
        for start in range(0, rows, PART):
            count = min(PART, rows - start)
            age = g.random(count)
            compact = np.column_stack(
                [
                    np.where(g.random(count) < 0.1, -1.0, g.random(count)),
                    np.minimum(g.geometric(0.1, count) - 1, 50),
                    np.clip(0.5 * age + 0.3 * g.random(count), 0, 1),
                    age,
                    g.integers(0, 2, count),
                ]
            )
            labels = (age + 0.3 * g.normal(size=count) > 0.7).astype(np.int64)
            yes += int(labels.sum())
            write_table(codec.decode(compact, labels, compact=True), part, SCHEMA)
            names, lines = part.read_text(encoding="utf-8").split("\n", 1)
            file.write((names + "\n" if start == 0 else "") + lines)
    return yes / rows


def measure_long_table(rows: int) -> dict[str, Any]:
    """Seconds and the most memory that a command held so far, and the share of the positive class on both sides."""
    if rows < 100:
        raise UsageError(f"Expected at least 100 rows, got {rows}.")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        table, schema, out, drawn = (folder / part for part in ("rows.csv", "schema.json", "out", "drawn.csv"))
        share = write_rows(table, rows)
        SCHEMA.save(schema)
        synth = _timed("synth", str(table), "--schema", str(schema), *TERMS, "--out", str(out))
        sample = _timed("sample", str(out), "--count", str(rows), "--seed", "1", "--out", str(drawn))
        labels = encode_file(str(drawn), TableCodec(SCHEMA), compact=True)[1]
        assert labels is not None
        synthetic = float(np.mean(labels))
        return {
            "rows": rows, "bytes": table.stat().st_size, "load": os.getloadavg()[0], "synth": synth, "sample": sample,
            "positive_share": {"real": share, "synthetic": synthetic},
            "guarantee": json.loads((out / "guarantee.json").read_text(encoding="utf-8")),
        }  # fmt: skip


def _timed(*words: str) -> dict[str, float]:
    began = time.perf_counter()
    done = subprocess.run([sys.executable, "-m", "privot", *words], capture_output=True, text=True, check=False)  # noqa: S603
    if done.returncode:
        raise PrivotError(f"privot {words[0]} ended with code {done.returncode}: {done.stderr.strip()[-300:]}")
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    return {"seconds": time.perf_counter() - began, "peak_mebibytes_so_far": peak}
