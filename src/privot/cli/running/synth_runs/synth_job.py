"""One `privot synth`, from its options to a finished folder; a file goes straight into a vault."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from privot.cli import ledgers
from privot.cli.parsing.typed_values import positive, read_options, read_pair
from privot.cli.partitioned_input import expect_ledger, keep_sums, pass_bar
from privot.cli.records import read_records, stated
from privot.cli.running.synth_runs.noise_warning import warn_of_noise
from privot.cli.running.synth_runs.public_input import read_public
from privot.cli.running.synth_runs.synth_options import BUILT_IN_FACTS, SynthOptions, check_options, read_encoder
from privot.cli.table_input import (
    ask_for_unit,
    check_spreadsheet_safe,
    check_table,
    kind_for,
    schema_facts,
    stated_records,
    table_hint,
    table_records,
)
from privot.jobs.charges import charges, spent_in_ledger

if TYPE_CHECKING:
    from privot.data.loading import Dataset
    from privot.data.stated_facts import StatedFacts
    from privot.guarantee import Adjacency, Guarantee
    from privot.jobs.job import Job
    from privot.kinds import Kind
    from privot.ledger import Ledger
    from privot.partitions.source import PartitionedSource
    from privot.synthesis import Synthesizer
    from privot.synthesis.neural.generator_training.distributed import Team
    from privot.tables import TableCodec
    from privot.vault import Vault


@dataclass(frozen=True)
class SynthAnswer:
    """What a synthesis ends with: its guarantee, the ledger that paid, and the classes that were left out."""

    guarantee: Guarantee
    ledger: Path
    spent: dict[str, Any] | None
    left_out: Sequence[int | str]
    tables: dict[str, int] | None = None
    """Of related tables, the number of synthetic rows of each."""
    public: dict[str, Any] | None = None
    """What was made of public images."""


def synthesise(context: typer.Context, options: SynthOptions, job: type[SynthJob] | None = None) -> SynthAnswer | None:
    """Run or resume the `job` (`SynthJob` unless given); None in a process that only helps another one to train.

    What belongs to `context` is released when the command ends, however it ends.
    """
    from privot.common.devices import usable_device
    from privot.errors import UsageError
    from privot.synthesis.methods.embedding_training import follow
    from privot.synthesis.neural.generator_training.distributed import Team

    where = usable_device(options.device, auto=True)
    # left when the command ends: the others must not wait for ever
    team = context.with_resource(Team.join(where))
    if team.rank > 0:
        # a release names its encoder by a digest: every process that trains has to know the file
        read_encoder(options)
        follow(team, where)
        return None
    if team.size > 1 and options.method != "embedding":
        raise UsageError(f"Only embedding trains with several processes: start {options.method} without torchrun.")
    check_options(options)
    return (SynthJob if job is None else job)(options).run(context, team)


class SynthJob:
    """The job that the options describe: planned here, then started or resumed by `run`."""

    def __init__(self, options: SynthOptions) -> None:
        from privot.errors import UsageError
        from privot.guarantee import Adjacency
        from privot.kinds import as_kind

        self.options = o = options
        self._warn: Callable[[], None] | None = None
        o.units.check(o.schema, o.adjacency, o.data)
        self.stated: Kind | None = None if o.schema is None else as_kind(o.schema).for_unit(o.units.column)
        self.codec: TableCodec | None = None if self.stated is None else self.stated.codec
        given: dict[str, Any] = {"--classes": o.classes, "--shape": o.shape, "--range": o.value_range}
        given["--set steps"] = o.steps
        self.known = BUILT_IN_FACTS.get(o.data, {}) if self.stated is None else schema_facts(self.stated, given)
        settings = read_options(o.settings)
        if o.method != "embedding" and o.steps is not None:
            settings["steps"] = positive(o.steps)
        low, high = self.known.get("low"), self.known.get("high")
        if o.value_range is not None:
            low, high = read_pair(o.value_range)
        if low is None or high is None:
            hint = table_hint(o.data)
            raise UsageError(f"The range of values is public and must be stated: give --range LOW,HIGH{hint}.")
        self.span: tuple[float, float] = (low, high)
        self.facts: StatedFacts = stated(self.known.get("classes") if o.classes is None else o.classes, o.shape)
        self.source: PartitionedSource | None = o.partitions.open(o.data, self.codec, self.facts, o.units.column)
        if self.source is not None:
            self._check_partitioned(settings)
        elif self.codec is not None and not o.resume:
            check_table(o.data, self.codec, o.units)
        if o.spreadsheet_safe:
            check_spreadsheet_safe(self._kind())
        self.synthesizer = self._synthesizer(settings)
        self.params = self.synthesizer.to_params()
        self.adjacency: Adjacency = Adjacency.parse(o.adjacency)
        self.asked: dict[str, Any] = {
            "classes": self.facts.count, "steps": None if o.steps is None else positive(o.steps)
        }  # fmt: skip
        if o.units.column is not None:
            self.asked |= {"unit": o.units.column, "per_unit": o.units.rows}

    def _check_partitioned(self, settings: dict[str, Any]) -> None:
        """Refuse, before anything is read, what needs all records in one place."""
        from privot.errors import UsageError

        if self.options.method != "embedding":
            raise UsageError(
                f"The method {self.options.method} draws single records, so it needs all of them in one place: "
                "partitioned data are synthesised by embedding, or by a table's schema."
            )
        # a labeller is tuned on records that are kept; sums are all that partitions give
        if self.codec is None and settings.setdefault("labelled", 0.0):
            raise UsageError("Labels are tuned on records in one place: leave out labelled for partitioned data.")

    def _default_ledger(self) -> Path:
        """Where the ledger lies that was not named."""
        from privot.errors import UsageError
        from privot.partitions.source_opening import is_partitioned

        o = self.options
        if self.source is not None and is_partitioned(o.data, self.codec, o.partitions.query):
            raise UsageError(
                "Partitioned data lie beside no ledger: name the one ledger of these records with --ledger, which is "
                "made if there is none."
            )
        return ledgers.default_ledger(o.data, o.out)

    def _kind(self) -> str | None:
        """The ending of the synthetic table."""
        if self.codec is None or self.source is None:
            return kind_for(self.options.data, self.codec)
        from privot.partitions.readers.table_partitions import TablePartition

        first = self.source.partitions[0]
        return kind_for(first.file.address, self.codec) if isinstance(first, TablePartition) else ".csv"

    def dry_run(self) -> dict[str, Any]:
        """What a table's noise will do to its columns, and what passes over partitioned data will take.

        Nothing is charged, and no ledger is opened. Records are read only to be counted, where their number is public.
        """
        from privot.cli.partitioned_input import dry_run
        from privot.errors import UsageError
        from privot.mechanisms import Facts

        if self.source is None and self.codec is None:
            raise UsageError(
                "--dry-run is for tables with a schema, and for partitioned data: a folder or pattern, an address, "
                "shards or a query."
            )
        if self.source is None:
            return self._table_errors(None)
        source = self.source
        stated = sum(partition.rows or 0 for partition in source.partitions)
        known = None if self.adjacency is not self.adjacency.REPLACE_ONE else max(stated, 2)
        unit = self.options.units.unit
        facts = Facts(source.dim, known, self._clip(source.dim), self.adjacency, source.classes, unit=unit)
        found = dry_run(source, self.synthesizer.design(facts).mechanism.summands(facts))
        return found if self.codec is None else self._table_errors(known) | found

    def _table_errors(self, records: int | None) -> dict[str, Any]:
        """The errors that noise will leave in a table of a public, stated or assumed number of records."""
        from privot.cli.printing.progress import working
        from privot.mechanisms import Facts
        from privot.synthesis.tabular.expected_error import ASSUMED, foretold

        assert self.codec is not None
        replaced = self.adjacency is self.adjacency.REPLACE_ONE
        if records is None and replaced:
            records = len(table_records(self.options.data, self.codec).x)
        dim = len(self.codec.features)
        facts = Facts(
            dim,
            records if replaced else None,
            self._clip(dim),
            self.adjacency,
            self.codec.classes,
            unit=self.options.units.unit,
        )
        design = self.synthesizer.design(facts)
        known = records or self.options.records
        with working("rehearsing with made-up records", quiet=self.options.as_json):
            errors = [foretold(design, n) for n in ((known,) if known else ASSUMED)]
        return {"records": known, "errors": errors, "privacy": "no value was looked at: the noise is public"}

    def _synthesizer(self, settings: dict[str, Any]) -> Synthesizer:
        from privot.synthesis import Synthesizer
        from privot.synthesis.methods import asked_of

        o = self.options
        given: dict[str, Any] = {"encoder": read_encoder(o), "label_encoder": read_encoder(o, "label_encoder")}
        given |= {"public": read_public(o, self.facts), "options": settings or None}
        asked = any(value is not None for value in given.values())
        return Synthesizer(
            o.epsilon, o.delta, method=asked_of(o.method, **given) if asked else o.method, records=o.records,
            kind=self.kind, device=o.device, seed=o.seed, allow_unproven=o.allow_unproven,
        )  # fmt: skip

    @property
    def kind(self) -> Kind:
        """What the records are, as the options state it."""
        from privot.kinds import Images, Vectors

        if self.stated is not None:
            return self.stated
        shape = self.facts.shape or self.known.get("shape")
        kind = Vectors(self.facts.classes) if shape is None else Images(shape, self.facts.classes)
        if self.source is None:
            kind = kind.at(self.options.data)
        return replace(kind, low=self.span[0], high=self.span[1])

    def run(self, context: typer.Context, team: Team) -> SynthAnswer:
        """Start the job, or go on with the one in the output folder, and leave everything there."""
        from privot.cli.printing.interrupts import telling
        from privot.cli.printing.progress import working
        from privot.jobs.job import NAME
        from privot.synthesis.output.output_folder import write_folder

        o = self.options
        # asked first: without a ledger nothing needs to be read
        place = o.ledger or self._default_ledger()
        earlier = self._prepare(context, o.resume and (o.out / NAME).exists(), place)
        read: list[Dataset | PartitionedSource] = []
        if self.source is not None:
            context.with_resource(pass_bar(self.source, quiet=o.as_json))
            expect_ledger(self.source, place)
        design: dict[str, Any] = {}
        if earlier is None:
            # read and designed before a ledger is created: what cannot be used leaves none behind, and sets no budget
            with working("reading records", quiet=o.as_json):
                read.append(self._records())
            design = self._design(read[0])
        with ledgers.open_ledger(place, only_open=earlier is not None) as book:
            job, opened = self._opened(context, book, read, design, earlier)
            if self._warn is not None:
                # once the ledger knows the records, and before anything is paid
                self._warn()
            if earlier is None:
                self._ask()
            kept = None if self.source is None else keep_sums(self.source, job, book)
            with job.alone(), telling("synth", job, charges(book)):
                self._train(job, opened, book, team)
                if kept is not None:
                    kept.remove()
                spent = spent_in_ledger(book, job)
                kind = self._kind()
                with working("drawing samples", quiet=o.as_json):
                    rows = write_folder(self.synthesizer, o.out, o.samples, o.seed, kind, spent, o.spreadsheet_safe)
        return SynthAnswer(self.synthesizer.guarantee_, book.path, spent, self._left_out(), rows, self._public())

    def _public(self) -> dict[str, Any] | None:
        """What was made of public images, if there were some."""
        used = None if self.synthesizer.config.public is None else self.synthesizer.public_
        return None if used is None else {**used.to_dict(), "words": used.words}

    def _ask(self) -> None:
        """Ask for a unit where the schema names what looks like an identifier."""
        if self.codec is not None and self.options.units.column is None:
            ask_for_unit(self.codec)

    def _prepare(self, context: typer.Context, going_on: bool, place: Path) -> Job | None:
        """The job to go on with; or None and a new output folder, removed again if no job is started in it."""
        from privot.jobs.job import Job, prepared

        o = self.options
        if o.resume and not going_on and not o.as_json:
            typer.echo(f"There is no job in {o.out} to go on with: a new one starts.", err=True)
        if going_on:
            ledgers.check_same_records(o.new_records)
            job = Job.open(o.out)
            self._check_same(job)
            return job
        ledgers.check_no_job(o.out, place)
        context.with_resource(prepared(o.out))
        return None

    def _opened(
        self,
        context: typer.Context,
        book: Ledger,
        read: list[Dataset | PartitionedSource],
        design: dict[str, Any],
        earlier: Job | None,
    ) -> tuple[Job, Callable[[], Vault]]:
        """The job, new or resumed, and how its vault is opened: at once for a new one, when needed for the other."""
        from privot.cli.parsing.recalled_options import KEY, kept
        from privot.jobs.job import Job

        if earlier is not None:
            # a resumed job has a budget already: what its folder says may not set one, in whichever ledger
            return earlier, lambda: self._vault(self._records(), book, None)
        # handed on, not kept: from here on only the vault has the records
        vault = self._vault(read.pop(), book, (self.options.epsilon, self.options.delta))
        told = {"params": self.params, "design": design, "asked": self.asked, "ledger": book.identity}
        return Job.start(self.options.out, {**told, KEY: kept(context, book.path)}), lambda: vault

    def _train(self, job: Job, opened: Callable[[], Vault], book: Ledger, team: Team) -> None:
        from privot.cli.printing.progress import training_bar
        from privot.jobs.run import Run

        o = self.options
        with training_bar(o.epsilon, quiet=o.as_json) as tell, ledgers.second_charges():
            run = Run(job, opened, charges(book), book.identity, o.pay_again)
            self.synthesizer.run(run, progress=tell, every=o.checkpoint, team=team)

    def _records(self) -> Dataset | PartitionedSource:
        from privot.errors import UsageError

        if self.source is not None:
            return self.source
        data = self.options.data
        if self.stated is not None:
            return stated_records(data, self.stated, self.options.units)
        if data.lower().endswith(".parquet"):
            raise UsageError("A Parquet file is a table with a public schema: give --schema FILE.")
        units = self.options.units
        records = read_records(data, self.facts, private=True, unit=units.column, unit_file=units.file)
        if records.y is not None and self.facts.classes is None:
            raise UsageError("The data has labels: state the number of classes (--classes N), or --classes 0.")
        return records

    def _clip(self, dim: int) -> float:
        """The bound on norms, by a public rule; all methods but sliced bound what they release themselves."""
        low, high = self.span
        sliced = self.options.method == "sliced"
        ruled = 0.35 * dim**0.5 * max(abs(low), abs(high)) if sliced else 1.0
        return float(self.known.get("clip", ruled if self.options.clip is None else self.options.clip))

    def _held(self, records: Dataset | PartitionedSource) -> dict[str, Any]:
        """What a vault of these records is made with."""
        from privot.data.loading import Dataset

        if not isinstance(records, Dataset):
            return {
                "x": records,
                "classes": records.classes,
                "clip": self._clip(records.dim),
                "adjacency": self.adjacency,
                **self.options.units.held(records),
            }
        classes = self.facts.count
        held: dict[str, Any] = {"x": records.x, "y": records.y if classes else None, "classes": classes or None}
        held |= self.options.units.held(records)
        return held | {"clip": self._clip(records.x.shape[1]), "adjacency": self.adjacency}

    def _design(self, records: Dataset | PartitionedSource) -> dict[str, Any]:
        """What the synthesizer decides from the public facts; the vault that states them knows no ledger."""
        from privot.vault import Vault

        facts = Vault(**self._held(records), budget=(self.options.epsilon, self.options.delta)).facts
        decided = self.synthesizer.design(facts)
        decided.check_standing(self.options.allow_unproven)
        self._warn = partial(warn_of_noise, self.options, decided, facts.records or self.options.records)
        design: dict[str, Any] = decided.to_dict()
        if self.asked["steps"] is not None and self.options.method == "embedding":
            design["rules"]["steps"] = self.asked["steps"]
        return design

    def _vault(self, records: Dataset | PartitionedSource, book: Ledger, terms: tuple[float, float] | None) -> Vault:
        """The records in a vault, on the budget that `book` has for them, else on `terms`."""
        o = self.options
        held = {"label": ledgers.label_of(o.data), **self._held(records)}
        return ledgers.open_vault(book, terms=terms, new_records=o.new_records, where=o.data, **held)

    def _check_same(self, job: Job) -> None:
        """Refuse to resume a job with other options than it was started with."""
        from privot.errors import DataError, UsageError

        said = job.settings
        try:
            # begun in Python: what only a command is told is compared with the design, when the vault is opened
            asked = said["asked"] if "asked" in said else {**self.asked, "steps": self._steps(said["design"])}
            found = {**said["params"], **asked, "adjacency": said["design"]["adjacency"]}
            # without it nobody could tell whether another ledger holds the charge
            found["ledger"] = said["ledger"]
        except (KeyError, TypeError):
            raise DataError(
                f"The job in {job.folder} does not describe a synthesis that a ledger pays for: choose another folder."
            ) from None
        for name, option in {"encoder": "--encoder ", "label_encoder": "--set label_encoder="}.items():
            if found.get(name) is not None and self.params.get(name) is None:
                raise UsageError(
                    f"The job in {job.folder} was started with a public encoder: type {option}FILE again, "
                    " with its range and size."
                )
        if found.get("public") is not None and "public" not in self.params:
            raise UsageError(f"The job in {job.folder} was started with public images: type --set public=FILE again.")
        job.check_same({**self.params, **self.asked, "adjacency": str(self.adjacency)}, found)

    def _steps(self, design: dict[str, Any]) -> int | None:
        """The steps of a job that was begun in Python, where steps are typed."""
        return None if self.asked["steps"] is None else int(design["rules"]["steps"])

    def _left_out(self) -> Sequence[int | str]:
        """Classes with too few records to be told from the noise, by name where they have names."""
        if self.codec is not None or not self.synthesizer.labels_:
            return []
        gone = [int(c) for c in (self.synthesizer.counts_ == 0.0).nonzero()[0]]
        names = self.synthesizer.kind_.class_names
        return gone if names is None else [names[c] for c in gone]
