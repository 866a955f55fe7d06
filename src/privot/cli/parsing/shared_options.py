"""Options that several commands have, said once: a command takes what is made of them as its first argument."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import typer


def command_with(app: typer.Typer, asked: Callable[..., Any]) -> Callable[[Callable[..., None]], None]:
    """Add a command to `app` whose options are those of `asked` and its own; it is handed what `asked` answers."""
    every = inspect.signature(asked, eval_str=True).parameters

    def add(own: Callable[..., None]) -> None:
        others = list(inspect.signature(own, eval_str=True).parameters.values())[1:]
        # as help lists them: what has to be said, then what is this command's own, then the rest
        taken = sorted([*every.values(), *others], key=lambda p: (p.default is not p.empty, p.name in every))

        def run(**given: Any) -> None:
            own(asked(**{name: given.pop(name) for name in every}), **given)

        signature = inspect.Signature([parameter.replace(kind=parameter.KEYWORD_ONLY) for parameter in taken])
        run.__signature__ = signature  # type: ignore[attr-defined]
        run.__annotations__ = {parameter.name: parameter.annotation for parameter in taken}
        app.command(own.__name__, help=own.__doc__)(run)

    return add
