"""Schemas proposed from public documents: SQL definitions, data dictionaries as CSV, maps of dtypes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from privot.cli import run
from privot.errors import DataError, UsageError
from privot.tables import Schema
from privot.tables.constraints.stated import Key, Order
from privot.tables.hints.dictionaries import Hints, merged_hints, read_dictionary, read_dtypes
from privot.tables.hints.sql_ddl import read_ddl

DDL = """
-- a comment, with CREATE TABLE nonsense (
CREATE TABLE IF NOT EXISTS clinic."visits" (
  id BIGINT PRIMARY KEY,
  age SMALLINT NOT NULL CHECK (age BETWEEN 0 AND 120),
  /* CHECK (age > 500) */
  sex CHAR(1) NOT NULL CHECK (sex IN ('F', 'M')),
  `weight` DECIMAL(5, 1) CHECK (weight > 0 AND weight <= 300),
  smoker BOOLEAN,
  kind ENUM('acute', 'it''s planned'),
  admitted DATE NOT NULL CHECK (admitted >= DATE '2020-01-01' AND admitted <= '2024-12-31'),
  [discharged] DATE CHECK (discharged BETWEEN '2020-01-01' AND '2024-12-31'),
  children INT CHECK (children > -1 AND children < 20),
  CONSTRAINT in_order CHECK (admitted <= discharged)
);
CREATE TABLE other (a INT CHECK (a >= 0 AND a <= 5));
"""


@pytest.fixture
def ddl(tmp_path: Path) -> Path:
    path = tmp_path / "tables.sql"
    path.write_text(DDL)
    return path


def test_a_definition_in_sql_says_types_ranges_categories_keys_and_order(ddl: Path) -> None:
    found = read_ddl(ddl, "visits")
    assert found.columns == {
        "age": {"type": "integer", "low": 0, "high": 120},
        "sex": {"type": "categorical", "categories": ["F", "M"]},
        "weight": {"type": "continuous", "decimals": 1, "missing": True, "low": 0, "high": 300},
        "smoker": {"type": "boolean", "missing": True},
        "kind": {"type": "categorical", "categories": ["acute", "it's planned"], "missing": True},
        "admitted": {"type": "date", "low": "2020-01-01", "high": "2024-12-31"},
        "discharged": {"type": "date", "low": "2020-01-01", "high": "2024-12-31", "missing": True},
        "children": {"type": "integer", "missing": True, "low": 0, "high": 19},
    }
    assert found.constraints == (Order(("admitted", "discharged")), Key("id"))


def test_the_command_writes_a_schema_that_can_be_used(ddl: Path, tmp_path: Path) -> None:
    out = tmp_path / "schema.json"
    assert run(["schema", "propose", "--ddl", str(ddl), "--table", "visits", "--label", "sex", "--out", str(out)]) == 0
    schema = Schema.load(out)
    assert schema.label == "sex"
    assert schema.output_names[0] == "id"
    assert schema["weight"].decimals == 1


def test_documents_are_put_together_and_the_dictionary_counts(tmp_path: Path) -> None:
    dtypes = tmp_path / "dtypes.json"
    dtypes.write_text(
        json.dumps(
            {"age": "Int64", "sex": "category", "grade": "int64", "ill": "bool", "day": "datetime64[ns]", "n": "int8"}
        )
    )
    words = tmp_path / "words.csv"
    words.write_text(
        "Name,Type,Min,Max,Categories,Missing\n"
        "age,,0,120,,\nsex,text,,,F|M,no\ngrade,,,,1;2;3,yes\nday,date,2020-01-01,2021-12-31,,\nweight,float,0,300.5,,yes\n"
    )
    header = tmp_path / "private.csv"
    header.write_text("sex,age,grade,ill,day,weight,n\n")
    out = tmp_path / "schema.json"
    given = ["--dtypes", str(dtypes), "--dictionary", str(words), "--header", str(header)]
    assert run(["schema", "propose", *given, "--out", str(out)]) == 0
    schema = Schema.load(out)
    assert schema.names == ("sex", "age", "grade", "ill", "day", "weight", "n")
    assert schema["age"].missing is True
    # codes are no quantities
    assert (schema["grade"].type, schema["grade"].categories) == ("categorical", (1, 2, 3))
    assert schema["weight"].range == (0.0, 300.5)
    assert schema["n"].range == (-128.0, 127.0)
    # as pandas writes them to CSV
    assert (schema["ill"].type, schema["ill"].words) == ("boolean", ("False", "True"))


@pytest.mark.parametrize(
    ("parts", "names", "said"),
    [
        ([Hints({"a": {"type": "integer"}, "b": {"type": "categorical"}})], None, "of column 'a', 'b': describe"),
        ([Hints({"a": {"low": 0, "high": 1}})], ["x"], "name none of the table's columns"),
        ([Hints({"a": {"low": 0, "high": 1}})], ["a", "x"], "of column 'x': describe"),
        ([Hints({"a": 3})], None, "by an object"),  # type: ignore[dict-item]
    ],
)
def test_what_is_not_described_is_one_sentence(parts: list[Hints], names: Any, said: str) -> None:
    with pytest.raises((UsageError, DataError), match=said):
        merged_hints(parts, names)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("SELECT 1", "no CREATE TABLE"),
        ("CREATE TABLE t (a INT", "not closed"),
        ("CREATE TABLE t (a INT); CREATE TABLE u (b INT)", "say which"),
        ("CREATE TABLE t (17 INT)", "cannot be read"),
        ("CREATE TABLE t ((a INT))", "cannot be read"),
        ("CREATE TABLE t (a INT CHECK (a > " + 5000 * "9" + "))", "more than 40 digits"),
        ("CREATE TABLE t (a INT " + 500 * "CHECK (" + 500 * ")" + ")", "more than 32 levels"),
        ("CREATE TABLE t (a INT CHECK (" + 500 * "NOT " + "a))", "more than 32 levels"),
        (500 * "CREATE TABLE a(", "not closed"),
        ("CREATE TABLE t (a INT DEFAULT 'x)", "quotation"),
        ("-- " + (1 << 20) * "x", "more than 1 MiB"),
    ],
)
def test_definitions_that_cannot_be_read_are_one_sentence(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "t.sql"
    path.write_text(text)
    with pytest.raises((UsageError, DataError), match=said):
        read_ddl(path)
    with pytest.raises((UsageError, DataError)):
        read_ddl(path, "nobody")


def test_a_statement_has_a_bounded_number_of_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("privot.opening.sql.MAX_PIECES", 30)
    (tmp_path / "t.sql").write_text("CREATE TABLE t (" + 10 * "a INT, " + "b INT)")
    with pytest.raises(DataError, match="more than 30 words"):
        read_ddl(tmp_path / "t.sql")


@pytest.mark.parametrize(
    ("column", "fields"),
    [
        # a list with NULL is never false, and names of columns are no values
        ("a INT CHECK (a IN (1, NULL))", {"type": "integer"}),
        ("a INT CHECK (a IN (b))", {"type": "integer"}),
        ("a INT CHECK (a IN (²))", {"type": "integer"}),
        ("a INT CHECK (a > 1e400)", {"type": "integer"}),
        ("a INT CHECK (NOT (a < 5))", {"type": "integer"}),
        ("a INT CHECK (a > 5 OR a < 3)", {"type": "integer"}),
        ("a ENUM(x, y)", {"type": "categorical"}),
        ("a TEXT CHECK (a IN (N'x', 'y'))", {"type": "categorical", "categories": ["x", "y"]}),
        ("a INT CHECK (a IN (1e5, 0x10, -3))", {"type": "categorical", "categories": [100_000, 16, -3]}),
        ("a INT CHECK (a > 0.5 AND 7.5 > a)", {"type": "integer", "low": 1, "high": 7}),
        ("a INT CHECK (a >= 0.0 AND (a < 8.0))", {"type": "integer", "low": 0, "high": 7}),
        ("a DECIMAL(38, 20) CHECK (a > -1.5)", {"type": "continuous", "decimals": 15, "low": -1.5}),
        ("`a` ENUM('it\\'s', 'b'), KEY k (`a`)", {"type": "categorical", "categories": ["it's", "b"]}),
        ("a DATETIME2", {"type": "date", "format": "%Y-%m-%d %H:%M:%S"}),
        ("a INT, b INT, CHECK (a < a), CHECK (a < b), PRIMARY KEY (b)", {"type": "integer"}),
    ],
)
def test_what_a_definition_says_is_what_its_sql_means(tmp_path: Path, column: str, fields: dict[str, Any]) -> None:
    (tmp_path / "t.sql").write_text(f"SET x = 1;\nGO\nCREATE TABLE s.t ({column}) ENGINE=x;")
    found = read_ddl(tmp_path / "t.sql")
    assert found.columns == {"a": fields | {"missing": True}}
    assert not any(isinstance(constraint, Order) for constraint in found.constraints)


def test_dictionaries_that_cannot_be_read_are_one_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "d.csv"
    for text, said in (
        ("column_name,min\na,1\n", "no column called name"),
        ("name,type\na,colour\n", "unknown type 'colour'"),
        ("name,type\na,int\na,int\n", "named above"),
        ("name,missing\na,perhaps\n", "yes or no"),
    ):
        path.write_text(text)
        with pytest.raises(DataError, match=said):
            read_dictionary(path)
    path = tmp_path / "d.json"
    path.write_text('{"a": 3}')
    with pytest.raises(DataError, match="no dtype"):
        read_dtypes(path)
    out = str(tmp_path / "s.json")
    for words in (["--table", "t"], [], ["--ddl", str(tmp_path / "none.sql")]):
        given = ["--dictionary", str(path)] if words == ["--table", "t"] else []
        assert run(["schema", "propose", *given, *words, "--out", out]) in (2, 3)
        assert capsys.readouterr().err.count("\n") == 1
