"""Fits a transformation of the public source to a released mean embedding of the target: post-processing of a release.

θ = argmin ‖mean_w φ(T_θ(x_s)) − μ̃‖² + ρ·prior(θ), with ρ = 1/b + σ²·size/n². ρ is the error that cannot be
avoided: the mean over b records is off by about 1/b in squared norm, and μ̃ by σ²·size/n². mean_w weighs the source's
classes as in the target. n is public under replace-one; under add-remove it is the released count.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from privot.adaptation.adaptation_config import FittingConfig
from privot.adaptation.alignment.transformations import Transformation
from privot.common.cuda_graphs import adam, cosine, recorded, set_rate
from privot.release import Release
from privot.synthesis.methods.embedding_training import Target

RATE = 3e-2
_JUDGED = 16
"""Batches over which a fit is judged."""


@dataclass(frozen=True)
class Source:
    """The public records in their own unit, their labels and their range."""

    x: Tensor
    y: Tensor
    low: float
    span: float

    @classmethod
    def of(cls, x: ArrayLike, y: ArrayLike, ends: tuple[float, float], device: torch.device) -> Source:
        """Rows and labels as tensors on `device`; `ends` is the public range of values."""
        rows = torch.as_tensor(np.asarray(x, dtype=np.float32), device=device)
        labels = torch.as_tensor(np.asarray(y, dtype=np.int64), device=device)
        return cls(rows, labels, ends[0], ends[1] - ends[0])

    def unit(self, rows: Tensor) -> Tensor:
        """Rows scaled to [0, 1] and clamped there."""
        return ((rows - self.low) / self.span).clamp(0.0, 1.0)

    def pick(self, count: int, random: torch.Generator) -> Tensor:
        """Numbers of records, each as likely as the others."""
        return torch.randint(len(self.x), (count,), generator=random, device=self.x.device)


class Fit:
    """The objective of a transformation for a release, from fixed buffers that `draw` fills."""

    def __init__(
        self, change: Transformation, source: Source, release: Release, batch: int, random: torch.Generator
    ) -> None:
        target, device = Target.of(release), source.x.device
        self.change, self.source, self.random, self.device = change, source, random, device
        self.optimizer: torch.optim.Optimizer = adam(change, RATE)
        self._features = target.features
        self._wanted = torch.as_tensor(target.means[0], dtype=torch.float32, device=device)
        noise = float(release.public["sums_sigma"]) / _number(release)
        self._pull = 1.0 / batch + target.features.size * noise**2
        self._chosen = torch.zeros(batch, dtype=torch.int64, device=device)
        self._drawn = torch.zeros(batch, change.draws(False), device=device)

    def draw(self) -> None:
        """Choose source records and draw their ξ."""
        self._chosen.copy_(self.source.pick(len(self._chosen), self.random))
        self._drawn.normal_(generator=self.random)

    def mean(self) -> Tensor:
        """mean_w φ(T_θ(x_s)) of the chosen records."""
        source, change = self.source, self.change
        made = change(source.unit(source.x[self._chosen]), self._drawn)
        weights = change.weights(source.y[self._chosen])
        found: Tensor = (weights @ self._features.features(source.low + source.span * made)) / weights.sum()
        return found

    def objective(self, mean: Tensor) -> Tensor:
        """‖mean − μ̃‖² + ρ·prior(θ)."""
        found: Tensor = (mean - self._wanted).square().sum() + self._pull * self.change.prior()
        return found

    def work(self) -> None:
        """One step of Adam on what was drawn."""
        self.objective(self.mean()).backward()  # type: ignore[no-untyped-call]
        self.optimizer.step()

    def descend(self, steps: int) -> None:
        """Descend from the current θ, with a rate that falls as a cosine to 0."""
        self.optimizer = adam(self.change, RATE)
        run = None
        for step in range(steps):
            set_rate(self.optimizer, cosine(RATE, step, steps))
            self.draw()
            # recorded only once there are records in the buffers
            run = run or recorded(self.change, self.optimizer, self.work)
            run()

    @torch.no_grad()
    def value(self) -> float:
        """The objective at a mean over many batches."""
        means = []
        for _ in range(_JUDGED):
            self.draw()
            means.append(self.mean())
        return float(self.objective(torch.stack(means).mean(dim=0)))


def _number(release: Release) -> float:
    """How many records were summed: the public number, or the released count where that is private."""
    public, value = release.public, release.value
    if public["records"] is not None:
        return float(public["records"])
    assert isinstance(value, Mapping)
    # as in `Target`: below its own noise a count says nothing
    return max(1.0, float(public["counts_sigma"]), float(np.asarray(value["counts"]).sum()))


def fit(
    change: Transformation, source: Source, release: Release, settings: FittingConfig, random: torch.Generator
) -> list[float]:
    """Set the parameters of `change` to the best θ of several descents; returns the objective of each.

    A descent may end in a local minimum; its objective shows that, and no label is needed.
    """
    made = Fit(change, source, release, settings.fit_batch, random)
    start = {n: t.clone() for n, t in change.state_dict().items()}
    best, values = start, []
    for _ in range(settings.tries):
        change.load_state_dict(start)
        made.descend(settings.fit)
        values.append(made.value())
        if values[-1] <= min(values):
            best = {n: t.clone() for n, t in change.state_dict().items()}
    change.load_state_dict(best)
    return values
