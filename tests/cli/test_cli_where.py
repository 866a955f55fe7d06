"""`privot sample --where` and constraints of a schema from the command line: rows, sentences and exit codes."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from privot.cli import run
from privot.synthesis.tabular import restricted_rows
from privot.tables import read_table

pytestmark = pytest.mark.slow

SCHEMA = {
    "label": "ill",
    "columns": [
        {"name": "age", "type": "integer", "low": 0, "high": 99},
        {"name": "since", "type": "integer", "low": 0, "high": 99},
        {"name": "dose", "type": "continuous", "low": 0, "high": 1},
        {"name": "city", "type": "categorical", "categories": ["Ulm", "Bonn"], "missing": True},
        {"name": "ill", "type": "boolean", "categories": ["no", "yes"]},
    ],
    "constraints": [{"kind": "order", "columns": ["since", "age"]}, {"kind": "key", "column": "patient"}],
}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("where")
    rng = np.random.default_rng(0)
    lines = ["patient,age,since,dose,city,ill"]
    for i in range(400):
        age = rng.integers(1, 100)
        lines.append(f"x{i},{age},{rng.integers(0, age)},{rng.random():.3f},{rng.choice(['Ulm', 'Bonn', ''])},no")
    (folder / "t.csv").write_text("\n".join(lines) + "\n")
    (folder / "schema.json").write_text(json.dumps(SCHEMA))
    words = ["--epsilon", "2", "--delta", "1e-6", "--adjacency", "add-remove", "--samples", "200", "--device", "cpu"]
    given = ["synth", str(folder / "t.csv"), "--schema", str(folder / "schema.json"), *words]
    assert run([*given, "--out", str(folder / "made")]) == 0
    return folder / "made"


def test_the_folder_has_keys_of_its_own_and_constraints_hold(made: Path) -> None:
    table = read_table(made / "synthetic.csv")
    assert list(table) == ["patient", "age", "since", "dose", "city", "ill"]
    assert table["patient"].tolist() == [str(i) for i in range(1, 201)]
    assert all(int(s) <= int(a) for s, a in zip(table["since"], table["age"], strict=True))


def test_rows_satisfy_every_condition(made: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "some.csv"
    given = ["--where", "city=Ulm", "--where", "age>=65", "--where", "since < 30"]
    assert run(["sample", str(made), "-n", "300", "--out", str(out), *given, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["samples"] == 300
    table = read_table(out)
    assert set(table["city"]) == {"Ulm"}
    assert all(int(a) >= 65 and int(s) < 30 for a, s in zip(table["age"], table["since"], strict=True))


@pytest.mark.parametrize(
    ("condition", "code"), [("age>99", 2), ("city=Rome", 2), ("age~3", 2), ("ill>no", 2), ("since>60;age<40", 6)]
)
def test_what_cannot_be_is_one_sentence_with_its_code(
    made: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    condition: str,
    code: int,
) -> None:
    monkeypatch.setattr(restricted_rows, "MAX_PROPOSED", 60_000)
    out = tmp_path / "none.csv"
    where = [word for part in condition.split(";") for word in ("--where", part)]
    assert run(["sample", str(made), "-n", "50", "--out", str(out), *where]) == code
    said = capsys.readouterr().err.splitlines()
    assert len([line for line in said if line.startswith("privot: ")]) == 1
    assert not out.exists()


def test_a_contradiction_in_the_schema_costs_nothing(made: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = made.parent
    wrong = {**SCHEMA, "constraints": [{"kind": "order", "columns": ["since", "age", "since"]}]}
    (folder / "wrong.json").write_text(json.dumps(wrong))
    words = ["--epsilon", "2", "--delta", "1e-6", "--adjacency", "add-remove"]
    given = ["synth", str(folder / "t.csv"), "--schema", str(folder / "wrong.json"), *words]
    assert run([*given, "--out", str(folder / "no")]) == 2
    assert "in a circle" in capsys.readouterr().err
    assert not (folder / "no").exists()


def test_conditions_need_a_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    terms = ["--epsilon", "5", "--delta", "1e-5", "--adjacency", "replace-one", "--set", "steps=2", "--device", "cpu"]
    assert run(["synth", "digits", *terms, "--samples", "20", "--out", str(tmp_path / "d")]) == 0
    capsys.readouterr()
    assert run(["sample", str(tmp_path / "d"), "-n", "5", "--out", str(tmp_path / "o.npz"), "--where", "a=1"]) == 2
    assert "columns to name" in capsys.readouterr().err
