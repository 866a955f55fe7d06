"""Partitioned records at full size: made-up Parquet files through `privot synth`, and each pass over them by itself.

Memory is the sum over all processes of the run, shared pages counted once (PSS), looked at five times a second. Seconds
of processors are given beside the time that passed: other programs on the machine change the second.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from privot.errors import PrivotError, UsageError
from privot_lab.bench.partitioned.made_up_partitions import SCHEMA, write_shards, write_table_files
from privot_lab.bench.partitioned.process_memory import Memory, processor_seconds

TERMS = ["--epsilon", "1", "--delta", "1e-9", "--adjacency", "add-remove", "--device", "cpu", "--seed", "1"]
Told = Callable[[dict[str, Any]], None]


class ReadRecords:
    """A task that reads a partition and does nothing with it; workers import it from here."""

    def __call__(self, partition: Any) -> int:
        """How many records it has."""
        return sum(len(rows) for rows, _ in partition.blocks())


def measure_partitions(rows: int, files: int, workers: int, engine: str, folder: Path) -> dict[str, Any]:
    """Seconds, seconds of processors and memory of `privot synth` on `rows` made-up rows; files that are there stay."""
    data = _table(rows, files, folder)
    out, ledger = folder / f"out-{time.time_ns()}", folder / f"{time.time_ns()}.ledger"
    words = [
        "synth", str(data), "--schema", str(folder / "schema.json"), *TERMS, "--engine", engine, "--workers",
        str(workers), "--out", str(out), "--ledger", str(ledger), "--samples", "10000",
    ]  # fmt: skip
    clock, before = time.perf_counter(), processor_seconds()
    with subprocess.Popen(  # noqa: S603
        [sys.executable, "-m", "privot", *words], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    ) as process:
        memory = Memory(process.pid)
        said = process.communicate()[1]
    peak = memory.stop()
    if process.returncode:
        raise PrivotError(f"privot synth ended with code {process.returncode}: {said.strip()[-300:]}")
    return {
        "rows": rows, "files": files, "workers": workers, "engine": engine,
        "bytes": sum(file.stat().st_size for file in data.iterdir()), "seconds": time.perf_counter() - clock,
        "processor_seconds": processor_seconds() - before, "mebibytes": peak, "load": os.getloadavg()[0],
    }  # fmt: skip


def measure_passes(rows: int, files: int, workers: int, engine: str, folder: Path, say: Told) -> list[dict[str, Any]]:
    """Each pass over a table: reading, naming the records, counting cells and pairs, and scores of a law."""
    from privot.mechanisms.table_counts.group_shares import GroupShares
    from privot.mechanisms.table_counts.scored_marginals import ScoreSums
    from privot.partitions import choose_engine
    from privot.partitions.source_opening import open_source
    from privot.synthesis.tabular.table_release import table_mechanism
    from privot.tables import TableCodec

    codec = TableCodec(SCHEMA)
    source = open_source(_table(rows, files, folder), codec=codec, engine=choose_engine(engine, workers=workers))
    mechanism: Any = table_mechanism(codec, epsilon=1.0, delta=1e-9, adjacency="add-remove")
    axes = mechanism.marginals.axes
    grouped = tuple(axis.grouped(np.minimum(np.arange(axis.cells), 15)) for axis in axes)
    rng, width = np.random.default_rng(0), sum(axis.size for axis in grouped)
    features = tuple((place,) for place in range(len(axes)))
    blocks = tuple(np.arange(axis.size) for axis in grouped)
    law: Any = GroupShares(features, blocks, rng.normal(size=(width, 2)), np.zeros(2))
    return _stages(rows, say, {
        "reading": lambda: source.count,
        "naming": lambda: source.named(bytes(32)),
        "counts": lambda: source.sums(mechanism.marginals.summands(None)[0]),
        "scores": lambda: source.sums(ScoreSums(grouped, 2, law)),
    })  # fmt: skip


def measure_shards(
    images: int, files: int, workers: int, engine: str, folder: Path, features: list[int], dense: bool, say: Told
) -> list[dict[str, Any]]:
    """Reading 28 × 28 images from tar shards, naming them, and the release of an embedding of each size.

    By the map that a synthesis on a CPU uses, or by a dense matrix of frequencies.
    """
    from privot.mechanisms import MeanEmbedding
    from privot.partitions import choose_engine
    from privot.partitions.source_opening import open_source
    from privot.synthesis.neural.defaults.feature_defaults import BANDWIDTHS
    from privot.synthesis.neural.features.fourier import Fourier
    from privot.synthesis.neural.features.hadamard import HadamardFourier
    from privot.vault import Vault

    _check(images, files, workers)
    data = folder / f"shards-{images}-{files}"
    if not data.exists():
        write_shards(data, images, files)
    chosen = choose_engine(engine, workers=workers)
    source: Any = open_source(data, classes=10, shape=(28, 28), engine=chosen)
    found = _stages(images, say, {
        "reading": lambda: list(source.engine.map(ReadRecords(), source.partitions)),
        "naming": lambda: source.named(bytes(32)),
    })  # fmt: skip
    vault = Vault(source, classes=10, clip=1.0, adjacency="add-remove", budget=(1e6, 1e-9))
    kind: Any = Fourier if dense else HadamardFourier
    for size in features:
        chosen_features = kind(784, size // 2, [28.0 * b for b in BANDWIDTHS], seed=1, low=0.0, high=255.0)
        mechanism = MeanEmbedding(chosen_features, 5.0, labels=True)
        work: Any = lambda m=mechanism: vault.release(m, purpose="embedding")  # noqa: E731
        found += _stages(images, say, {f"release of {size} features": work})
    return found


def _table(rows: int, files: int, folder: Path) -> Path:
    _check(rows, files, 1)
    data = folder / f"rows-{rows}-{files}"
    if not data.exists():
        write_table_files(data, rows, files)
    return data


def _check(records: int, files: int, workers: int) -> None:
    if records < 100 or not 1 <= files <= records or workers < 1:
        raise UsageError(
            f"Expected at least 100 records, one file and one worker, got {records} records, {files} files and "
            f"{workers} workers."
        )


def _stages(records: int, say: Told, stages: dict[str, Callable[[], object]]) -> list[dict[str, Any]]:
    """The time that passes and the seconds of processors of this process: all there are with one worker."""
    found = []
    for what, work in stages.items():
        clock, before = time.perf_counter(), processor_seconds()
        work()
        busy = processor_seconds() - before
        row = {
            "what": what, "seconds": time.perf_counter() - clock, "processor_seconds": busy,
            "microseconds_per_record": 1e6 * busy / records,
        }  # fmt: skip
        say(row)
        found.append(row)
    return found
