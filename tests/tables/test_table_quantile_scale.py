"""The scale of public quantiles: even in shares, invertible, written and read, refused where it cannot be."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privot.errors import DataError, UsageError
from privot.evaluation.number_quality import cell_loss
from privot.mechanisms.table_counts.cell_axes import Axis
from privot.tables import Column, Schema, Table, TableCodec
from privot.tables.codec import CELLS, edges_of, scaled, unscaled


def spent(*quantiles: float, kind: Any = "continuous", **more: Any) -> Column:
    return Column("spent", kind, 0, 50_000, scale="quantile", quantiles=quantiles, **more)


def test_quantiles_are_even_steps_with_straight_lines_between() -> None:
    column = spent(10, 40, 100)
    values = np.array([0.0, 5.0, 10.0, 25.0, 40.0, 100.0, 25_050.0, 50_000.0])
    expected = np.array([0.0, 0.125, 0.25, 0.375, 0.5, 0.75, 0.875, 1.0])
    np.testing.assert_allclose(scaled(column, values), expected, rtol=0, atol=1e-15)
    np.testing.assert_allclose(unscaled(column, expected), values, rtol=1e-12)
    # another implementation
    at = np.random.default_rng(0).uniform(0, 50_000, 500)
    np.testing.assert_allclose(scaled(column, at), np.interp(at, [0, 10, 40, 100, 50_000], np.linspace(0, 1, 5)))


@settings(max_examples=80, deadline=None)
@given(st.lists(st.floats(-999.0, 999.0), min_size=1, max_size=30, unique=True), st.floats(-1e3, 1e3))
def test_what_is_scaled_comes_back(cuts: list[float], value: float) -> None:
    column = Column("v", "continuous", -1e3, 1e3, scale="quantile", quantiles=tuple(sorted(cuts)))
    at = scaled(column, np.array([value]))
    assert 0.0 <= at[0] <= 1.0
    assert unscaled(column, at)[0] == pytest.approx(value, abs=1e-6)


def test_cells_hold_even_shares_where_the_quantiles_are_right() -> None:
    values = np.random.default_rng(0).lognormal(3.5, 1.5, 20_000).clip(max=50_000)
    other = np.random.default_rng(1).lognormal(3.5, 1.5, 20_000)
    column = spent(*(float(v) for v in np.quantile(other, np.arange(1, 64) / 64)))
    edges = tuple(float(e) for e in edges_of(column))
    # the lowest value has a cell of its own
    assert len(edges) + 1 == CELLS + 1
    shares = np.bincount(Axis(0, CELLS + 1, edges).index(scaled(column, values)[:, None], None)) / len(values)
    np.testing.assert_allclose(shares[1:], 1 / 64, atol=0.006)
    linear = Column("spent", "continuous", 0, 50_000, scale="linear")
    assert cell_loss(column, values) < 0.02 < 0.6 < cell_loss(linear, values)


def test_whole_numbers_stay_whole_and_missing_ones_missing() -> None:
    codec = TableCodec(Schema((spent(10, 40, 100, kind="integer", missing=True),)))
    table = Table({"spent": [0, 7, 41, None, 33_333, 50_000]})
    back = codec.decode(codec.encode(table, compact=True)[0], compact=True)["spent"]
    assert [None if v is None else int(v) for v in back.tolist()] == [0, 7, 41, None, 33_333, 50_000]


def test_a_schema_is_written_and_read_again() -> None:
    schema = Schema((spent(10, 40.5, missing=True), Column("n", "integer", 0, 5)))
    raw = schema.to_dict()
    assert raw["columns"][0]["quantiles"] == [10.0, 40.5]
    assert "quantiles" not in raw["columns"][1]
    assert Schema.from_dict(raw) == schema


@pytest.mark.parametrize(
    "change",
    [
        {"quantiles": ()},
        {"quantiles": (40.0, 10.0)},
        {"quantiles": (10.0, 10.0)},
        {"quantiles": (0.0, 10.0)},
        {"quantiles": (10.0, 50_000.0)},
        {"quantiles": (10.0, float("nan"))},
        {"quantiles": ("10",)},
        {"quantiles": (True,)},
        {"quantiles": tuple(float(v) for v in range(1, 1001))},
        {"scale": "linear"},
        {"scale": "log"},
        {"scale": "quantiles"},
        {"type": "date"},
        {"type": "categorical", "low": None, "high": None, "categories": ("a",)},
        {"type": "categorical", "low": None, "high": None, "categories": ("a",), "scale": "linear"},
    ],
)
def test_what_cannot_be_is_refused(change: dict[str, Any]) -> None:
    given: dict[str, Any] = {"name": "v", "type": "continuous", "low": 0, "high": 50_000}
    given |= {"scale": "quantile", "quantiles": (10.0, 40.0)}
    Column(**given)
    with pytest.raises(UsageError, match="Column 'v'"):
        Column(**{**given, **change})


def test_quantiles_that_are_no_list_are_refused() -> None:
    with pytest.raises(DataError, match="lists its quantiles in brackets"):
        Column.from_dict({"name": "v", "type": "integer", "low": 0, "high": 9, "scale": "quantile", "quantiles": 5})
