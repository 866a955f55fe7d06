"""`privot ledger …`: create a ledger, show what was spent, verify that nobody changed it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from privot.cli.parsing import options as shared
from privot.cli.parsing.options import AsJson, NewRecords, OptionalNeighbours, SchemaFile, Shape
from privot.cli.partitioned_input import PartitionOptions, expect_ledger, pass_bar
from privot.cli.printing.printed_answer import bar, number, print_facts, print_json, print_table
from privot.cli.records import read_records, stated
from privot.cli.table_input import UnitOptions, open_codec, table_records

if TYPE_CHECKING:
    from privot.data.stated_facts import StatedFacts
    from privot.ledger import Ledger
    from privot.ledger.ledger_rows import Budget, Entry

app = typer.Typer(
    help="Create, show, raise and verify privacy ledgers: what a data set may spend and has spent.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

File = Annotated[Path, typer.Argument(help="Ledger file. Its key and anchor lie beside it; keep the key secret.")]


def _spending(ledger: Ledger, budget: Budget) -> dict[str, Any]:
    spent = ledger.spent(budget.fingerprint)
    return {
        **budget.to_dict(),
        "spent_epsilon": 0.0 if spent is None else spent.epsilon(),
        "left_epsilon": ledger.remaining(budget.fingerprint),
        "standing": None if spent is None else str(spent.standing),
        "reservations": _costs(ledger.reservations(budget.fingerprint), budget),
        "entries": _costs(ledger.entries(budget.fingerprint), budget),
    }


def _costs(entries: Sequence[Entry], budget: Budget) -> list[dict[str, Any]]:
    """Each entry with what it alone costs at the budget's δ; these do not add up: the budget is a filter."""
    from privot.accounting import account

    # the steps of one training are equal events, thousands of them
    known: dict[str, dict[str, Any]] = {}
    answer = []
    for entry in entries:
        said = entry.to_dict()
        key = json.dumps(said["event"], sort_keys=True)
        if key not in known:
            alone = account(entry.event, budget.delta)
            known[key] = {"epsilon": alone.epsilon(), "standing": str(alone.standing)}
        answer.append(said | known[key])
    return answer


@app.command()
def init(
    file: File,
    data: Annotated[
        str | None, typer.Option(help="Data whose budget is set: a file, digits, or partitioned data as in synth.")
    ] = None,
    epsilon: Annotated[float | None, typer.Option(help="Total epsilon of all releases.")] = None,
    delta: Annotated[float | None, typer.Option(help="Delta of the budget, between 0 and 1.")] = None,
    adjacency: OptionalNeighbours = None,
    schema: SchemaFile = None,
    unit: shared.UnitColumn = None,
    unit_file: shared.UnitFile = None,
    classes: Annotated[
        str | None,
        typer.Option(metavar="N|NAMES", help="With --unit of arrays or images: the classes, if labels will be used."),
    ] = None,
    shape: Shape = None,
    query: shared.Query = None,
    partitions: shared.Partitions = None,
    engine: shared.EngineName = None,
    scheduler: shared.Scheduler = None,
    workers: shared.Workers = None,
    new_records: NewRecords = False,
    as_json: AsJson = False,
) -> None:
    """Create a ledger, or set the budget of the data set that it guards, also in an existing ledger.

    One ledger file guards one data set. Other records in it need --new-records.

    Example: privot ledger init digits.ledger --data digits --epsilon 3 --delta 1e-5 --adjacency replace-one
    """
    from privot.cli.printing.command_warnings import with_warnings
    from privot.errors import UsageError
    from privot.ledger import Ledger

    given = [data, epsilon, delta, adjacency]
    if any(g is not None for g in given) and any(g is None for g in given):
        raise UsageError("A budget needs --data, --epsilon, --delta and --adjacency together.")
    budget = None
    if data is not None and epsilon is not None and delta is not None and adjacency is not None:
        cuts = PartitionOptions(query, partitions, engine, scheduler, workers)
        units = UnitOptions(unit, file=unit_file)
        units.check(schema, adjacency, data)
        if classes is not None and (unit is None or schema is not None):
            raise UsageError("--classes is for --unit without a --schema: else a budget does not depend on labels.")
        public = stated(0 if classes is None else classes, shape)
        budget = _set_budget(file, data, (epsilon, delta), adjacency, schema, public, new_records, cuts, as_json, units)
    elif not (unit is None and unit_file is None and classes is None):
        raise UsageError("--unit is the unit of a budget: give --data, --epsilon, --delta and --adjacency with it.")
    else:
        Ledger.create(file).close()
    if as_json:
        print_json(with_warnings({"ledger": str(file), "budget": None if budget is None else budget.to_dict()}))
    elif budget is None:
        typer.echo(f"Created {file}. Keep {file}.key secret, and back up both together.")
    else:
        typer.echo(
            f"{file}: {budget.label} may spend ε = {budget.epsilon:g} at δ = {budget.delta:g}, {budget.relation}."
        )


def _set_budget(
    file: Path,
    data: str,
    terms: tuple[float, float],
    adjacency: str,
    schema: Path | None,
    public: StatedFacts,
    new_records: bool,
    cuts: PartitionOptions,
    quiet: bool,
    units: UnitOptions,
) -> Budget | None:
    """Set the budget of `data`; everything that can be refused is refused before a file is created."""
    from privot.cli.ledgers import label_of, naming_the_option, warn_of_copies
    from privot.common.arguments import check_delta, check_epsilon
    from privot.guarantee import Adjacency
    from privot.ledger import Ledger
    from privot.vault import Vault
    from privot.vault.budget import account_name

    check_epsilon(terms[0]), check_delta(terms[1])
    Adjacency.parse(adjacency)
    codec = open_codec(schema, units)
    held: dict[str, Any] = {"clip": 1.0, "adjacency": adjacency, "budget": terms, "label": label_of(data)}
    # without labels: the ledger knows records by their values; with a unit, whose a record is includes its label
    source = cuts.open(data, codec, stated(None) if codec else public, units.column)
    with ExitStack() as stack:
        if source is not None:
            held |= {"x": source, "classes": source.classes, **units.held(source)}
            stack.enter_context(pass_bar(source, quiet))
            expect_ledger(source, file)
        elif codec is not None:
            records = table_records(data, codec, units)
            held |= {"x": records.x, **units.held(records)}
            if units.column is not None:
                held |= {"y": records.y, "classes": codec.classes}
        else:
            whose: dict[str, Any] = {"unit": units.column, "unit_file": units.file}
            records = read_records(data, public, labels=public.labels, private=True, **whose)
            held |= {"x": records.x, **units.held(records)}
            if public.labels and records.y is not None:
                held |= {"y": records.y, "classes": public.count}
        # a vault checks the records before a file is created, and is the one that knows how the ledger names them
        Vault(**held)
        ledger = stack.enter_context(Ledger.open(file) if file.exists() else Ledger.create(file))
        with naming_the_option():
            warn_of_copies(ledger, held["x"], data)
            Vault(**held, ledger=ledger, new_records=new_records)
        return ledger.budget(account_name(ledger, held["x"]))


def _spent(s: dict[str, Any]) -> str:
    if s["standing"] is None:
        return "nothing"
    return f"ε = {number(s['spent_epsilon'], 6)} at δ = {s['delta']:g}, {s['relation']}, {s['standing']}"


def _picture(s: dict[str, Any]) -> str:
    """The share of ε that is spent, as a bar; before a raise it would have been another share."""
    share = s["spent_epsilon"] / s["epsilon"]
    return f"{bar(share)} {number(100.0 * share, 3)} %"


@app.command()
def show(
    file: File,
    out: Annotated[Path | None, typer.Option(help="New page (.html) with the same as a picture and a table.")] = None,
    as_json: AsJson = False,
) -> None:
    """Show what the data set may spend and has spent, entry by entry.

    Examples: privot ledger show digits.ledger; privot ledger show digits.ledger --out ledger.html
    """
    from privot.ledger import Ledger
    from privot.ledger.ledger_facts import OVER, listed_kind

    with Ledger.open(file) as ledger:
        spending = [_spending(ledger, budget) for budget in ledger.datasets()]
    if out is not None:
        _write_page(out, file.name, spending)
    if as_json:
        print_json({"ledger": str(file), "datasets": spending, **({} if out is None else {"page": str(out)})})
        return
    if out is not None:
        typer.echo(str(out))
        return
    if not spending:
        typer.echo("No data set has a budget yet: set one with privot ledger init FILE --data ….")
    for s in spending:
        typer.echo("")
        print_facts(
            [
                ("data set", f"{s['label']}  ({s['fingerprint'][:12]}…)"),
                ("budget", f"ε = {s['epsilon']:g} at δ = {s['delta']:g}, {s['relation']}"),
                ("unit", f"one {s['unit']}"),
                ("spent", _spent(s)),
                ("", _picture(s)),
                ("left", f"ε = {number(s['left_epsilon'], 6)} for one more release with Gaussian noise"),
                *([("note", OVER)] if s["spent_epsilon"] > s["epsilon"] else []),
                *[
                    ("raised", f"from ε = {r['before']:g} to ε = {r['epsilon']:g} on {r['at']}: {r['reason']}")
                    for r in s["raises"]
                ],
                *([("note", "stated to be new records, beside those above")] if s["new_records"] else []),
            ]
        )
        if s["entries"]:
            rows = [
                [str(e["id"]), e["at"], listed_kind(e), number(e["epsilon"], 6), e["standing"], e["purpose"]]
                for e in sorted([*s["reservations"], *s["entries"]], key=lambda e: int(e["id"]))
            ]
            print_table(
                ["entry", "when (UTC)", "event", f"ε at δ = {s['delta']:g}, {s['relation']}", "standing", "purpose"],
                rows,
            )


def _write_page(out: Path, name: str, spending: list[dict[str, Any]]) -> None:
    from privot.common.extras import needing
    from privot.common.files import is_taken, write_whole
    from privot.errors import UsageError

    if out.suffix.lower() not in (".html", ".htm"):
        raise UsageError(f"The page is an HTML file: give --out a name that ends in .html, not {out.name!r}.")
    if is_taken(out):
        raise UsageError(f"{out} exists already: choose another file.")
    with needing("The page needs", "synthesis"):
        from privot.report.ledger_page import ledger_page

        page = ledger_page(name, spending)
    write_whole(out, page, mode=0o644)


@app.command("raise")
def raise_(
    file: File,
    epsilon: Annotated[float, typer.Option(help="New total epsilon, greater than the budget's.")],
    reason: Annotated[str, typer.Option(help="Why; it is sealed in the ledger and shown for ever.")],
    data_set: Annotated[
        str | None, typer.Option(help="First digits of the fingerprint, if the ledger guards several data sets.")
    ] = None,
    i_am_the_steward: Annotated[
        bool, typer.Option("--i-am-the-steward", help="State that you answer for the people in the data.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Raise the budget of the data set that the ledger guards; the raise and its reason stay in the ledger for ever.

    Example: privot ledger raise digits.ledger --epsilon 5 --reason "ethics board, 12 May" --i-am-the-steward
    """
    from privot.errors import UsageError
    from privot.ledger import Ledger

    if not i_am_the_steward:
        raise UsageError(
            "A budget was promised to the people in the data, so only their steward may raise it: add "
            "--i-am-the-steward if that is you."
        )
    with Ledger.open(file) as ledger:
        budget = ledger.raise_budget(
            _one_data_set(ledger, data_set).fingerprint, epsilon, reason, i_am_the_steward=i_am_the_steward
        )
        spent = ledger.spent(budget.fingerprint)
    if as_json:
        spent_epsilon = 0.0 if spent is None else spent.epsilon()
        print_json({"ledger": str(file), "budget": budget.to_dict(), "spent_epsilon": spent_epsilon})
    else:
        typer.echo(
            f"{file}: {budget.label} may now spend ε = {budget.epsilon:g} at δ = {budget.delta:g}, {budget.relation}; "
            f"it was ε = {budget.raises[-1].before:g}."
        )


def _one_data_set(ledger: Ledger, wanted: str | None) -> Budget:
    """The data set that is meant: the only one, or the one whose fingerprint begins as `wanted`."""
    from privot.errors import UsageError

    known = ledger.datasets()
    found = known if wanted is None else [b for b in known if b.fingerprint.startswith(wanted.lower())]
    if len(found) != 1:
        fingerprints = ", ".join(f"{b.fingerprint[:12]} ({b.label})" for b in known[:5]) or "none"
        raise UsageError(f"Name one data set by --data-set and the first digits of its fingerprint: {fingerprints}.")
    return found[0]


@app.command()
def verify(file: File, as_json: AsJson = False) -> None:
    """Verify every row, seal and page; the exit code is 3 if anything was edited, removed or reordered.

    Example: privot ledger verify digits.ledger
    """
    from privot.ledger import Ledger

    with Ledger.open(file) as ledger:
        rows = ledger.verify()
    if as_json:
        print_json({"ledger": str(file), "rows": rows, "intact": True})
    else:
        typer.echo(f"{file}: {rows} rows, all intact.")
