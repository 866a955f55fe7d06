"""Every benchmark imports and answers `--help` without running; the attack on words runs on a few texts."""

from __future__ import annotations

import gzip
import json
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


@pytest.mark.slow
def test_the_attack_on_words_recovers_words_from_messages_that_hide_nothing(tmp_path: Path) -> None:
    dice = np.random.default_rng(0)
    letters = "abcdefghijklmnopqrstuvwxyz"
    words = [a + b + c for a in letters[:10] for b in letters for c in letters[:2]]
    np.savez(tmp_path / "vectors.npz", words=np.array(words), vectors=dice.standard_normal((len(words), 8)))
    with gzip.open(tmp_path / "texts.jsonl.gz", "wt", encoding="utf-8") as file:
        for _ in range(4):
            file.write(json.dumps({"topic": "none", "text": " ".join(dice.choice(words[300:], 30))}) + "\n")
    files = [str(tmp_path / "texts.jsonl.gz"), str(tmp_path / "vectors.npz")]
    ended = warm.run(["audit_words.py", *files, "--pairs", "2"], cwd=BENCHMARKS)
    assert ended.returncode == 0, ended.stderr
    rates = {row.split("|")[1].strip(): float(row.split("|")[2]) for row in ended.stdout.splitlines()[2:]}
    # interpolants towards a γ that is known are inverted to the last digit (McCann)
    assert rates["TriangleWad, shared γ, inverted"] == 1.0
    assert set(rates) == {
        "FedWad, γ read as it is",
        "FedWad, closed form",
        "TriangleWad, η read as it is",
        "TriangleWad, shared γ, inverted",
    }
