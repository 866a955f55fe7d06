"""Charges are counted by the accountant, never exceed the budget, and a refusal writes nothing."""

from __future__ import annotations

import json
import math
import re
import sqlite3
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from ledger_samples import ADD, DELTA, gaussian

from privot.accounting import Composed, FixedSize, Laplace, Poisson, Repeated, Sampled, account
from privot.accounting import Gaussian as GaussianEvent
from privot.accounting.events import Event, Unbounded
from privot.accounting.laws.gaussian import epsilon as closed_form
from privot.accounting.laws.gaussian import largest_shift
from privot.errors import BudgetError, OtherRecordsError, UsageError
from privot.guarantee import Adjacency
from privot.ledger import Ledger
from privot.ledger.ledger_rows import BUDGET, Budget, canonical

REPLACE = Adjacency.REPLACE_ONE


def rows(path: Path) -> list[tuple[object, ...]]:
    connection = sqlite3.connect(path)
    try:
        return connection.execute("SELECT * FROM ledger ORDER BY id").fetchall()
    finally:
        connection.close()


def test_a_charge_is_written_as_it_was_asked(ledger: Ledger, data: str) -> None:
    before = datetime.now(UTC) - timedelta(seconds=1)
    entry = ledger.charge(data, gaussian(20.0), "sketch")
    assert (entry.event, entry.purpose, entry.fingerprint, entry.id) == (gaussian(20.0), "sketch", data, 3)
    at = datetime.fromisoformat(entry.at)
    assert at.utcoffset() == timedelta(0)
    assert before <= at <= datetime.now(UTC)
    assert ledger.entries() == ledger.entries(data) == [entry]
    assert entry.to_dict()["event"] == gaussian(20.0).to_dict()
    assert ledger.verify() == 3


def test_bodies_are_canonical_json(ledger: Ledger, data: str, path: Path) -> None:
    ledger.charge(data, Repeated(gaussian(90.0), 2), "step")
    for row in rows(path):
        body = str(row[3])
        assert body == json.dumps(json.loads(body), sort_keys=True, separators=(",", ":"))
    assert json.loads(str(rows(path)[1][3])) == {"epsilon": 1.0, "delta": DELTA, "adjacency": "add-remove"}


def test_the_total_is_the_accountants_and_not_a_sum(ledger: Ledger, data: str) -> None:
    for _ in range(9):
        ledger.charge(data, gaussian(15.0), "step")
    spent = ledger.spent(data)
    assert spent is not None
    assert spent.epsilon() == pytest.approx(closed_form(3.0 / 15.0, DELTA), rel=1e-9)
    assert 9 * closed_form(1.0 / 15.0, DELTA) > 1.0 > spent.epsilon()
    # the largest Gaussian that still fits: its µ² and those of the nine add up to the budget's
    left = ledger.remaining(data)
    assert 1.0 - spent.epsilon() < left < 1.0
    shift = math.sqrt(largest_shift(1.0, DELTA) ** 2 - (3.0 / 15.0) ** 2)
    assert left == pytest.approx(closed_form(shift, DELTA), rel=1e-3)


def test_the_budget_holds_to_the_last_charge(ledger: Ledger, data: str) -> None:
    # T releases of shift 1/12 cost what one of shift √T/12 costs: count in closed form how many fit
    fit = max(t for t in range(1, 99) if closed_form(math.sqrt(t) / 12.0, DELTA) <= 1.0)
    for _ in range(fit):
        ledger.charge(data, gaussian(12.0), "step")
    with pytest.raises(BudgetError):
        ledger.charge(data, gaussian(12.0), "one too many")
    assert len(ledger.entries(data)) == fit


def test_a_charge_of_exactly_the_budget_is_covered(ledger: Ledger) -> None:
    data = ledger.fingerprint({"x": np.zeros(1)})
    ledger.set_budget(data, account(gaussian(3.0), DELTA).epsilon(), DELTA, ADD, "exact")
    ledger.charge(data, gaussian(3.0), "all of it")
    with pytest.raises(BudgetError, match="all of it"):
        ledger.charge(data, gaussian(1e6), "a crumb")


def test_a_refusal_names_who_spent_it(ledger: Ledger, data: str) -> None:
    small = [ledger.charge(data, gaussian(60.0), f"small {i}") for i in range(4)]
    large = ledger.charge(data, gaussian(6.0), "large")
    with pytest.raises(BudgetError) as caught:
        ledger.charge(data, gaussian(4.0), "comparison")
    text = str(caught.value)
    alone = {s: f"{closed_form(1 / s, DELTA):.4g}" for s in (6.0, 4.0, 60.0)}
    total = closed_form(math.sqrt(1 / 36 + 1 / 16 + 4 / 3600), DELTA)
    spent = closed_form(math.sqrt(1 / 36 + 4 / 3600), DELTA)
    for part in (
        f"'comparison' (ε = {alone[4.0]} alone)",
        f"to ε = {total:.4g}",
        "budget of ε = 1.0 (δ = 1e-05, add-remove)",
        f"ε = {spent:.4g} is spent",
        f"entry {large.id} 'large' of {large.at} (ε = {alone[6.0]} alone)",
        f"entry {small[0].id} 'small 0' of {small[0].at} (ε = {alone[60.0]} alone)",
        "2 more",
        "nothing was released",
    ):
        assert part in text
    assert text.index("'large'") < text.index("'small 0'")


@pytest.mark.parametrize(
    "marks",
    [
        f"(release {'0a' * 8}) [once {'1b' * 16}]",
        f"(job {'2c' * 8}, block 3) [seed 7]",
        f"(job {'2c' * 8}, blocks 2 to 5)",
        f"(run {'3d' * 8})",
    ],
)
def test_a_refusal_shows_purposes_without_their_marks(ledger: Ledger, data: str, marks: str) -> None:
    large = ledger.charge(data, gaussian(6.0), f"the mean (of [all]) {marks}")
    with pytest.raises(BudgetError) as caught:
        ledger.charge(data, gaussian(4.0), f"a sketch {marks}")
    assert "The release 'a sketch' (ε = " in str(caught.value)
    assert f", by entry {large.id} 'the mean (of [all])' of {large.at} (" in str(caught.value)


def test_a_refusal_by_a_hair_shows_the_hair(ledger: Ledger) -> None:
    data = ledger.fingerprint({"x": np.zeros(1)})
    cost = account(gaussian(3.0), DELTA).epsilon()
    ledger.set_budget(data, cost * (1 - 1e-9), DELTA, ADD, "hair")
    with pytest.raises(BudgetError) as caught:
        ledger.charge(data, gaussian(3.0), "release")
    found = re.search(r"to ε = ([0-9.]+), above its budget of ε = ([0-9.]+) ", str(caught.value))
    assert found is not None
    assert float(found[1]) > float(found[2])


@pytest.mark.parametrize(
    ("event", "says"),
    [
        (Unbounded("triangle", ADD), "∞"),
        (Composed((gaussian(50.0), Unbounded("triangle", ADD))), "∞"),
        (GaussianEvent(50.0, 1.0, REPLACE), "replace-one"),
        (Sampled(GaussianEvent(50.0, 1.0, REPLACE), FixedSize(1, 100)), "replace-one"),
        (Composed((gaussian(50.0), GaussianEvent(50.0, 1.0, REPLACE))), "count all under one"),
    ],
)
def test_what_no_budget_covers(ledger: Ledger, data: str, path: Path, event: Event, says: str) -> None:
    before = rows(path)
    with pytest.raises(BudgetError, match=says):
        ledger.charge(data, event, "no")
    assert rows(path) == before


def test_no_budget_no_charge(ledger: Ledger, path: Path) -> None:
    with pytest.raises(BudgetError, match="no budget"):
        ledger.charge("0" * 64, gaussian(99.0), "no")
    assert ledger.spent("0" * 64) is None
    assert ledger.budget("0" * 64) is None
    with pytest.raises(UsageError):
        ledger.remaining("0" * 64)
    assert ledger.verify() == 1


def test_data_sets_do_not_share_budgets(ledger: Ledger, data: str) -> None:
    other = ledger.fingerprint({"x": np.ones(1)})
    ledger.set_budget(other, 0.5, 1e-7, "replace-one", "other", new_records=True)
    ledger.charge(data, gaussian(5.0), "mine")
    ledger.charge(other, GaussianEvent(40.0, 2.0, REPLACE), "theirs")
    assert [e.purpose for e in ledger.entries(other)] == ["theirs"]
    spent = ledger.spent(other)
    assert spent is not None
    assert spent.epsilon() == pytest.approx(closed_form(2.0 / 40.0, 1e-7))
    assert (spent.adjacency, spent.at_delta) == (REPLACE, 1e-7)
    assert [b.label for b in ledger.datasets()] == ["clinic", "other"]


def test_a_second_data_set_needs_a_statement_that_is_sealed_with_its_budget(
    ledger: Ledger, data: str, path: Path
) -> None:
    other, third = (ledger.fingerprint({"x": np.full(2, value)}) for value in (1.0, 2.0))
    terms: tuple[Any, ...] = (0.5, DELTA, ADD)
    for stated in (False, None, 0, "yes", 1):
        with pytest.raises(OtherRecordsError, match=r"guards other records \('clinic'\)"):
            ledger.set_budget(other, *terms, "other", new_records=stated)  # type: ignore[arg-type]
        with pytest.raises(OtherRecordsError):
            ledger.admit(other, new_records=stated)  # type: ignore[arg-type]
    assert OtherRecordsError.exit_code == 4
    assert ledger.verify() == 2
    assert ledger.admit(other, new_records=True) is None
    made = ledger.set_budget(other, *terms, "other", new_records=True)
    assert (made.new_records, ledger.admit(other), ledger.budget(other)) == (True, made, made)
    assert ledger.admit(data) == ledger.budget(data)
    # one statement is for one data set
    with pytest.raises(OtherRecordsError, match="'clinic', 'other'"):
        ledger.set_budget(third, *terms, "third")
    assert json.loads(rows(path)[2][3])["new_records"] is True
    assert [b.new_records for b in ledger.datasets()] == [False, True]


def test_the_first_data_set_of_a_ledger_needs_no_statement_and_records_none(ledger: Ledger) -> None:
    name = ledger.fingerprint({"x": np.ones(2)})
    assert ledger.admit(name) is None
    assert ledger.set_budget(name, 1.0, DELTA, ADD, "first", new_records=True).new_records is False


def test_a_ledger_from_before_the_rule_still_opens_and_charges_both_of_its_data_sets(path: Path) -> None:
    """Two budgets, the second without a statement, as earlier versions wrote them."""
    with Ledger.create(path) as old:
        names = [old.fingerprint({"x": np.full(2, value)}) for value in (1.0, 2.0)]
        body = canonical({"epsilon": 1.0, "delta": DELTA, "adjacency": "add-remove"})
        for name in names:
            with old._store.writing():
                row = old._append(old._rows(), BUDGET, name, body, "as before")
            old._anchor(row)
    with Ledger.open(path) as ledger:
        assert ledger.verify() == 3
        for name in names:
            assert ledger.admit(name) == ledger.budget(name)
            ledger.charge(name, gaussian(20.0), "a look")
        assert [b.new_records for b in ledger.datasets()] == [False, False]
        with pytest.raises(OtherRecordsError):
            ledger.admit(ledger.fingerprint({"x": np.full(2, 3.0)}))


def test_of_two_data_sets_that_come_at_once_one_is_refused(path: Path) -> None:
    Ledger.create(path).close()
    outcomes: list[str] = []

    def work(value: float) -> None:
        with Ledger.open(path) as mine:
            name = mine.fingerprint({"x": np.full(2, value)})
            start.wait()
            try:
                mine.set_budget(name, 1.0, DELTA, ADD, "mine")
                outcomes.append("set")
            except OtherRecordsError:
                outcomes.append("refused")

    start = threading.Barrier(4)
    threads = [threading.Thread(target=work, args=(float(value),)) for value in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(outcomes) == ["refused"] * 3 + ["set"]


def test_a_budget_is_set_once(ledger: Ledger, data: str) -> None:
    first = ledger.budget(data)
    assert isinstance(first, Budget)
    assert ledger.set_budget(data, 1, DELTA, "add_remove", "another label") == first
    assert first.to_dict()["adjacency"] == "add-remove"
    for terms in ((1.1, DELTA, ADD), (0.9, DELTA, ADD), (1.0, 1e-4, ADD), (1.0, DELTA, REPLACE)):
        with pytest.raises(UsageError, match="only its steward can raise it"):
            ledger.set_budget(data, *terms, "clinic")
    assert ledger.verify() == 2


@pytest.mark.parametrize("epsilon", [0.0, -1.0, math.inf, math.nan, True, "1"])
def test_bad_budgets(ledger: Ledger, epsilon: float) -> None:
    with pytest.raises(UsageError):
        ledger.set_budget("0" * 64, epsilon, DELTA, ADD, "x")


@pytest.mark.parametrize("purpose", ["", "  ", "a\nb", "x" * 201, "\x1b[2J", "\ud800", None])
def test_bad_purposes(ledger: Ledger, data: str, purpose: str) -> None:
    with pytest.raises(UsageError, match="printable"):
        ledger.charge(data, gaussian(20.0), purpose)


def test_bad_fingerprints_and_events(ledger: Ledger, data: str) -> None:
    for name in ("clinic", data.upper() + "0", data[:-1], data + "\n", None):
        with pytest.raises(UsageError):
            ledger.charge(name, gaussian(20.0), "x")
    with pytest.raises(UsageError, match="event"):
        ledger.charge(data, {"event": "gaussian"}, "x")
    assert ledger.verify() == 2


EVENTS = st.one_of(
    st.floats(4.0, 200.0).map(gaussian),
    st.sampled_from([gaussian(s) for s in (10.0, 20.0)]),
    st.builds(Repeated, st.floats(30.0, 300.0).map(gaussian), st.integers(1, 20)),
    st.lists(st.floats(20.0, 90.0).map(gaussian), min_size=1, max_size=3).map(lambda e: Composed(tuple(e))),
)


@pytest.mark.slow
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(charges=st.lists(EVENTS, min_size=1, max_size=12), budget=st.floats(0.2, 2.0))
def test_any_sequence_of_charges(tmp_path_factory: pytest.TempPathFactory, charges: list[Event], budget: float) -> None:
    path = tmp_path_factory.mktemp("any") / "a.ledger"
    taken = []
    with Ledger.create(path) as ledger:
        data = ledger.fingerprint({"x": np.zeros(1)})
        ledger.set_budget(data, budget, DELTA, ADD, "any")
        for event in charges:
            before = rows(path)
            would_be = account(Composed((*taken, event)), DELTA).epsilon()
            try:
                ledger.charge(data, event, "any")
            except BudgetError:
                # two orders of the same sum may differ in the last place
                assert would_be > budget * (1 - 1e-12)
                assert rows(path) == before
            else:
                taken.append(event)
                assert would_be <= budget * (1 + 1e-12)
                assert rows(path)[:-1] == before
        spent = ledger.spent(data)
        if taken:
            assert spent is not None
            assert spent.epsilon() <= budget
            assert spent.epsilon() == pytest.approx(account(Composed(tuple(taken)), DELTA).epsilon(), rel=1e-9)
        assert [e.event for e in ledger.entries(data)] == taken
        assert ledger.verify() == 2 + len(taken)


def test_events_beyond_closed_forms(ledger: Ledger, data: str) -> None:
    events = (Repeated(Sampled(gaussian(4.0), Poisson(0.01)), 100), Laplace(10.0, 1.0, ADD))
    for event in events:
        ledger.charge(data, event, "mixed")
    spent, one = ledger.spent(data), ledger.spent(data, "mixed")
    assert spent is not None
    assert one is not None
    # the releases that were chosen beforehand cost less than those of whoever chooses as he goes
    assert one.epsilon() == pytest.approx(account(Composed(events), DELTA).epsilon(), rel=1e-9)
    assert one.epsilon() < spent.epsilon() <= 1.0


def test_threads_take_turns(ledger: Ledger, data: str) -> None:
    def work() -> None:
        for _ in range(10):
            ledger.charge(data, gaussian(200.0), "thread")

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert ledger.verify() == 32


def test_rows_cannot_be_changed_through_sqlite(ledger: Ledger, data: str, path: Path) -> None:
    ledger.charge(data, gaussian(20.0), "step")
    connection = sqlite3.connect(path, isolation_level=None)
    for statement in (
        "UPDATE ledger SET note = 'x'",
        "DELETE FROM ledger WHERE id = 3",
        "INSERT OR REPLACE INTO ledger SELECT 3, kind, fingerprint, body, 'x', at, mac FROM ledger LIMIT 1",
        "INSERT INTO ledger SELECT 9, kind, fingerprint, body, 'x', at, mac FROM ledger WHERE id = 3",
    ):
        with pytest.raises(sqlite3.IntegrityError, match="append-only"):
            connection.execute(statement)
    connection.close()
    assert ledger.verify() == 3


def test_the_log_is_kept_and_synced(ledger: Ledger, path: Path) -> None:
    connection = ledger._store._sqlite
    assert connection is not None
    assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    assert connection.execute("PRAGMA synchronous").fetchone() == (2,)
    assert connection.execute("PRAGMA user_version").fetchone() == (1,)


def test_a_ledger_keeps_its_identity_and_no_other_has_it(tmp_path: Path) -> None:
    with Ledger.create(tmp_path / "a") as one, Ledger.create(tmp_path / "b") as other:
        name = one.identity
        assert name != other.identity
        data = one.fingerprint({"x": np.arange(3.0)})
        one.set_budget(data, 5.0, DELTA, ADD, "numbers")
        one.charge(data, gaussian(2.0), "a look")
        assert one.identity == name
    with Ledger.open(tmp_path / "a") as again:
        assert again.identity == name
        # public, so it may be written down: neither the key nor a seal can be read off it
        assert name not in {row[-1] for row in rows(tmp_path / "a")}
