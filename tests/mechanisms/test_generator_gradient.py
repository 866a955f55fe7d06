"""Noisy gradients of parameters: one clip of the whole vector, one σ, and the gradient that autograd finds."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from privot.accounting import FixedSize, Gaussian, Poisson, Sampled
from privot.errors import UsageError
from privot.guarantee import Adjacency
from privot.mechanisms.clipping import MARGIN
from privot.mechanisms.gradients.generator_gradient import ParameterQuery, SanitizedParameters
from privot.mechanisms.gradients.sinkhorn_gradient import GradientQuery
from privot.transport import sinkhorn
from privot.vault import Vault


class Little(nn.Module):
    """(z, labels) → points in [0, 1]."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.layer, self.unused = nn.Linear(2, 4).double(), nn.Parameter(torch.zeros(3, dtype=torch.float64))

    def forward(self, z: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = torch.sigmoid(self.layer(z) + 0.1 * labels[:, None])
        return out


def make(**changes: Any) -> SanitizedParameters:
    usual = {"points": 5, "sigma": 2.0, "clip": 10.0, "sampling": FixedSize(6, 6), "steps": 3, "reg": 1.0}
    mechanism = SanitizedParameters(
        **{**usual, "mixture": 0.0, "sweeps": 3000, "labels": True, "label_weight": 0.1, "parameters": 15, **changes}
    )
    mechanism.handle.use(Little())
    return mechanism


def opened(adjacency: str = "replace-one", n: int = 6) -> Vault:
    x = np.random.default_rng(0).uniform(size=(n, 4))
    return Vault(x, np.zeros(n, dtype=int), classes=1, clip=1.0, adjacency=adjacency, budget=(1e12, 1e-5))


def query(rows: int = 7) -> ParameterQuery:
    z = torch.randn(rows, 2, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    return ParameterQuery(z, torch.zeros(rows, dtype=torch.int64))


def test_it_is_the_gradient_of_the_parameters_by_autograd_through_the_converging_solver() -> None:
    mechanism, asked = make(sigma=1e-4, steps=1), query()
    value = torch.as_tensor(opened().stream(mechanism, purpose="test").answer(asked).value)
    model = Little()
    rows = 2.0 * torch.from_numpy(np.random.default_rng(0).uniform(size=(6, 4))) - 1.0
    points = 2.0 * model(asked.z, asked.labels)[:5] - 1.0
    (2.0 * sinkhorn(points, rows, 1.0, "sqeuclidean", 1e-10).value).backward()
    wanted = torch.cat([model.layer.weight.grad.flatten(), model.layer.bias.grad, torch.zeros(3)])
    order = [name for name, _ in model.named_parameters()]
    assert order == ["unused", "layer.weight", "layer.bias"]
    wanted = torch.cat([wanted[12:], wanted[:12]])
    assert float((value - wanted).abs().max()) < 1e-3
    assert float(wanted.norm()) > 0.1
    # the generator's own gradients are left alone: un-noised, they would be a release
    assert all(p.grad is None for p in mechanism.handle._generator.parameters())


def test_the_event_is_that_of_a_vector_clipped_as_a_whole() -> None:
    """2C under either adjacency: the loss is no sum over records, so C does not hold under add-remove."""
    for adjacency, sampling in (("replace-one", FixedSize(3, 6)), ("add-remove", Poisson(0.5))):
        mechanism = make(sampling=sampling, capacity=6, clip=0.25, sigma=2.0)
        event = mechanism.event(opened(adjacency).facts)
        assert event == Sampled(Gaussian(2.0, 0.5, Adjacency.parse(adjacency)), sampling)


def test_the_whole_vector_is_clipped() -> None:
    clip = 1e-3
    mechanism = make(clip=clip, sigma=1e-7, steps=1)
    value = torch.as_tensor(opened().stream(mechanism, purpose="test").answer(query()).value)
    assert float(value.norm()) == pytest.approx(clip * (1.0 - MARGIN), rel=1e-3)


@pytest.mark.statistical
def test_noise_is_fresh_and_of_the_size_that_is_counted() -> None:
    stream = opened().stream(make(sigma=2.0, clip=1e-3, steps=400, sweeps=14), purpose="test")
    values = torch.stack([torch.as_tensor(stream.answer(query()).value) for _ in range(400)])
    spread = float(values.square().mean()) ** 0.5
    assert abs(spread - 2.0) < 5 * 2.0 / (2 * values.numel()) ** 0.5
    assert abs(spread - 2.0 * 2.0 / 3.0) > 0.3


def test_an_empty_sample_is_noise_alone() -> None:
    mechanism = make(sampling=Poisson(1e-6), capacity=2, sigma=1e-5, steps=1)
    value = torch.as_tensor(opened("add-remove").stream(mechanism, purpose="test").answer(query()).value)
    assert float(value.abs().max()) < 1e-4


@pytest.mark.slow
@pytest.mark.parametrize(
    ("change", "asked"),
    [
        ({}, GradientQuery(torch.zeros(5, 4))),
        ({}, query(4)),
        ({}, ParameterQuery(torch.zeros(7, 2, dtype=torch.float64), torch.zeros(6, dtype=torch.int64))),
        ({"parameters": 14}, query()),
    ],
)
def test_a_query_that_does_not_fit_uses_up_no_step(change: dict[str, Any], asked: Any) -> None:
    stream = opened().stream(make(**change), purpose="test")
    with pytest.raises(UsageError):
        stream.answer(asked)
    if not change:
        for _ in range(3):
            stream.answer(query())


def test_a_generator_has_to_be_named() -> None:
    mechanism = SanitizedParameters(5, 1.0, 1.0, FixedSize(3, 6), parameters=15)
    with pytest.raises(UsageError, match="before the first query"):
        opened().stream(mechanism, purpose="test").answer(query())


@pytest.mark.parametrize("where", ["parameter", "module", "before", "everywhere"])
def test_a_generator_with_a_hook_that_hears_gradients_is_refused(where: str) -> None:
    """A backward hook sees gradients without noise: an attacker who sets one would see private gradients."""
    mechanism, heard = make(sweeps=14), []
    layer = mechanism.handle._generator.layer
    listen = {
        "parameter": lambda: layer.weight.register_hook(heard.append),
        "module": lambda: layer.register_full_backward_hook(lambda *told: heard.append(told)),
        "before": lambda: layer.register_full_backward_pre_hook(lambda *told: heard.append(told)),
        "everywhere": lambda: nn.modules.module.register_module_full_backward_hook(lambda *told: heard.append(told)),
    }
    hook = listen[where]()
    stream = opened().stream(mechanism, purpose="test")
    try:
        with pytest.raises(UsageError, match="hook"):
            stream.answer(query())
    finally:
        hook.remove()
    assert not heard
    # without it all three steps are there
    for _ in range(3):
        stream.answer(query())
