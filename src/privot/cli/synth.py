"""`privot synth`, `privot sample`, `privot report`: it reads a file straight into a vault and sees no record after."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from privot.cli.output import print_facts, print_json

if TYPE_CHECKING:
    from privot.data import Dataset
    from privot.ledger import Ledger
    from privot.vault import Vault

AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")]
Device = Annotated[str, typer.Option(help="auto, cpu or cuda.")]

KNOWN: dict[str, dict[str, Any]] = {"digits": {"shape": (8, 8), "low": 0.0, "high": 1.0, "classes": 10}}
"""What everybody knows about built-in data."""


def synth(
    data: Annotated[str, typer.Argument(metavar="DATA", help="A file (.npz, .npy, .csv, .csv.gz), or digits.")],
    epsilon: Annotated[float, typer.Option(help="What this synthesis may cost: ε …")],
    delta: Annotated[float, typer.Option(help="… at this δ.")],
    adjacency: Annotated[str, typer.Option(help="replace-one or add-remove.")],
    out: Annotated[Path, typer.Option(help="Folder for everything that is made.")],
    method: Annotated[str, typer.Option(help="embedding.")] = "embedding",
    device: Device = "auto",
    ledger: Annotated[
        Path | None, typer.Option(help="The ledger; DATA.ledger beside the data unless given, the same for every OUT.")
    ] = None,
    resume: Annotated[bool, typer.Option(help="Go on with the job in OUT, without paying twice.")] = False,
    pay_again: Annotated[bool, typer.Option(help="With --resume: charge again if a release was lost.")] = False,
    classes: Annotated[int | None, typer.Option(help="Number of classes, which is public; 0 ignores labels.")] = None,
    shape: Annotated[str | None, typer.Option(help="Shape of an image: 28,28 or 32,32,3.")] = None,
    value_range: Annotated[str | None, typer.Option("--range", help="Public range of all values: 0,1.")] = None,
    records: Annotated[
        int | None, typer.Option(help="About how many records, if that is public; steers sizes.")
    ] = None,
    samples: Annotated[int, typer.Option(help="Synthetic records to draw.")] = 10_000,
    steps: Annotated[int | None, typer.Option(help="Training steps, in place of the rule's.")] = None,
    checkpoint: Annotated[float, typer.Option(help="Seconds between checkpoints.")] = 60.0,
    seed: Annotated[int | None, typer.Option(help="Seed of everything but the noise.")] = None,
    as_json: AsJson = False,
) -> None:
    """Turn sensitive records into a generator and synthetic data under (ε, δ).

    Example: privot synth digits --epsilon 10 --delta 1e-5 --adjacency replace-one --out digits-synth
    """
    from privot.cli.progress import training_bar
    from privot.errors import UsageError
    from privot.guarantee import Adjacency, check_delta, check_epsilon
    from privot.synthesis import Synthesizer
    from privot.synthesis.folder import write_folder
    from privot.synthesis.job import NAME, Job, prepare

    check_epsilon(epsilon), check_delta(delta)
    if samples < 1:
        raise UsageError("--samples must be at least 1.")
    known = KNOWN.get(data, {})
    low, high = (known.get("low"), known.get("high")) if value_range is None else _pair(value_range)
    if low is None or high is None:
        raise UsageError("The range of values is public and has to be stated: give --range LOW,HIGH.")
    synthesizer = Synthesizer(
        epsilon,
        delta,
        method=method,
        shape=_shape(shape) or known.get("shape"),
        low=low,
        high=high,
        records=records,
        device=device,
        seed=seed,
    )
    stated = Adjacency.parse(adjacency)
    classes = known.get("classes") if classes is None else classes
    asked = {"classes": classes or None, "steps": None if steps is None else _positive(steps)}
    going_on = resume and (out / NAME).exists()
    if going_on:
        job = Job.open(out)
        _check_same(job, synthesizer, stated, asked)
    else:
        prepare(out)
    # read before a ledger is made: what cannot be used leaves none behind
    read = [] if going_on else [_records(data, classes)]
    with _ledger(ledger or default_ledger(data, out), going_on) as book:

        def open_vault() -> Vault:
            # handed on, not kept: from here on only the vault has them
            held = read.pop() if read else _records(data, classes)
            return _vault(held, Path(data).name, classes, stated, book, (epsilon, delta))

        opened: Callable[[], Vault] = open_vault
        if not going_on:
            vault = open_vault()
            design = synthesizer.design(vault.facts).to_dict()
            if asked["steps"] is not None:
                design["rules"]["steps"] = asked["steps"]
            params = synthesizer.to_params()
            job = Job.start(out, {"params": params, "design": design, "asked": asked, "ledger": book.identity})
            opened = lambda: vault  # noqa: E731

        def spent(mark: str) -> bool:
            return any(mark in entry.purpose for entry in book.entries())

        with job.alone():
            with training_bar(epsilon, quiet=as_json) as tell:
                synthesizer.run(
                    job,
                    opened,
                    spent,
                    ledger=book.identity,
                    pay_again=pay_again,
                    progress=tell,
                    every=checkpoint,
                )
            write_folder(synthesizer, out, samples, seed)
    guarantee = synthesizer.guarantee_
    if as_json:
        print_json({"out": str(out), "samples": samples, "ledger": str(book.path), "guarantee": guarantee.to_dict()})
        return
    print_facts(
        [
            (
                "guarantee",
                f"ε = {guarantee.epsilon():.6g} at δ = {delta:g}, {guarantee.adjacency}, {guarantee.standing}",
            ),
            ("charged to", f"{book.path}, the ledger of {Path(data).name}"),
            ("folder", f"{out}: generator, {samples} synthetic records, report.html"),
        ]
    )


def sample(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A folder that privot synth made.")],
    out: Annotated[Path, typer.Option(help="File to write: .npz, .npy or .csv.")],
    n: Annotated[int, typer.Option("-n", help="How many records.")] = 10_000,
    seed: Annotated[int | None, typer.Option(help="Seed, to draw the same records again.")] = None,
    device: Device = "cpu",
    as_json: AsJson = False,
) -> None:
    """Draw synthetic records from a released generator; needs no vault and costs nothing.

    Example: privot sample digits-synth -n 10000 --out more.npz
    """
    from privot.synthesis import Synthesizer
    from privot.synthesis.folder import write_samples

    synthesizer = Synthesizer.load(folder, device)
    x, y = synthesizer.sample(n, seed=seed)
    write_samples(out, x, y, synthesizer.shape)
    if as_json:
        print_json({"out": str(out), "samples": n, "guarantee": synthesizer.guarantee_.to_dict()})
    else:
        typer.echo(f"{out}: {n} synthetic records.")


def report(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A folder that privot synth made.")],
    as_json: AsJson = False,
) -> None:
    """Write one self-contained HTML page about a folder."""
    from privot.synthesis.report import write_report

    page = write_report(folder)
    if as_json:
        print_json({"report": str(page)})
    else:
        typer.echo(str(page))


def default_ledger(data: str, out: Path) -> Path:
    """One ledger a data set: beside its file, whatever link led there; beside `out` for built-in data."""
    if data in KNOWN:
        return out.parent / f"{data}.ledger"
    file = Path(data).resolve()
    return file.with_name(file.name + ".ledger")


def _ledger(path: Path, only_open: bool) -> Ledger:
    """The ledger at `path`. A job that goes on has one already: a new one would know nothing of its charge."""
    from privot.errors import UsageError
    from privot.ledger import Ledger

    if only_open or path.exists():
        return Ledger.open(path)
    if path.parent.exists() and not os.access(path.parent, os.W_OK):
        raise UsageError(f"No ledger can be made in {path.parent}: say where it shall be with --ledger FILE.")
    path.parent.mkdir(parents=True, exist_ok=True)
    return Ledger.create(path)


def _records(data: str, classes: int | None) -> Dataset:
    from privot.data import load
    from privot.errors import UsageError

    records = load(data)
    if records.y is not None and classes is None:
        raise UsageError("The data has labels: say how many classes there are (--classes N), or --classes 0.")
    return records


def _vault(
    records: Dataset, label: str, classes: int | None, adjacency: Any, book: Ledger, terms: tuple[float, float]
) -> Vault:
    """Straight from the file into a vault; the ledger's own budget if it knows the records, else `terms`."""
    from privot.budget import row_digests
    from privot.vault import Vault

    known = book.budget(book.fingerprint({"x": row_digests(records.x)})) is not None
    return Vault(
        records.x,
        records.y if classes else None,
        # the embedding bounds its own features; this only has to be a number
        clip=1.0,
        classes=classes or None,
        adjacency=adjacency,
        ledger=book,
        budget=None if known else terms,
        label=label,
    )


def _check_same(job: Any, synthesizer: Any, adjacency: Any, asked: dict[str, Any]) -> None:
    """A job goes on with what it was started with."""
    from privot.errors import DataError, UsageError

    try:
        found = {**job.settings["params"], **job.settings["asked"], "adjacency": job.settings["design"]["adjacency"]}
        # without it nobody could tell whether another ledger holds the charge
        found["ledger"] = job.settings["ledger"]
    except (KeyError, TypeError):
        raise DataError(f"The job in {job.folder} was not started by privot synth: go on with it in Python.") from None
    wanted = {**synthesizer.to_params(), **asked, "adjacency": str(adjacency)}
    differ = [name for name in wanted if wanted[name] != found.get(name)]
    if differ:
        raise UsageError(f"The job in {job.folder} was started with another {differ[0]}: resume it with the same.")


def _pair(text: str) -> tuple[float, float]:
    from privot.errors import UsageError

    try:
        low, high = (float(part) for part in text.split(","))
    except ValueError:
        raise UsageError(f"A range is written LOW,HIGH, got {text!r}.") from None
    return low, high


def _shape(text: str | None) -> tuple[int, ...] | None:
    from privot.errors import UsageError

    try:
        return None if text is None else tuple(int(part) for part in text.split(","))
    except ValueError:
        raise UsageError(f"A shape is written HEIGHT,WIDTH or HEIGHT,WIDTH,CHANNELS, got {text!r}.") from None


def _positive(steps: int) -> int:
    from privot.noise import arguments

    return arguments.whole("The number of steps", steps, 1)
