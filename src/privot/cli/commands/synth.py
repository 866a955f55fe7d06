"""`privot synth`: a private generator and synthetic data; the command itself sees no record."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from privot.cli.parsing import options as shared
from privot.cli.parsing.options import AsJson, Delta, Device, Epsilon, LedgerFile, Neighbours, NewRecords, OutFolder
from privot.cli.printing.output import print_facts, print_json

if TYPE_CHECKING:
    from privot.cli.running.synth_job import SynthAnswer


def synth(
    context: typer.Context,
    data: Annotated[
        str,
        typer.Argument(
            metavar="DATA",
            help="A file (.npz, .npy, .csv, .csv.gz, IDX; .parquet with --schema), images by class, digits; a folder "
            "or pattern of tables or tar shards, an fsspec address, duckdb:// or postgresql://.",
        ),
    ],
    epsilon: Epsilon,
    delta: Delta,
    adjacency: Neighbours,
    out: OutFolder,
    schema: shared.SchemaFile = None,
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
    records: Annotated[int | None, typer.Option(help="Approximate number of records, if that is public.")] = None,
    samples: Annotated[int, typer.Option(help="Number of synthetic records.")] = 10_000,
    spreadsheet_safe: shared.SpreadsheetSafe = False,
    steps: shared.TrainingSteps = None,
    set_: shared.Settings = None,
    encoder: shared.EncoderFile = None,
    encoder_range: Annotated[
        str | None,
        typer.Option(metavar="LOW,HIGH", help="What the encoder takes for black and white. Default: 0,1."),
    ] = None,
    encoder_size: Annotated[
        int | None, typer.Option(metavar="N", help="Side of the images that the encoder takes. Default: DATA's own.")
    ] = None,
    clip: Annotated[
        float | None, typer.Option(help="Norm bound per record (sliced). Default: 0.35·√columns·range.")
    ] = None,
    allow_unproven: shared.AllowUnproven = False,
    checkpoint: shared.Checkpoint = 60.0,
    seed: shared.Seed = None,
    as_json: AsJson = False,
) -> None:
    """Train a generator on sensitive records under (ε, δ) and draw synthetic data from it.

    Examples: privot synth digits --epsilon 10 --delta 1e-5 --adjacency replace-one --out digits-synth;
    privot synth census.csv --schema schema.json --epsilon 1 --delta 1e-6 --adjacency add-remove --out census-synth;
    privot synth scans --classes rare,common --shape 28,28 --range 0,255 --epsilon 1 --delta 1e-5 --adjacency add-remove
    --out scans-synth

    Data that do not fit in memory: privot synth 'visits/*.parquet' --schema schema.json … --dry-run, then without it;
    privot synth postgresql://host/db --query 'SELECT …' --schema schema.json --ledger visits.ledger ….

    To resume an interrupted job: privot synth --resume --out DIR. No other option but --encoder has to be repeated.

    On several GPUs: torchrun --nproc-per-node 4 -m privot synth … (embedding only; the first process pays, once).
    """
    from privot.cli.partitioned_input import PartitionOptions
    from privot.cli.running.synth_job import SynthJob, SynthOptions, synthesise

    options = SynthOptions(
        data=data, epsilon=epsilon, delta=delta, adjacency=adjacency, out=out, schema=schema, method=method,
        device=device, ledger=ledger, resume=resume, pay_again=pay_again, new_records=new_records, classes=classes,
        shape=shape, value_range=value_range, records=records, samples=samples, spreadsheet_safe=spreadsheet_safe,
        steps=steps, settings=set_, clip=clip, encoder=encoder, encoder_range=encoder_range, encoder_size=encoder_size,
        allow_unproven=allow_unproven, checkpoint=checkpoint, seed=seed,
        as_json=as_json, partitions=PartitionOptions(query, partitions, engine, scheduler, workers),
    )  # fmt: skip
    if dry_run:
        _print_dry_run(SynthJob(options).dry_run(), as_json)
        return
    made = synthesise(context, options)
    if made is not None:
        _print(made, data, out, samples, as_json)


def _print_dry_run(found: dict[str, Any], as_json: bool) -> None:
    from privot.opening.limits import shown

    if as_json:
        print_json(found)
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


def _print(made: SynthAnswer, data: str, out: Path, samples: int, as_json: bool) -> None:
    from privot.cli.ledgers import label_of
    from privot.cli.printing.warnings_said import with_warnings
    from privot.jobs.spending import said

    guarantee, spent = made.guarantee, made.spent
    if as_json:
        answer = {"out": str(out), "samples": samples, "ledger": str(made.ledger), "left_out": list(made.left_out)}
        print_json(with_warnings({**answer, "spent_in_ledger": spent, "guarantee": guarantee.to_dict()}))
        return
    stands = f"at δ = {guarantee.at_delta:g}, {guarantee.adjacency}, {guarantee.standing}"
    print_facts(
        [
            ("guarantee", f"ε = {guarantee.epsilon():.6g} {stands}"),
            ("charged to", f"{made.ledger}, the ledger of {label_of(data)}"),
            *[(f"ledger, {what}", words) for what, words in (said(spent, guarantee) if spent else [])],
            ("folder", f"{out}: generator, {samples} synthetic records, report.html"),
        ]
    )
    if made.left_out:
        classes = ", ".join(map(str, made.left_out))
        typer.echo(f"No sample is of class {classes}: too few records to be told from the noise on their number.")
