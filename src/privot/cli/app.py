"""Which commands there are. Each one's module is imported here and imports its own tools only when it runs."""

from __future__ import annotations

from typing import Annotated

import typer

from privot.cli import table_input
from privot.cli.commands import (
    account_commands,
    adapt,
    answer,
    audit,
    bench_commands,
    compare,
    demo,
    evaluate,
    federate_commands,
    ledger_commands,
    points,
    report,
    sketch,
    study_commands,
    synth,
    value,
)

app = typer.Typer(
    name="privot",
    help="Private optimal transport: compare, learn from and synthesise data you may not share.",
    epilog="Start with: privot demo. Exit codes: 0 done; 1 internal error, please report it; 2 wrong usage; "
    "3 bad data; 4 the budget refuses; 5 unproven and not allowed; 6 did not converge or answer in time; "
    "7 an audit refutes a claim; 130 interrupted. --debug shows a traceback.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
app.add_typer(account_commands.app, name="account")
app.add_typer(ledger_commands.app, name="ledger")
app.add_typer(bench_commands.app, name="bench")
app.add_typer(study_commands.app, name="study")
app.add_typer(table_input.app, name="schema")
app.add_typer(federate_commands.app, name="federate")
app.command("demo")(demo.demo)
app.command("compare")(compare.compare)
app.command("synth")(synth.synth)
app.command("adapt")(adapt.adapt)
app.command("answer")(answer.answer)
app.command("sample")(synth.sample)
app.command("evaluate")(evaluate.evaluate)
app.command("report")(report.report)
app.command("audit")(audit.audit)
app.command("sketch")(sketch.sketch)
app.command("value")(value.value)
app.command("points")(points.points)


def _version(asked: bool) -> None:
    if asked:
        from privot import __version__

        typer.echo(f"privot {__version__}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and stop.")
    ] = False,
    max_unpacked: Annotated[
        str | None,
        typer.Option(help="Bytes that one file may unpack to, like 4GiB; 512MiB unless given, or PRIVOT_MAX_UNPACKED."),
    ] = None,
    max_events: Annotated[
        int | None,
        typer.Option(help="Distinct events of a guarantee that are counted on reading; 16, or PRIVOT_MAX_EVENTS."),
    ] = None,
) -> None:
    """Private optimal transport: compare, learn from and synthesise data you may not share."""
    if max_unpacked is not None or max_events is not None:
        from privot.opening import set_limits

        set_limits(max_unpacked, max_events)
