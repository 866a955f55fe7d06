"""Every benchmark imports and answers `--help` without running."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import warm

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"

HELP = """
import contextlib, io, json, runpy, sys
sys.path.insert(0, sys.argv[1])
found = {}
for file in sys.argv[2:]:
    sys.argv, said = [file, "--help"], io.StringIO()
    try:
        with contextlib.redirect_stdout(said):
            runpy.run_path(file, run_name="__main__")
        found[file] = "ran to its end"
    except SystemExit as end:
        found[file] = "" if end.code == 0 and said.getvalue().startswith("usage:") else f"ended with {end.code!r}"
    except Exception as error:
        found[file] = f"{type(error).__name__}: {error}"
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def answers() -> dict[str, str]:
    """What is wrong with each benchmark's answer to --help; empty where nothing is. One process: imports take long."""
    files = [str(path) for path in sorted(BENCHMARKS.glob("*.py"))]
    ended = warm.run(["-c", HELP, str(BENCHMARKS), *files])
    assert ended.returncode == 0, ended.stderr
    found: dict[str, str] = json.loads(ended.stdout)
    return found


@pytest.mark.slow
@pytest.mark.parametrize("path", sorted(BENCHMARKS.glob("*.py")), ids=lambda path: path.stem)
def test_a_benchmark_answers_help_without_running(path: Path, answers: dict[str, str]) -> None:
    assert answers[str(path)] == ""


def studied(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(BENCHMARKS / "stand_in"), *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)


@pytest.mark.slow
def test_the_study_of_stand_ins_writes_every_result_once_and_renders_them(tmp_path: Path) -> None:
    data, out = tmp_path / "data", tmp_path / "out"
    data.mkdir()
    dice = np.random.default_rng(0)
    held = {}
    for domain in ("amazon", "caltech10", "dslr", "webcam"):
        held |= {f"{domain}_x": dice.integers(0, 9, (40, 5)), f"{domain}_y": np.arange(40) % 2}
    np.savez(data / "office_caltech_surf.npz", **held)
    words = ["run", "--data", str(data), "--out", str(out), "--pairs", "office-amazon-dslr", "--seeds", "0"]
    words += ["--methods", "source,stand-in", "--epsilons", "1", "--device", "cpu", "--limit", "300"]
    few = ["warmup=2", "finish=2", "check=2", "generator=2", "fit=2", "samples=20"]
    for _ in range(2):
        # a process of its own: it starts others, which a fork of a warm one could not
        ended = studied(*words, "--set", *few)
        assert ended.returncode == 0, ended.stderr
        assert "2 results, 2 wanted" in ended.stdout
    lines = [json.loads(line) for path in out.glob("*.jsonl") for line in path.read_text().splitlines()]
    assert [(line["method"], line["epsilon"]) for line in lines] == [("stand-in", 1.0), ("source", None)]
    assert lines[0]["standing"] == "proven"
    assert 0.9 < lines[0]["charged"] <= 1.0
    # settings that were changed for a trial do not reach the page
    for line in lines:
        line["changed"] = {}
    (out / "whole.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    ended = studied("table", "--out", str(out))
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.count("| A→D |") == 1
    assert f"| A→D | {lines[1]['score']:.1f} (1) | {lines[0]['score']:.1f} (1) |" in ended.stdout
