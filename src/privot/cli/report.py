"""`privot report`: one page about a folder; it reads that folder and nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from privot.cli.options import AsJson
from privot.cli.output import print_json


def report(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A folder that privot synth made.")],
    as_json: AsJson = False,
) -> None:
    """Write one self-contained HTML page about a folder.

    Example: privot report digits-synth
    """
    from privot.synthesis.report import write_report

    page = write_report(folder)
    if as_json:
        print_json({"report": str(page)})
    else:
        typer.echo(str(page))
