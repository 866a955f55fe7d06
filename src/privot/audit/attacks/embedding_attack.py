"""Attacks mean embeddings and noisy class counts: one record is added, or moved to the other side of the map.

The default feature map has a known worst case: φ(x) = x clipped to [−1, 1], then zeros. A record at +1 and a record at
−1 are 2 apart. Any other map can be attacked, with the two records to compare.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from privot.accounting import account
from privot.audit.findings import Claim
from privot.audit.simulation.gaussian_trials import core_scores
from privot.audit.simulation.neighbours import Neighbour, releases
from privot.audit.simulation.noiseless import NoNoise
from privot.errors import UsageError
from privot.guarantee import Adjacency
from privot.mechanisms import MeanEmbedding
from privot.mechanisms.embedding import FeatureMap
from privot.mechanisms.mechanism import Facts
from privot.noise import NoiseSource, SystemNoise

if TYPE_CHECKING:
    import torch

Array = NDArray[np.float64]


class SignedMap:
    """φ(x) = (x₁ clipped to [−1, 1], 0, …, 0): norm at most 1, and 2 apart for records of opposite sign."""

    rounding = 0.0

    def __init__(self, dim: int = 1, size: int = 4) -> None:
        self.dim, self.size = dim, size

    def features(self, x: torch.Tensor) -> torch.Tensor:
        """(rows, size)."""
        import torch

        out = torch.zeros(len(x), self.size, dtype=x.dtype, device=x.device)
        out[:, 0] = x[:, 0].clamp(-1.0, 1.0)
        return out

    def to_dict(self) -> dict[str, Any]:
        """As plain JSON types."""
        return {"kind": "signed", "dim": self.dim, "size": self.size}


@dataclass(frozen=True)
class EmbeddingAttack:
    """An attack on `MeanEmbedding` with noise of deviation `sigma`.

    `features` is the map, the worst case unless given. `canary` and `other` (one row each) are the records that are
    compared under replace-one; under add-remove `canary` is added. With `labels` there are two classes, and the
    replaced record changes its class.
    """

    sigma: float
    delta: float
    adjacency: Adjacency
    labels: bool = False
    features: FeatureMap = field(default_factory=SignedMap, repr=False)
    canary: Array | None = field(default=None, repr=False)
    other: Array | None = field(default=None, repr=False)
    count_weight: float | None = 0.05
    records: int = 3
    noise: NoiseSource = field(default_factory=SystemNoise, repr=False)
    device: str = "cpu"
    make: Callable[..., MeanEmbedding] = field(default=MeanEmbedding, repr=False)
    title: str = "embedding"

    def __post_init__(self) -> None:
        object.__setattr__(self, "adjacency", Adjacency.parse(self.adjacency))

    @property
    def name(self) -> str:
        """The mechanism and its parameters, in a few words."""
        labels = ", two classes" if self.labels else ""
        return f"{self.title}, {self.features.size} features, σ {self.sigma:g}{labels}, {self.adjacency}"

    @property
    def description(self) -> str:
        """The data sets and the statistic, in words."""
        what = "added" if self.adjacency is Adjacency.ADD_REMOVE else "replaced"
        return f"one record {what}; likelihood ratio along the change of all sums and counts, and each count by itself"

    @cached_property
    def mechanism(self) -> MeanEmbedding:
        """The mechanism under attack."""
        where = "cpu" if isinstance(self.features, SignedMap) else self.device
        return self.make(self.features, self.sigma, self.labels, self.count_weight, where)

    @cached_property
    def claim(self) -> Claim:
        """What the mechanism's own event costs."""
        public = self.records if self.adjacency is Adjacency.REPLACE_ONE else None
        facts = Facts(self.features.dim, public, 1.0, self.adjacency, 2 if self.labels else None)
        shift = self.adjacency.sensitivity(1.0) / self.sigma
        return Claim.of(account(self.mechanism.event(facts), self.delta), shift)

    def neighbour(self, present: bool) -> Neighbour:
        """D or D': the first row is the canary."""
        dim = self.features.dim
        canary = np.full(dim, 1e3) if self.canary is None else np.asarray(self.canary, dtype=np.float64)
        other = -canary if self.other is None else np.asarray(self.other, dtype=np.float64)
        if canary.shape != (dim,) or other.shape != (dim,):
            raise UsageError(
                f"A canary must be one record of {dim} columns, got shapes {canary.shape} and {other.shape}."
            )
        x = np.zeros((self.records, dim))
        x[0] = canary if present else other
        y = np.zeros(len(x), dtype=np.int64)
        y[0] = int(present)
        if self.adjacency is Adjacency.ADD_REMOVE and not present:
            x, y = x[1:], y[1:]
        return Neighbour(x, y if self.labels else None, 2 if self.labels else None)

    def _values(self, present: bool, steps: int, noise: NoiseSource) -> Array:
        """(steps, all numbers of a release): sums, the sum of all, then counts; in units in which each has noise σ."""
        by_class, common, count = self.mechanism.weights
        found = releases(
            self.neighbour(present), self.mechanism, steps, clip=1.0, adjacency=self.adjacency, noise=noise
        )
        rows = []
        for release in found:
            value: Any = release.value
            shared = [common * np.ravel(value["common"])] if "common" in value else []
            rows.append(
                np.concatenate([by_class * np.ravel(value["sums"]), *shared, count * np.ravel(value["counts"])])
            )
        return np.array(rows)

    @cached_property
    def change(self) -> tuple[Array, float]:
        """(change of the release without noise when one record changes, the σ that the code asks for)."""
        quiet = NoNoise(self.noise)
        values = [self._values(present, 1, quiet)[0] for present in (False, True)]
        return values[1] - values[0], max(quiet.sigmas)

    def real(self, present: bool, trials: int) -> Array:
        """Rows of (likelihood ratio, count of each class)."""
        seen = self._values(present, trials, self.noise)
        direction, _ = self.change
        counts = seen[:, -(2 if self.labels else 1) :]
        return np.column_stack([seen @ direction, counts])

    def simulated(self, present: bool, trials: int) -> Array | None:
        """The change that the code makes, along its own direction, and the noise that it asks for."""
        direction, sigma = self.change
        gap = float(np.linalg.norm(direction))
        return core_scores(present, trials, gap=gap, sigma=sigma, noise=self.noise, device=self.device)
