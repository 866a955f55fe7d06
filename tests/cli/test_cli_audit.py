"""`privot audit`: every kind of target; refusals in one sentence; exit code 7 for a refuted claim."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from privot.accounting import Gaussian, Repeated, account
from privot.cli import run
from privot.guarantee import Adjacency
from privot.mechanisms import RandomProjection
from privot.noise import SystemNoise
from privot.release import Release
from privot.transport import interpolate
from privot.vault import Vault

pytestmark = pytest.mark.slow

QUICK = ["--runs", "60", "--trials", "60000", "--json"]


def answer(capsys: Any, *words: str, code: int = 0) -> Any:
    assert run(["audit", *words]) == code
    return json.loads(capsys.readouterr().out)


def sentence(capsys: Any) -> str:
    said = capsys.readouterr().err
    assert said.count("\n") == 1, said
    return str(said)


@pytest.mark.parametrize("words", [
    "projection --sigma 1 --adjacency replace-one --dim 4",
    "projection --epsilon 3 --adjacency replace-one --dim 4 --frame independent --slices 2 --records 6 --batch 1",
    "embedding --epsilon 2 --adjacency add-remove",
    "counts --epsilon 2 --adjacency add-remove",
    "parameters --epsilon 3 --adjacency add-remove --records 10 --batch 2 --steps 4",
    "parameters --epsilon 3 --adjacency replace-one",
    "gradient --epsilon 3 --adjacency replace-one --records 12 --batch 4",
    "sketch --epsilon 2 --adjacency replace-one",
    "sketch --epsilon 2 --adjacency add-remove --classes 3",
])  # fmt: skip
def test_a_mechanism_named_on_the_command_line_is_attacked_and_not_refuted(capsys: Any, words: str) -> None:
    pytest.importorskip("torch")
    said = answer(capsys, *words.split(), *QUICK)
    (found,) = said["findings"]
    assert said["refuted"] == []
    assert 0.0 < found["measured"]["epsilon"] <= found["claimed"]["epsilon"]
    assert found["claimed"]["standing"] == "proven"
    assert found["claimed"]["adjacency"] in words
    if "--epsilon" in words:
        asked = float(words.split("--epsilon ")[1].split()[0])
        assert found["claimed"]["epsilon"] == pytest.approx(asked, rel=1e-3)


def test_an_audit_by_one_run_stays_below_the_claim(capsys: Any) -> None:
    said = answer(capsys, "one-run", "--sigma", "0.3", "--canaries", "300", *QUICK)["one_run"]
    assert 0.5 < said["measured"]["epsilon"] <= said["claimed"]["epsilon"]


def test_a_guarantee_file_and_a_release_file_are_attacked(capsys: Any, tmp_path: Path) -> None:
    guarantee = account(Repeated(Gaussian(2.0, 1.0, Adjacency.ADD_REMOVE), 4), 1e-5)
    (tmp_path / "g.json").write_text(guarantee.to_json())
    assert answer(capsys, str(tmp_path / "g.json"), *QUICK)["findings"][0]["measured"]["epsilon"] > 1.0
    vault = Vault(np.eye(4), clip=0.5, adjacency="replace-one", budget=(100.0, 1e-5))
    vault.release(RandomProjection(3, 0.9), purpose="test").save(tmp_path / "r.npz")
    said = answer(capsys, str(tmp_path / "r.npz"), *QUICK)
    assert [f["kind"] for f in said["findings"]] == ["mechanism", "check", "mechanism"]
    assert said["refuted"] == []


def test_a_release_with_floating_point_noise_ends_with_exit_code_7(capsys: Any, tmp_path: Path) -> None:
    guarantee = account(Gaussian(1.0, 1.0, Adjacency.REPLACE_ONE), 1e-5)
    Release(SystemNoise().normal(30, 1.0), guarantee, {"sigma": 1.0}).save(tmp_path / "r.npz")
    assert run(["audit", str(tmp_path / "r.npz"), *QUICK]) == 7
    captured = capsys.readouterr()
    assert json.loads(captured.out)["refuted"] == ["the noise of every number was added on a grid"]
    assert "refutes 1 of its subjects" in captured.err


def test_a_transcript_is_inverted_to_its_records(capsys: Any, tmp_path: Path) -> None:
    generator = np.random.default_rng(0)
    x, gamma = generator.standard_normal((2, 30, 5))
    np.savez(tmp_path / "t.npz", points=interpolate(x, gamma, 0.6).value, towards=gamma, t=0.6)
    assert "30 records inverted" in answer(capsys, str(tmp_path / "t.npz"), *QUICK, code=7)["findings"][0]["detail"]
    # points that no party with these defence data sends are not taken for a success
    np.savez(tmp_path / "t.npz", points=-gamma, towards=gamma, t=0.6)
    assert answer(capsys, str(tmp_path / "t.npz"), *QUICK)["refuted"] == []


def test_the_printed_table_shows_claim_bound_and_verdict(capsys: Any) -> None:
    assert run("audit parameters --sigma 1 --adjacency add-remove --runs 40 --trials 20000".split()) == 0
    said = capsys.readouterr().out
    for words in ("claimed ε ≤", "ε ≥", "δ 1e-05, add-remove, proven", "not refuted"):
        assert words in said


@pytest.mark.parametrize(("words", "code", "why"), [
    ("embedding --epsilon 1", 2, "there is no default"),
    ("embedding --adjacency add-remove", 2, "either --sigma or --epsilon"),
    ("embedding --epsilon 1 --sigma 1 --adjacency add-remove", 2, "either --sigma or --epsilon"),
    ("embedding --epsilon 1 --adjacency add-remove --steps 3", 2, "released once"),
    ("sketch --epsilon 1 --adjacency add-remove --steps 3", 2, "released once"),
    ("projection --epsilon 1 --adjacency add-remove", 5, "replace-one"),
    ("nothing-of-this-name", 2, "no mechanism and no file"),
    ("one-run", 2, "needs --sigma"),
    ("parameters --sigma 1 --adjacency add-remove --confidence 1.5", 2, "confidence"),
    ("parameters --sigma 1 --adjacency add-remove --runs 0 --trials 0", 2, "needs runs"),
])  # fmt: skip
def test_wrong_options_are_refused_in_one_sentence(capsys: Any, words: str, code: int, why: str) -> None:
    assert run(["audit", *words.split()]) == code
    assert why in sentence(capsys)


def test_damaged_files_are_refused(capsys: Any, tmp_path: Path) -> None:
    for name in ("x.npz", "x.json"):
        (tmp_path / name).write_bytes(b"\xff\x00 nothing")
        assert run(["audit", str(tmp_path / name)]) == 3
        sentence(capsys)
    np.savez(tmp_path / "x.npz", points=np.zeros((2, 3)), towards=np.zeros((2, 4)), t=0.5)
    assert run(["audit", str(tmp_path / "x.npz")]) == 3
    assert "one space" in sentence(capsys)
