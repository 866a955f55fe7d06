"""Options that mean the same in every command that has them."""

from __future__ import annotations

from typing import Annotated

import typer

AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")]
Device = Annotated[str, typer.Option(help="auto, cpu or cuda.")]
NewRecords = Annotated[
    bool, typer.Option(help="State that these are new records, which get a budget of their own in this ledger.")
]
