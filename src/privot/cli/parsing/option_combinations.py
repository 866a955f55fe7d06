"""Which options of `privot adapt` can be combined: with a TARGET, with `--ask`, or with `--answer`."""

from __future__ import annotations

from typing import Any

import typer

from privot.cli.parsing.settings import spelled

_ALWAYS = {"source", "out", "device", "as_json"}
_ASKING = {"ask", "records", "epsilon", "delta", "adjacency", "method", "network", "value_range", "settings"}
_READING = {"classes", "shape"}
_GOES_WITH = {
    "answer": {"answer", "trust", "test", "checkpoint", "network"},
    "ask": {*_ASKING, *_READING, "seed", "allow_unproven"},
}
"""By mode, the parameters that have a meaning there."""


def check_together(context: typer.Context) -> None:
    """Refuse options without a meaning here: `--answer` goes on with what was asked, `--ask` sees no target."""
    given = {p.name: p for p in context.command.params if p.name and _is_given(context, p.name)}
    for mode, fitting in _GOES_WITH.items():
        if mode in given:
            _refuse([p for name, p in given.items() if name not in fitting | _ALWAYS], f"with --{mode}")
            return
    _refuse([p for name, p in given.items() if name in ("records", "trust")], "with TARGET")


def _is_given(context: typer.Context, name: str) -> bool:
    source = context.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


def _refuse(parameters: list[Any], where: str) -> None:
    from privot.errors import UsageError

    if parameters:
        raise UsageError(f"{spelled(parameters[0])} cannot be combined {where}: leave it out.")
