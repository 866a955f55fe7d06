"""A short run of the fuzzer: hostile options, files, folders and messages end in one sentence and the right code."""

from __future__ import annotations

from pathlib import Path

import pytest

import warm

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
def test_hostile_inputs_are_handled(tmp_path: Path, whole_run: bool) -> None:
    count, kept = "60" if whole_run else "20", str(tmp_path / "failures")
    words = ["--count", count, "--seed", "3", "--bombs", "0", "--jobs", "1", "--keep", kept]
    found = warm.run(["-m", "fuzz", *words], cwd=ROOT, timeout=600.0)
    assert found.returncode == 0, found.stdout[-5000:] + found.stderr[-2000:]
    assert " inputs, 0 failed" in found.stdout
