"""What a ledger says about itself in a notebook: budget, spending, charges; it reads the ledger and writes nothing."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from privot.common.html_facts import html_facts
from privot.common.privacy_unit import RECORD
from privot.errors import PrivotError
from privot.guarantee import Guarantee
from privot.ledger.ledger_rows import Budget, Entry

OVER = (
    "what was charged fits the budget no longer, counted for whoever chose each release by the last one: earlier "
    "versions added up what happened. Nothing more is accepted until the budget is raised"
)


def listed_kind(entry: Mapping[str, Any]) -> str:
    """The kind of event of a charge or reservation, and whether it reserves or draws on what is reserved."""
    kind = str(entry["event"]["kind"])
    if "mark" in entry:
        return f"{kind}, reserved"
    return f"{kind}, of what is reserved" if entry["reserved"] else kind


class ReadLedger(Protocol):
    """What a ledger answers about itself."""

    @property
    def path(self) -> Path:
        """Its file."""
        ...

    def datasets(self) -> Sequence[Budget]:
        """The data sets it guards."""
        ...

    def spent(self, fingerprint: str) -> Guarantee | None:
        """What was charged, in all."""
        ...

    def entries(self, fingerprint: str) -> Sequence[Entry]:
        """The charges."""
        ...

    def remaining(self, fingerprint: str) -> float:
        """The ε that is left for one more release."""
        ...


def ledger_html(ledger: ReadLedger) -> str:
    """Every data set of `ledger` with its budget, what is spent and left, and its charges; fingerprints stay out.

    A ledger that cannot be read says so in place of its facts: a display is no place for an error.
    """
    facts: list[tuple[str, object]] = []
    try:
        for budget in ledger.datasets():
            spent, entries = ledger.spent(budget.fingerprint), ledger.entries(budget.fingerprint)
            left, of = ledger.remaining(budget.fingerprint), budget.unit or RECORD
            facts += [
                ("data set", budget.label),
                ("budget", f"ε = {budget.epsilon:g} at δ = {budget.delta:g}, {budget.adjacency}, per {of}"),
                ("spent", spent.stated() if spent else "nothing"),
                ("left", f"ε = {left:.6g} for one more release with Gaussian noise"),
                *([("note", OVER)] if spent and spent.epsilon() > budget.epsilon else []),
                *((f"raise {made.id}", f"to ε = {made.epsilon:g}: {made.reason}") for made in budget.raises),
                *((f"charge {entry.id}", entry.purpose) for entry in entries),
            ]
    except (PrivotError, sqlite3.Error) as error:
        facts = [("not read", str(error) if isinstance(error, PrivotError) else "the ledger is closed or damaged")]
    # the name alone: a notebook travels, and a path says where somebody works
    return html_facts(f"Ledger {ledger.path.name}", facts or [("budget", "none is set yet")])
