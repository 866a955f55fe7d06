"""From scores under two neighbouring data sets to lower bounds on ε. It knows scores only, no mechanism.

The threshold is chosen on one half of the trials and the rates are counted on the other half, which is independent of
the choice; otherwise the stated confidence would not hold.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privot.audit.statistics.epsilon_bounds import Rates, epsilons, rate_above, rate_below, shifts
from privot.errors import UsageError

Array = NDArray[np.float64]

MIN_TRIALS = 20
_CANDIDATES = 400


@dataclass(frozen=True)
class Measured:
    """Lower bounds from a set of trials, at one δ; both bounds hold together with `confidence`.

    `epsilon` makes no assumption. `shift` is the μ below which the mechanism is not μ-GDP. `free` and `gaussian` are
    the rates behind them, at thresholds chosen on the other half of the trials.
    """

    epsilon: float
    shift: float
    free: Rates
    gaussian: Rates
    delta: float
    confidence: float
    trials: int

    def to_dict(self) -> dict[str, Any]:
        """As plain JSON types."""
        return {
            "epsilon": self.epsilon,
            "shift": self.shift,
            "true_positive_rate_at_least": self.free.true,
            "false_positive_rate_at_most": self.free.false,
            "delta": self.delta,
            "confidence": self.confidence,
            "trials": self.trials,
        }


def measure(without: Array, with_: Array, delta: float, confidence: float) -> Measured:
    """Bounds from scores of trials on D (`without`) and on D' (`with_`), higher scores meaning D'.

    Both bounds hold together: each is made at an error of half of 1 − `confidence`.
    """
    zeros, ones = checked_scores(without), checked_scores(with_)
    choose0, count0 = halves(zeros)
    choose1, count1 = halves(ones)
    each = 1.0 - (1.0 - confidence) / 2.0
    error = (1.0 - each) / 2.0
    thresholds = _candidates(choose0, choose1)
    # chosen at a smaller error than it is judged at, which rules out thresholds that are best by chance in the tails
    p = rate_below(_above(choose1, thresholds), len(choose1), error / 20.0)
    q = rate_above(_above(choose0, thresholds), len(choose0), error / 20.0)
    rates = []
    for value in (epsilons(p, q, delta), shifts(p, q)):
        cut = float(thresholds[int(np.argmax(value))])
        hits, alarms = int(np.count_nonzero(count1 >= cut)), int(np.count_nonzero(count0 >= cut))
        rates.append(Rates.of(hits, len(count1), alarms, len(count0), each))
    free, gaussian = rates
    return Measured(free.epsilon(delta), gaussian.shift(), free, gaussian, delta, confidence, len(zeros) + len(ones))


def checked_scores(scores: Array) -> Array:
    """Scores as a flat array of numbers, enough of them to be halved; infinite ones are allowed, NaN is not."""
    flat = np.asarray(scores, dtype=np.float64).ravel()
    if flat.size < MIN_TRIALS or np.isnan(flat).any():
        raise UsageError(f"An audit needs at least {MIN_TRIALS} trials per data set, each with a score.")
    return flat


def halves(scores: Array) -> tuple[Array, Array]:
    """(trials to choose on, trials to judge on)."""
    return scores[: len(scores) // 2], scores[len(scores) // 2 :]


def _candidates(zeros: Array, ones: Array) -> Array:
    """Candidate thresholds: quantiles of both samples, denser in the tails."""
    tail = np.concatenate([np.logspace(-6, -1, _CANDIDATES // 4), np.linspace(0.1, 0.5, _CANDIDATES // 4)])
    shares = np.concatenate([tail, 1.0 - tail])
    found = [np.quantile(s, shares, method="nearest") for s in (zeros, ones)]
    return np.unique(np.concatenate(found))


def _above(scores: Array, thresholds: Array) -> NDArray[np.int64]:
    """How many scores are at or above each threshold."""
    ordered = np.sort(scores)
    return np.asarray(len(ordered) - np.searchsorted(ordered, thresholds, side="left"))
