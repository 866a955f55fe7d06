"""`privot synth`, `privot sample`: it reads a file straight into a vault and sees no record after."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from privot.cli.parsing.options import AsJson, Device, NewRecords, Shape
from privot.cli.parsing.typed_values import positive, read_options, read_pair
from privot.cli.printing.output import print_facts, print_json
from privot.cli.records import is_folder, read_records, stated
from privot.cli.table_input import (
    SchemaFile,
    SpreadsheetSafe,
    check_spreadsheet_safe,
    kind_for,
    open_codec,
    table_facts,
    table_records,
)

if TYPE_CHECKING:
    from privot.data import Dataset, StatedFacts
    from privot.guarantee import Adjacency, Guarantee
    from privot.ledger import Ledger
    from privot.mechanisms import Facts
    from privot.tables import TableCodec
    from privot.vault import Vault


KNOWN: dict[str, dict[str, Any]] = {"digits": {"shape": (8, 8), "low": 0.0, "high": 1.0, "classes": 10}}
"""What everybody knows about built-in data."""


def synth(
    context: typer.Context,
    data: Annotated[
        str,
        typer.Argument(
            metavar="DATA",
            help="A file (.npz, .npy, .csv, .csv.gz, IDX; .parquet with --schema), images by class, or digits.",
        ),
    ],
    epsilon: Annotated[float, typer.Option(help="What this synthesis may cost: ε …")],
    delta: Annotated[float, typer.Option(help="… at this δ.")],
    adjacency: Annotated[str, typer.Option(help="replace-one or add-remove.")],
    out: Annotated[Path, typer.Option(help="Folder for everything that is made.")],
    schema: SchemaFile = None,
    method: Annotated[str, typer.Option(help="embedding, sinkhorn, sliced or sinkhorn-parameters.")] = "embedding",
    device: Device = "auto",
    ledger: Annotated[
        Path | None, typer.Option(help="The ledger; DATA.ledger beside the data unless given, the same for every OUT.")
    ] = None,
    resume: Annotated[
        bool, typer.Option(help="Go on with the job in OUT, without paying twice; where there is none, start one.")
    ] = False,
    pay_again: Annotated[bool, typer.Option(help="With --resume: charge again if a release was lost.")] = False,
    new_records: NewRecords = False,
    classes: Annotated[
        str | None,
        typer.Option(
            metavar="N|NAMES",
            help="Number of classes, or the names of a folder's classes (a,b,c); public. 0 leaves labels out.",
        ),
    ] = None,
    shape: Shape = None,
    value_range: Annotated[str | None, typer.Option("--range", help="Public range of all values: 0,1.")] = None,
    records: Annotated[
        int | None, typer.Option(help="About how many records, if that is public; steers sizes.")
    ] = None,
    samples: Annotated[int, typer.Option(help="Synthetic records to draw.")] = 10_000,
    spreadsheet_safe: SpreadsheetSafe = False,
    steps: Annotated[int | None, typer.Option(help="Training steps, in place of the rule's.")] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", help="NAME=VALUE, an option of the method; repeatable."),
    ] = None,
    clip: Annotated[float | None, typer.Option(help="Bound on a record's norm (sliced); 0.35·√columns·range.")] = None,
    allow_unproven: Annotated[bool, typer.Option(help="Let releases through that no theorem covers.")] = False,
    checkpoint: Annotated[float, typer.Option(help="Seconds between checkpoints.")] = 60.0,
    seed: Annotated[int | None, typer.Option(help="Seed of everything but the noise.")] = None,
    as_json: AsJson = False,
) -> None:
    """Turn sensitive records into a generator and synthetic data under (ε, δ).

    Examples: privot synth digits --epsilon 10 --delta 1e-5 --adjacency replace-one --out digits-synth;
    privot synth census.csv --schema schema.json --epsilon 1 --delta 1e-6 --adjacency add-remove --out census-synth;
    privot synth scans --classes rare,common --shape 28,28 --range 0,255 --epsilon 1 --delta 1e-5 --adjacency add-remove
    --out scans-synth

    A job that was interrupted goes on with privot synth --resume --out DIR: no other option has to be repeated.

    On several GPUs: torchrun --nproc-per-node 4 -m privot synth … (embedding; the first process pays, once).
    """
    from privot.cli.ledgers import charges, check_no_job, check_same_records, label_of, second_charges, spent_in_ledger
    from privot.cli.parsing.recalled_options import KEY, kept
    from privot.cli.printing.interrupts import telling
    from privot.cli.printing.progress import training_bar
    from privot.common.arguments import check_delta, check_epsilon
    from privot.errors import UsageError
    from privot.guarantee import Adjacency
    from privot.jobs.job import NAME, Job, prepared
    from privot.synthesis import Synthesizer
    from privot.synthesis.design import usable_device
    from privot.synthesis.methods.embedding_training import follow
    from privot.synthesis.output.output_folder import write_folder
    from privot.synthesis.training_loop.distributed import Team

    where = usable_device(device)
    # left when the command ends, however it ends: the others must not wait for ever
    team = context.with_resource(Team.join(where))
    if team.rank > 0:
        return follow(team, where)
    if team.size > 1 and method != "embedding":
        raise UsageError(f"Only embedding trains with several processes: start {method} without torchrun.")
    check_epsilon(epsilon), check_delta(delta)
    if samples < 1:
        raise UsageError("--samples must be at least 1.")
    if not 0.0 <= checkpoint < float("inf"):
        raise UsageError("--checkpoint takes a number of seconds.")
    if clip is not None and method != "sliced":
        raise UsageError("--clip is for the method sliced; the others bound what they release by themselves.")
    codec = open_codec(schema)
    if spreadsheet_safe:
        check_spreadsheet_safe(kind_for(data, codec))
    given = {"--classes": classes, "--shape": shape, "--range": value_range, "--records": records, "--steps": steps}
    known = KNOWN.get(data, {}) if codec is None else table_facts(codec, given)
    options = read_options(set_)
    if method != "embedding" and steps is not None:
        options["steps"] = positive(steps)
    low, high = (known.get("low"), known.get("high")) if value_range is None else read_pair(value_range)
    if low is None or high is None:
        raise UsageError("The range of values is public and has to be stated: give --range LOW,HIGH.")
    facts = stated(known.get("classes") if classes is None else classes, shape)
    synthesizer = Synthesizer(
        epsilon,
        delta,
        method=method,
        shape=facts.shape or known.get("shape"),
        low=low,
        high=high,
        records=records,
        options=options or None,
        codec=codec,
        class_names=facts.names if is_folder(data) else None,
        device=device,
        seed=seed,
        allow_unproven=allow_unproven,
    )
    neighbours = Adjacency.parse(adjacency)
    asked = {"classes": facts.count, "steps": None if steps is None else positive(steps)}
    going_on, params = resume and (out / NAME).exists(), synthesizer.to_params()
    if resume and not going_on and not as_json:
        typer.echo(f"There is no job in {out} to go on with: a new one starts.", err=True)
    if going_on:
        check_same_records(new_records)
        job = Job.open(out)
        _check_same(job, synthesizer, neighbours, asked)
    else:
        check_no_job(out)
        context.with_resource(prepared(out))

    def bound_for(held: Dataset) -> float:
        # a public rule; embeddings and gradients bound what they release themselves: for them it is any number
        ruled = 0.35 * held.x.shape[1] ** 0.5 * max(abs(low), abs(high)) if method == "sliced" else 1.0
        return float(known.get("clip", ruled if clip is None else clip))

    read: list[Dataset] = []
    design: dict[str, Any] = {}
    if not going_on:
        # read and designed before a ledger is made: what cannot be used leaves none behind, and sets no budget
        read.append(_records(data, facts, codec))
        bound = bound_for(read[0])
        design = synthesizer.design(_facts(read[0], facts.count, neighbours, (epsilon, delta), bound)).to_dict()
        if asked["steps"] is not None and method == "embedding":
            design["rules"]["steps"] = asked["steps"]
    with open_ledger(ledger or default_ledger(data, out), going_on) as book:

        def open_vault() -> Vault:
            # handed on, not kept: from here on only the vault has them
            held = read.pop() if read else _records(data, facts, codec)
            # a job that goes on has a budget already: what its folder says may not set one, in whichever ledger
            terms = None if going_on else (epsilon, delta)
            bound = bound_for(held)
            return _vault(held, label_of(data), facts.count, neighbours, book, terms, bound, new_records)

        opened: Callable[[], Vault] = open_vault
        if not going_on:
            vault = open_vault()
            told = {"params": params, "design": design, "asked": asked, "ledger": book.identity}
            job = Job.start(out, {**told, KEY: kept(context, book.path)})
            opened = lambda: vault  # noqa: E731

        with job.alone(), telling("synth", job, charges(book)):
            with training_bar(epsilon, quiet=as_json) as tell, second_charges():
                synthesizer.run(
                    job,
                    opened,
                    charges(book),
                    ledger=book.identity,
                    pay_again=pay_again,
                    progress=tell,
                    every=checkpoint,
                    team=team,
                )
            spent = spent_in_ledger(book, job)
            write_folder(synthesizer, out, samples, seed, kind_for(data, codec), spent, spreadsheet_safe)
    gone = (
        []
        if codec is not None or not synthesizer.labels_
        else [int(c) for c in (synthesizer.counts_ == 0.0).nonzero()[0]]
    )
    named = synthesizer.class_names
    _say(
        synthesizer.guarantee_,
        book,
        label_of(data),
        out,
        samples,
        gone if named is None else [named[c] for c in gone],
        spent,
        as_json,
    )


def _say(
    guarantee: Guarantee,
    book: Ledger,
    data: str,
    out: Path,
    samples: int,
    gone: Sequence[int | str],
    spent: dict[str, Any] | None,
    as_json: bool,
) -> None:
    from privot.jobs.spending import said

    if as_json:
        answer = {"out": str(out), "samples": samples, "ledger": str(book.path), "left_out": list(gone)}
        answer["spent_in_ledger"] = spent
        print_json({**answer, "guarantee": guarantee.to_dict()})
        return
    stands = f"at δ = {guarantee.at_delta:g}, {guarantee.adjacency}, {guarantee.standing}"
    print_facts(
        [
            ("guarantee", f"ε = {guarantee.epsilon():.6g} {stands}"),
            ("charged to", f"{book.path}, the ledger of {data}"),
            *[(f"ledger, {what}", words) for what, words in (said(spent, guarantee) if spent else [])],
            ("folder", f"{out}: generator, {samples} synthetic records, report.html"),
        ]
    )
    if gone:
        classes = ", ".join(map(str, gone))
        typer.echo(f"No sample is of class {classes}: too few records to be told from the noise on their number.")


def sample(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A folder that privot synth made.")],
    out: Annotated[Path, typer.Option(help="File to write: .npz, .npy or .csv; of a table .csv, .csv.gz or .parquet.")],
    n: Annotated[int, typer.Option("-n", "--count", help="How many records.")] = 10_000,
    seed: Annotated[int | None, typer.Option(help="Seed, to draw the same records again.")] = None,
    device: Device = "cpu",
    spreadsheet_safe: SpreadsheetSafe = False,
    as_json: AsJson = False,
) -> None:
    """Draw synthetic records from a released generator; needs no vault and costs nothing.

    Examples: privot sample digits-synth -n 10000 --out more.npz; privot sample census-synth --count 500 --out more.csv
    """
    from privot.synthesis import Synthesizer
    from privot.synthesis.output.output_folder import write_drawn

    synthesizer = Synthesizer.load(folder, device)
    if spreadsheet_safe:
        check_spreadsheet_safe(kind_for(str(out), synthesizer.codec))
    write_drawn(synthesizer, out, n, seed, spreadsheet_safe)
    if as_json:
        print_json({"out": str(out), "samples": n, "guarantee": synthesizer.guarantee_.to_dict()})
    else:
        typer.echo(f"{out}: {n} synthetic records.")


def default_ledger(data: str, out: Path) -> Path:
    """One ledger a data set: beside its file, whatever link led there; beside `out` for built-in data."""
    if data in KNOWN:
        return out.parent / f"{data}.ledger"
    file = Path(data).resolve()
    return file.with_name(file.name + ".ledger")


def open_ledger(path: Path, only_open: bool) -> Ledger:
    """The ledger at `path`. A job that goes on has one already: a new one would know nothing of its charge."""
    from privot.errors import UsageError
    from privot.ledger import Ledger

    if not path.name or path.is_dir():
        raise UsageError(f"The ledger is a file, and {str(path)!r} is a folder: name a file with --ledger.")
    if only_open or path.exists():
        return Ledger.open(path)
    if path.parent.exists() and not os.access(path.parent, os.W_OK):
        raise UsageError(f"No ledger can be made in {path.parent}: say where it shall be with --ledger FILE.")
    path.parent.mkdir(parents=True, exist_ok=True)
    return Ledger.create(path)


def _records(data: str, facts: StatedFacts, codec: TableCodec | None = None) -> Dataset:
    from privot.errors import UsageError

    if codec is not None:
        return table_records(data, codec)
    if data.lower().endswith(".parquet"):
        raise UsageError("A Parquet file is a table, and its schema is public: give --schema FILE.")
    records = read_records(data, facts, private=True)
    if records.y is not None and facts.classes is None:
        raise UsageError("The data has labels: say how many classes there are (--classes N), or --classes 0.")
    return records


def _facts(
    records: Dataset, classes: int | None, adjacency: Adjacency, terms: tuple[float, float], bound: float
) -> Facts:
    """What a vault of these records says about them; it is closed again, and no ledger knows of it."""
    from privot.vault import Vault

    labels = records.y if classes else None
    return Vault(records.x, labels, clip=bound, classes=classes or None, adjacency=adjacency, budget=terms).facts


def _vault(
    records: Dataset,
    label: str,
    classes: int | None,
    adjacency: Any,
    book: Ledger,
    terms: tuple[float, float] | None,
    bound: float,
    new_records: bool,
) -> Vault:
    """Straight from the file into a vault; the ledger's own budget if it knows the records, else `terms`."""
    from privot.cli.ledgers import open_vault

    return open_vault(
        book,
        terms=terms,
        new_records=new_records,
        x=records.x,
        y=records.y if classes else None,
        clip=bound,
        classes=classes or None,
        adjacency=adjacency,
        label=label,
    )


def _check_same(job: Any, synthesizer: Any, adjacency: Any, asked: dict[str, Any]) -> None:
    """A job goes on with what it was started with."""
    from privot.errors import DataError

    try:
        found = {**job.settings["params"], **job.settings["asked"], "adjacency": job.settings["design"]["adjacency"]}
        # without it nobody could tell whether another ledger holds the charge
        found["ledger"] = job.settings["ledger"]
    except (KeyError, TypeError):
        raise DataError(f"The job in {job.folder} was not started by privot synth: go on with it in Python.") from None
    wanted = {**synthesizer.to_params(), **asked, "adjacency": str(adjacency)}
    job.check_same(wanted, found)
