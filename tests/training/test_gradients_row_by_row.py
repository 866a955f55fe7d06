"""Per-example gradients depend on their own record alone, to the last bit: not on its place, not on the other records.

The clipping bound is a bound on one record only if the other records' gradients stay what they are when one comes, goes
or changes. On a CPU and on a GPU the same test decides it, for every kind of layer that the shipped models use.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from privot.mechanisms.gradients.gradient_function import CHUNK
from privot.training.model_gradients import ModelGradients

DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA"))]

MODELS = {
    "linear": lambda: nn.Sequential(nn.Flatten(), nn.Linear(144, 10)),
    "perceptron": lambda: nn.Sequential(nn.Flatten(), nn.Linear(144, 100), nn.ReLU(), nn.Linear(100, 10)),
    "convolutions": lambda: nn.Sequential(
        nn.Conv2d(1, 16, 5, padding=2),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3),
        nn.GroupNorm(4, 32),
        nn.Tanh(),
        nn.Flatten(),
        nn.Linear(512, 10),
    ),
}


def gradients_of(name: str, device: str, single: bool) -> ModelGradients:
    torch.manual_seed(0)
    return ModelGradients(MODELS[name](), (1, 12, 12), device=device, single=single)


def as_array(each: np.ndarray | torch.Tensor) -> np.ndarray:
    return each if isinstance(each, np.ndarray) else each.cpu().numpy()


@pytest.mark.gate(each="name")
@pytest.mark.slow
@pytest.mark.parametrize("single", [False, True])
@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("device", DEVICES)
def test_gradient_of_a_record_is_the_same_at_any_place_beside_any_records(device: str, name: str, single: bool) -> None:
    gradients, dice = gradients_of(name, device, single), np.random.default_rng(1)
    weights = gradients.weights()
    rows, labels = dice.uniform(size=(CHUNK, 144)), dice.integers(0, 10, CHUNK)
    first = as_array(gradients.each(weights, rows, labels))
    for trial in range(12):
        order = dice.permutation(CHUNK)
        kept = dice.uniform(size=CHUNK) < (0.5, 0.02, 0.98)[trial % 3]
        kept[order[trial]] = True
        others = dice.normal(size=rows.shape) * 10.0 ** dice.integers(-6, 7, (CHUNK, 1))
        # an empty place in a sample is a row of zeros
        others[dice.uniform(size=CHUNK) < 0.5] = 0.0
        company = np.where(kept[:, None], rows, others)[order]
        beside = np.where(kept, labels, dice.integers(0, 10, CHUNK))[order]
        found = as_array(gradients.each(weights, company, beside))
        places = np.argsort(order)[kept]
        assert np.array_equal(found[places], first[kept]), f"trial {trial}: gradients of kept records moved"
