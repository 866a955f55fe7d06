"""The models that the studies train; initial weights come from a recorded seed. No data is touched."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from privot.common.extras import needing

with needing("Models need", "torch"):
    import torch
    from torch import nn

Norm = Literal["group", "batch"]


def convolutional(
    norm: Norm = "group", *, side: int = 28, channels: int = 1, width: int = 64, seed: int = 0
) -> nn.Module:
    """The CNN of Triastcyn & Faltings 2020, as Yang, Qi & Zhou 2024 use it: two convolutions, three linear layers.

    The paper normalises over the batch, which mixes records; `group` uses group normalisation instead.
    """

    def normalise() -> nn.Module:
        return nn.BatchNorm2d(width) if norm == "batch" else nn.GroupNorm(min(8, width), width)

    remaining = ((side - 4) // 2 - 4) // 2
    return _seeded(
        seed,
        lambda: nn.Sequential(
            nn.Conv2d(channels, width, 5),
            nn.ReLU(),
            nn.MaxPool2d(2),
            normalise(),
            nn.Conv2d(width, width, 5),
            nn.ReLU(),
            normalise(),
            nn.MaxPool2d(2),
            nn.Flatten(),
            nn.Linear(width * remaining * remaining, 384),
            nn.SELU(),
            nn.Linear(384, 192),
            nn.SELU(),
            nn.Linear(192, 10),
        ),
    )


def linear(inputs: int, classes: int, seed: int = 0) -> nn.Module:
    """Multinomial logistic regression: small enough for tests and for a first trial."""
    return _seeded(seed, lambda: nn.Sequential(nn.Flatten(), nn.Linear(inputs, classes)))


def _seeded(seed: int, make: Callable[[], nn.Module]) -> nn.Module:
    """What `make` builds under `seed`, leaving torch's own generator as it was."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return make()
