"""`privot study claims`: every claim, its verdict, its counterexample, and what the number protects."""

import json

import pytest

from privot.cli import run

FEW = ["--points", "3", "--steps", "50"]


@pytest.mark.slow
def test_json_lists_every_claim_with_its_verdict_and_counterexample(capsys, tmp_path):
    plot = tmp_path / "claims.png"
    assert run(["study", "claims", "--json", "--plot", str(plot), *FEW]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert plot.stat().st_size > 10_000
    verdicts = {c["claim"]: c["verdict"] for c in answer["claims"]}
    assert [verdicts[str(n)] for n in (1, 2, 3, 4, 13)] == ["holds"] * 5
    assert [verdicts[str(n)] for n in (5, 6)] == ["holds under"] * 2
    assert [verdicts[str(n)] for n in range(7, 13)] == ["refuted"] * 6
    for claim in answer["claims"]:
        if claim["verdict"] != "holds":
            assert claim["counterexample"]["refutes"] is True
            assert claim["counterexample"]["actual"] > claim["counterexample"]["claimed"]
    curves = {c["accountant"]: c for c in answer["epsilon_against_sigma"]["curves"]}
    assert len(curves) == 6
    assert curves["Wasserstein"]["standing"] == "unproven"
    assert curves["Wasserstein"]["epsilon"][0] < curves["Wasserstein"]["epsilon"][-1]
    assert curves["privacy loss"]["epsilon"][0] > curves["privacy loss"]["epsilon"][-1]
    assert answer["epsilon_against_sigma"]["adjacency"] == "add-remove"


def test_the_printed_page_explains_the_verdicts(capsys):
    assert run(["study", "claims", *FEW]) == 0
    out = capsys.readouterr().out
    for words in (
        "holds under independent, non-adaptive",
        "do not sign",
        "says nothing about guessing",
        "claimed at most",
    ):
        assert words in out


@pytest.mark.parametrize("wrong", [["--points", "1"], ["--rate", "2"], ["--delta", "0"], ["--plot", "claims.txt"]])
def test_wrong_options_are_refused_in_one_sentence(capsys, wrong):
    assert run(["study", "claims", *FEW, *wrong]) == 2
    err = capsys.readouterr().err
    assert "Traceback" not in err
    assert len(err.strip().splitlines()) == 1
