"""`privot account claims`: which statements of Wasserstein differential privacy hold, and what its number protects."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from privot.cli.parsing.options import AsJson
from privot.cli.printing.output import number, print_json, print_table

if TYPE_CHECKING:
    from privot.accounting.comparison import AccountantComparison

READING = (
    "What an ε of differential privacy protects: whoever sees the release can hardly do better than guess whether "
    "your record was in the data; the smaller ε, the closer to a pure guess.",
    "What an ε of Wasserstein differential privacy says: the output moves by at most ε, in the output's own units, "
    "when one record changes. It says nothing about guessing. Release a salary with no noise at all, written in "
    "millions, and its Wasserstein ε is tiny; write it in cents and the same release has a huge one.",
    "So: do not sign the Wasserstein accountant's number. It is shown here beside proven ones because it was "
    "published, and it falls when noise is taken away.",
)


def claims(
    rate: Annotated[float, typer.Option(help="Share of the records in a step, for ε against σ.")] = 0.01,
    steps: Annotated[int, typer.Option(help="Steps of the run, for ε against σ.")] = 1000,
    delta: Annotated[float, typer.Option(help="δ, strictly between 0 and 1.")] = 1e-5,
    smallest: Annotated[float, typer.Option(help="Smallest σ, in units of the clipping bound.")] = 0.05,
    largest: Annotated[float, typer.Option(help="Largest σ.")] = 20.0,
    points: Annotated[int, typer.Option(help="How many σ.")] = 8,
    plot: Annotated[Path | None, typer.Option(help="Where to draw ε against σ (.png, .svg or .pdf).")] = None,
    as_json: AsJson = False,
) -> None:
    """Every claim of the Wasserstein-DP paper: holds, holds under …, or refuted; counterexamples computed now."""
    from privot.studies.wdp_claims import CLAIMS, Verdict
    from privot.studies.wdp_comparison import compare_accountants

    # nothing is released here and nothing is signed: the unproven numbers are shown in order to be refuted
    compared = compare_accountants(
        rate=rate,
        steps=steps,
        delta=delta,
        smallest=smallest,
        largest=largest,
        points=points,
        allow_unproven=True,
    )
    if plot is not None:
        from privot.cli.printing.charts import draw_comparison

        draw_comparison(compared, plot)
    found = [c.to_dict() for c in CLAIMS]
    counts = {str(v): sum(c["verdict"] == str(v) for c in found) for v in Verdict}
    if as_json:
        answer: dict[str, Any] = {"claims": found, "counts": counts, "epsilon_against_sigma": compared.to_dict()}
        print_json({**answer, "reading": list(READING), "plot": None if plot is None else str(plot)})
        return
    print_table(["claim", "", "verdict"], [[c["claim"], c["name"], _verdict(c)] for c in found])
    typer.echo("\nCounterexamples, computed just now\n")
    for c in found:
        if c["counterexample"] is not None:
            e = c["counterexample"]
            typer.echo(f"{c['claim']}. {c['statement']}")
            typer.echo(f"    {e['setting']}:")
            typer.echo(f"    claimed at most {number(e['claimed'], 4)}, is {number(e['actual'], 4)}: {e['quantity']}.")
            typer.echo(f"    {c['condition']}.\n")
    _print_comparison(compared)
    typer.echo("")
    for line in READING:
        typer.echo(f"• {line}")
    if plot is not None:
        typer.echo(f"\nDrawn in {plot}.")


def _verdict(claim: dict[str, Any]) -> str:
    return f"holds under {claim['condition']}" if claim["verdict"] == "holds under" else str(claim["verdict"])


def _print_comparison(compared: AccountantComparison) -> None:
    head = f"ε at δ = {compared.delta:g}, {compared.adjacency}; {compared.sampling}; {compared.steps} steps, Δ = 1"
    typer.echo(f"{head}\n")
    header = ["accountant", "standing", *(f"σ={s:.3g}" for s in compared.sigmas)]
    print_table(header, [[c.name, str(c.standing), *(number(e, 4) for e in c.epsilons)] for c in compared.curves])
