"""Fits a transformation of the public source to a released mean embedding of the target: post-processing of a release.

θ = argmin ‖mean_w φ(T_θ(x_s)) − μ̃‖² + ρ·prior(θ), with ρ = 1/b + σ²·size/n². ρ is what cannot be told: the mean over b
records is off by about 1/b in squared norm, and μ̃ by σ²·size/n². mean_w weighs the source's classes as the target has
them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from privot.adaptation.transformations import Transformation
from privot.release import Release
from privot.synthesis.embedding import Target
from privot.synthesis.recording import recorded

RATE = 3e-2


@dataclass(frozen=True)
class Source:
    """The public records in their own unit, their labels and their range."""

    x: Tensor
    y: Tensor
    low: float
    span: float

    def unit(self, rows: Tensor) -> Tensor:
        """Rows scaled to [0, 1] and clamped there."""
        return ((rows - self.low) / self.span).clamp(0.0, 1.0)

    def pick(self, count: int, random: torch.Generator) -> Tensor:
        """Numbers of records, each as likely as the others."""
        return torch.randint(len(self.x), (count,), generator=random, device=self.x.device)


@dataclass(frozen=True)
class _Fit:
    """What a step of the fit changes."""

    generator: Transformation
    optimizer: torch.optim.Optimizer
    device: torch.device


def adam(module: torch.nn.Module, rate: float, device: torch.device) -> torch.optim.Adam:
    """Adam, such that its steps can be recorded on a GPU: there the rate must lie on the device too."""
    on_gpu = device.type == "cuda"
    start: float | Tensor = torch.tensor(rate, device=device) if on_gpu else rate
    return torch.optim.Adam(module.parameters(), lr=start, capturable=on_gpu)


def set_rate(optimizer: torch.optim.Optimizer, rate: float) -> None:
    """The learning rate of the next step, also of a recorded one."""
    for group in optimizer.param_groups:
        if isinstance(group["lr"], Tensor):
            group["lr"].fill_(rate)
        else:
            group["lr"] = rate


def fit(
    change: Transformation, source: Source, release: Release, steps: int, batch: int, random: torch.Generator
) -> None:
    """Move the parameters of `change` to θ by `steps` steps of Adam on `batch` records each."""
    target, device = Target.of(release), source.x.device
    features = target.features
    wanted = torch.as_tensor(target.means[0], dtype=torch.float32, device=device)
    records = float(release.public["records"])
    pull = 1.0 / batch + features.size * (float(release.public["sums_sigma"]) / records) ** 2
    chosen = torch.zeros(batch, dtype=torch.int64, device=device)
    drawn = torch.zeros(batch, change.draws(False), device=device)
    optimizer = adam(change, RATE, device)

    def work() -> None:
        made = change(source.unit(source.x[chosen]), drawn)
        phi, weights = features.features(source.low + source.span * made), change.weights(source.y[chosen])
        mean = (weights @ phi) / weights.sum()
        loss = (mean - wanted).square().sum() + pull * change.prior()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()

    run = None
    for step in range(steps):
        set_rate(optimizer, RATE * 0.5 * (1.0 + math.cos(math.pi * step / steps)))
        chosen.copy_(source.pick(batch, random))
        drawn.normal_(generator=random)
        # recorded only once there are records in the buffers
        run = run or recorded(_Fit(change, optimizer, device), work)
        run()
