"""Columns of numbers in their own units: what cells lose is known in closed form, and a broken schema is named."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from privot.errors import UsageError
from privot.evaluation.number_quality import broken_columns, cell_loss, kolmogorov, mid_quantile, number_columns
from privot.evaluation.table_quality import evaluate_table, marginal_distances
from privot.mechanisms.table_counts.cell_axes import Axis
from privot.synthesis.tabular.table_model import _place
from privot.tables import Column, Schema, Table, TableCodec
from privot.tables.codec import edges_of, scaled, unscaled

DOLLARS = Column("dollars", "continuous", 0, 50_000, scale="linear")


def codec(*columns: Column) -> TableCodec:
    return TableCodec(Schema(columns))


def dollars(rows: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).lognormal(3.5, 1.5, rows).clip(max=50_000)


def test_kolmogorov_is_scipys() -> None:
    rng = np.random.default_rng(0)
    for a, b in ((rng.normal(size=300), rng.normal(0.3, 2, 170)), (rng.integers(0, 5, 90), rng.integers(1, 7, 40))):
        assert kolmogorov(a.astype(float), b.astype(float)) == pytest.approx(stats.ks_2samp(a, b).statistic, abs=1e-12)


def test_cells_lose_what_can_be_computed_by_hand() -> None:
    # two thirds at 100, one third at 700, in cells of 781.25: the first cell's line is off by 2/3 − 100/781.25
    values = np.array([100.0, 100.0, 700.0])
    assert cell_loss(DOLLARS, values) == pytest.approx(2 / 3 - 100 / 781.25, abs=1e-6)
    # far up in a cell the line is ahead of the step
    assert cell_loss(DOLLARS, np.array([700.0, 700.0, 760.0])) == pytest.approx(700 / 781.25, abs=1e-6)
    # at the lower edges of cells the step comes before the line: all of a cell's share
    even = Column("u", "continuous", 0, 64, scale="linear")
    assert cell_loss(even, np.array([0.0, 1.0, 2.0, 3.0])) == pytest.approx(0.25, abs=1e-6)
    # few whole numbers have a cell each, and lose nothing; a column of one value has nothing to lose
    assert cell_loss(Column("age", "integer", 0, 99), np.array([0.0, 40.0, 40.0, 99.0])) < 1e-12
    assert cell_loss(Column("one", "continuous", 3, 3), np.array([3.0, 3.0])) == 0.0
    # a spike at the low end has a cell of its own on a log scale, and none on a linear one
    debts = np.concatenate([np.zeros(800), dollars(200, 0)])
    assert cell_loss(DOLLARS, debts) > 0.7
    assert cell_loss(Column("debt", "continuous", 0, 50_000, scale="log"), debts) < 0.03
    # and so has it where a release chooses the cells from a fine grid
    assert cell_loss(Column("debt", "continuous", 0, 50_000), debts) < 0.03
    # nor where values have cents: the spike's cell is half a cent wide, and what is drawn in it is rounded to the spike
    assert cell_loss(Column("debt", "continuous", 0, 50_000, decimals=2), np.round(debts, 2)) < 0.03


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from(["continuous", "integer"]),
    st.sampled_from(["linear", "log"]),
    st.integers(200, 40_000),
    st.integers(0, 2**32 - 1),
)
def test_the_loss_is_that_of_rows_drawn_evenly_within_cells(kind: str, scale: str, high: int, seed: int) -> None:
    column = Column("v", kind, 0, high, scale=scale)  # type: ignore[arg-type]
    rng = np.random.default_rng(seed)
    values = (high * rng.beta(0.5, rng.uniform(1, 60), 300)).clip(0, high)
    values = np.rint(values) if kind == "integer" else values
    edges = tuple(float(e) for e in edges_of(column))
    axis = Axis(0, len(edges) + 1, edges, ordered=True)
    # another way: many rows drawn in the cells of the values, as the model of a table draws them
    cells = np.repeat(axis.index(scaled(column, values)[:, None], None), 400)
    drawn = unscaled(column, _place(axis, cells, rng))
    assert kolmogorov(drawn, values) == pytest.approx(cell_loss(column, values), abs=0.012)


def test_a_linear_schema_that_breaks_a_column_is_named_and_a_log_scale_is_not() -> None:
    real, other = dollars(4000, 0), dollars(4000, 1)
    told = {}
    for scale in ("linear", "log"):
        of = codec(Column("dollars", "continuous", 0, 50_000, scale=scale))  # type: ignore[arg-type]
        column = of.features[0]
        edges = tuple(float(e) for e in edges_of(column))
        axis = Axis(0, len(edges) + 1, edges, ordered=True)
        cells = axis.index(scaled(column, other)[:, None], None)
        # the best table that these cells allow: no noise at all
        made = Table({"dollars": unscaled(column, _place(axis, cells, np.random.default_rng(2)))})
        found = number_columns(made, Table({"dollars": real}), of)
        told[scale] = found[0], broken_columns(found, of), marginal_distances(made, Table({"dollars": real}), of)
    broken, fine = told["linear"], told["log"]
    # on the cells, the broken table looks as good as the other one or better
    assert broken[2]["dollars"] < fine[2]["dollars"] < 0.1
    assert broken[0]["quantiles"]["synthetic"][2] > 5 * broken[0]["quantiles"]["real"][2]
    assert broken[0]["distance"] > 0.5 > 0.1 > fine[0]["distance"]
    assert fine[0]["quantiles"]["synthetic"][2] == pytest.approx(fine[0]["quantiles"]["real"][2], rel=0.1)
    (sentence,) = broken[1]
    assert sentence.startswith("Column 'dollars': the schema's cells are too wide for its values (median ")
    assert sentence.endswith("declare scale: log for it.")
    assert fine[1] == ()


def test_a_range_that_is_too_wide_or_too_narrow_is_named() -> None:
    values = np.random.default_rng(0).normal(5.0, 1.0, 2000)
    for column, words in (
        (Column("v", "continuous", 0, 1e5, scale="log"), ()),
        (Column("v", "continuous", -1e5, 1e5, scale="log"), ("a narrower range",)),
        (Column("v", "continuous", -1e5, 1e5, scale="linear"), ("a narrower range or public quantiles",)),
        (Column("v", "continuous", -1e5, 1e5), ()),
        (Column("v", "continuous", -1e5, 1e5, scale="quantile", quantiles=(3.0, 4.3, 5.0, 5.7, 7.0)), ()),
        (Column("v", "continuous", 0, 4), ("outside the schema's range", "a wider one")),
        (Column("v", "continuous", 0, 10), ()),
    ):
        table = Table({"v": values})
        told = broken_columns(number_columns(table, table, codec(column)), codec(column))
        assert len(told) == (1 if words else 0), column
        assert all(word in told[0] for word in words)


def test_few_records_break_nothing_by_chance() -> None:
    # values spread evenly: a few of them are far from a straight line, and no fault of the schema's
    of = codec(Column("v", "continuous", 0, 1))
    wrong = 0
    for seed in range(60):
        table = Table({"v": np.random.default_rng(seed).random(20)})
        wrong += len(broken_columns(number_columns(table, table, of), of))
    assert wrong == 0


def test_figures_are_in_the_columns_own_units() -> None:
    columns = (
        Column("when", "date", 0, 20_000),
        Column("n", "integer", 0, 9, missing=True),
        Column("no", "continuous", 0, 1, missing=True),
    )
    of = codec(*columns)
    days = np.array(["2001-01-01", "2001-01-03", "2001-01-05"])
    made = Table({"when": days, "n": np.array([1.0, np.nan, 3.0]), "no": np.full(3, np.nan)})
    found = number_columns(made, made, of)
    # a column without a value is left out, missing values are not counted
    assert [fields["name"] for fields in found] == ["when", "n"]
    assert found[0]["quantiles"]["real"][2] == found[0]["means"]["synthetic"] == "2001-01-03"
    assert found[1]["quantiles"]["real"][2] == found[1]["means"]["real"] == 2.0
    assert found[1]["records"] == 2
    assert [fields["distance"] for fields in found] == [0.0, 0.0]


def test_an_evaluation_holds_the_figures_as_plain_json() -> None:
    of = codec(DOLLARS)
    report = evaluate_table(Table({"dollars": dollars(300, 0)}), Table({"dollars": dollars(300, 1)}), of)
    raw = json.loads(json.dumps(report.to_dict()))
    assert len(raw["broken"]) == 1
    assert raw["numbers"][0]["name"] == "dollars"


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=60, unique=True), st.floats(0.0, 1.0))
def test_mid_quantiles_of_distinct_values_are_ordinary_ones(values: list[float], share: float) -> None:
    # NumPy calls F̃, (k − ½)/n at the kth value, "hazen"
    wanted = float(np.quantile(values, share, method="hazen"))
    assert mid_quantile(np.array(values), share) == pytest.approx(wanted, rel=1e-9, abs=1e-6)


def test_a_mid_quantile_does_not_jump_with_two_records() -> None:
    few = np.repeat([0.0, 1.0, 2.0], [49, 2, 49])
    more = np.repeat([0.0, 1.0, 2.0], [51, 2, 47])
    assert (float(np.median(few)), float(np.median(more))) == (1.0, 0.0)
    # by hand: F̃ is .255, .52 and .765 at 0, 1 and 2 of the second
    assert mid_quantile(few, 0.5) == pytest.approx(1.0)
    assert mid_quantile(more, 0.5) == pytest.approx((0.5 - 0.255) / (0.52 - 0.255))
    assert mid_quantile(np.array([3.0, 3.0]), 0.2) == 3.0


@pytest.mark.parametrize(
    ("values", "share", "words"),
    [([], 0.5, "at least one value"), ([np.nan], 0.5, "finite"), ([1.0], 1.5, "between 0 and 1, got 1.5")],
)
def test_a_mid_quantile_of_nothing_is_refused(values: list[float], share: float, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        mid_quantile(np.array(values), share)
