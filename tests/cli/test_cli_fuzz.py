"""A short run of the fuzzer: hostile options, files, folders and messages end in one sentence and the right code."""

from __future__ import annotations

from pathlib import Path

import pytest

import warm

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
def test_thirty_hostile_inputs_are_handled(tmp_path: Path) -> None:
    words = ["--count", "30", "--seed", "3", "--bombs", "0", "--jobs", "1", "--keep", str(tmp_path / "failures")]
    found = warm.run(["-m", "fuzz", *words], cwd=ROOT, timeout=600.0)
    assert found.returncode == 0, found.stdout[-5000:] + found.stderr[-2000:]
    assert " inputs, 0 failed" in found.stdout
