"""`privot sample`: synthetic records from a released generator; it reads that folder and nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from privot.cli.parsing.options import AsJson, Device, SpreadsheetSafe
from privot.cli.printing.output import print_json


def sample(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Folder that privot synth wrote.")],
    out: Annotated[
        Path,
        typer.Option(
            help="File: .npz, .npy, .csv; of tables .csv, .csv.gz, .parquet; of images also a new folder (PNG)."
        ),
    ],
    n: Annotated[int, typer.Option("-n", "--count", help="Number of records.")] = 10_000,
    where: Annotated[
        list[str] | None,
        typer.Option(
            metavar="CONDITION", help="Condition on a column of a table: sex=F, 'age>=65', income!=; may be repeated."
        ),
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Seed; the same seed draws the same records.")] = None,
    device: Device = "cpu",
    spreadsheet_safe: SpreadsheetSafe = False,
    as_json: AsJson = False,
) -> None:
    """Draw synthetic records from a released generator, at no privacy cost.

    Examples: privot sample digits-synth -n 10000 --out more.npz; privot sample census-synth --count 500 --out more.csv;
    privot sample digits-synth -n 200 --out pictures;
    privot sample census-synth --where sex=F --where 'age>=65' --out women.csv
    """
    from privot.cli.printing.progress import counting_bar
    from privot.cli.table_input import check_spreadsheet_safe, kind_for
    from privot.synthesis import Synthesizer
    from privot.synthesis.output.output_folder import write_drawn

    synthesizer = Synthesizer.load(folder, device)
    if spreadsheet_safe:
        check_spreadsheet_safe(kind_for(str(out), synthesizer.codec))
    with counting_bar("drawing samples", quiet=as_json) as tell:
        write_drawn(synthesizer, out, n, seed, spreadsheet_safe, tell, where)
    if as_json:
        print_json({"out": str(out), "samples": n, "guarantee": synthesizer.guarantee_.to_dict()})
    else:
        typer.echo(f"{out}: {n} synthetic records.")
