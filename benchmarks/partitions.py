"""Partitioned records at full size: writes N made-up rows as Parquet files and runs `privot synth` on the folder.

python benchmarks/partitions.py table ROWS [--files 50] [--workers 2] [--engine local|dask] [--folder DIR]
python benchmarks/partitions.py passes ROWS [--files 50] [--workers 2] [--folder DIR]
python benchmarks/partitions.py images COUNT [--files 20] [--workers 2] [--features 4000] [--dense] [--folder DIR]
python benchmarks/partitions.py plot docs/results/images/scale.png ROWS:SECONDS …

`table` runs the whole command. `passes` times the passes alone. `images` writes 28 × 28 images in tar shards and times
reading them and the release of their embedding, by the map that a synthesis on a CPU uses (4000 features), or with
--dense by a dense matrix of frequencies. With --folder the files are kept for the next run. Seconds of all
processors are printed beside the time that passed: other programs on the machine change the second.

Memory is the sum over all processes of the run, shared pages counted once (PSS), looked at five times a second.
"""

from __future__ import annotations

import argparse
import io
import os
import resource
import subprocess
import sys
import tarfile
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np

from privot.tables import Column, Schema

SCHEMA = Schema(
    (
        Column("visit", "date", "2010-01-01", "2024-12-31", missing=True),
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
CONSTANT, PER_ROW = 16.0, 4.33e-6
"""Seconds of processors of the cost model in docs/results/scale.md, for 9 columns and a label."""
TERMS = ["--epsilon", "1", "--delta", "1e-9", "--adjacency", "add-remove", "--device", "cpu", "--seed", "1"]


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


class Memory:
    """The largest memory of a process and all that it started, in MiB; pages that they share count once."""

    def __init__(self, process: int) -> None:
        self.peak = 0.0
        self._process, self._done = process, threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def _watch(self) -> None:
        while not self._done.wait(0.2):
            self.peak = max(self.peak, sum(_pss(process) for process in _family(self._process)) / 1024.0)

    def stop(self) -> float:
        """The peak."""
        self._done.set()
        self._thread.join()
        return self.peak


def _family(process: int) -> list[int]:
    parents = {}
    for place in Path("/proc").iterdir():
        if place.name.isdecimal():
            try:
                fields = (place / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            parents[int(place.name)] = int(fields[1])
    found = {process}
    while more := {child for child, parent in parents.items() if parent in found} - found:
        found |= more
    return sorted(found)


def _pss(process: int) -> float:
    try:
        lines = Path(f"/proc/{process}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0.0
    return float(next((line.split()[1] for line in lines if line.startswith("Pss:")), 0.0))


def timed(*arguments: str) -> tuple[float, float, float]:
    """Run one privot command: the time that passed, seconds of processors, and the memory of all its processes."""
    clock, before = time.perf_counter(), _processor_seconds()
    with subprocess.Popen([sys.executable, "-m", "privot", *arguments]) as process:  # noqa: S603
        memory = Memory(process.pid)
        code = process.wait()
    peak = memory.stop()
    if code:
        raise SystemExit(code)
    return time.perf_counter() - clock, _processor_seconds() - before, peak


def _processor_seconds() -> float:
    own, below = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
    return own.ru_utime + own.ru_stime + below.ru_utime + below.ru_stime


def run_table(options: argparse.Namespace, folder: Path) -> None:
    """Write the files unless they are there, and synthesise from them."""
    data = folder / f"rows-{options.count}-{options.files}"
    if not data.exists():
        write_table_files(data, options.count, options.files)
    size = sum(file.stat().st_size for file in data.iterdir())
    out, ledger = folder / f"out-{time.time_ns()}", folder / f"{time.time_ns()}.ledger"
    engine = ["--engine", options.engine, "--workers", str(options.workers)]
    seconds, busy, peak = timed(
        "synth", str(data), "--schema", str(folder / "schema.json"), *TERMS, *engine, "--out", str(out),
        "--ledger", str(ledger), "--samples", "10000",
    )  # fmt: skip
    print(
        f"{options.count} rows in {options.files} files ({size / 1e6:.0f} MB), {options.engine}, {options.workers} "
        f"workers: {seconds:.1f} s, {busy:.1f} s of processors, {peak:.0f} MiB, load {os.getloadavg()[0]:.1f}",
        flush=True,
    )


def run_passes(options: argparse.Namespace, folder: Path) -> None:
    """Time each pass over a table: reading, naming the records, counting cells and pairs, and scores of a law."""
    from privot.mechanisms.table_counts.group_shares import GroupShares
    from privot.mechanisms.table_counts.scored_marginals import ScoreSums
    from privot.partitions import choose_engine, open_source
    from privot.synthesis.tabular.table_release import table_mechanism
    from privot.tables import TableCodec

    data = folder / f"rows-{options.count}-{options.files}"
    if not data.exists():
        write_table_files(data, options.count, options.files)
    codec = TableCodec(SCHEMA)
    source = open_source(data, codec=codec, engine=choose_engine(options.engine, workers=options.workers))
    mechanism: Any = table_mechanism(codec, epsilon=1.0, delta=1e-9, adjacency="add-remove")
    axes = mechanism.marginals.axes
    grouped = tuple(axis.grouped(np.minimum(np.arange(axis.cells), 15)) for axis in axes)
    rng, width = np.random.default_rng(0), sum(axis.size for axis in grouped)
    features = tuple((place,) for place in range(len(axes)))
    blocks = tuple(np.arange(axis.size) for axis in grouped)
    law = GroupShares(features, blocks, rng.normal(size=(width, 2)), np.zeros(2))
    for what, work in (
        ("reading", lambda: source.count),
        ("naming", lambda: source.named(bytes(32))),
        ("counts", lambda: source.sums(mechanism.marginals.summands(None)[0])),
        ("scores", lambda: source.sums(ScoreSums(grouped, 2, law))),
    ):
        spent, busy = stage(work)
        each = 1e6 * busy / options.count
        print(
            f"{what}: {spent:.1f} s, {busy:.1f} s of processors (one worker only), {each:.2f} µs per record", flush=True
        )


def stage(work: Any) -> tuple[float, float]:
    """The time that passes and the seconds of this process's processors: all there are with one worker."""
    clock, before = time.perf_counter(), _processor_seconds()
    work()
    return time.perf_counter() - clock, _processor_seconds() - before


def run_images(options: argparse.Namespace, folder: Path) -> None:
    """Time a pass that only reads images, one that names them, and the release of an embedding of them."""
    from privot.mechanisms import MeanEmbedding
    from privot.partitions import choose_engine, open_source
    from privot.synthesis.defaults.embedding_defaults import BANDWIDTHS
    from privot.synthesis.features.fourier import Fourier
    from privot.synthesis.features.hadamard import HadamardFourier
    from privot.vault import Vault

    data = folder / f"shards-{options.count}-{options.files}"
    if not data.exists():
        write_shards(data, options.count, options.files)
    source = open_source(
        data, classes=10, shape=(28, 28), engine=choose_engine(options.engine, workers=options.workers)
    )
    # from a module: workers cannot import what runs as a script
    from partition_tasks.reading import Reading

    reading = stage(lambda: list(source.engine.map(Reading(), source.partitions)))
    print(f"reading {options.count} images: {reading[0]:.1f} s, {reading[1]:.1f} s of processors (one worker only)")
    held: list[Any] = []
    stated: dict[str, Any] = {"classes": 10, "clip": 1.0, "adjacency": "add-remove", "budget": (1e6, 1e-9)}
    naming = stage(lambda: source.named(bytes(32)))
    print(f"naming: {naming[0]:.1f} s, {naming[1]:.1f} s of processors, {naming[1] / reading[1]:.2f} × reading")
    held.append(Vault(source, **stated))
    kind = Fourier if options.dense else HadamardFourier
    for size in options.features:
        features = kind(784, size // 2, [28.0 * b for b in BANDWIDTHS], seed=1, low=0.0, high=255.0)
        mechanism = MeanEmbedding(features, 5.0, labels=True)
        spent, busy = stage(lambda mechanism=mechanism: held[0].release(mechanism, purpose="embedding"))
        times = f"{busy / reading[1]:.2f} × reading in processors, {spent / reading[0]:.2f} × in time"
        print(f"release of {size} features: {spent:.1f} s, {busy:.1f} s of processors, {times}", flush=True)


def plot(path: Path, points: list[str]) -> None:
    """Seconds of processors against rows, on two logarithmic axes, with the cost model and a line of slope 1."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    rows, seconds = np.array([[float(word) for word in point.split(":")] for point in points]).T
    figure, axes = pyplot.subplots(figsize=(5, 3.5))
    axes.loglog(rows, seconds, "o", color="black", label="measured, passes and fit")
    line = np.logspace(np.log10(rows.min()), np.log10(rows.max()), 50)
    axes.loglog(line, seconds[-1] / rows[-1] * line, "--", color="grey", label="slope 1")
    axes.loglog(line, CONSTANT + PER_ROW * line, color="black", linewidth=1, label="cost model")
    axes.set_xlabel("rows")
    axes.set_ylabel("seconds of processors")
    axes.legend(frameon=False)
    figure.tight_layout()
    figure.savefig(path, dpi=120)


def main() -> None:
    """Write records, run, and print how long it took."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("table", "passes", "images", "write", "plot"))
    parser.add_argument("count", nargs="+")
    parser.add_argument("--files", type=int, default=50)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--engine", default="local")
    parser.add_argument("--features", type=int, nargs="+", default=[200, 1000, 4000], help="of images")
    parser.add_argument("--dense", action="store_true", help="use a dense matrix of frequencies for images")
    parser.add_argument("--folder", type=Path)
    options = parser.parse_args()
    if options.what == "plot":
        plot(Path(options.count[0]), options.count[1:])
        return
    options.count = int(options.count[0])
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.folder or Path(temporary)
        if options.what == "write":
            write_table_files(folder / f"rows-{options.count}-{options.files}", options.count, options.files)
        else:
            {"table": run_table, "passes": run_passes, "images": run_images}[options.what](options, folder)


if __name__ == "__main__":
    main()
