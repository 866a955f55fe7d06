"""The method stand-in for tables: one release of the columns without the label, weights, what is left behind."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from privot.adaptation import DomainAdapter, StandIn
from privot.adaptation.adaptation_methods import read_design
from privot.adaptation.stand_in.importance_weights import (
    effective_share,
    importance_weights,
    weighted_gain,
)
from privot.adaptation.stand_in.logistic_fit import RIDGE, fit_logistic, log_probabilities
from privot.adaptation.stand_in.table_learner import release_of
from privot.adaptation.stand_in.table_rows import cell_rows, cell_width, unlabelled_file, unlabelled_rows
from privot.adaptation.stand_in.weighted_training import TableChecks, fit_weighted
from privot.errors import DataError, UsageError
from privot.mechanisms.table_counts.grouped_marginals import GroupedMarginals
from privot.synthesis import Synthesizer
from privot.tables import Column, Schema, Table, TableCodec
from privot.vault import Vault

SCHEMA = Schema(
    (
        Column("age", "integer", 0, 9),
        Column("pays", "categorical", categories=("no", "yes")),
        Column("town", "categorical", categories=("a", "b", "c")),
    ),
    "pays",
)
CODEC = TableCodec(SCHEMA)
SHORT = StandIn(samples=300)


def table(records: int, seed: int, shift: int = 0) -> Table:
    """Who is older pays; in the target people are older by `shift` and live in other towns."""
    dice = np.random.default_rng(seed)
    age = np.clip(dice.integers(0, 7, records) + shift, 0, 9)
    pays = np.where(age + dice.normal(0, 0.5, records) > 4.5, "yes", "no")
    towns = dice.choice(["a", "b", "c"], records, p=[0.1, 0.2, 0.7] if shift else [0.6, 0.3, 0.1])
    return Table({"age": age, "pays": pays, "town": towns})


def as_csv(held: Table, path: Path) -> None:
    lines = [",".join(held), *(",".join(map(str, row)) for row in zip(*held.values(), strict=True))]
    path.write_text("\n".join(lines) + "\n")


def vault_of(target: Table, epsilon: float = 5.0) -> Vault:
    rows = unlabelled_rows(target, CODEC)
    return Vault(rows, clip=CODEC.bound(compact=True), adjacency="replace-one", budget=(epsilon, 1e-5))


def adapter() -> DomainAdapter:
    return DomainAdapter(5.0, 1e-5, kind=CODEC, method=SHORT, device="cpu", seed=1)


def test_weights_are_ratios_of_densities() -> None:
    source = np.repeat([[1.0, 0.0], [0.0, 1.0]], [800, 200], axis=0)
    target = np.repeat([[1.0, 0.0], [0.0, 1.0]], [200, 800], axis=0)
    weights, overlap = importance_weights(source, target, 3)
    # 0.2/0.8 and 0.8/0.2; the ridge of the regression pulls both a little towards 1
    assert weights[:800].mean() == pytest.approx(0.25, rel=0.1)
    assert weights[800:].mean() == pytest.approx(4.0, rel=0.1)
    assert overlap == pytest.approx(1.0, abs=0.1)


def test_domains_that_do_not_meet_have_no_overlap() -> None:
    dice = np.random.default_rng(0)
    source, target = dice.uniform(0.0, 0.4, (500, 3)), dice.uniform(0.6, 1.0, (500, 3))
    _, overlap = importance_weights(source, target, 3)
    assert overlap < 0.2


def test_effective_share_is_that_of_kish() -> None:
    assert effective_share(np.ones(50)) == pytest.approx(1.0)
    assert effective_share(np.eye(50)[0]) == pytest.approx(1 / 50)
    assert effective_share(np.array([1.0, 1.0, 0.0, 0.0])) == pytest.approx(0.5)


def test_a_gain_counts_only_beyond_its_standard_error() -> None:
    plain, better = np.array([2.0, 2.0, 2.0, 2.0]), np.array([1.0, 1.0, 1.0, 1.0])
    assert weighted_gain(plain, better, np.ones(4)) == pytest.approx(1.0)
    mixed = np.array([0.0, 4.0, 0.0, 4.0])
    # gains 2, −2, 2, −2: mean 0, standard error √(4·4)/4 = 1
    assert weighted_gain(plain, mixed, np.ones(4)) == pytest.approx(-1.0)
    assert weighted_gain(plain, mixed, np.array([1.0, 0.0, 1.0, 0.0])) == pytest.approx(2.0)


def test_weights_are_used_only_where_they_pay() -> None:
    found = TableChecks(overlap=1.0, effective=0.4, half=0.01, full=0.02)
    assert found.power == 1.0
    assert replace(found, half=0.03).power == 0.5
    assert replace(found, half=-0.1, full=-0.2).power == 0.0
    assert replace(found, overlap=0.1).power == 0.0
    assert replace(found, effective=0.001).power == 0.0


def test_one_proven_release_of_the_columns_without_the_label() -> None:
    made = adapter()
    made.fit(vault_of(table(400, 2, 2)), table(300, 1))
    assert made.guarantee_ is not None
    assert 4.9 <= made.guarantee_.epsilon() <= 5.0
    assert str(made.guarantee_.standing) == "proven"
    assert made.charged_ == 1
    mechanism = release_of(made.design_).mechanism
    assert isinstance(mechanism, GroupedMarginals)
    assert mechanism.classes is None
    assert len(mechanism.axes) == 2


@pytest.mark.slow
def test_a_classifier_of_a_shifted_table_learns_its_rows() -> None:
    made = adapter().fit(vault_of(table(2000, 2, 2)), table(1000, 1))
    test = table(1000, 9, 2)
    labels = (test["pays"] == "yes").astype(int)
    assert made.score(test, labels) > 0.85
    # the label's column is not read, and need not be there
    bare = Table({name: test[name] for name in ("age", "town")})
    np.testing.assert_array_equal(made.predict(bare), made.predict(test))
    assert made.checks_ is not None


def test_a_folder_holds_model_and_stand_in_and_goes_on_without_paying(tmp_path: Path) -> None:
    target, source, out = table(400, 2, 2), table(300, 1), tmp_path / "out"
    vault = vault_of(target)
    made = adapter().fit(vault, source, folder=out)
    made.save(out)
    again = DomainAdapter.load(out)
    np.testing.assert_array_equal(again.predict_proba(target), made.predict_proba(target))
    assert again.checks_ == made.checks_
    drawn, labels = Synthesizer.load(out / "stand-in").sample(7)
    assert list(drawn) == ["age", "town"]
    assert labels is None
    # the budget has no room for a second charge
    twice = adapter().fit(vault, source, folder=out)
    np.testing.assert_array_equal(twice.predict_proba(target), made.predict_proba(target))
    with pytest.raises(DataError, match="not the source"):
        adapter().fit(vault, table(300, 3), folder=out)


def test_everything_in_the_folder_follows_from_the_release(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the release replaced by one and the same, two different targets leave the same bytes."""
    real, kept = GroupedMarginals.run, []

    def same(self: Any, records: Any, *given: Any, **named: Any) -> Any:
        found = real(self, records, *given, **named)
        # two made-up rows are released first, to try the schema
        if records.count != 300:
            return found
        kept.append(found)
        return kept[0]

    monkeypatch.setattr(GroupedMarginals, "run", same)
    files = []
    for number, target in enumerate((table(300, 2, 2), table(300, 4, -1))):
        made = adapter().fit(vault_of(target), table(200, 1))
        made.save(tmp_path / str(number))
        files.append({p.name: p.read_bytes() for p in (tmp_path / str(number)).iterdir()})
        assert made.stand_in_ is not None
        files[-1]["drawn"] = made.stand_in_.model.sample_rows(20, 3)[0].tobytes()  # type: ignore[union-attr]
    assert len(kept) == 2
    assert files[0] == files[1]


def test_the_label_of_the_target_is_not_read(tmp_path: Path) -> None:
    target = table(50, 2, 2)
    as_csv(target, tmp_path / "labelled.csv")
    as_csv(Table({n: target[n] for n in ("age", "town")}), tmp_path / "bare.csv")
    as_csv(Table({**target, "pays": ["what?"] * 50}), tmp_path / "odd.csv")
    rows = [unlabelled_file(tmp_path / f"{name}.csv", CODEC) for name in ("labelled", "bare", "odd")]
    np.testing.assert_array_equal(rows[0], rows[1])
    np.testing.assert_array_equal(rows[0], rows[2])
    assert rows[0].shape == (50, 2)


def test_what_a_table_cannot_have_is_refused_before_anything_is_paid() -> None:
    vault, source = vault_of(table(100, 2, 2)), table(100, 1)
    with pytest.raises(UsageError, match="takes no members for these"):
        DomainAdapter(5.0, 1e-5, kind=CODEC, method=StandIn(members=2)).fit(vault, source)
    with pytest.raises(UsageError, match="by the method stand-in"):
        DomainAdapter(5.0, 1e-5, kind=CODEC, method="embedding").fit(vault, source)
    with pytest.raises(UsageError, match="names no label"):
        DomainAdapter(5.0, 1e-5, kind=TableCodec(SCHEMA.without_label()), method="stand-in").fit(vault, source)
    with pytest.raises(UsageError, match="a Table or the path"):
        adapter().fit(vault, (np.zeros((3, 4)), np.zeros(3)))
    with pytest.raises(UsageError, match="compact"):
        adapter().fit(Vault(np.zeros((9, 4)), clip=1.0, adjacency="replace-one", budget=(5.0, 1e-5)), source)
    # nothing was charged: the whole budget is still there
    adapter().fit(vault, source)


def test_a_row_of_cells_says_what_a_compact_row_says() -> None:
    compact, _ = CODEC.encode(Table({"age": [0, 3, 9], "pays": ["no"] * 3, "town": ["b", "a", "c"]}), compact=True)
    rows = cell_rows(compact, CODEC)
    assert rows.shape == (3, cell_width(CODEC)) == (3, 13)
    # ten ages in their order: that cell and all before it; three towns without one
    np.testing.assert_array_equal(rows[:, :10].sum(axis=1), [1, 4, 10])
    np.testing.assert_array_equal(rows[:, 10:], [[0, 1, 0], [1, 0, 0], [0, 0, 1]])


def test_a_missing_number_has_a_cell_of_its_own() -> None:
    codec = TableCodec(Schema((Column("age", "integer", 0, 3, missing=True), Column("y", "boolean")), "y"))
    compact, _ = codec.encode(Table({"age": [2, None], "y": [True, False]}), compact=True)
    np.testing.assert_array_equal(cell_rows(compact, codec), [[1, 1, 1, 0, 0], [0, 0, 0, 0, 1]])


def test_a_weighted_fit_is_the_fit_of_repeated_rows() -> None:
    dice = np.random.default_rng(3)
    rows, labels = dice.random((60, 3)), dice.integers(0, 3, 60)
    times = dice.integers(1, 4, 60)
    whole = fit_logistic(np.repeat(rows, times, axis=0), np.repeat(labels, times), 3)
    weighted = fit_logistic(rows, labels, 3, times.astype(float))
    for one, two in zip(whole, weighted, strict=True):
        np.testing.assert_allclose(one, two, atol=2e-3)


def test_probabilities_are_those_of_an_independent_implementation_and_absent_classes_are_never_told() -> None:
    dice = np.random.default_rng(4)
    rows, labels = dice.random((80, 3)), 2 * dice.integers(0, 2, 80)
    told = np.exp(log_probabilities(rows, *fit_logistic(rows, labels, 4)))
    expected = LogisticRegression(C=RIDGE).fit(rows, labels).predict_proba(rows)
    np.testing.assert_allclose(told[:, [0, 2]], expected, atol=1e-6)
    assert told[:, [1, 3]].max() < 1e-9


def test_weights_help_where_one_line_cannot_fit_both_domains() -> None:
    """y follows the second column in the target and its opposite elsewhere; the source is mostly elsewhere."""

    def domain(records: int, there: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
        dice = np.random.default_rng(seed)
        first, second = (dice.random(records) < there).astype(float), dice.random(records)
        labels = (second > 0.5) == (first > 0.5)
        return np.stack([first, second], axis=1), labels.astype(np.int64)

    x, y = domain(4000, 0.2, 1)
    target, labels = domain(4000, 0.8, 2)
    made = fit_weighted(x, y, 2, 3, target)
    plain = fit_weighted(x, y, 2, 3)

    def accuracy(fitted: Any) -> float:
        return float((fitted.probabilities(target).argmax(axis=1) == labels).mean())

    assert made.checks is not None
    assert made.checks.power > 0.0
    assert accuracy(made) > accuracy(plain) + 0.3
    # and a source like the target gets none
    alike = fit_weighted(x, y, 2, 3, domain(4000, 0.2, 5)[0]).checks
    assert alike is not None
    assert alike.effective > 0.95


@pytest.mark.parametrize(
    "change",
    [
        {"table": []},
        {"table": {}},
        {"table": {"codec": {"kind": "table", "schema": {"columns": []}}, "release": {}}},
        {"table": {"codec": CODEC.to_dict(), "release": 3}},
        {"table": {"codec": CODEC.to_dict(), "release": {"sigma": "much"}}},
    ],
)
def test_a_design_whose_file_was_edited_is_bad_data(change: dict[str, Any]) -> None:
    fields = adapter().design(vault_of(table(50, 2, 2)).facts, table(40, 1)).to_dict()
    assert read_design(fields).to_dict() == fields
    with pytest.raises(DataError):
        read_design({**fields, **change})


def test_less_noise_in_the_file_than_was_paid_for_is_refused_before_anything_is_paid() -> None:
    vault, source = vault_of(table(50, 2, 2)), table(40, 1)
    design = adapter().design(vault.facts, source)
    quiet = json.loads(json.dumps(design.to_dict()))
    quiet["table"]["release"]["sigma"] = [0.5 * sigma for sigma in quiet["table"]["release"]["sigma"]]
    for sigma in (quiet["sigma"], None):
        with pytest.raises(DataError, match="costs ε"):
            adapter().rehearse(read_design({**quiet, "sigma": sigma}), source)
    adapter().rehearse(design, source)
