"""The method stand-in: what it releases, what it learns, when it does not trust its stand-in, what it leaves behind."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from privot.adaptation import DomainAdapter, StandIn
from privot.adaptation.adaptation_methods import choose, method_named, read_design
from privot.adaptation.alignment.transformation_fit import Source
from privot.adaptation.alignment.transformations import transformation
from privot.adaptation.model_folder import write_report
from privot.adaptation.networks import Committee, build
from privot.adaptation.stand_in import stand_in_learner
from privot.adaptation.stand_in.report_figures import agreement
from privot.adaptation.stand_in.self_training import Schedule, SelfTraining, Views
from privot.adaptation.stand_in.stand_in_learner import Checks
from privot.errors import DataError, UsageError
from privot.kinds import Images
from privot.mechanisms import MeanEmbedding
from privot.synthesis import Synthesizer
from privot.tables import Column, Schema
from privot.vault import Vault

FACTS = {"kind": "features", "columns": 2, "shape": None, "classes": 2, "low": 0.0, "high": 1.0}
SHORT = StandIn(
    batch=32, warmup=60, finish=60, check=60, members=2, samples=400, generator=150, fit=60, augment=False,
    learning_rate=5e-3, weight=1.0,
)  # fmt: skip


def blobs(records: int, shift: float = 0.0, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Two classes, apart in the second column; `shift` moves the first."""
    y = np.arange(records) % 2
    x = np.stack([0.3 + shift + 0.0 * y, 0.3 + 0.4 * y], axis=1)
    return np.clip(x + 0.05 * np.random.default_rng(seed).standard_normal((records, 2)), 0.0, 1.0), y


def adapted(target: np.ndarray, epsilon: float = 5.0, **changes: Any) -> DomainAdapter:
    settings = replace(SHORT, **changes)
    vault = Vault(target, clip=1.0, adjacency="replace-one", budget=(epsilon, 1e-5))
    return DomainAdapter(epsilon, 1e-5, method=settings, device="cpu", seed=1).fit(vault, blobs(200))


@pytest.fixture(scope="module")
def done() -> DomainAdapter:
    return adapted(blobs(2000, 0.2, 5)[0])


@pytest.mark.slow
def test_one_release_is_charged_and_all_members_vote(done: DomainAdapter) -> None:
    assert done.guarantee_ is not None
    assert 4.99 <= done.guarantee_.epsilon() <= 5.0
    assert [event["kind"] for event in done.guarantee_.events] == ["gaussian"]
    assert isinstance(done.networks_, Committee)
    x, y = blobs(400, 0.2, 6)
    rows = torch.as_tensor(x, dtype=torch.float32)
    with torch.no_grad():
        mean = torch.stack([torch.softmax(m(rows), 1) for m in done.networks_.members]).mean(0).numpy()
    np.testing.assert_allclose(done.predict_proba(x), mean, atol=1e-6)
    assert done.score(x, y) > 0.95


@pytest.mark.slow
def test_a_stand_in_that_shows_the_classes_passes_and_noise_does_no_harm(done: DomainAdapter) -> None:
    assert done.checks_ is not None
    assert done.checks_.reverse > 0.9
    assert done.checks_.stand_in_used
    drowned = adapted(blobs(50, 0.2, 5)[0], 1e-3)
    x, y = blobs(400, 0.2, 6)
    assert drowned.score(x, y) > 0.9


def test_a_transformation_with_more_parameters_than_the_release_has_numbers_is_not_fitted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fits: list[int] = []
    monkeypatch.setattr(stand_in_learner, "fit", lambda *given: fits.append(1))
    short = {"warmup": 2, "finish": 2, "check": 2, "members": 1, "generator": 2, "samples": 20}
    # 2 columns take 2 + 2 · 2 parameters; 1,200 columns take 2,402, and the release has fewer numbers
    few = adapted(blobs(60)[0], **short)
    assert fits == [1]
    assert few.checks_ is not None
    assert few.checks_.transformed > 0.0
    wide = np.repeat(blobs(60)[0], 600, axis=1)
    settings = replace(SHORT, **short)
    vault = Vault(wide, clip=1.0, adjacency="replace-one", budget=(5.0, 1e-5))
    source = (np.repeat(blobs(200)[0], 600, axis=1), blobs(200)[1])
    many = DomainAdapter(5.0, 1e-5, method=settings, device="cpu", seed=1).fit(vault, source)
    assert fits == [1]
    assert many.checks_ is not None
    assert many.checks_.transformed == 0.0
    assert not many.checks_.transformation_used


def test_images_and_tables_are_adapted_by_a_stand_in_and_vectors_by_an_embedding() -> None:
    x, y = np.random.default_rng(0).random((20, 64)), np.arange(20) % 2
    vault = Vault(x, clip=1.0, adjacency="replace-one", budget=(1.0, 1e-5))
    chosen = [
        DomainAdapter(1.0, 1e-5, kind=kind, device="cpu", seed=0).design(vault.facts, (x, y)).settings.name
        for kind in (None, Images((8, 8)))
    ]
    assert chosen == ["embedding", "stand-in"]
    columns = Column("a", "boolean"), Column("y", "boolean")
    assert DomainAdapter(1.0, 1e-5, kind=Schema(columns, "y")).asked["method"] == "stand-in"


def test_members_learn_from_every_source_record_and_the_checks_from_nine_tenths(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen: list[int] = []
    whole = SelfTraining.__init__

    def watched(self: SelfTraining, networks: Any, views: Any, rows: torch.Tensor, *rest: Any, **more: Any) -> None:
        seen.append(len(rows))
        whole(self, networks, views, rows, *rest, **more)

    monkeypatch.setattr(SelfTraining, "__init__", watched)
    adapted(blobs(60)[0], warmup=2, finish=2, check=2, members=2, generator=2, samples=20, fit=1)
    # the first network, the check on 20 samples, the first member's end, the second member's start and end
    assert seen == [180, 20, 200, 200, 200]


def test_what_a_check_finds_decides_what_is_used() -> None:
    found = Checks(augmented=0.9, transformed=0.82, reverse=0.56, least=0.55)
    assert found.transformation_used
    assert found.stand_in_used
    assert not replace(found, transformed=0.80).transformation_used
    assert not replace(found, reverse=0.54).stand_in_used


@pytest.mark.parametrize("poor", [True, False], ids=["a poor stand-in", "a good one"])
def test_members_learn_from_a_stand_in_only_if_it_passed(poor: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    start = SelfTraining.__init__

    def watched(self: Any, *given: Any, **named: Any) -> None:
        seen.append(named.get("stand_in") is not None)
        start(self, *given, **named)

    monkeypatch.setattr(SelfTraining, "__init__", watched)
    monkeypatch.setattr(Checks, "stand_in_used", property(lambda self: not poor))
    adapted(blobs(100, 0.2, 5)[0], generator=2, warmup=2, finish=2, check=2, fit=2, samples=20)
    # the first network, the check, member one, the start of member two and member two
    assert seen == [False, False, not poor, False, not poor]


def test_the_model_is_read_back_and_the_stand_in_can_be_sampled(tmp_path: Path) -> None:
    vault = Vault(blobs(500, 0.2)[0], clip=1.0, adjacency="replace-one", budget=(5.0, 1e-5))
    settings = replace(SHORT, generator=5, warmup=5, finish=5, check=5, fit=5)
    made = DomainAdapter(5.0, 1e-5, method=settings, device="cpu", seed=1).fit(
        vault, blobs(200), folder=tmp_path / "out"
    )
    made.save(tmp_path / "out")
    again = DomainAdapter.load(tmp_path / "out")
    x, _ = blobs(30, 0.2, 7)
    np.testing.assert_array_equal(again.predict_proba(x), made.predict_proba(x))
    assert again.checks_ == made.checks_
    stand_in = Synthesizer.load(tmp_path / "out" / "stand-in")
    assert stand_in.sample(7)[0].shape == (7, 2)
    assert stand_in.guarantee_.epsilon() == made.guarantee_.epsilon()  # type: ignore[union-attr]


def test_everything_in_the_folder_follows_from_the_release(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the release replaced by one and the same, two different targets leave the same bytes."""
    settings = replace(SHORT, generator=5, warmup=5, finish=5, check=5, fit=5, members=1)
    real, kept = MeanEmbedding.run, []

    def same(self: Any, *given: Any, **named: Any) -> Any:
        found = real(self, *given, **named)
        kept.append(found)
        return kept[0]

    monkeypatch.setattr(MeanEmbedding, "run", same)
    files = []
    for number, target in enumerate((blobs(300, 0.2, 1)[0], blobs(300, -0.1, 2)[0])):
        vault = Vault(target, clip=1.0, adjacency="replace-one", budget=(5.0, 1e-5))
        made = DomainAdapter(5.0, 1e-5, method=settings, device="cpu", seed=1).fit(vault, blobs(200))
        made.save(tmp_path / str(number))
        held = made.stand_in_
        assert held is not None
        files.append({p.name: p.read_bytes() for p in (tmp_path / str(number)).iterdir()})
        files[-1]["generator"] = held.sample(20, seed=3)[0].tobytes()
    assert len(kept) == 2
    assert files[0] == files[1]
    assert {"model.safetensors", "config.json", "guarantee.json"} <= set(files[0])


def test_the_report_shows_both_domains_and_how_labels_changed(tmp_path: Path) -> None:
    images = np.random.default_rng(0).random((60, 64))
    vault = Vault(images, clip=1.0, adjacency="replace-one", budget=(5.0, 1e-5))
    settings = replace(SHORT, generator=2, warmup=2, finish=2, check=2, fit=2, members=1, samples=70)
    made = DomainAdapter(5.0, 1e-5, kind=Images((8, 8)), method=settings, device="cpu", seed=1)
    made.fit(vault, (images[:40], np.arange(40) % 3), folder=tmp_path)
    made.save(tmp_path)
    counts = np.array(json.loads((tmp_path / "rounds.json").read_text())["confusion"])
    assert counts.shape == (3, 3)
    assert counts.sum() == 70
    page = write_report(tmp_path).read_text()
    assert page.count("data:image/png") == 4  # three grids and the confusion; the losses are drawn on the page
    assert "one release of them" in page
    assert "The stand-in, drawn from the generator" in page
    # a damaged file is refused in one sentence, by name
    (tmp_path / "rounds.json").write_text('{"confusion": [[1, 2]], "learned_from_stand_in": true}')
    with pytest.raises(DataError, match=r"rounds\.json"):
        write_report(tmp_path)


def test_agreement_is_the_share_of_labels_that_stay() -> None:
    assert agreement(np.array([[8, 2], [0, 10]])) == pytest.approx(0.9)
    assert agreement(np.zeros((2, 2), dtype=np.int64)) == 0.0


def trained(weight: float, stand_in: np.ndarray) -> float:
    """Accuracy on a target whose first column tells the class, which the source does not show."""
    x, y = blobs(400)
    x[:, 0] = np.random.default_rng(1).uniform(size=400)
    source = Source(torch.as_tensor(x, dtype=torch.float32), torch.as_tensor(y), 0.0, 1.0)
    views = Views(source, transformation(None, 2, 2), False)
    random = torch.Generator().manual_seed(1)
    schedule = Schedule(300, 32, 1e-2, weight, 0.7)
    other = torch.as_tensor(stand_in, dtype=torch.float32)
    training = SelfTraining(build(FACTS, 1), views, torch.arange(400), schedule, random, stand_in=other)
    made = training.run()
    test, labels = moved(1000, 9)
    with torch.no_grad():
        guessed = made(torch.as_tensor(test, dtype=torch.float32)).argmax(1).numpy()
    return float((guessed == labels).mean())


def moved(records: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """The second column moves towards the boundary of the source; the first tells the classes apart."""
    y = np.arange(records) % 2
    x = np.stack([0.1 + 0.8 * y, 0.45 + 0.1 * y], axis=1)
    return np.clip(x + 0.05 * np.random.default_rng(seed).standard_normal((records, 2)), 0.0, 1.0), y


@pytest.mark.slow
def test_self_training_uses_what_the_stand_in_shows() -> None:
    stand_in, _ = moved(1000, 4)
    without, with_it = trained(0.0, stand_in), trained(1.0, stand_in)
    assert with_it > 0.97
    assert with_it > without + 0.05


def test_a_stand_in_has_one_release_and_at_least_two_source_records() -> None:
    with pytest.raises(TypeError, match="blocks"):
        replace(SHORT, blocks=2)  # type: ignore[call-arg]
    with pytest.raises(UsageError, match="threshold"):
        replace(SHORT, threshold=1.5)
    vault = Vault(blobs(50)[0], clip=1.0, adjacency="replace-one", budget=(5.0, 1e-5))
    with pytest.raises(DataError, match="two classes"):
        DomainAdapter(5.0, 1e-5, method=SHORT, device="cpu").fit(vault, (np.zeros((1, 2)), np.array([0])))


def test_the_rules_choose_a_stand_in_for_images_and_vectors() -> None:
    for image, cuda in ((True, True), (True, False), (False, False)):
        chosen = choose("stand-in", image, 1000, None, cuda)
        assert method_named(chosen.name).network(image) == ("images" if image else "features")
        assert chosen.releases == 1


@pytest.mark.parametrize(
    ("place", "value"),
    [
        ("low", [0.0]),
        ("high", "1"),
        ("columns", 2.0),
        ("classes", None),
        ("shape", [8, "8"]),
        ("kind", 3),
        ("kind", None),
    ],
)
def test_a_design_whose_file_was_edited_is_bad_data(place: str, value: Any) -> None:
    vault = Vault(blobs(50)[0], clip=1.0, adjacency="replace-one", budget=(5.0, 1e-5))
    fields = DomainAdapter(5.0, 1e-5, method=SHORT, device="cpu").design(vault.facts, blobs(40)).to_dict()
    assert read_design(fields).to_dict() == fields
    with pytest.raises(DataError, match="does not describe an adaptation"):
        read_design({**fields, "networks": {**fields["networks"], place: value}})


@pytest.mark.parametrize("odd", [["a"], "design", 3, None, {"adjacency": "add-remove", "facts": ["x"]}])
def test_what_is_no_design_at_all_is_bad_data(odd: Any) -> None:
    with pytest.raises(DataError, match="does not describe an adaptation"):
        read_design(odd)


@pytest.mark.parametrize("name", [field for field in vars(SHORT) if field not in ("sample", "generator")])
def test_no_setting_of_an_adaptation_may_be_of_another_kind(name: str) -> None:
    for odd in (None, [1], {"a": 1}):
        with pytest.raises((UsageError, DataError)):
            StandIn.from_dict({**choose("stand-in", False, 100).to_dict(), name: odd})
