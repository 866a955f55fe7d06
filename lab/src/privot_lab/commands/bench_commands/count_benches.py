"""`privot bench accounting`, `noise`, `sketches` and `valuation`: what privacy and values take to compute."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from privot.cli.parsing.options import AsJson
from privot.cli.printing.printed_answer import print_json


def accounting(
    calibrations: Annotated[
        bool, typer.Option("--calibrations/--no-calibrations", help="Time 90 calibrations of the noise too.")
    ] = True,
    as_json: AsJson = False,
) -> None:
    """Measure the accountants: beside dp-accounting and Opacus if they are installed, calibrations, a ledger's filter.

    Example: privot bench accounting
    """
    from privot_lab.bench.accounting_bench import measure_accounting

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
    typer.echo(
        f"jobs of one ledger, add-remove, proven: ε at δ = {found['filter'][0]['delta']:g} composed, by its filter"
    )
    for row in found["filter"]:
        more = row["filter"] / row["composed"] - 1.0
        typer.echo(f"{row['jobs']}: {row['composed']:.4f}, {row['filter']:.4f} ({100.0 * more:+.2f} %)")


def noise(
    repeats: Annotated[int, typer.Option(help="Runs, of which the best counts.")] = 5, as_json: AsJson = False
) -> None:
    """Measure how many normals per second the noise makes, on the CPU and on a CUDA device where there is one.

    Example: privot bench noise
    """
    from privot.errors import UsageError
    from privot_lab.bench.noise_bench import measure_noise

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


def sketches(
    count: Annotated[int, typer.Option(help="Number of sketches, all pairs of which are compared.")] = 1000,
    as_json: AsJson = False,
) -> None:
    """Measure all pairs of many sketches of made-up records: seconds, and the bytes of one sketch.

    Example: privot bench sketches --count 100
    """
    from privot_lab.bench.sketch_bench import measure_sketches

    found = measure_sketches(count)
    if as_json:
        print_json(found)
        return
    typer.echo(f"{found['count']} sketches, {found['pairs']} pairs; load {found['load']:.1f}, {found['cores']} cores")
    for row in found["rows"]:
        spent = f"{row['seconds']:.1f} s, {row['processor_seconds']:.1f} s of processors"
        typer.echo(f"{row['sketch']:<20} {spent}, {row['bytes_per_sketch']} bytes per sketch")


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
    from privot_lab.bench.valuation_bench import measure_valuation

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
