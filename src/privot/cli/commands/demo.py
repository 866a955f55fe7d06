"""`privot demo`: the whole story on built-in digits. It owns no mechanism: it only tells the steps in order."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from privot.cli.parsing.options import AsJson, Delta, Epsilon, TrainingSteps
from privot.cli.printing.output import print_json, print_table

if TYPE_CHECKING:
    from privot.cli.running.demonstration import DemoAnswer


def demo(
    out: Annotated[Path | None, typer.Option(help="Output folder. Default: a new one under out/.")] = None,
    epsilon: Epsilon = 10.0,
    delta: Delta = 1e-5,
    steps: TrainingSteps = None,
    as_json: AsJson = False,
) -> None:
    """Synthesise 1,437 handwritten digits under (ε, δ) and test the result on 360 digits kept apart.

    Examples: privot demo; privot demo --epsilon 1 --out demo-1
    """
    from privot.cli.running.demonstration import demonstrate

    began = time.monotonic()
    if out is None:
        out = Path("out") / datetime.now(UTC).strftime("demo-%Y%m%d-%H%M%S-%f")

    def tell(line: str) -> None:
        if not as_json:
            typer.echo(line)

    found = demonstrate(out, epsilon, delta, steps, as_json, tell)
    seconds = time.monotonic() - began
    if as_json:
        print_json(
            {
                "out": str(out),
                "sigma": found.sigma,
                "guarantee": found.guarantee.to_dict(),
                "scores": found.scores,
                "real": found.real,
                "privacy": found.privacy,
                "ledger": str(found.ledger),
                "refused": found.refused,
                "rows": found.rows,
                "report": str(found.report),
                "seconds": seconds,
            }
        )
    else:
        _print(found, delta, seconds)


def _print(found: DemoAnswer, delta: float, seconds: float) -> None:
    guarantee = found.guarantee
    typer.echo("6. Evaluate on 360 digits that were never in the vault.\n")
    print_table(
        ["accuracy", "trained on synthetic", "trained on real (not private)"],
        [[name, f"{100 * found.scores[name]:.1f} %", f"{100 * found.real[name]:.1f} %"] for name in found.scores],
    )
    typer.echo(f"\nThe scores are {found.privacy}.")
    typer.echo("\nGuarantee")
    typer.echo(f"  ε = {guarantee.epsilon():.6g} at δ = {delta:g}, {guarantee.adjacency}, {guarantee.standing}")
    typer.echo(f"  {guarantee.explain()}")
    typer.echo(f"\nThe whole story: {found.report} ({seconds:.0f} s).")
