"""What a ledger knows of a job: how often it was charged, and what that cost; it charges nothing itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from privot.jobs.job import Job
from privot.jobs.spending import total
from privot.ledger import Ledger

Spent = Callable[[str], int]
"""Counts the charges whose purpose carries a job's mark."""


def charges(ledger: Ledger) -> Spent:
    """How often `ledger` was charged for a job, by the mark that its charges carry."""

    def spent(mark: str) -> int:
        return sum(mark in entry.purpose for entry in ledger.entries())

    return spent


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
