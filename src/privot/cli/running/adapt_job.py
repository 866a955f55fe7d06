"""One `privot adapt` with a target at hand, from its options to a finished folder; the target goes into a vault."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from privot.cli import ledgers
from privot.cli.records import is_folder, read_range, read_records, stated
from privot.cli.table_input import (
    NO_UNIT,
    UnitOptions,
    open_codec,
    read_labelled_table,
    read_table,
    table_facts,
    unlabelled_records,
)
from privot.jobs.charges import charges, spent_in_ledger

if TYPE_CHECKING:
    from privot.adaptation import DomainAdapter
    from privot.adaptation.adaptation_config import AdaptationConfig
    from privot.adaptation.adaptation_design import AdaptationDesign
    from privot.adaptation.source_comparison import SourceComparison
    from privot.data.loading import Dataset
    from privot.data.stated_facts import StatedFacts
    from privot.guarantee import Adjacency
    from privot.jobs.job import Job
    from privot.kinds import Kind
    from privot.ledger import Ledger
    from privot.mechanisms.mechanism import Facts
    from privot.tables import TableCodec
    from privot.vault import Vault


@dataclass(frozen=True)
class AdaptOptions:
    """The options of `privot adapt` that describe an adaptation, as they were typed."""

    source: str
    epsilon: float
    delta: float
    adjacency: str | None
    method: str | None
    schema: Path | None
    network: str | None
    classes: str | None
    shape: str | None
    value_range: str | None
    settings: list[str] | None
    test: str | None
    device: str
    allow_unproven: bool
    seed: int | None
    units: UnitOptions = NO_UNIT


@dataclass(frozen=True)
class AdaptRun:
    """The options that say where and how the job runs."""

    target: str
    out: Path
    ledger: Path | None
    resume: bool
    pay_again: bool
    new_records: bool
    checkpoint: float
    as_json: bool


@dataclass(frozen=True)
class AdaptAnswer:
    """What an adaptation ends with: the trained adapter, its score if there was a test set, and who paid."""

    adapter: DomainAdapter
    accuracy: float | None
    payer: str
    paid: dict[str, Any]
    spent: dict[str, Any] | None = None
    compared: SourceComparison | None = None


class _Arrays:
    """Records that are numbers, as the options state them."""

    clip = 1.0
    """The mechanisms bound what they compute themselves; the clip only has to be a number."""

    def __init__(self, options: AdaptOptions) -> None:
        from privot.kinds import Images, Vectors

        self.options, self.facts = options, stated(options.classes, options.shape)
        low, high = read_range(options.value_range, options.source)
        shape = self.facts.shape
        self.kind: Kind = Vectors(low=low, high=high) if shape is None else Images(shape, low=low, high=high)

    def source(self) -> Any:
        """What the adapter takes for its source."""
        public = read_records(self.options.source, self.facts)
        return public.x, public.y

    def held_out(self) -> Dataset | None:
        """The labelled records to score on."""
        return read_held_out(self.options.test, self.facts)

    def target(self, target: str) -> Dataset:
        """The private records, on their way into a vault."""
        units = self.options.units
        whose: dict[str, Any] = {"unit": units.column, "unit_file": units.file}
        return read_records(target, self.facts, labels=False, private=True, **whose)


class _Tables:
    """Rows of a table, as its schema states them."""

    def __init__(self, options: AdaptOptions, codec: TableCodec) -> None:
        from privot.kinds import as_kind

        self.options, self.codec, self.kind = options, codec, as_kind(codec)
        given = {"--classes": options.classes, "--shape": options.shape, "--range": options.value_range}
        self.clip: float = table_facts(codec, given)["clip"]

    def source(self) -> Any:
        """The public table."""
        return read_table(self.options.source)

    def held_out(self) -> Dataset | None:
        """The labelled rows to score on."""
        test = self.options.test
        return None if test is None else read_labelled_table(test, self.codec)

    def target(self, target: str) -> Dataset:
        """The private rows, whose label is not read if there is one."""
        return unlabelled_records(target, self.codec, self.options.units)


class PlannedAdaptation:
    """The adapter that the options describe, with the public source and the test set; no private record is read."""

    def __init__(self, options: AdaptOptions, target: str | None = None) -> None:
        from privot.adaptation import DomainAdapter

        self.options = o = options
        self.adjacency: Adjacency = _checked(o, target)
        codec = open_codec(o.schema, o.units)
        self.records = _Arrays(o) if codec is None else _Tables(o, codec)
        self.public, self.held_out = self.records.source(), self.records.held_out()
        self.adapter = DomainAdapter(
            o.epsilon, o.delta, method=_asked_method(o, self.records.kind), network=o.network, kind=self.records.kind,
            device=o.device, seed=o.seed, allow_unproven=o.allow_unproven,
        )  # fmt: skip
        self.typed = {"classes": o.classes, "unit": o.units.column, "per_unit": o.units.rows}
        """What a job says beside what the adapter is asked."""

    @property
    def asked(self) -> dict[str, Any]:
        """What is asked for, as the job says it."""
        return self.adapter.asked | self.typed

    def design(self, facts: Facts, *, by_request: bool = False) -> AdaptationDesign:
        """What the adapter decides; refuses a method that asks nothing of the target."""
        from privot.errors import UsageError

        design = self.adapter.design(facts, self.public, by_request=by_request)
        if not design.settings.blocks:
            raise UsageError(f"The method {design.settings.name} does not look at TARGET: choose another, or --open.")
        return design

    def run(self, context: typer.Context, how: AdaptRun) -> AdaptAnswer:
        """Start the job, or go on with the one in the output folder, and leave everything there."""
        from privot.adaptation.source_comparison import leave_comparison, leave_model
        from privot.cli.printing.interrupts import telling
        from privot.jobs.job import NAME
        from privot.vault import Vault

        o = self.options
        place = how.ledger or ledgers.default_ledger(how.target, how.out)
        earlier = self._prepare(context, how, how.resume and (how.out / NAME).exists(), place)
        read: list[Dataset] = []
        design: AdaptationDesign | None = None
        if earlier is None:
            # read and designed before a ledger is created: the first run sets the budget, and must be able to run
            read.append(self.records.target(how.target))
            design = self.design(Vault(**self._held(read[0]), budget=(o.epsilon, o.delta)).facts)
        with ledgers.open_ledger(place, only_open=earlier is not None) as book:
            job, opened = self._opened(context, how, book, read, design, earlier)
            with job.alone(), telling("adapt", job, charges(book)):
                self._train(job, opened, book, how)
                spent = spent_in_ledger(book, job)
                accuracy = leave_model(self.adapter, how.out, self.held_out, spent)
        paid = {"ledger": str(book.path), "spent_in_ledger": spent}
        compared = leave_comparison(self.adapter, how.out, self.public, self.held_out)
        return AdaptAnswer(self.adapter, accuracy, str(book.path), paid, spent, compared)

    def _prepare(self, context: typer.Context, how: AdaptRun, going_on: bool, place: Path) -> Job | None:
        """The job to go on with; or None and a new output folder, removed again if no job is started in it."""
        from privot.jobs.job import Job, prepared

        if going_on:
            ledgers.check_same_records(how.new_records)
            job = Job.open(how.out)
            self.adapter.check_same(job, self.typed)
            return job
        ledgers.check_no_job(how.out, place)
        context.with_resource(prepared(how.out))
        return None

    def _opened(
        self,
        context: typer.Context,
        how: AdaptRun,
        book: Ledger,
        read: list[Dataset],
        design: AdaptationDesign | None,
        earlier: Job | None,
    ) -> tuple[Job, Callable[[], Vault]]:
        """The job, new or resumed, and how its vault is opened: at once for a new one, when needed for the other."""
        from privot.cli.parsing.recalled_options import KEY, kept
        from privot.jobs.job import Job

        if earlier is not None:
            # a resumed job has a budget already: what its folder says may not set one, in whichever ledger
            return earlier, lambda: self._vault(self.records.target(how.target), how, book, None)
        assert design is not None
        # handed on, not kept: from here on only the vault has the records
        vault = self._vault(read.pop(), how, book, (self.options.epsilon, self.options.delta))
        told = {"asked": self.asked, "design": design.to_dict(), "ledger": book.identity}
        return Job.start(how.out, {**told, KEY: kept(context, book.path)}), lambda: vault

    def _train(self, job: Job, opened: Callable[[], Vault], book: Ledger, how: AdaptRun) -> None:
        from privot.cli.printing.progress import training_bar
        from privot.jobs.run import Run

        with training_bar(self.options.epsilon, quiet=how.as_json) as tell, ledgers.second_charges():
            run = Run(job, opened, charges(book), book.identity, how.pay_again)
            self.adapter.run(run, self.public, progress=tell, every=how.checkpoint)

    def _held(self, records: Dataset) -> dict[str, Any]:
        """What a vault of these records is made with."""
        held: dict[str, Any] = {"x": records.x, "clip": self.records.clip, "adjacency": self.adjacency}
        return held | self.options.units.held(records)

    def _vault(self, records: Dataset, how: AdaptRun, book: Ledger, terms: tuple[float, float] | None) -> Vault:
        """The records in a vault, on the budget that `book` has for them, else on `terms`."""
        held = {**self._held(records), "label": ledgers.label_of(how.target)}
        return ledgers.open_vault(book, terms=terms, new_records=how.new_records, where=how.target, **held)


def read_held_out(test: str | None, facts: StatedFacts) -> Dataset | None:
    """The labelled records to score on, if any."""
    from privot.errors import UsageError

    held_out = None if test is None else read_records(test, facts, part="test")
    if held_out is not None and held_out.y is None:
        raise UsageError("The test records have no labels to score against: name them y.")
    return held_out


def _checked(options: AdaptOptions, target: str | None) -> Adjacency:
    """The adjacency, once ε, δ, the method, the unit and the adjacency are known to work."""
    from privot.adaptation.adaptation_methods import METHODS, method_named
    from privot.common.arguments import check_delta, check_epsilon
    from privot.errors import UsageError
    from privot.guarantee import Adjacency

    check_epsilon(options.epsilon), check_delta(options.delta)
    if options.method is not None:
        method_named(options.method).check_allowed(options.allow_unproven)
    units = options.units
    units.check(options.schema, options.adjacency, target or "")
    if units.column is not None:
        _check_one_file(target or "", options.schema)
        if options.method is not None and not method_named(options.method).sums:
            raise UsageError(
                f"The method {options.method} shows or draws single records, so it cannot protect {units.unit}: choose "
                f"{' or '.join(name for name in METHODS.own if method_named(name).sums)}, or leave --unit out."
            )
        return Adjacency.ADD_REMOVE
    adjacency = Adjacency.REPLACE_ONE if options.adjacency is None else Adjacency.parse(options.adjacency)
    if adjacency is not Adjacency.REPLACE_ONE:
        raise UsageError(f"Without --unit privot adapt works with --adjacency replace-one only, got {adjacency}.")
    return adjacency


def _check_one_file(target: str, schema: Path | None) -> None:
    """Refuse, before anything is read, a unit of partitioned data, which the command does not adapt to."""
    from privot.errors import UsageError
    from privot.partitions.source_opening import is_partitioned

    if is_partitioned(target, None) or (schema is not None and is_folder(target)):
        raise UsageError("privot adapt reads TARGET from one file or a folder of images: give one of those.")


def _asked_method(options: AdaptOptions, kind: Kind) -> AdaptationConfig:
    """The method, with the settings that were typed."""
    from privot.adaptation.adaptation_methods import method_named, usual_method
    from privot.errors import UsageError
    from privot.opening import parse_json

    method = method_named(options.method or usual_method(kind), kind)
    names, given = {f.name for f in fields(method.config)}, {}
    for text in options.settings or ():
        name, _, value = text.partition("=")
        if name not in names:
            raise UsageError(f"--set: there is no setting {name!r}; use one of {', '.join(sorted(names))}.")
        try:
            given[name] = parse_json(value)
        except ValueError:
            given[name] = value
    try:
        return method.config(**given)
    except TypeError:
        raise UsageError(f"--set: a value is of the wrong kind in {', '.join(options.settings or ())}.") from None
