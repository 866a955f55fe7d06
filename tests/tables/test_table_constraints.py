"""Constraints of a schema: how they are written, what is refused, and that they hold exactly in what is decoded."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from privot.errors import DataError, PrivotError, UsageError
from privot.tables import Column, Schema, Table, TableCodec
from privot.tables.constraints.keeping import Rules, settle, with_generated

COLUMNS: list[dict[str, Any]] = [
    {"name": "a", "type": "integer", "low": 0, "high": 10},
    {"name": "b", "type": "integer", "low": 0, "high": 10, "missing": True},
    {"name": "c", "type": "continuous", "low": 0, "high": 20, "decimals": 1},
    {"name": "far", "type": "integer", "low": 50, "high": 60},
    {"name": "day", "type": "date", "low": "2020-01-01", "high": "2021-01-01"},
    {"name": "yes", "type": "boolean"},
    {"name": "city", "type": "categorical", "categories": ["Ulm", "Bonn"]},
    {"name": "zip", "type": "integer", "low": 0, "high": 99999},
    {"name": "land", "type": "categorical", "categories": ["south", "west"]},
]


def schema(*constraints: Any) -> Schema:
    return Schema.from_dict({"columns": COLUMNS, "constraints": list(constraints)})


MAP = {"kind": "function", "column": "land", "of": "city", "map": {"Ulm": "south", "Bonn": "west"}}
ORDER = {"kind": "order", "columns": ["a", "b", "c"]}
EMPTY = {"kind": "empty-unless", "column": "b", "when": "yes", "is": ["true"]}
KEY = {"kind": "key", "column": "id", "from": "random", "prefix": "x"}
CONSTANT = {"kind": "constant", "column": "country", "value": "DE"}


def test_constraints_are_written_and_read(tmp_path: Path) -> None:
    made = schema(ORDER, EMPTY, MAP, KEY, CONSTANT)
    made.save(tmp_path / "schema.json")
    assert Schema.load(tmp_path / "schema.json") == made
    assert json.loads((tmp_path / "schema.json").read_text())["constraints"] == [ORDER, EMPTY, MAP, KEY, CONSTANT]
    assert made.output_names == ("id", *made.names, "country")
    # a schema without any is written as it always was, so that jobs can go on
    assert "constraints" not in schema().to_dict()


@pytest.mark.parametrize(
    ("constraints", "said"),
    [
        ([{"kind": "order", "columns": ["a", "nobody"]}], "'nobody', which the schema lacks"),
        ([ORDER, {"kind": "order", "columns": ["c", "a"]}], "in a circle"),
        ([{"kind": "order", "columns": ["a", "a"]}], "in a circle"),
        ([{"kind": "order", "columns": ["far", "a"]}], "'far' is never at most column 'a'"),
        ([{"kind": "order", "columns": ["far", "c"]}], "'far' is never at most column 'c'"),
        ([{"kind": "order", "columns": ["a", "day"]}], "not all numbers"),
        ([{"kind": "order", "columns": ["a", "city"]}], "not all numbers"),
        ([{"kind": "order", "columns": ["a"]}], "at least two"),
        ([{**EMPTY, "column": "a"}], "missing = true"),
        ([{**EMPTY, "when": "a"}], "needs categories"),
        ([{**EMPTY, "is": ["maybe"]}], "'maybe', which it cannot have"),
        ([{**MAP, "map": {"Ulm": "south"}}], "each of its categories once; 'Bonn'"),
        ([{**MAP, "map": {"Ulm": "south", "Bonn": "east"}}], "'east', which it cannot have"),
        ([{**MAP, "column": "zip", "map": {"Ulm": 89073, "Bonn": 123456}}], "123456, which it cannot have"),
        ([{**MAP, "map": {"Ulm": None, "Bonn": "west"}}], "set missing = true"),
        ([MAP, {**MAP, "column": "city", "of": "land", "map": {"south": "Ulm", "west": "Bonn"}}], "circle"),
        ([MAP, MAP], "no other constraint may decide"),
        ([KEY, {**KEY, "from": "counter"}], "Two constraints make column 'id'"),
        ([{**KEY, "column": "a"}], "remove it from the columns"),
        ([{**KEY, "from": "data"}], "counter or random"),
        ([{"kind": "unique", "column": "a"}], "unknown kind 'unique'"),
        ([{"kind": "order"}], "has the fields columns"),
        ([{"kind": "order", "columns": "a"}], "list for columns"),
        ([{**MAP, "map": ["a"]}], "a map from categories"),
        ([{**CONSTANT, "value": [1]}], "A constant is"),
        ([7], "unknown kind"),
    ],
)
def test_what_no_table_could_keep_is_one_sentence(constraints: list[Any], said: str) -> None:
    with pytest.raises(PrivotError, match=said) as error:
        schema(*constraints)
    assert isinstance(error.value, DataError | UsageError)
    assert str(error.value).count("\n") == 0


def test_the_order_of_three_columns_is_put_right_in_steps_of_each() -> None:
    made = schema(ORDER)
    numbers = {"a": np.array([3.0, 10.0, 4.0, 2.0]), "b": np.array([2.0, 4.0, np.nan, 7.0])}
    numbers |= {"c": np.array([1.0, 20.0, 3.9, 6.9])} | {n: np.zeros(4) for n in made.names if n not in "abc"}
    out = settle(made, numbers)
    np.testing.assert_array_equal(out["a"], [3, 10, 4, 2])
    np.testing.assert_array_equal(out["b"], [3, 10, np.nan, 7])
    np.testing.assert_array_equal(out["c"], [3, 20, 4, 7])


def test_a_column_that_cannot_be_raised_lowers_the_other() -> None:
    made = Schema.from_dict(
        {"columns": [COLUMNS[2], COLUMNS[0]], "constraints": [{"kind": "order", "columns": ["c", "a"]}]}
    )
    out = settle(made, {"c": np.array([15.0, 9.96]), "a": np.array([8.0, 9.0])})
    np.testing.assert_array_equal(out["c"], [8.0, 9.96])
    np.testing.assert_array_equal(out["a"], [8.0, 10.0])


def test_what_is_allowed_beside_other_columns() -> None:
    rules = Rules(schema(ORDER, EMPTY, MAP))
    assert rules.support("zip", {}, 2) is None
    beside = rules.support(
        "b", {"a": np.array([3.0, 5.0]), "c": np.array([7.0, np.nan]), "yes": np.array([1.0, 0.0])}, 2
    )
    assert beside is not None
    np.testing.assert_array_equal([beside.low, beside.high], [[3, 5], [7, 10]])
    np.testing.assert_array_equal(beside.present, [True, False])
    of = rules.support("city", {"land": np.array([1.0])}, 1)
    assert of is not None
    np.testing.assert_array_equal(of.words, [[False, True]])
    first = rules.support("a", {}, 1)
    assert first is not None
    assert first.high[0] == 10.0


def test_keys_and_constants_are_made_and_their_columns_not_read() -> None:
    made = Schema.from_dict({"columns": [COLUMNS[0]], "constraints": [KEY, CONSTANT, {"kind": "key", "column": "n"}]})
    codec = TableCodec(made)
    private = Table({"id": ["secret", "secret"], "a": [1, 2], "country": ["X", "Y"]})
    rows, _ = codec.encode(private, compact=True)
    table = with_generated(codec.decode(rows, compact=True), made, np.random.default_rng(0))
    assert list(table) == ["id", "n", "a", "country"]
    assert table["n"].tolist() == [1, 2]
    assert all(key.startswith("x") and len(key) == 17 for key in table["id"])
    assert "secret" not in table["id"].tolist()
    assert table["country"].tolist() == ["DE", "DE"]
    with pytest.raises(DataError, match="'odd', which the schema lacks"):
        codec.encode(Table({"a": [1], "odd": [2]}))


def test_a_schema_without_its_label_forgets_the_constraints_on_it() -> None:
    made = Schema((Column("x", "boolean"), Column("y", "boolean")), label="y")
    stated = Schema.from_dict(
        {
            **made.to_dict(),
            "constraints": [KEY, {**MAP, "column": "x", "of": "y", "map": {"false": "false", "true": "true"}}],
        }
    )
    assert [c.to_dict() for c in stated.without_label().constraints] == [KEY]
