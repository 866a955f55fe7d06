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
from privot.adaptation.adaptation_answer import read_answer, to_bytes
from privot.adaptation.adaptation_request import AdaptationRequest
from privot.cli import run
from privot.common import files
from privot.federation.wire.signing import seal
from privot.release import Release

pytestmark = pytest.mark.slow

TERMS = "--epsilon 5 --delta 1e-5".split()
PLAIN = "--seed 1 --device cpu --range 0,1 --set finish=10".split()
QUICK = [*PLAIN, "--set", "fit=3"]


class Exchange:
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
        words = ["--ask", str(self.request), "--set", "records=80", "--out", str(self.job)]
        return run(["adapt", self.source, *TERMS, *QUICK, *words, *more])

    def answer(self, *more: str) -> int:
        return run(["answer", str(self.request), self.target, *TERMS, "--out", str(self.answered), *more])

    def learn(self, *more: str, job: Path | None = None, answer: Path | None = None) -> int:
        words = ["--answer", str(answer or self.answered), "--out", str(job or self.job), "--device", "cpu"]
        return run(["adapt", self.source, *words, *more])

    def change(self, **changes: Any) -> None:
        self.request.write_text(json.dumps({**json.loads(self.request.read_text()), **changes}))


@pytest.fixture
def exchange(tmp_path: Path) -> Exchange:
    return Exchange(tmp_path)


def charges(capsys: Any, exchange: Exchange) -> int:
    capsys.readouterr()
    if not exchange.ledger.exists():
        return 0
    assert run(["ledger", "show", str(exchange.ledger), "--json"]) == 0
    return sum(len(d["entries"]) for d in json.loads(capsys.readouterr().out)["datasets"])


def refused(capsys: Any, code: int, wanted: int, says: str) -> None:
    said = capsys.readouterr().err
    assert code == wanted, said
    assert said.count("\n") == 1, said
    assert says in said


@pytest.mark.slow
def test_two_processes_exchange_two_files_and_end_with_a_model(exchange: Exchange) -> None:
    def privot(*words: str) -> Any:
        done = warm.run(["-m", "privot", *words, "--json"])
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    asking = ["--ask", str(exchange.request), "--set", "records=80", "--out", str(exchange.job)]
    asked = privot("adapt", exchange.source, *TERMS, *QUICK, *asking)
    sent = exchange.party / "received.json"
    sent.write_bytes(exchange.request.read_bytes())
    key = ["--key", str(exchange.party / "k")]
    paid = privot("answer", str(sent), exchange.target, *TERMS, "--out", str(exchange.answered), *key)
    assert (paid["paid"], paid["digest"]) == (True, asked["digest"])
    assert (paid["cost"]["adjacency"], paid["cost"]["standing"]) == ("replace-one", "proven")
    back = exchange.engineer / "answer"
    back.write_bytes(exchange.answered.read_bytes())
    (exchange.engineer / "k.pub").write_bytes((exchange.party / "k.pub").read_bytes())
    trusting = ["--trust", str(exchange.engineer / "k.pub"), "--device", "cpu"]
    made = privot("adapt", exchange.source, "--answer", str(back), "--out", str(exchange.job), *trusting)
    assert 4.9 < made["guarantee"]["epsilon"] <= 5.0
    assert made["guarantee"]["epsilon"] == pytest.approx(paid["cost"]["epsilon"], rel=1e-9)
    assert made["signer"] == (exchange.party / "k.pub").read_text().strip()
    left = {p.name for p in exchange.job.iterdir()}
    assert {"model.safetensors", "config.json", "guarantee.json", "report.html"} <= left
    assert not any("ledger" in p.name for p in exchange.engineer.rglob("*"))


SHORT = "--set warmup=3 --set check=3 --set generator=3 --set samples=50".split()


@pytest.mark.parametrize("method", [[], ["--method", "stand-in", *SHORT]], ids=["embedding", "stand-in"])
def test_training_on_an_answer_gives_the_same_model_as_one_process(exchange: Exchange, method: list[str]) -> None:
    """The release of an in-process run, sent as an answer: the same weights to the last bit."""
    whole = exchange.engineer / "whole"
    assert run(["adapt", exchange.source, exchange.target, *TERMS, *QUICK, *method, "--out", str(whole)]) == 0
    assert exchange.ask(*method) == 0
    request = AdaptationRequest.read(exchange.request)
    sent = exchange.engineer / "a.release"
    sent.write_bytes(seal(to_bytes(Release.load(whole / "block-1.npz"), request), Ed25519PrivateKey.generate()))
    assert exchange.learn(answer=sent) == 0
    one, two = (load_file(folder / "model.safetensors") for folder in (whole, exchange.job))
    assert one.keys() == two.keys()
    for name in one:
        np.testing.assert_array_equal(one[name], two[name])
    told = [json.loads((folder / "guarantee.json").read_text()) for folder in (whole, exchange.job)]
    assert told[0]["epsilon"] == told[1]["epsilon"]
    assert told[0]["events"] == told[1]["events"]


@pytest.mark.parametrize("size", [1e11, -1e11, 0.0])
def test_an_answer_with_absurd_sums_ends_in_a_model_or_in_one_sentence(
    capsys: Any, exchange: Exchange, size: float
) -> None:
    """A signed answer is still untrusted: its numbers are finite, and that is all that is known of them."""
    assert exchange.ask("--method", "stand-in", *SHORT) == 0
    assert exchange.answer() == 0
    request = AdaptationRequest.read(exchange.request)
    release, _ = read_answer(exchange.answered.read_bytes(), request)
    value = {"sums": np.full_like(release.value["sums"], size), "counts": np.full(1, size)}
    odd = exchange.engineer / "odd.release"
    forged = to_bytes(Release(value, release.guarantee, release.public), request)
    odd.write_bytes(seal(forged, Ed25519PrivateKey.generate()))
    capsys.readouterr()
    code = exchange.learn(answer=odd)
    said = capsys.readouterr().err
    assert code in (0, 3, 6), said
    assert said.count("\n") <= 1, said


def test_a_request_alone_is_explained_and_costs_nothing(capsys: Any, exchange: Exchange) -> None:
    assert exchange.ask() == 0
    capsys.readouterr()
    assert run(["answer", str(exchange.request)]) == 0
    said = capsys.readouterr().out
    assert all(word in said for word in ("80 records", "ε = ", "δ = 1e-05", "replace-one", "proven"))
    assert not exchange.ledger.exists()


def test_the_same_request_gets_the_same_answer_and_is_paid_once(capsys: Any, exchange: Exchange) -> None:
    assert exchange.ask() == 0
    assert exchange.answer() == 0
    first = exchange.answered.read_bytes()
    assert exchange.answer() == 0
    exchange.answered.unlink()
    capsys.readouterr()
    assert exchange.answer("--json") == 0
    assert json.loads(capsys.readouterr().out)["paid"] is False
    assert exchange.answered.read_bytes() == first
    assert charges(capsys, exchange) == 1


def test_an_answer_that_cannot_be_written_is_not_lost(capsys: Any, exchange: Exchange) -> None:
    assert exchange.ask() == 0

    def full(*_: Any, **__: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    capsys.readouterr()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(files, "write_whole", full)
        refused(capsys, exchange.answer("--json"), 3, "costs nothing")
    assert charges(capsys, exchange) == 1
    assert exchange.answer("--json") == 0
    assert json.loads(capsys.readouterr().out)["paid"] is False
    assert charges(capsys, exchange) == 1
    assert exchange.learn() == 0


def test_a_request_changed_after_it_was_answered_is_a_new_request(capsys: Any, exchange: Exchange) -> None:
    assert exchange.ask() == 0
    assert exchange.answer() == 0
    assert exchange.learn() == 0
    features = json.loads(exchange.request.read_text())["features"]
    exchange.change(features={**features, "seed": 2})
    capsys.readouterr()
    refused(capsys, exchange.answer("--json"), 2, "overwrites nothing")
    exchange.answered.unlink()
    refused(capsys, exchange.answer("--json"), 4, "")
    assert not exchange.answered.exists()
    assert charges(capsys, exchange) == 1


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
    capsys: Any, exchange: Exchange, changes: dict[str, Any], code: int, says: str
) -> None:
    assert exchange.ask() == 0
    exchange.change(**changes)
    capsys.readouterr()
    refused(capsys, exchange.answer("--json"), code, says)
    assert sorted(p.name for p in exchange.party.iterdir()) == ["target.npz"]


def test_a_request_that_costs_more_than_the_party_allows_is_refused(capsys: Any, exchange: Exchange) -> None:
    """The party's own words count: a request cannot set the budget, nor use more of it than was allowed."""
    assert exchange.ask() == 0
    capsys.readouterr()
    refused(capsys, exchange.answer("--epsilon", "4", "--json"), 4, "nothing was paid")
    refused(capsys, exchange.answer("--delta", "1e-9", "--json"), 4, "nothing was paid")
    assert not exchange.ledger.exists()
    # a budget that covers it once
    assert exchange.answer() == 0
    exchange.request.unlink()
    capsys.readouterr()
    asking = ["--ask", str(exchange.request), "--set", "records=80"]
    assert run(["adapt", exchange.source, *TERMS, "--range", "0,1", *asking,
                "--out", str(exchange.engineer / "two")]) == 0  # fmt: skip
    capsys.readouterr()
    other = ["--out", str(exchange.party / "two.release"), "--json"]
    refused(capsys, run(["answer", str(exchange.request), exchange.target, *TERMS, *other]), 4, "ε")
    assert not (exchange.party / "two.release").exists()
    assert charges(capsys, exchange) == 1


def test_a_lost_ledger_gives_no_second_budget(capsys: Any, exchange: Exchange) -> None:
    assert exchange.ask() == 0
    assert exchange.answer() == 0
    for file in exchange.party.glob("target.npz.ledger*"):
        if file.is_file():
            file.unlink()
    exchange.answered.unlink()
    capsys.readouterr()
    refused(capsys, exchange.answer("--json"), 3, "restore")
    assert not exchange.ledger.exists()


def test_an_answer_to_another_job_or_an_altered_one_trains_nothing(capsys: Any, exchange: Exchange) -> None:
    assert exchange.ask() == 0
    assert exchange.answer() == 0
    first = exchange.request.read_bytes()
    exchange.request.unlink()
    other = exchange.engineer / "other"
    assert exchange.ask("--seed", "2", "--out", str(other)) == 0
    assert exchange.request.read_bytes() != first
    capsys.readouterr()
    refused(capsys, exchange.learn("--json", job=other), 3, "another request")
    data = bytearray(exchange.answered.read_bytes())
    data[len(data) // 2] ^= 1
    (exchange.engineer / "bad").write_bytes(bytes(data))
    refused(capsys, exchange.learn("--json", answer=exchange.engineer / "bad"), 3, "answer")
    for job in (other, exchange.job):
        assert sorted(p.name for p in job.iterdir()) == ["job.json"]


def test_training_is_resumed_with_its_own_answer_only(capsys: Any, exchange: Exchange) -> None:
    assert exchange.ask() == 0
    assert exchange.answer() == 0
    assert exchange.learn() == 0
    before = load_file(exchange.job / "model.safetensors")
    assert exchange.learn() == 0
    after = load_file(exchange.job / "model.safetensors")
    assert all((before[name] == after[name]).all() for name in before)
    # an honest second answer to the same request has other noise
    request, release = AdaptationRequest.read(exchange.request), Release.load(exchange.job / "block-1.npz")
    again = Release({**release.value, "sums": release.value["sums"] + 1.0}, release.guarantee, release.public)
    (exchange.engineer / "two").write_bytes(seal(to_bytes(again, request), Ed25519PrivateKey.generate()))
    capsys.readouterr()
    refused(capsys, exchange.learn("--json", answer=exchange.engineer / "two"), 3, "another answer")


def test_a_job_that_was_changed_after_it_asked_is_refused(capsys: Any, exchange: Exchange) -> None:
    assert exchange.ask() == 0
    assert exchange.answer() == 0
    file = exchange.job / "job.json"
    fields = json.loads(file.read_text())
    fields["settings"]["design"]["features"]["low"] = -1.0
    file.write_text(json.dumps(fields))
    capsys.readouterr()
    refused(capsys, exchange.learn("--json"), 3, "changed after it asked")


@pytest.mark.parametrize("change", ["labels", "rows", "order", "fewer"])
def test_an_answer_trains_only_on_the_source_of_its_request(capsys: Any, exchange: Exchange, change: str) -> None:
    assert exchange.ask() == 0
    assert exchange.answer() == 0
    with np.load(exchange.source) as held:
        x, y = held["x_train"], held["y_train"]
    made = {"labels": (x, 1 - y), "rows": (x[:, ::-1], y), "order": (x[::-1], y[::-1]), "fewer": (x[2:], y[2:])}
    own, exchange.source = exchange.source, str(exchange.engineer / "other.npz")
    np.savez(exchange.source, x=made[change][0], y=made[change][1])
    capsys.readouterr()
    refused(capsys, exchange.learn("--json"), 3, "not the source")
    assert sorted(p.name for p in exchange.job.iterdir()) == ["job.json"]
    # the same rows in another file, and as other numbers, are the same source
    np.savez(exchange.source, x=x.astype(np.float32), y=y.astype(np.int8))
    assert exchange.learn() == 0
    exchange.source = own
    assert exchange.learn() == 0


def test_the_digest_of_the_source_stays_in_the_folder_of_the_job(exchange: Exchange) -> None:
    assert exchange.ask() == 0
    digest = json.loads((exchange.job / "job.json").read_text())["settings"]["design"]["source"]
    assert len(digest) == 64
    assert exchange.answer() == 0
    assert exchange.learn() == 0
    sent = [exchange.request, exchange.answered, *exchange.party.rglob("*"), *exchange.job.iterdir()]
    for file in sent:
        if file.is_file() and file.name != "job.json":
            assert digest.encode() not in file.read_bytes(), file
    assert "source" not in exchange.request.read_text()


def test_a_job_of_an_earlier_version_without_a_source_digest_can_be_resumed(capsys: Any, exchange: Exchange) -> None:
    assert exchange.ask() == 0
    assert exchange.answer() == 0
    file = exchange.job / "job.json"
    fields = json.loads(file.read_text())
    del fields["settings"]["design"]["source"]
    file.write_text(json.dumps(fields))
    own, exchange.source = exchange.source, str(exchange.engineer / "wide.npz")
    np.savez(exchange.source, x=np.full((9, 3), 0.5), y=np.arange(9) % 2)
    capsys.readouterr()
    refused(capsys, exchange.learn("--json"), 3, "not the source")
    exchange.source = own
    assert exchange.learn() == 0


@pytest.mark.parametrize(
    ("more", "code", "says"),
    [
        (["--set", "blocks=2"], 2, "one mean embedding"),
        (["--set", "records=1"], 2, "--set records"),
        (["--resume"], 2, "--resume cannot be combined with --ask"),
        (["--ledger", "x"], 2, "--ledger cannot be combined with --ask"),
        (["--epsilon", "1e9"], 2, "ε in a request must be"),
        (["--set", "records=1000000000"], 2, "number of records in a request must be"),
        (["--seed", "-1"], 2, "2^128"),
        (["--seed", str(2**128)], 2, "2^128"),
    ],
)
def test_a_wrong_request_is_refused_and_starts_no_job(
    capsys: Any, exchange: Exchange, more: list[str], code: int, says: str
) -> None:
    refused(capsys, exchange.ask(*more), code, says)
    assert not exchange.request.exists()
    assert not exchange.job.exists()


def test_a_method_that_asks_many_times_is_not_asked_by_file(capsys: Any, exchange: Exchange) -> None:
    ask = ["--ask", str(exchange.request), "--set", "records=80", "--out", str(exchange.job), "--method", "projection"]
    refused(capsys, run(["adapt", exchange.source, *TERMS, *PLAIN, *ask]), 2, "one mean embedding")
    assert not exchange.request.exists()
    assert not exchange.job.exists()


def test_options_that_cannot_be_combined_are_refused(capsys: Any, exchange: Exchange) -> None:
    out = ["--out", str(exchange.job)]
    refused(capsys, run(["adapt", exchange.source, *TERMS, *QUICK, *out]), 2, "TARGET")
    refused(
        capsys,
        run(["adapt", exchange.source, exchange.target, *TERMS, *QUICK, *out, "--set", "records=80"]),
        2,
        "--set records",
    )
    refused(capsys, exchange.learn(*TERMS), 2, "--epsilon cannot be combined with --answer")
    assert exchange.ask() == 0
    capsys.readouterr()
    resume = ["adapt", exchange.source, exchange.target, *TERMS, *QUICK, *out, "--resume"]
    refused(capsys, run(resume), 2, "--answer")
    refused(capsys, run(["answer", str(exchange.request), exchange.target, "--out", "x"]), 2, "--epsilon")
    refused(capsys, run(["answer", str(exchange.request), "--out", "x"]), 2, "TARGET")
    refused(capsys, run(["answer", str(exchange.engineer / "none")]), 3, "no file")
