"""What checked rows say: budgets, charges, and the charged events as one event; it opens no file."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from privot.accounting.events import Composed, Event, adjacency_of, repeated, unit_of
from privot.common.privacy_unit import RECORD, unit_words
from privot.errors import BudgetError, NoTheoremError
from privot.ledger.ledger_rows import BUDGET, CHARGE, RAISE, Budget, Entry, Row, as_budget, as_entry, row_event


def budget_of(rows: list[Row], fingerprint: str) -> Budget | None:
    """The budget of a data set, with every raise since it was set; None if it has none."""
    found: Budget | None = None
    for row in rows:
        if row.fingerprint == fingerprint and row.kind == BUDGET and found is None:
            found = as_budget(row)
        elif row.fingerprint == fingerprint and row.kind == RAISE and found is not None:
            found = found.raised(row)
    return found


def budgets_of(rows: list[Row]) -> list[Budget]:
    """The budget of every data set, in the order they were set."""
    names = dict.fromkeys(row.fingerprint for row in rows if row.kind == BUDGET)
    return [budget for name in names if (budget := budget_of(rows, name)) is not None]


def charges_of(rows: list[Row], fingerprint: str | None) -> list[Row]:
    """The rows that charge a data set, or any."""
    return [row for row in rows if row.kind == CHARGE and fingerprint in (None, row.fingerprint)]


def entries_of(charges: list[Row]) -> list[Entry]:
    """What the rows `charges` mean."""
    return [as_entry(row) for row in charges]


class MarkedCharges(int):
    """How many charges carry a mark in their purpose: a number that also knows what was charged."""

    events: tuple[Event, ...]

    @classmethod
    def among(cls, entries: Iterable[Entry], mark: str) -> MarkedCharges:
        """Those of `entries` with this `mark`."""
        events = tuple(entry.event for entry in entries if mark in entry.purpose)
        found = cls(len(events))
        found.events = events
        return found


def events_of(charges: list[Row]) -> list[tuple[Event, int]]:
    """The events charged and how often each, reading equal texts once."""
    first = {row.body: row for row in reversed(charges)}
    return [(row_event(first[body]), times) for body, times in Counter(row.body for row in charges).items()]


def together(events: Iterable[tuple[Event, int]]) -> Composed:
    """All events as one for the accountant."""
    return Composed(tuple(repeated(event, times) for event, times in events))


def check_relation(event: Event, budget: Budget) -> None:
    """Refuse an event that is not counted under the budget's adjacency and for the budget's unit."""
    try:
        adjacency, unit = adjacency_of([event]), unit_of([event])
    except NoTheoremError as error:
        raise BudgetError(f"Nothing was released: {error}") from None
    if adjacency is not budget.adjacency:
        raise BudgetError(
            f"The release is counted under {adjacency} but the budget of {budget.label!r} holds under "
            f"{budget.adjacency}, so nothing was released: count the release under the budget's adjacency."
        )
    if (unit and unit.name) != budget.unit:
        raise BudgetError(
            f"The release protects {unit_words(unit)} but the budget of {budget.label!r} is for one "
            f"{budget.unit or RECORD}, so nothing was released: count the release for the budget's unit."
        )
