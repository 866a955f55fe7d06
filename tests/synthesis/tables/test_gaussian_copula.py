"""Places within groups: correlations that groups alone would lose come back, and nothing else changes."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.polynomial import hermite_e
from scipy.special import ndtri

from privot.errors import DataError
from privot.mechanisms.table_counts.cell_axes import Axis
from privot.synthesis.tabular.column_laws import gaussian_copula
from privot.synthesis.tabular.column_laws.gaussian_copula import LEAST_EIGENVALUE, GaussianCopula, spread
from privot.synthesis.tabular.conditions import conditions_of
from privot.synthesis.tabular.restricted_rows import propose
from privot.synthesis.tabular.table_model import Factor, Levels, TableModel
from privot.tables import Column, Schema, TableCodec
from privot.tables.constraints.keeping import Rules

CELLS, GROUPS, ROWS = 64, 4, 40_000
AXIS = Axis(0, CELLS, tuple(np.arange(1, CELLS) / CELLS), ordered=True)
WORDS = Axis(1, 3)


def normal(rho: float, rows: int = ROWS, seed: int = 0) -> np.ndarray:
    """Ranks of two normal columns, from 0 to 1."""
    first, second = np.random.default_rng(seed).normal(size=(2, rows))
    both = np.column_stack([first, rho * first + np.sqrt(1.0 - rho**2) * second])
    return (np.argsort(np.argsort(both, axis=0), axis=0) + 0.5) / rows


def grouped(ranks: np.ndarray, groups: int = GROUPS) -> np.ndarray:
    return np.minimum((groups * ranks).astype(np.int64), groups - 1)


def even(groups: int = GROUPS) -> np.ndarray:
    """The group of every cell."""
    return np.arange(CELLS) * groups // CELLS


def copula(rho: float, groups: int = GROUPS) -> GaussianCopula:
    found = GaussianCopula.of([AXIS, AXIS], [even(groups), even(groups)], grouped(normal(rho), groups))
    assert found is not None
    return found


@pytest.mark.parametrize("rho", [-0.5, 0.0, 0.3, 0.58, 0.8])
@pytest.mark.parametrize("groups", [3, 4, 8])
def test_latent_numbers_have_the_correlation_that_groups_hide(rho: float, groups: int) -> None:
    found = copula(rho, groups)
    # deviations of an estimate from 40,000 rows are below 0.01
    assert found.correlation[0, 1] == pytest.approx(rho, abs=0.03)
    rows = grouped(normal(rho, seed=1), groups)
    latent = found.latent(rows, np.random.default_rng(2))
    assert np.corrcoef(latent[0], latent[1])[0, 1] == pytest.approx(rho, abs=0.03)
    ends = ndtri(np.arange(groups + 1) / groups)
    for i in (0, 1):
        assert latent[i].mean() == pytest.approx(0.0, abs=0.02)
        assert latent[i].std() == pytest.approx(1.0, abs=0.02)
        assert np.all((latent[i] >= ends[rows[:, i]] - 0.02) & (latent[i] <= ends[rows[:, i] + 1] + 0.02))


def test_terms_are_those_of_hermite_polynomials() -> None:
    share = np.array([0.1, 0.5, 0.3, 0.1])
    means, places_ = gaussian_copula._means(share), (np.arange(400_000) + 0.5) / 400_000
    x, of = ndtri(places_), means[np.searchsorted(np.cumsum(share), places_)]
    found = gaussian_copula._hermite(share, means)
    for k in range(1, 9):
        wanted = np.mean(of * hermite_e.hermeval(x, np.eye(k + 1)[k])) / math.sqrt(math.factorial(k))
        assert found[k - 1] == pytest.approx(wanted, abs=2e-3)


def test_independent_places_would_lose_a_quarter_of_it() -> None:
    """What the copula is for: the test above fails where places are drawn independently."""
    rows, rng = grouped(normal(0.58, seed=1)), np.random.default_rng(2)
    alone = ndtri(np.clip((rows + rng.random(rows.shape)) / GROUPS, 1e-9, 1 - 1e-9))
    assert np.corrcoef(alone.T)[0, 1] < 0.8 * 0.58


def test_missing_values_have_no_place_in_the_order() -> None:
    axis = Axis(0, CELLS + 1, AXIS.edges, missing=True, ordered=True)
    rows = grouped(normal(0.6))
    gone = np.random.default_rng(3).random(ROWS) < 0.3
    rows[gone, 0] = GROUPS
    found = GaussianCopula.of([axis, AXIS], [np.append(even(), GROUPS), even()], rows)
    assert found is not None
    assert found.shares[0][GROUPS] == 0.0
    latent = found.latent(rows, np.random.default_rng(4))
    # of a row without the value, the latent number follows from the other column alone
    assert np.corrcoef(latent[0][gone], latent[1][gone])[0, 1] == pytest.approx(found.correlation[0, 1], abs=0.05)


def test_there_is_none_without_two_columns_that_have_an_order() -> None:
    rows = grouped(normal(0.6))
    words = rows.copy()
    words[:, 1] %= 3
    assert GaussianCopula.of([AXIS, WORDS], [even(), np.arange(3)], words) is None
    one = rows.copy()
    one[:, 1] = 0
    assert GaussianCopula.of([AXIS, AXIS], [even(), np.zeros(CELLS, dtype=np.int64)], one) is None


def test_columns_that_determine_each_other_are_kept_apart() -> None:
    same = grouped(np.repeat(normal(0.0)[:, :1], 3, axis=1))
    found = GaussianCopula.of([AXIS] * 3, [even()] * 3, same)
    assert found is not None
    assert np.linalg.eigvalsh(found.correlation)[0] > 0.5 * LEAST_EIGENVALUE
    assert np.diag(found.correlation) == pytest.approx(1.0)
    latent = found.latent(same, np.random.default_rng(5))
    assert all(np.isfinite(own).all() for own in latent.values())


def test_places_keep_their_order_and_are_spread_evenly_where_they_are_many() -> None:
    rng = np.random.default_rng(6)
    many = rng.random(500) ** 3
    even_ = spread(many, rng)
    assert np.array_equal(np.argsort(even_), np.argsort(many))
    assert np.diff(np.sort(even_)) == pytest.approx(1 / 500)
    assert spread(many[:5], rng) is not None
    assert np.array_equal(spread(many[:5], rng), many[:5])


@pytest.mark.slow
def test_few_rows_at_a_time_have_the_correlation_too() -> None:
    made = model(0.58)
    x = np.concatenate([made.sample_rows(50, seed)[0] for seed in range(300)])
    assert np.corrcoef(ndtri(np.clip(x, 1e-6, 1 - 1e-6).T))[0, 1] == pytest.approx(0.58, abs=0.05)


def test_rows_under_a_condition_on_another_column_have_it_too() -> None:
    """The column that is named is drawn by itself; of the others the places within groups go together."""
    made = model(0.58)
    free, _, weight = propose(made, ROWS, Rules(made.codec.schema), (), np.random.default_rng(8))
    assert np.all(weight == 1.0)
    assert np.corrcoef(ndtri(np.clip(free, 1e-6, 1 - 1e-6).T))[0, 1] == pytest.approx(0.58, abs=0.05)
    conditions = conditions_of("a<=0.3", made.codec.schema)
    bounded, _, weight = propose(made, 4000, Rules(made.codec.schema), conditions, np.random.default_rng(8))
    assert np.all(bounded[weight > 0.0, 0] <= 0.3 + 1e-9)


def model(rho: float) -> TableModel:
    """Two columns of numbers whose groups are drawn as those of normal columns."""
    codec = TableCodec(Schema((Column("a", "continuous", 0.0, 1.0), Column("b", "continuous", 0.0, 1.0))))
    rows = grouped(normal(rho))
    table = np.zeros((GROUPS, GROUPS))
    np.add.at(table, (rows[:, 0], rows[:, 1]), 1.0 / ROWS)
    factors = (
        Factor(0, (), np.zeros((0, GROUPS)), np.zeros(GROUPS)),
        Factor(1, ((0,),), np.log(table * GROUPS), np.zeros(GROUPS)),
    )
    levels = Levels([even(), even()], [np.zeros(GROUPS, dtype=np.int64)] * 2)
    shares = [np.full(CELLS, 1 / CELLS)] * 2
    edges = (np.array(AXIS.edges), np.array(AXIS.edges))
    return TableModel(codec, factors, levels, shares, edges, copula(rho))


def test_rows_of_a_model_keep_their_cells_and_gain_the_correlation() -> None:
    made = model(0.58)
    plain = TableModel(made.codec, made.factors, made.levels, made.fine, made.edges)
    linked, alone = (each.sample_rows(ROWS, 7)[0] for each in (made, plain))
    for x in (linked, alone):
        # every cell has its share of the rows
        counts = np.bincount((CELLS * x[:, 0]).astype(np.int64), minlength=CELLS)
        assert np.abs(counts / ROWS - 1 / CELLS).max() < 0.1 / CELLS
    # the same groups: only places within them differ
    assert np.array_equal(grouped(linked), grouped(alone))
    assert np.corrcoef(ndtri(linked.T))[0, 1] == pytest.approx(0.58, abs=0.05)
    assert np.corrcoef(ndtri(alone.T))[0, 1] < 0.48


def test_a_saved_model_draws_the_same_rows_and_earlier_ones_have_none() -> None:
    made = model(0.5)
    again = TableModel.build(made.codec, made.config(), made.arrays())
    assert np.array_equal(again.sample_rows(500, 3)[0], made.sample_rows(500, 3)[0])
    before = {name: array for name, array in made.arrays().items() if not name.startswith("copula")}
    assert TableModel.build(made.codec, made.config(), before).copula is None


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("copula.correlation", np.array([[1.0, 2.0], [2.0, 1.0]])),
        ("copula.correlation", np.array([[1.0, 0.1], [0.2, 1.0]])),
        ("copula.correlation", np.array([[2.0, 0.1], [0.1, 2.0]])),
        ("copula.correlation", np.array([[1.0, np.nan], [np.nan, 1.0]])),
        ("copula.correlation", np.eye(3)),
        ("copula.columns", np.array([0, 2])),
        ("copula.columns", np.array([1, 0])),
        ("copula.columns", np.array([0])),
        ("copula.shares.1", np.full(3, 1 / 3)),
        ("copula.shares.1", np.full(4, 0.5)),
        ("copula.shares.1", np.array([1.5, -0.5, 0.0, 0.0])),
        ("copula.shares.1", None),
    ],
)
def test_damaged_parts_are_refused(name: str, value: np.ndarray | None) -> None:
    made = model(0.5)
    arrays = {**made.arrays(), name: value}
    if value is None:
        del arrays[name]
    with pytest.raises(DataError, match="damaged"):
        TableModel.build(made.codec, made.config(), arrays)
