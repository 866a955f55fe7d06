"""Which commands there are. A command's module is imported only when the command is used."""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module
from typing import Annotated, Any, NamedTuple

import typer

from privot.cli.plugged import ANY_OPTIONS, LABORATORY, absent, command_of, plugged, summary

HELP = "Private optimal transport: compare, learn from and synthesise data you may not share."
EPILOG = (
    "Start with: privot demo. Exit codes: 0 done; 1 internal error, please report it; 2 wrong usage; "
    "3 bad data; 4 the budget refuses; 5 unproven and not allowed; 6 did not converge or answer in time; "
    "7 an audit refutes a claim; 130 interrupted. --debug shows a traceback."
)


class Command(NamedTuple):
    """A command: its module in `privot.cli.commands`, and the sentence that describes it in the list of commands."""

    module: str
    summary: str


COMMANDS = {
    "demo": Command("demo", "Tell a story of two clinics and their private data, in two minutes."),
    "compare": Command("compare", "Measure how far apart two data sets are."),
    "synth": Command("synth", "Train a private generator and draw synthetic data."),
    "adapt": Command("adapt", "Train a classifier for private unlabelled records."),
    "answer": Command("answer", "Explain or answer a request of privot adapt."),
    "sample": Command("sample", "Draw synthetic records from a released generator."),
    "evaluate": Command("evaluate", "Train on synthetic data and test on real data."),
    "report": Command("report_command", "Write one self-contained HTML page about a folder."),
    "audit": Command("audit_command", "Attack a mechanism or a release to test its claim."),
    "sketch": Command("sketch", "Release one private sketch of a data set."),
    "value": Command("value", "Compute what parties contribute to a validation set."),
    "points": Command("points", "Score your own records against a validation set."),
    "plan": Command("plan_command", "Try budgets on a local page; no data is read."),
    "doctor": Command("doctor", "Show what is installed, what is missing and what works."),
    "release": Command("groups.release_commands", "Release a count, mean, histogram or quantile of one column."),
    "account": Command("groups.account_commands", "Plan a budget without reading any data."),
    "ledger": Command("groups.ledger_commands", "Create, show and verify privacy ledgers."),
    "schema": Command("groups.schema_commands", "State what is public about a table, and propose its schema."),
    "federate": Command("groups.federate_commands", "Compare data sets between organisations."),
}
"""By name, in the order in which they are listed. A module has an `app` of its own, or a function of that name."""


def build_app(used: Iterable[str] | None = None, *, more: bool = True) -> typer.Typer:
    """The application, with the commands `used` whole and the others by name and summary only; all whole if None.

    With `more`, commands of other distributions follow privot's own.
    """
    app = typer.Typer(
        name="privot",
        help=HELP,
        epilog=EPILOG,
        no_args_is_help=True,
        add_completion=False,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
    )
    app.callback()(root)
    whole = None if used is None else set(used)
    for name, command in COMMANDS.items():
        if whole is not None and name not in whole:
            app.command(name, short_help=command.summary)(_unused)
            continue
        module = import_module(f"privot.cli.commands.{command.module}")
        _add(app, name, command.summary, getattr(module, "app", None) or getattr(module, name))
    if not more:
        return app
    others = plugged(COMMANDS)
    for name, point in others.items():
        _add(app, name, summary(point), _unused if whole is not None and name not in whole else command_of(point))
    for name in LABORATORY:
        if name not in others:
            app.command(name, hidden=True, context_settings=ANY_OPTIONS)(absent(name))
    return app


def _add(app: typer.Typer, name: str, words: str, command: Any) -> None:
    """Add a command, which is a function or an application of its own."""
    if isinstance(command, typer.Typer):
        app.add_typer(command, name=name, short_help=words)
    else:
        app.command(name, short_help=words)(command)


def _unused() -> None:
    """Stands for a command that is listed but not used."""


def _version(asked: bool) -> None:
    if asked:
        from privot import __version__

        typer.echo(f"privot {__version__}")
        raise typer.Exit


def root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and stop.")
    ] = False,
    max_unpacked: Annotated[
        str | None,
        typer.Option(help="Largest size of one unpacked file, like 4GiB. Default: 512MiB, or PRIVOT_MAX_UNPACKED."),
    ] = None,
    max_events: Annotated[
        int | None,
        typer.Option(help="Most distinct events of a guarantee that is read. Default: 16, or PRIVOT_MAX_EVENTS."),
    ] = None,
) -> None:
    """Private optimal transport: compare, learn from and synthesise data you may not share."""
    if max_unpacked is not None or max_events is not None:
        from privot.opening.limits import set_limits

        set_limits(max_unpacked, max_events)
