"""`privot doctor`: what is installed, what is missing, and whether noise and files work; it reads no data."""

from __future__ import annotations

import typer

from privot.cli.parsing.options import AsJson
from privot.cli.printing.printed_answer import print_json, print_table


def doctor(as_json: AsJson = False) -> None:
    """Show versions, extras, the device, the source of noise, and where files can be written.

    Example: privot doctor
    """
    from privot.cli.running import installation

    found = installation.examine()
    if as_json:
        print_json(installation.as_json(found))
        return
    rows = [
        [section if number == 0 else "", line.name, line.found, "" if line.works else line.advice]
        for section, lines in found.items()
        for number, line in enumerate(lines)
    ]
    print_table(["", "what", "found", "to do"], rows)
    typer.echo("")
    works = installation.as_json(found)["works"]
    typer.echo("Everything that is needed works." if works else "Something that is needed does not work: see above.")
