"""The numbers behind pictures of tables: against closed forms, SciPy and planted differences."""

from __future__ import annotations

import base64
import io
from typing import Any

import numpy as np
import pytest
from PIL import Image
from scipy.stats.contingency import association
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from privot.evaluation.classifiers import confusion
from privot.evaluation.nearest_images import nearest_images
from privot.evaluation.number_quality import number_columns
from privot.evaluation.table_figures import Coded, associations, column_shares, cramers_v, query_errors
from privot.evaluation.table_quality import FALSE_ALARMS, evaluate_table, train_and_test
from privot.report.evaluation_parts import evaluation_sections
from privot.report.html_page import Page, render
from privot.tables import Schema, Table, TableCodec

CODEC = TableCodec(
    Schema.from_dict(
        {
            "label": "ill",
            "columns": [
                {"name": "age", "type": "integer", "low": 0, "high": 99},
                {"name": "cost", "type": "continuous", "low": 0, "high": 1000, "scale": "log", "missing": True},
                {"name": "city", "type": "categorical", "categories": ["Ulm", "Bonn", "Kiel"], "missing": True},
                {"name": "grade", "type": "ordinal", "categories": ["low", "middle", "high"]},
                {"name": "ill", "type": "boolean", "categories": ["no", "yes"]},
            ],
        }
    )
)


def table(rows: int, seed: int, older: float = 0.0) -> Table:
    dice = np.random.default_rng(seed)
    age = np.clip(np.rint(dice.normal(50.0 + older, 12.0, rows)), 0, 99)
    city = dice.integers(0, 4, rows)
    return Table(
        {
            "age": age.astype(int),
            "cost": [None if dice.random() < 0.2 else float(v) for v in 1000 ** dice.random(rows)],
            "city": np.array(["Ulm", "Bonn", "Kiel", None], dtype=object)[city],
            "grade": np.array(["low", "middle", "high"], dtype=object)[np.clip(age // 34, 0, 2).astype(int)],
            "ill": np.where((age > 50) ^ (dice.random(rows) < 0.1), "yes", "no").astype(object),
        }
    )


def coded(rows: int, seed: int, older: float = 0.0) -> Coded:
    return Coded(*CODEC.encode(table(rows, seed, older), compact=True), CODEC)


def test_shares_of_every_column_add_up_to_one() -> None:
    found = {column["name"]: column for column in column_shares(coded(500, 0))}
    assert list(found) == ["ill", "age", "cost", "city", "grade"]
    for column in found.values():
        assert sum(column["shares"]) + (column["missing"] or 0.0) == pytest.approx(1.0)
    assert found["city"]["words"] == ["Ulm", "Bonn", "Kiel", "missing"]
    assert found["age"]["ends"] == ["0", "99"]
    assert found["cost"]["missing"] == pytest.approx(0.2, abs=0.06)
    assert found["age"]["missing"] is None


def test_every_bin_of_whole_numbers_holds_as_many_of_them() -> None:
    """Else a flat column looks like a comb."""
    rows = np.zeros((100, 4))
    rows[:, 0] = np.arange(100) / 99.0
    ages = next(c for c in column_shares(Coded(rows, np.zeros(100, dtype=np.int64), CODEC)) if c["name"] == "age")
    assert len(ages["shares"]) == 25
    np.testing.assert_allclose(ages["shares"], 0.04)


def test_cramers_v_agrees_with_scipy_where_its_bias_is_small() -> None:
    dice = np.random.default_rng(0)
    a = dice.integers(0, 4, 200_000)
    b = np.where(dice.random(len(a)) < 0.3, a % 3, dice.integers(0, 3, len(a)))
    counts = np.bincount(a * 3 + b, minlength=12).reshape(4, 3)
    assert cramers_v(a, 4, b, 3) == pytest.approx(association(counts, method="cramer"), abs=1e-3)


def test_cramers_v_is_one_for_copies_and_unbiased_for_independent_columns() -> None:
    dice = np.random.default_rng(1)
    a = dice.integers(0, 5, 3000)
    assert cramers_v(a, 5, a, 5) == pytest.approx(1.0, abs=1e-9)
    found = [cramers_v(dice.integers(0, 8, 300), 8, dice.integers(0, 8, 300), 8) for _ in range(50)]
    counts = np.bincount(dice.integers(0, 8, 300) * 8 + dice.integers(0, 8, 300), minlength=64).reshape(8, 8)
    # without the correction 300 records in 64 cells look associated
    assert association(counts, method="cramer") > 0.1
    assert np.mean(found) < 0.05
    assert cramers_v(np.zeros(10, dtype=np.int64), 3, a[:10], 5) == 0.0


def test_ordered_columns_have_pearsons_correlation_of_what_is_known() -> None:
    data = coded(2000, 2)
    names, matrix = associations(data)
    place = {name: k for k, name in enumerate(names)}
    age, grade, cost = (data.rows[:, k] for k in (0, 3, 1))
    assert matrix[place["age"]][place["grade"]] == pytest.approx(np.corrcoef(age, grade)[0, 1], abs=1e-4)
    known = cost >= 0.0
    expected = np.corrcoef(age[known], cost[known])[0, 1]
    assert matrix[place["age"]][place["cost"]] == pytest.approx(expected, abs=1e-4)
    np.testing.assert_allclose(matrix, np.transpose(matrix))
    assert matrix[place["age"]][place["city"]] < 0.1


def test_queries_find_a_planted_difference_and_name_it() -> None:
    same = query_errors(coded(4000, 3), coded(4000, 4))
    moved = query_errors(coded(4000, 3, older=20.0), coded(4000, 4))
    assert [q["what"] for q in same] == ["a share, by one condition", "a share, by two conditions"]
    for before, after in zip(same, moved, strict=True):
        assert before["worst"] < 0.05
        assert after["worst"] > 0.15
        assert after["typical"] <= after["high"] <= after["worst"]
    assert "age" in moved[0]["where"] or "grade" in moved[0]["where"] or "ill" in moved[0]["where"]


def test_the_area_under_the_kept_curve_is_the_kept_area() -> None:
    for model in ("boosting", "logistic"):
        score = train_and_test(table(600, 5), table(600, 6), CODEC, model)  # type: ignore[arg-type]
        assert score.roc is not None
        assert score.roc[-1] == 1.0
        assert list(score.roc) == sorted(score.roc)
        assert float(np.trapezoid(score.roc, FALSE_ALARMS)) == pytest.approx(score.auc, abs=0.01)


@pytest.mark.slow
def test_an_evaluation_names_the_worst_pairs_and_holds_both_sides() -> None:
    found = evaluate_table(table(400, 7, older=15.0), table(400, 8), CODEC).to_dict()
    assert "age" in found["pairs"][0][:2]
    assert found["pairs"][0][2] >= found["pairs"][-1][2]
    assert len(found["columns"]) == 5
    assert len(found["columns"][1]["shares"]) == len(found["columns"][1]["real"])
    assert np.shape(found["correlations"]["real"]) == np.shape(found["correlations"]["synthetic"]) == (5, 5)


def test_confusion_counts_rows_by_what_they_are() -> None:
    assert confusion(np.array([0, 0, 2]), np.array([0, 2, 2])) == [[1, 0, 1], [0, 0, 0], [0, 0, 1]]


def test_a_copied_image_is_found_and_shown_first() -> None:
    dice = np.random.default_rng(9)
    real, made, others = dice.random((3, 40, 16))
    made[7] = real[3]
    found = nearest_images(16.0 * made, 16.0 * real, 16.0 * others, (4, 4), (0.0, 16.0))
    assert found["marked"] == "private, do not publish"
    assert found["synthetic"][0] < 0.5 * found["held_out"][0]
    apart = np.sqrt(((others[:, None] - real[None]) ** 2).sum(2)).min(1) / 4.0
    np.testing.assert_allclose(found["held_out"], np.percentile(apart, (1, 5, 50)))
    picture = np.asarray(Image.open(io.BytesIO(base64.b64decode(found["picture"]))))
    tall, wide = len(picture) // 2, picture.shape[1] // 10
    # synthetic above, the nearest real one below: the copy comes first, and no other pair is equal
    equal = [
        bool((picture[:tall, k : k + wide] == picture[tall:, k : k + wide]).all()) for k in range(0, 10 * wide, wide)
    ]
    assert equal == [True] + 9 * [False]
    alone = nearest_images(made, real, None, (4, 4), (0.0, 1.0))
    between = np.sqrt(((real[:, None] - real[None]) ** 2).sum(2)) + 9.0 * np.eye(40)
    np.testing.assert_allclose(alone["held_out"], np.percentile(between.min(1) / 4.0, (1, 5, 50)))


def test_of_many_categories_the_page_shows_the_commonest_and_measures_all() -> None:
    """The schema's order says nothing: what most rows have comes last in it."""
    words = [f"w{k:03d}" for k in range(167)]
    codec = TableCodec(Schema.from_dict({"columns": [{"name": "country", "type": "categorical", "categories": words}]}))
    made, real = (np.repeat(words, counts).astype(object) for counts in ([1] * 166 + [400], [1] * 120 + [0] * 46 + [9]))
    fields = evaluate_table(Table({"country": made}), Table({"country": real}), codec).to_dict()
    html = render(Page("t", "s", "l", [], evaluation_sections(fields))).decode()
    far = 0.5 * sum(abs((made == word).mean() - (real == word).mean()) for word in words)
    assert f"differs by {100 * far:.1f} %" in html
    assert f"Most frequent: w166, {100 * 400 / 566:.1f} %." in html
    assert "others (153)</text><rect" in html.replace("\n", "")
    assert fields["queries"][0]["worst"] == pytest.approx(400 / 566 - 9 / 129)
    assert fields["queries"][0]["where"] == "country = w166"


def test_missing_numbers_are_part_of_what_a_column_differs_by() -> None:
    column = {"name": "cost", "type": "integer", "low": 0, "high": 9, "missing": True}
    codec = TableCodec(Schema.from_dict({"columns": [column]}))
    made, real = (Table({"cost": np.array([5] * n + [None] * (10 - n), dtype=object)}) for n in (10, 5))
    (found,) = column_shares(*(Coded(*codec.encode(t, compact=True), codec) for t in (made, real)))
    assert found["distance"] == 0.5


def test_a_condition_on_whole_numbers_counts_the_rows_that_its_words_say() -> None:
    codec = TableCodec(Schema.from_dict({"columns": [{"name": "n", "type": "integer", "low": 0, "high": 97}]}))
    made, real = (Coded(*codec.encode(Table({"n": np.full(10, v)}), compact=True), codec) for v in (24, 23))
    assert query_errors(made, real)[0] | {"typical": 0, "high": 0} == {
        "what": "a share, by one condition", "count": 3, "typical": 0, "high": 0, "worst": 1.0, "where": "n ≥ 24"
    }  # fmt: skip


def test_the_logistic_score_is_that_of_scikit_learn_on_the_same_rows() -> None:
    """Columns by their declared range would have deviations of 10⁻⁴ here, which a penalty on weights hides."""
    dice = np.random.default_rng(0)

    def drawn(rows: int) -> tuple[Table, Any, Any]:
        amount, rate = dice.lognormal(9.0, 1.0, rows).round(2), dice.lognormal(0.0, 0.5, rows)
        city = dice.integers(0, 30, rows)
        z = (amount - 12_000.0) / 8_000.0 + 2.0 * (rate - 1.1) + np.where(city < 5, 2.0, -0.4)
        ill = dice.random(rows) < 1.0 / (1.0 + np.exp(-2.0 * z))
        gone = dice.random(rows) < 0.1
        fields = {
            "amount": amount,
            "rate": np.where(gone, np.nan, rate),
            "city": np.array([f"c{k}" for k in city], dtype=object),
            "ill": np.where(ill, "yes", "no").astype(object),
        }
        numbers = np.column_stack([amount, np.where(gone, np.nan, rate)])
        return Table(fields), np.column_stack([numbers, city]), ill

    columns = [
        {"name": "amount", "type": "continuous", "low": 0, "high": 1e8},
        {"name": "rate", "type": "continuous", "low": 0, "high": 1e6, "scale": "log", "missing": True},
        {"name": "city", "type": "categorical", "categories": [f"c{k}" for k in range(30)]},
        {"name": "ill", "type": "boolean", "categories": ["no", "yes"]},
    ]
    codec = TableCodec(Schema.from_dict({"label": "ill", "columns": columns}))
    (train, x, y), (test, x_test, y_test) = drawn(2000), drawn(2000)
    filled = make_pipeline(StandardScaler(), SimpleImputer(strategy="constant", fill_value=0.0, add_indicator=True))
    encoded = ColumnTransformer([("numbers", filled, [0, 1]), ("words", OneHotEncoder(handle_unknown="ignore"), [2])])
    theirs = make_pipeline(encoded, LogisticRegression(max_iter=1000)).fit(x, y)
    expected = roc_auc_score(y_test, theirs.predict_proba(x_test)[:, 1])
    found = train_and_test(train, test, codec, "logistic")
    assert found.auc == pytest.approx(expected, abs=1e-4)
    assert found.accuracy == pytest.approx(theirs.score(x_test, y_test), abs=1e-3)
    assert expected > 0.85


def test_means_of_skewed_columns_are_judged_by_their_own_spread() -> None:
    """0.24 → 0.86 is 1 % of a declared range of 0 to 60, and more than half of a standard deviation."""
    codec = TableCodec(Schema.from_dict({"columns": [{"name": "visits", "type": "integer", "low": 0, "high": 60}]}))
    dice = np.random.default_rng(1)
    real = Table({"visits": dice.poisson(0.24, 4000)})
    made = Table({"visits": np.where(dice.random(4000) < 0.02, 40, dice.poisson(0.06, 4000))})
    found = evaluate_table(made, real, codec).to_dict()
    means = [np.mean(table["visits"]) for table in (made, real)]
    query = next(q for q in found["queries"] if q["what"] == "a mean")
    assert query["worst"] == pytest.approx(abs(means[0] - means[1]) / np.std(real["visits"]))
    assert query["worst"] > 1.0
    assert query["where"] == f"visits: {means[0]:.6g} for {means[1]:.6g}"
    assert "mean" in found["verdict"]["sentence"]
    assert found["verdict"]["worst"][0]["size"] > 0.9


def test_constant_columns_have_a_mean_error_too() -> None:
    codec = TableCodec(Schema.from_dict({"columns": [{"name": "n", "type": "integer", "low": 0, "high": 9}]}))
    same, other = (Table({"n": np.full(10, v)}) for v in (3, 7))
    assert number_columns(same, same, codec)[0]["mean_error"] == 0.0
    assert number_columns(other, same, codec)[0]["mean_error"] == 2.0, "half of the difference is the deviation of all"
