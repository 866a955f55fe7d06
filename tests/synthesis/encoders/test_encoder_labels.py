"""Colour images with a public encoder get labels from its codes: what is paid, kept, saved and refused."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from encoder_networks import Grouped, honest, saved, stripes
from killed_jobs import killed_at

from privot import Ledger, Vault
from privot.cli import run
from privot.errors import DataError, UnprovenError, UsageError
from privot.guarantee import Adjacency
from privot.release import Release
from privot.synthesis import PublicEncoder, Rules, Synthesizer
from privot.synthesis.fitted import ENCODER
from privot.synthesis.job_files import LESSON, MADE
from privot.synthesis.methods.streaming_method import StreamDesign
from privot.synthesis.neural.after_training.relabelling import (
    Drawn,
    Labelling,
    PretrainedLabeller,
    labeller,
    labels_of,
    of_pixels,
)
from privot.synthesis.neural.defaults.after_training_defaults import choose_labelling, labelling_of
from privot.synthesis.neural.defaults.generator_defaults import choose_rules
from privot.synthesis.neural.defaults.problem_and_rules import Problem
from privot.synthesis.neural.encoders import public_encoder
from privot.synthesis.neural.features.encoder_codes import EncoderClassifier, EncoderCodes
from privot.synthesis.neural.features.encoder_features import ImageCodes
from privot.synthesis.output.html_report import write_report
from synthesis_asked import flat

SHAPE, DIM, WIDTH = (8, 8, 3), 192, 44
TERMS = (8.0, 1e-5)
PLAN = Labelling(sigma=1.0, rounds=4, length=20.0, columns=WIDTH, samples=20, kind="encoder")
COLOURS = Problem(3072, 10, 0.54, 10_000, (32, 32, 3), "cuda", codes=2048)


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> PublicEncoder:
    return PublicEncoder(saved(honest(), tmp_path_factory.mktemp("encoder")))


def vault(**given: Any) -> Vault:
    x, y = stripes(SHAPE)
    return Vault(x, y, **{"classes": 2, "clip": 28.0, "adjacency": "add-remove", "budget": TERMS, **given})


def rules(labelling: Labelling = PLAN) -> Rules:
    segments = [[0, DIM, "interval"]]
    generator = {"kind": "mlp", "dim": DIM, "classes": 2, "segments": segments, "latent": 4, "hidden": [8]}
    return Rules(generator, 2, 4, 1e-2, {"labelling": labelling.to_dict()})


def small(encoder: PublicEncoder | None, **given: Any) -> Synthesizer:
    fields = {"shape": SHAPE, "encoder": encoder, "rules": rules(), "device": "cpu", "seed": 5, **given}
    return Synthesizer(*TERMS, **flat(**fields))


def test_tuning_learns_classes_that_samples_do_not_tell_apart(encoder: PublicEncoder) -> None:
    x, y = stripes(SHAPE, 300)
    dice = np.random.default_rng(0)
    drawn = Drawn(torch.from_numpy(dice.uniform(size=(30, DIM))).float(), torch.zeros(30), 2, SHAPE, (0.0, 1.0))
    lesson = PretrainedLabeller.make(PLAN, drawn, 0, encoder)
    assert isinstance(lesson.features, EncoderCodes)
    assert not lesson.start.any()
    held = Vault(x, y, classes=2, clip=28.0, adjacency="add-remove", budget=(50.0, 1e-5))
    plan = replace(PLAN, sigma=0.6, rounds=20, length=100.0)
    tuning = lesson.mechanism(plan, 300.0, "cpu")
    assert tuning.rate == pytest.approx(100.0 / 300.0)
    test, truth = stripes(SHAPE, 60, seed=9)
    tuned = labeller(lesson, held.release(tuning, purpose="labels"))
    assert (labels_of(tuned, torch.from_numpy(test)).numpy() == truth).mean() > 0.9
    with pytest.raises(UsageError, match="need the encoder"):
        PretrainedLabeller.make(PLAN, drawn, 0)


@pytest.mark.slow
def test_a_job_pays_for_labels_once_and_its_folder_needs_nothing_else(
    encoder: PublicEncoder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = Ledger.create(tmp_path / "ledger")
    held, folder = vault(ledger=ledger), tmp_path / "job"
    with killed_at("privot.synthesis.methods.after_training_steps.tuned_head"):
        small(encoder).fit(held, folder=folder)
    done = small(encoder).fit(held, folder=folder)
    assert len(ledger.entries()) == 2
    assert isinstance(done.labeller_, EncoderClassifier)
    # labels follow the released counts
    assert done.labeller_.offsets.any()
    assert done.guarantee_.standing == "proven"
    assert done.guarantee_.epsilon() <= TERMS[0]
    assert f"the encoder with SHA-256 {encoder.digest} was not trained on these records" in done.guarantee_.assumptions
    again = small(encoder).fit(held, folder=folder)
    assert len(ledger.entries()) == 2
    _, y = done.sample(30, seed=1)
    assert np.array_equal(again.sample(30, seed=1)[1], y)

    model = tmp_path / "model"
    done.save(model)
    assert ENCODER in MADE
    assert "the codes of a public encoder, tuned on the records" in write_report(model).read_text()
    monkeypatch.setattr(public_encoder, "_LOADED", {})
    out = tmp_path / "more.npz"
    assert run(["sample", str(model), "-n", "30", "--seed", "1", "--out", str(out)]) == 0
    assert np.array_equal(np.load(out)["y"], y)
    content = (model / ENCODER).read_bytes()
    (model / ENCODER).write_bytes(saved(Grouped().eval(), tmp_path).read_bytes())
    with pytest.raises(DataError, match="is not the encoder that labels"):
        Synthesizer.load(model)
    (model / ENCODER).unlink()
    with pytest.raises(DataError, match=f"no {ENCODER} in"):
        Synthesizer.load(model)
    (tmp_path / "outside.pt2").write_bytes(content)
    (model / ENCODER).symlink_to(tmp_path / "outside.pt2")
    with pytest.raises(DataError, match="leaves the folder"):
        Synthesizer.load(model)


@pytest.mark.slow
def test_labels_are_refused_before_anything_is_paid(
    encoder: PublicEncoder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = vault(ledger=(ledger := Ledger.create(tmp_path / "ledger")))
    with pytest.raises(UsageError, match="need the encoder"):
        small(None).fit(held)
    with pytest.raises(UsageError, match="codes of 45 numbers"):
        small(encoder, rules=rules(replace(PLAN, columns=45))).fit(held)
    with pytest.raises(UsageError, match="fewer than 32768"):
        replace(PLAN, columns=2**15).check(SHAPE, 2, 60)
    # what the whole job costs says what its labels rest on, by themselves too
    on_gpu = small(encoder).design(held.facts)
    object.__setattr__(on_gpu.mechanism, "device", "cuda")
    assert on_gpu.part_cost(PLAN, held.facts) == PLAN.event(held.facts.adjacency)
    monkeypatch.setattr("privot.synthesis.neural.features.encoder_features.PROVEN_ON", ("cpu",))
    assert on_gpu.part_cost(PLAN, held.facts).to_dict()["standing"] == "unproven"
    assert PLAN.standing_on("cuda") == "unproven"
    assert replace(PLAN, kind="scattering").standing_on("cuda") == "proven"
    monkeypatch.setattr("privot.synthesis.neural.features.encoder_features.PROVEN_ON", ())
    for folder in (None, tmp_path / "job"):
        with pytest.raises(UnprovenError):
            small(encoder).fit(held, folder=folder)
    assert not ledger.entries()
    # the release that is found on disk is the one that was paid for, unproven as it is
    done = small(encoder, allow_unproven=True).fit(held, folder=tmp_path / "other")
    assert done.guarantee_.standing == "unproven"
    again = small(encoder, allow_unproven=True).fit(held, folder=tmp_path / "other")
    assert again.guarantee_.standing == "unproven"
    assert len(ledger.entries()) == 2
    assert len(done.guarantee_.events) == 2
    assert all("unproven" in json.dumps(event) for event in done.guarantee_.events)


@pytest.mark.slow
def test_a_folder_that_was_changed_states_no_less_and_tunes_on_no_other_map(
    encoder: PublicEncoder, tmp_path: Path
) -> None:
    held, folder = vault(ledger=(ledger := Ledger.create(tmp_path / "ledger"))), tmp_path / "job"
    with killed_at("privot.synthesis.methods.after_training_steps.tuned_head"):
        small(encoder).fit(held, folder=folder)
    lesson, made_from = (folder / LESSON).read_bytes(), Release.load(folder / "release.npz").digest()
    x = torch.rand(20, DIM, generator=torch.Generator().manual_seed(0))
    drawn = Drawn(x, torch.arange(20) % 2, 2, SHAPE, (0.0, 1.0))
    pixels = of_pixels(drawn, 0)
    brighter = PublicEncoder.from_dict({**encoder.to_dict(), "range": [0.0, 2.0]})
    for other in (
        PretrainedLabeller.encoded(drawn, brighter),
        PretrainedLabeller(pixels, np.zeros((pixels.size, 2))),
    ):
        other.save(folder / LESSON, made_from)
        with pytest.raises(DataError, match="not those that it was designed with"):
            small(encoder).fit(held, folder=folder)
    assert len(ledger.entries()) == 1
    (folder / LESSON).write_bytes(lesson)
    small(encoder).fit(held, folder=folder)
    for name in ("labels.npz", "release.npz"):
        found, kept = Release.load(folder / name), (folder / name).read_bytes()
        assert any("SHA-256" in said for said in found.guarantee.assumptions)
        Release(found.value, replace(found.guarantee, assumptions=()), found.public).save(folder / name)
        with pytest.raises(DataError, match="paid for"):
            small(encoder).fit(held, folder=folder)
        (folder / name).write_bytes(kept)
    small(encoder).fit(held, folder=folder)
    assert len(ledger.entries()) == 2


def test_a_stream_cannot_be_labelled_by_an_encoder_that_it_does_not_release() -> None:
    given = {"shape": SHAPE, "device": "cpu", "seed": 1}
    facts = vault(adjacency="replace-one").facts
    fields = Synthesizer(*TERMS, **flat(method="sinkhorn", **given)).design(facts).to_dict()
    fields["rules"]["options"]["labelling"] = PLAN.to_dict()
    with pytest.raises(UsageError, match="need the encoder"):
        StreamDesign.from_dict(fields, "cpu")


@pytest.mark.slow
def test_records_in_float32_are_encoded_in_float64(encoder: PublicEncoder, monkeypatch: pytest.MonkeyPatch) -> None:
    """The way of samples, in float32 or half of it, sees no record, whatever number type records come in."""
    x, y = stripes(SHAPE)
    design = small(encoder).design(vault().facts)
    lesson = PretrainedLabeller.encoded(
        Drawn(torch.from_numpy(x).float(), torch.zeros(60), 2, SHAPE, (0.0, 1.0)), encoder
    )

    def refuse(*_: Any) -> Any:
        raise AssertionError("records took the way of samples")

    monkeypatch.setattr(ImageCodes, "_trained_layers", refuse)
    terms = {"classes": 2, "clip": 28.0, "adjacency": "add-remove", "budget": (99.0, 1e-5)}
    for kind in (np.float32, np.float16, np.float64):
        held = Vault(x.astype(kind), y, **terms)
        held.release(design.mechanism, purpose="means")
        held.release(lesson.mechanism(PLAN, 60.0, "cpu"), purpose="labels")


@pytest.mark.parametrize("device", ["cpu", "cuda"])
@pytest.mark.parametrize(("sigma", "share"), [(0.54, 0.25), (1.5, 0.25), (1.51, 0.5), (16.5, 0.5)])
def test_the_rule_for_colour_images_with_an_encoder(device: str, sigma: float, share: float) -> None:
    problem = replace(COLOURS, sigma=sigma, device=device)
    chosen = choose_labelling(problem)
    assert chosen is not None
    assert (chosen.kind, chosen.rounds, chosen.columns) == ("encoder", 40, 2048)
    assert chosen.sigma == pytest.approx(sigma / share**0.5)
    assert chosen.length == pytest.approx(min(400.0, 0.025 * 10_000 / chosen.sigma))
    chosen.check((32, 32, 3), 10, 10_000)
    assert labelling_of(problem, 0.1).sigma == pytest.approx(sigma / 0.1**0.5)
    assert labelling_of(replace(problem, sigma=1e-3), 0.5).length == 400.0


def test_without_an_encoder_and_for_grey_images_labels_are_what_they_were() -> None:
    plain = replace(COLOURS, codes=None)
    assert {choose_labelling(replace(plain, sigma=s)).kind for s in (0.54, 3.7)} == {"scattering"}
    grey = Problem(784, 10, 1.1, 60_000, (28, 28), "cuda")
    small_images = replace(plain, dim=192, shape=(8, 8, 3))
    for problem in (grey, replace(grey, device="cpu"), replace(grey, sigma=20.0), small_images):
        assert choose_labelling(replace(problem, codes=2048)) == choose_labelling(problem)
    # more numbers than a classifier takes
    assert choose_labelling(replace(plain, codes=2**15)) == choose_labelling(plain)
    assert choose_labelling(replace(COLOURS, classes=1)) is None
    # fewer samples per step on a GPU alone
    assert (choose_rules(COLOURS).batch, choose_rules(plain).batch) == (64, 256)
    assert choose_rules(replace(COLOURS, common=True)).batch == 64
    assert choose_rules(replace(COLOURS, device="cpu")) == choose_rules(replace(plain, device="cpu"))


def test_a_design_with_an_encoder_pays_for_labels_by_its_codes(encoder: PublicEncoder) -> None:
    x = np.zeros((4, 768))
    held = Vault(x, [0, 1] * 2, classes=2, clip=1.0, adjacency="add-remove", budget=TERMS)
    asked = {"shape": (16, 16, 3), "records": 10_000, "device": "cpu", "seed": 1}
    sized = PublicEncoder.from_dict({**encoder.to_dict(), "size": 8})
    design = Synthesizer(*TERMS, **flat(encoder=sized, **asked)).design(held.facts)
    assert design.labelling is not None
    assert (design.labelling.kind, design.labelling.columns) == ("encoder", WIDTH)
    whole = (design.labelling.sigma**-2 + design.mechanism.sigma**-2) ** -0.5
    assert design.labelling.sigma == pytest.approx(2.0 * whole, rel=1e-6)
    design.check_standing(False)
    tenth = Synthesizer(*TERMS, **flat(encoder=sized, options={"labelled": 0.1}, **asked)).design(held.facts)
    assert tenth.labelling.sigma == pytest.approx(whole / 0.1**0.5, rel=1e-6)
    assert (
        Synthesizer(*TERMS, **flat(encoder=sized, options={"labelled": 0.0}, **asked)).design(held.facts).labelling
        is None
    )
    assert Adjacency.ADD_REMOVE is design.adjacency
