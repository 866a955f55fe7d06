"""DP-SGD as Yang, Qi & Zhou 2024 publish it: a noisy, sparse mean gradient, clipped as a whole. UNPROVEN, opt-in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privot.accounting.accountants.running_accountant import RunningAccountant
from privot.accounting.events import Event, Gaussian, Sampled
from privot.accounting.sampling import Sampling
from privot.errors import UsageError
from privot.guarantee import Standing
from privot.mechanisms.clipping import clip_rows
from privot.mechanisms.gradients.dp_sgd_terms import LEFT_OUT, check_fields, check_terms, event_parts, tell_witnesses
from privot.mechanisms.gradients.gradient_function import Array, Gradients, Query
from privot.mechanisms.mechanism import Facts, Needs, Records
from privot.noise import NoiseSource
from privot.noise.adding import add_noise, check_ratio


@dataclass(frozen=True)
class PublishedGradients:
    """The variant of Yang, Qi & Zhou 2024 as their program runs it. UNPROVEN.

    It releases the *mean* gradient of a batch, clipped as a whole, noised, and sparsified (a random share `keep` of its
    coordinates survives). The other parameters are those of `ClippedGradients`.

    What is known: a vector clipped as a whole to C moves by at most 2C, whatever changed, so under the sampler used
    here a step costs a sampled Gaussian with Δ = 2C and σ = `sigma`, and that is what the vault is charged. The
    authors count d = distances between gradients of the batch with one of `LEFT_OUT` records left out, each clipped and
    sparsified, and shuffle instead of sampling; none of that is a bound. Batch normalisation, if the model has it, is
    allowed here.
    """

    gradients: Gradients
    query: Query
    sigma: float
    clip_norm: float
    sampling: Sampling
    steps: int = 1
    keep: float = 0.1
    witnesses: tuple[RunningAccountant, ...] = ()

    def __post_init__(self) -> None:
        check_fields(self)
        if not 0.0 < self.keep <= 1.0:
            raise UsageError(f"The share of coordinates that is kept must lie in (0, 1], got {self.keep!r}.")

    @property
    def needs(self) -> Needs:
        """Labels."""
        return Needs(labels=True)

    @property
    def standing(self) -> Standing:
        """UNPROVEN: what is claimed for it has no theorem."""
        return Standing.UNPROVEN

    @property
    def seed(self) -> int | None:
        """None: nothing public is random here."""
        return None

    def event(self, facts: Facts) -> Event:
        """A sampled Gaussian with Δ = 2C: what whole clipping can promise."""
        check_ratio(self.clip_norm, self.sigma)
        check_terms(self.sampling, facts, self.sigma, self.clip_norm, self.gradients.size)
        return Sampled(Gaussian(self.sigma, 2.0 * self.clip_norm, facts.adjacency), self.sampling)

    def run(self, records: Records, noise: NoiseSource, event: Event, step: int) -> tuple[Array, Mapping[str, Any]]:
        """The noisy, sparse mean gradient, of shape (parameters,)."""
        sampled, gaussian = event_parts(event)
        indices = sampled.sampling.draw(noise, records.count)
        rows, labels = records.rows(indices), records.labels(indices)
        clip = gaussian.sensitivity / 2.0
        mean = self._whole(rows, labels, clip)
        if self.witnesses:
            mask = self._mask(noise)
            left = [
                mask * self._whole(np.delete(rows, j, axis=0), np.delete(labels, j), clip)
                for j in range(min(LEFT_OUT, len(indices)))
            ]
            tell_witnesses(self.witnesses, event, [float(np.linalg.norm(a - b)) for a, b in combinations(left, 2)])
        value = add_noise(mean, noise, gaussian.sigma) * self._mask(noise)
        return value, {"mechanism": "published parameters", "sigma": gaussian.sigma, "clip": clip, "step": step}

    def _whole(self, rows: Array, labels: NDArray[np.int64], clip: float) -> Array:
        """The mean gradient clipped as a whole; 0 where there is none or it is not finite."""
        if len(rows) < 2:
            return np.zeros(self.gradients.size)
        mean = np.asarray(self.gradients.mean(self.query.weights, rows, labels), dtype=np.float64)
        whole: Array = clip_rows(mean[None] if np.isfinite(mean).all() else np.zeros((1, mean.size)), clip)
        return np.asarray(whole[0])

    def _mask(self, noise: NoiseSource) -> Array:
        """A random share `keep` of ones."""
        words = noise.uniform_bits(self.gradients.size)
        return np.asarray(words < np.uint64(min(int(self.keep * 2.0**64), 2**64 - 1)), dtype=np.float64)
