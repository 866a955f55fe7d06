"""SIGKILL at random moments: the same guarantee, one charge, a usable generator."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

import warm

MOMENTS = int(os.environ.get("PRIVOT_SYNTH_KILLS", "2"))
"""How many jobs are killed; ten for the evidence."""


@pytest.mark.full("kills of a stream at random moments: test_paid_jobs.py kills one at a chosen moment")
@pytest.mark.kills
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork and SIGKILL")
def test_killed_streams_charge_all_their_blocks_and_never_more(tmp_path: Path) -> None:
    killer = Path(__file__).with_name("killer.py")
    moments = max(1, MOMENTS // 2)
    said = warm.run([str(killer), str(tmp_path), str(moments), "1", "sinkhorn"], timeout=600)
    assert said.returncode == 0, said.stderr
    undisturbed, *jobs = (json.loads(line) for line in said.stdout.splitlines())
    assert (undisturbed["charges"], undisturbed["steps"]) == (8, 40)
    assert len(jobs) == moments
    for job in jobs:
        assert job["code"] == 0
        assert job["usable"]
        assert job["charges"] == 8
        assert job["epsilon"] == undisturbed["epsilon"]
        # a kill loses one block of five steps at most, and none is run twice
        assert 40 - 5 * job["kills"] <= job["steps"] <= 40


@pytest.mark.gate(1)
@pytest.mark.kills
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork and SIGKILL")
@pytest.mark.parametrize("kind", ["arrays", "table"])
def test_killed_jobs_pay_once_and_end_as_if_undisturbed(tmp_path: Path, kind: str) -> None:
    killer = Path(__file__).with_name("killer.py")
    said = warm.run([str(killer), str(tmp_path), str(MOMENTS), "1", kind], timeout=600)
    assert said.returncode == 0, said.stderr
    undisturbed, *jobs = (json.loads(line) for line in said.stdout.splitlines())
    assert undisturbed["charges"] == 1
    assert len(jobs) == MOMENTS
    for job in jobs:
        assert job["code"] == 0
        assert job["usable"]
        assert job["steps"] == undisturbed["steps"]
        assert job["epsilon"] == undisturbed["epsilon"]
        # a payment whose release was lost is said to be lost, and only then is there a second charge
        assert job["charges"] == 1 + job["lost"]
    assert sum(job["kills"] for job in jobs) >= 1, "nobody was killed"
