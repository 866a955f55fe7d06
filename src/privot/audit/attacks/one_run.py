"""Audits DP-SGD from a single run: many canaries at once, each included by the toss of a coin.

Canary i has the gradient C·e_i in a space with as many dimensions as canaries, so none hides another. After one run of
the real mechanism its score is the sum of coordinate i over all steps. The highest scores are guessed to be in, the
lowest to be out, and there is no guess on the rest (Steinke, Nasr & Jagielski 2023). Neighbours are add-remove.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privot.accounting import account
from privot.accounting.events import repeated
from privot.accounting.sampling import Poisson
from privot.audit.attacks.dp_sgd_attack import RowGradients
from privot.audit.findings import Claim
from privot.audit.simulation.neighbours import Neighbour, releases
from privot.audit.statistics.epsilon_bounds import DEFAULT_CONFIDENCE, check_confidence, one_run_epsilon
from privot.common.arguments import check_delta
from privot.guarantee import Adjacency
from privot.mechanisms import ClippedGradients
from privot.mechanisms.gradients.gradient_function import Query
from privot.mechanisms.mechanism import Facts
from privot.noise import NoiseSource, SystemNoise

Array = NDArray[np.float64]

GUESSED = (0.02, 0.05, 0.1, 0.25, 0.5)
"""Shares of the canaries guessed to be in, and as many out; fixed beforehand, and they share the allowed error."""


@dataclass(frozen=True)
class OneRun:
    """What one run `measured` of ε at the claim's δ: `guesses` on `canaries` canaries, `right` of them correct."""

    name: str
    claim: Claim
    measured: float
    confidence: float
    canaries: int
    guesses: int
    right: int
    seconds: float

    def epsilon(self, delta: float | None = None) -> float:
        """The lower bound on ε at `delta` (the claim's unless given); of a larger δ nothing is known: 0."""
        return self.measured if delta is None or check_delta(delta) <= self.claim.delta else 0.0

    @property
    def refuted(self) -> bool:
        """Whether more was measured than claimed."""
        return self.measured > self.claim.epsilon()

    def to_dict(self) -> dict[str, Any]:
        """As plain JSON types."""
        return {
            "kind": "one run",
            "name": self.name,
            "claimed": self.claim.to_dict(),
            "measured": {
                "epsilon": self.measured,
                "confidence": self.confidence,
                "delta": self.claim.delta,
                "adjacency": str(self.claim.adjacency),
            },
            "canaries": self.canaries,
            "guesses": self.guesses,
            "right": self.right,
            "refuted": self.refuted,
            "seconds": round(self.seconds, 2),
        }


def best_guesses(scores: Array, there: NDArray[np.bool_], delta: float, confidence: float) -> tuple[float, int, int]:
    """(ε, guesses, correct guesses) for the best of the fixed numbers of guesses."""
    order = np.argsort(scores)
    each = 1.0 - (1.0 - confidence) / len(GUESSED)
    best = (-1.0, 0, 0)
    for share in GUESSED:
        count = max(1, int(share * len(scores)))
        right = int(there[order[-count:]].sum() + (~there[order[:count]]).sum())
        best = max(best, (one_run_epsilon(len(scores), 2 * count, right, delta, each), 2 * count, right))
    return best


def one_run(
    sigma: float,
    delta: float,
    *,
    rate: float = 1.0,
    steps: int = 1,
    canaries: int = 1000,
    clip: float = 1.0,
    confidence: float = DEFAULT_CONFIDENCE,
    noise: NoiseSource | None = None,
) -> OneRun:
    """Audit `ClippedGradients` by one run of `steps` steps with Poisson samples at `rate`.

    `sigma` is the standard deviation of the noise, `clip` the clipping norm. Returns a lower bound on ε at `delta`.
    """
    began = time.monotonic()
    check_confidence(confidence)
    there = np.random.default_rng().random(canaries) < 0.5
    mechanism = ClippedGradients(RowGradients(canaries), Query(np.zeros(canaries)), sigma, clip, Poisson(rate))
    # two records of zeros, so that the vault is not empty without canaries
    x = np.vstack([1e3 * clip * np.eye(canaries)[there], np.zeros((2, canaries))])
    held = Neighbour(x, np.zeros(len(x), dtype=np.int64), 1)
    scores = np.zeros(canaries)
    source = SystemNoise() if noise is None else noise
    for release in releases(held, mechanism, steps, clip=clip, adjacency=Adjacency.ADD_REMOVE, noise=source):
        scores += np.asarray(release.value)
    event = mechanism.event(Facts(canaries, None, clip, Adjacency.ADD_REMOVE, 1))
    claim = Claim.of(account(repeated(event, steps), delta))
    epsilon, guesses, right = best_guesses(scores, there, delta, confidence)
    name = f"DP-SGD in one run, σ {sigma:g}, C {clip:g}, rate {rate:g}, {steps} steps, {canaries} canaries"
    return OneRun(name, claim, epsilon, confidence, canaries, guesses, right, time.monotonic() - began)
