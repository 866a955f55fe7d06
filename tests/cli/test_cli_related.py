"""`privot synth` of related tables: one folder, one guarantee, one charge; bad input costs nothing."""

from __future__ import annotations

import csv
import json
import random
from pathlib import Path
from typing import Any

import pytest

from privot.cli import run
from privot.cli.running.synth_runs.related_job import RelatedJob
from privot.errors import UsageError
from privot.ledger import Ledger

TERMS = "--epsilon 2 --delta 1e-6 --adjacency add-remove".split()
QUICK = "--samples 60 --seed 1 --device cpu".split()
SECRET = "PATIENT-SECRET-"
ILL: dict[str, Any] = {"name": "ill", "type": "boolean", "categories": ["no", "yes"]}


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    dice = random.Random(1)
    lines = ["patient_id,ill", *(f"{SECRET}{i},{dice.choice(['no', 'yes'])}" for i in range(80))]
    Path("patients.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    lines = ["patient_id,ward", *(f"{SECRET}{dice.randrange(60)},{dice.choice('ab')}" for _ in range(200))]
    Path("visits.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    Path("patients.json").write_text(json.dumps({"columns": [ILL]}), encoding="utf-8")
    ward = {"name": "ward", "type": "categorical", "categories": ["a", "b"]}
    Path("visits.json").write_text(json.dumps({"columns": [ward]}), encoding="utf-8")
    return tmp_path


def words(
    child: str | None = "visits.csv",
    schema: str | None = "patients.json",
    child_schema: str | None = "visits.json",
    unit: str | None = "patient_id",
) -> list[str]:
    """The arguments and options that state the tables; None leaves one out."""
    said = {"--schema": [schema, child_schema], "--unit": [unit]}
    options = [word for name, values in said.items() for value in values if value for word in (name, value)]
    return ["patients.csv", *([child] if child else []), *options]


def synth(out: str, *more: str, **other: str | None) -> int:
    return run(["synth", *words(**other), *TERMS, *QUICK, "--out", out, *more])


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def charges(ledger: str = "patients.csv+visits.csv.ledger") -> int:
    with Ledger.open(Path(ledger)) as book:
        (data,) = book.datasets()
        return len(book.entries(data.fingerprint))


@pytest.mark.slow
def test_one_folder_one_guarantee_one_charge(place: Path, capsys: pytest.CaptureFixture[str]):
    assert synth("made", "--json", "--per-unit", "3") == 0
    shown = capsys.readouterr()
    answer = json.loads(shown.out)
    assert answer["guarantee"]["unit"] == {"column": "patient_id", "rows": 4}
    assert answer["guarantee"]["epsilon"] <= 2.0
    parents, children = rows(place / "made/patients.csv"), rows(place / "made/visits.csv")
    assert answer["tables"] == {"patients": len(parents), "visits": len(children)}
    assert len(parents) == 60
    keys = {row["patient_id"] for row in parents}
    assert keys == {str(number) for number in range(1, 61)}
    numbers = [sum(row["patient_id"] == key for row in children) for key in keys]
    assert sum(numbers) == len(children)
    assert max(numbers) <= 3
    assert charges() == 1
    for file in (place / "made").rglob("*"):
        assert SECRET.encode() not in file.read_bytes()
    assert SECRET not in shown.out + shown.err
    # all is spent: refused before anything
    assert synth("again") == 4
    assert not (place / "again" / "release.npz").exists()
    assert charges() == 1
    # going on costs nothing, and draws the same
    before = (place / "made/visits.csv").read_bytes()
    (place / "made/visits.csv").unlink()
    assert run(["synth", "--resume", "--out", "made"]) == 0
    assert (place / "made/visits.csv").read_bytes() == before
    assert charges() == 1
    capsys.readouterr()
    assert run(["sample", "made", "--count", "20", "--where", "number of visits=2", "--out", "more", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["tables"] == {"patients": 20, "visits": 40}
    assert len(rows(place / "more/visits.csv")) == 40
    assert run(["sample", "made", "--out", "more.csv"]) == 2
    assert run(["sample", "made", "--out", "more"]) == 3
    assert run(["report", "made"]) == 0
    assert run(["evaluate", "made", "--test", "visits.csv"]) == 2
    assert "evaluated one by one" in capsys.readouterr().err
    # each table alone finds that ledger, and gets no second one beside it
    assert (
        run(["synth", "visits.csv", "--schema", "visits.json", "--unit", "patient_id", *TERMS, "--out", "alone"]) == 2
    )
    assert "may guard the records of 'visits.csv'" in capsys.readouterr().err
    one = ["synth", "visits.csv", "--schema", "visits.json", "--unit", "patient_id", *TERMS, "--out", "alone"]
    assert run([*one, "--ledger", "patients.csv+visits.csv.ledger"]) != 0
    assert charges() == 1


def test_a_dry_run_names_every_table_and_pays_nothing(place: Path, capsys: pytest.CaptureFixture[str]):
    assert synth("never", "--dry-run", "--set", "records=80", "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert [error["records"] for errors in found["tables"].values() for error in errors] == [80, 80]
    names = [column["name"] for column in found["tables"]["visits"][0]["columns"]]
    assert names == ["patients.ill", "patients.number of visits", "ward"]
    assert synth("never", "--dry-run") == 0
    assert not (place / "never").exists()
    assert not list(place.glob("*.ledger"))


@pytest.mark.parametrize(
    ("more", "other", "code", "said"),
    [
        ([], {"unit": None}, 2, "give it with --unit"),
        ([], {"child": None}, 2, "A second --schema describes a table of children"),
        (["--per-unit", "2", "--per-unit", "3"], {"child": None, "child_schema": None}, 2, "A second --per-unit"),
        (["--set", "orphans=drop"], {"child": None, "child_schema": None}, 2, "--set orphans describes"),
        ([], {"child_schema": None}, 2, "There are 2 tables and 1 schemas: give one --schema for each"),
        ([], {"schema": None}, 2, "There are 2 tables and 1 schemas: give one --schema for each"),
        ([], {"unit": "nobody"}, 3, "patients.csv: The table lacks column 'nobody'"),
        ([], {"unit": "ill"}, 2, "needs at least one column"),
        ([], {"child": "gone.csv"}, 3, "no file 'gone.csv'"),
        ([], {"child_schema": "gone.json"}, 3, "gone.json"),
        ([], {"child": "patients.csv"}, 2, "are called 'patients'"),
        (["--per-unit", "0"], {}, 2, "from 1 to"),
        (["--per-unit", "2", "--per-unit", "3"], {}, 2, "--per-unit once"),
        (["--set", "steps=2"], {}, 2, "--set steps cannot be combined with tables of children"),
        (["--classes", "2"], {}, 2, "--classes cannot be combined with tables of children"),
        (["--adjacency", "replace-one"], {}, 2, "add-remove only"),
        (["--set", "orphans=keep"], {}, 2, "Orphans are either"),
        (["--method", "sliced"], {}, 2, "by embedding"),
    ],
)
def test_bad_input_is_one_sentence_and_leaves_nothing(
    place: Path, capsys: pytest.CaptureFixture[str], more: list[str], other: dict[str, Any], code: int, said: str
):
    assert synth("made", *more, **other) == code
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1
    assert not (place / "made").exists()
    assert not list(place.glob("*.ledger"))


def test_orphans_and_equal_keys_are_refused_unpaid(place: Path, capsys: pytest.CaptureFixture[str]):
    whole = (place / "visits.csv").read_text(encoding="utf-8")
    (place / "visits.csv").write_text(whole + f"{SECRET}999,a\n", encoding="utf-8")
    assert synth("made") == 3
    error = capsys.readouterr().err
    assert "(--set orphans=drop)" in error
    assert SECRET not in error
    parents = (place / "patients.csv").read_text(encoding="utf-8")
    (place / "patients.csv").write_text(parents + f"{SECRET}1,no\n", encoding="utf-8")
    assert synth("made", "--set", "orphans=drop") == 3
    error = capsys.readouterr().err
    assert "Two rows of 'patients'" in error
    assert SECRET not in error
    assert not list(place.glob("*.ledger"))
    (place / "patients.csv").write_text(parents, encoding="utf-8")
    # a ledger of one of the tables keeps them from a second budget
    (place / "visits.csv.ledger").write_bytes(b"somebody's")
    assert synth("made", "--set", "orphans=drop") == 2
    assert "may guard some of these tables" in capsys.readouterr().err


def test_a_ledger_beside_a_table_of_children_in_another_folder_is_warned_of(
    place: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    def stop(job: RelatedJob) -> None:
        raise UsageError("Enough.")

    monkeypatch.setattr(RelatedJob, "_ask", stop)
    (place / "far/away/there").mkdir(parents=True)
    child = (place / "visits.csv").rename(place / "far/away/there/visits.csv")
    alone = ["--unit", "patient_id", "--delta", "1e-6", "--epsilon", "2", "--adjacency", "add-remove"]
    assert run(["ledger", "init", f"{child}.ledger", "--data", str(child), "--schema", "visits.json", *alone]) == 0
    capsys.readouterr()
    assert synth("made", "--ledger", "new.ledger", child=str(child)) == 2
    shown = capsys.readouterr().err
    assert "visits.csv.ledger" in shown
    assert "a budget for 'visits' alone" in shown
