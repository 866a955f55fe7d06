"""`privot synth`: a private generator and synthetic data; the command itself sees no record."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from privot.cli.parsing import options as shared
from privot.cli.parsing.options import AsJson, Device, Epsilon, LedgerFile, NewRecords, OutFolder
from privot.cli.parsing.settings import SETTINGS
from privot.cli.printing.printed_answer import print_facts, print_json, print_table

if TYPE_CHECKING:
    from privot.cli.running.synth_runs.synth_job import SynthAnswer

_OPEN_OPTIONS = {
    "data", "epsilon", "out", "open_", "method", "classes", "shape", "value_range", "samples", "steps", "device",
    "seed", "as_json",
}  # fmt: skip
"""Parameters with a meaning for a baseline without privacy."""


def synth(
    context: typer.Context,
    data: Annotated[
        list[str],
        typer.Argument(
            metavar="DATA",
            help="A file (.npz, .npy, .csv, .csv.gz, IDX; .parquet with --schema), images by class, digits; a folder "
            "or pattern of tables or tar shards, an fsspec address, duckdb:// or postgresql://. After a table, the "
            "tables of its rows' children, such as visits.",
        ),
    ],
    epsilon: Epsilon,
    out: OutFolder,
    delta: shared.OptionalDelta = None,
    adjacency: shared.OptionalNeighbours = None,
    schema: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FILE",
            help="Public schema of a table (.json, .toml), one for each in DATA; see privot schema.",
        ),
    ] = None,
    unit: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN",
            help="Protect everything of one value in this column (of .npz: array), such as a patient; the column that "
            "links related tables.",
        ),
    ] = None,
    per_unit: Annotated[
        list[int] | None,
        typer.Option(
            metavar="N",
            help="Rows of one unit that take part, at most. Default: 1; of each table of children 5.",
        ),
    ] = None,
    unit_file: shared.UnitFile = None,
    orphans: Annotated[
        str | None,
        typer.Option(
            metavar="WORD", rich_help_panel=SETTINGS, help="Children without a parent: refuse (default) or drop."
        ),
    ] = None,
    method: Annotated[
        str, typer.Option(help="Method: embedding, sinkhorn, sliced or sinkhorn-parameters.")
    ] = "embedding",
    device: Device = "auto",
    ledger: LedgerFile = None,
    resume: shared.Resume = False,
    pay_again: shared.PayAgain = False,
    new_records: NewRecords = False,
    classes: Annotated[
        str | None,
        typer.Option(
            metavar="N|NAMES",
            help="Public number of classes (0: without labels), or class names of a folder of images: a,b,c.",
        ),
    ] = None,
    query: shared.Query = None,
    partitions: shared.Partitions = None,
    engine: shared.EngineName = None,
    scheduler: shared.Scheduler = None,
    workers: shared.Workers = None,
    dry_run: shared.DryRun = False,
    shape: shared.Shape = None,
    value_range: shared.ValueRange = None,
    records: Annotated[
        int | None,
        typer.Option(metavar="N", rich_help_panel=SETTINGS, help="Approximate number of records, if that is public."),
    ] = None,
    samples: Annotated[int, typer.Option(help="Number of synthetic records.")] = 10_000,
    spreadsheet_safe: shared.SpreadsheetSafe = False,
    steps: Annotated[
        int | None,
        typer.Option(
            metavar="N", rich_help_panel=SETTINGS, help="Training steps; chosen from the data's size if omitted."
        ),
    ] = None,
    set_: shared.Settings = None,
    encoder: shared.EncoderFile = None,
    encoder_range: Annotated[
        str | None,
        typer.Option(
            metavar="LOW,HIGH",
            rich_help_panel=SETTINGS,
            help="What the encoder takes for black and white. Default: 0,1.",
        ),
    ] = None,
    encoder_size: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            rich_help_panel=SETTINGS,
            help="Side of the images that the encoder takes. Default: DATA's own.",
        ),
    ] = None,
    label_encoder: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            rich_help_panel=SETTINGS,
            help="Another public network, whose codes label samples of colour images in place of the encoder's.",
        ),
    ] = None,
    label_encoder_range: Annotated[
        str | None,
        typer.Option(
            metavar="LOW,HIGH", rich_help_panel=SETTINGS, help="What it takes for black and white. Default: 0,1."
        ),
    ] = None,
    label_encoder_size: Annotated[
        int | None,
        typer.Option(
            metavar="N", rich_help_panel=SETTINGS, help="Side of the images that it takes. Default: DATA's own."
        ),
    ] = None,
    public: shared.PublicFile = None,
    clip: Annotated[
        float | None,
        typer.Option(rich_help_panel=SETTINGS, help="Norm bound per record (sliced). Default: 0.35·√columns·range."),
    ] = None,
    allow_unproven: shared.AllowUnproven = False,
    open_: shared.OpenData = False,
    checkpoint: shared.Checkpoint = 60.0,
    seed: shared.Seed = None,
    as_json: AsJson = False,
) -> None:
    """Train a generator on sensitive records under (ε, δ) and draw synthetic data from it.

    Examples: privot synth digits --epsilon 10 --delta 1e-5 --adjacency replace-one --out digits-synth;
    privot synth census.csv --schema schema.json --epsilon 1 --delta 1e-6 --adjacency add-remove --out census-synth;
    privot synth visits.csv --schema schema.json --unit patient_id --per-unit 5 --epsilon 1 --delta 1e-6 --adjacency
    add-remove --out visits-synth;
    privot synth patients.csv visits.csv --schema patients.json --schema visits.json --unit patient_id --epsilon 1
    --delta 1e-6 --adjacency add-remove --out clinic-synth;
    privot synth scans --classes rare,common --shape 28,28 --range 0,255 --epsilon 1 --delta 1e-5 --adjacency add-remove
    --out scans-synth

    Data that do not fit in memory: privot synth 'visits/*.parquet' --schema schema.json … --dry-run, then without it;
    privot synth postgresql://host/db --query 'SELECT …' --schema schema.json --ledger visits.ledger ….

    To resume an interrupted job: privot synth --resume --out DIR. Only --encoder, and the settings label_encoder and
    public, have to be repeated.

    Baselines without privacy, on open data: privot synth digits --method sliced --epsilon inf --open --out open-digits.

    On several GPUs: torchrun --nproc-per-node 4 -m privot synth … (embedding only; the first process pays, once).
    """
    from privot.cli.partitioned_input import PartitionOptions
    from privot.cli.printing.interrupts import delivered
    from privot.cli.related_input import RelatedOptions, check_meaningful
    from privot.cli.running.open_runs import is_open_run, print_open, refuse_others, synth_open
    from privot.cli.running.synth_runs.related_job import RelatedJob
    from privot.cli.running.synth_runs.synth_job import SynthJob, synthesise
    from privot.cli.running.synth_runs.synth_options import SynthOptions
    from privot.cli.table_input import NO_UNIT, UnitOptions
    from privot.errors import UsageError

    if is_open_run(epsilon, open_):
        refuse_others(context, _OPEN_OPTIONS)
        if len(data) > 1:
            raise UsageError("A baseline without privacy is of one data set: name one DATA.")
        return print_open(
            synth_open(
                data[0], out, method=method, classes=classes, shape=shape, value_range=value_range, samples=samples,
                steps=steps, device=device, seed=seed,
            ),
            as_json,
        )  # fmt: skip
    if delta is None or adjacency is None:
        missing = "--delta" if delta is None else "--adjacency"
        raise UsageError(f"Missing option '{missing}': --epsilon, --delta and --adjacency are all stated.")
    related = RelatedOptions.of(data, schema, unit, per_unit, orphans)
    options = SynthOptions(
        data=data[0], epsilon=epsilon, delta=delta, adjacency=adjacency, out=out,
        schema=schema[0] if schema else None, method=method, device=device, ledger=ledger, resume=resume,
        pay_again=pay_again, new_records=new_records, classes=classes, shape=shape,
        value_range=value_range, records=records, samples=samples, spreadsheet_safe=spreadsheet_safe, steps=steps,
        settings=set_, clip=clip, encoder=encoder, encoder_range=encoder_range, encoder_size=encoder_size,
        label_encoder=label_encoder, label_encoder_range=label_encoder_range, label_encoder_size=label_encoder_size,
        public=public, allow_unproven=allow_unproven, checkpoint=checkpoint, seed=seed,
        as_json=as_json, partitions=PartitionOptions(query, partitions, engine, scheduler, workers),
        units=NO_UNIT if related.children else UnitOptions(unit, per_unit[0] if per_unit else None, unit_file),
        related=related,
    )  # fmt: skip
    job: type[SynthJob] = SynthJob
    if options.related.children:
        check_meaningful(context)
        job = RelatedJob
    if dry_run:
        _print_dry_run(job(options).dry_run(), as_json)
        return
    made = synthesise(context, options, job)
    if made is not None:
        with delivered(out):
            _print(made, data[0], out, samples, as_json)


def _print_dry_run(found: dict[str, Any], as_json: bool) -> None:
    from privot.opening.limits import shown

    if as_json:
        print_json(found)
        return
    for name, errors in found.get("tables", {}).items():
        typer.echo(f"{name}:")
        _print_expected_errors(errors, stated=found["records"] is not None)
    if "errors" in found:
        _print_expected_errors(found["errors"], stated=found["records"] is not None)
    if "partitions" not in found:
        print_facts([("charged", "nothing"), ("privacy", found["privacy"])])
        return
    rows = "not known before they are read" if found["rows"] is None else f"{found['rows']:,}"
    minutes = "not known" if found["minutes"] is None else f"about {found['minutes']:g}, and the fit of the model"
    print_facts(
        [
            ("rows", rows if found["rows_counted"] or found["rows"] is None else f"about {rows}"),
            ("bytes", shown(found["bytes"]) if found["bytes"] else "not known"),
            ("partitions", f"{found['partitions']}, {found['workers']} at once, {found['passes']} passes"),
            ("peak memory", f"about {found['peak_memory_mib']} MiB over all processes of this machine"),
            ("minutes", minutes),
            ("charged", "nothing"),
            ("privacy", found["privacy"]),
        ]
    )


def _print_expected_errors(errors: list[dict[str, Any]], stated: bool) -> None:
    """What noise will do to each column, and to pairs, by total variation; the warnings last."""
    first = errors[0]
    sizes = [f"{found['records']:,} records" for found in errors]
    rows = []
    for place, column in enumerate(first["columns"]):
        beside = [found["columns"][place] for found in errors]
        told = [f"{c['comes_out']:.3f} ({'drowned' if c['drowned'] else c['groups']})" for c in beside]
        rows.append([column["name"], str(column["cells"]), *told])
    pairs = [f"{found['pairs']['comes_out']:.3f} ({found['pairs']['drowned']} drowned)" for found in errors]
    if first["pairs"]["count"]:
        rows.append([f"{first['pairs']['count']} pairs, mean", "", *pairs])
    typer.echo("Expected total variation of what comes out (and in how many groups), rehearsed with made-up records:")
    print_table(["column", "cells", *sizes], rows)
    print_facts([(f"noise, {what}", f"±{sigma:.4g} records") for what, sigma in first["noise"].items()])
    if not stated:
        typer.echo("How many records there are is private under add-remove (--set records=N states about how many).")
    for sentence in errors[0]["warnings"] if stated else []:
        typer.echo(f"Warning: {sentence}", err=True)


def _print(made: SynthAnswer, data: str, out: Path, samples: int, as_json: bool) -> None:
    from privot.cli.ledgers import label_of
    from privot.cli.printing.command_warnings import with_warnings
    from privot.jobs.spending import spending_lines

    guarantee, spent = made.guarantee, made.spent
    if as_json:
        answer = {"out": str(out), "samples": samples, "ledger": str(made.ledger), "left_out": list(made.left_out)}
        if made.tables is not None:
            answer["tables"] = made.tables
        if made.public is not None:
            answer["public"] = made.public
        print_json(with_warnings({**answer, "spent_in_ledger": spent, "guarantee": guarantee.to_dict()}))
        return
    files = ", ".join(sorted(file.name for file in out.glob("synthetic.*"))) + f" ({samples} synthetic records)"
    if made.tables is not None:
        files = ", ".join(f"{name} ({rows} synthetic rows)" for name, rows in made.tables.items())
    stands = f"at δ = {guarantee.at_delta:g}, {guarantee.relation}, {guarantee.standing}"
    print_facts(
        [
            ("guarantee", f"ε = {guarantee.epsilon():.6g} {stands}"),
            ("charged to", f"{made.ledger}, the ledger of {label_of(data) if made.tables is None else 'all tables'}"),
            *[(f"ledger, {what}", words) for what, words in (spending_lines(spent, guarantee) if spent else [])],
            *([] if made.public is None else [("public images", made.public["words"])]),
            ("folder", f"{out}: {files}, report.html, guarantee.json, generator"),
        ]
    )
    if made.left_out:
        classes = ", ".join(map(str, made.left_out))
        typer.echo(f"No sample is of class {classes}: too few records to be told from the noise on their number.")
