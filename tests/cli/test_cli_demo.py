"""`privot demo`: the whole story with few records, its numbers, its words and its pages; it is run once."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from html import unescape
from pathlib import Path
from typing import Any

import pytest

from privot.cli import run
from privot.cli.running.demo_runs import demonstration, invented_clinics
from privot.cli.running.demo_runs.demo_page import DemoAnswer
from privot.cli.running.demo_runs.demonstration import demonstrate
from privot.evaluation.classifiers import CLASSIFIERS

pytestmark = pytest.mark.slow

Told = tuple[DemoAnswer, list[str]]


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Told]:
    """The story with few patients, a short audit and one epoch: what its whole length reaches is for the results."""
    lines: list[str] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(invented_clinics, "PATIENTS", 1500)
        patch.setattr(invented_clinics, "REGISTRY", 500)
        for name, value in (
            ("SAMPLES", 600),
            ("CANDIDATES", 60),
            ("ATTACK_STEPS", 10),
            ("RUNS", 40),
            ("TRIALS", 20_000),
        ):
            patch.setattr(demonstration, name, value)
        for name, recipe in CLASSIFIERS.items():
            patch.setitem(CLASSIFIERS, name, replace(recipe, epochs=1))
        yield (
            demonstrate(tmp_path_factory.mktemp("demo") / "out", 3.0, 1e-5, 20, lambda *more: lines.extend(more), True),
            lines,
        )


def test_demo_spends_at_most_its_epsilon_and_is_refused_more(capsys: Any, told: Told) -> None:
    answer, _ = told
    assert set(answer.spent) == {"north.csv", "south.csv", "digits.npz"}
    # even added up, although no record is in two of them
    assert sum(guarantee.epsilon() for guarantee in answer.spent.values()) <= 3.0
    assert {(g.at_delta, str(g.adjacency), str(g.standing)) for g in answer.spent.values()} == {
        (1e-5, "add-remove", "proven")
    }
    for found, share, name in ((answer.table, 1.0, "table"), (answer.digits, 1.2, "digits")):
        assert 0.98 * share < found["guarantee"].epsilon() <= share
        assert json.loads((answer.out / name / "guarantee.json").read_text()) == found["guarantee"].to_dict()
        assert set(found["scores"]) == set(found["real"])
    # what the ledgers hold is what the answer says, and the refused release is not among it
    assert answer.refused is not None
    assert "above its budget" in answer.refused
    for name, charged in (("north.csv", 2), ("south.csv", 1), ("digits.npz", 1)):
        assert run(["ledger", "show", str(answer.out / f"{name}.ledger"), "--json"]) == 0
        (shown,) = json.loads(capsys.readouterr().out)["datasets"]
        assert len(shown["entries"]) == charged


def test_demo_finds_what_was_put_into_its_data(told: Told) -> None:
    answer, _ = told
    # South's patients are eleven years older: the sketches must show it
    assert answer.comparison is not None
    assert answer.comparison.p_value is not None
    assert answer.comparison.p_value < 0.05
    assert answer.comparison.sliced.value > (answer.comparison.sliced.null_level or 0.0)
    assert not any(getattr(finding, "refuted", False) for finding in answer.findings)


def test_pages_of_the_demo_are_self_contained_and_tell_the_refusal(told: Told) -> None:
    answer, _ = told
    for page in ("report.html", "table/report.html", "digits/report.html"):
        text = (answer.out / page).read_text()
        assert "<script" not in text
        assert "http" not in text.replace("http-equiv", "")
    assert answer.refused is not None
    assert answer.refused in unescape((answer.out / "report.html").read_text())
    # the models trained on the records in the vault are on the page that is not to be published
    for name in ("table", "digits"):
        assert "one trained on the real records" not in (answer.out / name / "report.html").read_text()
        assert "one trained on the real records" in (answer.out / name / "report-private.html").read_text()


def test_demo_reads_like_a_story(told: Told) -> None:
    _, lines = told
    assert [line[0] for line in lines if line[:1].isdigit()] == list("123456")
    assert max(map(len, lines)) < 700
    said = "\n".join(lines)
    for words in ("Their patients differ", "not refuted", "nothing was released", "add-remove, proven"):
        assert words in said


def test_demo_prints_its_answer_and_its_page(capsys: Any, told: Told, monkeypatch: pytest.MonkeyPatch) -> None:
    answer, _ = told
    monkeypatch.setattr(demonstration, "demonstrate", lambda *given, **more: answer)
    assert run(["demo", "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed["guarantee"] == printed["spent"]["north.csv"] == answer.spent["north.csv"].to_dict()
    assert printed["refused"] == answer.refused
    assert Path(printed["report"]).exists()
    assert run(["demo"]) == 0
    said = capsys.readouterr().out
    assert "North's patients: ε = " in said
    assert said.rstrip().splitlines()[-1].startswith(f"The whole story: {answer.out / 'report.html'}")


def test_demo_overwrites_no_folder(capsys: Any, tmp_path: Path) -> None:
    assert run(["demo", "--out", str(tmp_path)]) == 2
    said = capsys.readouterr()
    assert "exists" in said.err
    assert said.out == ""
    assert list(tmp_path.iterdir()) == []
