"""`--unit` on the command line: every answer, page and file names it; what cannot honour it is refused unpaid."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from privot import Vault
from privot.cli import run
from privot.errors import DataError
from privot.federation import Sketch
from privot.jobs.paid_question import Paid
from privot.kinds import Vectors

pytestmark = pytest.mark.slow

TERMS = "--epsilon 2 --delta 1e-6 --adjacency add-remove".split()
UNIT = "--unit patient_id --per-unit 3".split()
QUICK = "--samples 40 --seed 1 --device cpu".split()
COLUMNS: list[dict[str, Any]] = [
    {"name": "age", "type": "integer", "low": 0, "high": 99},
    {"name": "ill", "type": "boolean", "categories": ["no", "yes"]},
]
SECRET = "PATIENT-SECRET-"


@pytest.fixture
def place(tmp_path: Path) -> Path:
    dice = random.Random(1)
    lines = ["patient_id,age,ill"]
    lines += [f"{SECRET}{dice.randrange(60)},{dice.randrange(99)},{dice.choice(['no', 'yes'])}" for _ in range(400)]
    (tmp_path / "visits.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    told = {"label": "ill", "columns": COLUMNS}
    (tmp_path / "schema.json").write_text(json.dumps(told), encoding="utf-8")
    dropped = {"label": "ill", "columns": [{"name": "patient_id", "drop": True}, *COLUMNS]}
    (tmp_path / "dropped.json").write_text(json.dumps(dropped), encoding="utf-8")
    return tmp_path


def synth(place: Path, out: str, *more: str, schema: str = "schema.json") -> int:
    public = ["--schema", str(place / schema)]
    return run(["synth", str(place / "visits.csv"), *TERMS, *QUICK, *public, "--out", str(place / out), *more])


def test_every_page_names_the_unit_and_none_has_an_identifier(place: Path, capsys: pytest.CaptureFixture[str]):
    assert synth(place, "made", *UNIT, "--json") == 0
    shown = capsys.readouterr()
    answer = json.loads(shown.out)
    assert answer["guarantee"]["unit"] == {"column": "patient_id", "rows": 3}
    assert answer["guarantee"]["epsilon"] <= 2.0
    assert answer["spent_in_ledger"]["unit"] == {"column": "patient_id", "rows": 3}
    assert not any("identifier" in said or "--unit" in said for said in answer["warnings"])
    out = place / "made"
    page = (out / "report.html").read_text(encoding="utf-8")
    assert "one patient_id, at most 3 rows" in page
    assert "one record each" not in page
    assert "To every patient_id in the data (all rows with the same patient_id; at most 3 of them are used)" in page
    assert "--unit patient_id --per-unit 3" in page
    assert (out / "synthetic.csv").read_text(encoding="utf-8").splitlines()[0] == "age,ill"
    for file in out.rglob("*"):
        if file.is_file():
            assert SECRET.encode() not in file.read_bytes()
    assert SECRET not in shown.out + shown.err
    assert run(["audit", str(out), "--trials", "2000"]) == 0
    audited = capsys.readouterr().out
    assert "δ 1e-06, add-remove of one patient_id, at most 3 rows" in audited
    told = json.loads((out / "audit.json").read_text(encoding="utf-8"))
    assert told["unit"] == {"column": "patient_id", "rows": 3}
    assert "add-remove of one patient_id, at most 3 rows" in told["findings"][0]["detail"]
    assert run(["ledger", "show", str(place / "visits.csv.ledger")]) == 0
    assert "add-remove of one patient_id" in capsys.readouterr().out
    assert run(["ledger", "show", str(place / "visits.csv.ledger"), "--json"]) == 0
    (data,) = json.loads(capsys.readouterr().out)["datasets"]
    assert data["unit"] == "patient_id"
    (entry,) = data["entries"]
    assert (entry["event"]["kind"], entry["event"]["unit"], entry["event"]["rows"]) == ("unit", "patient_id", 3)


def test_without_a_unit_pages_say_record_and_an_identifier_is_asked_about(
    place: Path, capsys: pytest.CaptureFixture[str]
):
    assert synth(place, "made", "--json", schema="dropped.json") == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["guarantee"]["unit"] == "record"
    assert any("--unit patient_id" in said for said in answer["warnings"])
    assert "one record" in (place / "made" / "report.html").read_text(encoding="utf-8")


def test_a_described_identifier_is_asked_about(place: Path, capsys: pytest.CaptureFixture[str]):
    named = [{"name": "visit_id", "type": "integer", "low": 0, "high": 9}, *COLUMNS]
    (place / "schema.json").write_text(json.dumps({"columns": named}), encoding="utf-8")
    (place / "visits.csv").write_text("visit_id,age,ill\n" + "1,3,no\n" * 30, encoding="utf-8")
    assert synth(place, "made", "--json") == 0
    assert any(
        "'visit_id' looks like an identifier" in said for said in json.loads(capsys.readouterr().out)["warnings"]
    )


def test_with_and_without_a_unit_there_is_one_budget(place: Path, capsys: pytest.CaptureFixture[str]):
    assert synth(place, "made", *UNIT, "--epsilon", "1") == 0
    capsys.readouterr()
    assert synth(place, "again", schema="dropped.json") == 2
    assert "give --unit patient_id" in capsys.readouterr().err
    assert synth(place, "again", "--new-records", schema="dropped.json") == 2
    # all of it is spent, however many rows take part
    assert synth(place, "again", "--unit", "patient_id", "--epsilon", "1") == 4


def test_a_budget_set_beforehand_is_for_its_unit(place: Path, capsys: pytest.CaptureFixture[str]):
    ledger, schema = str(place / "visits.csv.ledger"), ["--schema", str(place / "schema.json")]
    data = ["--data", str(place / "visits.csv")]
    assert run(["ledger", "init", ledger, *data, *TERMS, *schema, "--unit", "patient_id"]) == 0
    assert "add-remove of one patient_id" in capsys.readouterr().out
    count = ["release", "count", str(place / "visits.csv"), "--epsilon", "0.5", "--adjacency", "add-remove"]
    assert run([*count, "--schema", str(place / "dropped.json")]) == 2
    assert run([*count, *schema, *UNIT, "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["guarantee"]["unit"] == {"column": "patient_id", "rows": 3}
    assert answer["guarantee"]["epsilon"] <= 0.5
    assert run(["ledger", "init", str(place / "b.ledger"), "--unit", "patient_id"]) == 2


def test_other_values_of_the_unit_are_refused_unpaid(place: Path, capsys: pytest.CaptureFixture[str]):
    data, schema = place / "visits.csv", ["--schema", str(place / "schema.json")]
    count = ["release", "count", str(data), *schema, "--unit", "patient_id", *TERMS]
    assert run([*count, "--budget", "5"]) == 0
    shown = capsys.readouterr().out
    assert "taking part" in shown
    assert "at most 1 row of each patient_id" in shown
    lines = data.read_text(encoding="utf-8").splitlines()
    clinics = [f"{len(line) % 2}," + line.split(",", 1)[1] for line in lines[1:]]
    data.write_text("\n".join([lines[0], *clinics]) + "\n", encoding="utf-8")
    capsys.readouterr()
    assert run(count) == 2
    assert "grouped otherwise" in capsys.readouterr().err
    # in another order they are the same
    data.write_text("\n".join([lines[0], *lines[:0:-1]]) + "\n", encoding="utf-8")
    assert run([*count, "--json"]) == 0
    ledger = str(data) + ".ledger"
    capsys.readouterr()
    assert run(["ledger", "show", ledger, "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["datasets"][0]["entries"]) == 2


def test_a_budget_set_beforehand_knows_the_values_of_the_unit(place: Path, capsys: pytest.CaptureFixture[str]):
    data, schema = place / "visits.csv", ["--schema", str(place / "schema.json")]
    ledger = ["ledger", "init", str(data) + ".ledger", "--data", str(data), *TERMS, *schema, "--unit", "patient_id"]
    assert run(ledger) == 0
    lines = data.read_text(encoding="utf-8").splitlines()
    data.write_text("\n".join([lines[0], *("1," + line.split(",", 1)[1] for line in lines[1:])]), encoding="utf-8")
    capsys.readouterr()
    assert run(["release", "count", str(data), *schema, "--unit", "patient_id", *TERMS]) == 2
    assert "grouped otherwise" in capsys.readouterr().err


@pytest.mark.parametrize(
    "wrong",
    [
        ["--per-unit", "3"],
        ["--unit", "patient_id", "--per-unit", "0"],
        ["--unit", "patient_id", "--adjacency", "replace-one"],
        ["--unit", "ill"],
    ],
    ids=" ".join,
)
def test_what_cannot_be_is_refused_before_a_ledger_is_made(place: Path, wrong: list[str]):
    assert synth(place, "made", *wrong) == 2
    assert not (place / "visits.csv.ledger").exists()


def test_a_unit_needs_a_schema_and_a_column_that_is_there(place: Path, capsys: pytest.CaptureFixture[str]):
    told = [*TERMS, *QUICK, "--out", str(place / "made")]
    assert run(["synth", "digits", *told, "--unit", "patient_id"]) == 2
    assert "--schema" in capsys.readouterr().err
    assert synth(place, "made", "--unit", "clinic", schema="dropped.json") == 3
    assert not (place / "visits.csv.ledger").exists()


def test_an_interrupted_job_goes_on_with_its_unit(place: Path, capsys: pytest.CaptureFixture[str]):
    assert synth(place, "made", *UNIT) == 0
    (place / "made" / "report.html").unlink()
    assert run(["synth", "--resume", "--out", str(place / "made")]) == 0
    assert "at most 3 rows" in (place / "made" / "report.html").read_text(encoding="utf-8")
    assert synth(place, "made", "--resume", "--unit", "patient_id", "--per-unit", "2") == 2


def test_arrays_have_units_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    dice = np.random.default_rng(0)
    who, x = dice.integers(0, 50, 300), dice.uniform(size=(300, 4))
    np.savez(tmp_path / "a.npz", x=x, who=who)
    data, terms = str(tmp_path / "a.npz"), "--epsilon 1 --delta 1e-6 --adjacency add-remove --json".split()
    unit = "--unit who --per-unit 4".split()
    mean = ["release", "mean", data, "--column", "1", "--range", "0,1", "--budget", "3"]
    assert run([*mean, *terms, *unit]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["guarantee"]["unit"] == {"column": "who", "rows": 4}
    sketch = ["sketch", data, "--range", "0,1", "--out"]
    assert run([*sketch, str(tmp_path / "a.sketch"), *terms, *unit]) == 0
    assert json.loads(capsys.readouterr().out)["guarantee"]["unit"] == {"column": "who", "rows": 4}
    made = Sketch.load(tmp_path / "a.sketch")
    assert made.guarantee.epsilon() <= 1.0
    assert str(made.guarantee.unit) == "one who, at most 4 rows"
    # and the same records without a unit have no other budget
    assert run([*sketch, str(tmp_path / "b.sketch"), *terms]) == 2
    assert "--unit who" in capsys.readouterr().err
    vault = Vault.open(data, Vectors(clip=2.0), adjacency="add-remove", budget=(1.0, 1e-6), unit="who")
    assert str(vault.facts.unit) == "one who, at most 1 row"


def test_a_sketch_that_was_paid_is_found_again_in_another_order_of_the_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    dice = np.random.default_rng(0)
    who, x = dice.integers(0, 50, 300), dice.uniform(size=(300, 4))
    np.savez(tmp_path / "a.npz", x=x, who=who)
    terms = "--epsilon 1 --delta 1e-6 --adjacency add-remove --range 0,1 --unit who --json".split()
    made = ["sketch", str(tmp_path / "a.npz"), *terms, "--out", str(tmp_path / "a.sketch")]

    def full_disk(*_: Any) -> None:
        raise DataError("The disk is full.")

    with monkeypatch.context() as broken:
        broken.setattr(Paid, "put", full_disk)
        assert run(made) == 3
    order = dice.permutation(300)
    np.savez(tmp_path / "a.npz", x=x[order], who=who[order])
    # one row per unit is the default: said or not, it is the same sketch
    assert run([*made, "--per-unit", "1"]) == 0
    capsys.readouterr()
    assert run(["ledger", "show", str(tmp_path / "a.npz.ledger"), "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["datasets"][0]["entries"]) == 1


def test_arrays_without_such_an_array_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    np.savez(tmp_path / "a.npz", x=np.eye(8), y=np.zeros(8, dtype=int), short=np.zeros(3), half=np.full(8, 0.5))
    np.save(tmp_path / "a.npy", np.eye(8))
    terms = "--epsilon 1 --delta 1e-6 --adjacency add-remove --range 0,1".split()
    for name, unit, code in (
        ("a.npz", "who", 3),
        ("a.npz", "x", 3),
        ("a.npz", "short", 3),
        ("a.npz", "half", 3),
        ("a.npy", "who", 2),
        ("digits", "who", 2),
    ):
        data = name if name == "digits" else str(tmp_path / name)
        assert run(["sketch", data, *terms, "--unit", unit, "--out", str(tmp_path / "a.sketch")]) == code
        assert not list(tmp_path.glob("*.ledger"))


def test_a_dry_run_tells_the_error_for_the_unit(place: Path, capsys: pytest.CaptureFixture[str]):
    worst = []
    for more in (["--unit", "patient_id", "--per-unit", "1"], UNIT):
        assert synth(place, "never", *more, "--set", "records=400", "--dry-run", "--json") == 0
        (found,) = json.loads(capsys.readouterr().out)["errors"]
        worst.append(max(column["error"] for column in found["columns"]))
    assert worst[1] > worst[0]
    assert not (place / "never").exists()


def test_equal_rows_do_not_change_owners_by_their_labels(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """The same (visit, outcome) rows, but the two people swap theirs of visit 1: another grouping, so refused."""
    schema = {"label": "outcome", "columns": [
        {"name": "visit", "type": "integer", "low": 1, "high": 9},
        {"name": "outcome", "type": "boolean", "categories": ["no", "yes"]},
    ]}  # fmt: skip
    (tmp_path / "schema.json").write_text(json.dumps(schema))
    first = ["pid,visit,outcome", "a,1,yes", "b,1,no", "a,2,no", "b,2,yes"]
    other = ["pid,visit,outcome", "b,1,yes", "a,1,no", "a,2,no", "b,2,yes"]
    for name, lines in (("p.csv", first), ("q.csv", other)):
        (tmp_path / name).write_text("\n".join(lines) + "\n")
    ledger = str(tmp_path / "both.ledger")
    public = ["--schema", str(tmp_path / "schema.json"), "--unit", "pid"]
    made = ["ledger", "init", ledger, "--data", str(tmp_path / "p.csv"), "--epsilon", "20", "--delta", "1e-6"]
    assert run([*made, "--adjacency", "add-remove", *public]) == 0
    asked = ["--epsilon", "1", "--delta", "1e-6", "--adjacency", "add-remove", "--ledger", ledger, "--per-unit", "2"]
    release = ["--column", "outcome", *asked, *public]
    assert run(["release", "histogram", str(tmp_path / "p.csv"), *release]) == 0
    capsys.readouterr()
    assert run(["release", "histogram", str(tmp_path / "q.csv"), *release]) == 2
    assert "grouped otherwise" in capsys.readouterr().err


def test_the_page_of_a_ledger_names_the_unit(place: Path, capsys: pytest.CaptureFixture[str]):
    assert synth(place, "made", *UNIT) == 0
    page = place / "page.html"
    assert run(["ledger", "show", str(place / "visits.csv.ledger"), "--out", str(page)]) == 0
    text = page.read_text(encoding="utf-8")
    assert "everything that one patient_id has" in text
    assert "one record each" not in text
    assert text.count("of one patient_id") >= 2
