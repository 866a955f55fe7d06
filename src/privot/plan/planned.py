"""A plan with what it means, and the lines to copy: what every kind of plan is made with; it computes no privacy."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from privot.accounting import account
from privot.accounting.events import Event
from privot.accounting.planning.plan_terms import Plan
from privot.guarantee import Adjacency
from privot.mechanisms.mechanism import Facts
from privot.plan.plan_settings import Settings

DATA = "data.csv"
"""The file that the lines to copy name."""
MAX_LINE = 72
"""Longest line of Python to copy, in characters: what fits beside the form."""


@dataclass(frozen=True)
class Planned:
    """A plan with what it means for the answer, and with the same as a command and as Python."""

    plan: Plan
    errors: list[tuple[str, str]]
    """(what, how wrong it is), noise alone."""
    command: list[str]
    python: str
    notes: tuple[str, ...] = ()


def words(options: dict[str, Any]) -> list[str]:
    """Options as words of a command line; floats with all their digits."""
    return [word for name, value in options.items() for word in (f"--{name}", plain(value))]


def plain(value: Any) -> str:
    """A number or text as it is typed: 1, not 1.0.

    >>> plain(1.0), plain(1e-06), plain(0.1), plain("add-remove")
    ('1', '1e-06', '0.1', 'add-remove')
    """
    if isinstance(value, float) and value == int(value) and abs(value) < 1e15:
        return str(int(value))
    return repr(value) if isinstance(value, float) else str(value)


def facts_of(s: Settings, dim: int, clip: float = 1.0, classes: int | None = None) -> Facts:
    """The public facts about such records; under add-remove their number is private."""
    adjacency = Adjacency.parse(s.adjacency)
    return Facts(dim, s.records if adjacency is Adjacency.REPLACE_ONE else None, clip, adjacency, classes)


def planned_release(event: Event, sigma: float, sensitivity: float, delta: float) -> Plan:
    """The plan of an event that a mechanism states."""
    return Plan(event, account(event, delta), sigma, 1, sensitivity)


def paid_by(s: Settings, ledger: Path | None) -> str:
    """The argument of a vault that says what pays: a ledger's budget, or one for this process alone."""
    return (
        f"budget=({plain(s.epsilon)}, {plain(s.delta)})" if ledger is None else f"ledger=Ledger.open({str(ledger)!r})"
    )


def call(begin: str, *arguments: str) -> list[str]:
    """A call as lines of Python: one, or, where that is long, one for every argument.

    >>> call("f", "1", "a=2")
    ['f(1, a=2)']
    """
    line = f"{begin}({', '.join(arguments)})"
    return [line] if len(line) <= MAX_LINE else [f"{begin}(", *(f"    {words}," for words in arguments), ")"]
