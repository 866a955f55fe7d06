"""A budget is raised by its steward only, for a reason that stays; everything else is refused and writes nothing."""

from __future__ import annotations

import sqlite3

import pytest
from ledger_samples import ADD, DELTA, gaussian

from privot.errors import BudgetError, CorruptLedgerError, UsageError
from privot.ledger import Ledger

STEWARD = {"i_am_the_steward": True}


def test_a_raise_lets_out_what_the_budget_refused_and_is_kept_with_its_reason(ledger: Ledger, data: str) -> None:
    event = gaussian(2.0)
    with pytest.raises(BudgetError):
        ledger.charge(data, event, "too much")
    budget = ledger.raise_budget(data, 5.0, "ethics board, 12 May", **STEWARD)
    assert (budget.first_epsilon, budget.epsilon, budget.delta, budget.adjacency) == (1.0, 5.0, DELTA, ADD)
    ledger.charge(data, event, "fits now")
    ledger.raise_budget(data, 6.0, "a second study", **STEWARD)
    with Ledger.open(ledger.path) as again:
        assert again.budget(data) == again.datasets()[0]
        raises = again.datasets()[0].raises
        assert [(r.before, r.epsilon, r.reason) for r in raises] == [
            (1.0, 5.0, "ethics board, 12 May"),
            (5.0, 6.0, "a second study"),
        ]
        assert again.datasets()[0].to_dict()["raises"][0]["reason"] == "ethics board, 12 May"
        assert again.verify() == 5


def test_the_raised_budget_refuses_what_exceeds_it(ledger: Ledger, data: str) -> None:
    ledger.raise_budget(data, 1.5, "a little more", **STEWARD)
    with pytest.raises(BudgetError, match=r"above its budget of ε = 1\.5"):
        ledger.charge(data, gaussian(2.0), "still too much")
    assert ledger.remaining(data) == 1.5


def test_only_the_steward_raises_only_upwards_and_only_with_a_reason(ledger: Ledger, data: str) -> None:
    before = ledger.verify()
    for wrong in (
        lambda: ledger.raise_budget(data, 5.0, "because"),
        lambda: ledger.raise_budget(data, 5.0, "because", i_am_the_steward=1),  # type: ignore[arg-type]
        lambda: ledger.raise_budget(data, 1.0, "the same", **STEWARD),
        lambda: ledger.raise_budget(data, 0.5, "less", **STEWARD),
        lambda: ledger.raise_budget(data, float("inf"), "all", **STEWARD),
        lambda: ledger.raise_budget(data, 5.0, " ", **STEWARD),
        lambda: ledger.raise_budget(data, 5.0, "two\nlines", **STEWARD),
        lambda: ledger.raise_budget("0" * 64, 5.0, "nobody", **STEWARD),
    ):
        with pytest.raises(UsageError):
            wrong()
    assert ledger.verify() == before
    assert ledger.budget(data).epsilon == 1.0


def test_a_raise_concerns_one_data_set(ledger: Ledger, data: str) -> None:
    other = "1" * 64
    ledger.set_budget(other, 2.0, DELTA, ADD, "others", new_records=True)
    ledger.raise_budget(data, 3.0, "only these", **STEWARD)
    assert [b.epsilon for b in ledger.datasets()] == [3.0, 2.0]


def test_both_terms_are_the_same_budget_and_no_other(ledger: Ledger, data: str) -> None:
    ledger.raise_budget(data, 3.0, "more", **STEWARD)
    for epsilon in (1.0, 3.0):
        assert ledger.set_budget(data, epsilon, DELTA, ADD, "clinic").epsilon == 3.0
    with pytest.raises(UsageError):
        ledger.set_budget(data, 2.0, DELTA, ADD, "clinic")


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE ledger SET body='{\"epsilon\":9.0}' WHERE kind='raise'",
        "UPDATE ledger SET note='nothing' WHERE kind='raise'",
        "DELETE FROM ledger WHERE kind='raise'",
    ],
)
def test_a_raise_that_was_tampered_with_is_found(ledger: Ledger, data: str, change: str) -> None:
    ledger.raise_budget(data, 3.0, "more", **STEWARD)
    path = ledger.path
    ledger.close()
    connection = sqlite3.connect(path)
    with connection:
        for trigger in connection.execute("SELECT name FROM sqlite_master WHERE type='trigger'").fetchall():
            connection.execute(f"DROP TRIGGER {trigger[0]}")
        connection.execute(change)
    connection.close()
    with pytest.raises(CorruptLedgerError), Ledger.open(path) as again:
        again.verify()
