"""Several processes charge at once and are killed at any moment: the ledger never under-counts."""

from __future__ import annotations

import math
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from ledger_samples import ADD, DELTA, gaussian

from privot.accounting.laws.gaussian import epsilon as closed_form
from privot.errors import BudgetError, DataError, UsageError
from privot.ledger import Ledger, sqlite_store
from privot.ledger.anchor import Anchor

CHARGES = int(os.environ.get("PRIVOT_LEDGER_CHARGES", "60"))
"""Charges each of the two processes must see acknowledged; 1,000 for the evidence."""


@pytest.mark.kills
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork and SIGKILL")
def test_two_processes_killed_at_random(ledger: Ledger, path: Path) -> None:
    data = ledger.fingerprint({"x": np.zeros(1)})
    ledger.set_budget(data, 5.0, DELTA, ADD, "shared")
    ledger.close()
    charger = Path(__file__).with_name("charger.py")
    started = time.monotonic()
    users = [
        subprocess.Popen(
            [sys.executable, str(charger), str(path), data, name, str(CHARGES), str(seed)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for seed, name in enumerate(("first", "second"))
    ]
    said = [user.communicate(timeout=600) for user in users]
    took = time.monotonic() - started
    lives = [int(out) for out, _ in said]
    with Ledger.open(path) as again:
        number = again.verify()
        entries = {entry.id: entry.purpose for entry in again.entries(data)}
        spent = again.spent(data)
    notes = [
        line.split(" ", 1) for name in ("first", "second") for line in Path(f"{path}.{name}").read_text().splitlines()
    ]
    assert len(notes) == 2 * CHARGES
    assert len({note[0] for note in notes}) == 2 * CHARGES
    for id, purpose in notes:
        assert entries[int(id)] == purpose
    # a life can end at most once between charge and note
    assert 2 * CHARGES <= len(entries) <= 2 * CHARGES + sum(lives)
    assert number == 2 + len(entries)
    assert spent is not None
    assert spent.epsilon() == pytest.approx(closed_form(math.sqrt(len(entries)) / 500.0, DELTA), rel=1e-9)
    print(f"\n{len(entries)} charges, {sum(lives)} lives, {took:.1f} s, {len(entries) / took:.0f} charges/s")
    assert sum(lives) > 2, "nobody was killed"


def test_a_crash_between_commit_and_anchor_counts(
    ledger: Ledger, data: str, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Killed(BaseException):
        pass

    def die(*_: object) -> None:
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(Anchor, "write", die)
        with pytest.raises(Killed):
            ledger.charge(data, gaussian(20.0), "half done")
    with Ledger.open(path) as other:
        assert [entry.purpose for entry in other.entries(data)] == ["half done"]
        other.charge(data, gaussian(20.0), "next")
        assert other.verify() == 4


def test_a_crash_before_commit_leaves_nothing(
    ledger: Ledger, data: str, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def die(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(sqlite_store.Store, "append", die)
        with pytest.raises(KeyboardInterrupt):
            ledger.charge(data, gaussian(20.0), "never")
    assert ledger.entries() == []
    ledger.charge(data, gaussian(20.0), "next")
    assert ledger.verify() == 3


def test_a_charge_while_somebody_reads(ledger: Ledger, data: str, path: Path) -> None:
    """The anchor moves on between the two reads of a reader, who must not take that for lost rows."""
    with Ledger.open(path) as reader:
        read = reader._store.rows

        def read_slowly() -> list[tuple[object, ...]]:
            found = read()
            ledger.charge(data, gaussian(90.0), "meanwhile")
            return found

        reader._store.rows = read_slowly  # type: ignore[method-assign]
        assert reader.verify() == 2
        assert reader.verify() == 3


def test_a_lock_that_is_never_released(ledger: Ledger, data: str, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite_store, "_TIMEOUT", 0.05)
    monkeypatch.setattr(sqlite_store, "_PATIENCE", 0.1)
    with Ledger.open(path) as other, ledger._store.locked():
        with pytest.raises(DataError, match="in use by another process"):
            other.charge(data, gaussian(20.0), "no")
        assert other.verify() == 2  # readers are not held up
    assert ledger.entries() == []


def test_a_budget_is_not_overdrawn_from_two_sides(ledger: Ledger, data: str, path: Path) -> None:
    with Ledger.open(path) as other:
        taken = 0
        for turn in (ledger, other) * 60:
            try:
                turn.charge(data, gaussian(20.0), "turn")
                taken += 1
            except BudgetError:
                continue
        fit = max(t for t in range(1, 200) if closed_form(math.sqrt(t) / 20.0, DELTA) <= 1.0)
        assert taken == fit < 120


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_fork_must_open_its_own(ledger: Ledger, data: str) -> None:
    child = os.fork()
    if child == 0:
        try:
            ledger.charge(data, gaussian(20.0), "child")
        except UsageError:
            ledger.close()
            os._exit(7)
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    ledger.charge(data, gaussian(20.0), "parent")
    assert ledger.verify() == 3
