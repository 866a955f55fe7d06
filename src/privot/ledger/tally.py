"""What checked rows say: budgets, charges, reservations, and what they take of a budget; it opens no file."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from enum import Enum
from typing import NamedTuple

from privot.accounting import account
from privot.accounting.assumptions import standing_of
from privot.accounting.events import Composed, Event, PerUnit, adjacency_of, leaves, repeated, unit_of
from privot.accounting.privacy_filter import Counted, PrivacyFilter
from privot.common.privacy_unit import RECORD, unit_words
from privot.errors import BudgetError, NoTheoremError
from privot.guarantee import Guarantee, Standing
from privot.ledger.ledger_rows import (
    BUDGET,
    CHARGE,
    RAISE,
    RESERVE,
    Budget,
    Entry,
    Row,
    as_budget,
    as_entry,
    as_reservation,
    charged,
)

_JOB = re.compile(r"\(job [0-9a-f]{16}\b")
_MARKS = re.compile(r"( \((job|run|release) [0-9a-f]{16}(, [^()]*)?\)| \[(seed \d+|once [0-9a-f]+)\])+$")
"""What privot itself puts behind a purpose: whose charge it is, and which release it paid for."""


def stated(purpose: str) -> str:
    """`purpose` as it was stated, without the marks behind it: for sentences that people read."""
    return _MARKS.sub("", purpose)


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


def reservations_of(rows: list[Row], fingerprint: str | None) -> list[Row]:
    """The rows that reserve something of a data set, or of any."""
    return [row for row in rows if row.kind == RESERVE and fingerprint in (None, row.fingerprint)]


def filter_of(rows: list[Row], budget: Budget) -> PrivacyFilter:
    """The budget as a filter, with everything that was charged or reserved, in that order.

    Rows of versions before the filter say nothing of it and are counted now, as is the first charge in memory. Equal
    ones that carry the mark of one job are counted as its blocks, in one event: their number was written down with the
    job before the first.
    """
    events: list[Event] = []
    counted: list[Counted] = []
    older = Counter(_job_of(row) for row in charges_of(rows, budget.fingerprint) if is_older(row))
    for row in rows:
        if row.fingerprint != budget.fingerprint or row.kind not in (CHARGE, RESERVE):
            continue
        found = charged(row)
        if found.reserved:
            continue
        if found.counted is not None:
            events.append(found.event)
            counted.append(found.counted)
        elif times := older.pop(_job_of(row), 0):
            whole = repeated(found.event, times)
            so_far = PrivacyFilter(budget.epsilon, budget.delta, tuple(events), tuple(counted))
            events.append(whole)
            counted.append(so_far.count(whole))
    return PrivacyFilter(budget.epsilon, budget.delta, tuple(events), tuple(counted))


def is_older(row: Row) -> bool:
    """Whether the charge in `row` was written by a version that knew no filter."""
    found = charged(row)
    return found.counted is None and not found.reserved


def _job_of(row: Row) -> tuple[str, str | int]:
    """Tells the blocks of a job, in a row of an earlier version, from other charges, which are each their own."""
    job = _JOB.search(row.note)
    return row.body, row.id if job is None else job.group()


def reserved(rows: list[Row], fingerprint: str, purpose: str) -> Counter[Event]:
    """The steps that may be charged for `purpose` at no cost: what its job reserved, less what was charged of it."""
    found: Counter[Event] = Counter()
    marks = set()
    for row in reservations_of(rows, fingerprint):
        event, _, _, mark = charged(row)
        if mark and mark in purpose:
            marks.add(mark)
            found.update(dict(leaves(event)))
    for row in charges_of(rows, fingerprint) if marks else []:
        if charged(row).reserved and any(mark in row.note for mark in marks):
            found.subtract(dict(leaves(charged(row).event)))
    return found


def beyond(event: Event, left: Counter[Event]) -> Event | None:
    """What of `event` is not among the reserved steps that are `left`; None if all of it is."""
    steps = leaves(event)
    missing = [(step, times - left[step]) for step, times in steps if times > left[step]]
    if not missing:
        return None
    if missing == steps:
        return event
    rest = Composed(tuple(repeated(step, times) for step, times in missing))
    unit = unit_of([event])
    return rest if unit is None else PerUnit(rest, unit.name, unit.rows)


class Offer(NamedTuple):
    """What charging or reserving an event now would mean."""

    budget: Budget
    filter: PrivacyFilter
    entries: list[Entry]
    """The charges and reservations that took of the budget so far."""
    due: Event | None
    """What the budget would be asked for; None where everything is reserved already."""
    total: float
    """The ε that a budget would need to accept it."""

    @property
    def counted(self) -> Counted | None:
        """What `due` takes of the filter: seconds where it is no Gaussian, and the first one is accepted without it."""
        return None if self.due is None else self.filter.count(self.due)

    @property
    def fits(self) -> bool:
        """Whether the budget accepts it; a total that is not a number does not fit."""
        return self.due is None or self.total <= self.budget.epsilon


class Draws(Enum):
    """What an event draws on the reservations of its job."""

    NOTHING = "nothing: a job that reserves pays for all of it, whatever other jobs reserved"
    WHOLE = "all of it or nothing: an event that is reserved in part is paid in full"
    PART = "what is left of them: the rest is paid"


def offered(rows: list[Row], fingerprint: str, event: Event, purpose: str, draws: Draws) -> Offer:
    """What the budget of a data set says of `event`.

    Raises `BudgetError` where there is no budget, or one under another adjacency or for another unit.
    """
    budget = budget_of(rows, fingerprint)
    if budget is None:
        raise BudgetError("This data set has no budget in the ledger, so nothing was released: set one first.")
    check_relation(event, budget)
    due = event if draws is Draws.NOTHING else beyond(event, reserved(rows, fingerprint, purpose))
    if due is not None and draws is Draws.WHOLE:
        due = event
    taken = filter_of(rows, budget)
    reservations: list[Entry] = [as_reservation(row) for row in reservations_of(rows, fingerprint)]
    entries = reservations + [entry for entry in entries_of(charges_of(rows, fingerprint)) if not entry.reserved]
    if due is None:
        return Offer(budget, taken, entries, None, taken.total)
    return Offer(budget, taken, entries, due, taken.with_next(due))


def spent_of(rows: list[Row], budget: Budget, mark: str = "") -> Guarantee | None:
    """What was charged costs, by the filter; with `mark`, exactly, the charges alone that carry it. None for nothing.

    Exact without a mark too where composing what happened is a theorem: one charge, or Gaussians only.
    """
    released = [charged(row).event for row in charges_of(rows, budget.fingerprint) if mark in row.note]
    if mark:
        return account(_together(released), budget.delta) if released else None
    taken = filter_of(rows, budget)
    if not taken.events:
        return None
    whole = account(_together(taken.events), budget.delta)
    # what was charged of a reservation may stand less firmly than the reservation said
    weakest = Standing.weakest([whole.standing, *map(standing_of, dict.fromkeys(released))])
    return replace(whole, standing=weakest, curve=whole.curve if taken.exact else taken.curve)


def _together(events: Iterable[Event]) -> Composed:
    """All events as one; the steps of one training are equal, thousands of them, and are counted once."""
    return Composed(tuple(repeated(event, times) for event, times in Counter(events).items()))


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
