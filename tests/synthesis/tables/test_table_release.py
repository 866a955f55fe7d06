"""The plan of a table's release: shares of the budget, groups per column; it follows from the schema and the budget."""

from __future__ import annotations

from typing import Any

import pytest

from privot.accounting import account
from privot.errors import UsageError
from privot.evaluation.schema_axes import axes_of
from privot.guarantee import Adjacency
from privot.mechanisms import Facts
from privot.mechanisms.table_counts.cell_grouping import GroupRule
from privot.mechanisms.table_counts.chosen_cells import ChosenCells
from privot.mechanisms.table_counts.grouped_marginals import GroupedMarginals
from privot.mechanisms.table_counts.scored_marginals import ScoredMarginals
from privot.synthesis.tabular.table_release import group_rule, table_mechanism
from privot.tables import Column, Schema, TableCodec

A, R = Adjacency.ADD_REMOVE, Adjacency.REPLACE_ONE


def numbers(columns: int, classes: int = 2) -> TableCodec:
    columns_of = [Column(f"c{i}", "continuous", 0, 1) for i in range(columns)]
    if not classes:
        return TableCodec(Schema(tuple(columns_of)))
    label = Column("k", "categorical", categories=tuple("abcdef"[:classes]))
    return TableCodec(Schema((*columns_of, label), label="k"))


@pytest.mark.parametrize("adjacency", [A, R])
@pytest.mark.parametrize(
    ("columns", "classes", "shares"),
    # trees, fine counts, counts by class, pairs, scores; what a table does not have goes to the others
    [
        (4, 2, [0.03, 0.17, 0.1, 0.45, 0.25]),
        (7, 5, [0.03, 0.17, 0.1, 0.45, 0.25]),
        (4, 1, [0.03 / 0.65, 0.17 / 0.65, 0.45 / 0.65]),
        (4, 0, [0.03 / 0.65, 0.17 / 0.65, 0.45 / 0.65]),
        (1, 2, [0.03 / 0.55, 0.17 / 0.55, 0.1 / 0.55, 0.25 / 0.55]),
        (1, 0, [0.15, 0.85]),
    ],
)
def test_the_budget_is_spent_in_the_stated_shares(
    columns: int, classes: int, shares: list[float], adjacency: Adjacency
) -> None:
    codec = numbers(columns, classes)
    mechanism = table_mechanism(codec, epsilon=1.0, delta=1e-6, adjacency=adjacency)
    facts = Facts(columns, 2 if adjacency is R else None, codec.bound(compact=True), adjacency, codec.classes)
    event = mechanism.event(facts)
    assert 0.99 < account(event, 1e-6).epsilon() <= 1.0
    raw: dict[str, Any] = event.to_dict()
    parts = raw.get("events", [raw])
    # by hand, in squares: a record is in one run of each of three levels of d trees, in one cell of each of d columns
    # and d(d − 1)/2 pairs; replaced, in two; its residual has norm 1 (two classes) or √2, and replaced twice that
    counted = 1 if adjacency is A else 2
    residual = (1 if classes == 2 else 2) * counted**2
    pairs = columns * (columns - 1) / 2
    squares = [3 * columns * counted, columns * counted, columns * counted, pairs * counted, columns * residual]
    there = [True, True, classes > 1, columns > 1, classes > 1]
    expected = [square for square, has in zip(squares, there, strict=True) if has]
    assert [part["sensitivity"] ** 2 for part in parts] == pytest.approx(expected, rel=1e-9)
    spent = [(part["sensitivity"] / part["sigma"]) ** 2 for part in parts]
    assert [one / sum(spent) for one in spent] == pytest.approx(shares, rel=1e-6)


def test_one_class_is_not_counted_apart_from_the_columns() -> None:
    mechanism = table_mechanism(numbers(2, 1), epsilon=1.0, delta=1e-6, adjacency="add-remove")
    assert isinstance(mechanism, ChosenCells)
    assert isinstance(mechanism.then, GroupedMarginals)
    assert mechanism.then.label_sigma is None
    assert mechanism.then.fine().shapes == ((64, 1), (64, 1))


def test_only_columns_without_a_stated_scale_have_a_tree_and_its_share() -> None:
    fixed = Column("a", "continuous", 0, 9, scale="linear"), Column("b", "integer", 0, 99), Column("c", "boolean")
    assert isinstance(made(*fixed), GroupedMarginals)
    one = made(*fixed, Column("d", "continuous", 0, 9))
    assert isinstance(one, ChosenCells)
    assert [grid is None for grid in one.grids] == [True, True, True, False]
    tree, fine = (Facts(4, None, 9.0, A).cost(part.event(Facts(4, None, 9.0, A))) for part in (one.tree(), one.then))
    # a quarter of the columns: a quarter of 0.03, in 1/σ² per unit of sensitivity, of 0.65 in all
    spent = [(e["sensitivity"] / e["sigma"]) ** 2 for e in (tree.to_dict(), *fine.to_dict()["events"])]
    assert [s / sum(spent) for s in spent] == pytest.approx([0.0075 / 0.65, 0.1925 / 0.65, 0.45 / 0.65], rel=1e-6)


def made(*columns: Column) -> Any:
    return table_mechanism(TableCodec(Schema(columns)), epsilon=1.0, delta=1e-6, adjacency="add-remove")


@pytest.mark.parametrize(
    ("columns", "classes", "most"),
    [
        # scores: 4,000 coefficients, for 64 cells per column or the 50 and 32 that 16 and 10 groups allow
        *[(62, 2, 24), (63, 2, 16), (79, 2, 16), (80, 2, 10), (124, 2, 10), (15, 5, 24), (16, 5, 16), (20, 5, 10)],
        # without scores: 50 million counts of pairs
        *[(125, 2, 24), (156, 2, 24), (157, 2, 16), (200, 2, 16), (201, 2, 10), (313, 2, 10), (156, 1, 24)],
    ],
)
def test_groups_follow_the_number_of_columns(columns: int, classes: int, most: int) -> None:
    assert group_rule(axes_of(numbers(columns, classes)), classes) == GroupRule(most=most)


def test_scores_are_kept_where_fewer_groups_allow_it() -> None:
    mechanism = table_mechanism(numbers(63), epsilon=1.0, delta=1e-6, adjacency="add-remove")
    assert isinstance(mechanism, ChosenCells)
    assert isinstance(mechanism.then, ScoredMarginals)
    assert mechanism.marginals.rule == GroupRule(most=16)


def test_more_columns_than_can_be_counted_in_pairs_are_refused() -> None:
    with pytest.raises(UsageError, match="314 columns have too many pairs"):
        table_mechanism(numbers(314), epsilon=1.0, delta=1e-6, adjacency="add-remove")
