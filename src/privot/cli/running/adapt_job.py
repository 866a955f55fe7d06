"""One `privot adapt` with a target at hand, from its options to a finished folder; the target goes into a vault."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from privot.cli import ledgers
from privot.cli.parsing.typed_values import read_pair
from privot.cli.records import is_folder, read_records, stated
from privot.cli.running.source_baseline import SourceComparison, compare_with_source
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
    from privot.adaptation import AdaptationConfig, DomainAdapter
    from privot.adaptation.adaptation_design import AdaptationDesign
    from privot.data.loading import Dataset
    from privot.data.stated_facts import StatedFacts
    from privot.guarantee import Adjacency
    from privot.jobs.job import Job
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


class PlannedAdaptation:
    """The adapter that the options describe, with the public source and the test set; no private record is read."""

    def __init__(self, options: AdaptOptions, target: str | None = None) -> None:
        from privot.adaptation import DomainAdapter
        from privot.adaptation.adaptation_config import default_method

        self.options = o = options
        self.adjacency: Adjacency = _checked(o, target)
        self.codec: TableCodec | None = open_codec(o.schema, o.units)
        self.facts: StatedFacts = stated(o.classes, o.shape)
        self.public: Any
        """What the adapter takes for its source."""
        if self.codec is None:
            low, high = _range(o.value_range, o.source)
            public = read_records(o.source, self.facts)
            self.public, self.held_out = (public.x, public.y), read_held_out(o.test, self.facts)
        else:
            given = {"--classes": o.classes, "--shape": o.shape, "--range": o.value_range}
            low, high = (table_facts(self.codec, given)[name] for name in ("low", "high"))
            self.public = read_table(o.source)
            self.held_out = None if o.test is None else read_labelled_table(o.test, self.codec)
        # of arrays the mechanisms bound what they compute themselves; the clip only has to be a number
        self.clip = 1.0 if self.codec is None else self.codec.bound(compact=True)
        method = o.method or default_method(self.facts.shape is not None, self.codec is not None)
        self.adapter = DomainAdapter(
            o.epsilon, o.delta, method=method, network=o.network, shape=self.facts.shape, low=low, high=high,
            codec=self.codec, device=o.device, seed=o.seed, allow_unproven=o.allow_unproven,
        )  # fmt: skip
        self.asked: dict[str, Any] = {
            "method": method, "network": o.network, "shape": o.shape, "low": low, "high": high,
            "set": o.settings or [], "epsilon": o.epsilon, "delta": o.delta, "seed": o.seed, "classes": o.classes,
            **({} if self.codec is None else {"codec": self.codec.to_dict()}),
        }  # fmt: skip
        if o.units.column is not None:
            self.asked |= {"unit": o.units.column, "per_unit": o.units.rows}

    def design(self, facts: Facts, *, by_request: bool = False) -> AdaptationDesign:
        """What the adapter decides, with what the user set in place of it."""
        design = self.adapter.design(facts, self.public, by_request=by_request)
        if self.options.settings:
            self.adapter.settings = _changed(design.settings, self.options.settings)
            design = self.adapter.design(facts, self.public, by_request=by_request)
        return design

    def run(self, context: typer.Context, how: AdaptRun) -> AdaptAnswer:
        """Start the job, or go on with the one in the output folder, and leave everything there."""
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
            read.append(self._records(how.target))
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
            self._check_same(job)
            return job
        ledgers.check_no_job(how.out, place)
        context.with_resource(prepared(how.out))
        return None

    def _check_same(self, job: Job) -> None:
        """Refuse to resume a job with other options than it was started with."""
        from privot.adaptation.adaptation_design import AdaptationDesign
        from privot.errors import DataError, UsageError

        if "request" in job.settings:
            raise UsageError(f"The job in {job.folder} waits for an answer to its request: use privot adapt --answer.")
        wrong = DataError(
            f"The job in {job.folder} does not describe an adaptation that a ledger pays for: choose another folder."
        )
        found = job.settings.get("asked")
        if not isinstance(found, dict) or "ledger" not in job.settings:
            raise wrong
        wanted: dict[str, Any]
        if "set" in found:
            alone = {"unit": None, "per_unit": None}
            wanted, found = alone | self.asked, alone | found
        else:
            # begun in Python: what only a command is told is compared with the design, when the vault is opened
            wanted = self.adapter.asked
            given = self.options.settings
            if not given:
                wanted = {**wanted, "settings": found.get("settings")}
            else:
                decided = AdaptationDesign.from_dict(job.settings.get("design", {})).settings
                wanted = {**wanted, "settings": _changed(decided, given).to_dict()}
                found = {**found, "settings": decided.to_dict()}
        if set(wanted) != set(found):
            raise wrong
        job.check_same(wanted, found)

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
            return earlier, lambda: self._vault(self._records(how.target), how, book, None)
        assert design is not None
        # handed on, not kept: from here on only the vault has the records
        vault = self._vault(read.pop(), how, book, (self.options.epsilon, self.options.delta))
        told = {"asked": self.asked, "design": design.to_dict(), "ledger": book.identity}
        return Job.start(how.out, {**told, KEY: kept(context, book.path)}), lambda: vault

    def _train(self, job: Job, opened: Callable[[], Vault], book: Ledger, how: AdaptRun) -> None:
        from privot.cli.printing.progress import training_bar

        with training_bar(self.options.epsilon, quiet=how.as_json) as tell, ledgers.second_charges():
            self.adapter.run(
                job,
                self.public,
                opened,
                charges(book),
                ledger=book.identity,
                pay_again=how.pay_again,
                progress=tell,
                every=how.checkpoint,
            )

    def _records(self, target: str) -> Dataset:
        units = self.options.units
        if self.codec is not None:
            return unlabelled_records(target, self.codec, units)
        whose: dict[str, Any] = {"unit": units.column, "unit_file": units.file}
        return read_records(target, self.facts, labels=False, private=True, **whose)

    def _held(self, records: Dataset) -> dict[str, Any]:
        """What a vault of these records is made with."""
        held: dict[str, Any] = {"x": records.x, "clip": self.clip, "adjacency": self.adjacency}
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


def leave_model(
    adapter: DomainAdapter, out: Path, held_out: Dataset | None, spent: dict[str, Any] | None = None
) -> float | None:
    """Leave model, guarantee and report in `out`; the accuracy where there is a test set."""
    from privot.adaptation.model_folder import write_evaluation, write_report
    from privot.jobs.spending import write_spent

    accuracy = None
    adapter.save(out)
    write_spent(out, spent)
    if held_out is not None:
        accuracy = adapter.score(held_out.x, held_out.y)
        write_evaluation(out, accuracy, len(held_out.x))
    write_report(out)
    return accuracy


def leave_comparison(
    adapter: DomainAdapter, out: Path, source: Any, held_out: Dataset | None
) -> SourceComparison | None:
    """Compare with the source alone, and add that and what was taken for what to the page that is not private."""
    from privot.adaptation.model_folder import write_evaluation, write_report
    from privot.evaluation.classifiers import confusion

    beside: dict[str, Any]
    if held_out is None or held_out.y is None:
        return None
    compared = compare_with_source(adapter, source, held_out)
    taken = confusion(held_out.y, adapter.predict(held_out.x))
    beside = {} if compared is None else {"baseline": compared.source_only, "harmed": compared.harmed}
    write_evaluation(out, adapter.score(held_out.x, held_out.y), len(held_out.x), taken, **beside)
    write_report(out)
    return compared


def _checked(options: AdaptOptions, target: str | None) -> Adjacency:
    """The adjacency, once ε, δ, the method, the unit and the adjacency are known to work."""
    from privot.adaptation.adaptation_config import METHODS, UNPROVEN
    from privot.adaptation.adaptation_design import SUMS
    from privot.common.arguments import check_delta, check_epsilon
    from privot.errors import UnprovenError, UsageError
    from privot.guarantee import Adjacency

    check_epsilon(options.epsilon), check_delta(options.delta)
    method = options.method
    if method is not None and (method not in METHODS or method == "source"):
        raise UsageError(f"Unknown method {method!r}: use {', '.join(m for m in METHODS if m != 'source')}.")
    if method in UNPROVEN and not options.allow_unproven:
        raise UnprovenError(f"The method {method} has no privacy proof: add --allow-unproven to use it anyway.")
    units = options.units
    units.check(options.schema, options.adjacency, target or "")
    if units.column is not None:
        _check_one_file(target or "", options.schema)
        if method is not None and method not in SUMS:
            raise UsageError(
                f"The method {method} shows or draws single records, so it cannot protect {units.unit}: choose "
                f"{' or '.join(SUMS)}, or leave --unit out."
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


def _changed(settings: AdaptationConfig, given: list[str]) -> AdaptationConfig:
    """`settings` with what the user set in place of it."""
    from privot.errors import UsageError
    from privot.opening import parse_json

    names = {f.name for f in fields(settings)} - {"method", "network"}
    changes: dict[str, Any] = {}
    for text in given:
        name, _, value = text.partition("=")
        if name not in names:
            raise UsageError(f"--set: there is no setting {name!r}; use one of {', '.join(sorted(names))}.")
        try:
            changes[name] = parse_json(value)
        except ValueError:
            changes[name] = value
        if not isinstance(changes[name], int | float | str | None):
            raise UsageError(f"--set must be NAME=VALUE, got {text!r}.")
    try:
        return replace(settings, **changes)
    except TypeError:
        raise UsageError(f"--set: a value is of the wrong kind in {', '.join(given)}.") from None


def _range(text: str | None, source: str) -> tuple[float, float]:
    """The public range of the records; only that of the built-in digits is known."""
    from privot.errors import UsageError

    if text is None:
        if source == "digits":
            return 0.0, 1.0
        raise UsageError("The range of values is public and must be stated: give --range LOW,HIGH.")
    return read_pair(text)
