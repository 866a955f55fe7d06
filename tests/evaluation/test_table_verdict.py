"""Evaluation in bins of the real rows: what it finds in tables that are broken in one known way, and in none."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.stats import spearmanr

from privot.evaluation.associations import association, association_gaps, is_lost
from privot.evaluation.real_bins import RealBins, count_distances, variation
from privot.evaluation.table_figures import Coded
from privot.evaluation.table_quality import evaluate_table
from privot.tables import Column, Schema, Table, TableCodec

SCHEMA = Schema(
    (
        Column("dollars", "integer", 0, 50_000, scale="log"),
        Column("visits", "integer", 0, 60),
        Column("sex", "categorical", categories=("F", "M")),
        Column("city", "categorical", categories=("Ulm", "Bonn", "Hof")),
        Column("ill", "boolean"),
    ),
    label="ill",
)
CODEC = TableCodec(SCHEMA)
LINEAR = TableCodec(Schema((Column("dollars", "integer", 0, 50_000), *SCHEMA.columns[1:]), label="ill"))
ROWS = 3000
pytestmark = pytest.mark.slow


def people(seed: int, rows: int = ROWS) -> dict[str, Any]:
    """Dollars follow visits, illness follows visits, for women more so; the city follows the sex."""
    rng = np.random.default_rng(seed)
    visits = np.minimum(rng.gamma(1.5, 3.0, rows).astype(int), 60)
    dollars = np.minimum((visits * rng.lognormal(2.5, 0.7, rows)).astype(int), 50_000)
    sex = np.where(rng.random(rows) < 0.5, "F", "M")
    towns = ["Ulm", "Bonn", "Hof"]
    city = np.where(sex == "F", rng.choice(towns, rows, p=[0.7, 0.2, 0.1]), rng.choice(towns, rows))
    ill = visits + np.where(sex == "F", 1, 4) * rng.normal(size=rows) > 5
    return {"dollars": dollars, "visits": visits, "sex": sex, "city": city, "ill": ill}


def coded(columns: dict[str, Any]) -> Coded:
    return Coded(*CODEC.encode(Table(columns), compact=True), CODEC)


REAL = people(0)


def test_two_samples_of_one_table_are_apart_by_chance() -> None:
    found = count_distances(coded(people(1)), RealBins(coded(REAL)))
    for name in ("columns", "pairs", "triples"):
        # the expectation for normal errors; small cells make it a little smaller
        assert found[name]["mean"] == pytest.approx(found[name]["chance"], rel=0.35)
    assert found["queries"]["mean"] < 0.01


def test_variation_is_the_one_of_shares() -> None:
    a, b = np.array([[0], [0], [1], [1]]), np.array([[0], [2], [2], [2]])
    assert variation(a, b)[0] == pytest.approx(0.5 * (0.25 + 0.5 + 0.75))


def test_bins_of_real_rows_see_what_the_schemas_cells_hide() -> None:
    """Dollars drawn evenly within cells of 781: perfect over cells, broken in bins of the real rows."""
    rng = np.random.default_rng(2)
    other = people(1)
    cell = other["dollars"] // 782
    smeared = {**other, "dollars": np.minimum(cell * 782 + rng.integers(0, 782, ROWS), 50_000)}
    report = evaluate_table(Table(smeared), Table(REAL), LINEAR)
    assert report.marginals["dollars"] < 0.03
    worst = report.counts["columns"]["worst"][0]
    assert worst[0] == ["dollars"]
    assert worst[1] > 0.4
    assert "'dollars'" in report.verdict["worst"][0]["sentence"]
    assert report.verdict["sentence"].startswith("unusable in part")


def test_a_lost_dependence_is_named() -> None:
    other = people(1)
    rng = np.random.default_rng(3)
    shuffled = {**other, "dollars": rng.permutation(other["dollars"])}
    report = evaluate_table(Table(shuffled), Table(REAL), CODEC)
    assert any("'dollars' and 'visits'" in sentence and "ρ" in sentence for sentence in report.associations["lost"])
    # the model of dollars fails for the same reason
    assert "'dollars' and 'visits'" in report.verdict["sentence"]
    assert report.verdict["worst"][0]["sentence"].startswith("Models of 'dollars'")
    targets = {t["target"]: t for t in report.targets}
    assert targets["dollars"]["measure"] == "R²"
    assert targets["dollars"]["real"] - targets["dollars"]["synthetic"] > 0.2
    assert targets["ill"]["real"] - targets["ill"]["synthetic"] < 0.05


def test_a_group_that_is_served_badly_is_found() -> None:
    """The label of women is drawn by chance: models trained on such rows fail them, and men much less."""
    other = people(1)
    rng = np.random.default_rng(4)
    women = other["sex"] == "F"
    spoiled = {**other, "ill": np.where(women, rng.random(ROWS) < 0.5, other["ill"])}
    report = evaluate_table(Table(spoiled), Table(REAL), CODEC)
    by_sex = {g["value"]: g["accuracy"] for g in report.groups if g["column"] == "sex"}
    assert report.groups[0]["clear"]
    assert by_sex["F"]["real"] - by_sex["F"]["synthetic"] > 0.15
    assert by_sex["M"]["real"] - by_sex["M"]["synthetic"] < 0.1
    assert "Records with" in report.verdict["sentence"]


def test_a_good_table_has_no_fault_and_a_copy_is_too_near() -> None:
    good = evaluate_table(Table(people(1)), Table(people(5)), CODEC, private=Table(REAL)).verdict
    assert good["worst"] == []
    held = people(5)
    rng = np.random.default_rng(6)
    unlike = {**held, "visits": rng.permutation(held["visits"])}
    copied = evaluate_table(Table(REAL), Table(unlike), CODEC, private=Table(REAL))
    assert copied.nearest.synthetic[1] == 0.0


def test_associations_of_mixed_kinds() -> None:
    real = coded(REAL)
    columns = {column.name: (column, values) for column, values in real.columns()}
    kind, rho = association(columns["dollars"], columns["visits"])
    assert kind == "ρ"
    assert rho == pytest.approx(spearmanr(REAL["dollars"], REAL["visits"]).statistic, abs=1e-9)
    kind, ratio = association(columns["sex"], columns["visits"])
    assert kind == "η"
    assert ratio < 0.05
    x = np.linspace(0, 1, 900)
    third = (SCHEMA["city"], np.repeat([0.0, 1.0, 2.0], 300))
    # ranks of three thirds: 8/9 of the variance is between them
    assert association((SCHEMA["visits"], x), third)[1] == pytest.approx((8 / 9) ** 0.5, abs=1e-3)
    kind, v = association(columns["sex"], columns["city"])
    assert kind == "V"
    assert 0.3 < v < 0.5
    assert association_gaps(real, real)["mean_gap"] == 0.0
    assert is_lost(0.07, 0.58)
    assert is_lost(-0.4, 0.4)
    assert not is_lost(0.4, 0.58)
    assert not is_lost(0.0, 0.2)


def test_a_table_of_one_column_and_no_label_is_compared() -> None:
    codec = TableCodec(Schema((Column("a", "continuous", 0.0, 1.0, missing=True),)))
    rng = np.random.default_rng(0)
    one, two = (Table({"a": np.where(rng.random(300) < 0.1, np.nan, rng.random(300))}) for _ in range(2))
    report = evaluate_table(one, two, codec)
    assert report.targets == ()
    assert "pairs" not in report.counts
    assert report.verdict["worst"] == []
