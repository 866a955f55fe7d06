"""Rows of a query are released as rows of a file are, from DuckDB and from a real PostgreSQL server."""

from __future__ import annotations

import json
from contextlib import nullcontext
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from partition_samples import (
    CODEC,
    SCHEMA,
    arrow_table,
    exact,
    open_table,
    people,
    same,
    table_release,
    write_csv,
    write_parquet,
)

from privot.cli import run
from privot.errors import DataError, UsageError
from privot.partitions.engines.local_engine import LocalEngine
from privot.partitions.readers import query_partitions
from privot.partitions.readers.query_partitions import QueryCount
from privot.partitions.readers.query_text import checked_query
from privot.partitions.source_opening import open_source
from privot.tables import Column, Schema, TableCodec

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


@pytest.mark.slow
@pytest.mark.parametrize("parts", [1, 7, pytest.param(12, marks=pytest.mark.full("seven parts, but more"))])
def test_duckdb_releases_what_a_file_releases(duckdb_file: Path, whole: dict[str, Any], parts: int) -> None:
    vault = open_table(f"duckdb://{duckdb_file}", query=QUERY, parts=parts, engine=HERE)
    assert same(exact(vault, table_release()), whole)


# --- what a record becomes may not depend on others


OUTSIDE = [
    "SELECT * FROM read_csv('{file}')",
    "SELECT * FROM '{file}'",
    "SELECT p.* FROM people AS p, read_csv('{file}') AS f",
    "SELECT * FROM outside",  # a view that reads the file
    "SELECT * FROM OTHERS",  # a variable of this process
]


@pytest.mark.parametrize("query", OUTSIDE)
def test_duckdb_reads_the_tables_of_its_file_and_nothing_else(tmp_path: Path, query: str) -> None:
    """A reader of files in SQL infers types from other records: 007 is a number beside 5, a text beside x."""
    duckdb = pytest.importorskip("duckdb")
    OTHERS = arrow_table(PEOPLE)  # noqa: F841 - DuckDB would find it by its name
    file, place = write_csv(tmp_path / "csv", [PEOPLE]) / "part-000.csv", tmp_path / "people.db"
    with duckdb.connect(str(place)) as connection:
        connection.execute("CREATE TABLE people AS SELECT * FROM OTHERS")
        connection.execute(f"CREATE VIEW outside AS SELECT * FROM read_csv('{file}')")
        assert connection.execute(query.format(file=file)).fetchone() is not None
    # the text of some is refused before, so the database is asked itself
    with pytest.raises(DataError, match="the tables of its file and nothing else"):
        QueryCount(f"duckdb://{place}", query.format(file=file))()


def test_a_query_cannot_unlock_what_is_locked(duckdb_file: Path) -> None:
    from privot.partitions.readers.query_partitions import _duckdb

    with _duckdb(f"duckdb://{duckdb_file}", "SELECT 1 AS one") as reader:
        assert reader.read_all().num_rows == 1
    for setting in ("enable_external_access = true", "lock_configuration = false", "python_enable_replacements = true"):
        with pytest.raises(DataError), _duckdb(f"duckdb://{duckdb_file}", f"SET {setting}"):
            pass


def test_duckdb_in_memory_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="database file"):
        open_table("duckdb://", query="SELECT 1 AS age", engine=HERE)
    with pytest.raises(DataError, match="no DuckDB file"):
        open_table("duckdb://:memory:", query="SELECT 1 AS age", engine=HERE)


@pytest.mark.parametrize(
    ("query", "match"),
    [
        ("SELECT * FROM people LIMIT 10", "LIMIT"),
        ("SELECT * FROM (SELECT * FROM people ORDER BY age OFFSET 3) AS p", "OFFSET|ORDER BY"),
        ("SELECT * FROM people FETCH FIRST 3 ROWS ONLY", "LIMIT"),
        ("SELECT age, rank() OVER (ORDER BY income) AS income FROM people", "window"),
        ("SELECT DISTINCT age FROM people", "DISTINCT"),
        ("SELECT * FROM people UNION SELECT * FROM people", "UNION without ALL"),
        ("SELECT * FROM people EXCEPT SELECT * FROM people", "EXCEPT"),
        ("SELECT * FROM people TABLESAMPLE bernoulli(10)", "sample"),
        ("SELECT * FROM people USING SAMPLE 10", "sample"),
        ("SELECT * FROM people WHERE random() < 0.5", "chance"),
        ("SELECT * FROM people WHERE born < current_date", "time of day"),
        ("SELECT * FROM people; SELECT * FROM people", "one statement"),
        ("INSERT INTO people VALUES (1)", "begins with SELECT"),
        ("FROM people", "begins with SELECT"),
        ("SELECT 'it", "does not end"),
        ("SELECT 1 /* a", "does not end"),
        ("SELECT 1 /* a /* b */ LIMIT 3", "LIMIT|does not end"),
        ("-- nothing", "begins with SELECT"),
        # what the words of a text do not tell
        ("SELECT * FROM query('SELECT * FROM people LIMIT 3')", "table function"),
        ("SELECT * FROM people POSITIONAL JOIN others", "POSITIONAL JOIN|join without"),
        ("SELECT * FROM people ASOF JOIN others ON people.day >= others.day", "ASOF JOIN"),
        ("SELECT * FROM people NATURAL JOIN others", "NATURAL JOIN"),
        ("SELECT * FROM people CROSS JOIN others", "CROSS JOIN"),
        ("SELECT * FROM people, others WHERE people.id = others.id", "join without"),
        ("SELECT * FROM people JOIN others ON people.age > others.age", "join without"),
        ("SELECT * FROM people JOIN others ON people.id = others.id OR true", "join without"),
        ("SELECT * FROM people SEMI JOIN others ON people.id = others.id", "SEMI JOIN"),
        ("SELECT age FROM people WHERE rowid < 10", "rowid"),
        ('SELECT age FROM people WHERE "rowid" < 10', "rowid"),
        ("SELECT p.ctid FROM people AS p", "ctid"),
        ("SELECT person, avg(x) AS x FROM visits GROUP BY person", "GROUP BY"),
        ("SELECT age - avg(age) AS age FROM people", "avg"),
        ("SELECT age FROM people WHERE age > (SELECT 3)", "subquery in an expression"),
        ("SELECT age FROM people WHERE age IN (SELECT age FROM others)", "subquery in an expression"),
        ("SELECT age FROM people WHERE EXISTS (SELECT 1 FROM others)", "subquery"),
        ("SELECT unnest(ages) AS age FROM people", "UNNEST"),
        ("SELECT age FROM people, LATERAL (SELECT 1) AS t", "join without|LATERAL"),
        ("WITH RECURSIVE p AS (SELECT 1 AS age) SELECT * FROM p", "RECURSIVE"),
        ("SELECT nextval('s') AS age FROM people", "nextval"),
        ("SELECT of_my_own(age) AS age FROM people", "of_my_own"),
        ("SELECT reltuples AS age FROM pg_class", "catalogue"),
        ("SELECT 'people'::regclass AS age", "type of the database's own"),
        ("SELECT " + 100 * "(" + "age" + 100 * ")" + " FROM people", "more than 32 levels"),
        ("SELECT age FROM people WHERE age > " + 5000 * "9", "40 digits"),
    ],
)
def test_queries_that_look_at_other_peoples_rows_are_refused(query: str, match: str) -> None:
    """By both dialects: by name, or because it is not SQL of that database."""
    for dialect in ("duckdb", "postgres"):
        with pytest.raises(UsageError, match=match if dialect == "duckdb" else f"{match}|cannot be read"):
            checked_query(query, dialect)


def test_a_query_is_checked_before_the_database_is_asked() -> None:
    with pytest.raises(UsageError, match="LIMIT"):
        open_table("postgresql://nowhere/db", query="SELECT * FROM people LIMIT 10", engine=HERE)


@pytest.mark.parametrize(
    "query",
    [
        "SELECT age AS \"limit\", 'LIMIT 3; DROP' AS t FROM people -- LIMIT 3",
        "WITH p AS (SELECT * FROM people) SELECT * FROM p WHERE age IS NOT DISTINCT FROM 3",
        "SELECT * FROM a UNION ALL SELECT * FROM b /* OVER */ ;",
        "SELECT $$ LIMIT $$ AS t, e'it\\'s LIMIT' AS u, 'a\\' AS v FROM limits",
        "SELECT p.age, v.cost FROM s.people AS p LEFT JOIN visits AS v ON p.id = v.id AND v.cost > 0;  ",
        "SELECT * FROM people JOIN visits USING (id, day) WHERE NOT (age BETWEEN 3 AND 4 OR city LIKE 'U%')",
        "SELECT q.a FROM (SELECT CASE WHEN age > 3 THEN round(ln(age), 2) ELSE -1 END AS a FROM people) AS q",
        "SELECT CAST(age AS integer) AS age, upper(trim(city)) || 'x' AS city, coalesce(x, 0) AS x FROM people",
        "SELECT extract(year FROM born) AS y, date_trunc('month', born) AS m, born AT TIME ZONE 'UTC' AS b FROM people",
        "SELECT age::numeric, greatest(age % 3, 1), nullif(city, ''), substring(city, 1, 2) FROM people",
    ],
)
def test_queries_that_act_row_by_row_are_allowed(query: str) -> None:
    for dialect in ("duckdb", "postgres"):
        assert checked_query(query, dialect).strip("; ") == query.strip("; ")


# --- queries are cut without losing a row


CUTS = [
    f"{QUERY} -- all of them",
    f"WITH r AS ({QUERY}) SELECT r.* FROM r",
    f"{QUERY} WHERE true /* so */;",
]


@pytest.mark.gate(each="query")
@pytest.mark.parametrize(("query", "parts"), [*((query, 3) for query in CUTS), (CUTS[0], 1)])
def test_queries_with_comments_and_odd_names_are_cut(
    duckdb_file: Path, server: str, whole: dict[str, Any], query: str, parts: int
) -> None:
    for place in (f"duckdb://{duckdb_file}", server):
        assert same(exact(open_table(place, query=query, parts=parts, engine=HERE), table_release()), whole)


def test_a_column_called_like_the_row_does_not_decide_where_rows_lie(tmp_path: Path, server: str) -> None:
    """A column that is always missing would be hashed in place of the row: no part, or one, would hold all rows."""
    duckdb = pytest.importorskip("duckdb")
    from adbc_driver_postgresql import dbapi

    file, rows = tmp_path / "odd.db", "SELECT NULL::INTEGER AS q, n FROM generate_series(0, 19) AS s(n)"
    with duckdb.connect(str(file)) as connection:
        connection.execute(f"CREATE TABLE odd AS {rows}")
    with dbapi.connect(server) as connection, connection.cursor() as cursor:
        cursor.execute(f"CREATE TABLE odd AS {rows}")
        connection.commit()
    columns = (Column("q", "integer", 0, 9, missing=True), Column("n", "integer", 0, 19))
    for place in (f"duckdb://{file}", server):
        source = open_source(
            place, codec=TableCodec(Schema(columns)), query="SELECT q, n FROM odd", parts=3, engine=HERE
        )
        assert source.count == 20
        assert all(sum(len(rows) for rows, _ in partition.blocks()) < 20 for partition in source.partitions)


def test_parts_that_hold_other_rows_than_the_whole_are_refused(duckdb_file: Path) -> None:
    source = open_source(f"duckdb://{duckdb_file}", codec=CODEC, query=QUERY, parts=3, engine=HERE)
    # as for a query that is cut while somebody writes
    source.partitions = source.partitions[:2]
    with pytest.raises(DataError, match="another number of records than the whole"):
        assert source.count


@pytest.mark.parametrize("parts", [1, 7, pytest.param(12, marks=pytest.mark.full("seven parts, but more"))])
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
    call = ["synth", server, "--query", QUERY, "--schema", "schema.json", "--set", "partitions=3", "--set", "workers=1"]
    out = ["--ledger", "people.ledger", "--out", "made", "--samples", "50", "--json"]
    assert run([*call, *terms, *out]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["guarantee"]["epsilon"] <= 1.0
    assert (tmp_path / "made" / "synthetic.csv").read_text().count("\n") == 51
    # a second one does not fit the budget of the same rows, however the query is cut
    again = ["--ledger", "people.ledger", "--out", "more", "--samples", "50"]
    assert run([*call[:-3], "partitions=5", "--set", "workers=1", *terms, *again]) == 4


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


def test_values_that_a_database_quotes_while_it_counts_are_not_repeated(duckdb_file: Path, postgresql: str) -> None:
    """The parts of a query are counted against the whole: that answer may fail half-way, too."""
    duckdb_query = "SELECT age FROM (SELECT CAST('3141' || city AS INTEGER) AS age FROM people) WHERE age > 0"
    postgresql_query = "SELECT age FROM (SELECT ('3141' || n)::integer / (n - 50) AS age FROM "
    postgresql_query += "generate_series(1, 99) AS n) AS p WHERE age > 0"
    for place, query in ((f"duckdb://{duckdb_file}", duckdb_query), (postgresql, postgresql_query)):
        with pytest.raises(DataError, match=r"cannot run the query|stopped answering the query") as caught:
            QueryCount(place, query)()
        assert "3141" not in str(caught.value)
        assert caught.value.__cause__ is None

    class Answers:
        """A server that is gone when rows are fetched."""

        def __iter__(self) -> Any:
            raise OSError("the row 31415926 was lost")

    gone = patch.object(query_partitions, "_answer", lambda *_: nullcontext(Answers()))
    with gone, pytest.raises(DataError, match=r"stopped answering the query \(OSError\)") as caught:
        QueryCount(postgresql, QUERY)()
    assert "3141" not in str(caught.value)


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
