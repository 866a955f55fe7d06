"""A party that only shows open points: no vault, no ledger; sketches are refused by its policy."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from federation_folders import ORDER, D, coordinator, records

from privot.errors import DataError, UsageError
from privot.federation import triangle
from privot.federation.coordination.answers import Answer
from privot.federation.coordination.coordinator import Coordinator
from privot.federation.coordination.federated_job import FederatedJob, Member
from privot.federation.coordination.local_channel import LocalChannel
from privot.federation.coordination.requests import Request
from privot.federation.parties.desk import Desk
from privot.federation.parties.enrolment import make_party
from privot.federation.parties.policy import Policy
from privot.federation.wire.messages import Question
from privot.federation.wire.signing import read_key

OPEN = '[open]\nfile = "open.npz"\n'
DATA = '[data]\nfile = "r.npz"\nledger = "r.ledger"\nadjacency = "replace-one"\nepsilon = 1.0\ndelta = 1e-5\n'


def rule(protocol: str, asker: str) -> str:
    priced = "epsilon = 1.0\ndelta = 1e-5\n" if protocol == "sketch" else "allow_unproven = true\n"
    return f'[[allow]]\nprotocol = "{protocol}"\naskers = ["{asker}"]\nrequests = 20\ndays = 1\n{priced}'


def open_party(folder: Path, k: int, asker: str, body: str = OPEN) -> Member:
    signer = make_party(folder, f"party {k}")
    np.savez(folder / "open.npz", x=records(k)[:30])
    text = f'version = 1\nname = "party {k}"\n{body}{rule("triangle", asker)}'
    (folder / "policy.toml").write_text(text)
    return Member(f"party {k}", signer)


def test_two_parties_with_open_points_alone_are_compared(tmp_path: Path) -> None:
    asker = coordinator(tmp_path / "hub")
    members = [open_party(tmp_path / str(k), k, asker) for k in range(2)]
    desks = [Desk(tmp_path / str(k)) for k in range(2)]
    channel = LocalChannel({m.signer: d.handle for m, d in zip(members, desks, strict=True)})
    at = Coordinator(tmp_path / "job", read_key(tmp_path / "hub" / "signing.key"), channel)
    try:
        result = at.run(FederatedJob("triangle", tuple(members), dim=D))
    finally:
        at.close()
        for desk in desks:
            desk.close()
    assert result["complete"], result["missing"]
    expected = triangle(records(0)[:30], records(1)[:30], defence=np.ones((1, D))).value
    assert result["distances"][0][1] == pytest.approx(expected, rel=1e-9)
    # there is no vault, so nothing was made for one
    assert not list(tmp_path.glob("*/*.ledger*"))


def test_a_sketch_of_a_party_without_data_is_refused_by_its_policy(tmp_path: Path) -> None:
    asker = coordinator(tmp_path / "hub")
    member = open_party(tmp_path / "0", 0, asker)
    desk = Desk(tmp_path / "0")
    try:
        request = Request("sketch", "ab" * 16, 0, member.signer, order=ORDER)
        answer = Answer.opened(desk.handle(request.sealed(read_key(tmp_path / "hub" / "signing.key"))), member.signer)
    finally:
        desk.close()
    assert answer.refusal == "The policy allows no sketch."


def test_policies_that_contradict_themselves_are_refused(tmp_path: Path) -> None:
    asker = "ab" * 32
    path = tmp_path / "policy.toml"
    for body, why in (
        ("", r"neither \[data\].*nor \[open\]"),
        (OPEN + rule("sketch", asker), r"allows sketches and has no \[data\]"),
        ("[open]\n", r"\[open\] must state file"),
        (DATA.replace("r.npz", "open.npz") + OPEN, r"\[open\] names the file of \[data\]"),
    ):
        path.write_text(f'version = 1\nname = "one"\n{body}')
        with pytest.raises(DataError, match=why):
            Policy.read(path)
    path.write_text(f'version = 1\nname = "one"\n{DATA}{OPEN}{rule("sketch", asker)}')
    assert Policy.read(path).vault is not None


def test_labels_of_too_many_columns_are_refused_before_anything_is_computed(tmp_path: Path) -> None:
    asker = coordinator(tmp_path / "hub")
    member = open_party(tmp_path / "0", 0, asker)
    with pytest.raises(UsageError, match="labels take 100020000 columns"):
        FederatedJob("triangle", (member, Member("b", "22" * 32)), dim=10_000, labels=True)
    np.savez(tmp_path / "0" / "open.npz", x=np.zeros((100, 784)), y=np.arange(100) % 2)
    desk = Desk(tmp_path / "0")
    try:
        question = Question(np.ones((1, 2 * 784 + 784**2)), 0.5)
        request = Request("triangle", "ab" * 16, 0, member.signer, questions=(question,), labels=True)
        answer = Answer.opened(desk.handle(request.sealed(read_key(tmp_path / "hub" / "signing.key"))), member.signer)
    finally:
        desk.close()
    assert "With labels the open data make an answer of 492979200 bytes" in str(answer.refusal)
