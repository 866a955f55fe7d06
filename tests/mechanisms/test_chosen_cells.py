"""Cells of numbers chosen by a first noisy part: what it costs, what it may look at, and where it cuts."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mechanism_samples import Plain, Silent
from scipy import stats

from privot import Vault
from privot.accounting import Gaussian, account
from privot.errors import UsageError
from privot.guarantee import Adjacency
from privot.mechanisms.table_counts.cell_axes import Axis
from privot.mechanisms.table_counts.cell_tree import TreeRule
from privot.mechanisms.table_counts.chosen_cells import ChosenCells
from privot.mechanisms.table_counts.grouped_marginals import GroupedMarginals
from privot.mechanisms.table_counts.related_marginals import RelatedMarginals, _Seen
from privot.mechanisms.table_counts.row_views import ChildView
from replaced_noise import Answers
from weaker_noise import WeakerNoise

A, R = Adjacency.ADD_REMOVE, Adjacency.REPLACE_ONE
RULE = TreeRule(sizes=(16, 4, 1), most=16, least=4, ends=2)
GRID = Axis(0, 101, tuple(np.arange(1, 100) / 100), missing=True, ordered=True)
STANDS = Axis(0, 17, tuple(np.arange(1, 16) / 16), missing=True, ordered=True)
OTHER = Axis(1, 5)
MECHANISM = ChosenCells((GRID, None), 25.0, GroupedMarginals((STANDS, OTHER), None, (30.0, 20.0)), RULE)


def table(rows: int = 3000, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    x = np.column_stack([rng.random(rows) ** 3, rng.integers(0, 5, rows)])
    x[rng.random(rows) < 0.1, 0] = -1.0
    return x


def plain(x: np.ndarray, adjacency: Adjacency = A) -> Plain:
    return Plain(x, None, adjacency, clip=9.0)


@pytest.mark.parametrize(("adjacency", "factor"), [(A, 1.0), (R, 2.0)])
def test_one_charge_pays_for_the_tree_and_all_that_follows(adjacency: Adjacency, factor: float) -> None:
    vault = Vault(table(), clip=9.0, adjacency=adjacency, budget=(10.0, 1e-6))
    release = vault.release(MECHANISM, purpose="test")
    (charged,) = (dict(event)["events"] for event in release.guarantee.events)
    assert [part["sigma"] for part in charged] == [25.0, 30.0, 20.0]
    # three levels of one grid, two columns, one pair
    assert [part["sensitivity"] ** 2 for part in charged] == pytest.approx([3 * factor, 2 * factor, factor], rel=1e-9)
    whole = Gaussian(1.0, (factor * (3 / 25.0**2 + 2 / 30.0**2 + 1 / 20.0**2)) ** 0.5, adjacency)
    assert release.guarantee.epsilon() == pytest.approx(account(whole, 1e-6).epsilon(), rel=1e-3)


def exact_of(part: Any, records: Any) -> np.ndarray:
    counts: np.ndarray = part.run(records, Silent(), part.event(records.facts), 0)[0]
    return counts


def exact(part: Any, x: np.ndarray) -> np.ndarray:
    return exact_of(part, plain(x))


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32), st.lists(st.integers(1, 99), max_size=12, unique=True))
def test_no_neighbour_moves_a_part_by_more_than_is_charged(seed: int, cuts: list[int]) -> None:
    rng = np.random.default_rng(seed)
    base = table(5, seed)
    one, other = table(1, seed + 1), table(1, seed + 2)
    over = MECHANISM.over([tuple(np.array(sorted(cuts)) / 100)])
    assert isinstance(over, GroupedMarginals)
    groups = np.concatenate([rng.permutation(axis.cells).clip(max=2) % axis.cells for axis in over.axes])
    groups = np.concatenate([np.unique(part, return_inverse=True)[1] for part in over.by_axis(groups)])
    for part in (MECHANISM.tree(), over.fine(), over.pairs(groups)):
        assert part is not None
        counts = [exact(part, np.vstack([base, *more])) for more in ([], [one], [other])]
        # a record added: one cell of every marginal; replaced: two of each at most, none where they agree
        assert np.linalg.norm(counts[1] - counts[0]) == pytest.approx(part.sensitivity(A), rel=1e-9)
        assert np.linalg.norm(counts[1] - counts[0]) <= part.sensitivity(A)
        assert np.linalg.norm(counts[1] - counts[2]) <= part.sensitivity(R)


def test_the_bound_of_the_tree_is_reached_and_a_level_counted_twice_would_exceed_it() -> None:
    tree, base = MECHANISM.tree(), table(5)
    rows = [np.array([[value, 0.0]]) for value in (0.05, 0.95, -1.0)]
    counts = [exact(tree, np.vstack([base, row])) for row in rows]
    apart = max(np.linalg.norm(a - b) for a in counts for b in counts)
    assert apart == pytest.approx(tree.sensitivity(R), rel=1e-9)
    # a run more for every record, as a faulty level would have, is more than the bound
    faulty = [np.concatenate([count, count[:7]]) for count in counts]
    assert max(np.linalg.norm(a - b) for a in faulty for b in faulty) > tree.sensitivity(R)


@pytest.mark.parametrize("wide", [False, True])
def test_a_record_on_an_edge_or_out_of_range_stands_in_one_run_of_each_level_and_in_one_cell(wide: bool) -> None:
    edges = np.array(GRID.edges)
    odd = [-1.0, -5.0, -0.0, 0.0, 1.0, 2.0, np.nan, np.inf, -np.inf, 1e308]
    values = np.concatenate([edges, np.nextafter(edges, -1.0), np.nextafter(edges, 2.0), odd])
    rows, grid = values[:, None], GRID
    if wide:
        gone = np.arange(len(values)) % 3 == 0
        rows, grid = np.column_stack([values, ~gone, gone]), replace(GRID, width=3)
    at = grid.index(rows, None)
    missing = at == grid.cells - 1
    for size, level in zip(RULE.sizes, RULE.levels(grid), strict=True):
        np.testing.assert_array_equal(level.index(rows, None), np.where(missing, -(-100 // size), at // size))
    for cuts in ([], [0], [98], [3, 50, 51], list(range(15))):
        chosen = replace(grid, cells=len(cuts) + 2, edges=tuple(edges[cuts]))
        # by hand: a chosen cell begins with the grid cell above its edge
        above = np.sum(at[:, None] > np.array(cuts, dtype=np.int64)[None, :], axis=1)
        np.testing.assert_array_equal(chosen.index(rows, None), np.where(missing, len(cuts) + 1, above))


def test_a_parent_moves_the_tree_by_as_many_records_as_it_has_children() -> None:
    view = ChildView(context=0, count=0, start=1, width=2, most=3)
    mechanism = RelatedMarginals(((MECHANISM, view),))
    slots = table(18).reshape(6, 6)
    slots[-1] = [0.3, 2.0] * 3
    rows = np.column_stack([np.array([0, 1, 2, 3, 1, 3]) / 3, slots])
    counts = [exact_of(MECHANISM.tree(), _Seen(plain(some), view)) for some in (rows[:-1], rows)]
    charged = mechanism.event(plain(rows).facts).to_dict()["events"]
    assert [part["sensitivity"] ** 2 for part in charged] == pytest.approx([9 * 3, 9 * 2, 9 * 1], rel=1e-9)
    assert np.linalg.norm(counts[1] - counts[0]) == pytest.approx(3 * 3**0.5, rel=1e-12)
    value, public = mechanism.run(plain(rows), Silent(), mechanism.event(plain(rows).facts), 0)
    np.testing.assert_array_equal(value["0.tree"], counts[1])
    assert value["0.fine"].sum() == 2 * 10
    assert public["tables"][0]["tree"]["sigma"] == 25.0


def test_the_cost_is_the_same_whatever_cells_are_chosen() -> None:
    for adjacency in (A, R):
        facts = plain(table(4), adjacency).facts
        for edges in ((), (0.5,), tuple(np.arange(1, 16) / 100)):
            assert MECHANISM.over([edges]).event(facts) == MECHANISM.then.event(facts)


def test_cells_are_a_function_of_the_noisy_tree(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two tables that differ in every record have the same cells, groups and counts if the noisy answers are equal."""
    values = []
    for x in (table(3000), 1.0 - table(40, seed=7).clip(min=0.0)):
        Answers(monkeypatch)
        records = plain(np.column_stack([x[:, 0], x[:, 1].clip(min=0.0)]))
        values.append(MECHANISM.run(records, Silent(), MECHANISM.event(records.facts), 0)[0])
    assert values[0].keys() == values[1].keys() >= {"tree", "edges", "cuts", "fine", "groups", "pairs"}
    for name in values[0]:
        np.testing.assert_array_equal(values[0][name], values[1][name])


def test_a_cut_by_the_records_themselves_would_be_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    values = []

    def peeking(self: ChosenCells, counts: np.ndarray) -> list[tuple[float, ...]]:
        return [(float(np.floor(100 * np.median(records.x[:, 0])) / 100 or 0.01),)]

    for x in (table(3000), 1.0 - table(40, seed=7).clip(min=0.0)):
        records = plain(np.column_stack([x[:, 0], x[:, 1].clip(min=0.0)]))
        with monkeypatch.context() as patched:
            Answers(patched)
            patched.setattr(ChosenCells, "cut", peeking)
            values.append(MECHANISM.run(records, Silent(), MECHANISM.event(records.facts), 0)[0])
    assert not np.array_equal(values[0]["edges"], values[1]["edges"])


@pytest.mark.statistical
def test_noise_on_the_tree_is_accepted_at_sigma_and_rejected_at_two_thirds() -> None:
    x = table(300)
    silent = exact(MECHANISM.tree(), x)
    for factor, right in ((1.0, True), (2.0 / 3.0, False)):
        noise = []
        for _ in range(60):
            value, _ = MECHANISM.run(plain(x), WeakerNoise(factor), MECHANISM.event(plain(x).facts), 0)
            noise.append(value["tree"] - silent)
        found = np.concatenate(noise) / 25.0
        low, high = stats.chi2.ppf([5e-7, 1 - 5e-7], found.size)
        assert bool(low < np.sum(np.square(found)) < high) is right


# --- where cells are cut


def cuts_of(values: np.ndarray, grid: Axis, rule: TreeRule, sd: float = 1e-3, fine: float = 1e-3) -> np.ndarray:
    levels = rule.levels(grid)
    rng = np.random.default_rng(0)
    counts = [np.bincount(a.index(values[:, None], None), minlength=a.size) + rng.normal(0, sd, a.size) for a in levels]
    return np.array(rule.cuts(grid, counts, sd, fine))


def test_cells_hold_about_as_many_records_and_a_spike_stands_alone() -> None:
    grid = Axis(0, 1000, tuple(np.arange(1, 1000) / 1000), ordered=True)
    rng = np.random.default_rng(1)
    values = np.concatenate([0.02 * rng.random(9000), rng.random(500), np.full(3000, 0.0105)])
    cuts = cuts_of(values, grid, TreeRule())
    assert {0.01, 0.011} <= {round(c, 6) for c in cuts}
    assert len(cuts) < 64
    held = np.histogram(values, [0.0, *cuts, 1.0])[0]
    # 58 cells are asked for, and a grid cell holds 450 ± 21; the spike, 3,450, is the only one with many more
    assert sorted(held)[-1] > 3000
    assert sorted(held)[-2] <= 520
    # with much noise, fewer cells: each holds three deviations
    assert len(cuts_of(values, grid, TreeRule(), fine=200.0)) <= 12500 / 600 + 6


def test_noise_alone_makes_no_spike() -> None:
    grid = Axis(0, 512, tuple(np.arange(1, 512) / 512), ordered=True)
    rule = TreeRule()
    values = np.random.default_rng(2).random(20_000)
    masses = []
    for seed in range(5):
        rng = np.random.default_rng(seed)
        levels = rule.levels(grid)
        counts = [np.bincount(a.index(values[:, None], None), minlength=a.size) + rng.normal(0, 100.0, a.size)
                  for a in levels]  # fmt: skip
        masses.append(rule.masses(counts, grid, 100.0))
    # 39 records per grid cell, with noise of 100 in each: runs of 8 that noise alone explains stay even
    even = np.mean([np.ptp(mass.reshape(-1, 8), axis=1) < 1e-6 for mass in masses])
    assert even > 0.7
    assert np.allclose([mass.sum() for mass in masses], 20_000, atol=1500)


@pytest.mark.parametrize("made", [
    {"sizes": ()}, {"sizes": (8, 2)}, {"sizes": (8, 3, 1)}, {"sizes": (1, 1)}, {"most": 4}, {"ends": 0},
    {"sds": -1.0}, {"sds": float("nan")},
])  # fmt: skip
def test_rules_that_make_no_tree_are_refused(made: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        TreeRule(**made)


def test_cells_that_the_grid_does_not_have_are_refused() -> None:
    for edges in ([(0.123,)], [], [(0.1,), (0.2,)], [tuple(np.arange(1, 30) / 100)]):
        with pytest.raises(UsageError):
            MECHANISM.over(edges)
    with pytest.raises(UsageError, match="stands for its cells"):
        replace(MECHANISM, grids=(replace(GRID, missing=False, cells=100), None))
    with pytest.raises(UsageError, match="at least one grid"):
        replace(MECHANISM, grids=(None, None))
    with pytest.raises(UsageError, match="as many as the rule"):
        replace(MECHANISM, rule=TreeRule())
