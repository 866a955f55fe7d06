"""`privot bench sketches`, `valuation`, `long-table`, `partitions`, `shards`: made-up records, measured."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import warm
from privot.cli import run
from privot_lab.bench import valuation_bench
from privot_lab.bench.valuation_bench import PEER, PEER_SCRIPT, timed_scores

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
def test_a_long_table_goes_through_the_commands(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first command is a fork with its libraries loaded; the second a process of its own, whose memory counts."""
    start = subprocess.run

    def synth_in_a_fork(words: list[str], **given: Any) -> Any:
        return warm.run(words[1:]) if words[3] == "synth" else start(words, **given)

    monkeypatch.setattr("privot_lab.bench.tables.long_table_bench.subprocess.run", synth_in_a_fork)
    found = answer(capsys, "long-table", "--rows", "800")
    assert found["guarantee"]["standing"] == "proven"
    assert found["sample"]["peak_mebibytes_so_far"] > 50
    share = found["positive_share"]
    assert abs(share["real"] - share["synthetic"]) < 0.1
    assert run(["bench", "long-table", "--rows", "5"]) == 2


def test_passes_over_partitions_and_shards_are_measured(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kept = ["--workers", "1", "--folder", str(tmp_path)]
    passes = answer(capsys, "partitions", "--rows", "300", "--files", "2", *kept, "--passes")["passes"]
    assert [row["what"] for row in passes] == ["reading", "naming", "counts", "scores"]
    found = answer(capsys, "shards", "--images", "100", "--files", "2", *kept, "--features", "64")["stages"]
    assert [row["what"] for row in found] == ["reading", "naming", "release of 64 features"]
    # what is kept is used again
    assert {path.name for path in tmp_path.iterdir()} == {"schema.json", "rows-300-2", "shards-100-2"}
    assert all(row["seconds"] > 0.0 for row in (*passes, *found))


@pytest.mark.parametrize(
    "words",
    [["partitions", "--rows", "5"], ["shards", "--features", "x"], ["shards", "--images", "100", "--files", "0"]],
)
def test_partitions_that_cannot_be_are_refused(words: list[str], tmp_path: Path) -> None:
    assert run(["bench", *words, "--folder", str(tmp_path)]) == 2
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_partitions_go_through_the_command(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """The command is another process; a short one stands for it here, whose end and whose errors are seen."""
    from privot_lab.bench.partitioned import partition_bench

    class Short(partition_bench.subprocess.Popen):  # type: ignore[type-arg]
        def __init__(self, words: list[str], **options: object) -> None:
            assert words[1:4] == ["-m", "privot", "synth"]
            held = "import time; x = bytes(range(256)) * 400_000; time.sleep(0.5)"
            super().__init__([sys.executable, "-c", held], **options)  # type: ignore[call-overload]

    monkeypatch.setattr(partition_bench.subprocess, "Popen", Short)
    found = answer(capsys, "partitions", "--rows", "300", "--files", "2")
    assert found["mebibytes"] > 90
    assert found["bytes"] > 1000
