"""What the ledger's tests share: a small ledger with every kind of row, and raw access to its file."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from ledger_samples import ADD, DELTA, gaussian

from privot.accounting import Laplace
from privot.accounting.events import Renyi
from privot.guarantee import Standing
from privot.ledger import Ledger


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "a.ledger"


@pytest.fixture
def ledger(path: Path) -> Iterator[Ledger]:
    with Ledger.create(path) as made:
        yield made


@pytest.fixture
def data(ledger: Ledger) -> str:
    """A data set with ε = 1 to spend."""
    name = ledger.fingerprint({"x": np.arange(6.0).reshape(2, 3), "y": np.array([0, 1])})
    ledger.set_budget(name, 1.0, DELTA, ADD, "clinic")
    return name


@pytest.fixture
def filled(path: Path) -> Path:
    """A closed ledger: two data sets, equal and different events, one row longer than a page."""
    with Ledger.create(path) as made:
        one, two = (made.fingerprint({"x": np.full(3, value)}) for value in (1.0, 2.0))
        made.set_budget(one, 1.0, DELTA, ADD, "clinic")
        made.set_budget(two, 2.0, 1e-6, ADD, "Zürich", new_records=True)
        for _ in range(3):
            made.charge(one, gaussian(30.0), "same again")
        made.charge(two, Laplace(20.0, 1.0, ADD), "count")
        orders = tuple(1.5 + i for i in range(80))
        made.charge(two, Renyi(orders, tuple(a / 900.0 for a in orders), ADD, Standing.PROVEN), "long curve")
    return path


@pytest.fixture
def raw(filled: Path) -> Callable[[str], None]:
    """Run statements on the file behind the ledger's back, its triggers lifted and put back."""

    def run(*statements: str) -> None:
        connection = sqlite3.connect(filled, isolation_level=None)
        triggers = connection.execute("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'").fetchall()
        for name, _ in triggers:
            connection.execute(f"DROP TRIGGER {name}")
        for statement in statements:
            connection.execute(statement)
        for _, sql in triggers:
            connection.execute(sql)
        connection.close()

    return run
