"""Every benchmark imports and answers `--help` without running."""

from __future__ import annotations

import json
from pathlib import Path

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
