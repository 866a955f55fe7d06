"""Rows of a query are released as rows of a file are, from DuckDB and from a real PostgreSQL server."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from partition_samples import SCHEMA, arrow_table, exact, open_table, people, same, table_release, write_parquet

from privot.cli import run
from privot.errors import DataError, UsageError
from privot.partitions import LocalEngine

pytest.importorskip("pyarrow", reason="queries come as Arrow batches")
PEOPLE = people(300)
HERE = LocalEngine(1)
QUERY = "SELECT age, income, city, born, smokes, ill FROM people"


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = write_parquet(tmp_path_factory.mktemp("whole") / "one", [PEOPLE])
    return exact(open_table(folder / "part-000.parquet"), table_release())


@pytest.fixture(scope="module")
def duckdb_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    duckdb = pytest.importorskip("duckdb")
    path = tmp_path_factory.mktemp("duckdb") / "people.db"
    held = arrow_table(PEOPLE)
    with duckdb.connect(str(path)) as connection:
        connection.register("held", held)
        connection.execute("CREATE TABLE people AS SELECT * FROM held")
    return path


@pytest.fixture(scope="module")
def server(postgresql: str) -> str:
    """A server with the table, with PostgreSQL's own types."""
    from adbc_driver_postgresql import dbapi

    with dbapi.connect(postgresql) as connection, connection.cursor() as cursor:
        cursor.adbc_ingest("loaded", arrow_table(PEOPLE), mode="create")
        cursor.execute(
            "CREATE TABLE people AS SELECT age::integer, income::double precision, city::varchar(20), born::date, "
            "smokes::boolean, ill::text FROM loaded"
        )
        connection.commit()
    return postgresql


@pytest.mark.parametrize("parts", [1, 7, 50])
def test_duckdb_releases_what_a_file_releases(duckdb_file: Path, whole: dict[str, Any], parts: int) -> None:
    vault = open_table(f"duckdb://{duckdb_file}", query=QUERY, parts=parts, engine=HERE)
    assert same(exact(vault, table_release()), whole)


def test_duckdb_reads_files_by_sql(tmp_path: Path, whole: dict[str, Any]) -> None:
    pytest.importorskip("duckdb")
    folder = write_parquet(tmp_path / "cut", [PEOPLE[:100], PEOPLE[100:]])
    query = f"SELECT * FROM '{folder}/*.parquet';"
    vault = open_table("duckdb://", query=query, parts=2, engine=LocalEngine(2))
    assert same(exact(vault, table_release()), whole)


@pytest.mark.parametrize("parts", [1, 7, 50])
def test_postgresql_releases_what_a_file_releases(server: str, whole: dict[str, Any], parts: int) -> None:
    vault = open_table(server, query=QUERY, parts=parts, engine=HERE)
    assert same(exact(vault, table_release()), whole)


def test_numbers_as_numeric_and_moments_are_read(server: str, whole: dict[str, Any]) -> None:
    query = (
        "SELECT age::numeric, income::numeric, city, born::timestamp, smokes, ill FROM (SELECT age, "
        "income::text::numeric, city, born, smokes, ill FROM people) AS p"
    )
    assert same(exact(open_table(server, query=query, engine=HERE), table_release()), whole)


def test_the_command_synthesises_from_postgresql(
    server: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    SCHEMA.save(tmp_path / "schema.json")
    terms = ["--epsilon", "1", "--delta", "1e-5", "--adjacency", "add-remove", "--device", "cpu", "--seed", "1"]
    call = ["synth", server, "--query", QUERY, "--schema", "schema.json", "--partitions", "3", "--workers", "1"]
    out = ["--ledger", "people.ledger", "--out", "made", "--samples", "50", "--json"]
    assert run([*call, *terms, *out]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["guarantee"]["epsilon"] <= 1.0
    assert (tmp_path / "made" / "synthetic.csv").read_text().count("\n") == 51
    # a second one does not fit the budget of the same rows, however the query is cut
    again = ["--ledger", "people.ledger", "--out", "more", "--samples", "50"]
    assert run([*call[:-3], "5", "--workers", "1", *terms, *again]) == 4


def test_queries_that_cannot_run_are_refused_in_a_sentence(duckdb_file: Path, postgresql: str) -> None:
    for place in (f"duckdb://{duckdb_file}", postgresql):
        with pytest.raises(DataError, match="cannot run the query"):
            open_table(place, query="SELECT 1 AS age FROM nowhere", engine=HERE)
        with pytest.raises(DataError, match="lacks column"):
            open_table(place, query="SELECT 1 AS age", engine=HERE)
    with pytest.raises(DataError, match="no DuckDB file"):
        open_table("duckdb:///nowhere/at/all.db", query=QUERY, engine=HERE)


def test_values_that_a_database_quotes_are_not_repeated(postgresql: str) -> None:
    query = QUERY.replace("FROM people", "FROM (SELECT 31415926::text::date AS born, 1 AS age) AS q")
    with pytest.raises(DataError) as caught:
        open_table(postgresql, query=query, engine=HERE)
    assert "31415926" not in str(caught.value)


@pytest.mark.parametrize(
    ("place", "more", "match"),
    [
        ("postgresql://me:secret@host/db", {"query": QUERY}, "no password"),
        ("postgresql://host/db?password=secret", {"query": QUERY}, "no password"),
        ("postgresql://host/db", {}, "state the query"),
        ("duckdb://", {"query": QUERY, "parts": 0}, "at least 1"),
        ("people.csv", {"query": QUERY}, "sent to duckdb"),
    ],
)
def test_what_cannot_be_a_query_is_refused(place: str, more: dict[str, Any], match: str) -> None:
    with pytest.raises(UsageError, match=match) as caught:
        open_table(place, **more)
    assert "secret" not in str(caught.value)
