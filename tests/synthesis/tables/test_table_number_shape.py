"""Values of numbers, not cells: grids, spikes, tails and means, within the declared range, type and decimals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from privot.evaluation.schema_axes import axes_of, grids_of, with_edges
from privot.guarantee import Adjacency
from privot.mechanisms import Facts
from privot.mechanisms.table_counts.chosen_cells import ChosenCells
from privot.mechanisms.table_counts.grouped_marginals import GroupedMarginals
from privot.noise import SeededNoise
from privot.release import Release
from privot.synthesis.tabular.column_laws.number_shape import shape_of
from privot.synthesis.tabular.column_laws.tail_law import TailLaw
from privot.synthesis.tabular.table_design import TableDesign
from privot.synthesis.tabular.table_fit import fit_table
from privot.synthesis.tabular.table_model import TableModel
from privot.synthesis.tabular.table_release import table_mechanism
from privot.tables import Column, Schema, Table, TableCodec
from privot.tables.cell_grid import GRID, grid_of
from privot.tables.codec import edges_of, unscaled, values_at
from privot.vault import Vault

MONEY = Column("money", "continuous", 0, 50_000, decimals=2)


@pytest.mark.parametrize(
    "column",
    [
        MONEY,
        Column("c", "continuous", 0, 59),
        Column("i", "integer", -5, 40_000),
        Column("p", "continuous", -1e5, 1e6, missing=True),
        Column("d", "date", "1950-01-01", "2020-12-31"),
        Column("t", "continuous", 0, 1e-6),
        Column("few", "continuous", 0, 3, decimals=1),
    ],
)
def test_a_grid_is_fine_everywhere_and_lies_between_values(column: Column) -> None:
    edges = grid_of(column)
    assert edges is not None
    assert (np.diff(edges) > 0.0).all()
    assert 0.0 < edges[0] < edges[-1] < 1.0
    assert len(edges) < 2 * GRID
    # nowhere coarser than 512 even cells, or than the step of the values
    step = 1.0 if column.is_whole else 10.0**-column.decimals if column.decimals is not None else 0.0
    low, high = column.range
    assert np.diff(np.concatenate([[0.0], edges, [1.0]])).max() <= max(1 / 512 + step / (high - low), 1e-9) * 1.001
    if step:
        at = (values_at(column, edges) - low) / step
        np.testing.assert_allclose(at - np.floor(at), 0.5, atol=1e-3)


@pytest.mark.parametrize("column", [
    Column("a", "continuous", 0, 50_000), Column("a", "continuous", -0.001, 7), Column("a", "integer", -500, 10**9),
])  # fmt: skip
def test_a_grid_is_the_same_where_logarithms_are_rounded_otherwise(
    column: Column, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = grid_of(column)
    assert here is not None
    for name, towards in (("expm1", np.inf), ("log1p", -np.inf)):
        exact: Any = getattr(np, name)
        monkeypatch.setattr(np, name, lambda x, exact=exact, towards=towards: np.nextafter(exact(x), towards))
    there = grid_of(column)
    assert there is not None
    assert here.tobytes() == there.tobytes()


def test_stated_scales_and_few_whole_numbers_have_fixed_cells() -> None:
    for column in (
        Column("a", "integer", 0, 127),
        Column("b", "continuous", 0, 9, scale="linear"),
        Column("c", "continuous", 0, 9, scale="log"),
        Column("d", "continuous", 0, 9, scale="quantile", quantiles=(1.0, 2.0)),
        Column("e", "continuous", 4, 4),
        Column("f", "boolean"),
    ):
        assert grid_of(column) is None


# --- tails


def test_a_tail_decays_like_its_records_and_noise_far_out_is_left_out() -> None:
    ends = np.concatenate([[0.0], np.geomspace(50.0, 50_000.0, 20)])
    below = -np.expm1(-ends / 400.0)
    counts, means = 600.0 * np.diff(below), []
    for seed in range(10):
        law = TailLaw(ends, counts + np.random.default_rng(seed).normal(0.0, 35.0, 20), 35.0)
        at = np.concatenate([[0.0], np.geomspace(1.0, 50_000.0, 800)])
        means.append(float(np.trapezoid(1.0 - law.below(at), at)))
        assert np.all(np.diff(law.below(at)) >= -1e-12)
        assert law.below(np.array([0.0, 50_000.0])) == pytest.approx([0.0, 1.0])
    # noise of 35 in each cell, far out beside values of 10,000 and more; the prior allows for heavier tails than this
    assert np.median(means) == pytest.approx(500.0, rel=0.3)
    assert np.sum(np.array(means) < 800.0) >= 9


def released(column: Column, values: Any, seed: int, epsilon: float = 1.0) -> TableModel:
    """A model of one column beside ten others, as far as noise goes: the noise of a table of eleven columns."""
    codec = TableCodec(Schema((column,)))
    x, _ = codec.encode(Table({column.name: values}), compact=True)
    made = table_mechanism(codec, epsilon=epsilon / 11**0.5, delta=1e-6, adjacency="add-remove")
    vault = Vault(
        x, clip=codec.bound(compact=True), adjacency="add-remove", budget=(1.0, 1e-6), noise=SeededNoise(seed)
    )
    # seeded noise is not secret: nothing here is released
    return fit_table(vault.release(made, purpose="test", allow_unproven=True), codec, population=200)


def test_means_and_medians_of_heavy_tails_are_kept() -> None:
    means, medians = [], []
    for seed in range(10):
        rng = np.random.default_rng(seed)
        money = np.where(rng.random(4000) < 0.2, 0.0, np.exp(rng.normal(4.0, 1.2, 4000))).clip(max=50_000).round(2)
        drawn = released(MONEY, money, seed).sample(8000, seed=seed)["money"]
        means.append(drawn.mean() / money.mean() - 1.0)
        medians.append(np.median(drawn) / np.median(money) - 1.0)
        assert drawn.min() >= 0.0
        assert drawn.max() <= 50_000.0
        np.testing.assert_allclose(drawn, np.round(drawn, 2), atol=1e-9)
        # a fifth has no money at all
        assert abs(float((drawn == 0.0).mean()) - 0.2) < 0.05
    assert np.sum(np.abs(means) < 0.25) >= 9
    assert np.sum(np.abs(medians) < 0.1) >= 8


@pytest.mark.parametrize("high", [60, 127])
def test_rare_counts_stay_rare_whatever_range_is_declared(high: int) -> None:
    """Noise in a hundred nearly empty cells was cut at 0 and so added records at the far end: means of .17 became 3."""
    visits = Column("visits", "integer", 0, high)
    codec = TableCodec(Schema((visits, *(Column(f"b{i}", "boolean") for i in range(4)))))
    for seed in range(2):
        rng = np.random.default_rng(seed)
        x = np.where(rng.random(6000) < 0.9, 0, rng.geometric(0.6, 6000)).clip(max=high)
        rows = np.column_stack([x / high, rng.integers(0, 2, (6000, 4))])
        # the noise of a table of eleven columns
        made = table_mechanism(codec, epsilon=0.6, delta=1e-6, adjacency="add-remove")
        noise = SeededNoise(seed)
        vault = Vault(rows, clip=codec.bound(compact=True), adjacency="add-remove", budget=(1.0, 1e-6), noise=noise)
        model = fit_table(vault.release(made, purpose="test", allow_unproven=True), codec, population=200)
        drawn = model.sample(20_000, seed=seed)["visits"]
        assert float(drawn.mean()) == pytest.approx(float(x.mean()), rel=0.8)
        assert float((drawn == 0).mean()) == pytest.approx(float((x == 0).mean()), abs=0.02)
        assert abs(float(np.quantile(drawn, 0.99)) - float(np.quantile(x, 0.99))) <= 4.0


def test_even_cells_are_cut_further_where_counts_crowd() -> None:
    visits = Column("visits", "integer", 0, 1000, scale="linear")
    cuts = np.rint(2.0 * values_at(visits, edges_of(visits)))
    assert cuts[:6].tolist() == [1, 3, 7, 15, 31, 63]
    assert (2000.0 - cuts[::-1])[:5].tolist() == [1, 3, 7, 15, 31]
    rng = np.random.default_rng(0)
    x = np.where(rng.random(6000) < 0.9, 0, rng.geometric(0.6, 6000))
    drawn = released(visits, x, 0).sample(20_000)["visits"]
    # the first even cell is 0 to 15: nine in ten zeros became 3 % of zeros, and a mean of .17 one of 13
    assert float((drawn == 0).mean()) == pytest.approx(0.9, abs=0.02)
    assert float(drawn.mean()) < 0.5


def test_a_job_from_before_has_the_even_cells_that_it_was_planned_with() -> None:
    codec = TableCodec(Schema((Column("visits", "integer", 0, 1000, scale="linear"),)))
    facts = Facts(1, None, codec.bound(compact=True), Adjacency.ADD_REMOVE, None)
    fields = TableDesign.choose(codec, facts, 1.0, 1e-6, 0).to_dict()
    assert TableDesign.from_dict(fields, codec).counts.axes[0].cells == 72
    del fields["fine_ends"]
    assert TableDesign.from_dict(fields, codec).counts.axes[0].cells == 64


def test_spikes_are_kept_and_nothing_is_drawn_outside() -> None:
    rng = np.random.default_rng(0)
    hours = np.where(rng.random(6000) < 0.45, 400, rng.normal(400, 90, 6000).round()).clip(0, 1000).astype(int)
    drawn = released(Column("tenths", "integer", 0, 1000), hours, 0).sample(6000)["tenths"]
    assert drawn.dtype == np.int64
    assert drawn.min() >= 0
    assert drawn.max() <= 1000
    assert float((drawn == 400).mean()) == pytest.approx(0.45, abs=0.05)
    assert float(((drawn > 380) & (drawn < 420) & (drawn != 400)).mean()) < 0.2


def test_few_far_values_do_not_widen_the_cells() -> None:
    rng = np.random.default_rng(0)
    size = np.concatenate([rng.gamma(60.0, 0.095, 19_990), rng.uniform(20.0, 59.0, 10)])
    drawn = released(Column("size", "continuous", 0, 59), size, 1).sample(20_000)["size"]
    bins = np.quantile(size, np.arange(1, 16) / 16)
    shares = np.diff([0.0, *[float((drawn < b).mean()) for b in bins], 1.0])
    # 64 even cells are 0.92 wide, as wide as four of these bins: 0.08 at any ε
    assert 0.5 * np.abs(shares - 1 / 16).sum() < 0.03


def test_densities_are_straight_between_neighbours() -> None:
    column = Column("v", "continuous", 0, 1, scale="linear")
    (axis,) = axes_of(TableCodec(Schema((column,))))
    middle = (np.arange(64) + 0.5) / 64
    counts = 1e5 * 2.0 * middle / 64
    shape = shape_of(column, axis, counts, np.arange(64) // 8, 1e-3, np.bincount(np.arange(64) // 8, counts))
    assert shape.edges is not None
    shares = shape.shares / np.bincount(shape.groups, shape.shares)[shape.groups]
    shares *= np.bincount(np.arange(64) // 8, counts)[shape.groups] / counts.sum()
    ends = np.concatenate([[0.0], shape.edges, [1.0]])
    inner = (ends > 0.13) & (ends < 0.87)
    # F(v) = v², also within cells
    np.testing.assert_allclose(np.concatenate([[0.0], np.cumsum(shares)])[inner], ends[inner] ** 2, atol=2e-3)
    assert len(shape.edges) > 64


# --- jobs and files


def test_a_model_keeps_its_cells_and_one_of_before_has_even_ones() -> None:
    codec = TableCodec(Schema((MONEY,)))
    model = released(MONEY, np.random.default_rng(0).gamma(1.0, 300.0, 2000).clip(max=50_000), 0)
    built = TableModel.build(codec, model.config(), model.arrays())
    assert built.sample(300, seed=2)["money"].tolist() == model.sample(300, seed=2)["money"].tolist()
    even = {**model.arrays(), "groups.0": np.arange(64) // 8, "fine.0": np.full(64, 1 / 64), "blocks.0": np.arange(8)}
    even |= {"theta.0": np.zeros((0, 8)), "bias.0": np.zeros(8)}
    del even["edges.0"]
    old = TableModel.build(codec, model.config(), even)
    assert old.axes == axes_of(codec, compact=True)
    assert 20_000 < float(old.sample(2000)["money"].mean()) < 30_000
    for wrong in (np.array([0.5, 0.2]), np.array([0.5]), np.append(model.arrays()["edges.0"][:-1], 1.5)):
        with pytest.raises(Exception, match="not a table model"):
            TableModel.build(codec, model.config(), {**model.arrays(), "edges.0": wrong})


def test_the_fit_reads_the_cells_of_the_release() -> None:
    codec = TableCodec(Schema((MONEY, Column("b", "boolean"))))
    made = table_mechanism(codec, epsilon=1.0, delta=1e-6, adjacency="add-remove")
    assert isinstance(made, ChosenCells)
    x = np.column_stack([np.random.default_rng(0).random(500) ** 4, np.zeros(500)])
    vault = Vault(x, clip=codec.bound(compact=True), adjacency="add-remove", budget=(1.0, 1e-6))
    release: Release = vault.release(made, purpose="test")
    over = made.chosen(release.value)  # type: ignore[arg-type]
    assert isinstance(over, GroupedMarginals)
    edges = np.asarray(release.value["edges"])  # type: ignore[index]
    assert over.axes == with_edges(axes_of(codec, compact=True), [edges, None])
    assert set(edges) <= set(grids_of(codec)[0].edges or ())  # type: ignore[union-attr]
    fitted = fit_table(release, codec, population=200)
    assert fitted.edges is not None
    assert set(edges) <= set(np.asarray(fitted.edges[0]))
    np.testing.assert_array_equal(unscaled(MONEY, np.array([0.0, 1.0])), [0.0, 50_000.0])
