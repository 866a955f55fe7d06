"""Options that mean the same in every command that has them."""

from __future__ import annotations

from typing import Annotated

import typer

AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")]
Device = Annotated[str, typer.Option(help="auto, cpu or cuda.")]
Classes = Annotated[
    str | None,
    typer.Option(
        metavar="NAMES", help="Of a folder of images: the public names of its classes, a,b,c, in the order 0, 1, 2."
    ),
]
Shape = Annotated[str | None, typer.Option(help="Public shape of an image: 28,28 or 32,32,3.")]
NewRecords = Annotated[
    bool, typer.Option(help="State that these are new records, which get a budget of their own in this ledger.")
]
