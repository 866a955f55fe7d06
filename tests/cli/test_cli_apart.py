"""`privot adapt --ask`, `privot answer`, `privot adapt --answer`: two machines, two files, one charge."""

from __future__ import annotations

import errno
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from safetensors.numpy import load_file

import warm
from privot.adaptation.adaptation_answer import to_bytes
from privot.adaptation.adaptation_request import AdaptationRequest
from privot.cli import run
from privot.common import files
from privot.federation.wire.signing import seal
from privot.release import Release

pytestmark = pytest.mark.slow

TERMS = "--epsilon 5 --delta 1e-5".split()
QUICK = "--seed 1 --device cpu --range 0,1 --set fit=3 --set finish=10".split()


class World:
    """An engineer's folder and a party's, which share nothing but what is copied between them."""

    def __init__(self, folder: Path) -> None:
        self.engineer, self.party = folder / "engineer", folder / "party"
        dice = np.random.default_rng(0)
        y = np.arange(120) % 2
        for place, name, shift in ((self.engineer, "source", 0.0), (self.party, "target", 0.1)):
            place.mkdir()
            x = np.clip(0.25 + 0.4 * y[:, None] + shift + 0.05 * dice.standard_normal((120, 2)), 0, 1)
            np.savez(place / f"{name}.npz", x_train=x[:80], y_train=y[:80], x_test=x[80:], y_test=y[80:])
        self.source, self.target = str(self.engineer / "source.npz"), str(self.party / "target.npz")
        self.request, self.job = self.engineer / "request.json", self.engineer / "job"
        self.answered, self.ledger = self.party / "answer.release", self.party / "target.npz.ledger"

    def ask(self, *more: str) -> int:
        words = ["--ask", str(self.request), "--records", "80", "--out", str(self.job)]
        return run(["adapt", self.source, *TERMS, *QUICK, *words, *more])

    def answer(self, *more: str) -> int:
        return run(["answer", str(self.request), self.target, *TERMS, "--out", str(self.answered), *more])

    def learn(self, *more: str, job: Path | None = None, answer: Path | None = None) -> int:
        words = ["--answer", str(answer or self.answered), "--out", str(job or self.job), "--device", "cpu"]
        return run(["adapt", self.source, *words, *more])

    def change(self, **changes: Any) -> None:
        self.request.write_text(json.dumps({**json.loads(self.request.read_text()), **changes}))


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def charges(capsys: Any, world: World) -> int:
    capsys.readouterr()
    if not world.ledger.exists():
        return 0
    assert run(["ledger", "show", str(world.ledger), "--json"]) == 0
    return sum(len(d["entries"]) for d in json.loads(capsys.readouterr().out)["datasets"])


def refused(capsys: Any, code: int, wanted: int, says: str) -> None:
    said = capsys.readouterr().err
    assert code == wanted, said
    assert said.count("\n") == 1, said
    assert says in said


@pytest.mark.slow
def test_two_processes_exchange_two_files_and_end_with_a_model(world: World) -> None:
    def privot(*words: str) -> Any:
        done = warm.run(["-m", "privot", *words, "--json"])
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    asking = ["--ask", str(world.request), "--records", "80", "--out", str(world.job)]
    asked = privot("adapt", world.source, *TERMS, *QUICK, *asking)
    sent = world.party / "received.json"
    sent.write_bytes(world.request.read_bytes())
    key = ["--key", str(world.party / "k")]
    paid = privot("answer", str(sent), world.target, *TERMS, "--out", str(world.answered), *key)
    assert (paid["paid"], paid["digest"]) == (True, asked["digest"])
    assert (paid["cost"]["adjacency"], paid["cost"]["standing"]) == ("replace-one", "proven")
    back = world.engineer / "answer"
    back.write_bytes(world.answered.read_bytes())
    (world.engineer / "k.pub").write_bytes((world.party / "k.pub").read_bytes())
    trusting = ["--trust", str(world.engineer / "k.pub"), "--device", "cpu"]
    made = privot("adapt", world.source, "--answer", str(back), "--out", str(world.job), *trusting)
    assert 4.9 < made["guarantee"]["epsilon"] <= 5.0
    assert made["guarantee"]["epsilon"] == pytest.approx(paid["cost"]["epsilon"], rel=1e-9)
    assert made["signer"] == (world.party / "k.pub").read_text().strip()
    left = {p.name for p in world.job.iterdir()}
    assert {"model.safetensors", "config.json", "guarantee.json", "report.html"} <= left
    assert not any("ledger" in p.name for p in world.engineer.rglob("*"))


def test_training_on_an_answer_gives_the_same_model_as_one_process(world: World) -> None:
    """The release of an in-process run, sent as an answer: the same weights to the last bit."""
    whole = world.engineer / "whole"
    assert run(["adapt", world.source, world.target, *TERMS, *QUICK, "--out", str(whole)]) == 0
    assert world.ask() == 0
    request = AdaptationRequest.read(world.request)
    sent = world.engineer / "a.release"
    sent.write_bytes(seal(to_bytes(Release.load(whole / "block-1.npz"), request), Ed25519PrivateKey.generate()))
    assert world.learn(answer=sent) == 0
    one, two = (load_file(folder / "model.safetensors") for folder in (whole, world.job))
    assert one.keys() == two.keys()
    for name in one:
        np.testing.assert_array_equal(one[name], two[name])
    told = [json.loads((folder / "guarantee.json").read_text()) for folder in (whole, world.job)]
    assert told[0]["epsilon"] == told[1]["epsilon"]
    assert told[0]["events"] == told[1]["events"]


def test_a_request_alone_is_explained_and_costs_nothing(capsys: Any, world: World) -> None:
    assert world.ask() == 0
    capsys.readouterr()
    assert run(["answer", str(world.request)]) == 0
    said = capsys.readouterr().out
    assert all(word in said for word in ("80 records", "ε = ", "δ = 1e-05", "replace-one", "proven"))
    assert not world.ledger.exists()


def test_the_same_request_gets_the_same_answer_and_is_paid_once(capsys: Any, world: World) -> None:
    assert world.ask() == 0
    assert world.answer() == 0
    first = world.answered.read_bytes()
    assert world.answer() == 0
    world.answered.unlink()
    capsys.readouterr()
    assert world.answer("--json") == 0
    assert json.loads(capsys.readouterr().out)["paid"] is False
    assert world.answered.read_bytes() == first
    assert charges(capsys, world) == 1


def test_an_answer_that_cannot_be_written_is_not_lost(capsys: Any, world: World) -> None:
    assert world.ask() == 0

    def full(*_: Any, **__: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    capsys.readouterr()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(files, "write_whole", full)
        refused(capsys, world.answer("--json"), 3, "costs nothing")
    assert charges(capsys, world) == 1
    assert world.answer("--json") == 0
    assert json.loads(capsys.readouterr().out)["paid"] is False
    assert charges(capsys, world) == 1
    assert world.learn() == 0


def test_a_request_changed_after_it_was_answered_is_a_new_request(capsys: Any, world: World) -> None:
    assert world.ask() == 0
    assert world.answer() == 0
    assert world.learn() == 0
    features = json.loads(world.request.read_text())["features"]
    world.change(features={**features, "seed": 2})
    capsys.readouterr()
    refused(capsys, world.answer("--json"), 2, "overwrites nothing")
    world.answered.unlink()
    refused(capsys, world.answer("--json"), 4, "")
    assert not world.answered.exists()
    assert charges(capsys, world) == 1


@pytest.mark.parametrize(
    ("changes", "code", "says"),
    [
        ({"schema": 2}, 3, "schema"),
        ({"sigma": -1.0}, 3, "σ"),
        ({"epsilon": -1.0}, 3, "ε"),
        ({"records": 81}, 3, "81 records"),
        ({"code": "x"}, 3, "nothing else"),
        ({"epsilon": 50.0, "sigma": 0.5}, 3, "σ"),
    ],
)
def test_a_malformed_request_creates_no_ledger(
    capsys: Any, world: World, changes: dict[str, Any], code: int, says: str
) -> None:
    assert world.ask() == 0
    world.change(**changes)
    capsys.readouterr()
    refused(capsys, world.answer("--json"), code, says)
    assert sorted(p.name for p in world.party.iterdir()) == ["target.npz"]


def test_a_request_that_costs_more_than_the_party_allows_is_refused(capsys: Any, world: World) -> None:
    """The party's own words count: a request cannot set the budget, nor use more of it than was allowed."""
    assert world.ask() == 0
    capsys.readouterr()
    refused(capsys, world.answer("--epsilon", "4", "--json"), 4, "nothing was paid")
    refused(capsys, world.answer("--delta", "1e-9", "--json"), 4, "nothing was paid")
    assert not world.ledger.exists()
    # a budget that covers it once
    assert world.answer() == 0
    world.request.unlink()
    capsys.readouterr()
    assert run(["adapt", world.source, *TERMS, "--range", "0,1", "--ask", str(world.request), "--records", "80",
                "--out", str(world.engineer / "two")]) == 0  # fmt: skip
    capsys.readouterr()
    other = ["--out", str(world.party / "two.release"), "--json"]
    refused(capsys, run(["answer", str(world.request), world.target, *TERMS, *other]), 4, "ε")
    assert not (world.party / "two.release").exists()
    assert charges(capsys, world) == 1


def test_a_lost_ledger_gives_no_second_budget(capsys: Any, world: World) -> None:
    assert world.ask() == 0
    assert world.answer() == 0
    for file in world.party.glob("target.npz.ledger*"):
        if file.is_file():
            file.unlink()
    world.answered.unlink()
    capsys.readouterr()
    refused(capsys, world.answer("--json"), 3, "restore")
    assert not world.ledger.exists()


def test_an_answer_to_another_job_or_an_altered_one_trains_nothing(capsys: Any, world: World) -> None:
    assert world.ask() == 0
    assert world.answer() == 0
    first = world.request.read_bytes()
    world.request.unlink()
    other = world.engineer / "other"
    assert world.ask("--seed", "2", "--out", str(other)) == 0
    assert world.request.read_bytes() != first
    capsys.readouterr()
    refused(capsys, world.learn("--json", job=other), 3, "another request")
    data = bytearray(world.answered.read_bytes())
    data[len(data) // 2] ^= 1
    (world.engineer / "bad").write_bytes(bytes(data))
    refused(capsys, world.learn("--json", answer=world.engineer / "bad"), 3, "answer")
    for job in (other, world.job):
        assert sorted(p.name for p in job.iterdir()) == ["job.json"]


def test_training_is_resumed_with_its_own_answer_only(capsys: Any, world: World) -> None:
    assert world.ask() == 0
    assert world.answer() == 0
    assert world.learn() == 0
    before = load_file(world.job / "model.safetensors")
    assert world.learn() == 0
    after = load_file(world.job / "model.safetensors")
    assert all((before[name] == after[name]).all() for name in before)
    # an honest second answer to the same request has other noise
    request, release = AdaptationRequest.read(world.request), Release.load(world.job / "block-1.npz")
    again = Release({**release.value, "sums": release.value["sums"] + 1.0}, release.guarantee, release.public)
    (world.engineer / "two").write_bytes(seal(to_bytes(again, request), Ed25519PrivateKey.generate()))
    capsys.readouterr()
    refused(capsys, world.learn("--json", answer=world.engineer / "two"), 3, "another answer")


def test_a_job_that_was_changed_after_it_asked_is_refused(capsys: Any, world: World) -> None:
    assert world.ask() == 0
    assert world.answer() == 0
    file = world.job / "job.json"
    fields = json.loads(file.read_text())
    fields["settings"]["design"]["features"]["low"] = -1.0
    file.write_text(json.dumps(fields))
    capsys.readouterr()
    refused(capsys, world.learn("--json"), 3, "changed after it asked")


@pytest.mark.parametrize("change", ["labels", "rows", "order", "fewer"])
def test_an_answer_trains_only_on_the_source_of_its_request(capsys: Any, world: World, change: str) -> None:
    assert world.ask() == 0
    assert world.answer() == 0
    with np.load(world.source) as held:
        x, y = held["x_train"], held["y_train"]
    made = {"labels": (x, 1 - y), "rows": (x[:, ::-1], y), "order": (x[::-1], y[::-1]), "fewer": (x[2:], y[2:])}
    own, world.source = world.source, str(world.engineer / "other.npz")
    np.savez(world.source, x=made[change][0], y=made[change][1])
    capsys.readouterr()
    refused(capsys, world.learn("--json"), 3, "not the source")
    assert sorted(p.name for p in world.job.iterdir()) == ["job.json"]
    # the same rows in another file, and as other numbers, are the same source
    np.savez(world.source, x=x.astype(np.float32), y=y.astype(np.int8))
    assert world.learn() == 0
    world.source = own
    assert world.learn() == 0


def test_the_digest_of_the_source_stays_in_the_folder_of_the_job(world: World) -> None:
    assert world.ask() == 0
    digest = json.loads((world.job / "job.json").read_text())["settings"]["design"]["source"]
    assert len(digest) == 64
    assert world.answer() == 0
    assert world.learn() == 0
    sent = [world.request, world.answered, *world.party.rglob("*"), *world.job.iterdir()]
    for file in sent:
        if file.is_file() and file.name != "job.json":
            assert digest.encode() not in file.read_bytes(), file
    assert "source" not in world.request.read_text()


def test_a_job_of_an_earlier_version_without_a_source_digest_can_be_resumed(capsys: Any, world: World) -> None:
    assert world.ask() == 0
    assert world.answer() == 0
    file = world.job / "job.json"
    fields = json.loads(file.read_text())
    del fields["settings"]["design"]["source"]
    file.write_text(json.dumps(fields))
    own, world.source = world.source, str(world.engineer / "wide.npz")
    np.savez(world.source, x=np.full((9, 3), 0.5), y=np.arange(9) % 2)
    capsys.readouterr()
    refused(capsys, world.learn("--json"), 3, "not the source")
    world.source = own
    assert world.learn() == 0


@pytest.mark.parametrize(
    ("more", "code", "says"),
    [
        (["--method", "projection"], 2, "asks once"),
        (["--method", "dp-dann"], 2, "asks once"),
        (["--set", "blocks=2"], 2, "asks once"),
        (["--records", "1"], 2, "--records"),
        (["--resume"], 2, "--resume cannot be combined with --ask"),
        (["--ledger", "x"], 2, "--ledger cannot be combined with --ask"),
        (["--epsilon", "1e9"], 3, "ε"),
        (["--records", "1000000000"], 3, "records"),
        (["--seed", "-1"], 2, "2^128"),
        (["--seed", str(2**128)], 2, "2^128"),
    ],
)
def test_a_wrong_request_is_refused_and_starts_no_job(
    capsys: Any, world: World, more: list[str], code: int, says: str
) -> None:
    refused(capsys, world.ask(*more), code, says)
    assert not world.request.exists()
    assert not world.job.exists()


def test_options_that_cannot_be_combined_are_refused(capsys: Any, world: World) -> None:
    out = ["--out", str(world.job)]
    refused(capsys, run(["adapt", world.source, *TERMS, *QUICK, *out]), 2, "TARGET")
    refused(capsys, run(["adapt", world.source, world.target, *TERMS, *QUICK, *out, "--records", "80"]), 2, "--records")
    refused(capsys, world.learn(*TERMS), 2, "--epsilon cannot be combined with --answer")
    assert world.ask() == 0
    capsys.readouterr()
    resume = ["adapt", world.source, world.target, *TERMS, *QUICK, *out, "--resume"]
    refused(capsys, run(resume), 2, "--answer")
    refused(capsys, run(["answer", str(world.request), world.target, "--out", "x"]), 2, "--epsilon")
    refused(capsys, run(["answer", str(world.request), "--out", "x"]), 2, "TARGET")
    refused(capsys, run(["answer", str(world.engineer / "none")]), 3, "no file")
