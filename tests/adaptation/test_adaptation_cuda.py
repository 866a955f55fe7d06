"""On a GPU steps are recorded and replayed: they must do what the same steps do when they are called."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from privot.adaptation import DomainAdapter, Embedding, Sliced
from privot.adaptation import learner as learning_module
from privot.adaptation.adaptation_config import AdaptationConfig
from privot.adaptation.adaptation_methods import method_of
from privot.adaptation.adaptation_methods.source_alone import Source
from privot.adaptation.learner import Learner
from privot.adaptation.open_adaptation import OpenLearner, train_openly
from privot.common.cuda_graphs import called
from privot.kinds import Images
from privot.vault import Vault

if not torch.cuda.is_available():
    pytest.skip("needs a CUDA device", allow_module_level=True)


def source() -> tuple[np.ndarray, np.ndarray]:
    return np.random.default_rng(0).uniform(size=(80, 256)), np.arange(80) % 2


TRAINED = {"batch": 16, "warmup": 4, "finish": 8}
CONFIGS: dict[str, AdaptationConfig] = {
    "source": Source(**TRAINED),
    "sliced": Sliced(**TRAINED, blocks=1, steps=3, slices=20),
    "embedding": Embedding(**TRAINED, fit=5),
}


def made(method: str) -> tuple[Learner, Vault]:
    settings = CONFIGS.get(method, CONFIGS["source"])
    vault = Vault(source()[0][:60], clip=1.0, adjacency="replace-one", budget=(5.0, 1e-5))
    adapter = DomainAdapter(5.0, 1e-5, method=settings, kind=Images((16, 16)), device="cuda", seed=1)
    design = adapter.design(vault.facts, source())
    make = OpenLearner if method in ("swd", "dann") else method_of(design).learner
    return make(design, *source(), "cuda", None), vault  # type: ignore[return-value]


@pytest.mark.parametrize("method", ["source", "swd", "dann", "sliced", "embedding"])
def test_recorded_steps_are_those_that_are_called(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    weights, release = [], None
    for record in (None, called):
        if record is not None:
            monkeypatch.setattr(learning_module, "recorded", record)
        learner, vault = made(method)
        if isinstance(learner, OpenLearner):
            train_openly(learner, source()[0], method)
        else:
            learner.public_steps(4, None, None)
            if method != "source":
                stream = vault.stream(learner.mechanism(), purpose="a test")
                release = release or learner.take(stream)
                learner.learn(release)
            learner.public_steps(learner.total, None, None)
        assert learner.step == learner.total
        weights.append(torch.cat([p.detach().reshape(-1) for p in learner.networks.parameters()]))
    torch.testing.assert_close(weights[0], weights[1], rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("settings", [Embedding(fit=5, tries=2), Sliced(blocks=1, slices=20)])
def test_every_method_runs_to_its_end(settings: AdaptationConfig) -> None:
    settings = replace(settings, batch=16, warmup=3, finish=3)
    vault = Vault(source()[0][:60], clip=1.0, adjacency="replace-one", budget=(5.0, 1e-5))
    adapter = DomainAdapter(5.0, 1e-5, method=settings, kind=Images((16, 16)), device="cuda", seed=1)
    adapter.fit(vault, source())
    assert adapter.guarantee_ is not None
    assert adapter.guarantee_.epsilon() <= 5.0 * (1 + 1e-9)
    assert adapter.predict(source()[0]).shape == (80,)
