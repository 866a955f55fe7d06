"""Columns learned as differences: exact both ways, in order in every row, and a function of their row alone."""

from __future__ import annotations

import csv
import json
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privot import Synthesizer, Vault
from privot.cli import run
from privot.errors import PrivotError
from privot.evaluation.table_quality import evaluate_table
from privot.mechanisms import Mean
from privot.synthesis.tabular.conditions import conditions_of
from privot.tables import Column, RelatedCodec, Schema, Table, TableCodec, encode_file, propose
from privot.tables.constraints.stated import Difference, Order

FIRST = datetime(2015, 1, 1)
MOMENT = "%Y-%m-%d %H:%M:%S"


def days(name: str, missing: bool = False) -> Column:
    return Column(name, "date", "2015-01-01", "2018-12-31", missing=missing)  # type: ignore[arg-type]


def day(number: int | None) -> date | None:
    return None if number is None else (FIRST + timedelta(days=number)).date()


CHAIN = Schema(
    (days("admitted", missing=True), days("treated", missing=True), days("discharged", missing=True)),
    constraints=(Difference("discharged", "treated", high=200), Difference("treated", "admitted", low=-3, high=30)),
)
MONEY = Schema(
    (
        Column("net", "continuous", 0, 900, decimals=1),
        Column("gross", "continuous", 0, 1000, decimals=2),
        Column("age", "integer", 0, 99),
        Column("since", "integer", 0, 120),
    ),
    constraints=(Difference("gross", "net", scale="log"), Difference("since", "age", low=1)),
)


def shift(name: str) -> Column:
    return Column(name, "date", "2020-01-01 00:00:00", "2021-01-01 00:00:00", format=MOMENT)  # type: ignore[arg-type]


def both_ways(schema: Schema, table: Table) -> Table:
    codec = TableCodec(schema)
    rows, _ = codec.encode(table, compact=True)
    assert rows.shape[1] == len(schema.columns)
    assert ((rows == -1.0) | ((rows >= 0.0) & (rows <= 1.0))).all()
    return codec.decode(rows, compact=True)


# --- exact both ways


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(0, 1200), st.integers(-3, 30), st.none() | st.integers(0, 200)), min_size=1, max_size=8
    )
)
def test_days_in_a_chain_come_back_exactly(rows: list[tuple[int, int, int | None]]) -> None:
    rows = [(max(a, 3), b, c) for a, b, c in rows]
    made = {
        "admitted": [day(a) for a, _, _ in rows],
        "treated": [day(a + b) for a, b, _ in rows],
        "discharged": [None if c is None else day(a + b + c) for a, b, c in rows],
    }
    back = both_ways(CHAIN, Table(made))
    assert {name: list(back[name]) for name in made} == made


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 9000), st.integers(0, 10_000), st.integers(0, 99), st.integers(1, 21))))
def test_numbers_with_decimals_come_back_exactly(rows: list[tuple[int, int, int, int]]) -> None:
    rows = [*rows, (0, 0, 99, 21)]
    made = {
        "net": [a / 10 for a, _, _, _ in rows],
        "gross": [round(a / 10 + b / 100, 2) for a, b, _, _ in rows],
        "age": [c for _, _, c, _ in rows],
        "since": [c + d for _, _, c, d in rows],
    }
    back = both_ways(MONEY, Table(made))
    for name, values in made.items():
        np.testing.assert_array_equal(back[name], values)


@pytest.mark.parametrize("unit", [None, "seconds", "minutes", "hours", "days"])
def test_moments_come_back_to_the_second_in_every_unit(unit: str | None) -> None:
    schema = Schema((shift("begin"), shift("end")), constraints=(Difference("end", "begin", unit=unit),))
    assert schema.learned["end - begin"].type == ("integer" if unit in (None, "seconds") else "continuous")
    begin = [datetime(2020, 1, 1), datetime(2020, 2, 29, 23, 59, 59), datetime(2020, 12, 31, 1, 2, 3)]
    end = [begin[0] + timedelta(seconds=1), begin[1] + timedelta(hours=7, seconds=11), begin[2] + timedelta(hours=9)]
    back = both_ways(schema, Table({"begin": begin, "end": end}))
    assert (list(back["begin"]), list(back["end"])) == (begin, end)


def test_a_unit_counts_seconds_as_it_is_called() -> None:
    stated = Difference("end", "begin", high=2, unit="hours")
    codec = TableCodec(Schema((shift("begin"), shift("end")), constraints=(stated,)))
    begin = datetime(2020, 5, 1, 8)
    table = Table({"begin": [begin] * 2, "end": [begin + timedelta(minutes=30), begin + timedelta(hours=5)]})
    np.testing.assert_allclose(codec.encode(table, compact=True)[0][:, 1], [0.25, 1.0])


def test_differences_beyond_their_range_are_cut_to_it() -> None:
    codec = TableCodec(MONEY)
    made = {"net": [500.0, 0.0], "gross": [3.0, 1000.0], "age": [50, 10], "since": [2, 120]}
    rows, _ = codec.encode(Table(made), compact=True)
    np.testing.assert_array_equal(rows[:, [1, 3]], [[0.0, 0.0], [1.0, 109 / 119]])
    assert list(codec.decode(rows, compact=True)["gross"]) == [500.0, 1000.0]


def test_missing_values_go_with_the_column_they_are_counted_from() -> None:
    table = Table({"admitted": [day(5), None, None], "treated": [None, day(9), None], "discharged": [day(9)] * 3})
    back = both_ways(CHAIN, table)
    assert list(back["admitted"]) == [day(5), None, None]
    # without the day it is counted from a difference is unknown, and with it the day
    assert list(back["treated"]) == list(back["discharged"]) == [None, None, None]


# --- in order in every row, whatever was drawn


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32 - 1), st.sampled_from([CHAIN, MONEY]))
def test_whatever_is_drawn_keeps_every_difference_and_every_range(seed: int, schema: Schema) -> None:
    dice = np.random.default_rng(seed)
    rows = dice.random((40, len(schema.columns))) ** dice.choice([0.05, 1.0, 20.0])
    for place, column in enumerate(schema.columns):
        if column.missing:
            rows[dice.random(40) < 0.2, place] = -1.0
    found = TableCodec(schema).numbers(rows, None)
    for column in schema.columns:
        values = found[column.name][~np.isnan(found[column.name])]
        assert ((values >= column.range[0]) & (values <= column.range[1])).all()
    for c in schema.constraints:
        assert isinstance(c, Difference)
        apart = found[c.column] - found[c.minus]
        low, high = schema.learned[c.name].range
        both = ~np.isnan(apart)
        assert (np.isnan(found[c.column]) | ~np.isnan(found[c.minus])).all()
        assert (apart[both] >= low - 1e-9).all()
        assert (apart[both] <= high + 1e-9).all()
        if low == 0:
            assert (found[c.column] >= found[c.minus])[both].all()


# --- a function of its row alone


def test_one_record_changes_one_row(tmp_path: Path) -> None:
    dice = np.random.default_rng(0)
    codec = TableCodec(CHAIN)
    rows = [[day(int(a)), day(int(a + b)), day(int(a + b + c))] for a, b, c in dice.integers(0, 400, (30, 3))]
    pools = [[None, day(0), day(1460), *(row[place] for row in rows)] for place in range(3)]

    def encoded(records: list[list[Any]]) -> Any:
        columns = map(list, zip(*records, strict=True))
        return codec.encode(Table(dict(zip(CHAIN.names, columns, strict=True))), compact=True)[0]

    whole = encoded(rows)
    for at in range(30):
        other = [list(row) for row in rows]
        other[at] = [pool[dice.integers(len(pool))] for pool in pools]
        moved = encoded(other)
        assert (np.delete(moved, at, axis=0) == np.delete(whole, at, axis=0)).all()
        assert (encoded([*rows[:at], *rows[at + 1 :]]) == np.delete(whole, at, axis=0)).all()
        # within the bound that the vault clips to, as any row
        assert np.linalg.norm(moved[at]) <= codec.bound(compact=True)


# --- what comes in and out of files


def test_files_of_all_kinds_become_the_same_rows(tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow", reason="Parquet needs pyarrow")
    from pyarrow import parquet

    numbers = [(5, 7, 20), (0, 0, 0), (1200, 1230, 1430), (7, None, None), (None, None, None), (9, 900, 2)]
    columns = {name: [day(row[place]) for row in numbers] for place, name in enumerate(CHAIN.names)}
    with (tmp_path / "t.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        writer.writerows([["" if v is None else v for v in row] for row in zip(*columns.values(), strict=True)])
    parquet.write_table(pa.table(columns), tmp_path / "t.parquet")
    codec = TableCodec(CHAIN)
    wanted, _ = codec.encode(Table(columns), compact=True)
    for name in ("t.csv", "t.parquet"):
        np.testing.assert_array_equal(encode_file(tmp_path / name, codec, compact=True)[0], wanted)
    vault = Vault.open(pa.table(columns), CHAIN, adjacency="add-remove", budget=(1e3, 1e-6))
    count = vault.release(Mean("treated - admitted", epsilon=900.0, delta=1e-7), purpose="the mean wait")
    assert count.value["estimate"] == pytest.approx((2 + 0 + 30 + 30) / 4, abs=0.5)


# --- what is refused, written and proposed


@pytest.mark.parametrize(
    ("stated", "said"),
    [
        ([{"minus": "nobody"}], "'nobody', which the schema lacks"),
        ([{"minus": "b"}], "needs two columns"),
        ([{"minus": "city"}], "needs two columns of numbers"),
        ([{"minus": "day"}], "needs two columns of numbers"),
        ([{}, {}], "from two columns"),
        ([{}, {"column": "a", "minus": "b"}], "in a circle"),
        ([{"unit": "days"}], "unknown unit 'days'"),
        ([{"column": "later", "minus": "day", "unit": "hours"}], "say days"),
        ([{"scale": "quantile"}], "unknown scale"),
        ([{"low": 5, "high": 2}], "low above its high"),
        ([{"low": 30}], "low above its high"),
        ([{"low": 0.5}], "whole numbers"),
        ([{"low": "many"}], "two numbers"),
        ([{"column": "b", "minus": "gone"}], "set missing = true for it too"),
        ([{"column": "b", "minus": "cut"}], "fewer decimals"),
        ([{"column": "cut", "minus": "a", "high": 0.55}], "more decimals"),
        ([{"column": "far", "minus": "a", "high": 10}], "No value of column 'a' fits"),
        ([{}, {"kind": "order", "columns": ["a", "far"]}], "no order or function may name it"),
        ([{"least": 0}], "has the fields column, minus, high"),
    ],
)
def test_what_no_row_could_keep_is_one_sentence(stated: list[dict[str, Any]], said: str) -> None:
    columns = [
        {"name": "a", "type": "integer", "low": 0, "high": 10},
        {"name": "b", "type": "integer", "low": 0, "high": 20},
        {"name": "gone", "type": "integer", "low": 0, "high": 10, "missing": True},
        {"name": "far", "type": "integer", "low": 50, "high": 60},
        {"name": "cut", "type": "continuous", "low": 0, "high": 20, "decimals": 1},
        {"name": "city", "type": "categorical", "categories": ["Ulm", "Bonn"]},
        {"name": "day", "type": "date", "low": "2020-01-01", "high": "2021-01-01"},
        {"name": "later", "type": "date", "low": "2020-01-01", "high": "2021-01-01"},
    ]
    usual = {"kind": "difference", "column": "b", "minus": "a"}
    found = [c if "kind" in c else {**usual, **c} for c in stated]
    with pytest.raises(PrivotError, match=said) as error:
        TableCodec(Schema.from_dict({"columns": columns, "constraints": found}))
    assert str(error.value).count("\n") == 0


def test_a_difference_is_written_and_read_with_what_stands_in_its_place(tmp_path: Path) -> None:
    for schema in (CHAIN, MONEY):
        schema.save(tmp_path / "schema.json")
        assert Schema.load(tmp_path / "schema.json") == schema
    assert CHAIN.names == ("admitted", "treated", "discharged")
    assert CHAIN.learned.names == ("admitted", "treated - admitted", "discharged - treated")
    # what ranges allow, where nothing is said: 2015-01-01 to 2018-12-31
    assert Schema((days("a"), days("b")), constraints=(Difference("b", "a"),)).learned["b - a"].high == 1460
    assert Schema((days("a"), days("b"))).learned.names == ("a", "b")


def test_documents_that_say_an_order_propose_a_difference() -> None:
    ends = {"low": "2015-01-01", "high": "2018-12-31"}
    told = {"admitted": ends, "discharged": {**ends, "at_least": "admitted", "apart": 60}}
    proposed = propose(list(told), told)
    assert proposed.constraints == (Difference("discharged", "admitted", high=60),)
    whole = {"low": 0, "high": 9}
    tenths = {"low": 0, "high": 9, "type": "continuous", "decimals": 1}
    names = {"a": whole, "b": whole, "c": whole, "x": whole, "y": whole, "z": whole, "cut": tenths, "e": whole}
    orders = (Order(("a", "b", "c")), Order(("x", "z")), Order(("y", "z")), Order(("cut", "e")))
    found = propose(list(names), names, constraints=orders).constraints
    # a column that is at least two others, and one of fewer decimals, can only be put in order
    assert found == (Difference("b", "a"), Difference("c", "b"), Order(("x", "z")), Order(("y", "z")), orders[3])
    with pytest.raises(PrivotError, match="say at_least"):
        propose(["a"], {"a": {**whole, "apart": 3}})


def test_sql_and_the_command_line_propose_it_and_say_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "t.sql").write_text("CREATE TABLE v (first DATE, last DATE, CHECK (first <= last))")
    ends = {"low": "2015-01-01", "high": "2018-12-31"}
    (tmp_path / "d.json").write_text(json.dumps({"first": ends, "last": ends}))
    words = ["schema", "propose", "--ddl", str(tmp_path / "t.sql"), "--dictionary", str(tmp_path / "d.json")]
    assert run([*words, "--out", str(tmp_path / "schema.json")]) == 0
    assert "Learned as differences: last - first (0 to 1460)." in capsys.readouterr().out
    assert Schema.load(tmp_path / "schema.json").constraints == (Difference("last", "first"),)


# --- what comes out of a release


def clinic(count: int = 6000) -> Table:
    """Stays of a few days, which are longer in the second ward; some patients are still there."""
    dice = np.random.default_rng(0)
    ward = dice.integers(0, 2, count)
    stay = np.minimum(dice.gamma(1.0 + 3.0 * ward, 1.4, count).astype(int), 42)
    begin = dice.integers(0, 1000, count)
    there = dice.random(count) < 0.05
    ends = [None if gone else day(int(a + s)) for a, s, gone in zip(begin, stay, there, strict=True)]
    words = np.array(["short", "long"], dtype=object)[ward]
    return Table({"admitted": [day(int(a)) for a in begin], "discharged": ends, "ward": list(words)})


def stays(table: Table) -> np.ndarray[Any, Any]:
    pairs = zip(table["admitted"], table["discharged"], strict=True)
    return np.array([np.nan if b is None else (b - a).days for a, b in pairs])


WARD = Column("ward", "categorical", categories=("short", "long"))


def write(table: Table, path: Path) -> Path:
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(table)
        cells = zip(*(table[name] for name in table), strict=True)
        writer.writerows([["" if value is None else value for value in row] for row in cells])
    return path


@pytest.mark.statistical
def test_stays_keep_their_mean_tail_and_link_where_an_order_loses_them(tmp_path: Path) -> None:
    real = clinic()
    path = write(real, tmp_path / "t.csv")
    columns = (days("admitted"), days("discharged", missing=True), WARD)
    found = {}
    order, difference = Order(("admitted", "discharged")), Difference("discharged", "admitted")
    for name, stated in (("order", order), ("difference", difference)):
        schema = Schema(columns, constraints=(stated,))
        vault = Vault.open(path, schema, adjacency="add-remove", budget=(1.0, 1e-6))
        made, _ = Synthesizer(1.0, 1e-6, seed=3).fit(vault).sample(6000)
        own, ward = stays(made), made["ward"]
        assert np.nanmin(own) >= 0
        found[name] = [np.nanmean(own), np.nanquantile(own, 0.99), np.nanmean(own[ward == "long"])]
        report = evaluate_table(made, real, TableCodec(schema))
        names = {fields["name"] for fields in report.numbers}
        assert ("discharged - admitted" in names) == (name == "difference")
    own, ward = stays(real), real["ward"]
    wanted = [np.nanmean(own), np.nanquantile(own, 0.99), np.nanmean(own[ward == "long"])]
    assert found["difference"] == pytest.approx(wanted, rel=0.2)
    # what the test guards: in order, and yet ten times as long
    assert found["order"][0] > 3.0 * wanted[0]


def test_conditions_ask_for_a_difference_or_for_the_column_it_stands_for(tmp_path: Path) -> None:
    path = write(clinic(800), tmp_path / "t.csv")
    schema = Schema(
        (days("admitted"), days("discharged", missing=True), WARD),
        constraints=(Difference("discharged", "admitted", high=60),),
        interactions=(("admitted", "discharged", "ward"),),
    )
    assert schema.learned.interactions == (("admitted", "discharged - admitted", "ward"),)
    vault = Vault.open(path, schema, adjacency="add-remove", budget=(3.0, 1e-6))
    model = Synthesizer(3.0, 1e-6, seed=3).fit(vault)
    made, _ = model.sample(200, where=["discharged - admitted>=2", "ward=long", "discharged<=2017-06-30"])
    assert (stays(made) >= 2).all()
    assert set(made["ward"]) == {"long"}
    assert max(made["discharged"]) <= date(2017, 6, 30)
    assert [str(c) for c in conditions_of("discharged - admitted=3", schema)] == ["discharged - admitted=3"]


def test_related_tables_learn_differences_of_parents_and_children(tmp_path: Path) -> None:
    dice = np.random.default_rng(0)
    people = Schema((days("joined"), days("left")), constraints=(Difference("left", "joined", high=500),))
    visits = Schema(
        (days("admitted"), days("discharged", missing=True)), constraints=(Difference("discharged", "admitted"),)
    )
    codec = RelatedCodec({"people": people, "visits": visits}, key="id", per_parent=2)
    lines: dict[str, list[str]] = {"people": ["id,joined,left"], "visits": ["id,admitted,discharged"]}
    for person in range(600):
        joined = int(dice.integers(0, 900))
        lines["people"].append(f"{person},{day(joined)},{day(joined + int(dice.integers(300, 320)))}")
        for _ in range(dice.integers(0, 3)):
            begin = int(dice.integers(0, 900))
            lines["visits"].append(f"{person},{day(begin)},{day(begin + int(dice.integers(0, 5)))}")
    files = {name: tmp_path / f"{name}.csv" for name in lines}
    for name, text in lines.items():
        files[name].write_text("\n".join(text) + "\n")
    vault = Vault.open(files, codec, adjacency="add-remove", budget=(20.0, 1e-6))
    made = Synthesizer(20.0, 1e-6, seed=1, kind=codec).fit(vault).sample(600)
    apart = np.array([(b - a).days for a, b in zip(made["people"]["joined"], made["people"]["left"], strict=True)])
    assert apart.min() >= 0
    assert apart.max() <= 500
    assert apart.mean() == pytest.approx(309.5, abs=10)
    assert list(made["visits"]) == ["id", "admitted", "discharged"]
    assert 0 <= np.nanmin(stays(made["visits"])) <= np.nanmean(stays(made["visits"])) < 15
