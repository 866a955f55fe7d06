"""Several generators on one release are trained each by itself, and a sample is one of theirs."""

from __future__ import annotations

import copy
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from privot.errors import DataError
from privot.jobs.job import Job
from privot.jobs.run import Run
from privot.synthesis import Rules, Synthesizer
from privot.synthesis.methods.embedding_training import Target, _Step
from privot.synthesis.neural.after_training.warp_selection import warped
from privot.synthesis.neural.defaults.generator_defaults import choose_rules
from privot.synthesis.neural.defaults.problem_and_rules import Problem
from privot.synthesis.neural.features.fourier import Fourier
from privot.synthesis.neural.generator_training.distributed import ALONE
from privot.synthesis.neural.generator_training.training_dry_run import rehearse
from privot.synthesis.neural.generator_training.training_state import TrainingState
from privot.synthesis.neural.generators.generator import build
from privot.vault import Vault
from synthesis_asked import flat

CLASSES, MEMBERS, LATENT = 3, 4, 9


def config(**given: Any) -> dict[str, Any]:
    return {
        "kind": "several", "of": "mapped", "members": MEMBERS, "dim": 64, "classes": CLASSES, "latent": LATENT,
        "segments": [[0, 64, "interval"]], "hidden": 8, "channels": 8, "shape": [8, 8], "doublings": 1, "warp": 0.05,
    } | given  # fmt: skip


def rules(**given: Any) -> Rules:
    return Rules(config(**given), 30, 8, 1e-2)


def vault() -> Vault:
    x, y = np.random.default_rng(0).uniform(size=(90, 64)), np.arange(90) % CLASSES
    return Vault(x, y, classes=CLASSES, clip=8.0, adjacency="add-remove", budget=(8.0, 1e-5))


def small(**given: Any) -> Synthesizer:
    fields = {"shape": (8, 8), "features": Fourier(64, 60, [2.0], 1), "rules": rules(), "device": "cpu", "seed": 5}
    return Synthesizer(8.0, 1e-5, **flat(**fields | given))


def test_a_sample_is_what_its_member_makes_of_it() -> None:
    torch.manual_seed(0)
    made = build(config()).eval()
    assert (made.latent, made.members, made.warp) == (LATENT + 1, MEMBERS, 0.05)
    z, labels = torch.randn(400, LATENT + 1), torch.arange(400) % CLASSES
    z[0, -1], z[1, -1] = -40.0, 40.0
    found = made(z, labels)
    edges = torch.tensor([-0.6744897501960817, 0.0, 0.6744897501960817])
    whose = torch.bucketize(z[:, -1].contiguous(), edges)
    assert (torch.bincount(whose, minlength=MEMBERS) > 60).all()
    for number, member in enumerate(made.each):
        mine = whose == number
        assert torch.allclose(found[mine], member(z[mine, :-1], labels[mine]), atol=1e-6)
    assert not torch.allclose(made.each[0](z[:, :-1], labels), made.each[1](z[:, :-1], labels), atol=1e-3)


def test_all_members_are_told_how_far_training_is() -> None:
    made = build(config())
    made.ease(0.0)
    assert all(float(member.spread.abs().max()) == 0.0 for member in made.each)
    made.ease(1.0)
    assert all(float(member.spread.max()) == pytest.approx(0.05) for member in made.each)


def test_a_step_is_rehearsed_with_all_members() -> None:
    # a batch of 2 for 4 members would leave none with a row
    rehearse(Fourier(64, 6, [2.0], 1), replace(rules(), batch=2), CLASSES)


def test_members_are_trained_as_if_each_were_alone() -> None:
    """The slope of a member is that of a training of its own on the same z."""
    release = small().fit(vault()).release_
    target = Target.of(release)
    whole = TrainingState.start(rules(), 3, "cpu")
    step = _Step(whole, target, ALONE)
    step._z.normal_(generator=torch.Generator().manual_seed(1))
    before = [copy.deepcopy(member.state_dict()) for member in whole.generator.each]
    step._work()
    losses = []
    for number in range(MEMBERS):
        alone = TrainingState.start(replace(rules(), generator=config(kind="mapped")), 3, "cpu")
        alone.generator.load_state_dict(before[number])
        one = _Step(alone, target, ALONE)
        one._z.copy_(step._z.view(CLASSES, MEMBERS, -1, LATENT + 1)[:, number, :, :-1].reshape(one._z.shape))
        one._work()
        losses.append(float(one._loss))
        wanted = [p.grad for p in alone.generator.parameters()]
        found = [p.grad for p in whole.generator.each[number].parameters()]
        for a, b in zip(wanted, found, strict=True):
            assert a is not None
            assert b is not None
            assert torch.allclose(a, MEMBERS * b, rtol=1e-3, atol=1e-6)
    assert float(step._loss) == pytest.approx(np.mean(losses), rel=1e-4)


@pytest.mark.slow
def test_they_are_fitted_saved_warped_and_go_on_after_a_kill(tmp_path: Path) -> None:
    done = small().fit(vault())
    assert done.losses_[-1] < done.losses_[0]
    done.save(tmp_path / "saved")
    again = Synthesizer.load(tmp_path / "saved")
    assert np.allclose(again.sample(50, seed=1)[0], done.sample(50, seed=1)[0], atol=1e-6)
    more = warped(done.generator_, 2.0)
    assert more.warp == pytest.approx(0.1)
    assert all(member.warp == pytest.approx(0.1) for member in more.each)

    def kill(step: int, steps: int, loss: float) -> None:
        raise KeyboardInterrupt

    held = vault()
    with pytest.raises(KeyboardInterrupt):
        small().fit(held, folder=tmp_path / "out", progress=kill)
    job = Job.open(tmp_path / "out")
    resumed = Synthesizer.from_params(job.settings["params"], "cpu").run(Run(job, lambda: held, lambda mark: 1))
    assert resumed.generator_.members == MEMBERS
    assert resumed.guarantee_.epsilon() == pytest.approx(8.0, rel=1e-3)


@pytest.mark.parametrize("bad", [{"members": 0}, {"of": "several"}, {"of": "none"}])
def test_what_cannot_be_several_is_refused(bad: dict[str, Any]) -> None:
    with pytest.raises(DataError):
        build(config(**bad))


def test_a_rule_trains_several_where_noise_is_the_limit_and_time_allows() -> None:
    problem = Problem(784, 10, 16.0, 60_000, (28, 28), "cuda")
    chosen = choose_rules(problem)
    assert (chosen.generator["kind"], chosen.generator["of"], chosen.generator["members"]) == ("several", "mapped", 4)
    assert build(chosen.generator).dim == 784
    for other in (replace(problem, sigma=3.7), replace(problem, sigma=0.5), replace(problem, device="cpu")):
        assert choose_rules(other).generator["kind"] != "several"
