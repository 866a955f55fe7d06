"""`privot bench transport`, `typed` and `growth`: distances and their gradients, by size."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from privot.cli.parsing.options import AsJson, Device
from privot.cli.printing.printed_answer import keep_json, print_json

if TYPE_CHECKING:
    import torch

    from privot_lab.bench.transport_bench import BenchRow, TypedRow


def transport(
    sizes: Annotated[
        str, typer.Option(help="Points per side, separated by commas, from 50 to 100000.")
    ] = "50,100,500,1000,2000",
    jobs: Annotated[
        str, typer.Option(help="What is measured, separated by commas: sliced, sinkhorn.")
    ] = "sliced,sinkhorn",
    device: Device = "auto",
    share: Annotated[float, typer.Option(help="Regularisation divided by the mean cost (sinkhorn).")] = 0.05,
    out: Annotated[Path | None, typer.Option(help="Output folder for transport.json and transport.png.")] = None,
    as_json: AsJson = False,
) -> None:
    """Measure sliced and Sinkhorn, value and gradient, against POT, GeomLoss and ott-jax if they are installed.

    Example: privot bench transport --sizes 100,500,2000 --out out/bench
    """
    from privot_lab.bench.transport_bench import measure

    numbers, where = _whole("sizes", sizes), _device(device)

    def say(row: BenchRow) -> None:
        if not as_json:
            spent = "–" if row.seconds is None else f"{1e3 * row.seconds:10.3f} ms"
            single = "" if row.single is None else f"  called alone {1e3 * row.single:10.3f} ms"
            error = "" if row.error is None else f"  marginal error {row.error:.1e}"
            typer.echo(f"{row.job:<21} n = {row.n:<7} {row.who:<14} {spent}{single}{error}  {row.note}".rstrip())

    found = measure(numbers, where, tuple(jobs.split(",")), share, say)
    if out is not None:
        from privot_lab.bench.bench_charts import draw_benchmark

        keep_json(found, out / "transport.json")
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
        typer.echo(f"{ratio['job']:<21} n = {ratio['n']:<7} " + "  ".join(words))
    typer.echo(
        "\nWith checks (and directions given), one at a time, each waited for; how many times faster than the peer:"
    )
    for ratio in found["ratios"]:
        words = [f"{_peer(k)} {v:.2f}×" for k, v in ratio.items() if k.startswith("checked_times")]
        typer.echo(f"{ratio['job']:<21} n = {ratio['n']:<7} " + "  ".join(words))


def _peer(name: str) -> str:
    return name.partition("faster_than_")[2]


def typed(
    sizes: Annotated[str, typer.Option(help="Points per side, separated by commas.")] = "100,1000",
    threads: Annotated[str, typer.Option(help="Threads of the processor, separated by commas.")] = "1,2",
    as_json: AsJson = False,
) -> None:
    """Measure `sliced(x, y)` as people type it, as a share of POT's time, on a GPU and on the processor.

    Example: privot bench typed --threads 1,2,16
    """
    from privot.common.devices import usable_device
    from privot_lab.bench.transport_bench import TYPED_PEERS, measure_typed

    usable_device("cpu", auto=True, need="Benchmarks need")

    def say(row: TypedRow) -> None:
        if not as_json:
            where = row.device if row.threads is None else f"{row.device}, {row.threads} threads"
            shares = " | ".join(f"{row.shares[who]:.2f}" if who in row.shares else "–" for who in TYPED_PEERS)
            what = "gradient" if row.gradient else "value"
            typer.echo(f"| {where} | {row.n} | {row.dim} | {what} | {1e3 * row.seconds:.2f} | {shares} |")

    if not as_json:
        typer.echo("| on | n | d | | privot, ms | of POT as typed | of POT, 1,000 | of PyTorch, 1,000 |")
        typer.echo("|---" * 8 + "|")
    found = measure_typed(_whole("sizes", sizes), _whole("threads", threads), say)
    if as_json:
        print_json(found)
        return
    typer.echo(f"\nPyTorch {found['torch']}, load {found['load']:.1f}.")


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
    from privot_lab.bench.growth import measure_growth

    found = measure_growth(_whole("sizes", sizes), _device(device), slices)
    if out is not None:
        from privot_lab.bench.bench_charts import draw_growth

        keep_json(found, out / "growth.json")
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


def _whole(name: str, text: str) -> list[int]:
    from privot.errors import UsageError

    try:
        return [int(s) for s in text.split(",")]
    except ValueError:
        raise UsageError(f"--{name} must be whole numbers separated by commas, got {text!r}.") from None


def _device(name: str) -> torch.device:
    from privot.common.devices import usable_device

    where = usable_device(name, auto=True, need="Benchmarks need")
    import torch

    return torch.device(where)
