"""`privot demo`: a story of two clinics on built-in data. It owns no mechanism: it tells the steps and their end."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from privot.cli.parsing.options import AsJson, Delta, Epsilon
from privot.cli.printing import browser
from privot.cli.printing.printed_answer import print_json

if TYPE_CHECKING:
    from privot.cli.running.demo_runs.demo_page import DemoAnswer


def demo(
    out: Annotated[Path | None, typer.Option(help="Output folder. Default: a new one under out/.")] = None,
    epsilon: Epsilon = 3.0,
    delta: Delta = 1e-5,
    steps: Annotated[int | None, typer.Option(help="Training steps; chosen from the data's size if omitted.")] = None,
    as_json: AsJson = False,
) -> None:
    """Tell a story of two clinics on invented patients and built-in digits, in two minutes, at ε = 3 in all.

    They compare their data by private sketches; one releases a synthetic table and synthetic digits; models trained on
    them are tested; an attacker tries; the ledger refuses one release too many; report.html shows everything, and is
    opened where there is a display.

    Examples: privot demo; privot demo --epsilon 1 --out demo-1
    """
    from privot.cli.running.demo_runs.demonstration import demonstrate

    began = time.monotonic()
    if out is None:
        out = Path("out") / datetime.now(UTC).strftime("demo-%Y%m%d-%H%M%S-%f")

    def tell(*lines: str) -> None:
        if not as_json:
            # a blank line before a step, so that each reads as a paragraph
            typer.echo(("" if lines[0].startswith(" ") else "\n") + "\n".join(lines))

    found = demonstrate(out, epsilon, delta, steps, tell, quiet=as_json)
    seconds = time.monotonic() - began
    if as_json:
        print_json({**_answer(found), "seconds": seconds})
        return
    spent = found.spent["north.csv"]
    tell(
        "7. What it cost.",
        f"   North's patients: {spent.stated()}, with all that North released.",
        f"   The three ledgers hold {found.rows} rows and are intact. Added up: ε = "
        f"{sum(g.epsilon() for g in found.spent.values()):.3g} at δ = {delta:g}, add-remove, proven.",
        f"\nThe whole story: {found.report} ({seconds:.0f} s)",
    )
    assert found.report is not None
    if browser.has_screen():
        browser.show(found.report.absolute().as_uri())


def _answer(found: DemoAnswer) -> dict[str, Any]:
    comparison = found.comparison
    assert comparison is not None
    return {
        "out": str(found.out),
        "comparison": {
            "w2": comparison.w2.to_dict(),
            "sliced": comparison.sliced.to_dict(),
            "p_value": comparison.p_value,
        },
        "table": {**found.table, "guarantee": found.table["guarantee"].to_dict()},
        "digits": {**found.digits, "guarantee": found.digits["guarantee"].to_dict()},
        "audit": {
            "findings": [f.to_dict() for f in found.findings],
            "membership": [t.to_dict() for t in found.membership],
        },
        "refused": found.refused,
        "guarantee": found.spent["north.csv"].to_dict(),
        "spent": {name: guarantee.to_dict() for name, guarantee in found.spent.items()},
        "rows": found.rows,
        "report": str(found.report),
    }
