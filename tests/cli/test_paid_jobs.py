"""What a job paid for is there after every kill, or what is lost is said, and nothing is paid a second time unasked."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

KILLER = Path(__file__).with_name("job_killer.py")


@pytest.mark.kills
@pytest.mark.slow
def test_a_killed_job_goes_on_with_one_charge_or_says_what_is_lost(tmp_path: Path) -> None:
    """One kill of each job; every kill ten times by `PRIVOT_KILLS=10`."""
    times = os.environ.get("PRIVOT_KILLS", "0")
    words = [times] if int(times) else ["1", "few"]
    made = subprocess.run([sys.executable, str(KILLER), str(tmp_path), *words], capture_output=True, text=True)
    assert made.returncode == 0, made.stderr
    lines = [json.loads(line) for line in made.stdout.splitlines()]
    # three jobs of five moments, one of three, and the demonstration of two
    assert len(lines) == ((3 * 5 + 3 + 2) * 3 * int(times) or 4)
    assert not [line for line in lines if line["wrong"]]


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"code": 0}, "it ended in 0"),
        ({"err": "privot: Interrupted: this run paid nothing."}, "1 charges, and it says"),
        ({"err": "privot: Interrupted: charged 2 times; the release is saved."}, "1 charges, and it says"),
        ({"code_again": 4, "err_again": "is lost, so allow a second charge"}, "it does not go on"),
        ({"charged": 2}, "2 charges where 1 are due"),
    ],
)
def test_what_is_wrong_about_a_kill_is_seen(changed: dict[str, object], said: str) -> None:
    # in a process of its own, because the killer loads much
    found = {"name": "adapt", "signal": "SIGTERM", "code": 130, "charged_then": 1, "code_again": 0, "err_again": ""}
    found |= {"err": "privot: Interrupted: charged once; the release is saved.", "charged": 1}
    code = (
        "import json, sys; sys.path.insert(0, sys.argv[1]); import job_killer; "
        "print(json.dumps([job_killer.wrong(found) for found in json.loads(sys.argv[2])]))"
    )
    words = [sys.executable, "-c", code, str(KILLER.parent), json.dumps([found, found | changed])]
    made = subprocess.run(words, capture_output=True, text=True, check=True)
    right, seen = json.loads(made.stdout)
    assert right == ""
    assert seen.startswith(said)
