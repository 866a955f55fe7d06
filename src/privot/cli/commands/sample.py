"""`privot sample`: synthetic records from a released generator; it reads that folder and nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from privot.cli.parsing.options import AsJson, Device, SpreadsheetSafe
from privot.cli.printing.printed_answer import print_json


def sample(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Folder that privot synth wrote.")],
    out: Annotated[
        Path,
        typer.Option(
            help="File: .npz, .npy, .csv; of tables .csv, .csv.gz, .parquet; of images (PNG), and of related tables, "
            "a new folder."
        ),
    ],
    n: Annotated[int, typer.Option("-n", "--count", help="Number of records; of related tables, of parents.")] = 10_000,
    where: Annotated[
        list[str] | None,
        typer.Option(
            metavar="CONDITION", help="Condition on a column of a table: sex=F, 'age>=65', income!=; may be repeated."
        ),
    ] = None,
    joined: Annotated[
        float,
        typer.Option(
            metavar="SHARE",
            help="Share of images that are joined of two and labelled then, for training classifiers: 0.5, say.",
        ),
    ] = 0.0,
    seed: Annotated[int | None, typer.Option(help="Seed; the same seed draws the same records.")] = None,
    device: Device = "cpu",
    spreadsheet_safe: SpreadsheetSafe = False,
    as_json: AsJson = False,
) -> None:
    """Draw synthetic records from a released generator, at no privacy cost.

    Examples: privot sample digits-synth -n 10000 --out more.npz; privot sample census-synth --count 500 --out more.csv;
    privot sample digits-synth -n 200 --out pictures;
    privot sample faces-synth -n 100000 --joined 0.5 --out train.npz;
    privot sample census-synth --where sex=F --where 'age>=65' --out women.csv
    """
    from privot.cli.printing.progress import counting_bar
    from privot.cli.table_input import check_spreadsheet_safe, kind_for
    from privot.synthesis import Synthesizer
    from privot.synthesis.of_kind import Drawing
    from privot.synthesis.output.output_folder import write_drawn
    from privot.synthesis.tabular.related.related_folder import check_folder, kinds_in

    synthesizer = Synthesizer.load(folder, device)
    kinds: dict[str, str] | None = None
    written: list[str | None] = []
    codec = synthesizer.kind_.codec
    if synthesizer.kind_.whole_units:
        check_folder(out)
        kinds = kinds_in(folder, codec)
        written = [*kinds.values()]
    elif spreadsheet_safe:
        written = [kind_for(str(out), codec)]
    for kind in written if spreadsheet_safe else []:
        check_spreadsheet_safe(kind)
    with counting_bar("drawing samples", quiet=as_json) as tell:
        drawing = Drawing(n, seed, kinds, spreadsheet_safe, where, joined, tell)
        rows = write_drawn(synthesizer, out, drawing)
    if as_json:
        tables = {} if rows is None else {"tables": rows}
        print_json({"out": str(out), "samples": n, **tables, "guarantee": synthesizer.guarantee_.to_dict()})
    elif rows is not None:
        typer.echo(f"{out}: {', '.join(f'{count} synthetic rows of {name}' for name, count in rows.items())}.")
    else:
        typer.echo(f"{out}: {n} synthetic records.")
