"""`privot adapt`: answers and exit codes; a refusal is one sentence and costs nothing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from privot.adaptation import DomainAdapter
from privot.adaptation.learner import Learner
from privot.adaptation.paid_training import PaidTraining
from privot.cli import run
from privot.guarantee import Guarantee

pytestmark = pytest.mark.slow

TERMS = "--epsilon 5 --delta 1e-5".split()
PLAIN = "--seed 1 --device cpu --range 0,1 --set finish=10".split()
QUICK = [*PLAIN, "--set", "fit=3"]


@pytest.fixture
def files(tmp_path: Path) -> tuple[str, str]:
    dice = np.random.default_rng(0)
    y = np.arange(120) % 2
    for name, shift in (("source", 0.0), ("target", 0.1)):
        x = np.clip(0.25 + 0.4 * y[:, None] + shift + 0.05 * dice.standard_normal((120, 2)), 0, 1)
        np.savez(tmp_path / f"{name}.npz", x_train=x[:80], y_train=y[:80], x_test=x[80:], y_test=y[80:])
    return str(tmp_path / "source.npz"), str(tmp_path / "target.npz")


def charges(capsys: Any, ledger: Path) -> int:
    assert run(["ledger", "show", str(ledger), "--json"]) == 0
    return sum(len(d["entries"]) for d in json.loads(capsys.readouterr().out)["datasets"])


@pytest.mark.parametrize("wrong", [["--shape", "3,3"], ["--set", "network=digits"], ["--set", "nothing=1"]])
def test_a_run_that_cannot_be_designed_sets_no_budget(files: tuple[str, str], tmp_path: Path, wrong: list[str]) -> None:
    assert run(["adapt", *files, *TERMS, *QUICK, *wrong, "--out", str(tmp_path / "out")]) in (2, 3)
    assert not (tmp_path / "target.npz.ledger").exists()


def test_adapt_writes_a_model_its_guarantee_and_a_report_and_resuming_costs_nothing(
    capsys: Any, files: tuple[str, str], tmp_path: Path
) -> None:
    out = tmp_path / "out"
    words = ["adapt", *files, *TERMS, *QUICK, "--out", str(out), "--test", files[1], "--json"]
    assert run(words) == 0
    answer = json.loads(capsys.readouterr().out)
    assert 4.9 < answer["guarantee"]["epsilon"] <= 5.0
    assert (answer["guarantee"]["standing"], answer["guarantee"]["adjacency"]) == ("proven", "replace-one")
    assert 0.0 <= answer["accuracy"] <= 1.0
    left = {p.name for p in out.iterdir()}
    assert {"model.safetensors", "config.json", "guarantee.json", "report.html", "evaluation.json"} <= left
    stated = Guarantee.from_json((out / "guarantee.json").read_text())
    assert stated.epsilon() == pytest.approx(answer["guarantee"]["epsilon"])
    page = (out / "report.html").read_text()
    assert "replace-one, proven" in page
    assert "privot adapt SOURCE TARGET --epsilon 5 --delta 1e-05" in page
    # how it does on real records is on a page of its own, with the source alone beside it and what was taken for what
    private = (out / "report-private.html").read_text()
    measured = json.loads((out / "evaluation.json").read_text())
    assert sum(map(sum, measured["confusion"]["matrix"])) == measured["records"] == 40
    for share in (measured["accuracy"], measured["baseline"]):
        assert f"{100 * share:.1f} %" in private
    assert f"{100 * answer['accuracy']:.1f} % of 40 held-out" in private
    assert "% of 40" not in page
    assert "Do not publish" in private
    (out / "evaluation.json").unlink()
    assert run(["report", str(out)]) == 0
    assert not (out / "report-private.html").exists()
    assert (out / "report.html").read_text() != page  # it no longer links to that page
    capsys.readouterr()
    with np.load(files[1]) as held:
        assert DomainAdapter.load(out).score(held["x_test"], held["y_test"]) == answer["accuracy"]
    ledger = tmp_path / "target.npz.ledger"
    assert charges(capsys, ledger) == 1
    assert run([*words, "--resume"]) == 0
    assert json.loads(capsys.readouterr().out)["guarantee"]["epsilon"] == pytest.approx(stated.epsilon())
    assert charges(capsys, ledger) == 1
    # another folder is no second budget
    assert run(["adapt", *files, *TERMS, *QUICK, "--out", str(tmp_path / "two")]) == 4
    capsys.readouterr()
    # and a job goes on with what it was started with
    other = [w if w != "5" else "4" for w in words]
    assert run([*other, "--resume"]) == 2


class Killed(BaseException):
    """Stands for a power cut."""


@pytest.mark.parametrize("where", ["_block", "guarantee"])
def test_a_killed_job_is_resumed_with_its_own_source_only(
    capsys: Any, files: tuple[str, str], tmp_path: Path, where: str
) -> None:
    """Killed before it paid, and in the end."""

    def kill(*_: object) -> None:
        raise Killed

    words = [*TERMS, *QUICK, "--out", str(tmp_path / "out")]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(PaidTraining, where, kill)
        with pytest.raises(Killed):
            run(["adapt", *files, *words])
    with np.load(files[0]) as held:
        np.savez(tmp_path / "other.npz", x=held["x_train"], y=1 - held["y_train"])
    ledger, before = tmp_path / "target.npz.ledger", {p: p.read_bytes() for p in (tmp_path / "out").iterdir()}
    capsys.readouterr()
    paid = charges(capsys, ledger)
    assert paid == (where == "guarantee")
    assert run(["adapt", str(tmp_path / "other.npz"), files[1], *words, "--resume"]) == 3
    said = capsys.readouterr().err
    assert said.count("\n") == 1, said
    assert "not the source" in said
    assert charges(capsys, ledger) == paid
    assert {p: p.read_bytes() for p in (tmp_path / "out").iterdir()} == before
    assert run(["adapt", *files, *words, "--resume"]) == 0
    capsys.readouterr()
    assert charges(capsys, ledger) == 1


def test_the_answer_lists_blocks_that_were_lost(capsys: Any, files: tuple[str, str], tmp_path: Path) -> None:
    words = [*TERMS, *PLAIN, *"--method projection --set blocks=3 --set warmup=2 --set steps=2".split()]
    words += ["--out", str(tmp_path / "out")]
    run_block = Learner.run_block

    def kill(learner: Learner, *rest: Any) -> None:
        if learner.done == 1:
            raise Killed
        run_block(learner, *rest)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Learner, "run_block", kill)
        with pytest.raises(Killed):
            run(["adapt", *files, *words])

    capsys.readouterr()
    assert run(["adapt", *files, *words, "--resume"]) == 0
    told = capsys.readouterr().out
    assert "1 of 3 blocks, paid for and cut short" in told
    assert run(["adapt", *files, *words, "--resume", "--json"]) == 0
    made = json.loads(capsys.readouterr().out)
    assert (made["charged"], made["lost"]) == (3, 1)
    whole = [*words[:-1], str(tmp_path / "whole"), "--ledger", str(tmp_path / "other.ledger")]
    assert run(["adapt", *files, *whole]) == 0
    told = capsys.readouterr().out
    assert "cut short" not in told


@pytest.mark.parametrize(
    ("change", "code", "says"),
    [
        (["--adjacency", "add-remove"], 2, "replace-one"),
        (["--method", "nonsense"], 2, "Unknown method"),
        (["--method", "source"], 2, "does not look at TARGET"),
        (["--method", "projection"], 2, "no setting 'fit'"),
        (["--set", "nonsense=1"], 2, "no setting"),
        (["--set", "batch=many"], 2, "batch"),
        (["--set", "network=nowhere"], 2, "Unknown network"),
        (["--set", "network=nowhere:at_all"], 2, "import path"),
        (["--shape", "3,3"], 2, "shape"),
        (["--shape", "a"], 2, "HEIGHT,WIDTH"),
        (["--epsilon", "-1"], 2, "ε"),
        (["--seed", "-1"], 2, "2^128"),
        (["--seed", str(2**128)], 2, "2^128"),
        (["--seed", "1.5"], 2, "integer"),
        (["--method", "projection", "--set", "sample=1000"], 2, "1000"),
    ],
)
def test_wrong_options_are_refused_in_one_sentence_and_cost_nothing(
    capsys: Any, files: tuple[str, str], tmp_path: Path, change: list[str], code: int, says: str
) -> None:
    words = QUICK if "source" not in change and "sample=1000" not in change else PLAIN
    assert run(["adapt", *files, *TERMS, *words, "--out", str(tmp_path / "out"), *change]) == code
    said = capsys.readouterr().err
    assert said.count("\n") == 1, said
    assert says in said
    ledger = tmp_path / "target.npz.ledger"
    assert not ledger.exists() or charges(capsys, ledger) == 0
    assert not (tmp_path / "out").exists()


def test_a_source_and_a_target_with_different_columns_or_without_labels_are_bad_data(
    capsys: Any, files: tuple[str, str], tmp_path: Path
) -> None:
    np.savez(tmp_path / "plain.npz", x=np.zeros((9, 2)))
    np.savez(tmp_path / "wide.npz", x=np.zeros((9, 3)))
    out = ["--out", str(tmp_path / "out")]
    assert run(["adapt", str(tmp_path / "plain.npz"), files[1], *TERMS, *QUICK, *out]) == 3
    assert "labels" in capsys.readouterr().err
    assert run(["adapt", files[0], str(tmp_path / "wide.npz"), *TERMS, *QUICK, *out]) == 3
    assert "columns" in capsys.readouterr().err
    assert run(["adapt", files[0], str(tmp_path / "none.npz"), *TERMS, *QUICK, *out]) == 3
    capsys.readouterr()
    assert run(["adapt", *files, *TERMS, "--device", "cpu", *out]) == 2
    assert "--range" in capsys.readouterr().err


def test_reading_the_same_file_in_another_way_gives_no_second_budget(
    capsys: Any, tmp_path: Path, files: tuple[str, str]
) -> None:
    """A table that was synthesised with its schema becomes other numbers when it is read without."""
    rows = "\n".join(f"{i % 90},{i % 7}" for i in range(60))
    (tmp_path / "people.csv").write_text("age,visits\n" + rows + "\n")
    columns = [{"name": n, "type": "integer", "low": 0, "high": 99} for n in ("age", "visits")]
    (tmp_path / "schema.json").write_text(json.dumps({"columns": columns}))
    book, schema = tmp_path / "people.csv.ledger", str(tmp_path / "schema.json")
    words = ["--schema", schema, "--adjacency", "replace-one", "--samples", "9", "--seed", "1", "--device", "cpu"]
    assert run(["synth", str(tmp_path / "people.csv"), *TERMS, *words, "--out", str(tmp_path / "synth")]) == 0
    capsys.readouterr()
    assert charges(capsys, book) == 1
    adapt = ["adapt", files[0], str(tmp_path / "people.csv"), *TERMS, *QUICK]
    assert run([*adapt, "--out", str(tmp_path / "one")]) == 4
    assert "--new-records" in capsys.readouterr().err
    assert charges(capsys, book) == 1
    assert run([*adapt, "--out", str(tmp_path / "two"), "--new-records"]) == 0


def test_a_score_says_that_it_is_not_private(capsys: Any, files: tuple[str, str], tmp_path: Path) -> None:
    words = ["adapt", *files, *TERMS, *QUICK, "--out", str(tmp_path / "out"), "--test", files[1], "--json"]
    assert run(words) == 0
    assert "not private" in json.loads(capsys.readouterr().out)["privacy"]


SCHEMA = {
    "label": "pays",
    "columns": [
        {"name": "age", "type": "integer", "low": 0, "high": 9},
        {"name": "pays", "type": "categorical", "categories": ["no", "yes"]},
        {"name": "town", "type": "categorical", "categories": ["a", "b"]},
    ],
}
SHORT = "--seed 1 --device cpu --set samples=100".split()


@pytest.fixture
def tables(tmp_path: Path) -> list[str]:
    dice = np.random.default_rng(0)
    for name, label in (("public", True), ("private", False), ("held", True)):
        lines = ["age,pays,town" if label else "age,town"]
        for _ in range(80):
            age, town = int(dice.integers(0, 10)), dice.choice(["a", "b"])
            lines.append(f"{age},{'yes' if age > 4 else 'no'},{town}" if label else f"{age},{town}")
        (tmp_path / f"{name}.csv").write_text("\n".join(lines) + "\n")
    (tmp_path / "schema.json").write_text(json.dumps(SCHEMA))
    return [str(tmp_path / "public.csv"), str(tmp_path / "private.csv"), "--schema", str(tmp_path / "schema.json")]


def test_a_table_is_adapted_to_by_one_charge_and_resuming_costs_nothing(
    capsys: Any, tables: list[str], tmp_path: Path
) -> None:
    out = tmp_path / "out"
    tested = ["--test", str(tmp_path / "held.csv")]
    assert run(["adapt", *tables, *TERMS, *SHORT, *tested, "--out", str(out), "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert 4.9 < answer["guarantee"]["epsilon"] <= 5.0
    assert (answer["guarantee"]["standing"], answer["guarantee"]["adjacency"]) == ("proven", "replace-one")
    assert 0.0 <= answer["accuracy"] <= 1.0
    assert charges(capsys, tmp_path / "private.csv.ledger") == 1
    before = (out / "model.safetensors").read_bytes()
    assert run(["adapt", "--resume", "--out", str(out)]) == 0
    capsys.readouterr()
    assert charges(capsys, tmp_path / "private.csv.ledger") == 1
    assert (out / "model.safetensors").read_bytes() == before
    assert "What is private" in (out / "report.html").read_text()
    assert run(["sample", str(out / "stand-in"), "-n", "5", "--out", str(tmp_path / "drawn.csv")]) == 0
    assert (tmp_path / "drawn.csv").read_text().splitlines()[0] == "age,town"


@pytest.mark.parametrize(
    ("more", "code", "says"),
    [
        (["--method", "embedding"], 2, "stand-in"),
        (["--range", "0,1"], 2, "--range"),
        (["--classes", "2"], 2, "--classes"),
        (["--epsilon", "0"], 2, "ε"),
        (["--adjacency", "add-remove"], 2, "replace-one"),
    ],
)
def test_what_a_table_cannot_have_is_one_sentence_and_sets_no_budget(
    capsys: Any, tables: list[str], tmp_path: Path, more: list[str], code: int, says: str
) -> None:
    assert run(["adapt", *tables, *TERMS, *SHORT, "--out", str(tmp_path / "out"), *more]) == code
    said = capsys.readouterr().err
    assert said.count("\n") == 1, said
    assert says in said
    assert not (tmp_path / "private.csv.ledger").exists()


def test_a_table_cannot_be_asked_for_by_file(capsys: Any, tables: list[str], tmp_path: Path) -> None:
    asking = ["--ask", str(tmp_path / "r.json"), "--set", "records=80", "--out", str(tmp_path / "out")]
    assert run(["adapt", tables[0], *tables[2:], *TERMS, *SHORT, *asking]) == 2
    assert "--schema cannot be combined" in capsys.readouterr().err
