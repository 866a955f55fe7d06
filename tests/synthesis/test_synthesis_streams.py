"""Strategies that pay as they go: what runs is what was planned, a kill pays nothing twice, and both learn."""

from __future__ import annotations

import copy
import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from killed_jobs import Killed
from synthesis_samples import toy

from privot.accounting import FixedSize, Poisson, Repeated, account, gradient, projection
from privot.common.cuda_graphs import unchanged
from privot.errors import BudgetError, DataError, NoTheoremError, UnprovenError, UsageError
from privot.jobs.job import Job
from privot.jobs.run import Run
from privot.ledger import Ledger
from privot.mechanisms import RandomProjection, SanitizedGradient
from privot.mechanisms.directions import directions_of
from privot.noise import SeededNoise
from privot.synthesis import Synthesizer
from privot.synthesis.methods import asked_of
from privot.synthesis.methods.generated_points import Points, RecordedPoints, still
from privot.synthesis.methods.sinkhorn_method import first_gradient, second_term
from privot.synthesis.methods.sliced_method import SlicedMethod
from privot.synthesis.methods.streaming_method import StreamDesign
from privot.synthesis.neural.defaults.problem_and_rules import Rules
from privot.synthesis.neural.generator_training import checkpoint
from privot.synthesis.neural.generator_training.training_state import TrainingState
from privot.synthesis.neural.generators.generator import build
from privot.transport import sinkhorn
from privot.transport._solvers.costs import with_labels
from privot.vault import Vault
from synthesis_asked import flat

pytestmark = pytest.mark.slow

SMALL: dict[str, Any] = {"steps": 12, "blocks": 4, "batch": 20}
SINKHORN = {**SMALL, "points": 10, "sweeps": 14}
SLICED = {**SMALL, "slices": 4, "repeats": 2, "replay": 2, "over": 2}


def asked(method: str, **changes: Any) -> Synthesizer:
    options = SLICED if method == "sliced" else SINKHORN
    given = {"epsilon": 5.0, "delta": 1e-5, "seed": 1, "device": "cpu", "records": 400, **changes}
    return Synthesizer(**flat(method=method, **{"options": options, **given}))


def locked(tmp_path: Path, adjacency: str = "replace-one") -> tuple[Ledger, Vault]:
    x, y = toy()
    path = tmp_path / "ledger"
    ledger = Ledger.open(path) if path.exists() else Ledger.create(path)
    return ledger, Vault(x, y, classes=2, clip=1.0, adjacency=adjacency, ledger=ledger, budget=(5.0, 1e-5))


def counted(ledger: Ledger) -> Any:
    return lambda mark: sum(mark in entry.purpose for entry in ledger.entries())


def open_vault(adjacency: str, epsilon: float = 50.0) -> Vault:
    x, y = toy()
    return Vault(x, y, classes=2, clip=1.0, adjacency=adjacency, budget=(epsilon, 1e-5))


@pytest.mark.gate(each="method")
@pytest.mark.parametrize("method", ["sinkhorn", "sinkhorn-parameters"])
@pytest.mark.parametrize("adjacency", ["add-remove", "replace-one"])
def test_whole_gradients_charge_what_their_plan_said(adjacency: str, method: str) -> None:
    vault = open_vault(adjacency)
    design = asked(method).design(vault.facts)
    plan = gradient(
        adjacency=adjacency, delta=1e-5, epsilon=5.0, records=400, batch=20, steps=12, clip=0.5, clipping="matrix"
    )
    assert plan.event == Repeated(design.mechanism.event(vault.facts), 12)
    assert isinstance(design.mechanism.sampling, Poisson if adjacency == "add-remove" else FixedSize)
    assert design.mechanism.steps * design.rules.options["blocks"] == design.rules.steps == 12
    done = asked(method).fit(vault)
    assert 4.9 < done.guarantee_.epsilon() <= 5.0
    assert str(done.guarantee_.adjacency) == adjacency


@pytest.mark.gate(1)
@pytest.mark.parametrize("adjacency", ["add-remove", "replace-one"])
def test_several_samples_a_step_are_planned_and_charged_as_many_times(adjacency: str, tmp_path: Path) -> None:
    vault = open_vault(adjacency)
    several = asked("sinkhorn", options={**SINKHORN, "samples": 3})
    design = several.design(vault.facts)
    assert design.mechanism.sigma == pytest.approx(
        gradient(
            adjacency=adjacency, delta=1e-5, epsilon=5.0, records=400, batch=20, steps=36, clip=0.5, clipping="matrix"
        ).sigma
    )
    assert design.mechanism.sigma > asked("sinkhorn").design(vault.facts).mechanism.sigma
    done = several.fit(vault, folder=tmp_path / "out")
    assert 4.9 < done.guarantee_.epsilon() <= 5.0
    with pytest.raises(UsageError, match="one sample"):
        asked("sinkhorn-parameters", options={**SINKHORN, "samples": 2}).design(vault.facts)


@pytest.mark.gate(each="bound")
@pytest.mark.parametrize("bound", ["exact", "bernstein", "clt"])
@pytest.mark.parametrize("labels", ["outer", "append"])
def test_sliced_charges_what_its_plan_said_with_labels_counted(bound: str, labels: str) -> None:
    vault = open_vault("replace-one")
    options = {**SLICED, "bound": bound, "frame": "independent", "labels": labels}
    if bound == "clt":
        # a limit argument, no bound: nobody gets it by accident
        with pytest.raises(UnprovenError, match="asymptotic"):
            asked("sliced", options=options).design(vault.facts)
    allowed = asked("sliced", options=options, allow_unproven=bound == "clt")
    design = allowed.design(vault.facts)
    # two columns and two classes: what is projected has four, appended or multiplied
    plan = projection(
        4, 4, adjacency="replace-one", delta=1e-5, epsilon=5.0, records=400, batch=20, steps=12, clip=1.0,
        frame="independent", bound=bound,
    )  # fmt: skip
    assert plan.event == Repeated(design.mechanism.event(vault.facts), 12)
    done = allowed.fit(vault)
    assert 4.5 < done.guarantee_.epsilon() <= 5.0
    assert str(done.guarantee_.standing) == ("asymptotic" if bound == "clt" else "proven")


def test_sliced_compares_images_made_coarser_and_makes_whole_ones(tmp_path: Path) -> None:
    """One class is bright in one corner, the other in the opposite one; four numbers of sixteen are looked at."""
    y = np.arange(400) % 2
    x = np.random.default_rng(5).uniform(0.0, 0.2, (400, 4, 4))
    x[y == 0, :2, 2:] += 0.8
    x[y == 1, 2:, :2] += 0.8
    vault = Vault(x.reshape(400, -1), y, classes=2, clip=3.0, adjacency="replace-one", budget=(2000.0, 1e-5))
    options = {"steps": 20, "blocks": 2, "slices": 4, "batch": 200, "repeats": 8, "average": 0.0, "warp": 0.0}
    made = asked("sliced", epsilon=1000.0, shape=(4, 4), options={**options, "pool": 2})
    design = made.design(vault.facts)
    assert design.mechanism.event(vault.facts).event.dim == 2 * 4
    assert StreamDesign.from_dict(json.loads(json.dumps(design.to_dict())), "cpu") == design
    cut = json.loads(json.dumps(design.to_dict()))
    del cut["rules"]["options"]["blocks"]
    with pytest.raises(DataError, match="does not describe a synthesis"):
        StreamDesign.from_dict(cut, "cpu")
    sampled, labels = made.fit(vault).sample(400, seed=0)
    coarse = sampled.reshape(400, 2, 2, 2, 2).mean(axis=(2, 4))
    for c, corner in ((0, (0, 1)), (1, (1, 0))):
        expected = np.full((2, 2), 0.1)
        expected[corner] = 0.9
        np.testing.assert_allclose(coarse[labels == c].mean(0), expected, atol=0.12)
    for bad in ({"pool": 3}, {"pool": 0}):
        with pytest.raises(UsageError):
            asked("sliced", shape=(4, 4), options={**options, **bad}).design(vault.facts)
    with pytest.raises(UsageError, match="state their shape"):
        asked("sliced", options={**options, "pool": 2}).design(vault.facts)
    ledger, small = locked(tmp_path)
    before = len(ledger.entries())
    with pytest.raises(UsageError, match="are not images"):
        small.release(RandomProjection(2, 1.0, shape=(8, 8), pool=2), purpose="refused")
    assert len(ledger.entries()) == before
    small.release(RandomProjection(2, 5.0), purpose="paid for")
    assert len(ledger.entries()) > before
    held = asdict(design.mechanism)
    # as jobs were written before images could be made coarser
    del held["shape"], held["pool"]
    assert SlicedMethod().read(held, "cpu").pool == 1


def test_sliced_has_no_theorem_under_add_remove() -> None:
    with pytest.raises(NoTheoremError, match="replace-one"):
        asked("sliced").fit(open_vault("add-remove"))


@pytest.mark.parametrize("method", ["sinkhorn", "sliced", "sinkhorn-parameters"])
def test_a_design_survives_json(method: str) -> None:
    facts = open_vault("replace-one").facts
    design = asked(method).design(facts)
    again = StreamDesign.from_dict(json.loads(json.dumps(design.to_dict())), "cpu")
    assert again == design
    params = asked(method).to_params()
    assert Synthesizer.from_params(json.loads(json.dumps(params)), "cpu").to_params() == params


@pytest.mark.gate(1)
@pytest.mark.parametrize("method", ["sinkhorn", "sliced", "sinkhorn-parameters"])
def test_what_is_written_samples_again_without_a_vault(method: str, tmp_path: Path) -> None:
    done = asked(method).fit(open_vault("replace-one"))
    done.save(tmp_path)
    again = Synthesizer.load(tmp_path)
    assert np.array_equal(done.sample(30, seed=4)[0], again.sample(30, seed=4)[0])
    assert again.guarantee_.epsilon() == pytest.approx(done.guarantee_.epsilon())
    x, y = again.sample(30)
    assert x.min() >= 0.0
    assert x.max() <= 1.0
    assert sorted(np.bincount(y)) == [15, 15]


@pytest.mark.gate(1)
@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "options"),
    [
        ("sinkhorn", {"steps": 150, "blocks": 2, "points": 20, "batch": 50, "sweeps": 14, "learning_rate": 5e-3}),
        ("sliced", {"steps": 20, "blocks": 2, "slices": 4, "batch": 200, "repeats": 8, "average": 0.0}),
    ],
)
def test_classes_are_learned_where_they_are(method: str, options: dict[str, Any]) -> None:
    x, y = toy()
    vault = Vault(x, y, classes=2, clip=1.5, adjacency="replace-one", budget=(2000.0, 1e-5))
    done = asked(method, epsilon=1000.0, options=options).fit(vault)
    sampled, labels = done.sample(400, seed=0)
    for c in (0, 1):
        assert np.abs(sampled[labels == c].mean(0) - (0.25 + 0.5 * c)).max() < 0.12, c


@pytest.mark.gate(1)
@pytest.mark.parametrize("method", ["sinkhorn", "sliced", "sinkhorn-parameters"])
def test_a_kill_loses_one_block_and_the_job_ends_with_the_charges_it_was_designed_for(
    method: str, tmp_path: Path
) -> None:
    ledger, vault = locked(tmp_path)
    folder = tmp_path / "out"

    def kill(step: int, steps: int, loss: float) -> None:
        if step == 6:
            raise Killed

    with pytest.raises(Killed):
        asked(method).fit(vault, folder=folder, progress=kill)
    # the second block was charged and run, and its training lost
    assert len(ledger.entries()) == 2
    assert checkpoint.load_facts(folder / checkpoint.NAME)["blocks"] == 1
    seen: list[int] = []
    job = Job.open(folder)
    done = Synthesizer.from_params(job.settings["params"], "cpu").run(
        Run(job, lambda: locked(tmp_path)[1], counted(ledger), ledger.identity),
        progress=lambda step, steps, loss: seen.append(step),
    )
    assert len(ledger.entries()) == 4
    assert seen == [9, 12]
    # three blocks were trained on, four were paid for, and the guarantee is of four
    assert len(done.losses_) == 9
    whole = Repeated(StreamDesign.from_dict(job.settings["design"], "cpu").mechanism.event(vault.facts), 12)
    assert done.guarantee_.epsilon() == pytest.approx(asked(method).fit(locked_memory()).guarantee_.epsilon())
    assert sum(leaf["times"] * 1 for leaf in _repeats(done.guarantee_.events)) == whole.times


def locked_memory() -> Vault:
    x, y = toy()
    return Vault(x, y, classes=2, clip=1.0, adjacency="replace-one", budget=(5.0, 1e-5))


def _repeats(events: Any) -> list[dict[str, Any]]:
    """The repeated steps inside written events."""
    found: list[dict[str, Any]] = []
    for event in events:
        if event["kind"] == "repeated" and event["event"]["kind"] == "sampled":
            found.append(event)
        elif event["kind"] == "composed":
            found += _repeats(event["events"])
        elif event["kind"] == "repeated":
            found += [{**f, "times": f["times"] * event["times"]} for f in _repeats([event["event"]])]
    return found


def test_a_job_all_paid_for_ends_without_the_vault(tmp_path: Path) -> None:
    ledger, vault = locked(tmp_path)
    done = asked("sinkhorn").fit(vault, folder=tmp_path / "out")

    def no_vault() -> Vault:
        raise AssertionError("the vault was opened again")

    job = Job.open(tmp_path / "out")
    again = Synthesizer.from_params(job.settings["params"], "cpu").run(
        Run(job, no_vault, counted(ledger), ledger.identity)
    )
    assert len(ledger.entries()) == 4
    assert again.guarantee_.epsilon() == pytest.approx(done.guarantee_.epsilon())
    assert set(again.guarantee_.assumptions) == set(done.guarantee_.assumptions)
    assert np.array_equal(done.sample(20, seed=1)[0], again.sample(20, seed=1)[0])


def test_a_job_all_paid_for_with_nothing_kept_says_so(tmp_path: Path) -> None:
    ledger, vault = locked(tmp_path)
    design = asked("sinkhorn").design(vault.facts)
    job = Job.start(tmp_path / "out", {"params": asked("sinkhorn").to_params(), "design": design.to_dict()})
    with pytest.raises(BudgetError, match="new job"):
        asked("sinkhorn").run(Run(job, lambda: vault, lambda mark: 4))
    assert ledger.entries() == []


def test_a_ledger_that_knows_less_than_the_checkpoint_is_refused(tmp_path: Path) -> None:
    _, vault = locked(tmp_path)
    asked("sinkhorn").fit(vault, folder=tmp_path / "out")
    with pytest.raises(DataError, match="ledger it was started with"):
        asked("sinkhorn").run(Run(Job.open(tmp_path / "out"), lambda: vault, lambda mark: 3, vault.ledger))


@pytest.mark.parametrize("method", ["sinkhorn", "sliced"])
def test_a_checkpoint_of_another_job_is_refused(method: str, tmp_path: Path) -> None:
    """The same rules, the same blocks, and yet other releases: what they taught is not under this job's guarantee."""
    _, vault = locked(tmp_path)
    asked(method).fit(vault, folder=tmp_path / "out")
    other = Job.start(tmp_path / "other", Job.open(tmp_path / "out").settings)
    held = (tmp_path / "out" / checkpoint.NAME).read_bytes()
    (tmp_path / "other" / checkpoint.NAME).write_bytes(held)
    with pytest.raises(DataError, match="another job"):
        asked(method).run(Run(other, lambda: vault, lambda mark: 4, vault.ledger))


def test_a_checkpoint_whose_blocks_cost_less_is_refused(tmp_path: Path) -> None:
    ledger, vault = locked(tmp_path)
    asked("sinkhorn").fit(vault, folder=tmp_path / "out")
    job, path = Job.open(tmp_path / "out"), tmp_path / "out" / checkpoint.NAME
    design = StreamDesign.from_dict(job.settings["design"], "cpu")
    training = checkpoint.load(path, design.rules, "cpu", job=job.name)
    weaker = Repeated(replace(design.mechanism, sigma=50.0).event(vault.facts), design.mechanism.steps)
    guarantee = account(weaker, 1e-5).to_dict()
    checkpoint.save(training, path, job=job.name, blocks=4, guarantee=guarantee)
    with pytest.raises(DataError, match="charged as another event"):
        asked("sinkhorn").run(Run(job, lambda: vault, counted(ledger), ledger.identity))


@pytest.mark.parametrize("method", ["sinkhorn", "sliced", "sinkhorn-parameters"])
def test_less_noise_than_was_asked_for_is_refused_before_paying(method: str, tmp_path: Path) -> None:
    ledger, vault = locked(tmp_path)
    design = asked(method).design(vault.facts).to_dict()
    design["mechanism"]["sigma"] *= 0.9
    job = Job.start(tmp_path / "out", {"params": asked(method).to_params(), "design": design})
    with pytest.raises(DataError, match="nothing was paid"):
        asked(method).run(Run(job, lambda: vault, counted(ledger), ledger.identity))
    assert ledger.entries() == []


def test_records_of_other_facts_are_refused_before_paying(tmp_path: Path) -> None:
    ledger, vault = locked(tmp_path)
    job = Job.start(
        tmp_path / "out",
        {"params": asked("sinkhorn").to_params(), "design": asked("sinkhorn").design(vault.facts).to_dict()},
    )
    x, y = toy()
    terms = {"ledger": ledger, "budget": (5.0, 1e-5), "new_records": True}
    other = Vault(x[:-1], y[:-1], classes=2, clip=1.0, adjacency="replace-one", **terms)
    with pytest.raises(DataError, match="records differs"):
        asked("sinkhorn").run(Run(job, lambda: other, counted(ledger), ledger.identity))
    assert ledger.entries() == []


def test_another_ledger_and_another_process_are_refused(tmp_path: Path) -> None:
    ledger, vault = locked(tmp_path)
    settings = {"params": asked("sinkhorn").to_params(), "design": asked("sinkhorn").design(vault.facts).to_dict()}
    job = Job.start(tmp_path / "out", {**settings, "ledger": ledger.identity})
    with pytest.raises(DataError, match="another ledger"):
        asked("sinkhorn").run(Run(job, lambda: vault, counted(ledger), "somebody else's"))
    # a lock taken through another opening of the file is another process's
    with Job.open(tmp_path / "out").alone(), pytest.raises(UsageError, match="Another process"):
        asked("sinkhorn").run(Run(job, lambda: vault, counted(ledger), ledger.identity))
    assert ledger.entries() == []


def test_a_generator_that_cannot_be_trained_costs_nothing(tmp_path: Path) -> None:
    ledger, vault = locked(tmp_path)
    design = asked("sinkhorn").design(vault.facts).to_dict()
    design["rules"]["generator"]["dim"] = 3
    design["rules"]["generator"]["segments"] = [[0, 3, "interval"]]
    job = Job.start(tmp_path / "out", {"params": asked("sinkhorn").to_params(), "design": design})
    with pytest.raises(UsageError, match="columns"):
        asked("sinkhorn").run(Run(job, lambda: vault, counted(ledger), ledger.identity))
    assert ledger.entries() == []


def test_a_budget_too_small_for_all_blocks_stops_at_the_one_it_does_not_cover(tmp_path: Path) -> None:
    x, y = toy()
    vault = Vault(x, y, classes=2, clip=1.0, adjacency="replace-one", budget=(4.0, 1e-5))
    with pytest.raises(BudgetError):
        asked("sinkhorn").fit(vault)


def test_seeded_noise_is_refused() -> None:
    x, y = toy()
    noise = SeededNoise(1)
    vault = Vault(x, y, classes=2, clip=1.0, adjacency="replace-one", budget=(9.0, 1e-5), noise=noise)
    with pytest.raises(Exception, match="allow_unproven"):
        asked("sinkhorn").fit(vault)


def kill_at(wanted: int) -> Any:
    def kill(step: int, steps: int, loss: float) -> None:
        if step == wanted:
            raise Killed

    return kill


def test_blocks_on_seeded_noise_stay_unproven_however_the_job_goes_on(tmp_path: Path) -> None:
    """Two of four blocks ran on noise that anybody can recompute: the others cannot make up for that."""
    x, y = toy()
    ledger = Ledger.create(tmp_path / "ledger")
    terms: Any = {"classes": 2, "clip": 1.0, "adjacency": "replace-one", "ledger": ledger, "budget": (5.0, 1e-5)}
    seeded = Vault(x, y, noise=SeededNoise(1), **terms)
    with pytest.raises(Killed):
        asked("sinkhorn", allow_unproven=True).fit(seeded, folder=tmp_path / "out", progress=kill_at(9))
    job = Job.open(tmp_path / "out")
    done = asked("sinkhorn").run(Run(job, lambda: Vault(x, y, **terms), counted(ledger), ledger.identity))
    assert str(done.guarantee_.standing) == "unproven"
    assert any("seed" in words for words in done.guarantee_.assumptions)
    assert any("entropy" in words for words in done.guarantee_.assumptions)
    done.save(tmp_path / "saved")
    assert str(Synthesizer.load(tmp_path / "saved").guarantee_.standing) == "unproven"


def test_a_job_that_no_theorem_covers_goes_on_only_where_that_is_allowed(tmp_path: Path) -> None:
    ledger, vault = locked(tmp_path)
    options = {**SLICED, "bound": "clt", "frame": "independent"}
    with pytest.raises(Killed):
        asked("sliced", options=options, allow_unproven=True).fit(vault, folder=tmp_path / "out", progress=kill_at(6))
    paid = len(ledger.entries())
    with pytest.raises(UnprovenError, match="asymptotic"):
        asked("sliced", options=options).run(
            Run(Job.open(tmp_path / "out"), lambda: vault, counted(ledger), ledger.identity)
        )
    assert len(ledger.entries()) == paid == 2
    done = asked("sliced", options=options, allow_unproven=True).run(
        Run(Job.open(tmp_path / "out"), lambda: vault, counted(ledger), ledger.identity)
    )
    assert str(done.guarantee_.standing) == "asymptotic"


@pytest.mark.parametrize("labels", [False, True])
def test_the_debiasing_term_is_the_gradient_of_the_loss_ssecond_term(labels: bool) -> None:
    """In both of its arguments, which share points: against autograd through the converging solver."""
    n, fresh = 10, 4
    mechanism = SanitizedGradient(n, 1.0, 0.5, FixedSize(5, 9), reg=1.0, mixture=0.5, sweeps=3000, labels=labels)
    x = torch.rand(n + fresh, 3, generator=torch.Generator().manual_seed(2), dtype=torch.float64) * 2 - 1
    marks = torch.arange(n + fresh) % 2
    (found,) = second_term(mechanism, n, fresh)(x, marks)
    x.requires_grad_()
    points = with_labels(x, marks, 2, 15.0) if labels else x
    sinkhorn(points[:n], points[fresh:], 1.0, ("mixture", 0.5), 1e-9).value.backward()
    torch.testing.assert_close(found, x.grad, rtol=1e-4, atol=1e-6)


def test_the_debiasing_term_of_several_groups_is_that_of_each() -> None:
    n, fresh, groups = 6, 3, 4
    fields = {"reg": 1.0, "mixture": 0.5, "sweeps": 30, "labels": True}
    several = SanitizedGradient(n, 1.0, 0.5, FixedSize(5, 9), samples=groups, **fields)
    one = SanitizedGradient(n, 1.0, 0.5, FixedSize(5, 9), **fields)
    x = torch.rand(groups * (n + fresh), 3, generator=torch.Generator().manual_seed(2), dtype=torch.float64) * 2 - 1
    marks = torch.arange(len(x)) % 2
    (found,) = second_term(several, n, fresh)(x, marks)
    for i in range(groups):
        rows = slice(i * (n + fresh), (i + 1) * (n + fresh))
        torch.testing.assert_close(found[rows], second_term(one, n, fresh)(x[rows], marks[rows])[0])


def test_the_stand_in_is_the_first_term_s_gradient_against_generated_points() -> None:
    """∇2Ŵ by autograd through the converging solver."""
    x = torch.rand(30, 3, generator=torch.Generator().manual_seed(3), dtype=torch.float64) * 2 - 1
    marks = torch.zeros(30, dtype=torch.int64)
    points = x[:10].clone().requires_grad_()
    (2.0 * sinkhorn(points, x[20:], 1.0, "sqeuclidean", 1e-9).value).backward()
    mechanism = SanitizedGradient(10, 1.0, 0.5, FixedSize(5, 9), reg=1.0, mixture=0.0, sweeps=3000)
    (found,) = first_gradient(mechanism, 10, 10)(x, marks)
    torch.testing.assert_close(found[:10], points.grad, rtol=1e-4, atol=1e-7)
    assert not bool(found[10:].any())


@pytest.mark.parametrize(
    ("method", "options"),
    [
        ("sinkhorn", {"speed": 1}),
        ("sinkhorn", {"steps": 0}),
        ("sinkhorn", {"steps": 2.5}),
        ("sinkhorn", {"p": 1.5}),
        ("sinkhorn", {"debias": "fully"}),
        ("sinkhorn", {"optimizer": "lion"}),
        ("sinkhorn", {"average": 1.0}),
        ("sinkhorn", {"levels": -1}),
        ("sinkhorn", {"generator": "dcgan"}),
        ("sinkhorn", {"samples": 0}),
        ("sinkhorn", {"warp": -0.1}),
        ("sliced", {"points": 3}),
        ("sliced", {"bound": "guess"}),
        ("sliced", {"power": 0.5}),
        ("sliced", {"labels": "none"}),
        ("sliced", {"learning_rate": float("nan")}),
        ("embedding", {"steps": 3}),
    ],
)
def test_impossible_options_are_refused_before_paying(method: str, options: dict[str, Any]) -> None:
    vault = open_vault("replace-one")
    with pytest.raises(UsageError):
        Synthesizer(5.0, 1e-5, device="cpu", method=asked_of(method, options=options)).design(vault.facts)


@pytest.mark.parametrize(
    ("kind", "shape", "latent", "weights"),
    [
        # FC 20–200, FC 200–784, two normalisations, 16→8 and 8→1 of 5×5: what Table 3 adds up to
        ("upsampling", [28, 28], 10, 20 * 200 + 200 + 400 + 200 * 784 + 784 + 2 * 784 + 16 * 8 * 25 + 8 + 8 * 25 + 1),
        ("dcgan", [28, 28], 12, None),
        ("dcgan", [1, 30, 27], 12, None),
        ("residual", [32, 32, 3], 32, None),
        ("residual", [3, 20, 24], 32, None),
    ],
)
def test_published_generators_make_pictures(kind: str, shape: list[int], latent: int, weights: int | None) -> None:
    dim = int(np.prod(shape))
    config = {"kind": kind, "shape": shape, "latent": latent, "classes": 10, "dim": dim, "channels": 16}
    made = build({**config, "segments": [[0, dim, "interval"]]})
    out = made(torch.randn(3, latent), torch.tensor([0, 4, 9]))
    assert out.shape == (3, dim)
    assert float(out.detach().min()) > 0.0
    assert weights is None or sum(p.numel() for p in made.parameters()) == weights


def mapped(shape: list[int], latent: int, **more: Any) -> Any:
    dim = int(np.prod(shape))
    sizes = {"hidden": 8, "doublings": 2, "channels": 8, "segments": [[0, dim, "interval"]]}
    config = {"kind": "mapped", "shape": shape, "latent": latent, "classes": 3, "dim": dim, **sizes, **more}
    made, random = build(config).eval(), torch.Generator().manual_seed(3)
    for parameter in made.parameters():
        # larger than they are drawn, so that pixels differ
        parameter.data = 0.6 * torch.randn(parameter.shape, generator=random)
    return made


@pytest.mark.parametrize("shape", [[8, 8], [7, 10], [7, 12, 3], [3, 9, 8], [1, 6, 8]])
def test_a_warp_moves_and_mirrors_a_picture_and_leaves_it_where_its_numbers_are_zero(shape: list[int]) -> None:
    """Whatever lies beyond an edge is the edge; the weights are those of a generator that knows no warp."""
    plain, warped = mapped(shape, 5), mapped(shape, 5 + 6, warp=0.2)
    warped.load_state_dict(plain.state_dict())
    z, labels = torch.randn(4, 5, generator=torch.Generator().manual_seed(1)), torch.tensor([0, 2, 1, 0])
    still = plain(z, labels)
    first = shape[0] == 1 or shape[0] == 3
    height, width = (shape[1], shape[2]) if first else (shape[0], shape[1])
    pictures = still.view(4, -1, height, width) if first else still.view(4, height, width, -1).permute(0, 3, 1, 2)

    def moved(*numbers: float) -> torch.Tensor:
        made = warped(torch.cat([z, torch.tensor(numbers).expand(4, 6)], dim=1), labels)
        assert made.shape == still.shape
        return made.view(4, -1, height, width) if first else made.view(4, height, width, -1).permute(0, 3, 1, 2)

    close = {"rtol": 0.0, "atol": 2e-5}
    assert min(float(pictures.detach().std(dim=d).mean()) for d in (0, 2, 3)) > 0.02
    torch.testing.assert_close(moved(0, 0, 0, 0, 0, 0), pictures, **close)
    # one unit is 0.3·0.2 of a side
    across, down = torch.arange(width), torch.arange(height)
    for pixels in (-3, 2):
        taken = (across + pixels).clamp(0, width - 1)
        torch.testing.assert_close(moved(0, 0, pixels / (0.06 * width), 0, 0, 0), pictures[..., taken], **close)
        taken = (down + pixels).clamp(0, height - 1)
        torch.testing.assert_close(moved(0, 0, 0, 0, 0, pixels / (0.06 * height)), pictures[..., taken, :], **close)
    torch.testing.assert_close(moved(-2 / 0.2, 0, 0, 0, 0, 0), pictures.flip(3), **close)
    torch.testing.assert_close(moved(0, 0, 0, 0, -2 / 0.2, 0), pictures.flip(2), **close)


@pytest.mark.parametrize("shape", [[8, 8], [7, 10], [7, 12, 3], [3, 9, 8]])
def test_pictures_that_are_resized_at_last_carry_no_pattern_of_single_pixels(shape: list[int]) -> None:
    """What is the same everywhere stays so, edges aside; rearranged, it does not."""
    spread = {}
    for last, layers in (("resized", 6), ("rearranged", 2)):
        made = mapped(shape, 5, last=last)
        assert made(torch.zeros(2, 5), torch.tensor([0, 1])).shape == (2, int(np.prod(shape)))
        flat = torch.ones(1, 4, 9, 9)
        spread[last] = float(made.layers[-layers:](flat)[:, :, 6:-6, 6:-6].detach().std(dim=(2, 3)).max())
    assert spread["resized"] < 1e-5
    assert spread["rearranged"] > 0.1
    with pytest.raises(DataError, match="resized or rearranged"):
        mapped([8, 8], 5, last="guessed")


def test_a_warp_grows_during_training_and_is_whole_without_one() -> None:
    made, z = mapped([8, 8], 9, warp=0.2), torch.randn(5, 9, generator=torch.Generator().manual_seed(2))
    labels, place = torch.tensor([0, 1, 2, 0, 1]), made.spread.data_ptr()
    whole, plain = made(z, labels), mapped([8, 8], 3)(z[:, :3], labels)
    made.ease(0.0)
    torch.testing.assert_close(made(z, labels), plain, rtol=0.0, atol=2e-5)
    halved = torch.cat([z[:, :3], 0.5 * z[:, 3:]], dim=1)
    expected = mapped([8, 8], 9, warp=0.2)(halved, labels)
    made.ease(0.15)
    torch.testing.assert_close(made(z, labels), expected, rtol=0.0, atol=2e-5)
    for share in (0.3, 0.9, 1.0):
        made.ease(share)
        torch.testing.assert_close(made(z, labels), whole)
    # a recorded step reads it where it was
    assert made.spread.data_ptr() == place
    mapped([8, 8], 3).ease(0.5)


@pytest.mark.parametrize("kind", ["dcgan", "residual", "upsampling"])
def test_a_warp_in_sampling_alone_leaves_training_as_it_was(kind: str) -> None:
    config = {"kind": kind, "shape": [8, 8], "classes": 3, "dim": 64, "channels": 8, "segments": [[0, 64, "interval"]]}
    plain = build({**config, "latent": 4})
    made = build({**config, "latent": 10, "warp": 0.2, "warped": "sampling"})
    made.load_state_dict(plain.state_dict())
    z, labels = torch.randn(6, 10, generator=torch.Generator().manual_seed(2)), torch.arange(6) % 3
    torch.testing.assert_close(made.train()(z, labels), plain.train()(z[:, :4], labels))
    still, moved = plain.eval()(z[:, :4], labels), made.eval()(z, labels)
    assert float((still - moved).detach().abs().max()) > 1e-3
    made.ease(0.0)
    torch.testing.assert_close(made(z, labels), still, rtol=0.0, atol=2e-5)
    with pytest.raises(DataError, match="always or sampling"):
        build({**config, "latent": 10, "warp": 0.2, "warped": "never"})


def test_each_row_is_warped_by_its_own_numbers() -> None:
    made, z = mapped([8, 8], 9, warp=0.2), torch.randn(5, 9, generator=torch.Generator().manual_seed(2))
    labels = torch.tensor([0, 1, 2, 0, 1])
    alone = torch.cat([made(z[i : i + 1], labels[i : i + 1]) for i in range(5)])
    torch.testing.assert_close(made(z, labels), alone, rtol=0.0, atol=1e-5)
    assert bool((made(z, labels) - made(torch.cat([z[:, :3], z.flip(0)[:, 3:]], dim=1), labels)).abs().max() > 1e-3)


@pytest.mark.parametrize(("latent", "warp"), [(6, 0.2), (2, 0.2), (64, -0.1), (64, float("nan"))])
def test_an_impossible_warp_is_refused(latent: int, warp: float) -> None:
    with pytest.raises(DataError, match="warp must be 0 or more and needs over 6 latent numbers"):
        mapped([8, 8], latent, warp=warp)
    assert mapped([8, 8], 2).drawn == 2
    assert mapped([8, 8], 7, warp=0.2).drawn == 1


@pytest.mark.parametrize(("labels", "power"), [("outer", 2.0), ("append", 1.0), (None, 3.0)])
def test_a_sliced_step_follows_the_distance_that_is_written_down(labels: str | None, power: float) -> None:
    """Loss and gradient of the first step, against columns sorted by hand."""
    x, y = toy()
    known: dict[str, Any] = {} if labels is None else {"y": y, "classes": 2}
    vault = Vault(x, **known, clip=0.8, adjacency="replace-one", budget=(50.0, 1e-5))
    options = {**SLICED, "repeats": 1, "replay": 1, "over": 3, "power": power}
    options |= {} if labels is None else {"labels": labels}
    design = asked("sliced", options=options, low=-1.0, high=[1.0, 2.0]).design(vault.facts)
    training = TrainingState.start(design.rules, 1, "cpu")
    release = next(vault.stream(design.mechanism, purpose="test"))
    take = SlicedMethod().trainer(training, design.mechanism, design.rules.options)
    ours, random = copy.deepcopy(training.generator), torch.Generator()
    random.set_state(training.random.get_state())
    loss = take(iter([release]))  # type: ignore[arg-type]

    classes = 1 if labels is None else 2
    z, marks = torch.randn(60, ours.latent, generator=random), torch.arange(60) % classes
    rows = -1.0 + torch.tensor([2.0, 3.0]) * ours(z, marks)
    hot = torch.eye(classes)[marks]
    if labels == "append":
        rows = torch.cat([rows, design.mechanism.label_weight * hot], dim=1)
    rows = rows * (0.8 / rows.norm(dim=1, keepdim=True)).clamp(max=1.0)
    if labels == "outer":
        rows = torch.einsum("nc,nd->ncd", hot, rows).flatten(1)
    noisy = rows @ torch.tensor(directions_of(release.public)).float()
    noisy = noisy + design.mechanism.sigma * torch.randn(60, 4, generator=random)
    target = np.repeat(np.sort(release.value, axis=0), 3, axis=0)
    gaps = noisy.sort(0).values - torch.from_numpy(target).float()
    expected = (gaps.abs() ** power).mean()
    torch.testing.assert_close(loss, expected.detach())
    expected.backward()
    for p, q in zip(ours.parameters(), training.generator.parameters(), strict=True):
        torch.testing.assert_close(p.grad, q.grad)
        assert not torch.equal(p, q)


def test_a_sliced_job_of_before_there_was_replay_goes_on() -> None:
    vault = Vault(toy()[0], clip=0.8, adjacency="replace-one", budget=(50.0, 1e-5))
    design = asked("sliced", options=SLICED).design(vault.facts)
    options = {k: v for k, v in design.rules.options.items() if k != "replay"}
    take = SlicedMethod().trainer(TrainingState.start(design.rules, 1, "cpu"), design.mechanism, options)
    assert bool(torch.isfinite(take(vault.stream(design.mechanism, purpose="test"))))


def test_a_sliced_step_looks_at_earlier_releases_again() -> None:
    """Every slice of a step is one of a release, with its own directions; the newest is always among them."""
    from privot.synthesis.methods.sliced_method import _Past

    vault = Vault(toy()[0], clip=0.8, adjacency="replace-one", budget=(50.0, 1e-5))
    design = asked("sliced", options={**SLICED, "steps": 6, "blocks": 1, "replay": 3}).design(vault.facts)
    past = _Past(2, design.mechanism, 3, TrainingState.start(design.rules, 1, "cpu"))
    stream, kept = vault.stream(design.mechanism, purpose="test"), []
    for number in range(6):
        release = next(stream)
        kept.append((torch.tensor(directions_of(release.public)).float(), np.sort(release.value, axis=0)))
        past.keep(release)
        directions, columns = past.drawn()
        assert directions.shape[1] == columns.shape[1] == 12
        found = []
        for start in (0, 4, 8):
            part = directions[:, start : start + 4]
            at = next(i for i, (u, _) in enumerate(kept) if torch.equal(u, part))
            assert np.allclose(columns[:, start : start + 4].numpy(), kept[at][1], atol=1e-6)
            found.append(at)
        assert found[0] == number
        assert max(found) <= number


def test_points_that_are_recorded_are_those_that_are_made(monkeypatch: pytest.MonkeyPatch) -> None:
    """The two recorded halves, replayed by hand on a processor, are the eager step: warming up leaves no trace."""
    config = {"kind": "mlp", "dim": 3, "classes": 2, "segments": [[0, 3, "interval"]], "latent": 4, "hidden": [8]}
    rules = Rules(config, 10, 6, 1e-2, {"optimizer": "adam"})
    eager, recorded = TrainingState.start(rules, 1, "cpu"), TrainingState.start(rules, 1, "cpu")

    def record(self: RecordedPoints) -> tuple[Any, Any]:
        with unchanged(self.training.generator, self.training.optimizer):
            for _ in range(3):
                self.training.optimizer.zero_grad(set_to_none=True)
                self._work()

        def make() -> None:
            with still(self.training.generator), torch.no_grad():
                self._x = self._forward(self._z, self._labels)

        def learn() -> None:
            self.training.optimizer.zero_grad(set_to_none=True)
            self._work()

        return make, learn

    monkeypatch.setattr(RecordedPoints, "_record", record)
    one, two = Points(eager, 6), RecordedPoints(recorded, 6)
    two._slope.fill_(1.0)
    two.make()
    recorded.random.set_state(eager.random.get_state())
    for step in range(4):
        torch.testing.assert_close(one.make(), two.make())
        slope = torch.sin(torch.arange(18.0).view(6, 3) * (step + 1.0))
        one.learn(slope)
        two.learn(slope)
    # batches that were counted: those of the warm-up and of points made twice leave the statistics alone
    for (name, p), (_, q) in zip(
        eager.generator.state_dict().items(), recorded.generator.state_dict().items(), strict=True
    ):
        if "num_batches" not in name:
            torch.testing.assert_close(p, q)
