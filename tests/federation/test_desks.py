"""Parties and a coordinator in one process: the same answers as without messages, and refusals with their reason."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from federation_folders import DESIGN, ORDER, D, coordinator, job, party, records

from privot import Ledger
from privot.errors import DataError, PolicyError, UsageError
from privot.federation import Sketch, compare_sketches, fedwad, triangle
from privot.federation.coordination.answers import Answer, checked
from privot.federation.coordination.coordinator import LATE, Coordinator
from privot.federation.coordination.federated_job import FederatedJob
from privot.federation.coordination.local_channel import LocalChannel
from privot.federation.coordination.requests import Request
from privot.federation.parties.desk import Desk
from privot.federation.parties.policy import Policy
from privot.federation.sketches.sketch_order import Order
from privot.federation.wire.signing import make_key, open_sealed, public_name, read_key
from privot.guarantee import Adjacency
from privot.mechanisms import SketchDesign

JOB = "ab" * 16


class Federation:
    """A coordinator and three desks in a folder."""

    def __init__(self, folder: Path, count: int = 3, **options) -> None:
        self.folder = folder
        self.asker = coordinator(folder / "coordinator")
        self.key = read_key(folder / "coordinator" / "signing.key")
        self.members = [party(folder / str(k), k, self.asker, **options) for k in range(count)]
        self.desks = [Desk(folder / str(k)) for k in range(count)]
        self.channel = LocalChannel({desk.name: desk.handle for desk in self.desks})

    def run(self, work: FederatedJob, name: str = "work") -> dict:
        at = Coordinator(self.folder / name, self.key, self.channel)
        try:
            return at.run(work)
        finally:
            at.close()

    def request(self, k: int = 0, protocol: str = "sketch", number: int = 0, job: str = JOB, **changes) -> bytes:
        if protocol == "sketch":
            changes.setdefault("order", ORDER)
        return Request(protocol, job, number, self.members[k].signer, **changes).sealed(self.key)

    def ask(self, data: bytes, k: int = 0) -> Answer:
        return Answer.opened(self.desks[k].handle(data), self.members[k].signer)

    def log(self, k: int = 0) -> str:
        return (self.folder / str(k) / "party.log").read_text()

    def charges(self, k: int = 0) -> int:
        with Ledger.open(self.folder / str(k) / "records.ledger") as ledger:
            return len(ledger.entries())

    def close(self) -> None:
        for desk in self.desks:
            desk.close()


@pytest.fixture
def federation(tmp_path: Path):
    made = Federation(tmp_path)
    yield made
    made.close()


def test_sketches_come_as_their_parties_stored_them_and_are_compared(federation: Federation) -> None:
    result = federation.run(job(federation.members, "sketch"))
    assert result["complete"]
    assert result["missing"] == {}
    stored = [next((federation.folder / str(k) / "sketches").glob("*.sketch")) for k in range(3)]
    kept = [federation.folder / "work" / "sketches" / f"{k}.sketch" for k in range(3)]
    assert [p.read_bytes() for p in stored] == [p.read_bytes() for p in kept]
    sketches = [Sketch.load(path, (m.signer,)) for path, m in zip(stored, federation.members, strict=True)]
    for i in range(3):
        for j in range(i + 1, 3):
            alone = compare_sketches(sketches[i], sketches[j], draws=0)
            assert result["w2"][i][j] == pytest.approx(alone.w2.value, abs=1e-9)
            assert result["sliced"][i][j] == pytest.approx(alone.sliced.value, abs=1e-9)
    assert result["guarantees"]["party 0"]["epsilon"] <= 1.0
    assert [federation.charges(k) for k in range(3)] == [1, 1, 1]
    assert not list(federation.folder.glob("*/sketches/*.secret"))


def test_triangle_and_fedwad_give_what_they_give_without_messages(federation: Federation) -> None:
    open_ = [records(k)[:30] for k in range(3)]
    result = federation.run(job(federation.members, "triangle"), "t")
    assert result["standing"] == "unproven"
    gamma = np.random.default_rng(0).standard_normal((30, D))
    for i, j in ((0, 1), (0, 2), (1, 2)):
        assert result["distances"][i][j] == pytest.approx(triangle(open_[i], open_[j], defence=gamma).value, abs=1e-9)
    result = federation.run(job(federation.members, "fedwad"), "f")
    for i, j in ((0, 1), (0, 2), (1, 2)):
        generator = np.random.default_rng(np.random.SeedSequence(0, spawn_key=(i, j)))
        start = generator.standard_normal((30, D))
        from privot.federation.protocols.answering import drive, local_party
        from privot.federation.protocols.fedwad import fedwad_steps

        steps = fedwad_steps(start, 2, generator=generator)
        alone = drive(steps, local_party(open_[i]), local_party(open_[j])).value
        assert result["distances"][i][j] == pytest.approx(alone, abs=1e-9)
        assert alone >= fedwad(open_[i], open_[j], 1, start=start, seed=0).value * 0.5
    assert result["rounds"] == 3
    # the vaults' ledgers know nothing of it: only open points were shown
    assert [federation.charges(k) for k in range(3)] == [0, 0, 0]


def test_labels_are_used_in_every_protocol(federation: Federation) -> None:
    labelled = Order(DESIGN.labelled(3), 1.0, 1e-5, Adjacency.REPLACE_ONE)
    result = federation.run(job(federation.members, "sketch", order=labelled), "s")
    assert result["complete"]
    work = FederatedJob("triangle", tuple(federation.members), dim=D, points=1, labels=True)
    result = federation.run(work, "t")
    from privot.transport._otdd import otdd

    y = np.arange(30) % 3
    expected = otdd(records(0)[:30], y, records(1)[:30], y).value
    assert result["distances"][0][1] == pytest.approx(expected, rel=1e-9)


def test_a_repeated_order_gets_the_same_sketch_and_one_charge(federation: Federation) -> None:
    first = federation.ask(federation.request())
    again = federation.ask(federation.request())
    later = federation.ask(federation.request(job="cd" * 16))
    assert first.sketch is not None
    assert first.sketch == again.sketch == later.sketch
    assert federation.charges() == 1
    assert "not charged again" in federation.log()
    federation.desks[0].close()
    federation.desks[0] = Desk(federation.folder / "0")
    assert federation.ask(federation.request()).sketch == first.sketch
    assert federation.charges() == 1


def test_a_lost_ledger_is_not_made_anew_where_a_paid_sketch_is_not_signed_yet(federation: Federation) -> None:
    federation.ask(federation.request())
    federation.desks[0].close()
    (stored,) = (federation.folder / "0" / "sketches").glob("*.sketch")
    stored.rename(stored.with_suffix(".paid"))
    ledger = federation.folder / "0" / "records.ledger"
    ledger.rename(federation.folder / "lost")
    with pytest.raises(DataError, match="restore the ledger"):
        Desk(federation.folder / "0")
    (federation.folder / "lost").rename(ledger)
    federation.desks[0] = Desk(federation.folder / "0")


def stranger(federation: Federation) -> bytes:
    key = make_key(federation.folder / "stranger.key")
    return Request("sketch", JOB, 0, federation.members[0].signer, order=ORDER).sealed(key)


def altered(federation: Federation) -> bytes:
    data = bytearray(federation.request())
    place = bytes(data).index(b"protocol")
    data[place] ^= 1
    return bytes(data)


def resigned(federation: Federation) -> bytes:
    """A right signature under a container that was tampered with afterwards."""
    return federation.request().replace(b'"schema": 1', b'"schema": 2')


REFUSALS = {
    "a stranger": (stranger, "does not allow any request from"),
    "an altered message": (altered, "damaged|signature"),
    "another schema": (resigned, "damaged|signature"),
    "garbage": (lambda w: b"hello", "damaged"),
    "nothing": (lambda w: b"", "damaged"),
    "another party's": (lambda w: w.request(1), "addressed to another"),
    "too much ε": (lambda w: w.request(order=Order(DESIGN, 1.5, 1e-5, Adjacency.REPLACE_ONE)), "at most"),
    "too much δ": (lambda w: w.request(order=Order(DESIGN, 1.0, 1e-4, Adjacency.REPLACE_ONE)), "at most"),
    "another adjacency": (
        lambda w: w.request(order=Order(DESIGN, 1.0, 1e-5, Adjacency.ADD_REMOVE)),
        "got a request under",
    ),
    "other classes": (
        lambda w: w.request(order=Order(DESIGN.labelled(4), 1.0, 1e-5, Adjacency.REPLACE_ONE)),
        "classes",
    ),
    "another space": (
        lambda w: w.request(order=Order(SketchDesign.plain(3, 1.0), 1.0, 1e-5, Adjacency.REPLACE_ONE)),
        "columns",
    ),
}


@pytest.mark.parametrize("name", REFUSALS)
def test_requests_outside_the_policy_are_refused_and_logged_with_the_reason(federation: Federation, name: str) -> None:
    import re

    make, why = REFUSALS[name]
    answer = federation.ask(make(federation))
    assert answer.refusal is not None
    assert re.search(why, answer.refusal)
    assert re.search(f"refused.*({why})", federation.log())
    assert federation.charges() == 0


def test_a_second_sketch_is_over_budget_and_only_the_log_states_the_amount(federation: Federation) -> None:
    federation.ask(federation.request())
    other = Order(SketchDesign.plain(D, 7.0), 1.0, 1e-5, Adjacency.REPLACE_ONE)
    answer = federation.ask(federation.request(number=1, order=other))
    assert answer.refusal == "The party's budget does not cover this."
    assert "ε" in federation.log().splitlines()[-1]
    assert federation.charges() == 1
    assert not list((federation.folder / "0" / "sketches").glob("*.secret"))


def test_a_number_is_used_once_and_requests_run_out(tmp_path: Path) -> None:
    rule = '[[allow]]\nprotocol = "sketch"\naskers = ["{}"]\nrequests = 2\ndays = 1\nepsilon = 1.0\ndelta = 1e-5\n'
    federation = Federation(tmp_path, 1)
    federation.close()
    path = tmp_path / "0" / "policy.toml"
    text = path.read_text()
    path.write_text(text[: text.index("[[allow]]")] + rule.format(federation.asker))
    federation.desks = [Desk(tmp_path / "0")]
    assert federation.ask(federation.request()).sketch
    other = Order(SketchDesign.plain(D, 7.0), 0.5, 1e-5, Adjacency.REPLACE_ONE)
    assert "number is used once" in str(federation.ask(federation.request(order=other)).refusal)
    assert federation.ask(federation.request(number=1)).sketch
    assert "all of them are used" in str(federation.ask(federation.request(number=2)).refusal)
    # what was accepted before is still answered, also after a restart
    federation.close()
    federation.desks = [Desk(tmp_path / "0")]
    assert federation.ask(federation.request()).sketch
    assert "all of them are used" in str(federation.ask(federation.request(number=2)).refusal)
    federation.close()


def test_unproven_protocols_need_an_opt_in_and_open_data(tmp_path: Path) -> None:
    federation = Federation(tmp_path, 2)
    question = next(job(federation.members, "triangle").steps((0, 1)))[0]
    path = tmp_path / "0" / "policy.toml"
    text = path.read_text()
    for change, why in (
        (lambda t: t.replace("allow_unproven = true", "allow_unproven = false"), "protects nobody"),
        (lambda t: t.replace('[open]\nfile = "open.npz"\n', ""), "no [open] data"),
        (lambda t: t[: t.index('[[allow]]\nprotocol = "triangle"')], "allows no triangle"),
    ):
        federation.desks[0].close()
        path.write_text(change(text))
        federation.desks[0] = Desk(tmp_path / "0")
        assert why in str(federation.ask(federation.request(0, "triangle", questions=(question,))).refusal)
    federation.close()


def test_false_and_late_answers_are_named_and_the_rest_is_right(federation: Federation) -> None:
    others = Federation(federation.folder / "others", 1)
    first, second, third = federation.desks

    def lies(data: bytes) -> bytes:
        return others.desks[0].handle(data)

    federation.channel = LocalChannel({first.name: first.handle, second.name: lies})
    result = federation.run(job(federation.members, "sketch"))
    assert not result["complete"]
    assert "not by the party" in result["missing"]["party 1"]
    assert result["missing"]["party 2"] == LATE
    assert result["w2"][0][1] is None
    # later they answer: the job goes on where it was, and asks the first party nothing
    federation.channel = LocalChannel({second.name: second.handle, third.name: third.handle})
    result = federation.run(job(federation.members, "sketch"))
    assert result["complete"]
    assert result["w2"][0][1] > 0
    assert [federation.charges(k) for k in range(3)] == [1, 1, 1]
    with pytest.raises(UsageError, match="another job"):
        federation.run(job(federation.members[:2], "sketch"))
    others.close()


def test_a_party_that_leaves_in_the_middle_of_fedwad_spoils_only_its_own_pairs(federation: Federation) -> None:
    desk, seen = federation.desks[2], []

    def leaves(data: bytes) -> bytes:
        seen.append(data)
        return desk.handle(data) if len(seen) < 2 else b"gone"

    federation.channel = LocalChannel({**{d.name: d.handle for d in federation.desks[:2]}, desk.name: leaves})
    result = federation.run(job(federation.members, "fedwad"))
    assert not result["complete"]
    assert "sent an invalid answer" in result["missing"]["party 2"]
    assert result["distances"][0][1] > 0
    assert result["distances"][0][2] is None
    federation.channel = LocalChannel({d.name: d.handle for d in federation.desks})
    whole = federation.run(job(federation.members, "fedwad"))
    assert whole["complete"]
    assert whole["distances"][0][1] == result["distances"][0][1]


def test_answers_to_other_questions_are_refused(federation: Federation) -> None:
    asked = Request("sketch", JOB, 0, federation.members[0].signer, order=ORDER)
    sent = asked.sealed(federation.key)
    good = federation.desks[0].handle(sent)
    assert checked(good, asked, sent).sketch
    elsewhere = Request("sketch", "cd" * 16, 0, federation.members[0].signer, order=ORDER)
    with pytest.raises(DataError, match="another request"):
        checked(good, elsewhere, elsewhere.sealed(federation.key))
    with pytest.raises(DataError, match="not by the party"):
        checked(federation.desks[1].handle(sent), asked, sent)
    inside = Answer.opened(good, federation.members[0].signer)
    key = read_key(federation.folder / "0" / "signing.key")
    for dishonest, why in (
        (Answer(inside.request), "must hold exactly one of"),
        (Answer(inside.request, sketch=inside.sketch, refusal="no"), "must hold exactly one of"),
        (Answer(inside.request, sketch=b"nonsense"), "damaged"),
    ):
        with pytest.raises(DataError, match=why):
            checked(dishonest.sealed(key), asked, sent)
    smaller = Order(DESIGN, 0.5, 1e-5, Adjacency.REPLACE_ONE)
    cheap = Request("sketch", JOB, 1, federation.members[0].signer, order=smaller)
    with pytest.raises(DataError, match="more than was ordered"):
        checked(Answer(inside.request, sketch=inside.sketch).sealed(key), cheap, sent)


def test_a_damaged_request_file_is_refused(federation: Federation) -> None:
    federation.ask(federation.request())
    path = federation.folder / "0" / "asked.jsonl"
    whole = path.read_text()
    federation.desks[0].close()
    # half a line is what a kill leaves
    path.write_text(whole + '{"at": 1')
    federation.desks[0] = Desk(federation.folder / "0")
    assert path.read_text() == whole
    federation.desks[0].close()
    path.write_text(whole.replace("digest", "digits"))
    with pytest.raises(DataError, match="backup"):
        Desk(federation.folder / "0")
    path.write_text(whole)
    federation.desks[0] = Desk(federation.folder / "0")
    with pytest.raises(UsageError, match="Another process"):
        Desk(federation.folder / "0")


@pytest.mark.parametrize(
    "change",
    [
        lambda t: t.replace("version = 1", "version = 2"),
        lambda t: t.replace('name = "party 0"', "name = 5"),
        lambda t: t + "\nsurprise = 1\n",
        lambda t: t.replace("requests = 20", "requests = -1"),
        lambda t: t.replace("requests = 20", 'requests = "20"'),
        lambda t: t.replace('protocol = "triangle"', 'protocol = "telepathy"'),
        lambda t: t.replace("allow_unproven = true", "epsilon = 1.0"),
        lambda t: t.replace('askers = ["', 'askers = ["x'),
        lambda t: t.replace("delta = 1e-5", "delta = 2.0"),
        lambda t: t.replace("days = 1", "days = 0"),
        lambda t: t + "not toml",
        lambda t: t.replace('ledger = "records.ledger"\n', ""),
    ],
)
def test_invalid_policies_are_refused(tmp_path: Path, change) -> None:
    party(tmp_path, 0, "ab" * 32)
    path = tmp_path / "policy.toml"
    assert Policy.read(path).name == "party 0"
    path.write_text(change(path.read_text()))
    with pytest.raises((DataError, UsageError)):
        Policy.read(path)


def test_requests_are_read_as_they_were_written(federation: Federation) -> None:
    around = SketchDesign.around(records(7), prototypes=5, directions=2, principal=2).labelled(3)
    order = Order(around, 0.5, 1e-6, Adjacency.ADD_REMOVE)
    data = Request("sketch", JOB, 3, federation.members[0].signer, order=order).sealed(federation.key)
    again, asker = Request.opened(data)
    assert asker == federation.asker == public_name(federation.key)
    assert again.order is not None
    assert again.order.digest() == order.digest()
    assert again.order.design.digest() == around.digest()


@pytest.mark.parametrize(
    "change",
    [
        {"dim": 0},
        {"dim": 6},
        {"dim": 1 << 24},
        {"radius": -1.0},
        {"directions": 1 << 30},
        {"weights": {"features": 1.0}},
        {"weights": {"features": 1e9, "shells": 1.0, "cells": 1.0, "residuals": 1.0}},
        {"unmatched": []},
        {"unmatched": [[1.0, -1.0, 1.0]]},
        {"classes": -1},
        {"classes": 10**6},
        {"epsilon": 0.0},
        {"delta": 1.5},
        {"adjacency": "neighbourly"},
        {"seed": -5},
        {"extra": 1},
    ],
)
def test_invalid_designs_are_refused(federation: Federation, change: dict) -> None:
    from privot.federation.wire.messages import decode_any, encode
    from privot.federation.wire.signing import seal

    payload = open_sealed(federation.request()).payload
    facts, arrays, _ = decode_any(payload, "request", {"centre": 1, "knots": 1, "basis": 2, "prototypes": 2})
    facts["order"].update(change)
    answer = federation.ask(seal(encode("request", facts, arrays), federation.key))
    assert answer.refusal is not None
    assert json.dumps(answer.refusal)
    assert federation.charges() == 0
    with pytest.raises((DataError, PolicyError)):
        Request.opened(seal(encode("request", facts, arrays), federation.key))
