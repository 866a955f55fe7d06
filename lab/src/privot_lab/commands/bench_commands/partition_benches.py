"""`privot bench partitions` and `shards`: synthesis from many files, and its passes over them."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from privot.cli.parsing.options import AsJson
from privot.cli.printing.printed_answer import print_json

Files = Annotated[int, typer.Option(help="Files that the records are cut into.")]
Workers = Annotated[int, typer.Option(help="Worker processes.")]
Engine = Annotated[
    str, typer.Option("--engine", metavar="NAME", help="Engine for partitioned data: local (default) or dask.")
]
Kept = Annotated[Path | None, typer.Option(help="Keep the made-up files here for the next run.")]


def partitions(
    rows: Annotated[int, typer.Option(help="Rows of the made-up table.")] = 1_000_000,
    files: Files = 50,
    workers: Workers = 2,
    engine: Engine = "local",
    passes: Annotated[bool, typer.Option("--passes", help="Measure each pass over the rows instead.")] = False,
    folder: Kept = None,
    as_json: AsJson = False,
) -> None:
    """Measure privot synth on a made-up table in many Parquet files: seconds and the memory of all its processes.

    Examples: privot bench partitions --rows 100000 --files 8; privot bench partitions --rows 100000 --passes
    """
    from privot_lab.bench.partitioned.partition_bench import measure_partitions, measure_passes

    with _folder(folder) as place:
        if passes:
            found = measure_passes(rows, files, workers, engine, place, _stage_teller(as_json))
            if as_json:
                print_json({"rows": rows, "workers": workers, "passes": found})
            return
        whole = measure_partitions(rows, files, workers, engine, place)
    if as_json:
        print_json(whole)
        return
    spent = f"{whole['seconds']:.1f} s, {whole['processor_seconds']:.1f} s of processors, {whole['mebibytes']:.0f} MiB"
    where = f"{rows} rows in {files} files ({whole['bytes'] / 1e6:.0f} MB), {engine}, {workers} workers"
    typer.echo(f"{where}: {spent}, load {whole['load']:.1f}; ε = 1, δ = 1e-9, add-remove")


def shards(
    images: Annotated[int, typer.Option(help="Made-up images of 28 × 28.")] = 20_000,
    files: Files = 8,
    workers: Workers = 1,
    engine: Engine = "local",
    features: Annotated[str, typer.Option(help="Numbers of features, separated by commas.")] = "4000",
    dense: Annotated[bool, typer.Option("--dense", help="Use a dense matrix of frequencies.")] = False,
    folder: Kept = None,
    as_json: AsJson = False,
) -> None:
    """Measure reading images from tar shards, naming them, and the release of their embedding.

    Example: privot bench shards --images 2000 --files 2 --features 1000
    """
    from privot.errors import UsageError
    from privot_lab.bench.partitioned.partition_bench import measure_shards

    try:
        sizes = [int(part) for part in features.split(",")]
    except ValueError:
        sizes = []
    if not sizes or not all(2 <= size <= 10**6 for size in sizes):
        raise UsageError("--features takes whole numbers from 2 to 1000000, separated by commas.")
    with _folder(folder) as place:
        found = measure_shards(images, files, workers, engine, place, sizes, dense, _stage_teller(as_json))
    if as_json:
        print_json({"images": images, "workers": workers, "dense": dense, "stages": found})


@contextmanager
def _folder(kept: Path | None) -> Iterator[Path]:
    """The folder that files are kept in, or one that is removed afterwards."""
    if kept is not None:
        kept.mkdir(parents=True, exist_ok=True)
        yield kept
        return
    with tempfile.TemporaryDirectory() as name:
        yield Path(name)


def _stage_teller(as_json: bool) -> Callable[[dict[str, Any]], None]:
    def say(row: dict[str, Any]) -> None:
        if not as_json:
            busy = f"{row['processor_seconds']:.1f} s of processors with one worker"
            typer.echo(
                f"{row['what']}: {row['seconds']:.1f} s, {busy}, {row['microseconds_per_record']:.2f} µs per record"
            )

    return say
