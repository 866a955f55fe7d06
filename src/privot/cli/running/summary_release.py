"""One `privot release`: one simple number, checked first, paid for by the ledger of the data, then shown."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from privot.cli import ledgers
from privot.cli.partitioned_input import PartitionOptions, expect_ledger, named_ledger, pass_bar
from privot.cli.records import check_new_file, read_records, stated
from privot.cli.table_input import NO_UNIT, UnitOptions, check_alone, open_codec, table_records

if TYPE_CHECKING:
    from privot.ledger import Ledger
    from privot.mechanisms.mechanism import Identified
    from privot.partitions.source import PartitionedSource
    from privot.release import Release
    from privot.tables import TableCodec


@dataclass(frozen=True)
class SummaryOptions:
    """What every `privot release …` takes, as it was typed."""

    data: str
    epsilon: float
    delta: float | None
    adjacency: str
    schema: Path | None
    classes: str | None
    shape: str | None
    ledger: Path | None
    budget: float | None
    new_records: bool
    out: Path | None
    partitions: PartitionOptions = field(default_factory=PartitionOptions)
    quiet: bool = False
    units: UnitOptions = NO_UNIT


@dataclass(frozen=True)
class SummaryAnswer:
    """A release; the ledger that paid, if any; the budget's ε and what of it is spent now."""

    release: Release
    codec: TableCodec | None
    ledger: Path | None = None
    budget: float | None = None
    spent: float | None = None
    before: bool = False
    """Whether an earlier attempt paid."""


Show = Callable[[SummaryAnswer], None]
"""Prints an answer."""


def column_of(text: str) -> int | str:
    """A column's number, if that is what was typed, else its name."""
    return int(text) if text.isdecimal() and len(text) < 10 else text


def release_summary(options: SummaryOptions, make: Callable[..., Identified], purpose: str, show: Show) -> None:
    """Check everything, charge the ledger of the data, release what `make`(epsilon=…, delta=…) states, and `show` it.

    A release that was paid for and neither shown nor written by an earlier attempt is shown at no further cost.
    """
    from privot.common.arguments import check_delta, check_epsilon

    o = options
    check_epsilon(o.epsilon)
    if o.delta is not None:
        check_delta(o.delta)
    if o.budget is not None:
        check_epsilon(o.budget)
    if o.out is not None:
        check_new_file(o.out, "release")
    o.units.check(o.schema, o.adjacency, o.data)
    codec = open_codec(o.schema, o.units)
    held = _held(o, codec)
    public = o.ledger is None and o.data in ledgers.BUILT_IN
    source = held["x"] if "y" not in held else None
    place = named_ledger(o.ledger) if source is not None else o.ledger or ledgers.default_ledger(o.data, Path(o.data))
    with ExitStack() as stack:
        if source is not None:
            stack.enter_context(pass_bar(source, o.quiet))
            expect_ledger(source, place)
        _release(o, make, purpose, codec, held, None if public else place, show)


def _release(
    o: SummaryOptions,
    make: Callable[..., Identified],
    purpose: str,
    codec: TableCodec | None,
    held: dict[str, Any],
    place: Path | None,
    show: Show,
) -> None:
    """Release and show, paid by the ledger at `place`; None where the data belong to nobody."""
    from privot.cli.printing.interrupts import delivered
    from privot.cli.printing.printed_answer import in_one_piece
    from privot.jobs.paid_question import release_once
    from privot.vault import Vault

    delta = o.delta if o.delta is not None else _known_delta(o, place, held)
    mechanism = make(epsilon=o.epsilon, delta=delta)
    # asked before a ledger is created, so that what cannot be released leaves none behind
    trial = Vault(**held, budget=(o.epsilon, delta))
    mechanism.needs.check(trial.facts)
    mechanism.event(trial.facts)
    if place is None:
        # the data is public: there is nobody whose budget could be spent
        free = trial.release(mechanism, purpose=purpose)
        if o.out is not None:
            free.save(o.out)
        return show(SummaryAnswer(free, codec))
    # partitions lie beside no ledger, so their first release names a new one
    partitioned = "y" not in held
    with ledgers.paying_ledger(o.data, o.ledger, Path(o.data), may_be_new=partitioned) as (book, own):
        terms = (o.budget or o.epsilon, delta) if own or o.new_records else None
        _check_budget(o, book, held)
        vault = ledgers.open_vault(book, terms=terms, new_records=o.new_records, where=o.data, **held)
        with release_once(vault, mechanism, purpose=purpose, delta=delta) as paid:
            name = vault.data_name()
            budget, spent = book.budget(name), book.spent(name)
            assert budget is not None
            assert spent is not None
            made = SummaryAnswer(paid.value, codec, book.path, budget.epsilon, spent.epsilon(), paid.before)
            if o.out is not None:
                paid.put(o.out, paid.value.save)
            else:
                with in_one_piece():
                    show(made)
        if o.out is not None:
            with delivered(o.out):
                show(made)


def _held(o: SummaryOptions, codec: TableCodec | None) -> dict[str, Any]:
    """What a vault of these records is made with."""
    from privot.errors import UsageError
    from privot.kinds import Vectors

    held: dict[str, Any] = {"adjacency": o.adjacency, "label": ledgers.label_of(o.data)}
    if o.schema is not None:
        check_alone({"--classes": o.classes, "--shape": o.shape})
    source = _source(o, codec)
    if source is not None:
        return held | {"x": source, "classes": source.classes, "clip": source.clip or 1.0, **o.units.held(source)}
    if codec is not None:
        records = table_records(o.data, codec, o.units)
        return held | {"x": records.x, "y": records.y, "kind": codec, **o.units.held(records)}
    if o.data.lower().endswith(".parquet"):
        raise UsageError("A Parquet file is a table with a public schema: give --schema FILE.")
    facts = stated(o.classes, o.shape)
    whose: dict[str, Any] = {"unit": o.units.column, "unit_file": o.units.file}
    records = read_records(o.data, facts, labels=facts.count is not None, private=True, **whose)
    if facts.count is not None and records.y is None:
        raise UsageError("--classes needs labels in the data.")
    # nothing is clipped by norm: a simple number clamps the values of its own column
    kind = Vectors(facts.count, 1.0, columns=records.columns or ())
    return held | {"x": records.x, "y": records.y, "kind": kind, **o.units.held(records)}


def _source(o: SummaryOptions, codec: TableCodec | None) -> PartitionedSource | None:
    """Partitioned data, of which no record is read yet; None where DATA is one file."""
    from privot.data.stated_facts import StatedFacts

    if o.data in ledgers.BUILT_IN:
        return None
    facts = stated(o.classes, o.shape)
    return o.partitions.open(o.data, codec, StatedFacts(facts.classes or 0, facts.shape), o.units.column)


def _known_delta(o: SummaryOptions, place: Path | None, held: dict[str, Any]) -> float:
    """The δ of the budget that the ledger has for these records; refuses other records as the release would."""
    from privot.errors import UsageError
    from privot.ledger import Ledger

    if place is not None and place.is_file():
        with Ledger.open(place) as book, ledgers.naming_the_option():
            found = book.admit(_fingerprint(book, held), new_records=o.new_records)
            if found is not None:
                return found.delta
    raise UsageError("These records have no budget yet, whose δ would be taken: give --delta.")


def _check_budget(o: SummaryOptions, book: Ledger, held: dict[str, Any]) -> None:
    """Refuse another --budget than the one that the ledger has for these records: a budget is set once."""
    from privot.errors import UsageError

    known = book.budget(_fingerprint(book, held))
    if o.budget is not None and known is not None and o.budget != known.epsilon:
        raise UsageError(
            f"These records have a budget of ε = {known.epsilon:g} at δ = {known.delta:g}, {known.relation}, and "
            f"--budget says {o.budget:g}: leave it out, or raise the budget with privot ledger raise."
        )


def _fingerprint(book: Any, held: dict[str, Any]) -> str:
    from privot.vault.budget import account_name

    return account_name(book, held["x"])
