"""Membership tests on generators: which records were in the training data, and which come out nearly unchanged.

All candidates are drawn from one distribution, and a coin decides for each whether it is trained on. So one trained
generator gives as many guesses as there are candidates, and a bound on ε that is valid for a single run (`one_run`). A
test that finds nothing is meaningful only if it detects a generator that copies: `copying` is one. Arrays in, rates
out; no vault is opened.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privot.audit.attacks.one_run import best_guesses
from privot.audit.statistics.epsilon_bounds import rate_above, rate_below
from privot.errors import DataError

Array = NDArray[np.float64]
Flags = NDArray[np.bool_]

NEAR = 0.01
"""Share of *non-members* with a near-copy, by definition: it sets the distance below which a record is a near-copy."""
_BLOCK = 512


@dataclass(frozen=True)
class Membership:
    """The result of one test on one generator, with intervals at `confidence`.

    `auc` is the probability that a member scores higher than a non-member, ½ for guessing. `epsilon` is a lower bound
    (add-remove, one run) at `delta`. `copied` is the share of members with a near-copy, `copied_others` that of
    non-members, about `NEAR` by definition.
    """

    name: str
    auc: float
    auc_interval: tuple[float, float]
    epsilon: float
    delta: float
    copied: float
    copied_interval: tuple[float, float]
    copied_others: float
    candidates: int
    confidence: float

    @property
    def stands_out(self) -> bool:
        """Whether members differ from non-members, or have near-copies, beyond what chance explains."""
        return self.auc_interval[0] > 0.5 or self.copied_interval[0] > max(5.0 * NEAR, 2.0 * self.copied_others)

    def to_dict(self) -> dict[str, Any]:
        """As plain JSON types."""
        return {
            "kind": "membership",
            "name": self.name,
            "auc": self.auc,
            "auc_interval": list(self.auc_interval),
            "epsilon": self.epsilon,
            "delta": self.delta,
            "adjacency": "add-remove",
            "copied": self.copied,
            "copied_interval": list(self.copied_interval),
            "copied_others": self.copied_others,
            "candidates": self.candidates,
            "confidence": self.confidence,
            "stands_out": self.stands_out,
        }


def nearest(candidates: Array, synthetic: Array) -> Array:
    """The distance of each candidate to the nearest synthetic record."""
    out = np.empty(len(candidates))
    squares = (synthetic**2).sum(1)
    for start in range(0, len(candidates), _BLOCK):
        part = candidates[start : start + _BLOCK]
        cross = (part**2).sum(1)[:, None] - 2.0 * part @ synthetic.T + squares
        out[start : start + _BLOCK] = np.sqrt(np.maximum(cross.min(1), 0.0))
    return out


def log_density(candidates: Array, points: Array, width: float) -> Array:
    """ln of a Gaussian kernel estimate with this bandwidth, up to a constant."""
    out = np.empty(len(candidates))
    squares = (points**2).sum(1)
    for start in range(0, len(candidates), _BLOCK):
        part = candidates[start : start + _BLOCK]
        cross = -((part**2).sum(1)[:, None] - 2.0 * part @ points.T + squares) / (2.0 * width**2)
        top = cross.max(1)
        out[start : start + _BLOCK] = top + np.log(np.exp(cross - top[:, None]).mean(1))
    return out


def density_ratio(candidates: Array, synthetic: Array, reference: Array) -> Array:
    """ln of the ratio of densities of synthetic and reference records around each candidate.

    The bandwidth is a quarter of the median distance of reference records to their nearest synthetic neighbour: so
    narrow that a copy outweighs everything else around it.
    """
    width = max(0.25 * float(np.median(nearest(reference, synthetic))), 1e-9)
    return log_density(candidates, synthetic, width) - log_density(candidates, reference, width)


def area(scores: Array, there: Flags, confidence: float) -> tuple[float, tuple[float, float]]:
    """AUC and its interval (DeLong, DeLong & Clarke-Pearson 1988), by placements."""
    ones, zeros = scores[there], scores[~there]
    if min(len(ones), len(zeros)) < 2:
        raise DataError("A membership test needs members and non-members.")
    below = np.array([(zeros < s).mean() + 0.5 * (zeros == s).mean() for s in ones])
    above = np.array([(ones > s).mean() + 0.5 * (ones == s).mean() for s in zeros])
    auc = float(below.mean())
    from scipy.special import ndtri

    # a floor on the variance: a perfect separation would otherwise be certain after four trials
    least = 1.0 / (4.0 * min(len(ones), len(zeros)) ** 2)
    wide = float(ndtri((1.0 + confidence) / 2.0)) * math.sqrt(
        below.var(ddof=1) / len(ones) + above.var(ddof=1) / len(zeros) + least
    )
    return auc, (max(0.0, auc - wide), min(1.0, auc + wide))


def attack_generator(
    name: str,
    candidates: Array,
    there: Flags,
    synthetic: Array,
    reference: Array,
    *,
    delta: float,
    confidence: float,
) -> list[Membership]:
    """Run the nearest-neighbour and the density-ratio test; both count near-copies by distance.

    `candidates` (n, d), `there` (n,) whether each was trained on, `synthetic` and `reference` (·, d).
    """
    distances = nearest(candidates, synthetic)
    cut = float(np.quantile(distances[~there], NEAR))
    copied = int((distances[there] <= cut).sum())
    error = (1.0 - confidence) / 2.0
    members = int(there.sum())
    interval = (float(rate_below(copied, members, error)), float(rate_above(copied, members, error)))
    others = float((distances[~there] <= cut).mean())
    found = []
    for test, scores in (
        ("nearest neighbour", -distances),
        ("density ratio", density_ratio(candidates, synthetic, reference)),
    ):
        auc, wide = area(scores, there, confidence)
        epsilon, _, _ = best_guesses(scores, there, delta, confidence)
        found.append(
            Membership(
                f"{name}, {test}",
                auc,
                wide,
                max(epsilon, 0.0),
                delta,
                copied / members,
                interval,
                others,
                len(candidates),
                confidence,
            )
        )
    return found


def copying(members: Array, count: int, spread: float, seed: int = 0) -> Array:
    """A generator without privacy: members drawn at random, with a little noise of standard deviation `spread`."""
    generator = np.random.default_rng(seed)
    rows = members[generator.integers(len(members), size=count)]
    return np.asarray(rows + spread * generator.standard_normal(rows.shape))
