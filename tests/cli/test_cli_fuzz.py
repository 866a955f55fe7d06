"""A short run of the fuzzer: hostile options, files, folders and messages end in one sentence and the right code."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
def test_sixty_hostile_inputs_are_handled(tmp_path: Path) -> None:
    words = ["--count", "60", "--seed", "3", "--bombs", "0", "--jobs", "1", "--keep", str(tmp_path / "failures")]
    found = subprocess.run(
        [sys.executable, "-m", "fuzz", *words], capture_output=True, text=True, cwd=ROOT, timeout=600
    )
    assert found.returncode == 0, found.stdout[-5000:] + found.stderr[-2000:]
    assert "60 inputs, 0 failed" in found.stdout
