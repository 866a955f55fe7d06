"""Colour images get their labels from a classifier of fixed wavelets, paid for once and kept with the model."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from killed_jobs import kill, killed_at, resumed

from privot.accounting import embedding
from privot.errors import DataError, UsageError
from privot.guarantee import Adjacency
from privot.ledger import Ledger
from privot.synthesis import Rules, Synthesizer
from privot.synthesis.job_files import LESSON
from privot.synthesis.neural.after_training.relabelling import Drawn, Labelling, PretrainedLabeller, labeller, labels_of
from privot.synthesis.neural.defaults.after_training_defaults import (
    LABELS_SHARE,
    SCATTERED,
    choose_labelling,
    labelling_of,
)
from privot.synthesis.neural.defaults.problem_and_rules import Problem
from privot.synthesis.neural.features.fourier import Fourier
from privot.synthesis.neural.features.scattering import Scattering, ScatteringClassifier
from privot.synthesis.output.html_report import write_report
from privot.vault import Vault
from synthesis_asked import flat

SHAPE, DIM = (16, 16, 3), 768
TERMS = (8.0, 1e-5)
PLAN = Labelling(sigma=1.0, rounds=4, length=50.0, columns=2_000, samples=30, kind="scattering")
COLOURS = Problem(3072, 10, 0.54, 10_000, (32, 32, 3), "cuda")


def stripes(records: int = 120, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Colour images of three classes: stripes across, stripes down, and none; their place and colour tell nothing."""
    dice = np.random.default_rng(seed)
    y = np.arange(records) % 3
    phase = dice.integers(0, 2, records)[:, None]
    wave = 0.5 * ((np.arange(16)[None] + phase) // 2 % 2)
    x = 0.2 * dice.uniform(size=(records, *SHAPE))
    x[y == 0] += wave[y == 0][:, :, None, None]
    x[y == 1] += wave[y == 1][:, None, :, None]
    x[y == 2] += 0.25
    return (x * dice.uniform(0.7, 1.0, size=(records, 1, 1, 3))).reshape(records, -1), y


def rules(labelling: Labelling | None = PLAN) -> Rules:
    segments = [[0, DIM, "interval"]]
    generator = {"kind": "mlp", "dim": DIM, "classes": 3, "segments": segments, "latent": 4, "hidden": [16]}
    return Rules(generator, 10, 8, 1e-2, {} if labelling is None else {"labelling": labelling.to_dict()})


def small(**given: Any) -> Synthesizer:
    features = Fourier(DIM, 20, [8.0], 1)
    fields = {"shape": SHAPE, "features": features, "rules": rules(), "device": "cpu", "seed": 5, **given}
    return Synthesizer(*TERMS, **flat(**fields))


def vault(**given: Any) -> Vault:
    x, y = stripes()
    return Vault(x, y, classes=3, clip=28.0, adjacency="add-remove", **({"budget": TERMS} | given))


def drawn(x: np.ndarray, y: np.ndarray, span: tuple[float, float] = (0.0, 1.0)) -> Drawn:
    return Drawn(torch.from_numpy(x).float(), torch.from_numpy(y), 3, SHAPE, span)


@pytest.mark.slow
def test_tuning_learns_classes_that_samples_do_not_tell_apart() -> None:
    x, y = stripes(600)
    random = np.random.default_rng(0)
    lesson = PretrainedLabeller.make(PLAN, drawn(random.uniform(size=(30, DIM)), random.integers(0, 3, 30)), 0)
    assert isinstance(lesson.features, Scattering)
    assert not lesson.start.any()
    plan = replace(PLAN, sigma=0.6, rounds=20)
    held = Vault(x, y, classes=3, clip=28.0, adjacency="add-remove", budget=(50.0, 1e-5))
    release = held.release(lesson.mechanism(plan, 600.0, "cpu"), purpose="labels")
    test, truth = stripes(150, seed=9)
    tuned = labeller(lesson, release)
    assert (labels_of(tuned, torch.from_numpy(test)).numpy() == truth).mean() > 0.9
    # as the tuned weights say, in the arithmetic of the mechanism
    scores = lesson.features.features(torch.from_numpy(test)).numpy() @ np.asarray(release.value["weights"])
    near = np.sort(scores, axis=1)
    clear = near[:, -1] - near[:, -2] > 1e-3
    assert clear.mean() > 0.9
    assert np.array_equal(labels_of(tuned, torch.from_numpy(test)).numpy()[clear], scores.argmax(axis=1)[clear])


def test_records_of_another_range_have_the_same_features() -> None:
    x, y = stripes(30)
    plain = PretrainedLabeller.make(PLAN, drawn(x, y), 0).features
    bytes_ = PretrainedLabeller.make(PLAN, drawn(x, y, (0.0, 255.0)), 0).features
    rows = torch.from_numpy(np.rint(stripes(20, 1)[0] * 255.0))
    assert torch.allclose(plain.features(rows / 255.0), bytes_.features(rows), atol=1e-4)


@pytest.mark.slow
@pytest.mark.gate(1)
@pytest.mark.parametrize(
    ("when", "place"),
    [
        ("learning", "privot.synthesis.neural.after_training.relabelling.PretrainedLabeller.scattered"),
        ("paying", "privot.synthesis.methods.after_training_steps.tuned_head"),
        ("paid", "privot.synthesis.methods.after_training_steps.labeller"),
    ],
)
def test_a_job_killed_before_its_labels_goes_on_and_pays_for_them_once(when: str, place: str, tmp_path: Path) -> None:
    ledger = Ledger.create(tmp_path / "ledger")
    held, folder = vault(ledger=ledger), tmp_path / "out"
    with killed_at(place):
        small().fit(held, folder=folder)
    assert len(ledger.entries()) == (2 if when == "paid" else 1)
    assert (folder / LESSON).exists() == (when != "learning")
    done = resumed(folder, ledger, lambda: held)
    assert len(ledger.entries()) == 2
    assert done.guarantee_.epsilon() == pytest.approx(8.0, rel=1e-3)
    assert done.guarantee_.epsilon() <= 8.0
    assert isinstance(done.labeller_, ScatteringClassifier)
    again = resumed(folder, ledger, kill)
    assert len(ledger.entries()) == 2
    assert np.array_equal(again.sample(50, seed=1)[1], done.sample(50, seed=1)[1])
    with pytest.raises(DataError, match="not learned from this job"):
        PretrainedLabeller.load(folder / LESSON, "another release")


def test_a_model_is_saved_with_its_labeller(tmp_path: Path) -> None:
    done = small().fit(vault())
    x, y = done.sample(60, seed=1)
    assert done.labeller_ is not None
    assert np.array_equal(y, labels_of(done.labeller_, torch.from_numpy(x)).numpy())
    done.save(tmp_path)
    again = Synthesizer.load(tmp_path)
    assert isinstance(again.labeller_, ScatteringClassifier)
    assert np.array_equal(again.labeller_.weights, done.labeller_.weights)
    assert np.array_equal(again.sample(60, seed=1)[1], y)
    assert "a linear classifier of fixed wavelets, tuned on the records" in write_report(tmp_path).read_text()
    config = (tmp_path / "config.json").read_text()
    (tmp_path / "config.json").write_text(config.replace('"scattering classes"', '"network"'))
    with pytest.raises(DataError):
        Synthesizer.load(tmp_path)


def test_labellings_of_earlier_jobs_mean_a_network() -> None:
    fields = {"sigma": 1.0, "rounds": 4, "length": 0.5, "columns": 8, "samples": 60}
    found = Labelling.from_dict(fields)
    assert found is not None
    assert found.kind == "network"
    assert Labelling.from_dict(PLAN.to_dict()) == PLAN
    with pytest.raises(UsageError, match="network, scattering"):
        Labelling.from_dict({**fields, "kind": "other"})
    # the rate of a network's steps has the unit that it had
    lesson = PretrainedLabeller.make(PLAN, drawn(*stripes(30)), 0)
    assert lesson.mechanism(PLAN, 200.0, "cpu").rate == pytest.approx(50.0 / 200.0)
    as_network = replace(PLAN, kind="network")
    assert lesson.mechanism(as_network, 200.0, "cpu").rate == pytest.approx(2.0 * 50.0 * lesson.features.size / 200.0)


@pytest.mark.parametrize("device", ["cpu", "cuda"])
@pytest.mark.parametrize(("sigma", "rounds"), [(0.54, 40), (3.73, 20)])
def test_colour_images_of_ten_classes_are_labelled_on_any_device(device: str, sigma: float, rounds: int) -> None:
    problem = replace(COLOURS, sigma=sigma, device=device)
    chosen = choose_labelling(problem)
    assert chosen is not None
    assert (chosen.kind, chosen.rounds) == ("scattering", rounds)
    assert chosen.sigma == pytest.approx(sigma / LABELS_SHARE**0.5)
    assert chosen.length == pytest.approx(2.0 / (chosen.sigma / 10_000) ** 0.5)
    chosen.check((32, 32, 3), 10, 10_000)


def test_samples_of_a_strong_signal_teach_a_network_on_a_gpu() -> None:
    faces = replace(COLOURS, classes=2, records=8_000, sigma=0.6)
    chosen = choose_labelling(faces)
    assert chosen is not None
    assert chosen.kind == "network"
    on_cpu = choose_labelling(replace(faces, device="cpu"))
    assert on_cpu is not None
    assert on_cpu.kind == "scattering"
    # a network has no outputs for images as large as these
    large = choose_labelling(replace(faces, dim=3 * 128**2, shape=(128, 128, 3)))
    assert large is not None
    assert large.kind == "scattering"


def test_other_images_are_labelled_as_before() -> None:
    grey = replace(COLOURS, dim=784, shape=(28, 28), records=60_000, sigma=1.1)
    assert choose_labelling(replace(grey, device="cpu")) is None
    for problem in (grey, replace(grey, shape=(28, 28, 1))):
        chosen = choose_labelling(problem)
        assert chosen is not None
        assert chosen.kind == "network"
    # too small, too many, or nothing to tell apart
    assert labelling_of(replace(COLOURS, dim=192, shape=(8, 8, 3)), 0.2).kind == "network"
    assert choose_labelling(replace(COLOURS, records=10**7)) is None
    assert choose_labelling(replace(COLOURS, classes=1)) is None
    assert choose_labelling(replace(COLOURS, shape=None)) is None
    with pytest.raises(UsageError, match="too small"):
        PLAN.check((8, 8, 3), 3, None)
    with pytest.raises(UsageError, match="at most 10"):
        replace(PLAN, columns=10).check(SHAPE, 3, None)


def test_a_design_for_colour_images_pays_for_labels_by_default() -> None:
    facts = vault().facts
    design = small(features=None, rules=None).design(facts)
    found = design.labelling
    assert found is not None
    assert (found.kind, found.columns) == ("scattering", SCATTERED["columns"])
    whole = embedding(adjacency=Adjacency.ADD_REMOVE, delta=TERMS[1], epsilon=TERMS[0]).sigma
    assert found.sigma == pytest.approx(whole / LABELS_SHARE**0.5, rel=1e-6)
    assert design.mechanism.sigma == pytest.approx(whole / (1.0 - LABELS_SHARE) ** 0.5, rel=1e-6)
