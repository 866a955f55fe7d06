"""Encoding looks at one record at a time, stays within public bounds, and comes back as the same types."""

from __future__ import annotations

from datetime import date, datetime
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privot.errors import DataError, UsageError
from privot.evaluation.schema_axes import axes_of
from privot.tables import Column, Schema, Table, TableCodec
from privot.tables.cell_values import parse
from privot.tables.codec import edges_of, scaled

SCHEMA = Schema(
    (
        Column("born", "date", "1900-01-01", "2024-12-31", missing=True),
        Column("city", "categorical", categories=("Ulm", "Bonn", "Köln"), unknown="other", missing=True),
        Column("grade", "ordinal", categories=(1, 2, 3)),
        Column("debt", "integer", 0, 10**6, scale="log", missing=True),
        Column("height", "continuous", 0.5, 2.5, decimals=2),
        Column("seen", "date", "2020-01-01 00:00", "2020-12-31 23:59", format="%Y-%m-%d %H:%M"),
        Column("smokes", "boolean", missing=True),
        Column("ill", "categorical", categories=("no", "yes")),
    ),
    label="ill",
)
CODEC = TableCodec(SCHEMA)
MARKED = "31415926"


def table(**changes: Any) -> Table:
    columns: dict[str, Any] = {
        "born": ["1980-02-29", "", "1899-12-31", "2030-01-01"],
        "city": ["Ulm", "Atlantis", "?", " Bonn "],
        "grade": ["1", "2", "3", "3"],
        "debt": ["0", "17", "NA", "99999999"],
        "height": ["1.234", "-7", "1.5", "9e9"],
        "seen": ["2020-06-01 12:34"] * 4,
        "smokes": ["true", "False", "", "1"],
        "ill": ["no", "yes", "no", "no"],
    }
    return Table({**columns, **changes})


def values(decoded: Table) -> dict[str, list[Any]]:
    return {name: decoded[name].tolist() for name in decoded}


def test_a_table_comes_back_with_its_columns_and_types() -> None:
    for compact in (False, True):
        out = values(CODEC.decode(*CODEC.encode(table(), compact), compact=compact))
        assert list(out) == list(SCHEMA.names)
        # outside the range is clamped, unknown becomes other, missing stays missing
        assert out["born"] == [date(1980, 2, 29), None, date(1900, 1, 1), date(2024, 12, 31)]
        assert out["city"] == ["Ulm", "other", None, "Bonn"]
        assert out["grade"] == [1, 2, 3, 3]
        assert out["debt"] == [0, 17, None, 10**6]
        assert out["height"] == [1.23, 0.5, 1.5, 2.5]
        assert out["seen"] == [datetime(2020, 6, 1, 12, 34)] * 4
        assert out["smokes"] == [True, False, None, True]
        assert out["ill"] == ["no", "yes", "no", "no"]


def test_numbers_outside_the_range_are_clamped_before_they_are_scaled() -> None:
    column = SCHEMA["height"]
    assert parse(column, np.array([-7.0, 1.5, 9e9]), frozenset()).tolist() == [0.5, 1.5, 2.5]
    assert parse(SCHEMA["debt"], np.array(["-3", "1e300"]), frozenset()).tolist() == [0.0, 1e6]


def test_typed_values_are_read_as_their_texts_are() -> None:
    typed = table(
        born=[date(1980, 2, 29), None, np.datetime64("1899-12-31"), datetime(2030, 1, 1, 5)],
        city=np.array(["Ulm", "Atlantis", None, "Bonn"], dtype=object),
        grade=np.array([1.0, 2.0, 3.0, 3.0]),
        debt=np.array([0.0, 17.0, np.nan, 1e8]),
        height=np.array([1.234, -7, 1.5, 9e9]),
        smokes=[True, False, None, np.True_],
    )
    for a, b in zip(CODEC.encode(typed), CODEC.encode(table()), strict=True):
        np.testing.assert_array_equal(a, b)


def test_wide_rows_are_scaled_or_one_hot_within_the_bound() -> None:
    wide, labels = CODEC.encode(table())
    compact, _ = CODEC.encode(table(), compact=True)
    assert wide.shape == (4, CODEC.dim)
    assert labels.tolist() == [0, 1, 0, 0]
    assert (wide >= 0).all()
    assert (wide <= 1).all()
    for start, stop, kind in CODEC.segments:
        if kind == "categorical":
            assert (wide[:, start:stop].sum(axis=1) == 1).all()
        else:
            assert stop == start + 1
    assert [s[0] for s in CODEC.segments] == [0, *(s[1] for s in CODEC.segments[:-1])]
    assert CODEC.segments[-1][1] == CODEC.dim
    np.testing.assert_array_equal(CODEC.widen(compact), wide)
    np.testing.assert_array_equal(CODEC.narrow(wide), compact)
    assert np.linalg.norm(wide, axis=1).max() <= CODEC.bound()
    assert np.linalg.norm(compact, axis=1).max() <= CODEC.bound(compact=True)


def test_both_layouts_fall_into_the_same_cells() -> None:
    wide, _ = CODEC.encode(table())
    compact, _ = CODEC.encode(table(), compact=True)
    for a, b in zip(axes_of(CODEC), axes_of(CODEC, compact=True), strict=True):
        np.testing.assert_array_equal(a.index(wide, None), b.index(compact, None))
        assert a.cells == b.cells


def test_what_a_record_becomes_depends_on_no_other() -> None:
    whole, _ = CODEC.encode(table())
    for row in range(4):
        alone = Table({name: values_[row : row + 1] for name, values_ in table().items()})
        np.testing.assert_array_equal(CODEC.encode(alone)[0][0], whole[row])


@pytest.mark.parametrize(
    "changes",
    [
        {"born": ["1980-02-29", "", "", MARKED]},
        {"seen": ["2020-06-01 12:34"] * 3 + [MARKED]},
        {"debt": ["1", "2", "3", f"x{MARKED}"]},
        {"height": ["1", "2", "", MARKED]},
        {"grade": ["1", "2", "3", MARKED]},
        {"grade": ["1", "2", "3", ""]},
        {"smokes": ["true", "true", "true", MARKED]},
        {"ill": ["no", "no", "no", MARKED]},
        {"born": [object(), None, None, MARKED]},
        {"debt": [[MARKED], None, None, None]},
    ],
)
def test_what_cannot_be_read_is_refused_without_a_value(changes: dict[str, Any]) -> None:
    with pytest.raises(DataError) as caught:
        CODEC.encode(table(**changes))
    assert MARKED not in str(caught.value)
    assert next(iter(changes)) in str(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None


def test_other_columns_than_the_schema_are_refused() -> None:
    with pytest.raises(DataError, match="lacks"):
        CODEC.encode(Table({name: v for name, v in table().items() if name != "city"}))
    with pytest.raises(DataError, match="extra"):
        CODEC.encode(table(extra=["1"] * 4))
    with pytest.raises(UsageError):
        CODEC.decode(np.zeros((2, 3)), np.zeros(2, dtype=int))
    with pytest.raises(UsageError):
        CODEC.decode(np.zeros((2, CODEC.dim)))


def test_it_reads_back_from_its_dictionary() -> None:
    again = TableCodec.from_dict(CODEC.to_dict())
    assert again.schema == SCHEMA
    with pytest.raises(DataError):
        TableCodec.from_dict({"codec": "image"})


def test_a_constant_and_an_empty_column_are_columns() -> None:
    schema = Schema((Column("one", "continuous", 3, 3), Column("none", "continuous", 0, 1, missing=True)))
    codec = TableCodec(schema)
    rows, labels = codec.encode(Table({"one": ["3", "4"], "none": ["", "nan"]}))
    assert labels is None
    out = values(codec.decode(rows))
    assert out["one"] == [3.0, 3.0]
    assert np.isnan(out["none"]).all()
    assert [axis.cells for axis in axes_of(codec)] == [1, 65]


NUMBERS = st.one_of(
    st.builds(
        lambda low, width, scale: Column("n", "integer", low, low + width, scale=scale),
        st.integers(-1000, 1000),
        st.integers(0, 10**6),
        st.sampled_from(["linear", "log"]),
    ),
    st.builds(
        lambda low, width, scale: Column("n", "continuous", low, low + width, scale=scale),
        st.floats(-1000, 1000),
        st.floats(0.01, 1e6),
        st.sampled_from(["linear", "log"]),
    ),
)


@settings(max_examples=150, deadline=None)
@given(NUMBERS, st.lists(st.floats(0, 1), min_size=1, max_size=20))
def test_numbers_come_back_and_whole_ones_exactly(column: Column, places: list[float]) -> None:
    low, high = column.range
    numbers = low + np.array(places) * (high - low)
    numbers = np.clip(np.rint(numbers) if column.is_whole else numbers, low, high)
    codec = TableCodec(Schema((column,)))
    for compact in (False, True):
        out = codec.decode(codec.encode(Table({"n": numbers}), compact)[0], compact=compact)["n"]
        if column.is_whole:
            np.testing.assert_array_equal(out, numbers)
        else:
            np.testing.assert_allclose(out, numbers, atol=1e-9 * (1 + abs(low) + abs(high)))


@settings(max_examples=100, deadline=None)
@given(NUMBERS)
def test_edges_rise_within_the_range_and_never_split_a_whole_number(column: Column) -> None:
    edges = edges_of(column)
    assert (np.diff(edges) > 0).all()
    assert len(edges) <= 128
    if len(edges):
        assert edges[0] > 0
        assert edges[-1] < 1
    if column.is_whole:
        low, high = column.range
        numbers = np.unique(np.rint(np.linspace(low, high, 500)))
        cells = np.searchsorted(edges, scaled(column, numbers), side="right")
        nudged = np.searchsorted(edges, scaled(column, np.clip(numbers + 0.25, low, high)), side="right")
        np.testing.assert_array_equal(cells, nudged)


def test_a_table_shows_no_value() -> None:
    assert "Atlantis" not in repr(table())
    with pytest.raises(DataError):
        Table({"a": [1], "b": [1, 2]})
    with pytest.raises(DataError):
        Table({})
