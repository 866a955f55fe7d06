"""Attacks noise through the bits of floating-point numbers: does the grid of a noisy number reveal its true value?

Mironov 2012. If v + n is small although v is not, a plain floating-point sum keeps the coarse grid of n; a noisy zero
of the same size has finer digits. So compare v = 0 with v = σ/4 and score an output y by min(−log₂|y|/σ, number of
trailing zero bits of y): small *and* coarse. Correct noise has the same grid for both. No record is involved.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privot.accounting import Gaussian, account
from privot.audit.findings import Check, Claim
from privot.guarantee import Adjacency
from privot.noise import NoiseSource, SystemNoise
from privot.noise.adding import add_noise, grid_of
from privot.release import Release

Array = NDArray[np.float64]
Add = Callable[[Array, NoiseSource, float], Array]

_SHIFT = 0.25


def trailing_zeros(values: Array) -> NDArray[np.int64]:
    """How many of the 53 significant bits of each number, from the last one up, are zero; 53 for 0 itself."""
    bits = np.abs(np.asarray(values, dtype=np.float64)).view(np.int64) & ((1 << 52) - 1)
    # the lowest set bit, as a power of two that a float holds exactly
    lowest = np.log2(np.maximum(bits & -bits, 1).astype(np.float64)).astype(np.int64)
    zeros = np.where(bits == 0, 52, lowest)
    return np.asarray(np.where(values == 0.0, 53, zeros))


def plain_sum(values: Array, noise: NoiseSource, sigma: float) -> Array:
    """v + n in plain floating point: the fault that `add_noise` avoids."""
    return np.asarray(values + noise.normal(values.shape, sigma))


@dataclass(frozen=True)
class FloatAttack:
    """An attack on `add`, which adds noise: it compares the bits of noisy 0 and noisy σ/4."""

    add: Add = add_noise
    sigma: float = 1.0
    delta: float = 1e-5
    noise: NoiseSource = field(default_factory=SystemNoise, repr=False)
    name: str = "floating point: noise on a grid"
    description: str = "0 against σ/4; small outputs whose last bits are zero"

    @property
    def claim(self) -> Claim:
        """A Gaussian mechanism with shift ¼; there are no records, so the adjacency is add-remove by convention."""
        event = Gaussian(self.sigma, _SHIFT * self.sigma, Adjacency.ADD_REMOVE)
        return Claim.of(account(event, self.delta), _SHIFT)

    def real(self, present: bool, trials: int) -> Array:
        """Scores of the bits of noisy numbers."""
        value = np.full(trials, _SHIFT * self.sigma if present else 0.0)
        seen = self.add(value, self.noise, self.sigma)
        with np.errstate(divide="ignore"):
            small = -np.log2(np.abs(seen) / self.sigma)
        return np.minimum(small, trailing_zeros(seen).astype(np.float64))

    def simulated(self, present: bool, trials: int) -> Array | None:
        """None: `real` runs the code itself a million times."""
        return None


def on_grid(release: Release, sigma: float) -> Check:
    """Whether every number of a release lies on the grid that noise of this σ is added on."""
    held = np.concatenate([np.ravel(a).astype(np.float64) for a in release._arrays().values()])
    return numbers_on_grid("every number", held, sigma, 1.0)


def embedding_on_grid(release: Release) -> list[Check]:
    """The same for the sums and counts of an embedding, which are divided by their weights after the noise."""
    weight, sigma = float(release.public["count_weight"]), float(release.public["sigma"])
    value: Any = release.value
    share, both = float(release.public.get("common_share", 0.0)), math.sqrt((1.0 - weight) * (1.0 + weight))
    weights = {"sums": both * math.sqrt(1.0 - share) if share else both, "counts": weight}
    if share:
        weights["common"] = both * math.sqrt(share)
    return [numbers_on_grid(f"the {name}", np.ravel(value[name]), sigma, share) for name, share in weights.items()]


def numbers_on_grid(what: str, held: Array, sigma: float, weight: float) -> Check:
    """Whether all numbers lie on the grid; quotients are rounded, so the nearest grid point must give the same one."""
    grid = grid_of(sigma)
    nearest = np.rint(held * weight / grid) * grid
    passed = bool((nearest / weight == held).all())
    return Check(f"the noise of {what} was added on a grid", passed, f"{held.size} numbers, grid {grid:.3g}")
