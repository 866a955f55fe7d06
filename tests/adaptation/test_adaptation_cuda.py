"""On a GPU steps are recorded and replayed: they must do what the same steps do when they are called."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from privot.adaptation import AdaptationConfig, DomainAdapter
from privot.adaptation import learner as learning_module
from privot.adaptation.learner import Learner
from privot.adaptation.open_adaptation import train_openly
from privot.common.cuda_graphs import called
from privot.vault import Vault

if not torch.cuda.is_available():
    pytest.skip("needs a CUDA device", allow_module_level=True)


def source() -> tuple[np.ndarray, np.ndarray]:
    return np.random.default_rng(0).uniform(size=(80, 256)), np.arange(80) % 2


def made(method: str) -> tuple[Learner, Vault]:
    settings = AdaptationConfig(
        method=method, network="digits", batch=16, warmup=4, finish=8, steps=3, fit=5, slices=20
    )
    vault = Vault(source()[0][:60], clip=1.0, adjacency="replace-one", budget=(5.0, 1e-5))
    adapter = DomainAdapter(5.0, 1e-5, settings=settings, shape=(16, 16), device="cuda", seed=1)
    return Learner(adapter.design(vault.facts, source()), *source(), "cuda"), vault


@pytest.mark.parametrize("method", ["source", "swd", "dann", "sliced", "embedding"])
def test_recorded_steps_are_those_that_are_called(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    weights, release = [], None
    for record in (None, called):
        if record is not None:
            monkeypatch.setattr(learning_module, "recorded", record)
        learner, vault = made("source" if method in ("swd", "dann") else method)
        if method in ("swd", "dann"):
            train_openly(learner, source()[0], method)
        else:
            learner.public_steps(4, None, None)
            if method != "source":
                stream = vault.stream(learner.mechanism(), purpose="a test")
                release = release or learner._take(stream)
                learner.learn(release)
            learner.public_steps(learner.total, None, None)
        assert learner.step == learner.total
        weights.append(torch.cat([p.detach().reshape(-1) for p in learner.networks.parameters()]))
    torch.testing.assert_close(weights[0], weights[1], rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("method", ["embedding", "sliced", "dp-dann", "published"])
def test_every_method_runs_to_its_end(method: str) -> None:
    releases_per_block = 1 if method in ("embedding", "sliced") else 2
    sample = None if releases_per_block == 1 else 16
    settings = AdaptationConfig(
        method=method, network="digits", batch=16, warmup=3, finish=3, fit=5, tries=2, blocks=1,
        releases_per_block=releases_per_block, sample=sample, slices=20,
    )  # fmt: skip
    vault = Vault(source()[0][:60], clip=1.0, adjacency="replace-one", budget=(5.0, 1e-5))
    adapter = DomainAdapter(
        5.0, 1e-5, settings=settings, shape=(16, 16), device="cuda", seed=1, allow_unproven=method == "published"
    )
    adapter.fit(vault, source())
    assert adapter.guarantee_ is not None
    assert adapter.guarantee_.epsilon() <= 5.0 * (1 + 1e-9)
    assert adapter.predict(source()[0]).shape == (80,)
