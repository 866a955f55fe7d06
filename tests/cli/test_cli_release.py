"""`privot release`: one simple number from the command line, paid for by the ledger of the data."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from privot import Release
from privot.cli import run
from privot.ledger import Ledger

COST = ["--epsilon", "2", "--delta", "1e-6"]
ADD = ["--adjacency", "add-remove"]
SCHEMA = {
    "label": "ill",
    "columns": [
        {"name": "age", "type": "integer", "low": 0, "high": 99},
        {"name": "city", "type": "categorical", "categories": ["Ulm", "Bonn"], "missing": True},
        {"name": "seen", "type": "date", "low": "2020-01-01", "high": "2024-12-31"},
        {"name": "ill", "type": "boolean", "categories": ["no", "yes"]},
    ],
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    g = np.random.default_rng(0)
    lines = [
        f"{a},{['Ulm', 'Bonn', ''][c]},2022-{1 + c:02d}-01,{['no', 'yes'][int(a > 50)]}"
        for a, c in zip(g.integers(0, 100, 2000), g.integers(0, 3, 2000), strict=True)
    ]
    Path("patients.csv").write_text("age,city,seen,ill\n" + "\n".join(lines) + "\n")
    Path("schema.json").write_text(json.dumps(SCHEMA))
    sizes = "\n".join(f"{20 + k % 10},{150 + k % 40}" for k in range(1000))
    Path("plain.csv").write_text(f"bmi,height\n{sizes}\n")
    return tmp_path


def said(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> dict:
    assert run([*arguments, "--json"]) == code
    return json.loads(capsys.readouterr().out)


def test_each_number_of_a_table_is_released_and_charged_to_one_ledger(capsys, folder) -> None:
    start = ["ledger", "init", "patients.csv.ledger", "--data", "patients.csv", "--schema", "schema.json"]
    assert run([*start, "--epsilon", "4.6", "--delta", "1e-6", *ADD]) == 0
    capsys.readouterr()
    table = ["patients.csv", "--schema", "schema.json", *COST, *ADD]
    mean = said(capsys, "release", "mean", *table, "--column", "age")
    assert 40 < mean["estimate"] < 60
    assert mean["low"] <= mean["estimate"] <= mean["high"]
    assert 1900 < mean["count"] < 2100
    assert 1.99 < mean["guarantee"]["epsilon"] <= 2.0
    assert mean["guarantee"]["adjacency"] == "add-remove"
    assert mean["ledger"].endswith("patients.csv.ledger")
    count = said(capsys, "release", "count", *table, "--column", "ill", "--category", "yes")
    assert 800 < count["estimate"] < 1200
    assert count["spent_epsilon"] > mean["spent_epsilon"]
    assert count["budget_epsilon"] == 4.6
    cities = said(capsys, "release", "histogram", *table, "--column", "city")
    assert cities["public"]["categories"] == ["Ulm", "Bonn", "(missing)"]
    assert len(cities["estimate"]) == 3
    with Ledger.open("patients.csv.ledger") as book:
        purposes = [entry.purpose.split(" (release ")[0] for entry in book.entries()]
    assert purposes == ["release mean of age", "release count by ill", "release histogram of city"]
    # δ is the budget's where it is left out
    quarters = ["release", "quantile", "patients.csv", "--schema", "schema.json", "--epsilon", "2", *ADD]
    found = said(capsys, *quarters, "--column", "age", "--at", "0.25,0.75")
    assert found["guarantee"]["delta"] == 1e-6
    assert found["estimate"][0] < found["estimate"][1]
    assert run([*quarters, "--column", "age"]) == 4


def test_answers_are_printed_in_the_unit_of_the_column(capsys, folder) -> None:
    table = ["patients.csv", "--schema", "schema.json", *COST, *ADD, "--budget", "9"]
    assert run(["release", "quantile", *table, "--column", "seen", "--at", "0.5"]) == 0
    out = capsys.readouterr().out
    assert "2022-0" in out
    assert "95 %" in out
    assert "add-remove, proven" in out
    assert run(["release", "histogram", *table[:-2], "--column", "age", "--bins", "0,18,65,99"]) == 0
    out = capsys.readouterr().out
    assert "[0, 18)" in out
    assert "[65, 99]" in out
    assert run(["release", "mean", *table[:-2], "--column", "age"]) == 0
    assert "of 9 at its δ" in capsys.readouterr().out


def test_a_file_of_numbers_names_its_columns_and_the_range_is_stated(capsys, folder) -> None:
    rows = ["plain.csv", *COST, "--adjacency", "replace-one", "--budget", "9"]
    answer = said(capsys, "release", "mean", *rows, "--column", "height", "--range", "140,200", "--out", "height.npz")
    assert 160 < answer["estimate"] < 180
    assert "count" not in answer
    kept = Release.load("height.npz")
    assert float(kept.value["estimate"]) == answer["estimate"]
    assert said(capsys, "release", "mean", *rows, "--column", "1", "--range", "140,200")["public"]["column"] == "height"
    assert run(["release", "mean", *rows, "--column", "height", "--range", "140,200", "--out", "height.npz"]) == 2


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["mean", "plain.csv", *COST, *ADD, "--column", "height"], "range"),
        (["mean", "plain.csv", *COST, *ADD, "--column", "weight", "--range", "0,1"], "no column"),
        (["count", "plain.csv", *COST, "--adjacency", "replace-one"], "public under replace-one"),
        (["count", "plain.csv", "--epsilon", "1", *ADD], "--delta"),
        (["mean", "plain.csv", *COST, *ADD, "--column", "height", "--range", "0"], "LOW,HIGH"),
        (["quantile", "plain.csv", *COST, *ADD, "--column", "bmi", "--range", "0,1", "--at", "2"], "between 0 and 1"),
        (["histogram", "plain.csv", *COST, *ADD, "--column", "height", "--bins", "a,b"], "numbers with commas"),
        (["mean", "plain.csv", *COST, *ADD, "--column", "bmi", "--range", "0,9", "--out", "no/x.npz"], "no folder"),
    ],
)
def test_what_cannot_be_released_is_one_sentence_and_leaves_no_ledger(capsys, folder, words, sentence) -> None:
    assert run(["release", *words]) == 2
    error = capsys.readouterr().err
    assert sentence in error
    assert error.count("\n") == 1
    assert not (folder / "plain.csv.ledger").exists()


def test_built_in_data_is_paid_for_by_nobody(capsys, folder) -> None:
    answer = said(capsys, "release", "count", "digits", *COST, *ADD)
    assert answer["ledger"] is None
    assert 1700 < answer["estimate"] < 1900
    labels = said(capsys, "release", "histogram", "digits", *COST, *ADD, "--classes", "10", "--column", "label")
    assert len(labels["estimate"]) == 10


def test_another_budget_than_the_ledger_has_is_refused(capsys, folder) -> None:
    words = ["release", "mean", "plain.csv", "--column", "bmi", "--range", "10,50", "--epsilon", "0.5", *COST[2:], *ADD]
    first = said(capsys, *words, "--budget", "2")
    assert first["budget_epsilon"] == 2.0
    assert first["warnings"] == []
    assert run([*words, "--budget", "5"]) == 2
    assert "a budget of ε = 2 at δ = 1e-06, add-remove, and --budget says 5" in capsys.readouterr().err
    with Ledger.open("plain.csv.ledger") as book:
        assert len(book.entries()) == 1
    # the same one again, or none, changes nothing
    assert said(capsys, *words, "--budget", "2")["budget_epsilon"] == 2.0
    assert said(capsys, *words)["budget_epsilon"] == 2.0


@pytest.mark.parametrize("command", ["release", "sketch"])
def test_a_named_ledger_must_have_a_budget_for_the_records(capsys, folder, command) -> None:
    words = {
        "release": ["release", "mean", "plain.csv", "--column", "bmi", "--range", "10,50", *COST, *ADD],
        "sketch": ["sketch", "plain.csv", *COST, *ADD, "--range", "0,200", "--out", "plain.sketch"],
    }[command]
    # a mistyped name is no second budget for the same people
    assert run([*words, "--ledger", "mistyped.ledger"]) == 3
    assert "There is no ledger at" in capsys.readouterr().err
    assert not Path("mistyped.ledger").exists()
    Ledger.create("empty.ledger").close()
    assert run([*words, "--ledger", "empty.ledger"]) in (2, 4)
    assert "no budget" in capsys.readouterr().err
    with Ledger.open("empty.ledger") as book:
        assert book.datasets() == []
    # the ledger beside the data may be named, and may be new
    assert run([*words, "--ledger", "./plain.csv.ledger"]) == 0
    capsys.readouterr()
    with Ledger.open("plain.csv.ledger") as book:
        assert len(book.entries()) == 1


def test_other_records_on_an_old_ledger_are_refused_as_they_would_be_with_a_delta(capsys, folder) -> None:
    words = ["release", "mean", "--column", "bmi", "--range", "10,50", *COST[:2], *ADD]
    said(capsys, *words, "plain.csv", *COST[2:], "--budget", "9")
    # next month's file: the same columns, other rows
    rows = Path("plain.csv").read_text().splitlines()
    Path("later.csv").write_text("\n".join(rows[:-1]) + "\n")
    told = []
    for more in ((), COST[2:]):
        assert run([*words, "later.csv", "--ledger", "plain.csv.ledger", *more]) == 4
        told.append(capsys.readouterr().err)
    assert told[0] == told[1]
    assert "--new-records" in told[0]
    # stated to be new, they have no budget whose δ would be taken
    assert run([*words, "later.csv", "--ledger", "plain.csv.ledger", "--new-records"]) == 2
    assert "no budget yet, whose δ would be taken: give --delta" in capsys.readouterr().err
    with Ledger.open("plain.csv.ledger") as book:
        assert len(book.entries()) == 1
    said(capsys, *words, "plain.csv")


def test_new_records_in_a_named_ledger_get_a_budget(capsys, folder) -> None:
    Ledger.create("shared.ledger").close()
    words = ["release", "mean", "plain.csv", "--column", "bmi", "--range", "10,50", *COST, *ADD]
    assert run([*words, "--ledger", "shared.ledger", "--new-records"]) == 0
