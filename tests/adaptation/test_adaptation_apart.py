"""Requests of strangers are refused before anything is paid; an answer counts only for its own request."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from privot.accounting import Composed, Gaussian, account, calibrate
from privot.adaptation import DomainAdapter, Embedding, Sliced, StandIn
from privot.adaptation import adaptation_answer as answering_module
from privot.adaptation.adaptation_answer import answer_once, read_answer, to_bytes
from privot.adaptation.adaptation_methods import stand_in_method as designing
from privot.adaptation.adaptation_request import MAX_BYTES, AdaptationRequest
from privot.errors import BudgetError, DataError, UsageError
from privot.federation.wire.messages import encode
from privot.federation.wire.signing import PAYLOAD, SEAL, open_sealed, public_name, seal
from privot.guarantee import Adjacency
from privot.kinds import Images
from privot.ledger import Ledger
from privot.mechanisms import MeanEmbedding
from privot.mechanisms.mechanism import Facts
from privot.release import Release
from privot.synthesis.neural.defaults.feature_defaults import choose_features
from privot.synthesis.neural.defaults.problem_and_rules import Problem
from privot.synthesis.neural.features.fourier import Fourier
from privot.vault import Vault

ONE = Adjacency.REPLACE_ONE
MAP = {
    "kind": "fourier", "dim": 2, "frequencies": 12, "bandwidths": [0.2, 0.4], "seed": 7, "low": 0.0, "high": 1.0,
    "frame": "orthogonal",
}  # fmt: skip
REQUEST = AdaptationRequest(5.0, 1e-5, 60, MAP)
X = np.random.default_rng(2).random((60, 2))


def written(**changes: Any) -> bytes:
    fields = REQUEST.to_dict()
    for name, value in changes.items():
        place, _, inner = name.partition("__")
        if inner:
            fields[place] = {**fields[place], inner: value}
        else:
            fields[name] = value
    return json.dumps(fields).encode()


def open_vault(folder: Path, x: np.ndarray = X, epsilon: float = 5.0) -> tuple[Vault, Ledger]:
    path = folder / "l"
    ledger = Ledger.open(path) if path.exists() else Ledger.create(path)
    terms = None if ledger.datasets() else (epsilon, 1e-5)
    return Vault(x, clip=1.0, adjacency=ONE, ledger=ledger, budget=terms), ledger


def test_a_request_is_plain_json_and_reads_back_as_itself_however_it_is_laid_out() -> None:
    fields = json.loads(REQUEST.to_bytes())
    for text in (REQUEST.to_bytes(), json.dumps(dict(reversed(fields.items()))).encode(), written(epsilon=5)):
        assert AdaptationRequest.from_bytes(text).digest() == REQUEST.digest()
    others = [written(records=61), written(features__seed=8), written(features__low=-1e-9), written(features__high=2)]
    assert len({REQUEST.digest(), *(AdaptationRequest.from_bytes(other).digest() for other in others)}) == 5


def test_what_it_costs_is_counted_here_from_what_would_run() -> None:
    """The closed form of one Gaussian mechanism with Δ = 2, at a σ that somebody else's code finds too."""
    sigma = calibrate(lambda s: Gaussian(s, 2.0, ONE), epsilon=5.0, delta=1e-5)
    assert REQUEST.sigma == pytest.approx(sigma, rel=1e-9)
    assert REQUEST.cost().epsilon() == pytest.approx(account(Gaussian(sigma, 2.0, ONE), 1e-5).epsilon(), rel=1e-6)
    assert REQUEST.mechanism().event(REQUEST.facts) == Gaussian(REQUEST.sigma, 2.0, ONE)


HOSTILE: list[tuple[str, bytes]] = [
    ("another version", written(schema=2)),
    ("a version that is true", written(schema=True)),
    ("another kind", written(kind="order")),
    ("another key", written(more=1)),
    ("a key too few", json.dumps({k: v for k, v in REQUEST.to_dict().items() if k != "delta"}).encode()),
    ("a key twice", REQUEST.to_bytes().replace(b'"records": 60', b'"records": 60, "records": 60')),
    ("another method", written(method="sliced")),
    ("another adjacency", written(adjacency="add-remove")),
    ("NaN", written(epsilon=float("nan"))),
    ("infinity", written(epsilon=float("inf"))),
    ("a negative ε", written(epsilon=-1.0)),
    ("a huge ε", written(epsilon=1e6)),
    ("an ε in words", written(epsilon="5")),
    ("δ of one", written(delta=1.0)),
    ("a negative σ", written(sigma=-REQUEST.sigma)),
    ("no noise", written(sigma=0.0)),
    ("half the noise", written(sigma=REQUEST.sigma / 2)),
    ("a hair less noise", written(sigma=REQUEST.sigma * (1 - 1e-9))),
    ("one record", written(records=1)),
    ("records that are no whole number", written(records=60.5)),
    ("a huge number of records", written(records=10**12)),
    ("a map of another kind", written(features__kind="stack")),
    ("an import path", written(features__kind="os:system")),
    ("another key in the map", written(features__code="1")),
    ("no map", written(features=[1])),
    ("no columns", written(features__dim=0)),
    ("many frequencies", written(features__frequencies=10**9)),
    ("a huge matrix", written(features__dim=10**5, features__frequencies=10**4)),
    ("no bandwidth", written(features__bandwidths=[])),
    ("many bandwidths", written(features__bandwidths=[0.1] * 17, features__frequencies=100)),
    ("a bandwidth of 0", written(features__bandwidths=[0.0])),
    ("bandwidths in words", written(features__bandwidths="12")),
    ("a NaN bandwidth", written(features__bandwidths=[float("nan")])),
    ("a range the wrong way round", written(features__low=1.0, features__high=0.0)),
    ("an empty range", written(features__low=1.0)),
    ("a range a column", written(features__low=[0.0, 0.0])),
    ("a range beyond numbers", written(features__high=1e300)),
    ("a negative seed", written(features__seed=-1)),
    ("a true seed", written(features__seed=True)),
    ("another frame", written(features__frame="none")),
    ("no JSON", b"\xff\x00"),
    ("a list", b"[]"),
    ("much nesting", b"[" * 50_000),
    ("a huge file", REQUEST.to_bytes() + b" " * MAX_BYTES),
    ("a huge number", written(features__seed=0).replace(b'"seed": 0', b'"seed": ' + b"9" * 5000)),
]


@pytest.mark.parametrize("data", [data for _, data in HOSTILE], ids=[name for name, _ in HOSTILE])
def test_a_hostile_request_is_refused_as_bad_data(data: bytes) -> None:
    with pytest.raises(DataError) as refused:
        AdaptationRequest.from_bytes(data)
    assert len(str(refused.value)) < 300


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("epsilon", (float("nan"), float("inf"), -1.0, 0.0, 1e6, True, "5", None)),
        ("delta", (float("nan"), -1e-5, 0.0, 1e-20, 0.5, 1.0)),
        ("records", (1, 0, -5, 60.0, True, 10**9)),
        ("dim", (0, -1, 2.0, True, 1 << 25)),
        ("frequencies", (0, 1 << 20, 12.0)),
        ("bandwidths", ([0.0], [-1.0], [float("nan")], [1e9], [True], ["x"], (0.2,), None)),
        ("low", (float("nan"), -float("inf"), -1e300, 1.0, 2.0, None)),
        ("seed", (-1, 1 << 128, 1.5)),
    ],
)
def test_every_number_of_a_request_is_bounded_by_itself(name: str, values: tuple[Any, ...]) -> None:
    """Also where σ would follow from it."""
    for value in values:
        change: dict[str, Any] = {"features": {**MAP, name: value}} if name in MAP else {name: value}
        with pytest.raises(DataError):
            replace(REQUEST, **change)


def test_a_request_that_rounding_forbids_is_refused_before_anything_is_paid() -> None:
    request = AdaptationRequest.from_bytes(written(features__bandwidths=[1e-6], features__dim=1000))
    with pytest.raises(DataError, match="cannot be answered"):
        request.cost()


def test_an_answer_is_charged_once_and_given_again(tmp_path: Path) -> None:
    vault, ledger = open_vault(tmp_path)
    key = Ed25519PrivateKey.generate()
    first = answer_once(REQUEST, vault, tmp_path / "a", "data", key)
    again = answer_once(REQUEST, vault, tmp_path / "a", "data")
    assert (first.paid, again.paid) == (True, False)
    assert first.content == again.content
    assert len(ledger.entries()) == 1
    assert ledger.entries()[0].event == Gaussian(REQUEST.sigma, 2.0, ONE)
    release, signer = read_answer(first.content, REQUEST, (public_name(key),))
    assert signer == public_name(key)
    assert release.guarantee.epsilon() == pytest.approx(REQUEST.cost().epsilon())
    assert [p.suffix for p in (tmp_path / "a").glob("*-*")] == [".release"]
    with pytest.raises(DataError, match="trusted"):
        read_answer(first.content, REQUEST, ("0" * 64,))


def test_a_kill_between_charge_and_file_loses_neither(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    vault, ledger = open_vault(tmp_path)
    made: list[Release] = []

    def killed(release: Release, request: AdaptationRequest) -> bytes:
        made.append(release)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(answering_module, "to_bytes", killed)
        with pytest.raises(KeyboardInterrupt):
            answer_once(REQUEST, vault, tmp_path / "a", "data")
    assert len(ledger.entries()) == 1
    mended = answer_once(REQUEST, open_vault(tmp_path)[0], tmp_path / "a", "data")
    assert mended.paid
    assert len(ledger.entries()) == 1
    np.testing.assert_array_equal(mended.release.value["sums"], made[0].value["sums"])
    assert not list((tmp_path / "a").glob("*.secret"))


def test_another_request_pays_and_is_refused_when_nothing_is_left(tmp_path: Path) -> None:
    vault, ledger = open_vault(tmp_path)
    answer_once(REQUEST, vault, tmp_path / "a", "data")
    with pytest.raises(BudgetError):
        answer_once(replace(REQUEST, features={**MAP, "seed": 8}), vault, tmp_path / "a", "data")
    assert len(ledger.entries()) == 1
    assert not list((tmp_path / "a").glob("*.secret"))


@pytest.mark.parametrize("x", [X[:59], np.c_[X, X[:, :1]]], ids=["records", "columns"])
def test_records_that_were_not_asked_about_are_refused_and_pay_nothing(tmp_path: Path, x: np.ndarray) -> None:
    vault, ledger = open_vault(tmp_path, x)
    with pytest.raises(DataError, match="nothing was paid"):
        answer_once(REQUEST, vault, tmp_path / "a", "data")
    assert not ledger.entries()


def test_values_beyond_the_range_are_clamped_as_in_process(tmp_path: Path) -> None:
    """With hardly any noise the sums are those of clamped records."""
    wild = np.r_[X[:58], [[-3.0, 0.5]], [[0.5, 40.0]]]
    loud = replace(REQUEST, epsilon=1000.0)
    vault, _ = open_vault(tmp_path, wild, 1000.0)
    release = answer_once(loud, vault, tmp_path / "a", "data").release
    turns = Fourier(**{k: v for k, v in MAP.items() if k != "kind"}).constants()[0]
    angle = 2 * np.pi * (np.clip(wild, 0, 1) @ turns)
    sums = np.concatenate([np.cos(angle), np.sin(angle)], axis=1).sum(axis=0) / np.sqrt(12)
    spread = release.public["sums_sigma"]
    assert spread < 0.1
    assert np.abs(release.value["sums"][0] - sums).max() < 6 * spread


def test_a_map_that_cannot_say_what_it_is_cannot_be_asked_again(tmp_path: Path) -> None:
    class Plain:
        dim, size, rounding = 2, 2, 2.0**-48

        def features(self, x: Any) -> Any:
            return x / 2

        def to_dict(self) -> dict[str, Any]:
            return {"kind": "plain"}

    vault, ledger = open_vault(tmp_path)
    with pytest.raises(UsageError, match="last bit"):
        vault.release_once(MeanEmbedding(Plain(), REQUEST.sigma), purpose="x", secret=bytes(32))
    assert not ledger.entries()


def test_identities_tell_designs_apart() -> None:
    base = REQUEST.mechanism()
    others = [
        replace(base, sigma=base.sigma * (1 + 1e-15)),
        replace(base, count_weight=0.5),
        replace(REQUEST, features={**MAP, "seed": 8}).mechanism(),
        replace(REQUEST, features={**MAP, "high": 1.0 + 1e-15}).mechanism(),
    ]
    assert len({m.identity() for m in (base, *others)}) == 5
    assert base.identity() == REQUEST.mechanism().identity()


def released() -> Release:
    vault = Vault(X, clip=1.0, adjacency=ONE, budget=(1e6, 1e-5))
    return vault.release(REQUEST.mechanism(), purpose="a test", delta=1e-5)


def sealed(facts: dict[str, Any] | None = None, arrays: dict[str, Any] | None = None, kind: str = "") -> bytes:
    release = released()
    said = {"request": REQUEST.digest(), "guarantee": release.guarantee.to_dict()} | (facts or {})
    held = {**release.value, **(arrays or {})}
    return seal(encode(kind or "adaptation answer", said, held), Ed25519PrivateKey.generate())


def guaranteed(change: Callable[[dict[str, Any]], None]) -> bytes:
    fields = json.loads(released().guarantee.to_json())
    change(fields)
    return sealed({"guarantee": fields})


def louder(fields: dict[str, Any]) -> None:
    """The same claim with the event of twice the noise."""
    fields.update(json.loads(account(Gaussian(2 * REQUEST.sigma, 2.0, ONE), 1e-5).to_json()))


def twice(fields: dict[str, Any]) -> None:
    event = Gaussian(REQUEST.sigma, 2.0, ONE)
    fields.update(json.loads(account(Composed((event, event)), 1e-5).to_json()))


def narrower(fields: dict[str, Any]) -> None:
    fields.update(json.loads(account(Gaussian(REQUEST.sigma, 1.0, ONE), 1e-5).to_json()))


def less(fields: dict[str, Any]) -> None:
    """States a fifth of what its event costs, with a curve that bears it out."""
    fields["epsilon"] /= 5
    for point in fields["curve"]:
        point["epsilon"] = None if point["epsilon"] is None else point["epsilon"] / 5


FORGED: list[tuple[str, Callable[[], bytes], str]] = [
    ("another request", lambda: sealed({"request": "0" * 64}), "another request"),
    ("another key", lambda: sealed({"more": 1}), "nothing else"),
    ("another kind", lambda: sealed(kind="sketch"), "kind"),
    ("too few sums", lambda: sealed(arrays={"sums": np.zeros((1, 23))}), "do not fit"),
    ("many classes", lambda: sealed(arrays={"sums": np.zeros((2, 24)), "counts": np.zeros(2)}), "do not fit"),
    ("NaN", lambda: sealed(arrays={"sums": np.full((1, 24), np.nan)}), "finite"),
    ("no guarantee", lambda: sealed({"guarantee": {}}), "guarantee"),
    ("a claim too small", lambda: guaranteed(less), "its events cost"),
    ("other noise", lambda: guaranteed(louder), "need σ"),
    ("another sensitivity", lambda: guaranteed(narrower), "not that of the requested release"),
    ("two events", lambda: guaranteed(twice), "not that of the requested release"),
    ("another δ", lambda: guaranteed(lambda f: f.update(delta=1e-6, epsilon=9.0)), "not that of the requested release"),
    ("unproven", lambda: guaranteed(lambda f: f.update(standing="unproven")), "not that of the requested release"),
    ("not sealed", lambda: b"PK nonsense", "damaged"),
]


@pytest.mark.parametrize(("make", "says"), [(m, s) for _, m, s in FORGED], ids=[name for name, _, _ in FORGED])
def test_a_forged_answer_is_refused(make: Callable[[], bytes], says: str) -> None:
    read_answer(sealed(), REQUEST)
    with pytest.raises(DataError, match=says):
        read_answer(make(), REQUEST)


def test_an_altered_answer_is_refused(tmp_path: Path) -> None:
    content = answer_once(REQUEST, open_vault(tmp_path)[0], tmp_path / "a", "data").content
    payload = open_sealed(content).payload
    where = content.index(payload) + len(payload) // 2
    altered = content[:where] + bytes([content[where] ^ 1]) + content[where + 1 :]
    for wrong in (altered, content[:-40], b""):
        with pytest.raises(DataError):
            read_answer(wrong, REQUEST)
    # other sums, in a whole file, under the signature of these
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        head = archive.read(SEAL)
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr(SEAL, head)
        archive.writestr(PAYLOAD, open_sealed(sealed()).payload)
    with pytest.raises(DataError, match="signature"):
        read_answer(out.getvalue(), REQUEST)


def test_what_a_stranger_assumes_does_not_reach_a_report() -> None:
    release, _ = read_answer(guaranteed(lambda f: f["assumptions"].append("<b>nothing to see</b>")), REQUEST)
    assert not any("<b>" in a for a in release.guarantee.assumptions)
    assert any("signature" in a for a in release.guarantee.assumptions)


def test_methods_that_ask_many_times_are_not_asked_by_file() -> None:
    y = np.arange(60) % 2
    for settings in (
        Sliced(blocks=2, slices=4),
        Embedding(blocks=2, frequencies=12),
    ):
        made = DomainAdapter(5.0, 1e-5, method=settings, device="cpu", seed=1)
        design = made.design(Facts(2, 60, 1.0, ONE), (X, y), by_request=True)
        with pytest.raises(UsageError, match="one mean embedding"):
            AdaptationRequest.of(design)


def test_a_stand_in_asks_for_nothing_but_what_every_request_may_ask_for() -> None:
    settings = StandIn(generator=5)
    made = DomainAdapter(5.0, 1e-5, method=settings, device="cpu", seed=1)
    facts = Facts(2, 60, 1.0, ONE)
    design = made.design(facts, (X, np.arange(60) % 2), by_request=True)
    request = AdaptationRequest.of(design)
    # a stranger's reader takes it, and finds the mechanism that the design pays for
    read = AdaptationRequest.from_bytes(request.to_bytes())
    assert read.digest() == request.digest()
    assert read.mechanism().features.to_dict() == design.features
    assert read.mechanism().event(read.facts) == design.cost(read.mechanism(design.sigma), 1)
    assert design.features == made.design(facts, (X, np.arange(60) % 2)).features


def test_a_request_is_never_made_of_features_that_no_request_may_ask_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a GPU: a synthesis of images would choose filters, and more frequencies than may be asked for."""
    monkeypatch.setattr(designing, "plan_synthesis", on_a_gpu(designing.plan_synthesis))
    facts = Facts(256, 100_000, 1.0, ONE)
    made = DomainAdapter(5.0, 1e-5, kind=Images((16, 16)), device="cpu", seed=3)
    source = np.zeros((4, 256)), np.arange(4) % 2
    filtered, asked = (made.design(facts, source, by_request=by_request) for by_request in (False, True))
    assert (filtered.features or {})["kind"] == "stack"
    assert (asked.features or {})["kind"] == "fourier"
    assert AdaptationRequest.of(asked).features == asked.features
    assert (asked.rules or {})["generator"]["dim"] == 256


def on_a_gpu(plan: Callable[..., Any]) -> Callable[..., Any]:
    """`plan` with the features that it would choose for images on a GPU, unless features are given."""

    def planned(config: Any, facts: Facts) -> Any:
        found = plan(config, facts)
        if config.features is not None:
            return found
        problem = Problem(facts.dim, 1, found.mechanism.sigma, facts.records, tuple(config.shape), "cuda")
        features = choose_features(problem, config.seed, config.low, config.high)
        return replace(found, mechanism=replace(found.mechanism, features=features, count_weight=None))

    return planned


def test_the_message_leaves_out_what_follows_from_the_request() -> None:
    """So that nobody can state other facts beside the same sums."""
    release = read_answer(seal(to_bytes(released(), REQUEST), Ed25519PrivateKey.generate()), REQUEST)[0]
    assert dict(release.public) == dict(released().public)
