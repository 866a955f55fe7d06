"""Transformations, what is fitted to a sketch, and the baselines: against known answers."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from privot.adaptation import DomainAdapter, Embedding, Sliced
from privot.adaptation.adaptation_config import AdaptationConfig
from privot.adaptation.adaptation_methods.sliced_alignment import SlicedLearner
from privot.adaptation.adaptation_methods.source_alone import Source
from privot.adaptation.adaptation_methods.transformed_source import EmbeddingLearner
from privot.adaptation.alignment.adversarial import reverse
from privot.adaptation.alignment.transformation_fit import Fit, fit
from privot.adaptation.alignment.transformations import Warp, transformation
from privot.adaptation.open_adaptation import OpenLearner, train_openly
from privot.errors import UsageError
from privot.kinds import Images
from privot.vault import Vault

pytestmark = pytest.mark.slow


def bumps(records: int, at: float, seed: int) -> np.ndarray:
    """Images of 12 × 12 with one bright spot around column `at`, as rows."""
    dice = np.random.default_rng(seed)
    across, down = np.arange(12.0), np.arange(12.0)
    x, y = at + 1.0 * dice.standard_normal(records), 6.0 + 1.0 * dice.standard_normal(records)
    spots = np.exp(-0.5 * (((across - x[:, None]) / 1.5) ** 2))[:, None, :]
    return (spots * np.exp(-0.5 * (((down - y[:, None]) / 1.5) ** 2))[:, :, None]).reshape(records, 144)


def test_an_image_moves_where_the_released_sketch_says() -> None:
    settings = Embedding(batch=32, fit=120, fit_batch=256, finish=1, frequencies=60)
    vault = Vault(bumps(1000, 6.5, 1), clip=1.0, adjacency="replace-one", budget=(5.0, 1e-5))
    source = bumps(400, 5.0, 2)
    adapter = DomainAdapter(5.0, 1e-5, method=settings, network="features", kind=Images((12, 12)), device="cpu", seed=1)
    adapter.fit(vault, (source, np.arange(400) % 2))
    moved = adapter.change_(torch.as_tensor(source, dtype=torch.float32), torch.randn(400, 10))
    picture = moved.detach().numpy().reshape(-1, 12, 12).mean(axis=0)
    centre = (picture.sum(axis=0) * np.arange(12)).sum() / picture.sum()
    assert centre == pytest.approx(6.5, abs=0.4)


def test_a_warp_of_no_spread_and_no_mean_changes_nothing() -> None:
    warp = Warp((12, 12), 2)
    with torch.no_grad():
        warp.spread.fill_(-30.0)
        rows = torch.as_tensor(bumps(5, 6.0, 0), dtype=torch.float32)
        made = warp(rows, torch.randn(5, 10))
    assert float((made - rows).abs().max()) < 2e-3
    assert float(Warp((12, 12), 2).prior().detach()) == 0.0
    assert float(transformation(None, 3, 2).prior().detach()) == 0.0


def test_adapting_by_a_sketch_beats_the_source_where_columns_moved() -> None:
    def toy(records: int, shift: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
        y = np.arange(records) % 2
        x = 0.2 + 0.2 * y[:, None] + shift + 0.04 * np.random.default_rng(seed).standard_normal((records, 2))
        return np.clip(x, 0.0, 1.0), y

    source, test = toy(400, 0.0, 0), toy(400, 0.2, 2)
    scores = {}
    how = {"finish": 200, "learning_rate": 5e-3}
    asked: tuple[AdaptationConfig, ...] = Source(**how), Embedding(**how, fit=150, frequencies=60)
    for settings in asked:
        vault = Vault(toy(2000, 0.2, 1)[0], clip=1.0, adjacency="replace-one", budget=(3.0, 1e-5))
        adapter = DomainAdapter(3.0, 1e-5, method=settings, device="cpu", seed=1).fit(vault, source)
        scores[settings.name] = adapter.score(*test)
    # moved by a whole class, every second target record looks like the other class
    assert scores["source"] < 0.6
    assert scores["embedding"] > 0.9


def test_a_reversed_gradient_climbs() -> None:
    x = torch.tensor([2.0], requires_grad=True)
    reverse(x, 0.5).square().sum().backward()
    assert x.grad is not None
    assert float(x.grad[0]) == -2.0


@pytest.mark.parametrize("method", ["swd", "dann"])
def test_open_baselines_train_to_the_end(method: str) -> None:
    dice = np.random.default_rng(0)
    x, y = dice.uniform(size=(40, 2)), np.arange(40) % 2
    vault = Vault(x, clip=1.0, adjacency="replace-one", budget=(1.0, 1e-5))
    settings = Source(batch=8, finish=20, augment=False)
    design = DomainAdapter(method=settings, device="cpu", seed=1).design(vault.facts, (x, y))
    trained = train_openly(OpenLearner(design, x, y, "cpu"), x, method)
    assert trained.step == 20
    with pytest.raises(UsageError):
        train_openly(trained, x, "embedding")


def test_lambda_rises_from_nothing_to_its_weight() -> None:
    x, y = np.random.default_rng(0).uniform(size=(40, 2)), np.arange(40) % 2
    vault = Vault(x, clip=1.0, adjacency="replace-one", budget=(1.0, 1e-5))
    settings = Sliced(warmup=10, blocks=10, steps=10, finish=0, weight=3.0, augment=False)
    design = DomainAdapter(1.0, 1e-5, method=settings, device="cpu", seed=1).design(vault.facts, (x, y))
    learner = SlicedLearner(design, x, y, "cpu")
    learner.step = 10
    assert learner.weight() == 0.0
    learner.step = 60
    assert learner.weight() == pytest.approx(3.0 * (2.0 / (1.0 + np.exp(-5.0)) - 1.0))
    learner.step = learner.total
    assert learner.weight() == pytest.approx(3.0, rel=1e-3)


def test_a_sketch_tells_how_often_the_target_shows_each_class() -> None:
    def toy(counts: tuple[int, int], seed: int) -> tuple[np.ndarray, np.ndarray]:
        y = np.repeat([0, 1], counts)
        return 0.3 + 0.4 * y[:, None] + 0.03 * np.random.default_rng(seed).standard_normal((len(y), 2)), y

    vault = Vault(toy((1600, 400), 1)[0], clip=1.0, adjacency="replace-one", budget=(3.0, 1e-5))
    settings = Embedding(batch=500, finish=0, fit=200, fit_batch=256, frequencies=60, augment=False)
    adapter = DomainAdapter(3.0, 1e-5, method=settings, device="cpu", seed=1)
    source = toy((300, 300), 0)
    learner = EmbeddingLearner(adapter.design(vault.facts, source), *source, "cpu")
    learner.learn(next(vault.stream(learner.mechanism(), purpose="a test")))
    weights = learner.change.weights(torch.tensor([0, 1])).detach()
    assert float(weights[0] / weights.sum()) == pytest.approx(0.8, abs=0.05)
    # and batches are drawn so: 500 draws of 0.8 ± 0.05 lie within six standard deviations
    assert float((learner.batch()[1] == 0).float().mean()) == pytest.approx(0.8, abs=0.05 + 6 * 0.018)


@pytest.mark.parametrize("size", [8, 28, 31])
def test_a_bend_is_the_bicubic_surface_through_its_knots(size: int) -> None:
    knots = torch.randn(4, 2, 5, 5, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    warp = Warp((size, size + 3), classes=2).double()
    expected = torch.nn.functional.interpolate(knots, size=[size, size + 3], mode="bicubic", align_corners=True)
    assert torch.allclose(warp.down @ knots @ warp.across.T, expected, atol=1e-6)
    assert not any("down" in name or "across" in name for name in warp.state_dict())


def test_a_transformation_draws_nothing_itself() -> None:
    warp, rows = Warp((12, 12), 2), torch.as_tensor(bumps(4, 6.0, 0), dtype=torch.float32)
    drawn = torch.randn(4, warp.draws(True))
    assert torch.equal(warp(rows, drawn, bend=True), warp(rows, drawn, bend=True))
    # each row follows from its own numbers alone
    other = drawn.clone()
    other[0] += 1.0
    gap = (warp(rows, drawn, bend=True) - warp(rows, other, bend=True)).detach().abs().amax(dim=1)
    assert gap[0] > 0.0
    assert not gap[1:].any()


def test_of_several_fits_the_one_with_the_least_objective_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = Embedding(finish=0, fit=1, fit_batch=32, tries=3, frequencies=60, augment=False)
    x, y = bumps(200, 6.0, 2), np.arange(200) % 2
    vault = Vault(bumps(500, 6.0, 1), clip=1.0, adjacency="replace-one", budget=(5.0, 1e-5))
    adapter = DomainAdapter(5.0, 1e-5, method=settings, network="features", kind=Images((12, 12)), device="cpu", seed=1)
    learner = EmbeddingLearner(adapter.design(vault.facts, (x, y)), x, y, "cpu")
    release = next(vault.stream(learner.mechanism(), purpose="a test"))
    # moved by half a frame, not at all, and by a third of one: the target is where the source is
    ends = iter((1.0, 0.0, 0.7))

    def descend(self: Fit, steps: int) -> None:
        assert float(self.change.mean[4]) == 0.0  # every try begins where the first did
        with torch.no_grad():
            self.change.mean[4] = next(ends)

    monkeypatch.setattr(Fit, "descend", descend)
    values = fit(learner.change, learner.source, release, learner.settings, learner.random)
    assert values[1] < min(values[0], values[2])
    assert float(learner.change.mean[4]) == 0.0
