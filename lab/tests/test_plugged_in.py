"""The laboratory's commands are those that privot knows by name, and need what they say they need."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path

import pytest

from privot.cli import run
from privot.cli.plugged import GROUP, LABORATORY
from privot.common.extras import load

ROOT = Path(__file__).parents[2]


def test_its_entry_points_are_the_names_that_privot_knows() -> None:
    ours = [point for point in entry_points(group=GROUP) if point.value.startswith("privot_lab.")]
    assert sorted(point.name for point in ours) == sorted(LABORATORY)
    assert all(callable(load(point)) for point in ours)


STRANGER = """
from privot_lab.studies.study import Paper, Study, StudyFinding

SETTINGS = {"quick": {"largest": 3}, "full": {"largest": 9}}
SQUARES = Study("squares", Paper("own", "Somebody 2026"), "Table 1", "Squares", "a_strange_study", (0.0, 0.0))

def compute(run, largest):
    return {"rows": [], "findings": [StudyFinding("squares grow", str(largest**2), largest > 1).to_dict()]}

def draw(found, out):
    return []
"""


def test_a_study_from_outside_is_one_file_and_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a_strange_study.py").write_text(STRANGER)
    held = tmp_path / "a_strange_study-1.0.dist-info"
    held.mkdir()
    (held / "METADATA").write_text("Metadata-Version: 2.1\nName: a-strange-study\nVersion: 1.0\n")
    lines = ["[privot_lab.studies]", "squares = a_strange_study:SQUARES", "cubes = a_strange_study:SQUARES"]
    (held / "entry_points.txt").write_text("\n".join(lines) + "\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert run(["study", "list", "--out", str(tmp_path / "results")]) == 0
    assert "a_strange_study" not in sys.modules
    assert run(["study", "run", "squares", "--out", str(tmp_path / "results")]) == 0
    assert "reproduced: squares grow" in capsys.readouterr().out
    # what it names is not what was asked for
    assert run(["study", "run", "cubes", "--out", str(tmp_path / "results")]) == 2
    assert "names no study called 'cubes'" in capsys.readouterr().err


@pytest.mark.slow
def test_without_pytorch_it_names_the_extra(tmp_path: Path) -> None:
    commands = [
        ["bench", "transport", "--sizes", "50"],
        ["bench", "growth"],
        ["study", "run", "wdp-table-2", "--out", "study", "--json"],
    ]
    script = ROOT / "tests" / "packaging" / "without_packages.py"
    done = subprocess.run(
        [sys.executable, str(script), "torch,triton,geomloss", "commands"],
        input=json.dumps(commands), capture_output=True, text=True, cwd=tmp_path, timeout=400, check=True,
    )  # fmt: skip
    for code, words in json.loads(done.stdout):
        assert code == 2, words
        assert words.count("\n") == 1
        assert "pip install 'privot[torch]'" in words
