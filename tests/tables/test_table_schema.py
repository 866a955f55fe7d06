"""A schema holds public facts, refuses contradictions in one sentence, and survives its file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from privot.errors import DataError, PrivotError, UsageError
from privot.tables import Column, Schema, propose

COLUMNS = (
    Column("born", "date", "1900-01-01", "2024-12-31", missing=True),
    Column("seen", "date", "2020-01-01 00:00", "2020-12-31 23:59", format="%Y-%m-%d %H:%M"),
    Column("city", "categorical", categories=("Ulm", "Bonn"), unknown="other"),
    Column("grade", "ordinal", categories=(1, 2, 3), missing=True),
    Column("debt", "integer", 0, 10**6, scale="log"),
    Column("height", "continuous", 0.5, 2.5, decimals=2),
    Column("smokes", "boolean"),
)
SCHEMA = Schema(COLUMNS, label="smokes")


def test_it_reads_back_equal_from_json(tmp_path: Path) -> None:
    SCHEMA.save(tmp_path / "schema.json")
    assert Schema.load(tmp_path / "schema.json") == SCHEMA
    assert Schema.from_dict(SCHEMA.to_dict()) == SCHEMA


def test_it_reads_toml(tmp_path: Path) -> None:
    (tmp_path / "schema.toml").write_text(
        'label = "smokes"\n'
        '[[columns]]\nname = "age"\ntype = "integer"\nlow = 0\nhigh = 120\nmissing = true\n'
        '[[columns]]\nname = "smokes"\ntype = "boolean"\ncategories = ["no", "yes"]\n',
        encoding="utf-8",
    )
    schema = Schema.load(tmp_path / "schema.toml")
    assert schema.names == ("age", "smokes")
    assert schema["age"] == Column("age", "integer", 0, 120, missing=True)
    assert schema.classes == ("no", "yes")


def test_dates_are_days_or_seconds() -> None:
    assert COLUMNS[0].range[0] == -25567.0
    assert COLUMNS[1].range == (1577836800.0, 1609459140.0)
    assert COLUMNS[0].to_date(0.0).isoformat() == "1970-01-01"
    assert COLUMNS[1].to_date(1577836800.0).isoformat() == "2020-01-01T00:00:00"


@pytest.mark.parametrize(
    "column",
    [
        {"name": "", "type": "boolean"},
        {"name": "a", "type": "text"},
        {"name": "a", "type": "integer"},
        {"name": "a", "type": "integer", "low": 0},
        {"name": "a", "type": "integer", "low": 0.5, "high": 3},
        {"name": "a", "type": "integer", "low": 4, "high": 3},
        {"name": "a", "type": "continuous", "low": 0, "high": float("inf")},
        {"name": "a", "type": "continuous", "low": 0, "high": float("nan")},
        {"name": "a", "type": "continuous", "low": True, "high": 3},
        {"name": "a", "type": "continuous", "low": 0, "high": 3, "scale": "square"},
        {"name": "a", "type": "continuous", "low": 0, "high": 3, "decimals": -1},
        {"name": "a", "type": "continuous", "low": 0, "high": 3, "categories": ["x"]},
        {"name": "a", "type": "date", "low": "1.2.2000", "high": "2001-01-01"},
        {"name": "a", "type": "categorical"},
        {"name": "a", "type": "categorical", "categories": []},
        {"name": "a", "type": "categorical", "categories": "abc"},
        {"name": "a", "type": "categorical", "categories": ["x", "x"]},
        {"name": "a", "type": "categorical", "categories": ["1", 1]},
        {"name": "a", "type": "categorical", "categories": [0.5]},
        {"name": "a", "type": "categorical", "categories": ["x"], "low": 0},
        {"name": "a", "type": "categorical", "categories": ["other"], "unknown": "other"},
        {"name": "a", "type": "categorical", "categories": ["x"], "unknown": "guess"},
        {"name": "a", "type": "boolean", "categories": ["x"]},
        {"name": "a", "type": "boolean", "missing": "yes"},
        {"name": "a", "type": "boolean", "colour": "red"},
        {"name": "a", "type": "date", "low": "2000", "high": "2001", "format": "%Y%Y"},
        {"name": "a", "type": "date", "low": 0, "high": 1, "format": "%H %X"},
        {"name": "a", "type": "date", "low": 0, "high": 1, "format": 5},
        {"name": "a", "type": "date", "low": 0, "high": 1, "format": "%Y" + 100 * "-"},
        {"name": "a", "type": "date", "low": 0, "high": 1, "format": "%Q"},
        {"type": "boolean"},
    ],
)
def test_contradictions_are_refused_in_one_sentence(column: dict[str, Any]) -> None:
    with pytest.raises(PrivotError) as caught:
        Schema.from_dict({"columns": [column, {"name": "b", "type": "boolean"}]})
    assert str(caught.value).count(". ") == 0
    assert str(caught.value).endswith(".")


@pytest.mark.parametrize(
    "raw",
    [
        [],
        {},
        {"columns": []},
        {"columns": [1]},
        {"columns": [{"name": "a", "type": "boolean"}] * 2},
        {"columns": [{"name": "a", "type": "boolean"}], "label": "b"},
        {"columns": [{"name": "a", "type": "boolean"}], "label": "a"},
        {
            "columns": [{"name": "a", "type": "integer", "low": 0, "high": 1}, {"name": "b", "type": "boolean"}],
            "label": "a",
        },
        {"columns": [{"name": "a", "type": "boolean"}], "marks": "NA"},
        {"columns": [{"name": "a", "type": "boolean"}], "schema": 99},
        {"columns": [{"name": "a", "type": "boolean"}], "lable": "a"},
    ],
)
def test_wrong_schemas_are_refused(raw: Any) -> None:
    with pytest.raises(PrivotError):
        Schema.from_dict(raw)


def test_unreadable_files_are_refused(tmp_path: Path) -> None:
    for name, text in (("a.json", "{"), ("a.toml", "= 3"), ("b.json", "[]")):
        (tmp_path / name).write_text(text)
        with pytest.raises(DataError):
            Schema.load(tmp_path / name)
    with pytest.raises(DataError):
        Schema.load(tmp_path / "nowhere.json")


def test_a_proposal_rests_on_public_hints_only() -> None:
    dictionary = {
        "age": {"low": 0, "high": 120},
        "income": {"low": 0.0, "high": 1e6, "scale": "log"},
        "city": {"categories": ["Ulm", "Bonn"]},
        "born": {"low": "1900-01-01", "high": "2024-12-31", "missing": True},
        "unused": {"low": 0, "high": 1},
    }
    schema = propose(["born", "city", "age", "income"], dictionary, label="city")
    assert [c.type for c in schema.columns] == ["date", "categorical", "integer", "continuous"]
    assert schema.names == ("born", "city", "age", "income")
    with pytest.raises(UsageError, match="salary"):
        propose(["age", "salary"], dictionary)
    with pytest.raises(UsageError, match="neither"):
        propose(["age"], {"age": {"missing": True}})
    # a type says enough where its words are known
    assert propose(["ill"], {"ill": {"type": "boolean"}})["ill"].words == ("false", "true")
    with pytest.raises(DataError, match="by an object"):
        propose(["age"], {"age": "in years"})  # type: ignore[dict-item]


def test_the_dictionary_of_the_documents_can_be_used() -> None:
    path = Path(__file__).parents[2] / "docs" / "examples" / "dictionary.json"
    hints = json.loads(path.read_text(encoding="utf-8"))
    schema = propose(list(hints), hints, "income")
    assert [c.type for c in schema.columns][:5] == ["integer", "categorical", "continuous", "boolean", "date"]
