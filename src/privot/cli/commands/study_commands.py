"""`privot study …`: published tables and figures, recomputed."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from privot.cli.parsing.options import AllowUnproven, AsJson, Settings
from privot.cli.parsing.typed_values import read_options
from privot.cli.printing.output import print_json, print_table

app = typer.Typer(
    help="Recompute published tables and figures, and compare them with their text.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@app.command("list")
def list_studies(as_json: AsJson = False) -> None:
    """List the studies.

    Example: privot study list
    """
    from privot.studies import STUDIES

    if as_json:
        print_json(
            {"studies": [{"name": s.name, "title": s.title, "source": s.source, "trains": s.trains} for s in STUDIES]}
        )
        return
    print_table(["study", "what", "source"], [[s.name, s.title, s.source] for s in STUDIES])


@app.command()
def run(
    name: Annotated[str, typer.Argument(help="Name of a study; see privot study list.")],
    data: Annotated[str | None, typer.Option(help="Data for a study that trains: digits, or an .npz file.")] = None,
    settings: Settings = None,
    out: Annotated[Path | None, typer.Option(help="Output folder for charts.")] = None,
    allow_unproven: AllowUnproven = False,
    as_json: AsJson = False,
) -> None:
    """Recompute a published figure or table and check the sentences of its text.

    Examples: privot study run wdp-figure-1 --out study;
    privot study run wdp-table-2 --data mnist.npz --allow-unproven --set steps=120 --json
    """
    from privot.errors import UnprovenError, UsageError
    from privot.studies import find_study

    study = find_study(name)
    if study.trains and not allow_unproven:
        raise UnprovenError(
            f"The study {name} runs a mechanism without a privacy proof: add --allow-unproven to run it anyway."
        )
    options = read_options(settings)
    if "name" in options:
        raise UsageError("--set cannot change the name of the study: give the name as the argument.")
    if data is not None:
        options["data"] = data
    try:
        found = study.run(options, allow_unproven=allow_unproven)
    except TypeError as error:
        if "unexpected keyword" not in str(error):
            raise
        raise UsageError(f"--set: the study {name} has no setting {str(error).split('argument ')[-1]}.") from None
    drawn = [] if out is None else [str(p) for p in study.draw(found, out)]
    if as_json:
        print_json({**found, "drawn": drawn})
        return
    typer.echo(f"{study.title}\n{study.source}\n")
    for row in found.get("rows", []):
        if "budgets" in row:
            _print_budgets(row)
    print_table(
        ["the text says", "measured", "confirmed"],
        [[f["text"], f["measured"], "yes" if f["agrees"] else "no"] for f in found["findings"]],
    )
    for path in drawn:
        typer.echo(f"\nDrawn in {path}.")


def _print_budgets(row: dict[str, Any]) -> None:
    from privot.cli.printing.output import number

    typer.echo(f"{row['variant']}: accuracy {row['accuracy']:.3f}, σ {row['sigma']:g}, {row['steps']} steps")
    budgets = [
        [b["accountant"], number(b["epsilon"], 6), f"{b['delta']:g}", b["adjacency"], b["standing"]]
        for b in row["budgets"]
    ]
    print_table(["accountant", "ε", "δ", "adjacency", "standing"], budgets)
    typer.echo("")
