"""`privot sketch`: one private, signed sketch to send to somebody."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from privot.cli.parsing import options as shared
from privot.cli.parsing.options import AsJson, Delta, Epsilon, LedgerFile, Neighbours, NewRecords
from privot.cli.printing.command_warnings import with_warnings
from privot.cli.printing.printed_answer import print_facts, print_json

if TYPE_CHECKING:
    from privot.cli.running.sketch_release import SketchAnswer


def sketch(
    data: Annotated[
        str,
        typer.Argument(
            metavar="DATA",
            help="A file (.npz, .csv, IDX …), images by class, digits, or a pattern of arrays or tar shards.",
        ),
    ],
    epsilon: Epsilon,
    delta: Delta,
    adjacency: Neighbours,
    out: Annotated[Path, typer.Option(help="New sketch file.")],
    prototypes: shared.Prototypes = None,
    radius: shared.Radius = None,
    value_range: shared.ValueRange = None,
    seed: Annotated[int, typer.Option(help="Seed of the public directions; the same for all parties.")] = 0,
    classes: shared.ClassesOrNumber = None,
    shape: shared.Shape = None,
    unit: shared.UnitColumn = None,
    per_unit: shared.RowsPerUnit = None,
    unit_file: shared.UnitFile = None,
    words: shared.WordVectorFile = None,
    engine: shared.EngineName = None,
    scheduler: shared.Scheduler = None,
    workers: shared.Workers = None,
    ledger: LedgerFile = None,
    new_records: NewRecords = False,
    key: shared.SigningKey = None,
    as_json: AsJson = False,
) -> None:
    """Release one private sketch of DATA, which can then be compared with others of the same design at no cost.

    Give one of --prototypes, --range and --radius: it is public, and the same for all parties.

    Example: privot sketch digits --epsilon 1 --delta 1e-5 --adjacency replace-one --range 0,1 --out a.sketch
    """
    from privot.cli.partitioned_input import PartitionOptions
    from privot.cli.printing.interrupts import delivered
    from privot.cli.running.sketch_release import SketchOptions, release_sketch
    from privot.cli.table_input import UnitOptions

    options = SketchOptions(
        data=data, epsilon=epsilon, delta=delta, adjacency=adjacency, out=out, prototypes=prototypes, radius=radius,
        value_range=value_range, seed=seed, classes=classes, shape=shape, words=words, ledger=ledger,
        new_records=new_records, key=key, quiet=as_json, units=UnitOptions(unit, per_unit, unit_file),
        partitions=PartitionOptions(engine=engine, scheduler=scheduler, workers=workers),
    )  # fmt: skip
    made = release_sketch(options)
    with delivered(out):
        _print(made, out, seed, as_json)


def _print(made: SketchAnswer, out: Path, seed: int, as_json: bool) -> None:
    from privot.cli.printing.guarantee_words import in_words, summary

    sketch, design = made.sketch, made.design.digest()
    if as_json:
        print_json(
            with_warnings(
                {
                    "out": str(out),
                    "design": design,
                    "sigma": sketch.public["sigma"],
                    "seed": seed,
                    "signer": made.signer,
                    "ledger": None if made.ledger is None else str(made.ledger),
                    "guarantee": summary(sketch.guarantee),
                }
            )
        )
        return
    payer = "nobody: this data is built in" if made.ledger is None else str(made.ledger)
    payer += ", in an earlier attempt: this is the sketch that it paid for" if made.before else ""
    signed = f"{made.signer[:16]}…" if made.signer else "a key used once: changes show, but not who wrote it"
    print_facts(
        [
            ("sketch", f"{out}, {out.stat().st_size} bytes"),
            ("design", f"{design[:16]}…: only sketches of one design can be compared"),
            ("privacy", in_words(sketch.guarantee)),
            ("charged to", payer),
            ("signed by", signed),
        ]
    )
