"""`privot release …`: one simple number of one column, with an interval for its noise and its guarantee."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from privot.cli.parsing import options as shared
from privot.cli.parsing.options import AsJson, Epsilon, LedgerFile, Neighbours, NewRecords, OptionalDelta
from privot.cli.parsing.shared_options import command_with
from privot.cli.parsing.typed_values import read_numbers, read_pair
from privot.cli.printing.printed_answer import number, print_facts, print_json, print_table

if TYPE_CHECKING:
    from privot.cli.running.summary_release import SummaryAnswer, SummaryOptions
    from privot.mechanisms.mechanism import Identified

app = typer.Typer(
    help="Release one simple number of a private data set: count, mean, histogram or quantile.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

Data = Annotated[str, typer.Argument(metavar="DATA", help="A file, images by class, digits, or partitioned data.")]
AnyColumn = Annotated[str, typer.Option("--column", help="Column: its name, or its number from 0.")]
OneRange = Annotated[
    str | None,
    typer.Option("--range", metavar="LOW,HIGH", help="Public range of the column; stated already in a schema."),
]
NewBudget = Annotated[
    float | None, typer.Option("--budget", help="Total epsilon of data without a ledger. Default: --epsilon.")
]
Level = Annotated[float, typer.Option(help="Probability that the interval covers the noise.")]
OutFile = Annotated[Path | None, typer.Option("--out", help="New file to keep the release in (.npz).")]


@dataclass(frozen=True)
class Asked:
    """What every command here is asked, with how its answer is shown."""

    options: SummaryOptions
    level: float
    out: Path | None
    as_json: bool

    def of(self, classes: str | None) -> Asked:
        """The same of records with these classes."""
        return replace(self, options=replace(self.options, classes=classes))

    def release(self, what: str, mechanism: Callable[..., Identified], **terms: Any) -> None:
        """Release what `mechanism`(epsilon=…, delta=…, level=…, …) states, and print it as `what`."""
        from privot.cli.running.summary_release import release_summary

        make = partial(mechanism, level=self.level, **terms)
        show = partial(_print, what=what, out=self.out, as_json=self.as_json)
        release_summary(self.options, make, f"release {what}"[:130], show)


def asked_of_every(
    data: Data,
    epsilon: Epsilon,
    adjacency: Neighbours,
    delta: OptionalDelta = None,
    schema: shared.SchemaFile = None,
    unit: shared.UnitColumn = None,
    per_unit: shared.RowsPerUnit = None,
    unit_file: shared.UnitFile = None,
    shape: shared.Shape = None,
    query: shared.Query = None,
    partitions: shared.Partitions = None,
    engine: shared.EngineName = None,
    scheduler: shared.Scheduler = None,
    workers: shared.Workers = None,
    ledger: LedgerFile = None,
    budget: NewBudget = None,
    new_records: NewRecords = False,
    level: Level = 0.95,
    out: OutFile = None,
    as_json: AsJson = False,
) -> Asked:
    """The arguments and options of every command here."""
    from privot.cli.partitioned_input import PartitionOptions
    from privot.cli.running.summary_release import SummaryOptions
    from privot.cli.table_input import UnitOptions

    cuts = PartitionOptions(query, partitions, engine, scheduler, workers)
    units = UnitOptions(unit, per_unit, unit_file)
    options = SummaryOptions(
        data, epsilon, delta, adjacency, schema, None, shape, ledger, budget, new_records, out, cuts, as_json, units
    )
    return Asked(options, level, out, as_json)


command = command_with(app, asked_of_every)


@command
def count(
    asked: Asked,
    column: Annotated[str | None, typer.Option(help="Column: its name, or its number from 0.")] = None,
    between: Annotated[
        str | None, typer.Option(metavar="LOW,HIGH", help="Count records with a value from LOW to HIGH.")
    ] = None,
    category: Annotated[str | None, typer.Option(help="Count records of this category.")] = None,
    classes: shared.ClassesOrNumber = None,
) -> None:
    """Release how many records there are, or how many have a value or category in one column.

    Example: privot release count patients.csv --schema schema.json --column age --between 65,120 --epsilon 0.5
    --delta 1e-6 --adjacency add-remove
    """
    from privot.cli.running.summary_release import column_of
    from privot.mechanisms import Count

    named = None if column is None else column_of(column)
    span = None if between is None else read_pair(between, "--between")
    what = "count" if column is None else f"count by {column}"
    asked.of(classes).release(what, Count, column=named, between=span, category=category)


@command
def mean(asked: Asked, column: AnyColumn, value_range: OneRange = None) -> None:
    """Release the mean of one column; values beyond its public range are clamped to it.

    Example: privot release mean patients.csv --schema schema.json --column age --epsilon 0.5 --delta 1e-6 --adjacency
    add-remove
    """
    from privot.cli.running.summary_release import column_of
    from privot.mechanisms import Mean

    asked.release(f"mean of {column}", Mean, column=column_of(column), range=_span(value_range))


@command
def histogram(
    asked: Asked,
    column: AnyColumn,
    bins: Annotated[
        str | None,
        typer.Option(metavar="N|EDGES", help="Number of equal bins, or their edges: 0,18,65,120. Default: 10."),
    ] = None,
    value_range: OneRange = None,
    classes: shared.ClassesOrNumber = None,
) -> None:
    """Release how many records fall into each bin, or category, of one column; --column label counts classes.

    Example: privot release histogram patients.csv --schema schema.json --column age --bins 0,18,65,120 --epsilon 0.5
    --delta 1e-6 --adjacency add-remove
    """
    from privot.cli.running.summary_release import column_of
    from privot.mechanisms import Histogram

    terms = {"column": column_of(column), "bins": _bins(bins), "range": _span(value_range)}
    asked.of(classes).release(f"histogram of {column}", Histogram, **terms)


@command
def quantile(
    asked: Asked,
    column: AnyColumn,
    at: Annotated[
        str, typer.Option(metavar="Q,Q,…", help="Which quantiles, each between 0 and 1; several cost no more than one.")
    ] = "0.5",
    value_range: OneRange = None,
    cells: Annotated[int | None, typer.Option(help="Cells of the public grid. Default: 1024.")] = None,
) -> None:
    """Release quantiles of one column (the median unless --at is given), on a public grid over its range.

    Example: privot release quantile patients.csv --schema schema.json --column age --at 0.25,0.5,0.75 --epsilon 0.5
    --delta 1e-6 --adjacency add-remove
    """
    from privot.cli.running.summary_release import column_of
    from privot.mechanisms import Quantiles
    from privot.mechanisms.summaries.quantiles import CELLS

    grid = CELLS if cells is None else cells
    terms = {"probabilities": read_numbers(at, "--at"), "range": _span(value_range), "cells": grid}
    asked.release(f"quantiles of {column}", Quantiles, column=column_of(column), **terms)


def _span(text: str | None) -> tuple[float, float] | None:
    return None if text is None else read_pair(text)


def _bins(text: str | None) -> int | tuple[float, ...] | None:
    """A number of bins, or their edges."""
    if text is None:
        return None
    return int(text) if text.isdecimal() and len(text) < 10 else read_numbers(text, "--bins")


def _print(made: SummaryAnswer, what: str, out: Path | None, as_json: bool) -> None:
    from privot.cli.printing.command_warnings import with_warnings
    from privot.cli.printing.guarantee_words import in_words, summary
    from privot.cli.printing.summary_words import answer_rows, plain_value

    release = made.release
    if as_json:
        print_json(
            with_warnings(
                {
                    **plain_value(release),
                    "public": dict(release.public),
                    "out": None if out is None else str(out),
                    "ledger": None if made.ledger is None else str(made.ledger),
                    "budget_epsilon": made.budget,
                    "spent_epsilon": made.spent,
                    "paid_before": made.before,
                    "guarantee": summary(release.guarantee),
                }
            )
        )
        return
    header, rows = answer_rows(release, made.codec)
    if rows:
        print_table(header, rows)
        typer.echo("")
        facts = []
    else:
        facts = [(what, header[0])]
    facts += [
        ("interval", f"{100 * release.public['level']:g} %, {release.public['interval_covers']}"),
        ("privacy", in_words(release.guarantee)),
    ]
    if release.guarantee.unit is not None:
        unit = release.guarantee.unit
        facts.insert(-2, ("taking part", f"at most {unit.rows} row{'' if unit.rows == 1 else 's'} of each {unit.name}"))
    if made.ledger is None:
        facts.append(("charged to", "nobody: this data is built in"))
    else:
        left = f"ε = {number(made.spent, 4)} of {number(made.budget, 4)} at its δ is spent"
        before = ", in an earlier attempt: this is the release that it paid for" if made.before else ""
        facts.append(("charged to", f"{made.ledger}{before}; {left}"))
    if out is not None:
        facts.append(("kept in", str(out)))
    print_facts(facts)
