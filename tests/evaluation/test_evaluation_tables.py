"""Scores and distances of tables, where the answer is known."""

from __future__ import annotations

import json

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from privot.errors import DataError, UsageError
from privot.evaluation.boosting_rows import empty_columns, few_threads, rows_to_fit
from privot.evaluation.table_figures import Coded
from privot.evaluation.table_quality import (
    PRIVATE,
    evaluate_table,
    label_balance,
    marginal_distances,
    nearest_distances,
    pair_distances,
    train_and_test,
)
from privot.evaluation.table_targets import model_figures
from privot.tables import Column, Schema, Table, TableCodec

CODEC = TableCodec(
    Schema(
        (
            Column("a", "continuous", 0, 1, missing=True),
            Column("b", "categorical", categories=("x", "y")),
            Column("k", "boolean"),
        ),
        label="k",
    )
)


def table(rows: int, seed: int, flip: float = 0.1) -> Table:
    rng = np.random.default_rng(seed)
    a, b = rng.random(rows), rng.integers(0, 2, rows)
    k = ((a > 0.5) != (b == 1)) != (rng.random(rows) < flip)
    return Table({"a": np.where(rng.random(rows) < 0.05, np.nan, a), "b": np.array(["x", "y"])[b], "k": k})


def test_models_reach_the_best_possible_scores() -> None:
    # nine in ten labels can be told (less where a is missing); boosting sees the interaction, a straight line does not
    boosting = train_and_test(table(3000, 0), table(4000, 1), CODEC, "boosting")
    logistic = train_and_test(table(3000, 0), table(4000, 1), CODEC, "logistic")
    assert 0.85 < boosting.accuracy < 0.91
    assert logistic.accuracy < 0.6
    assert boosting.auc is not None
    assert 0.8 < boosting.auc < 0.95
    noise = train_and_test(table(3000, 0, flip=0.5), table(4000, 1), CODEC, "boosting")
    assert noise.auc is not None
    assert abs(noise.auc - 0.5) < 0.08


def test_a_single_class_gives_no_error() -> None:
    one = table(100, 0)
    one = Table({"a": one["a"], "b": one["b"], "k": np.zeros(100, dtype=bool)})
    score = train_and_test(one, table(400, 1), CODEC, "boosting")
    assert score.accuracy == pytest.approx(1 - label_balance(table(400, 1), CODEC)[1])
    assert score.auc == pytest.approx(0.5)
    assert train_and_test(table(300, 0), one, CODEC, "logistic").auc is None


def rare_table(rows: int, seed: int) -> Table:
    """One row of class c, and one number: beyond 10,000 rows boosting sets a tenth of them aside, class by class."""
    rng = np.random.default_rng(seed)
    k = rng.integers(0, 2, rows)
    k[17] = 2
    a = np.full(rows, np.nan)
    a[23] = 0.5
    return Table({"a": a, "b": np.array(["x", "y"])[k % 2], "k": np.array(["a", "b", "c"])[k]})


def test_a_class_of_one_row_and_a_column_of_one_number_give_no_error() -> None:
    label = Column("k", "categorical", categories=("a", "b", "c"))
    codec = TableCodec(Schema((*CODEC.schema.columns[:2], label), label="k"))
    made, real = (rare_table(rows, rows) for rows in (10_020, 400))
    # with seed 13 scikit-learn sets the row of the one number aside
    for seed in (0, 13):
        score = train_and_test(made, real, codec, "boosting", seed)
        assert score.accuracy == pytest.approx(399 / 400)
    drawn, records = (Coded(*codec.encode(table, compact=True), codec) for table in (made, real))
    targets, _ = model_figures(drawn, records)
    assert {target["target"]: target["measure"] for target in targets} == {"k": "AUC", "b": "AUC"}


def test_only_what_boosting_cannot_use_is_left_out() -> None:
    assert rows_to_fit(np.array([0, 1, 1])).all()
    many = np.repeat([0, 1], 6000)
    assert rows_to_fit(many).all()
    assert rows_to_fit(np.append(many, 2)).tolist() == [True] * 12_000 + [False]
    x = np.zeros((100, 3))
    x[19:, 0] = x[20:, 1] = np.nan
    assert empty_columns(x).tolist() == [True, False, False]
    # a short table without missing numbers stays as it is
    assert not empty_columns(np.zeros((5, 2))).any()


def test_distances_are_those_of_a_known_pair() -> None:
    first = Table({"a": [0.1] * 4, "b": ["x", "x", "y", "y"], "k": [False] * 4})
    second = Table({"a": [0.1, 0.1, 0.9, np.nan], "b": ["x", "y", "y", "y"], "k": [False, True, True, True]})
    assert marginal_distances(first, second, CODEC) == {"a": 0.5, "b": 0.25, "k": 0.75}
    pairs = pair_distances(first, second, CODEC)
    # (a, b): ¼ each against (.1,x) ½ (.1,y) ½ in halves
    assert pairs["a", "b"] == pytest.approx(0.5)
    assert pairs["b", "k"] == pytest.approx(0.75)
    assert marginal_distances(first, first, CODEC) == {"a": 0.0, "b": 0.0, "k": 0.0}
    assert label_balance(second, CODEC) == (0.25, 0.75)


def test_nearest_distances_see_copies_and_are_marked() -> None:
    real, held_out = table(300, 0), table(300, 1)
    copied = nearest_distances(real, real, held_out, CODEC)
    assert copied.synthetic == (0.0, 0.0, 0.0)
    assert copied.held_out[2] > 0
    assert copied.marked == PRIVATE == "private, do not publish"


@pytest.mark.slow
def test_the_report_holds_plain_json_types() -> None:
    report = evaluate_table(table(500, 0), table(500, 1), CODEC, private=table(500, 2))
    raw = json.loads(json.dumps(report.to_dict()))
    assert raw["nearest"]["marked"] == PRIVATE
    assert list(raw["scores"]) == list(raw["auc"]) == ["boosting", "logistic"]
    assert raw["scores"]["boosting"] == report.scores[0].accuracy
    assert raw["marginal_distance"] < 0.2
    assert list(raw["marginals"]) == [*(c.name for c in CODEC.features), CODEC.schema.label]


def test_without_the_private_records_nearest_rows_are_test_records() -> None:
    synthetic, test = table(40, 0), table(60, 1)
    near = evaluate_table(synthetic, test, CODEC).nearest
    a, b = CODEC.encode(synthetic)[0], CODEC.encode(test)[0]
    across = np.linalg.norm(a[:, None] - b[None], axis=2).min(axis=1)
    within = np.linalg.norm(b[:, None] - b[None], axis=2) + np.where(np.eye(60) > 0, np.inf, 0.0)
    np.testing.assert_allclose(near.synthetic, np.percentile(across, (1, 5, 50)), atol=1e-6)
    np.testing.assert_allclose(near.held_out, np.percentile(within.min(axis=1), (1, 5, 50)), atol=1e-6)
    assert near.marked == PRIVATE


def test_a_column_without_values_gives_no_error() -> None:
    codec = TableCodec(
        Schema((*CODEC.schema.columns, Column("void", "continuous", 0, 1, missing=True)), label=CODEC.schema.label)
    )
    with_void = [Table({**t, "void": [None] * t.rows}) for t in (table(300, 0), table(300, 1))]
    plain = [table(300, 0), table(300, 1)]
    assert train_and_test(*with_void, codec).accuracy == train_and_test(*plain, CODEC).accuracy


def test_invalid_tables_are_refused() -> None:
    plain = TableCodec(Schema(CODEC.schema.columns))
    with pytest.raises(UsageError):
        train_and_test(table(50, 0), table(50, 1), plain)
    with pytest.raises(UsageError):
        train_and_test(table(50, 0), table(50, 1), CODEC, "forest")  # type: ignore[arg-type]
    with pytest.raises(UsageError):
        label_balance(table(50, 0), plain)
    with pytest.raises(DataError):
        evaluate_table(table(1, 0), table(50, 1), CODEC)
    assert evaluate_table(table(50, 0), table(50, 1), plain).scores == ()


def test_boosting_of_few_rows_takes_one_thread() -> None:
    """Threads wait for each other at every node of every tree: on busy cores that takes ten times as long."""

    def threads() -> set[int]:
        return {pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "openmp"}

    train_and_test(table(300, 0), table(300, 1), CODEC)  # so that the library with threads is there
    with threadpool_limits(limits=3, user_api="openmp"):
        with few_threads(1000):
            assert threads() == {1}
        with few_threads(10**6):
            assert threads() == {3}
        assert threads() == {3}
