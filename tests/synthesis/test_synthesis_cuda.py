"""On a GPU: recorded training steps are those of the eager ones, and whole jobs learn, resume and say their cost."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

if not torch.cuda.is_available():
    pytest.skip("needs a CUDA device", allow_module_level=True)

from privot.jobs.run import Run
from privot.kinds import Images
from privot.synthesis import Synthesizer
from privot.synthesis.method_configs import Embedding
from privot.synthesis.methods import asked_of
from privot.synthesis.methods.generated_points import Points, RecordedPoints
from privot.synthesis.neural.defaults.problem_and_rules import Rules
from privot.synthesis.neural.generator_training import checkpoint
from privot.synthesis.neural.generator_training.training_state import TrainingState
from privot.vault import Vault

DIM = 64
CONFIG = {"dim": DIM, "classes": 2, "segments": [[0, DIM, "interval"]], "latent": 4}


def training(kind: str = "dcgan") -> TrainingState:
    config = {**CONFIG, "kind": kind, "shape": [8, 8], "channels": 16}
    return TrainingState.start(Rules(config, 10, 20, 1e-3, {"optimizer": "adam", "average": 0.9}), 1, "cuda")


def pictures(n: int = 400) -> tuple[np.ndarray, np.ndarray]:
    y = np.arange(n) % 2
    x = 0.25 + 0.5 * y[:, None] + 0.05 * np.random.default_rng(0).standard_normal((n, DIM))
    return np.clip(x, 0.0, 1.0), y


@pytest.mark.parametrize("kind", ["dcgan", "affine", "upsampling"])
def test_recorded_steps_are_the_eager_ones(kind: str) -> None:
    eager, recorded = training(kind), training(kind)
    one, two = Points(eager, 20), RecordedPoints(recorded, 20)
    two.make()
    for t in (eager, recorded):
        t.generator.train()
    recorded.random.set_state(eager.random.get_state())
    for step in range(5):
        x, again = one.make(), two.make()
        torch.testing.assert_close(x, again, rtol=1e-3, atol=1e-4)
        slope = torch.sin(torch.arange(20 * DIM, device="cuda").view(20, DIM) * (step + 1.0)) * 1e-2
        one.learn(slope)
        two.learn(slope)
    for p, q in zip(eager.generator.parameters(), recorded.generator.parameters(), strict=True):
        torch.testing.assert_close(p, q, rtol=1e-2, atol=2e-4)
    for p, q in zip(eager.generator.buffers(), recorded.generator.buffers(), strict=True):
        if p.dtype.is_floating_point:
            torch.testing.assert_close(p, q, rtol=1e-2, atol=1e-3)


def asked(method: str, **options: Any) -> Synthesizer:
    usual = {"steps": 300, "blocks": 3, "batch": 40}
    if method != "sliced":
        usual.update(points=20, sweeps=20)
    given = {**usual, "learning_rate": 5e-3, "average": 0.0, **options}
    return Synthesizer(
        1000.0, 1e-5, device="cuda", seed=1, records=400, kind=Images((8, 8)), method=asked_of(method, options=given)
    )


@pytest.mark.parametrize("method", ["sinkhorn", "sinkhorn-parameters", "sliced"])
def test_classes_are_learned_where_they_are(method: str) -> None:
    x, y = pictures()
    # the longest rows have norm 6: a bound of 6 would hide from `sliced` how much brighter than that its own are
    vault = Vault(x, y, classes=2, clip=8.0, adjacency="replace-one", budget=(1000.0, 1e-5))
    done = asked(method, generator="affine", repeats=5) if method == "sliced" else asked(method, generator="affine")
    done.fit(vault)
    sampled, labels = done.sample(200, seed=0)
    for c in (0, 1):
        assert abs(float(sampled[labels == c].mean()) - (0.25 + 0.5 * c)) < 0.15, c
    assert done.guarantee_.epsilon() <= 1000.0


def test_a_job_on_a_gpu_goes_on_from_its_checkpoint(tmp_path: Path) -> None:
    x, y = pictures()
    vault = Vault(x, y, classes=2, clip=6.0, adjacency="replace-one", budget=(1000.0, 1e-5))
    done = asked("sinkhorn", generator="dcgan", channels=16).fit(vault, folder=tmp_path / "out")
    facts = checkpoint.load_facts(tmp_path / "out" / checkpoint.NAME)
    assert facts["blocks"] == 3
    from privot.jobs.job import Job

    job = Job.open(tmp_path / "out")
    again = asked("sinkhorn", generator="dcgan", channels=16).run(Run(job, lambda: vault, lambda mark: 3))
    assert np.allclose(done.sample(20, seed=1)[0], again.sample(20, seed=1)[0], atol=1e-5)


@pytest.mark.parametrize("method", ["sinkhorn", "sinkhorn-parameters"])
def test_weights_of_convolutions_are_trained_whatever_their_layout(method: str) -> None:
    x, y = pictures()
    vault = Vault(x, y, classes=2, clip=6.0, adjacency="replace-one", budget=(1000.0, 1e-5))
    done = asked(method, generator="dcgan", channels=16, steps=6, blocks=1).fit(vault)
    assert np.isfinite(done.sample(20, seed=1)[0]).all()


@pytest.mark.parametrize("method", ["sinkhorn", "sliced"])
def test_a_killed_job_on_a_gpu_takes_its_last_block(method: str, tmp_path: Path) -> None:
    """Moments read back must be laid out as the optimiser's kernel asks."""
    x, y = pictures()
    vault = Vault(x, y, classes=2, clip=6.0, adjacency="replace-one", budget=(2000.0, 1e-5))
    options: dict[str, Any] = {"steps": 12, "generator": "dcgan", "channels": 16}
    seen: list[int] = []

    def kill(step: int, steps: int, loss: float) -> None:
        seen.append(step)
        if step > 8:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        asked(method, **options).fit(vault, folder=tmp_path / "out", progress=kill)
    from privot.jobs.job import Job

    again = asked(method, **options).run(Run(Job.open(tmp_path / "out"), lambda: vault, lambda mark: 2))
    assert np.isfinite(again.sample(20, seed=1)[0]).all()


def test_a_network_and_its_tuning_are_the_same_on_cuda() -> None:
    from privot.mechanisms.gradients.linear_head import TunedHead, bounded
    from privot.synthesis.neural.after_training.relabelling import Drawn, PretrainedLabeller

    dice = torch.Generator().manual_seed(0)
    x, y = torch.rand(300, 400, generator=dice), torch.randint(0, 3, (300,), generator=dice)
    lesson = PretrainedLabeller.learn(Drawn(x.cuda(), y.cuda(), 3, (20, 20), (0.0, 1.0)), 16, 0)
    rows = x.double()
    here, there = (bounded(lesson.features.features(rows.to(device))) for device in ("cpu", "cuda"))
    assert torch.equal(here, there.cpu())
    order = torch.randperm(300, generator=dice)
    assert torch.equal(bounded(lesson.features.features(rows[order].cuda())), there[order.cuda()])
    tuned = TunedHead(lesson.features, lesson.start, 1.0, 3, 0.1, "cuda")
    one, two = tuned._slope([(here, y)], lesson.start), tuned._slope([(there, y.cuda())], lesson.start)
    assert abs(one - two).max() < 1e-10


def test_a_scattering_is_the_same_on_cuda() -> None:
    from privot.mechanisms.gradients.linear_head import bounded
    from privot.synthesis.neural.features.scattering import Scattering

    dice = torch.Generator().manual_seed(0)
    rows = torch.rand(90, 16 * 20 * 3, generator=dice, dtype=torch.float64)
    rows[0], rows[1, 5], rows[2], rows[3] = 0.0, float("nan"), 1.0, float("inf")
    held = Scattering((16, 20, 3), 4).standardised(rows[10:40].float().cuda(), 0.0, 1.0)
    here, there = (bounded(held.features(rows.to(device))) for device in ("cpu", "cuda"))
    assert torch.equal(here, there.cpu())
    order = torch.randperm(90, generator=dice)
    assert torch.equal(bounded(held.features(rows[order].cuda())), there[order.cuda()])
    assert torch.allclose(held.features(rows[10:].float().cuda()).cpu().double(), held.features(rows[10:]), atol=0.05)


def test_hits_are_the_same_on_cuda() -> None:
    from privot.mechanisms.accuracy_counts import CorrectCounts
    from privot.synthesis.neural.after_training.relabelling import Drawn, PretrainedLabeller, classifier

    dice = torch.Generator().manual_seed(0)
    x, y = torch.rand(1500, 400, generator=dice), torch.randint(0, 3, (1500,), generator=dice)
    lesson = PretrainedLabeller.learn(Drawn(x[:300].cuda(), y[:300].cuda(), 3, (20, 20), (0.0, 1.0)), 16, 0)
    scores = classifier(lesson.features, lesson.start)

    def counted(device: str) -> list[float]:
        vault = Vault(x.numpy(), y.numpy(), classes=3, clip=20.0, adjacency="add-remove", budget=(1e9, 1e-5))
        release = vault.release(CorrectCounts((scores,) * 2, 0.01, device), purpose="hits", delta=1e-5)
        return [float(v) for v in np.asarray(release.value).round()]

    assert counted("cuda") == counted("cpu")
    assert counted("cpu")[0] > 400.0


def test_several_generators_learn_side_by_side() -> None:
    x, y = pictures()
    sizes = {"latent": 10, "hidden": 8, "channels": 16, "shape": [8, 8], "doublings": 1, "warp": 0.02}
    rules = Rules({**CONFIG, **sizes, "kind": "several", "of": "mapped", "members": 3}, 120, 16, 5e-3)
    vault = Vault(x, y, classes=2, clip=8.0, adjacency="add-remove", budget=(2000.0, 1e-5))
    done = Synthesizer(2000.0, 1e-5, device="cuda", seed=1, kind=Images((8, 8)), method=Embedding(rules=rules)).fit(
        vault
    )
    assert done.losses_[-1] < 0.5 * done.losses_[0]
    made, labels = done.sample(600, seed=2)
    # each of them has learned which class is bright
    random = np.random.default_rng(2)
    assert labels is not None
    order = random.permutation(np.repeat([0, 1], 300))
    whose = np.floor(3 * torch.special.ndtr(torch.from_numpy(random.standard_normal((600, 11))[:, -1])).numpy())
    assert np.array_equal(order, labels)
    for member in range(3):
        mine = whose == member
        assert made[mine & (labels == 1)].mean() > made[mine & (labels == 0)].mean() + 0.2


@pytest.mark.parametrize("method", ["sinkhorn", "sliced", "embedding"])
def test_recorded_steps_of_a_baseline_without_privacy_are_those_that_are_called(
    method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from privot.common.cuda_graphs import called
    from privot.synthesis import open_generators

    x, y = pictures(100)
    given: Any = {"method": method, "classes": 2, "shape": (8, 8), "steps": 6, "batch": 20, "device": "cuda"}
    replayed = open_generators.train_generator_openly(x, y, mixture=1.0, **given)
    monkeypatch.setattr(open_generators, "recorded", called)
    eager = open_generators.train_generator_openly(x, y, mixture=1.0, **given)
    np.testing.assert_allclose(replayed.sample(20)[0], eager.sample(20)[0], atol=2e-2)
    assert replayed.loss == pytest.approx(eager.loss, rel=2e-2)
