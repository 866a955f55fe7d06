"""Commands of other distributions: the entry points of `privot.commands`, each imported only when it is used.

An entry point names a Typer application or a function, as in the `pyproject.toml` of privot-lab. None can take the
place of a command of privot, and one that cannot be imported breaks nothing but itself.
"""

from __future__ import annotations

from collections.abc import Collection
from importlib.metadata import EntryPoint, entry_points
from typing import Any, NoReturn

import typer

from privot.common.extras import load
from privot.errors import MissingDependencyError, UsageError, brief

GROUP = "privot.commands"
LABORATORY = ("bench", "study")
"""Commands of privot-lab, which are known by name where it is not installed."""


def plugged(own: Collection[str]) -> dict[str, EntryPoint]:
    """The commands of other distributions by name, but for names that are privot's `own`."""
    return {point.name: point for point in entry_points(group=GROUP) if point.name not in own}


def summary(point: EntryPoint) -> str:
    """What the list of commands says of one that is not imported."""
    return f"A command of {point.dist.name if point.dist else 'another package'}."


def command_of(point: EntryPoint) -> Any:
    """The application or function behind `point`."""
    found = load(point)
    if not callable(found):
        raise UsageError(f"The entry point {brief(point.value)} is neither a function nor a Typer application.")
    return found


def absent(name: str) -> Any:
    """Stands for a command of the laboratory that is not installed, whatever options it is given."""

    def say(context: typer.Context) -> NoReturn:
        raise MissingDependencyError(
            f"privot {name} is a command of privot-lab, which is not installed: pip install ./lab in the sources of "
            "privot.",
            name="privot_lab",
        )

    return say


ANY_OPTIONS = {"ignore_unknown_options": True, "allow_extra_args": True, "help_option_names": []}
"""How a command that only says where it went takes its arguments."""
