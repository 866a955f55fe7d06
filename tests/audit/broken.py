"""Mechanisms and noise with one deliberate fault each; all state the cost of the correct ones."""

from __future__ import annotations

from typing import Any

import numpy as np

from privot.accounting.events import Gaussian, Projection
from privot.mechanisms import ClippedGradients, MeanEmbedding, RandomProjection
from privot.mechanisms.directions import directions_of, draw_directions, fresh_seed
from privot.mechanisms.sketching.private_sketch import PrivateSketch
from privot.noise import NoiseSource, SeededNoise, SystemNoise
from privot.noise.adding import add_noise


class Quiet:
    """Noise of seven tenths of what is asked for."""

    def __init__(self, source: NoiseSource | None = None, factor: float = 0.7) -> None:
        self._source, self._factor = source or SystemNoise(), factor

    def normal(self, shape: Any, sigma: float) -> Any:
        return self._source.normal(shape, self._factor * sigma)

    def normal_tensor(self, shape: Any, sigma: float, device: Any, dtype: Any) -> Any:
        return self._source.normal_tensor(shape, self._factor * sigma, device, dtype)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._source, name)


class Repeating:
    """Noise from one key, drawn again at every call; samples are right."""

    def __init__(self) -> None:
        self._source = SystemNoise()

    def normal(self, shape: Any, sigma: float) -> Any:
        return SeededNoise(7).normal(shape, sigma)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._source, name)


class QuietInside(RandomProjection):
    """States σ and runs with 0.7 σ: the fault is in the mechanism, not in the noise."""

    def run(self, records: Any, noise: Any, event: Any, step: int) -> Any:
        weaker = Projection(event.dim, event.slices, 0.7 * event.sigma, event.sensitivity, event.adjacency, event.frame)
        return super().run(records, noise, weaker, step)


class Unclipped(ClippedGradients):
    """Sums gradients as they come."""

    def run(self, records: Any, noise: Any, event: Any, step: int) -> Any:
        indices = event.sampling.draw(noise, records.count)
        each = self.gradients.each(self.query.weights, records.rows(indices), records.labels(indices))
        return add_noise(each.sum(axis=0), noise, event.event.sigma), {"step": step}


class LargestIsOne(RandomProjection):
    """Divides all rows by the largest norm among them instead of clipping each: the published normalisation."""

    def run(self, records: Any, noise: Any, event: Any, step: int) -> Any:
        rows = records.rows()
        rows = records.facts.clip * rows / np.linalg.norm(rows, axis=1).max()
        seed = fresh_seed()
        directions = draw_directions(event.dim, event.slices, event.frame, seed, step)
        public = {"dim": event.dim, "slices": event.slices, "frame": event.frame, "seed": seed, "step": step}
        return add_noise(rows @ directions, noise, event.sigma), public


class Shuffled(ClippedGradients):
    """States Poisson samples and runs through a shuffled epoch in batches of one size."""

    def run(self, records: Any, noise: Any, event: Any, step: int) -> Any:
        share = event.sampling.share
        steps = round(1.0 / share)
        if step % steps == 0:
            # a frozen mechanism that nevertheless keeps its place in an epoch
            object.__setattr__(self, "_order", noise.sample_without_replacement(records.count, records.count))
        size = records.count // steps
        indices = self._order[(step % steps) * size : (step % steps + 1) * size]  # type: ignore[attr-defined]
        rows = records.rows(indices)
        norms = np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12)
        total = (rows * np.minimum(1.0, self.clip_norm / norms)).sum(axis=0)
        return add_noise(total, noise, event.event.sigma), {"step": step}


class ExactCounts(MeanEmbedding):
    """Sums with noise, class counts without."""

    def run(self, records: Any, noise: Any, event: Any, step: int) -> Any:
        value, public = super().run(records, noise, event, step)
        counts = np.bincount(records.labels(), minlength=records.facts.classes).astype(float)
        return {**value, "counts": counts}, public


class ExactClasses(PrivateSketch):
    """A sketch whose shells are noisy but add up to the true count of each class."""

    def run(self, records: Any, noise: Any, event: Any, step: int) -> Any:
        value, public = super().run(records, noise, event, step)
        counts = np.bincount(records.labels(), minlength=self.design.classes)
        shells = value["shells"].reshape(self.design.classes, -1)
        shells = shells + (counts - shells.sum(1))[:, None] / shells.shape[1]
        return {**value, "shells": shells.ravel()}, public


class QuietSketch(PrivateSketch):
    """States σ and runs with 0.7 σ."""

    def run(self, records: Any, noise: Any, event: Any, step: int) -> Any:
        weaker = Gaussian(0.7 * event.sigma, event.sensitivity, event.adjacency)
        return super().run(records, noise, weaker, step)


class TwoSided(RandomProjection):
    """Releases the gradient by the encoder's weights through the *private* side too, as published; states a projection.

    The encoder is linear, z = W·x with W = 1; the loss is Σ‖z·U + V − s‖² against public rows s = 0. Its gradient by W
    through the private records is 2·Xᵀ(XU + V)Uᵀ: the noise stands inside, the record itself outside.
    """

    def run(self, records: Any, noise: Any, event: Any, step: int) -> Any:
        value, public = super().run(records, noise, event, step)
        return 2.0 * records.clipped().T @ value @ directions_of(public).T, public
