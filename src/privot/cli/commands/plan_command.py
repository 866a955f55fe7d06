"""`privot plan`: a local page to try budgets on; it reads no data and charges nothing."""

from __future__ import annotations

import threading
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated

import typer

from privot.cli.parsing.options import AsJson
from privot.cli.printing import browser
from privot.cli.printing.printed_answer import print_json


def plan(
    port: Annotated[int, typer.Option(help="Port on this machine; 0 takes a free one.")] = 0,
    ledger: Annotated[Path | None, typer.Option(help="Ledger whose budget is shown beside the plan.")] = None,
    open_: Annotated[
        bool | None, typer.Option("--open/--no-open", help="Open the page. Default: where there is a display.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Serve a page on this machine to try budgets on: σ, how wrong the answer is, what a ledger has left.

    Its address holds a secret, so keep it to yourself. No data is read, and nothing is charged. Ctrl-C ends it.

    Examples: privot plan; privot plan --ledger patients.csv.ledger --no-open
    """
    from privot.ledger import Ledger
    from privot.plan.entrance import entrance
    from privot.plan.server import PlanServer

    if ledger is not None:
        # refused at once, not on the page
        Ledger.open(ledger).close()
    with PlanServer(port, ledger) as server, ExitStack() as stack:
        if as_json:
            print_json(
                {"url": server.url, "port": server.server_port, "ledger": None if ledger is None else str(ledger)}
            )
        else:
            typer.echo(f"{server.url}\nThe page is served on this machine alone. Ctrl-C ends it.")
        if open_ or (open_ is None and not as_json and browser.has_screen()):
            # a file and not the address: other users of the machine can read a browser's command line
            address = stack.enter_context(entrance(server.issue_ticket)).as_uri()
            # beside the server: some browsers return when they are closed, and need answers before that
            threading.Thread(target=browser.show, args=(address,), daemon=True).start()
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            if not as_json:
                typer.echo("Ended: nothing was charged.", err=True)
