"""How far samples are warped is chosen by a count of records that is paid for, once, and by nothing else."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from killed_jobs import kill, killed_at, resumed, spent
from synthesis_samples import BARS, bars

from privot.accounting import account
from privot.accounting.events import Composed, leaves, repeated
from privot.errors import BudgetError, DataError, UsageError
from privot.evaluation.classifiers import fitted
from privot.guarantee import Adjacency
from privot.jobs.job import Job
from privot.jobs.run import Run
from privot.kinds import Images
from privot.ledger import Ledger
from privot.mechanisms.accuracy_counts import correct_counts_event
from privot.release import Release
from privot.synthesis import Rules, Synthesizer
from privot.synthesis.job_files import CHOICE, LABELS
from privot.synthesis.method_configs import Sinkhorn
from privot.synthesis.methods import after_training_steps
from privot.synthesis.methods.embedding_method import beside
from privot.synthesis.neural.after_training.relabelling import Drawn, Labelling, _first_weights
from privot.synthesis.neural.after_training.warp_selection import EACH, WarpSelection, classifiers, warped
from privot.synthesis.neural.defaults import after_training_defaults
from privot.synthesis.neural.defaults.after_training_defaults import FACTORS, choose_warp_selection
from privot.synthesis.neural.defaults.problem_and_rules import Problem
from privot.synthesis.neural.features.fourier import Fourier
from privot.synthesis.neural.features.network_features import CONSTANT
from privot.synthesis.neural.generators.generator import build
from privot.vault import Vault
from synthesis_asked import flat

pytestmark = pytest.mark.slow

TERMS = (8.0, 1e-5)
PLAN = WarpSelection(sigma=8.0, factors=(0.5, 1.0, 2.0), samples=60)
LABELLING = Labelling(sigma=1.0, rounds=4, length=0.5, columns=8, samples=60)
ADD, REPLACE = Adjacency.ADD_REMOVE, Adjacency.REPLACE_ONE

LEARNING = {
    "test_both_classifiers_know_the_classes_after_training_on_samples",
    "test_pixels_of_colour_images_are_read_in_their_order",
}
"""Tests of what the classifiers learn; to all others it makes no difference how long they are trained."""


@pytest.fixture(autouse=True)
def _short_trainings(request: pytest.FixtureRequest) -> None:
    if request.node.originalname not in LEARNING:
        request.getfixturevalue("short_trainings")


def rules(*, warp: float = 0.05, kind: str = "mapped", **options: Any) -> Rules:
    generator = {
        "kind": kind, "dim": 64, "classes": 3, "segments": [[0, 64, "interval"]], "latent": 10, "hidden": 8,
        "channels": 8, "shape": list(BARS), "doublings": 1, "warp": warp,
    }  # fmt: skip
    return Rules(generator, 20, 8, 1e-2, {"choosing": PLAN.to_dict(), **options})


def small(**given: Any) -> Synthesizer:
    fields = {"shape": BARS, "features": Fourier(64, 60, [2.0], 1), "rules": rules(), "device": "cpu", "seed": 5}
    fields |= given
    return Synthesizer(*fields.pop("terms", TERMS), **flat(**fields))


def vault(**given: Any) -> Vault:
    x, y = bars()
    return Vault(x, y, classes=3, clip=8.0, **({"budget": TERMS, "adjacency": "add-remove"} | given))


@pytest.mark.gate(1)
@pytest.mark.parametrize("adjacency", ["add-remove", "replace-one"])
def test_both_releases_cost_what_was_asked_for(adjacency: str) -> None:
    held = vault(adjacency=adjacency)
    done = small().fit(held)
    assert len(done.guarantee_.events) == 2
    assert done.guarantee_.epsilon() == pytest.approx(8.0, rel=1e-3)
    assert done.guarantee_.epsilon() <= 8.0
    assert done.release_.guarantee.epsilon() < 8.0
    assert done.generator_.config["warp"] in [pytest.approx(0.05 * f) for f in PLAN.factors]
    with pytest.raises(BudgetError):
        small(terms=(0.5, 1e-5), rules=replace(rules(), options={})).fit(held)


def test_a_choice_and_labels_cost_what_was_asked_for_together() -> None:
    done = small(rules=rules(labelling=LABELLING.to_dict())).fit(vault())
    assert len(done.guarantee_.events) == 3
    assert done.guarantee_.epsilon() == pytest.approx(8.0, rel=1e-3)
    assert done.guarantee_.epsilon() <= 8.0
    assert done.labeller_ is not None


@pytest.mark.gate(2)
@pytest.mark.parametrize("best", [0, 1, 2])
def test_the_factor_with_the_most_hits_is_taken_and_saved(
    best: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[int] = []

    def count(self: Any, records: Any) -> np.ndarray:
        seen.append(len(self.classifiers))
        # pixels say otherwise, but the sum counts
        pixels, seen_by_network = np.where(np.arange(3) == 1, 100, 0), np.where(np.arange(3) == best, 1000, 0)
        return np.stack([pixels, seen_by_network], axis=1).reshape(-1)

    monkeypatch.setattr("privot.mechanisms.accuracy_counts.CorrectCounts._count", count)
    done = small().fit(vault())
    assert seen == [6]
    assert done.generator_.config["warp"] == pytest.approx(0.05 * PLAN.factors[best])
    done.save(tmp_path)
    again = Synthesizer.load(tmp_path)
    assert np.allclose(again.sample(20, seed=1)[0], done.sample(20, seed=1)[0], atol=1e-6)
    assert again.guarantee_.epsilon() == pytest.approx(done.guarantee_.epsilon())


def test_a_generator_warps_by_its_factor_and_is_otherwise_the_same() -> None:
    torch.manual_seed(0)
    one = build(rules().generator).eval()
    z, labels = torch.randn(6, 10), torch.zeros(6, dtype=torch.int64)
    same, more = warped(one, 1.0).eval(), warped(one, 3.0).eval()
    assert torch.equal(same(z, labels), one(z, labels))
    assert not torch.allclose(more(z, labels), one(z, labels))
    # where the map of the plane is the identity, the factor does not matter
    z[:, -6:] = 0.0
    assert torch.allclose(more(z, labels), one(z, labels), atol=1e-6)
    before = torch.random.get_rng_state()
    warped(one, 2.0)
    assert torch.equal(torch.random.get_rng_state(), before)


def test_the_classifiers_are_trained_on_samples_warped_as_the_factors_say(monkeypatch: pytest.MonkeyPatch) -> None:
    warps: list[float] = []
    taught: list[tuple[int, int]] = []
    drawn = after_training_steps.draw

    def look(run: Any, fitted: Any, samples: int) -> Any:
        warps.append(fitted.generator.config["warp"])
        return drawn(run, fitted, samples)

    def teach(drawn: Drawn, seed: int) -> Any:
        taught.append((len(drawn.x), seed))
        return classifiers(drawn, seed)

    monkeypatch.setattr(after_training_steps, "draw", look)
    monkeypatch.setattr("privot.synthesis.methods.after_training_steps.classifiers", teach)
    small().fit(vault())
    assert warps == [pytest.approx(0.05 * f) for f in PLAN.factors]
    assert taught == [(PLAN.samples, 5)] * 3


def test_nothing_is_warped_by_the_records_under_less_than_it_cost() -> None:
    made = small()
    for place in ("privot.synthesis.methods.after_training_steps.classifiers", "privot.guarantee.Guarantee.compose"):
        with killed_at(place):
            made.fit(vault())
        assert made.generator_.warp == 0.05
    labelled = small(rules=replace(rules(), options={"labelling": LABELLING.to_dict()}))
    with killed_at("privot.guarantee.Guarantee.compose"):
        labelled.fit(vault())
    assert labelled.labeller_ is None


def test_what_cannot_be_finished_is_not_begun(tmp_path: Path) -> None:
    for folder in (None, tmp_path / "out"):
        ledger = Ledger.create(tmp_path / f"ledger {folder is None}")
        # the first release alone would fit
        held = vault(ledger=ledger, budget=(7.97, 1e-5))
        with pytest.raises(BudgetError):
            small().fit(held, folder=folder)
        assert not ledger.entries()
        with pytest.raises(BudgetError):
            small().fit(vault(budget=(7.97, 1e-5)))
    plain = small(rules=replace(rules(), options={}), terms=(7.9, 1e-5))
    assert plain.fit(vault(budget=(7.97, 1e-5))).guarantee_.epsilon() <= 7.9


def test_what_is_due_is_what_is_charged_later(tmp_path: Path) -> None:
    ledger = Ledger.create(tmp_path / "ledger")
    held, folder = vault(ledger=ledger), tmp_path / "out"
    asked = small(rules=rules(labelling=LABELLING.to_dict()))
    asked.fit(held, folder=folder)
    design, job = asked.design(held.facts), Job.open(folder)
    first, choice, labels = (entry.event for entry in ledger.entries())
    files = ["release.npz", f"{CHOICE}.npz", f"{LABELS}.npz"]
    for lost, wanted in (
        (files, [first, choice, labels]),
        (files[:1], [first, choice, labels]),
        (files[1:], [choice, labels]),
        (files[1:2], [choice, labels]),
        (files[2:], [labels]),
    ):
        for name in lost:
            (folder / name).rename(tmp_path / name)
        due = design.due(Run(job, kill, spent(ledger)))
        assert isinstance(due, Composed)
        assert leaves(due) == leaves(Composed(tuple(wanted)))
        for name in lost:
            (tmp_path / name).rename(folder / name)


def test_of_a_stream_the_blocks_that_nobody_paid_for_are_due(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(after_training_defaults.LABELLING["cpu"], "samples", 60)
    options = {"steps": 6, "blocks": 3, "batch": 10, "points": 6, "labelled": 0.3}
    asked = Synthesizer(*TERMS, records=200, device="cpu", seed=5, kind=Images(BARS), method=Sinkhorn(options=options))
    design = asked.design(vault().facts)
    assert design.labelling is not None
    job = Job(tmp_path, "name", {})
    step, labels = design.mechanism.event(design.facts), design.labelling.event(ADD)
    for paid in range(4):
        due = design.due(Run(job, kill, lambda mark, paid=paid: paid))
        wanted = [repeated(step, 2 * (3 - paid))] if paid < 3 else []
        assert leaves(due) == leaves(Composed((*wanted, labels)))


def test_a_part_that_is_refused_removes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger = Ledger.create(tmp_path / "ledger")
    held, folder = vault(ledger=ledger, budget=(90.0, 1e-5)), tmp_path / "out"
    small().fit(held, folder=folder).save(folder)
    job = Job.open(folder)
    (folder / f"{CHOICE}.npz").unlink()
    left = sorted(p.name for p in folder.iterdir())

    def refuse(*_: Any) -> Any:
        raise UsageError("no")

    monkeypatch.setattr("privot.mechanisms.accuracy_counts.CorrectCounts.event", refuse)
    with pytest.raises(UsageError, match="no"):
        resumed(folder, ledger, lambda: held, job=job, pay_again=True)
    assert sorted(p.name for p in folder.iterdir()) == left
    assert len(ledger.entries()) == 2


def test_a_payment_that_is_refused_removes_nothing(tmp_path: Path) -> None:
    ledger = Ledger.create(tmp_path / "ledger")
    held, folder = vault(ledger=ledger), tmp_path / "out"
    done = small(rules=rules(labelling=LABELLING.to_dict())).fit(held, folder=folder)
    done.save(folder)
    job = Job.open(folder)
    (folder / f"{CHOICE}.npz").unlink()
    left = sorted(p.name for p in folder.iterdir())
    with pytest.raises(BudgetError):
        resumed(folder, ledger, lambda: held, job=job, pay_again=True)
    assert sorted(p.name for p in folder.iterdir()) == left
    assert f"{LABELS}.npz" in left
    assert len(ledger.entries()) == 3


def test_both_classifiers_know_the_classes_after_training_on_samples() -> None:
    x, y = bars(210)
    low, span = -2.0, 5.0
    drawn = Drawn(torch.from_numpy(x).float(), torch.from_numpy(y), 3, BARS, (low, low + span))
    both = classifiers(drawn, 0)
    assert len(both) == EACH
    for one in both:
        # records come in their own unit
        scores = one.features(torch.from_numpy(low + span * x))[:, :3]
        assert (scores.argmax(dim=1).numpy() == y).mean() > 0.95
    # the first is the linear classifier itself, up to a factor
    model = fitted("logreg", drawn.x, drawn.labels, 3, seed=0)
    wanted = model(drawn.x).detach().double()
    found = both[0].features(torch.from_numpy(low + span * x))[:, :3]
    shares = (wanted / found).numpy()
    assert np.allclose(shares, np.median(shares), rtol=0.02)
    # the second is the linear classifier of what the network sees, offsets and all, up to a factor
    network = fitted("cnn", drawn.x, drawn.labels, 3, shape=BARS, seed=0)
    flat = network.flat(drawn.x).detach()
    off = flat - flat.mean(dim=0)
    seen = torch.cat([off / off.square().sum(dim=1).mean().sqrt(), torch.full((210, 1), CONSTANT)], dim=1)
    wanted = seen.double() @ torch.from_numpy(_first_weights(seen, drawn.labels, 3, 1e-5))
    found = both[1].features(torch.from_numpy(low + span * x))[:, :3]
    assert torch.allclose(found / found.std(), wanted / wanted.std(), atol=0.02)


@pytest.mark.gate(1)
@pytest.mark.parametrize("shape", [(8, 8, 3), (3, 8, 8)])
def test_pixels_of_colour_images_are_read_in_their_order(shape: tuple[int, ...]) -> None:
    """Classes that differ by colour alone."""
    dice, y = np.random.default_rng(0), np.arange(300) % 3
    x = 0.3 * dice.uniform(size=(300, *shape))
    for c in range(3):
        if shape[-1] == 3:
            x[y == c, :, :, c] += 0.6
        else:
            x[y == c, c] += 0.6
    x = x.reshape(300, -1)
    drawn = Drawn(torch.from_numpy(x).float(), torch.from_numpy(y), 3, shape, (0.0, 1.0))
    for one in classifiers(drawn, 0):
        assert (one.features(torch.from_numpy(x))[:, :3].argmax(dim=1).numpy() == y).mean() > 0.95


def test_the_more_hits_in_all_count() -> None:
    release = small().fit(vault()).release_
    counts = np.array([5.0, 1.0, 3.0, 4.0, 0.0, 6.5])
    assert PLAN.chosen(Release(counts, release.guarantee, {})) == PLAN.factors[1]


def test_what_is_asked_for_is_compared_with_the_cost_of_both() -> None:
    facts = vault().facts
    design = small().design(facts)
    assert account(design.mechanism.event(facts), 1e-5).epsilon() < 7.95
    with pytest.raises(DataError, match="nothing was paid"):
        design.check(facts, 7.95, 1e-5, "cpu")


@pytest.mark.parametrize("adjacency", [ADD, REPLACE])
def test_a_rule_asks_for_a_choice_where_images_are_warped(adjacency: Adjacency) -> None:
    problem = Problem(784, 10, 3.7, 60_000, (28, 28), "cuda")
    for sigma in (3.7, 16.0):
        chosen = choose_warp_selection(replace(problem, sigma=sigma), adjacency)
        assert chosen is not None
        assert chosen.factors == FACTORS
        event = chosen.event(adjacency)
        one = beside(sigma, adjacency, event)
        # 2 % of the budget
        assert (sigma / one) ** 2 == pytest.approx(0.98, rel=1e-6)
        assert 1 / one**2 + EACH * len(FACTORS) / (adjacency.sensitivity(1.0) * chosen.sigma) ** 2 < 1 / sigma**2
    assert choose_warp_selection(replace(problem, sigma=0.5), adjacency) is None
    assert choose_warp_selection(replace(problem, device="cpu"), adjacency) is None
    assert choose_warp_selection(replace(problem, classes=1), adjacency) is None
    assert choose_warp_selection(replace(problem, shape=None), adjacency) is None
    assert choose_warp_selection(replace(problem, dim=64 * 64, shape=(64, 64)), adjacency) is None


@pytest.mark.parametrize(
    "bad", [{"sigma": 0.0}, {"sigma": 1e-9}, {"factors": (1.0,)}, {"factors": (0.0, 1.0)}, {"samples": 3}]
)
def test_choices_that_cannot_be_are_refused(bad: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        replace(PLAN, **bad)
    for wrong in ({"sigma": 0.5}, {**PLAN.to_dict(), "factors": ["a", "b"]}, {**PLAN.to_dict(), "factors": 3}):
        with pytest.raises(DataError):
            WarpSelection.from_dict(wrong)
    with pytest.raises(UsageError, match="σ"):
        WarpSelection.from_dict({**PLAN.to_dict(), "sigma": 0.0})


def test_only_warped_images_with_classes_have_a_choice() -> None:
    x, _ = bars()
    plain = Vault(x, clip=8.0, adjacency="add-remove", budget=TERMS)
    with pytest.raises(UsageError, match="several classes"):
        small().design(plain.facts)
    with pytest.raises(UsageError, match="several classes"):
        small(shape=None).design(vault().facts)
    for still in (rules(warp=0.0), rules(kind="deconv")):
        with pytest.raises(UsageError, match="does not warp"):
            small(rules=still).design(vault().facts)
    with pytest.raises(UsageError, match="whole budget"):
        small(rules=rules(choosing=replace(PLAN, sigma=0.1).to_dict())).design(vault().facts)
    x, y = np.zeros((4, 9)), np.array([0, 1, 2, 0])
    tiny = Vault(x, y, classes=3, clip=3.0, adjacency="add-remove", budget=TERMS)
    with pytest.raises(UsageError, match="too small"):
        small(shape=(3, 3), features=Fourier(9, 60, [2.0], 1)).design(tiny.facts)


@pytest.mark.gate(1)
@pytest.mark.parametrize(
    ("charges", "place"),
    [
        (1, "privot.synthesis.methods.after_training_steps.draw"),
        (2, "privot.synthesis.neural.after_training.warp_selection.WarpSelection.chosen"),
    ],
    ids=["learning", "paid"],
)
def test_a_job_killed_before_its_choice_goes_on_and_pays_for_it_once(charges: int, place: str, tmp_path: Path) -> None:
    ledger = Ledger.create(tmp_path / "ledger")
    held, folder = vault(ledger=ledger), tmp_path / "out"
    with killed_at(place):
        small(rules=rules(labelling=LABELLING.to_dict())).fit(held, folder=folder)
    assert len(ledger.entries()) == charges
    opened: list[Vault] = []

    def opening() -> Vault:
        opened.append(held)
        return held

    done = resumed(folder, ledger, opening)
    assert len(ledger.entries()) == 3
    assert len(opened) == 1
    assert done.guarantee_.epsilon() == pytest.approx(8.0, rel=1e-3)
    # and once more, from what lies there
    again = resumed(folder, ledger, kill)
    assert len(ledger.entries()) == 3
    assert again.generator_.config == done.generator_.config
    assert again.guarantee_.epsilon() == pytest.approx(done.guarantee_.epsilon())
    [data] = ledger.datasets()
    assert ledger.spent(data.fingerprint).epsilon(1e-5) == pytest.approx(done.guarantee_.epsilon(), rel=1e-6)


def test_a_choice_that_was_lost_swapped_or_never_paid_for_is_not_believed(tmp_path: Path) -> None:
    ledger = Ledger.create(tmp_path / "ledger")
    # what is quoted is quoted at the job's δ, not at the budget's
    held, folder = vault(ledger=ledger, budget=(90.0, 1e-4)), tmp_path / "out"
    asked = rules(labelling=LABELLING.to_dict())
    small(rules=asked).fit(held, folder=folder)
    assert len(ledger.entries()) == 3
    resume = partial(resumed, folder, ledger, lambda: held)

    with pytest.raises(DataError, match="never paid"):
        resume(lambda mark: 0 if CHOICE in mark else 1)
    path = folder / f"{CHOICE}.npz"
    kept, release = path.read_bytes(), Release.load(path)
    assert isinstance(release.value, np.ndarray)
    public = dict(release.public)
    assert release.guarantee.at_delta == 1e-5
    # another job's, which costs the same and was made from another release
    small(rules=asked, seed=6).fit(vault(), folder=tmp_path / "other")
    elsewhere = Release.load(tmp_path / "other" / f"{CHOICE}.npz")
    assert elsewhere.guarantee.events == release.guarantee.events
    dearer = account(correct_counts_event(4.0, 6, ADD), 1e-5)
    for other in (
        elsewhere,
        Release(release.value, dearer, public),
        Release(np.full(6, np.nan), release.guarantee, public),
        Release(release.value, release.guarantee, {**public, "classes": 4}),
        Release(release.value, release.guarantee, {**public, "records": 200}),
        Release(release.value, replace(release.guarantee, at_delta=1e-6), public),
        Release(release.value, release.guarantee, {**public, "sigma": 9.0}),
        Release(release.value, release.guarantee, {**public, "mechanism": "tuning"}),
        Release(release.value[:2], release.guarantee, public),
        Release({"counts": release.value}, release.guarantee, public),
        Release.load(folder / f"{LABELS}.npz"),
    ):
        other.save(path)
        with pytest.raises(DataError, match=r"not the one its job paid for|a release holds finite numbers"):
            resume()
    path.write_bytes(kept)
    silent = Job.open(folder)
    settings = json.loads(json.dumps(dict(silent.settings)))
    del settings["design"]["rules"]["options"]["choosing"]
    with pytest.raises(DataError, match="does not mention"):
        resume(job=Job(folder, silent.name, settings))
    # labels alone are paid for anew: the choice stays
    (folder / f"{LABELS}.npz").unlink()
    resume(pay_again=True)
    assert len(ledger.entries()) == 4
    assert path.read_bytes() == kept
    # a choice that is paid for anew takes what was made with the old one along
    path.unlink()
    (folder / "synthetic.npz").write_bytes(b"made with the choice that is lost")
    with pytest.raises(BudgetError, match="charge for its choice"):
        resume()
    assert len(ledger.entries()) == 4
    done = resume(pay_again=True)
    assert len(ledger.entries()) == 6
    # the old one was made from the same release, but what labels rest on was made with the new one
    new = path.read_bytes()
    path.write_bytes(kept)
    with pytest.raises(DataError, match="not learned from this job"):
        resume()
    path.write_bytes(new)
    assert not (folder / "synthetic.npz").exists()
    assert (folder / "checkpoint.safetensors").exists()
    # what was paid for twice counts twice
    [data] = ledger.datasets()
    assert done.guarantee_.epsilon() == pytest.approx(ledger.spent(data.fingerprint).epsilon(1e-5), rel=1e-6)
    # and a first release that is paid for anew takes both along
    (folder / "release.npz").unlink()
    before = path.read_bytes()
    resume(pay_again=True)
    assert len(ledger.entries()) == 9
    assert path.read_bytes() != before
    # which cannot be put back
    path.write_bytes(before)
    with pytest.raises(DataError, match="not the one its job paid for"):
        resume()


@pytest.mark.full("audit of a folder with two releases: test_labelling.py")
def test_a_folder_with_a_choice_is_audited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from privot.audit.targets import synth_folder
    from privot.audit.targets.synth_folder import audit_folder
    from privot.synthesis.output.output_folder import write_folder

    folder = tmp_path / "out"
    done = small().fit(vault(), folder=folder)
    write_folder(done, folder, 60, 0)
    attacked: list[float] = []
    sample = synth_folder._sample

    def look(synthesizer: Any, generator: Any, count: int) -> Any:
        attacked.append(generator.warp)
        return sample(synthesizer, generator, count)

    monkeypatch.setattr(synth_folder, "_sample", look)
    found = audit_folder(folder, candidates=300, steps=5, runs=60, trials=20_000)
    findings, guarantee = found.findings, found.guarantee
    assert attacked == [pytest.approx(done.generator_.warp)] * 2
    assert guarantee.epsilon() == pytest.approx(8.0, rel=1e-3)
    said = [str(f.to_dict()) for f in findings]
    assert any("choice.npz" in f for f in said)
    # both releases are played
    assert any("events: " in f for f in said)
