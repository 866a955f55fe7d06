"""Options that mean the same in every command that has them, each declared once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from privot.cli.parsing.settings import SETTINGS

AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")]
Device = Annotated[str, typer.Option(help="Device: auto, cpu or cuda.")]

# budgets
Epsilon = Annotated[float, typer.Option(help="Target epsilon.")]
OptionalEpsilon = Annotated[float | None, typer.Option(help="Target epsilon.")]
Delta = Annotated[float, typer.Option(help="Target delta, between 0 and 1.")]
OptionalDelta = Annotated[float | None, typer.Option(help="Target delta, between 0 and 1.")]
Neighbours = Annotated[str, typer.Option("--adjacency", help="Neighbouring data sets: replace-one or add-remove.")]
OptionalNeighbours = Annotated[
    str | None, typer.Option("--adjacency", help="Neighbouring data sets: replace-one or add-remove.")
]
LedgerFile = Annotated[
    Path | None,
    typer.Option("--ledger", help="Ledger to charge. Default: beside the private data, its name with .ledger added."),
]
NewRecords = Annotated[bool, typer.Option(help="Treat the data as a new data set with its own budget.")]
OpenData = Annotated[
    bool,
    typer.Option(
        "--open", help="State that the data is open: nothing is protected (--epsilon inf, or audit protocol)."
    ),
]
AllowUnproven = Annotated[bool, typer.Option(help="Allow methods without a privacy proof.")]

# public facts about the data
Classes = Annotated[
    str | None,
    typer.Option(metavar="NAMES", help="Public class names of a folder of images, in label order: a,b,c."),
]
ClassesOrNumber = Annotated[
    str | None,
    typer.Option(metavar="N|NAMES", help="Public number of classes, or class names of a folder of images: a,b,c."),
]
Shape = Annotated[str | None, typer.Option(help="Public image shape: 28,28 or 32,32,3.")]
ValueRange = Annotated[
    str | None, typer.Option("--range", metavar="LOW,HIGH", help="Public range of all values: 0,255.")
]
EncoderFile = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="Public network, trained on other images, that torch.export.save wrote; its features are released too. "
        "Proven on the processor and on GPUs by NVIDIA; on others it needs --allow-unproven.",
    ),
]
PublicFile = Annotated[
    str | None,
    typer.Option(
        "--public",
        metavar="FILE",
        rich_help_panel=SETTINGS,
        help="Public images of any kind, none of them a record, of DATA's shape and range: .npz, .npy, IDX or a folder "
        "by class. Labels of DATA's classes help where noise is large; the report says what was used.",
    ),
]
SchemaFile = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Public schema of a table (.json, .toml); see privot schema.")
]
UnitColumn = Annotated[
    str | None,
    typer.Option(
        "--unit",
        metavar="COLUMN",
        help="Protect everything of one value in this column (of .npz: array), such as a patient.",
    ),
]
UnitFile = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        rich_help_panel=SETTINGS,
        help="Of a folder of images: CSV with the columns file_name (path in it) and --unit's.",
    ),
]
RowsPerUnit = Annotated[
    int | None,
    typer.Option("--per-unit", metavar="N", help="Rows of one unit that take part, at most. Default: 1."),
]
WordVectorFile = Annotated[
    Path | None, typer.Option("--words", help="Public word vectors (.npz: words, vectors); the data are then texts.")
]

# partitioned data
Query = Annotated[str | None, typer.Option(metavar="SQL", help="SELECT whose rows are the records of a database.")]
Partitions = Annotated[
    int | None,
    typer.Option(
        metavar="N", rich_help_panel=SETTINGS, help="Number of partitions of a query, by a hash of the row. Default: 1."
    ),
]
EngineName = Annotated[
    str | None,
    typer.Option(
        "--engine",
        metavar="NAME",
        rich_help_panel=SETTINGS,
        help="Engine for partitioned data: local (default) or dask.",
    ),
]
Scheduler = Annotated[
    str | None,
    typer.Option(
        metavar="ADDRESS",
        rich_help_panel=SETTINGS,
        help="Running Dask scheduler: tcp://HOST:PORT or tls://HOST:PORT.",
    ),
]
Workers = Annotated[
    int | None,
    typer.Option(
        metavar="N", rich_help_panel=SETTINGS, help="Worker processes for partitioned data. Default: one per core."
    ),
]
DryRun = Annotated[
    bool,
    typer.Option(
        "--dry-run",
        help="Print the error that noise will leave in each column and pair of a table, and what partitioned data "
        "take; charge nothing.",
    ),
]

# jobs that can be resumed
OutFolder = Annotated[Path, typer.Option(help="Output folder.")]
Resume = Annotated[bool, typer.Option(help="Go on with the job in OUT without paying again, or start one.")]
PayAgain = Annotated[bool, typer.Option(help="With --resume: pay again for a release that was lost.")]
Checkpoint = Annotated[
    float, typer.Option(metavar="SECONDS", rich_help_panel=SETTINGS, help="Seconds between checkpoints.")
]
Settings = Annotated[
    list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="Change one setting; may be repeated.")
]
Seed = Annotated[int | None, typer.Option(help="Seed of everything except the noise.")]
SpreadsheetSafe = Annotated[
    bool,
    typer.Option(
        "--spreadsheet-safe",
        rich_help_panel=SETTINGS,
        help="In CSV tables, put an apostrophe before text that starts with = + - @, which spreadsheets may run.",
    ),
]

# sketches and signatures
Prototypes = Annotated[
    str | None, typer.Option(help="Public data that the sketch is built around; the same for all parties.")
]
Radius = Annotated[
    float | None, typer.Option(help="Public bound on the usual norm of a record; the same for all parties.")
]
SigningKey = Annotated[
    Path | None, typer.Option("--key", help="Private key that signs; created, with its .pub, if it does not exist.")
]
Trust = Annotated[
    list[Path] | None, typer.Option(help="Accept only signatures by this public key (.pub); may be repeated.")
]

# answers
PublicSeed = Annotated[int, typer.Option(help="Seed of random choices.")]
Chart = Annotated[Path | None, typer.Option(help="Chart to write (.png, .svg or .pdf).")]
