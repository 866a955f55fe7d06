"""`privot bench sketches`, `valuation` and `long-table`: made-up records, measured; a peer is another interpreter."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from privot.bench import valuation_bench
from privot.bench.valuation_bench import PEER, PEER_SCRIPT, timed_scores
from privot.cli import run

pytest.importorskip("torch")


def fake_peer(folder: Path, code: str) -> str:
    """An interpreter that does what the environment of opendataval would."""
    path = folder / "python"
    path.write_text(f"#!{sys.executable}\nimport sys\nimport numpy as np\nargs = sys.argv[2:]\n{code}\n")
    os.chmod(path, 0o755)
    return str(path)


def answer(capsys: pytest.CaptureFixture[str], *words: str) -> dict:
    assert run(["bench", *words, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


SMALL = ["valuation", "--records", "300", "--validation", "200", "--columns", "60"]


def test_scores_are_measured_beside_a_peer(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    python = fake_peer(
        tmp_path,
        "x = np.load(args[0])['x']\nassert args[args.index('--threads') + 1] == '2'\n"
        "np.savez(args[1], score=np.arange(len(x)), seconds=5.0, processor_seconds=7.0, mebibytes=100.0)",
    )
    found = answer(capsys, *SMALL, "--peers", python)
    ours, theirs = found["rows"]
    assert ours["recall"] > 0.6 > theirs["recall"]
    assert found["times_less_processor_seconds"] == pytest.approx(7.0 / ours["processor_seconds"])
    assert found["times_less_mebibytes"] == pytest.approx(100.0 / ours["mebibytes"])


@pytest.mark.parametrize(
    ("code", "note"),
    [
        ("sys.exit(3)", "not installed"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGXCPU)", "ended after 9 s of processor time"),
        ("sys.exit(1)", "failed (exit code 1)"),
    ],
)
def test_a_peer_that_is_missing_or_takes_too_long_is_said_to(tmp_path: Path, code: str, note: str) -> None:
    found = timed_scores(PEER, [fake_peer(tmp_path, code), "script"], [], tmp_path / "out.npz", [], 1, 9)
    assert found == {"who": PEER, "seconds": None, "note": note}


def test_the_script_of_the_peer_says_that_it_is_not_installed(tmp_path: Path) -> None:
    # this interpreter has no opendataval
    command = [sys.executable, str(PEER_SCRIPT), "none.npz"]
    assert (
        timed_scores(PEER, command, ["--threads", "1", "--limit", "9"], tmp_path / "out.npz", [], 1, 9)["note"]
        == "not installed"
    )


def test_wrong_sizes_and_no_interpreter_are_refused_before_anything_is_measured(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(valuation_bench, "timed_scores", None)
    assert run(["bench", *SMALL, "--peers", str(tmp_path / "none")]) == 2
    assert "name a Python interpreter" in capsys.readouterr().err
    assert run(["bench", "valuation", "--records", "3"]) == 2


@pytest.mark.slow
def test_all_pairs_of_sketches_are_measured(capsys: pytest.CaptureFixture[str]) -> None:
    found = answer(capsys, "sketches", "--count", "3")
    assert found["pairs"] == 3
    assert [row["sketch"] for row in found["rows"]] == ["with prototypes", "without public data"]
    # a sketch with prototypes says more, and is larger
    assert found["rows"][0]["bytes_per_sketch"] > found["rows"][1]["bytes_per_sketch"] > 1000
    assert run(["bench", "sketches", "--count", "1"]) == 2


@pytest.mark.slow
def test_a_long_table_goes_through_the_commands(capsys: pytest.CaptureFixture[str]) -> None:
    found = answer(capsys, "long-table", "--rows", "3000")
    assert found["guarantee"]["standing"] == "proven"
    assert found["synth"]["peak_mebibytes_so_far"] > 50
    share = found["positive_share"]
    assert abs(share["real"] - share["synthetic"]) < 0.1
    assert run(["bench", "long-table", "--rows", "5"]) == 2
