"""How the claims of Wasserstein differential privacy are printed: verdicts, counterexamples, and how to read its ε."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import typer

from privot.cli.printing.printed_answer import number, print_epsilons, print_table

if TYPE_CHECKING:
    from privot.accounting.comparison import AccountantComparison

READING = (
    "What an ε of differential privacy protects: an attacker who sees the release can hardly do better than guess "
    "whether your record was in the data; the smaller ε, the closer to a pure guess.",
    "What an ε of Wasserstein differential privacy says: the output moves by at most ε, in the output's own units, "
    "when one record changes. It says nothing about guessing. Release a salary with no noise at all, written in "
    "millions, and its Wasserstein ε is tiny; write it in cents and the same release has a huge one.",
    "So: do not sign the Wasserstein accountant's number. It is shown here beside proven ones because it was "
    "published, and it falls when noise is taken away.",
)


def print_claims(claims: list[dict[str, Any]], compared: AccountantComparison) -> None:
    """Every claim with its verdict, the counterexamples, ε against σ, and how to read the numbers."""
    print_table(["claim", "", "verdict"], [[c["claim"], c["name"], _verdict(c)] for c in claims])
    typer.echo("\nCounterexamples, computed just now\n")
    for c in claims:
        if c["counterexample"] is not None:
            e = c["counterexample"]
            typer.echo(f"{c['claim']}. {c['statement']}")
            typer.echo(f"    {e['setting']}:")
            typer.echo(f"    claimed at most {number(e['claimed'], 4)}, is {number(e['actual'], 4)}: {e['quantity']}.")
            typer.echo(f"    {c['condition']}.\n")
    head = f"ε at δ = {compared.delta:g}, {compared.adjacency}; {compared.sampling}; {compared.steps} steps, Δ = 1"
    typer.echo(f"{head}\n")
    print_epsilons(compared)
    typer.echo("")
    for line in READING:
        typer.echo(f"• {line}")


def _verdict(claim: dict[str, Any]) -> str:
    return f"holds under {claim['condition']}" if claim["verdict"] == "holds under" else str(claim["verdict"])
