"""`privot report`: one page about a folder; it reads that folder and nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from privot.cli.parsing.options import AsJson
from privot.cli.printing.printed_answer import print_json


def report(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Folder that privot synth or privot adapt wrote.")],
    as_json: AsJson = False,
) -> None:
    """Write one self-contained HTML page about a folder, and a second one for figures about real records.

    report.html may be handed on. report-private.html exists where privot evaluate looked at real records.

    Example: privot report digits-synth
    """
    from privot.adaptation import model_folder as adaptation
    from privot.errors import said_by
    from privot.jobs.released_files import read_json
    from privot.synthesis.output import html_report as synthesis
    from privot.synthesis.output.saved_model import CONFIG

    adapted = read_json(folder / CONFIG).get("kind") == "adaptation"
    with said_by(folder):
        page = (adaptation if adapted else synthesis).write_report(folder)
    private = folder / synthesis.PRIVATE_REPORT
    shown = private if private.exists() else None
    if as_json:
        print_json({"report": str(page), "private": None if shown is None else str(shown)})
        return
    typer.echo(str(page))
    if shown is not None:
        typer.echo(f"{shown}: about real records, do not publish")
