"""Killed at any moment: no budget is lost, none is spent twice, and the answer is the same or reported missing."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from federation_folders import ORDER, coordinator, party

import warm
from privot.federation.coordination.requests import Request
from privot.federation.parties.desk import Desk
from privot.federation.wire.signing import read_key


@pytest.mark.kills
def test_a_party_killed_at_any_step_pays_once_and_gives_the_same_answer(tmp_path: Path, whole_run: bool) -> None:
    asker = coordinator(tmp_path / "hub")
    member = party(tmp_path / "0", 0, asker)
    # the ledger and its budget are there before anything is asked
    Desk(tmp_path / "0").close()
    request = tmp_path / "request"
    request.write_bytes(
        Request("sketch", "ab" * 16, 0, member.signer, order=ORDER).sealed(read_key(tmp_path / "hub" / "signing.key"))
    )
    every = 1 if whole_run else 3
    killer = Path(__file__).with_name("kill_desk.py")
    done = warm.run([str(killer), str(tmp_path / "0"), str(request), "10" if whole_run else "3", str(every)])
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    # every step before the last trial ended in a kill: request, secret, charge, sketch, secret gone
    assert len(found["steps"]) > 15 // every
    assert not found["steps"][-1]["killed"]
    assert all(t["killed"] for t in found["steps"][:-1])
    for t in (*found["steps"], *found["random"]):
        assert t["right"], found
        assert t["charges"] == 1, found
        assert t["secrets"] == 0, found
    assert any(t["killed"] for t in found["random"])
