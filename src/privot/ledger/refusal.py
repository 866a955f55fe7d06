"""The sentences in which a ledger refuses: a release that its budget does not cover, records that it does not guard.

Reads entries that were already checked; writes nothing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

from privot.accounting import account
from privot.accounting.events import Event
from privot.errors import BudgetError, OtherRecordsError
from privot.ledger.ledger_rows import Budget
from privot.ledger.tally import Offer, stated

_NAMED = 3


def refusal(offer: Offer, event: Event, purpose: str) -> BudgetError:
    """The refusal of `event`, which the budget of `offer` does not cover."""
    budget, delta = offer.budget, offer.budget.delta
    entries = offer.entries
    costs = {e: account(e, delta).epsilon() for e in dict.fromkeys(entry.event for entry in entries)}
    largest = sorted(entries, key=lambda entry: (-costs[entry.event], entry.id))
    named = [
        f"entry {entry.id} {stated(entry.purpose)!r} of {entry.at} (ε = {_short(costs[entry.event])} alone)"
        for entry in largest[:_NAMED]
    ]
    if len(largest) > _NAMED:
        named.append(f"{len(largest) - _NAMED} more")
    before = (
        f"ε = {_short(offer.filter.total)} is spent already, by {', '.join(named)}"
        if named
        else ("nothing is spent yet")
    )
    return BudgetError(
        f"The release {stated(purpose)!r} (ε = {_short(account(event, delta).epsilon())} alone) would bring the "
        f"data set {budget.label!r} to ε = {_apart(offer.total, budget.epsilon)}, above its budget of "
        f"ε = {budget.epsilon!r} (δ = {delta!r}, {budget.relation}); "
        f"{before}; nothing was released: ask for a smaller ε, draw more from what was released before, which costs "
        "nothing, or have the steward raise the budget."
    )


def other_records(path: Path, guarded: Sequence[Budget]) -> OtherRecordsError:
    """The refusal of records that are not among the `guarded` ones of the ledger at `path`."""
    labels = list(dict.fromkeys(repr(budget.label) for budget in guarded))
    named = ", ".join(labels[:_NAMED]) + (f" and {len(labels) - _NAMED} more" if len(labels) > _NAMED else "")
    return OtherRecordsError(
        f"The ledger {path} guards other records ({named}), so nothing was released: use those, read in the same way "
        "as before, or state that these are new records, which then get a budget of their own."
    )


def _short(epsilon: float) -> str:
    return f"{epsilon:.4g}" if math.isfinite(epsilon) else "∞"


def _apart(total: float, limit: float) -> str:
    """`total` with as many digits as it takes to see that it is not `limit`."""
    short = _short(total)
    return short if not math.isfinite(total) or float(short) > limit else repr(total)
