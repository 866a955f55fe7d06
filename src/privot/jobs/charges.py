"""What a ledger knows of a job: how often it was charged, and what that cost; it charges nothing itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from privot.accounting.events import Composed, Event, event_from_dict, leaves, units_in
from privot.errors import DataError
from privot.guarantee import Guarantee
from privot.jobs.home import Spent
from privot.jobs.job import Job
from privot.jobs.spending import total
from privot.ledger import Ledger
from privot.ledger.tally import MarkedCharges


def charges(ledger: Ledger) -> Spent:
    """How often `ledger` was charged for a job, by the mark that its charges carry."""

    def spent(mark: str) -> int:
        return MarkedCharges.among(ledger.entries(), mark)

    return spent


def discard_unpaid(folder: Path, ledger: Ledger) -> bool:
    """Remove the job in `folder` if nothing of it was paid, and say whether it did.

    Its own `ledger` must hold neither a charge nor a reservation of it: another one would not know.
    """
    job = Job.open(folder)
    if job.settings.get("ledger") != ledger.identity:
        return False
    with job.alone():
        rows = (*ledger.entries(), *ledger.reservations())
        return not any(job.any_mark in row.purpose for row in rows) and job.discard()


def check_charged(paid: int, stated: Event, folder: Path, *, all_of_them: bool = False) -> None:
    """Refuse to go on with a job whose charges were for another event than `stated`.

    One charge must be for it, or with `all_of_them` every one. `job.json` and a file beside it can be changed so that
    they agree with each other; the ledger is chained, and knows what happened. A plain number of charges, which does
    not know their events (`MarkedCharges`), is not looked at.
    """
    if not isinstance(paid, MarkedCharges):
        return
    # leaves say nothing of the unit that they are counted for
    same = (leaves(event) == leaves(stated) and units_in(event) == units_in(stated) for event in paid.events)
    if not (all(same) if all_of_them else any(same)):
        raise DataError(
            f"The ledger was charged for another event than the job in {folder} counts: restore the folder from a "
            "backup."
        )


def counted(guarantee: Guarantee) -> Event:
    """The event that `guarantee` counts."""
    return Composed(tuple(event_from_dict(e) for e in guarantee.events))


def spent_in_ledger(ledger: Ledger, job: Job) -> dict[str, Any] | None:
    """The charges in `ledger` for the records of `job`, in all and for this job; None if the job paid nothing."""
    paid = [entry for entry in ledger.entries() if job.any_mark in entry.purpose]
    if not paid:
        return None
    name = paid[-1].fingerprint
    whole, own, budget = ledger.spent(name), ledger.spent(name, job.any_mark), ledger.budget(name)
    if whole is None or own is None or budget is None:
        return None
    return total(whole, own, sum(e.fingerprint == name for e in paid), budget.epsilon)
