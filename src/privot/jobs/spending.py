"""What the ledger holds beside what a folder's guarantee states: one small public file; it opens no ledger itself.

A guarantee is of what was released. Where a release was lost and paid for again, or other releases were made from the
same records, the ledger holds more, and a reader of the folder should see both numbers. They are about budgets, not
about records.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from privot.common.privacy_unit import RECORD, Unit, relation_words
from privot.errors import DataError
from privot.guarantee import Guarantee
from privot.jobs.released_files import read_json, write_json

SPENT = "spent.json"
_SLACK = 1.0 + 1e-6
"""The relative difference that two counts of the same charges may have."""


def total(whole: Guarantee, job: Guarantee, charges: int, budget: float) -> dict[str, Any]:
    """As plain JSON types: what all charges of the data set cost, its budget, and the `charges` of one job."""
    return {**_plain(whole), "budget": budget, "job": {**_plain(job), "charges": charges}}


def write_spent(folder: Path, spent: Mapping[str, Any] | None) -> None:
    """Write the numbers beside the guarantee; without any, remove those of an earlier run."""
    if spent is None:
        (folder / SPENT).unlink(missing_ok=True)
    else:
        write_json(folder / SPENT, spent)


def spent_rows(folder: Path, guarantee: Guarantee | None) -> list[list[str]]:
    """The numbers of a folder in words, for a table; none where it has no such file."""
    return spending_lines(read_json(folder / SPENT), guarantee) if (folder / SPENT).exists() else []


def budget_of(folder: Path) -> tuple[float, float, str] | None:
    """(ε spent in all, ε of the budget, the rest in words) for a folder; None where it does not state them."""
    if not (folder / SPENT).exists():
        return None
    fields = read_json(folder / SPENT)
    try:
        if fields.get("budget") is None:
            return None
        terms = f"at δ = {float(fields['delta']):g}, {_relation(fields)}, {fields['standing']}"
        return float(fields["epsilon"]), float(fields["budget"]), terms
    except (KeyError, TypeError, ValueError):
        raise DataError(f"{SPENT} is damaged: make it again, or remove it.") from None


def spending_lines(spent: Mapping[str, Any], guarantee: Guarantee | None) -> list[list[str]]:
    """The same for given numbers: rows of (what, how much), with the reason if a job cost more than its guarantee."""
    try:
        job = spent["job"]
        count = int(job["charges"])
        rows = [
            ["in all", f"{_words(spent)}, for every release from these records that this ledger knows"],
            ["this job", f"{_words(job)}, in {count} charge{'s' if count > 1 else ''}"],
        ]
        if guarantee is not None and float(job["epsilon"]) > _SLACK * guarantee.epsilon(float(job["delta"])):
            rows.append(
                ["more than the guarantee", "a release that was lost was paid for again; the ledger counts both"]
            )
        return rows
    except (KeyError, TypeError, ValueError):
        raise DataError(f"{SPENT} is damaged: make it again, or remove it.") from None


def _plain(guarantee: Guarantee) -> dict[str, Any]:
    return {
        "epsilon": guarantee.epsilon(),
        "delta": guarantee.at_delta,
        "adjacency": str(guarantee.adjacency),
        "unit": RECORD if guarantee.unit is None else guarantee.unit.to_dict(),
        "standing": str(guarantee.standing),
    }


def _words(fields: Mapping[str, Any]) -> str:
    epsilon, delta = float(fields["epsilon"]), float(fields["delta"])
    return f"ε = {epsilon:.6g} at δ = {delta:g}, {_relation(fields)}, {fields['standing']}"


def _relation(fields: Mapping[str, Any]) -> str:
    return relation_words(fields["adjacency"], Unit.from_dict(fields.get("unit")))
