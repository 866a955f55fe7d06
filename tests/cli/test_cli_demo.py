"""`privot demo`: the whole story with few records, its numbers, its words and its pages."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from privot.cli import run
from privot.cli.running import demonstration, invented_clinics
from privot.evaluation.classifiers import CLASSIFIERS

pytestmark = pytest.mark.slow


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few patients, a short audit and one epoch: what the whole length reaches is for the results."""
    monkeypatch.setattr(invented_clinics, "PATIENTS", 1500)
    monkeypatch.setattr(invented_clinics, "REGISTRY", 500)
    for name, value in (("SAMPLES", 600), ("CANDIDATES", 60), ("ATTACK_STEPS", 10), ("RUNS", 40), ("TRIALS", 20_000)):
        monkeypatch.setattr(demonstration, name, value)
    for name, recipe in CLASSIFIERS.items():
        monkeypatch.setitem(CLASSIFIERS, name, replace(recipe, epochs=1))


def test_demo_spends_at_most_its_epsilon_and_is_refused_more(capsys: Any, tmp_path: Path, short: None) -> None:
    out = tmp_path / "demo"
    assert run(["demo", "--out", str(out), "--steps", "20", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    spent = told["spent"]
    assert set(spent) == {"north.csv", "south.csv", "digits.npz"}
    # even added up, although no record is in two of them
    assert sum(guarantee["epsilon"] for guarantee in spent.values()) <= 3.0
    assert {(g["delta"], g["adjacency"], g["standing"]) for g in spent.values()} == {(1e-5, "add-remove", "proven")}
    assert told["guarantee"] == spent["north.csv"]
    for name, share in (("table", 1.0), ("digits", 1.2)):
        assert 0.98 * share < told[name]["guarantee"]["epsilon"] <= share
        assert json.loads((out / name / "guarantee.json").read_text())["epsilon"] == told[name]["guarantee"]["epsilon"]
        assert set(told[name]["scores"]) == set(told[name]["real"])
    # what the ledgers hold is what the answer says, and the refused release is not among it
    assert "above its budget" in told["refused"]
    for name, charged in (("north.csv", 2), ("south.csv", 1), ("digits.npz", 1)):
        assert run(["ledger", "show", str(out / f"{name}.ledger"), "--json"]) == 0
        (shown,) = json.loads(capsys.readouterr().out)["datasets"]
        assert len(shown["entries"]) == charged
    # South's patients are eleven years older: the sketches must show it
    assert told["comparison"]["p_value"] < 0.05
    assert not any(finding.get("refuted") for finding in told["audit"]["findings"])
    for page in ("report.html", "table/report.html", "digits/report.html"):
        text = (out / page).read_text()
        assert "<script" not in text
        assert "http" not in text.replace("http-equiv", "")
    assert told["refused"].split(";")[0].replace("'", "&#39;") in (out / "report.html").read_text()
    assert (out / "table" / "report-private.html").exists()
    assert run(["demo", "--out", str(out)]) == 2
    assert "exists" in capsys.readouterr().err


def test_demo_reads_like_a_story(capsys: Any, tmp_path: Path, short: None) -> None:
    assert run(["demo", "--out", str(tmp_path / "demo"), "--steps", "20", "--epsilon", "2"]) == 0
    said = capsys.readouterr().out
    steps = [line for line in said.splitlines() if line[:2] in {f"{k}." for k in range(1, 8)}]
    assert [line[0] for line in steps] == list("1234567")
    assert max(map(len, said.splitlines())) < 700
    assert "Their patients differ" in said
    assert "not refuted" in said
    assert "nothing was released" in said
    assert said.rstrip().splitlines()[-1].startswith(f"The whole story: {tmp_path / 'demo' / 'report.html'}")
