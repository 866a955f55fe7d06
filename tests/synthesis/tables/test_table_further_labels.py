"""Further labels and interactions that a schema names: their shares of the one charge, and what they change."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from privot import Vault
from privot.accounting import account
from privot.errors import DataError, UsageError
from privot.guarantee import Adjacency
from privot.mechanisms import Facts
from privot.mechanisms.table_counts.cell_axes import LABEL
from privot.mechanisms.table_counts.chosen_cells import ChosenCells
from privot.mechanisms.table_counts.further_scores import FurtherScores
from privot.mechanisms.table_counts.scored_marginals import ScoredMarginals
from privot.synthesis import Synthesizer
from privot.synthesis.tabular.label_laws.further_laws import Asked
from privot.synthesis.tabular.table_design import TableDesign
from privot.synthesis.tabular.table_fit import fit_table, order_of
from privot.synthesis.tabular.table_model import TableModel
from privot.synthesis.tabular.table_release import table_mechanism
from privot.tables import Column, Schema, TableCodec

A, R = Adjacency.ADD_REMOVE, Adjacency.REPLACE_ONE


def schema(**more: Any) -> Schema:
    numbers = tuple(Column(f"n{i}", "integer", 0, 9) for i in range(4))
    words = tuple(Column(f"w{i}", "categorical", categories=("a", "b", "c")) for i in range(2))
    label, other = Column("y", "boolean"), Column("t", "boolean")
    return Schema((*numbers, *words, other, label), label="y", **more)


def table(rows: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """y says whether n0 and n1 are on the same side; t follows n2 and n3, and n3 is nearly n2."""
    rng = np.random.default_rng(seed)
    n = rng.integers(0, 10, (rows, 4))
    n[:, 3] = np.clip(n[:, 2] + rng.integers(-1, 2, rows), 0, 9)
    w = rng.integers(0, 3, (rows, 2))
    y = ((n[:, 0] < 5) == (n[:, 1] < 5)) ^ (rng.random(rows) < 0.1)
    t = (rng.random(rows) < 1 / (1 + np.exp(-(n[:, 2] - n[:, 3] + 0.5 * (w[:, 0] == 1))))).astype(int)
    return np.column_stack([n / 9.0, w, t]).astype(float), y.astype(int)


@pytest.mark.parametrize("adjacency", [A, R])
def test_the_budget_is_shared_by_a_public_rule(adjacency: Adjacency) -> None:
    codec = TableCodec(schema(further_labels=("t", "w0"), interactions=(("n0", "n1"), ("n2", "n3", "w1"))))
    made = table_mechanism(codec, epsilon=1.0, delta=1e-6, adjacency=adjacency)
    assert isinstance(made, FurtherScores)
    facts = Facts(7, 2 if adjacency is R else None, codec.bound(compact=True), adjacency, 2)
    event = made.event(facts)
    assert 0.99 < account(event, 1e-6).epsilon() <= 1.0
    parts = event.to_dict()["events"]
    spent = np.array([(part["sensitivity"] / part["sigma"]) ** 2 for part in parts])
    # fine counts, by class, pairs; a third of the scores' share for each label; half of the interactions' for each
    shares = [0.2, 0.1, 0.45, 0.25 / 3, 0.25 / 3, 0.25 / 3, 0.05, 0.05]
    assert spent / spent.sum() == pytest.approx(np.array(shares) / 1.1, rel=1e-6)
    # squares of sensitivities: the label beside 7 columns; w0, drawn first, beside 5; t beside those and w0; two sets
    once = 4 if adjacency is R else 1
    assert [p["sensitivity"] ** 2 / once for p in parts[3:]] == pytest.approx([7, 5 * 2, 6, 1, 2], rel=1e-9)


def test_labels_are_drawn_last_and_the_first_of_them_at_the_end() -> None:
    asked = Asked.of(TableCodec(schema(further_labels=("t", "w0"), interactions=(("n1", "n0"),))))
    assert asked.labels == (4, 6)
    assert asked.before(4, 7) == (0, 1, 2, 3, 5)
    assert asked.before(6, 7) == (0, 1, 2, 3, 4, 5)
    assert asked.interactions == ((LABEL, 0, 1),)
    linked = np.abs(np.random.default_rng(0).normal(size=(7, 7)))
    assert order_of(linked + linked.T, 0, asked.labels)[-2:] == [4, 6]
    assert order_of(linked + linked.T, 5, asked.labels)[-2:] == [4, 6]
    assert sorted(order_of(linked + linked.T, 4)[:4]) == [0, 1, 2, 3]


def test_a_table_without_them_is_planned_as_ever() -> None:
    codec = TableCodec(schema())
    vault = Vault(*table(50), clip=codec.bound(compact=True), classes=2, adjacency="add-remove", budget=(1.0, 1e-6))
    design = Synthesizer(1.0, 1e-6, seed=1, device="cpu", kind=codec).design(vault.facts)
    assert isinstance(design.mechanism, ScoredMarginals)
    # commit 196f71a, before there were further labels
    fields = design.to_dict()
    assert sorted(fields) == sorted(
        "tree_sigma tree_rule sigma label_sigma by_class rule score_sigma seed delta adjacency facts".split()
    )
    assert [*fields["sigma"], fields["label_sigma"], fields["score_sigma"]] == pytest.approx(WAS, rel=1e-9)
    assert design.mechanism.planner.identity() == repr((design.counts.axes, 10_000, 0)).encode()  # type: ignore[attr-defined]
    assert "labels" not in codec.schema.to_dict()
    assert "interactions" not in codec.schema.to_dict()


WAS = [24.99503702448428, 28.86178270898132, 35.34832035204332, 22.356240754770727]


def fitted(codec: TableCodec, x: np.ndarray, y: np.ndarray | None) -> TableModel:
    """The model of a release at ε = 3; planners and the fit look at fewer rows than usual, which is quicker."""
    clip, classes = codec.bound(compact=True), codec.classes
    vault = Vault(x, y, clip=clip, classes=classes, adjacency="add-remove", budget=(3.0, 1e-6))
    mechanism: Any = table_mechanism(codec, epsilon=3.0, delta=1e-6, adjacency=A)
    if isinstance(mechanism, FurtherScores):
        mechanism = replace(mechanism, planner=replace(mechanism.planner, population=2000))  # type: ignore[type-var]
    inner = mechanism.then if isinstance(mechanism, FurtherScores) else mechanism
    if isinstance(inner, ScoredMarginals):
        inner = replace(inner, planner=replace(inner.planner, population=2000))  # type: ignore[type-var]
        mechanism = replace(mechanism, then=inner) if isinstance(mechanism, FurtherScores) else inner
    release = vault.release(mechanism, purpose="test")
    assert release.guarantee.epsilon() <= 3.0
    assert str(release.guarantee.standing) == "proven"
    return fit_table(release, codec, seed=1, population=3000)


def same_side(model: TableModel, third: str) -> float:
    """How often a column is right about n0 and n1, of 5,000 synthetic rows; 0.9 is right, 0.5 is chance."""
    made = model.sample(5000, seed=2)
    a, b = (np.asarray(made[name], dtype=float) < 5 for name in ("n0", "n1"))
    return float(((a == b) == (np.asarray(made[third]).astype(str) == "True")).mean())


@pytest.mark.slow
def test_an_interaction_is_kept_where_it_is_named_and_lost_where_not() -> None:
    with_it, without = (
        same_side(fitted(TableCodec(schema(interactions=asked)), *table(8000)), "y") for asked in ((("n0", "n1"),), ())
    )
    assert with_it > 0.8
    assert without < 0.6


def test_three_columns_are_kept_together_without_a_label() -> None:
    columns = tuple(c for c in schema().columns if c.name in ("n0", "n1", "w0", "t"))
    x, y = table(8000)
    rows = np.column_stack([x[:, [0, 1, 4]], y])
    with_it, without = (
        same_side(fitted(TableCodec(Schema(columns, interactions=asked)), rows, None), "t")
        for asked in ((("n0", "n1", "t"),), ())
    )
    assert with_it > 0.8
    assert without < 0.6


def test_a_design_is_read_as_it_was_written_and_another_release_is_refused() -> None:
    codec = TableCodec(schema(further_labels=("t",), interactions=(("n0", "n1"),)))
    x, y = table(300)
    vault = Vault(x, y, clip=codec.bound(compact=True), classes=2, adjacency="add-remove", budget=(20.0, 1e-6))
    design = Synthesizer(1.0, 1e-6, seed=1, device="cpu", kind=codec).design(vault.facts)
    fields = json.loads(json.dumps(design.to_dict()))
    again = TableDesign.from_dict(fields, codec)
    assert again.mechanism == design.mechanism
    release = vault.release(design.mechanism, purpose="test")
    again.check_release(release)
    less = json.loads(json.dumps(fields))
    less["further"][0]["sigma"] *= 2 / 3
    with pytest.raises(DataError, match="not the one its job paid for"):
        TableDesign.from_dict(less, codec).check_release(release)
    for odd in ({"further": fields["further"][:1]}, {"further": fields["further"][::-1]}):
        with pytest.raises(DataError):
            TableDesign.from_dict({**fields, **odd}, codec)
    # a release whose law is damaged is refused, and not fitted
    value = {**release.value, "further.1.scores": release.value["further.1.scores"][:-1]}
    with pytest.raises(DataError):
        design.fit(replace(release, value=value))


def test_cells_that_are_chosen_first_change_nothing_of_the_cost() -> None:
    numbers = (Column(f"c{i}", "continuous", 0, 1000) for i in range(3))
    columns = (*numbers, Column("t", "boolean"), Column("y", "boolean"))
    codec = TableCodec(Schema(columns, label="y", further_labels=("t",), interactions=(("c0", "c1", "c2"),)))
    x, y = table(500)
    rows = np.column_stack([x[:, :3], x[:, 6]])
    vault = Vault(rows, y, clip=codec.bound(compact=True), classes=2, adjacency="add-remove", budget=(2.0, 1e-6))
    design = Synthesizer(2.0, 1e-6, seed=1, device="cpu", kind=codec).design(vault.facts)
    # releases and fits a few made-up rows, and refuses a design that costs more
    design.check(vault.facts, 2.0, 1e-6, "cpu")
    mechanism = table_mechanism(codec, epsilon=2.0, delta=1e-6, adjacency=A)
    assert isinstance(mechanism, ChosenCells)
    assert isinstance(mechanism.then, FurtherScores)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"further_labels": ("n0",)}, "categorical, ordinal or boolean"),
        ({"further_labels": ("gone",)}, "no column"),
        ({"further_labels": ("y",)}, "named twice"),
        ({"further_labels": ("t", "t")}, "named twice"),
        ({"interactions": (("n0", "gone"),)}, "no column"),
        ({"interactions": (("n0",),)}, "two or three"),
        ({"interactions": (("n0", "n0"),)}, "two or three"),
        ({"interactions": (("n0", "y"),)}, "counted anyway"),
        ({"interactions": (("n0", "n1"), ("y", "n1", "n0"))}, "same columns"),
    ],
)
def test_schemas_that_ask_for_nonsense_are_refused(more: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        schema(**more)


def test_a_file_names_all_labels() -> None:
    made = schema(further_labels=("t",), interactions=(("n0", "n1"),))
    raw = json.loads(json.dumps(made.to_dict()))
    assert raw["labels"] == ["y", "t"]
    assert raw["interactions"] == [["n0", "n1"]]
    assert Schema.from_dict(raw) == made
    del raw["label"]
    assert Schema.from_dict(raw) == made
    for odd in ({"labels": "y"}, {"labels": []}, {"label": "t"}, {"interactions": [["n0", 1]]}, {"interactions": "n0"}):
        with pytest.raises(DataError):
            Schema.from_dict({**raw, **odd})
    with pytest.raises(UsageError, match="cannot be dropped"):
        made.dropping("t")


def test_a_label_with_too_many_values_is_refused_before_anything_is_paid() -> None:
    words = tuple(str(i) for i in range(60))
    many = tuple(Column(f"c{i}", "categorical", categories=words) for i in range(20))
    columns = (*many, Column("y", "boolean"))
    made = TableCodec(Schema(columns, label="y", further_labels=("c0",)))
    with pytest.raises(UsageError, match="too many values"):
        table_mechanism(made, epsilon=1.0, delta=1e-6, adjacency=A)
    made = TableCodec(Schema(columns, label="y", interactions=(("c0", "c1", "c2"),)))
    with pytest.raises(UsageError, match="too many cells"):
        table_mechanism(made, epsilon=1.0, delta=1e-6, adjacency=A)
