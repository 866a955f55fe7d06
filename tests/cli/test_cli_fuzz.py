"""A short run of the fuzzer: hostile options, files, folders and messages end in one sentence and the right code."""

from __future__ import annotations

import os
import subprocess
import sys
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


def test_a_case_can_write_nothing_outside_its_folder(tmp_path: Path) -> None:
    """Not as an administrator either: what it tries is noted, and nothing is made, changed or removed."""
    outside = tmp_path / "outside"
    outside.mkdir(mode=0o755)
    (outside / "there").touch()
    (tmp_path / "case").mkdir()
    code = (
        "import os, sys; from pathlib import Path; from fuzz import running\n"
        "os.chdir('case'); sys.addaudithook(running._watch(Path('.')))\n"
        "place = Path('../outside'); Path('inside').touch()\n"
        "tries = [lambda: os.chmod(place, 0o700), lambda: (place / 'new').touch(),\n"
        "    lambda: os.remove(place / 'there'),\n"
        "    lambda: os.mkdir(place / 'deep'), lambda: os.rename('inside', place / 'inside')]\n"
        "for attempt in tries:\n"
        "    try: attempt()\n"
        "    except PermissionError: print('refused')\n"
    )
    found = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert found.stdout.split() == ["refused"] * 5
    assert (outside.stat().st_mode & 0o777, [path.name for path in outside.iterdir()]) == (0o755, ["there"])
    assert (tmp_path / "case/inside").exists()
    assert len((tmp_path / "case/written").read_text().splitlines()) == 5
