"""Colour images on a GPU: who gets which share, training on both means, jobs that go on, folders that are audited."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from killed_jobs import killed_at

from privot.audit.findings import broken
from privot.audit.targets.synth_folder import audit_folder
from privot.common.privacy_unit import Unit
from privot.errors import DataError, UsageError
from privot.guarantee import Adjacency
from privot.ledger import Ledger
from privot.mechanisms import Facts
from privot.synthesis import Rules, Synthesizer
from privot.synthesis.design import check_cost
from privot.synthesis.methods import embedding_method
from privot.synthesis.methods.embedding_method import EmbeddingDesign
from privot.synthesis.methods.embedding_training import Target, _Step, train
from privot.synthesis.neural.after_training.relabelling import MAX_RECORDS
from privot.synthesis.neural.defaults import common_mean
from privot.synthesis.neural.defaults.after_training_defaults import choose_warp_selection, wants_common_mean
from privot.synthesis.neural.defaults.common_mean import CommonMean, choose_maps, column_scales
from privot.synthesis.neural.defaults.feature_defaults import choose_both
from privot.synthesis.neural.defaults.generator_defaults import COMMON_STEPS, choose_rules
from privot.synthesis.neural.defaults.problem_and_rules import Problem
from privot.synthesis.neural.defaults.streaming_defaults import embedding_options
from privot.synthesis.neural.features.fourier import Fourier, Stack
from privot.synthesis.neural.features.scattered import Scattered
from privot.synthesis.neural.generator_training.distributed import ALONE
from privot.synthesis.neural.generator_training.training_state import TrainingState
from privot.synthesis.neural.public.public_images import MIN_IMAGES, PublicImages
from privot.synthesis.output.output_folder import write_folder
from privot.vault import Vault
from synthesis_asked import flat

SHAPE, DIM = (16, 16, 3), 768
TERMS = (20.0, 1e-5)
COLOURS = Problem(3072, 10, 0.54, 10_000, (32, 32, 3), "cuda", common=True)


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SCATTERED", "NOISY_SCATTERED"):
        monkeypatch.setattr(common_mean, name, 12)


def images(records: int = 90, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Reddish and bluish noise, one class each, and a bright upper half that both have."""
    dice, y = np.random.default_rng(seed), np.arange(records) % 2
    x = 0.3 * dice.uniform(size=(records, *SHAPE))
    x[y == 0, :, :, 0] += 0.3
    x[y == 1, :, :, 2] += 0.3
    x[:, :8] += 0.3
    return x.reshape(records, -1), y


def maps() -> tuple[Any, CommonMean]:
    return choose_maps(Fourier(DIM, 20, [8.0], 1), SHAPE, False, None, 1, 0.0, 1.0)


def rules(steps: int = 12) -> Rules:
    config = {"kind": "mlp", "dim": DIM, "classes": 2, "segments": [[0, DIM, "interval"]], "latent": 4, "hidden": [16]}
    return Rules(config, steps, 8, 1e-2, {"common": maps()[1].to_dict()})


def small(**given: Any) -> Synthesizer:
    fields = {"shape": SHAPE, "features": maps()[0], "rules": rules(), "device": "cpu", "seed": 5, **given}
    return Synthesizer(*TERMS, **flat(**fields))


def vault(**given: Any) -> Vault:
    return Vault(*images(), classes=2, clip=28.0, adjacency="add-remove", **({"budget": TERMS} | given))


def test_only_colour_images_of_several_classes_on_a_gpu_have_one() -> None:
    with_one = [COLOURS, replace(COLOURS, sigma=5.0), replace(COLOURS, classes=2), replace(COLOURS, shape=(3, 32, 32))]
    grey = replace(COLOURS, dim=1024, shape=(32, 32))
    small_ = replace(COLOURS, dim=192, shape=(8, 8, 3))
    without = [grey, small_, replace(COLOURS, device="cpu"), replace(COLOURS, classes=1), replace(COLOURS, shape=None)]
    for problem in with_one:
        by_class, common = choose_both(problem, None, 1, 0.0, 255.0)
        assert common is not None
        assert by_class.dim == common.features.dim == 3072
        assert choose_warp_selection(problem, Adjacency.ADD_REMOVE) is None
        assert choose_rules(problem).steps == COMMON_STEPS
    for problem in without:
        assert choose_both(replace(problem, common=False), None, 1, 0.0, 255.0)[1] is None
        with pytest.raises(UsageError, match="leave it out"):
            choose_both(problem, None, 1, 0.0, 255.0)
    assert choose_both(replace(COLOURS, common=False), None, 1, 0.0, 255.0)[1] is None


def test_the_rules_want_one_where_noise_is_weak_and_labels_are_tuned() -> None:
    wanted = replace(COLOURS, common=False)
    assert wants_common_mean(wanted)
    # the signal is n_c/5σ: from 200, to where a network labels better than wavelets
    assert wants_common_mean(replace(wanted, sigma=0.999))
    assert not wants_common_mean(replace(wanted, sigma=1.001))
    assert not wants_common_mean(replace(wanted, records=60_000))
    other: list[dict[str, Any]] = [
        {"device": "cpu"}, {"codes": 2048}, {"classes": 1}, {"dim": 1024, "shape": (32, 32)}, {"shape": None},
        {"dim": 192, "shape": (8, 8, 3)}, {"dim": 28_800, "shape": (16, 600, 3)},
        # larger than what a network labels: neither tried nor, with its scattering of every sample, small in memory
        {"dim": 12_288, "shape": (64, 64, 3)},
        {"dim": 12_288, "shape": (64, 64, 3), "records": 60_000},
    ]  # fmt: skip
    for change in other:
        assert not wants_common_mean(replace(wanted, **change))
    # what labels leave must not be noisy
    assert wants_common_mean(wanted, 0.8)
    assert not wants_common_mean(wanted, 0.9)
    # so many records that labels are not tuned
    assert wants_common_mean(replace(wanted, classes=1000, records=MAX_RECORDS, sigma=3.0))
    assert not wants_common_mean(replace(wanted, classes=1000, records=MAX_RECORDS + 1, sigma=3.0))


@pytest.mark.slow
@pytest.mark.gate(5)
@pytest.mark.parametrize(
    ("given", "options", "common"),
    [
        ({}, {}, True),
        ({}, {"common": 0}, False),
        ({}, {"labelled": 0.5}, True),
        ({}, {"labelled": 0}, False),
        ({}, {"labelled": 0.9}, False),
        ({}, {"leaves": 1}, False),
        ({"epsilon": 1.0}, {}, False),
        ({"epsilon": 1.0}, {"common": 1}, True),
        ({"features": Fourier(3072, 20, [8.0], 1)}, {}, False),
        ({"public": PublicImages(np.zeros((MIN_IMAGES, 32, 32, 3)))}, {}, False),
        ({"unit": Unit("patient", 1)}, {}, False),
    ],
)
def test_a_plan_has_one_by_the_rules_or_as_the_options_say(
    given: dict[str, Any], options: dict[str, float], common: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    # planned for a GPU, without one: nothing runs there
    made = embedding_method.mechanism_of
    monkeypatch.setattr(embedding_method, "usable_device", lambda device, auto: "cuda")
    monkeypatch.setattr(embedding_method, "mechanism_of", lambda *terms: made(*terms[:4], "cpu"))
    facts = Facts(3072, None, 56.0, Adjacency.ADD_REMOVE, 10, unit=given.get("unit"))
    asked = {"epsilon": 10.0, "shape": (32, 32, 3), "records": 10_000, "options": options, "seed": 1, **given}
    asked.pop("unit", None)
    design = Synthesizer(**flat(delta=1e-5, **asked)).design(facts)
    assert (design.mechanism.common is not None) == common
    # its features have so many directions that trying them takes half a minute
    if options != {"labelled": 0.9}:
        check_cost(design.event(facts), 1e-5, asked["epsilon"], 1e-5)
    if common:
        assert design.rules.steps == COMMON_STEPS
        assert "choosing" not in design.rules.options
        assert design.rules.options["labelling"]["kind"] == "scattering"


def test_rules_with_features_leave_it_to_the_rules() -> None:
    facts = Facts(DIM, None, 28.0, Adjacency.ADD_REMOVE, 2)
    design = small().design(facts)
    again = small(rules=replace(design.rules, options={})).design(facts)
    assert (design.mechanism.common is None, again.mechanism.common is None) == (False, True)


@pytest.mark.parametrize("given", [2, -1, "yes", None])
def test_the_option_is_0_or_1(given: Any) -> None:
    assert embedding_options({"common": 1}) == {"common": 1.0}
    with pytest.raises(UsageError, match="must be 0 or 1"):
        embedding_options({"common": given})


def test_it_is_refused_where_it_cannot_be_before_anything_is_paid(monkeypatch: pytest.MonkeyPatch) -> None:
    held = vault()
    for name in ("release", "release_once"):
        monkeypatch.setattr(Vault, name, None)
    for given, said in (({"features": None}, "on a GPU"), ({}, "leave it out, or the features")):
        with pytest.raises(UsageError, match=said):
            small(rules=None, options={"common": 1}, **given).fit(held)


@pytest.mark.parametrize(("sigma", "parts"), [(0.54, common_mean.QUIET), (5.0, common_mean.NOISY)])
def test_every_map_gets_its_part_of_the_release(sigma: float, parts: tuple[float, ...]) -> None:
    by_class, common = choose_both(replace(COLOURS, sigma=sigma), None, 1, 0.0, 255.0)
    assert common is not None
    filters, codes, class_filters, class_codes = parts
    assert isinstance(common.features, Stack)
    assert [common.share * w**2 for w in common.features.shares] == pytest.approx([filters, codes])
    assert isinstance(common.features.maps[1], Scattered)
    if class_filters:
        assert isinstance(by_class, Stack)
        assert [(1 - common.share) * w**2 for w in by_class.shares] == pytest.approx([class_filters, class_codes])
    else:
        assert isinstance(by_class, Scattered)
        assert 1.0 - common.share == pytest.approx(class_codes)


def test_columns_are_weighted_by_their_noise() -> None:
    one, two = Fourier(2, 3, [1.0], 1), Fourier(2, 50, [1.0], 1)
    scales = column_scales(Stack([one, two], [0.6, 0.8]), 0.01)
    assert len(scales) == 106
    for size, weight, at in ((6, 0.6, 0), (100, 0.8, 6)):
        noise = 0.01 * math.sqrt(size) / weight
        assert scales[at] * weight == pytest.approx(math.sqrt(0.01 / (0.01 + noise**2)))
        assert len(set(scales[at : at + size])) == 1
    # without noise all maps count alike
    assert column_scales(two, 0.0) == [1.0] * 100


@pytest.mark.slow
def test_the_loss_is_that_of_both_targets_and_falls() -> None:
    mechanism = small().design(Facts(DIM, None, 28.0, Adjacency.ADD_REMOVE, 2)).mechanism
    release = vault().release(mechanism, purpose="test")
    target = Target.of(release)
    assert target.common is not None
    records = float(np.sum(release.value["counts"]))
    np.testing.assert_allclose(target.common.mean, np.asarray(release.value["common"]) / records)
    training = TrainingState.start(rules(), 5, "cpu")
    step = _Step(training, target, ALONE)
    step._z.normal_(generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        made = training.generator(step._z, step._labels)
        both_maps = (target.features, target.common.features)
        phi, chi = (m.features(made).view(2, 8, -1).mean(dim=1).double().numpy() for m in both_maps)
    weights = target.weights / target.weights.sum()
    wanted = float((weights * (((target.means - phi) * target.scales) ** 2).sum(axis=1)).sum())
    both = wanted + float((((target.common.mean - target.common.shares @ chi) * target.common.scales) ** 2).sum())
    step._work()
    assert float(step._loss) == pytest.approx(both, rel=1e-3)
    assert both > 1.01 * wanted
    again = Target.from_share({**target.to_share()})
    assert again.common is not None
    assert again.common.features.to_dict() == target.common.features.to_dict()
    assert np.array_equal(again.common.mean, target.common.mean)
    losses = train(release, rules(20), device="cpu", seed=0).losses
    assert losses[-1] < 0.8 * losses[0]


@pytest.mark.slow
def test_a_killed_job_goes_on_and_another_release_is_refused(tmp_path: Path) -> None:
    ledger, folder = Ledger.create(tmp_path / "ledger"), tmp_path / "out"
    held = vault(ledger=ledger)
    with killed_at("privot.synthesis.methods.embedding_method.train"):
        small().fit(held, folder=folder)
    done = small().fit(held, folder=folder)
    assert len(ledger.entries()) == 1
    assert done.guarantee_.epsilon() <= TERMS[0]
    design = EmbeddingDesign.from_dict(json.loads(json.dumps(done.design_.to_dict())), "cpu")
    assert design.mechanism.common_share == pytest.approx(0.25)
    design.check_release(done.release_)
    # noise that is stated too small would lead training astray
    for name in ("sums_sigma", "counts_sigma", "common_sigma"):
        public = {**done.release_.public, name: done.release_.public[name] * 1e-6}
        with pytest.raises(DataError, match="not the one"):
            design.check_release(replace(done.release_, public=public))
    # another share, or none, is another release
    for wrong in ({**design.rules.options["common"], "share": 0.3}, None):
        options = {} if wrong is None else {"common": wrong}
        fields = {**design.to_dict(), "rules": {**design.rules.to_dict(), "options": options}}
        with pytest.raises(DataError, match="not the one"):
            EmbeddingDesign.from_dict(fields, "cpu").check_release(done.release_)
    for wrong in ([], {"share": 0.3}, {**design.rules.options["common"], "share": "x"}):
        with pytest.raises(DataError):
            CommonMean.from_dict(wrong)
    write_folder(done, folder, 40, 1)
    found = audit_folder(folder, candidates=60, runs=40, trials=10_000)
    findings, tests, guarantee = found.findings, found.tests, found.guarantee
    assert broken(findings) == []
    assert "the noise of the common was added on a grid" in [f.name for f in findings]
    assert all(t.epsilon <= guarantee.epsilon() for t in tests[:2])


def test_a_design_from_before_has_no_such_row() -> None:
    facts = Facts(DIM, None, 28.0, Adjacency.ADD_REMOVE, 2)
    fields = small(rules=replace(rules(), options={})).design(facts).to_dict()
    assert "common" not in json.dumps(fields)
    design = EmbeddingDesign.from_dict(fields, "cpu")
    assert design.mechanism.maps == (design.mechanism.features,)
    assert design.mechanism.common_share == 0.0
    assert design.to_dict() == fields
