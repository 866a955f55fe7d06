"""One data set has one name in a ledger, however it is cut and whenever the ledger was made."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from partition_samples import CODEC, SCHEMA, arrow_table, cut, people, table_release, write_parquet

from privot import Ledger, Vault
from privot.accounting import Gaussian
from privot.cli import run
from privot.data.record_digest import class_digests, records_digest, row_digests
from privot.errors import BudgetError, OtherRecordsError, UsageError
from privot.guarantee import Adjacency
from privot.kinds import Files
from privot.partitions.engines.local_engine import LocalEngine
from privot.partitions.source_opening import open_source
from privot.tables import encode_file
from privot.vault import record_sources
from privot.vault.budget import account_name, row_key

pytest.importorskip("pyarrow", reason="Parquet needs pyarrow")
PEOPLE = people(120)
HERE = LocalEngine(1)
TERMS = (1.0, 1e-5)


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    with Ledger.create(tmp_path / "l.ledger") as made:
        yield made


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_parquet(tmp_path / "cut", cut(PEOPLE, 5))


@pytest.fixture
def rows(tmp_path: Path) -> np.ndarray:
    return encode_file(write_parquet(tmp_path / "one", [PEOPLE]) / "part-000.parquet", CODEC, compact=True)[0]


@pytest.fixture
def earlier(ledger: Ledger, rows: np.ndarray) -> str:
    """A budget of these rows as earlier versions set it, almost spent."""
    name = ledger.fingerprint({"x": row_digests(rows)})
    ledger.set_budget(name, *TERMS, "add-remove", "before")
    ledger.charge(name, Gaussian(sensitivity=1.0, sigma=5.0, adjacency=Adjacency.ADD_REMOVE), "long ago")
    return name


def vault_of(rows: np.ndarray, ledger: Ledger, **more: Any) -> Vault:
    return Vault(rows, clip=CODEC.bound(compact=True), adjacency="add-remove", ledger=ledger, budget=TERMS, **more)


@pytest.mark.parametrize("new_records", [False, True])
def test_rows_that_an_earlier_ledger_knows_have_no_second_budget(
    ledger: Ledger, rows: np.ndarray, earlier: str, new_records: bool
) -> None:
    vault = vault_of(rows[::-1], ledger, new_records=new_records)
    assert vault.charges("long ago") == 1
    assert [known.fingerprint for known in ledger.datasets()] == [earlier]
    # other rows are other records: refused, or stated to be new
    with pytest.raises(OtherRecordsError):
        vault_of(rows[1:], ledger)
    assert vault_of(rows[1:], ledger, new_records=True).charges("long ago") == 0


@pytest.mark.parametrize("new_records", [False, True])
def test_partitions_are_refused_by_an_earlier_ledger_that_cannot_tell(
    ledger: Ledger, folder: Path, earlier: str, new_records: bool
) -> None:
    with pytest.raises(UsageError, match="made before partitioned data"):
        Vault.open(
            Files(folder, engine=HERE),
            SCHEMA,
            adjacency="add-remove",
            ledger=ledger,
            budget=TERMS,
            new_records=new_records,
        )
    assert len(ledger.datasets()) == 1


def test_rows_and_partitions_have_one_name(ledger: Ledger, rows: np.ndarray, folder: Path) -> None:
    vault_of(rows, ledger)
    terms: dict[str, Any] = {"adjacency": "add-remove", "ledger": ledger, "budget": TERMS}
    vault = Vault.open(Files(folder, engine=HERE), SCHEMA, new_records=True, **terms)
    assert [known.by_sum for known in ledger.datasets()] == [True]
    vault.check(Gaussian(sensitivity=1.0, sigma=5.0, adjacency=Adjacency.ADD_REMOVE), purpose="test")
    with pytest.raises(BudgetError):
        vault.check(Gaussian(sensitivity=1.0, sigma=0.5, adjacency=Adjacency.ADD_REMOVE), purpose="test")


# --- the sum is keyed


def test_a_sum_depends_on_its_key_and_on_nothing_but_the_set(rows: np.ndarray, folder: Path) -> None:
    """Without a key, who chooses records could choose two sets of one sum."""
    first, second = bytes(32), bytes(range(32))
    source = open_source(folder, codec=CODEC, engine=HERE)
    sums = [source.named(key) for key in (first, second)]
    assert not np.any(sums[0][1:] == sums[1][1:])
    for key, found in zip((first, second), sums, strict=True):
        np.testing.assert_array_equal(found, records_digest(key, rows[::-1]))
        np.testing.assert_array_equal(found, records_digest(key, rows.astype(np.float64) + 0.0))
        assert not np.array_equal(found, records_digest(key, rows[:-1]))
        # which row is repeated counts, too
        assert not np.array_equal(
            records_digest(key, np.r_[rows, rows[:1]]), records_digest(key, np.r_[rows, rows[1:2]])
        )


def test_two_ledgers_have_two_keys(tmp_path: Path, ledger: Ledger) -> None:
    with Ledger.create(tmp_path / "other.ledger") as other:
        assert row_key(ledger) != row_key(other)
        assert len(row_key(ledger)) == 32


def test_classes_tell_which_label_belongs_to_which_row(rows: np.ndarray) -> None:
    key, labels = bytes(32), np.arange(len(rows)) % 3
    found = class_digests(key, rows, labels, 3)
    np.testing.assert_array_equal(found.sum(axis=0, dtype=np.uint64), records_digest(key, rows))
    for label in range(3):
        np.testing.assert_array_equal(found[label], records_digest(key, rows[labels == label]))
    swapped = labels.copy()
    swapped[[0, 1]] = swapped[[1, 0]]
    assert not np.array_equal(found, class_digests(key, rows, swapped, 3))


def test_a_release_made_again_is_of_the_very_records(
    ledger: Ledger, rows: np.ndarray, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If two data sets had one name, the second would get the noise of the first, and pay nothing."""
    monkeypatch.setattr(record_sources, "records_digest", lambda key, rows: np.zeros(5, dtype=np.uint64))
    labels = np.arange(len(rows)) % 2
    assert account_name(ledger, rows) == account_name(ledger, rows + 0.0)
    released = []
    for some in (slice(None), slice(1, None)):
        vault = Vault(
            rows[some], labels[some], classes=2, clip=CODEC.bound(compact=True), adjacency="add-remove", ledger=ledger,
            budget=(30.0, 1e-5),
        )  # fmt: skip
        secret = bytes(range(32))
        assert not vault.released_once(table_release(), secret=secret)
        released.append(vault.release_once(table_release(), purpose="once", secret=secret).value["tree"])
        assert vault.released_once(table_release(), secret=secret)
        assert not vault.released_once(table_release(), secret=bytes(32))
    assert vault.charges("once") == 2
    # one record's cells would differ, were the noise the same
    assert np.count_nonzero(released[0] != released[1]) > released[0].size // 2


def test_a_vault_with_a_ledger_reads_partitions_once(folder: Path, ledger: Ledger) -> None:
    source = open_source(folder, codec=CODEC, engine=HERE)
    told: list[Any] = []
    source.progress = told.append
    Vault(source, classes=2, clip=source.clip, adjacency="replace-one", ledger=ledger, budget=TERMS)
    assert [now.done for now in told] == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("kind", ["file", "local", "duckdb"])
def test_a_copy_at_an_address_of_this_machine_is_warned_of(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any, kind: str
) -> None:
    """The ledger that knows the records lies beside them; the new one lies in a folder far away."""
    pytest.importorskip("fsspec")
    away = tmp_path / "elsewhere" / "deeper" / "work"
    away.mkdir(parents=True)
    SCHEMA.save(away / "schema.json")
    monkeypatch.chdir(away)
    terms = ["--epsilon", "1", "--delta", "1e-5", "--adjacency", "add-remove", "--schema", "schema.json"]
    if kind == "duckdb":
        duckdb = pytest.importorskip("duckdb")
        with duckdb.connect(str(tmp_path / "people.db")) as connection:
            connection.register("held", arrow_table(PEOPLE))
            connection.execute("CREATE TABLE people AS SELECT * FROM held")
        data = [f"duckdb://{tmp_path}/people.db", "--query", f"SELECT {', '.join(SCHEMA.names)} FROM people"]
    else:
        data = [f"{kind}://{folder}/*.parquet"]
    known = str(tmp_path / "known.ledger")
    assert run(["ledger", "init", known, "--data", str(folder), *terms, "--set", "workers=1"]) == 0
    assert "Warning" not in capsys.readouterr().err
    assert run(["ledger", "init", "new.ledger", "--data", *data, *terms, "--set", "workers=1"]) == 0
    said = " ".join(capsys.readouterr().err.split())
    assert said.count("Warning") == 1
    assert f"{known} guards these very records" in said
