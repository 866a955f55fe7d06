"""Refuses values that are wrong for every option, in one place: numbers out of all bounds, and empty words.

A command checks what its own options mean; this module checks what holds for all of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from privot.cli.parsing.settings import spelled
from privot.errors import UsageError, brief

MAX_COUNT = 10**9
"""Largest count of anything that is drawn, kept in memory or repeated, unless `_RANGES` says otherwise."""
SMALLEST, LARGEST = 1e-300, 1e300
"""Outside these bounds squares and inverses overflow, or lose their digits."""
_ACCOUNTED = (0, 10**15)
_RANGES = {
    "seed": (0, 2**128 - 1),
    "port": (0, 65535),
    "canaries": (0, 10**7),
    "dim": (0, 10**7),
    "points": (1, 200),
    "records": _ACCOUNTED,
    "batch": _ACCOUNTED,
    "steps": _ACCOUNTED,
    "releases": _ACCOUNTED,
}
"""Smallest and largest value of a parameter, in any command."""
_MAY_BE_INFINITE = {"patience"}
"""Parameters for which "inf" means: without end."""
_MAY_PROTECT_NOTHING = {("synth", "epsilon"), ("adapt", "epsilon")}
"""Parameters of commands for which "inf" means: no privacy; these commands refuse it unless the data is stated to be
open."""


def with_bounds(command: Any) -> Any:
    """`command` and all its subcommands, with every number checked before the command begins."""
    for parameter in command.params:
        parameter.callback = _checked(parameter.callback)
    for below in getattr(command, "commands", {}).values():
        with_bounds(below)
    return command


def check_words(arguments: list[str]) -> None:
    """Refuse empty values: no option or argument needs one, and as a path it would mean the current folder."""
    for before, word in zip(["", *arguments], arguments, strict=False):
        if not word.strip() or (word.startswith("--") and word.endswith("=")):
            name = word[:-1] or (before if before.startswith("-") else "An argument")
            raise UsageError(f"{name if name.strip() else 'An argument'} is empty: give it a value, or leave it out.")


def _checked(callback: Callable[..., Any] | None) -> Callable[..., Any]:
    def check(context: Any, parameter: Any, value: Any) -> Any:
        if context.get_parameter_source(parameter.name).name != "DEFAULT":
            for number in value if isinstance(value, list | tuple) else (value,):
                if number != math.inf or (context.info_name, parameter.name) not in _MAY_PROTECT_NOTHING:
                    _check(parameter, number)
        return value if callback is None else callback(context, parameter, value)

    return check


def _check(parameter: Any, value: Any) -> None:
    name = spelled(parameter)
    if isinstance(value, bool):
        return
    if isinstance(value, int):
        least, most = _RANGES.get(parameter.name, (0, MAX_COUNT))
        if not least <= value <= most:
            end = "2^128 - 1" if most == 2**128 - 1 else str(most)
            raise UsageError(f"{name} must be a whole number from {least} to {end}, got {brief(value)}.")
    if isinstance(value, float):
        if value == math.inf and parameter.name in _MAY_BE_INFINITE:
            return
        check_float(name, value)


def check_float(name: str, value: float) -> None:
    """Refuse a number that is not finite, or whose square or inverse is none; `name` is its option."""
    if not math.isfinite(value):
        raise UsageError(f"{name} must be a finite number, got {value}.")
    if value != 0.0 and not SMALLEST <= abs(value) <= LARGEST:
        raise UsageError(f"{name} must be 0, or between {SMALLEST:g} and {LARGEST:g} in size, got {value:g}.")
