"""The laboratory's commands are those that privot knows by name, and need what they say they need."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path

import pytest

from privot.cli.plugged import GROUP, LABORATORY, load

ROOT = Path(__file__).parents[2]


def test_its_entry_points_are_the_names_that_privot_knows() -> None:
    ours = [point for point in entry_points(group=GROUP) if point.value.startswith("privot_lab.")]
    assert sorted(point.name for point in ours) == sorted(LABORATORY)
    assert all(callable(load(point)) for point in ours)


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
