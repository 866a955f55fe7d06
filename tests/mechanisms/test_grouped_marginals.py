"""Grouped marginals: parts, one charge; the groups are a function of what the first one showed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mechanism_samples import Plain, Silent

from privot import Vault
from privot.accounting import Composed, Gaussian, account
from privot.errors import BudgetError, UsageError
from privot.guarantee import Adjacency
from privot.mechanisms import Facts
from privot.mechanisms.table_counts.cell_axes import LABEL, Axis
from privot.mechanisms.table_counts.cell_grouping import GroupRule, nearest_counts
from privot.mechanisms.table_counts.grouped_marginals import GroupedMarginals
from privot.mechanisms.table_counts.marginals import Marginals
from privot.noise import SeededNoise

A, R = Adjacency.ADD_REMOVE, Adjacency.REPLACE_ONE
AXES = (
    Axis(0, 32, tuple(np.arange(1, 32) / 32), ordered=True),
    Axis(1, 40),
    Axis(2, 17, tuple(np.arange(1, 16) / 16), missing=True, ordered=True),
)
MECHANISM = GroupedMarginals(AXES, 2, (30.0, 20.0), by_class=True)


def table(rows: int = 4000, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    x = np.column_stack([rng.random(rows) ** 2, rng.geometric(0.3, rows).clip(max=40) - 1, rng.random(rows)])
    x[rng.random(rows) < 0.3, 2] = -1.0
    return x, (x[:, 0] + 0.2 * rng.normal(size=rows) > 0.4).astype(int)


def vault(adjacency: Adjacency = A, epsilon: float = 10.0) -> Vault:
    return Vault(*table(), clip=50.0, classes=2, adjacency=adjacency, budget=(epsilon, 1e-6))


@pytest.mark.parametrize(("adjacency", "factor"), [(A, 1.0), (R, 2.0)])
def test_one_charge_pays_for_both_parts(adjacency: Adjacency, factor: float) -> None:
    release = vault(adjacency).release(MECHANISM, purpose="test")
    expected = Composed(
        (
            Gaussian(30.0, (3 * factor) ** 0.5 * (1 + 1e-12), adjacency),
            Gaussian(20.0, (3 * factor) ** 0.5 * (1 + 1e-12), adjacency),
        )
    )
    assert release.guarantee.epsilon() == pytest.approx(account(expected, 1e-6).epsilon(), rel=1e-9)
    # both parts are one Gaussian release of the summed squares
    whole = Gaussian(1.0, (3 * factor * (30.0**-2 + 20.0**-2)) ** 0.5, adjacency)
    assert release.guarantee.epsilon() == pytest.approx(account(whole, 1e-6).epsilon(), rel=1e-3)


@pytest.mark.parametrize(("adjacency", "factor"), [(A, 1.0), (R, 2.0)])
def test_counts_by_class_are_a_part_of_their_own(adjacency: Adjacency, factor: float) -> None:
    made = replace(MECHANISM, by_class=False, label_sigma=40.0)
    release = vault(adjacency).release(made, purpose="test")
    (charged,) = (dict(event)["events"] for event in release.guarantee.events)
    assert [part["sigma"] for part in charged] == [30.0, 40.0, 20.0]
    assert [part["sensitivity"] for part in charged] == pytest.approx([(3 * factor) ** 0.5] * 3, rel=1e-9)
    whole = Gaussian(1.0, (3 * factor * (30.0**-2 + 40.0**-2 + 20.0**-2)) ** 0.5, adjacency)
    assert release.guarantee.epsilon() == pytest.approx(account(whole, 1e-6).epsilon(), rel=1e-3)
    # the fine counts tell no class apart, the merged ones do
    assert release.value["fine"].shape == (32 + 40 + 17,)
    merged = made.labelled(release.value["groups"])
    assert release.value["labelled"].shape == (sum(merged.lengths),)
    assert [shape[1] for shape in merged.shapes] == [2, 2, 2]
    assert release.public["labelled"]["scales"] == [40.0] * 3
    np.testing.assert_array_equal(made.groups(release.value["fine"]), release.value["groups"])


@pytest.mark.parametrize("label_sigma", [None, 40.0])
def test_no_neighbour_moves_a_part_by_more_than_is_charged(label_sigma: float | None) -> None:
    axes = (Axis(0, 3, (0.3, 0.6), ordered=True), Axis(1, 2))
    made = GroupedMarginals(axes, 2, (30.0, 20.0), label_sigma=label_sigma)
    # one record of every kind, beside some others
    kinds = [(np.array([[v, c]]), np.array([k])) for v in (0.1, 0.5, 0.9) for c in (0.0, 1.0) for k in (0, 1)]
    base = np.array([[0.1, 0.0], [0.9, 1.0], [0.5, 1.0]]), np.array([0, 1, 1])
    parts = [made.fine(), made.labelled(np.array([0, 0, 1, 0, 1])), made.pairs(np.array([0, 1, 1, 0, 1]))]
    for part in parts:
        if part is None:
            continue

        def counts(record: tuple[np.ndarray, np.ndarray] | None, part: Marginals = part) -> np.ndarray:
            x, y = base if record is None else (np.vstack([base[0], record[0]]), np.concatenate([base[1], record[1]]))
            exact, _ = part.run(Plain(x, y, A, 2, 9.0), Silent(), part.event(Facts(2, None, 9.0, A, 2)), 0)
            return exact

        added = [float(np.linalg.norm(counts(kind) - counts(None))) for kind in kinds]
        replaced = [float(np.linalg.norm(counts(one) - counts(other))) for one in kinds for other in kinds]
        # the bounds hold, and are reached
        assert max(added) == pytest.approx(part.sensitivity(A), rel=1e-9)
        assert max(added) <= part.sensitivity(A)
        assert max(replaced) == pytest.approx(part.sensitivity(R), rel=1e-9)
        assert max(replaced) <= part.sensitivity(R)


def test_the_order_of_records_changes_nothing() -> None:
    x, y = table(500)
    turned = np.random.default_rng(1).permutation(500)
    made = replace(MECHANISM, by_class=False, label_sigma=40.0)
    values = []
    for rows in (np.arange(500), turned):
        records = Plain(x[rows], y[rows], A, 2, 50.0)
        values.append(made.run(records, SeededNoise(3), made.event(records.facts), 0)[0])
    assert values[0].keys() == values[1].keys()
    for name in values[0]:
        np.testing.assert_array_equal(values[0][name], values[1][name])


def test_more_records_or_less_noise_give_more_groups() -> None:
    rule = GroupRule(most=30, least=5, pair_sds=2.0)
    assert rule.number(32_000.0, 40.0) == 20
    assert rule.number(32_000.0, 10.0) == 30
    assert rule.number(32_000.0, 1e6) == 5
    assert rule.number(32_000.0, 0.0) == 30
    counts = np.full(64, 500.0)
    few, many = (rule.groups(counts, 1.0, True, False, sd).max() + 1 for sd in (160.0, 40.0))
    assert (few, many) == (10, 16)


def test_the_groups_are_a_function_of_the_released_counts() -> None:
    release = vault().release(MECHANISM, purpose="test")
    value = release.value
    np.testing.assert_array_equal(MECHANISM.groups(value["fine"]), value["groups"])
    pairs = MECHANISM.pairs(value["groups"])
    assert value["pairs"].shape == (sum(pairs.lengths),)
    assert release.public["pairs"]["shapes"] == [list(shape) for shape in pairs.shapes]
    # counts of one marginal add up to the number of records, within the noise
    for part, length in zip(np.split(value["pairs"], np.cumsum(pairs.lengths)[:-1]), pairs.lengths, strict=True):
        assert abs(part.sum() - 4000) < 6 * 20.0 * length**0.5


def test_the_budget_is_all_or_nothing() -> None:
    tight = vault(epsilon=0.3)
    with pytest.raises(BudgetError):
        tight.release(MECHANISM, purpose="test")
    # nothing was spent on a first part
    half = replace(MECHANISM, sigma=(33.0, 33.0))
    assert tight.release(half, purpose="test").guarantee.epsilon() < 0.3


def test_one_column_has_no_pairs() -> None:
    x, _ = table()
    alone = GroupedMarginals(AXES[:1], None, (30.0, 20.0))
    release = Vault(x[:, :1], clip=2.0, adjacency=A, budget=(1.0, 1e-6)).release(alone, purpose="test")
    assert set(release.value) == {"fine", "groups"}
    assert release.guarantee.events == (Gaussian(30.0, 1 + 1e-12, A).to_dict(),)


def test_contradictions_are_refused() -> None:
    for bad in (
        {"steps": 2},
        {"classes": None},
        {"axes": (Axis(LABEL, 2),)},
        {"axes": (Axis(0, 2, groups=(0, 0)),)},
        {"sigma": (0.0, 1.0)},
        {"sigma": (1.0, 1e-9)},
        {"label_sigma": 0.0},
        {"classes": None, "by_class": False, "label_sigma": 9.0},
    ):
        with pytest.raises(UsageError):
            replace(MECHANISM, **bad)
    with pytest.raises(UsageError):
        MECHANISM.event(Facts(2, None, 1.0, A, 2))


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.floats(-200, 1e5), min_size=1, max_size=130),
    st.floats(0.0, 100.0),
    st.booleans(),
    st.booleans(),
    st.integers(2, 20),
    st.floats(0.0, 1e4),
    st.sampled_from([{}, {"end_sds": None}, {"share": 0.0, "sds": 0.0}]),
)
def test_groups_are_numbered_without_gaps_and_few(
    counts: list[float], sd: float, ordered: bool, missing: bool, most: int, pair_sd: float, more: dict[str, Any]
) -> None:
    rule = GroupRule(most=most, **more)
    groups = rule.groups(np.array(counts), sd, ordered, missing, pair_sd)
    assert groups.shape == (len(counts),)
    assert set(groups) == set(range(groups.max() + 1))
    assert groups.max() + 1 <= rule.bound
    if ordered:
        # neighbours: never back to an earlier group
        assert (np.diff(groups) >= 0).all()


def test_a_rule_that_asks_nothing_of_a_group_makes_none_of_each_empty_cell() -> None:
    rule = GroupRule(most=2, share=0.0, sds=0.0, end_sds=None)
    assert rule.groups(np.array([900.0, *[0.0] * 60]), 1.0, True, False).max() + 1 <= rule.bound


def test_full_cells_stand_alone_and_empty_ones_do_not() -> None:
    counts = np.array([9000.0, 3.0, -2.0, 500.0, 480.0, 17.0, 0.0, 0.0])
    ordered = GroupRule(most=8, share=0.02, sds=0.0).groups(counts, 1.0, True, False)
    assert ordered.tolist() == [0, 1, 1, 1, 2, 2, 2, 2]
    unordered = GroupRule(most=8, share=0.02, sds=0.0).groups(counts, 1.0, False, False)
    assert unordered.tolist() == [0, 3, 3, 1, 2, 3, 3, 3]
    # what the noise could have made is no group: 500 is fewer than 6 deviations of 100
    assert GroupRule().groups(counts, 100.0, False, False).tolist() == [0, 1, 1, 1, 1, 1, 1, 1]


@settings(max_examples=100, deadline=None)
@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=50))
def test_nearest_counts_keep_the_total_and_are_never_negative(counts: list[float]) -> None:
    out = nearest_counts(np.array(counts))
    assert (out >= 0).all()
    assert out.sum() == pytest.approx(max(sum(counts), 1.0), rel=1e-6, abs=1e-4)


def test_nearest_counts_are_nearest() -> None:
    rng = np.random.default_rng(0)
    counts = rng.normal(3.0, 5.0, 12)
    out = nearest_counts(counts)
    for _ in range(300):
        other = rng.dirichlet(np.ones(12)) * counts.sum()
        assert np.sum((out - counts) ** 2) <= np.sum((other - counts) ** 2) + 1e-9
