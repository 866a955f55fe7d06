"""A ledger that is not named is found only where no other one may guard the same records."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from privot.cli import run
from privot.cli.ledgers import default_ledger
from privot.errors import UsageError
from privot.ledger import Ledger
from privot.tables import Column, Schema

TERMS = ["--epsilon", "1", "--delta", "1e-5", "--adjacency", "add-remove", "--device", "cpu", "--out", "made"]


@pytest.fixture
def visits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Schema((Column("age", "integer", 0, 9), Column("size", "integer", 0, 9))).save(tmp_path / "schema.json")
    (tmp_path / "visits").mkdir()
    for month in ("jan", "feb"):
        (tmp_path / "visits" / f"{month}.csv").write_text("age,size\n" + "1,2\n3,4\n" * 20)
    return tmp_path / "visits"


@pytest.mark.parametrize(
    "data", ["visits", "visits/*.csv", "visits/jan*", "file:///tmp/visits/", "duckdb:///x.db", "postgresql://host/db"]
)
def test_partitioned_data_need_a_named_ledger(visits: Path, data: str, capsys: Any) -> None:
    """A pattern and a single file would have two ledgers, and two budgets."""
    query = ["--query", "SELECT 1 AS age, 2 AS size"] if "db" in data else []
    if data.startswith("duckdb"):
        (visits / "x.db").write_bytes(b"")
        data = f"duckdb://{visits / 'x.db'}"
    if data.startswith("file"):
        pytest.importorskip("fsspec")
        data = f"file://{visits}/"
    assert run(["synth", data, "--schema", "schema.json", *TERMS, *query]) == 2
    assert "--ledger" in capsys.readouterr().err
    assert not list(visits.parent.rglob("*.ledger"))
    assert not (visits.parent / "made").exists()


def test_a_dry_run_needs_none(visits: Path) -> None:
    assert run(["synth", "visits/*.csv", "--schema", "schema.json", *TERMS, "--dry-run", "--set", "workers=1"]) == 0


@pytest.mark.parametrize("place", ["visits.ledger", "visits/all.ledger"])
def test_a_ledger_near_a_file_is_not_passed_over(visits: Path, place: str, capsys: Any) -> None:
    """It was made for the folder or a pattern: a new one beside the file would be a second budget."""
    Ledger.create(visits.parent / place).close()
    with pytest.raises(UsageError, match="second"):
        default_ledger("visits/jan.csv", Path("made"))
    assert run(["synth", "visits/jan.csv", "--schema", "schema.json", *TERMS]) == 2
    assert Path(place).name in capsys.readouterr().err
    # its own ledger is its own, whatever lies near
    Ledger.create(visits / "jan.csv.ledger").close()
    assert default_ledger("visits/jan.csv", Path("made")) == visits / "jan.csv.ledger"


def test_ledgers_of_other_files_and_of_built_in_data_are_none_of_its_business(visits: Path) -> None:
    Ledger.create(visits / "feb.csv.ledger").close()
    Ledger.create(visits / "digits.ledger").close()
    (visits / "notes.ledger").write_text("no ledger: it has no key")
    assert default_ledger("visits/jan.csv", Path("made")) == visits / "jan.csv.ledger"
    assert default_ledger("digits", visits / "made") == visits / "digits.ledger"


def test_a_ledger_of_related_tables_is_near_each_of_them_and_near_no_other_file(visits: Path) -> None:
    """A file's own name may hold the mark between names, and others may be called like its parts."""
    for name in ("a+b.csv", "a", "b.csv", "c.csv", "other.csv"):
        (visits / name).write_text("age,size\n1,2\n")
    Ledger.create(visits / "a+b.csv+c.csv.ledger").close()
    for name in ("a+b.csv", "c.csv"):
        with pytest.raises(UsageError, match="second"):
            default_ledger(f"visits/{name}", Path("made"))
    assert default_ledger("visits/other.csv", Path("made")).name == "other.csv.ledger"
