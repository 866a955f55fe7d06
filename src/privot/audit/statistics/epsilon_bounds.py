"""Lower bounds on ε from counts of right and wrong guesses, each with a stated confidence. They see counts only.

A test that tells data set D' from D has a true-positive rate p = P'(S) and a false-positive rate q = P(S). (ε, δ)-DP
forces p ≤ e^ε·q + δ and, for the complement of S, 1 − q ≤ e^ε·(1 − p) + δ. Rates are bounded from counts exactly
(Clopper & Pearson 1934), so that a bound exceeds the true ε with probability at most 1 − confidence.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import betaincinv, gammaln, ndtr, ndtri

from privot.accounting.laws import gaussian
from privot.common.arguments import check_delta, is_number
from privot.errors import UsageError, brief
from privot.guarantee import Curve

Array = NDArray[np.float64]
DEFAULT_CONFIDENCE = 0.95


def check_confidence(confidence: float) -> float:
    """`confidence` if it lies strictly between 0 and 1."""
    if not is_number(confidence) or not 0.0 < confidence < 1.0:
        raise UsageError(f"The confidence must lie strictly between 0 and 1, got {brief(confidence)}.")
    return float(confidence)


def rate_below(hits: ArrayLike, trials: ArrayLike, error: float) -> Array:
    """Clopper–Pearson: a lower bound on the true rate that fails with probability at most `error`; broadcasts.

    The `error` quantile of Beta(k, n − k + 1); 0 where there was no hit.
    """
    k, n = np.broadcast_arrays(np.asarray(hits, float), np.asarray(trials, float))
    found = betaincinv(np.maximum(k, 1.0), n - np.maximum(k, 1.0) + 1.0, error)
    return np.asarray(np.where(k > 0, found, 0.0))


def rate_above(hits: ArrayLike, trials: ArrayLike, error: float) -> Array:
    """Clopper–Pearson: an upper bound on the true rate that fails with probability at most `error`."""
    k, n = np.broadcast_arrays(np.asarray(hits, float), np.asarray(trials, float))
    return np.asarray(1.0 - rate_below(n - k, n, error))


@dataclass(frozen=True)
class Rates:
    """Bounds on one test: its true-positive rate is at least `true`, its false-positive rate at most `false`.

    Both hold together with the stated confidence (each spends half of the error).
    """

    true: float
    false: float

    @classmethod
    def of(cls, hits: int, ones: int, alarms: int, zeros: int, confidence: float) -> Rates:
        """From `hits` of `ones` trials with D' and `alarms` of `zeros` trials with D."""
        error = (1.0 - check_confidence(confidence)) / 2.0
        return cls(float(rate_below(hits, ones, error)), float(rate_above(alarms, zeros, error)))

    def epsilon(self, delta: float) -> float:
        """The largest ε' such that (ε, `delta`)-DP is refuted for all ε < ε'; no assumption about the mechanism."""
        return float(epsilons(self.true, self.false, delta))

    def shift(self) -> float:
        """μ = Φ⁻¹(p) − Φ⁻¹(q): no mechanism that is μ'-GDP with μ' < μ passes (Dong, Roth & Su 2022); 0 if none."""
        return float(shifts(self.true, self.false))

    def refute(self, curve: Curve) -> bool:
        """Whether a claimed curve δ(ε) is broken at *some* ε ≥ 0, in either direction."""
        return self.broken_at(curve) is not None

    def broken_at(self, curve: Curve) -> tuple[float, float, float] | None:
        """(ε, the δ that is claimed there, the larger δ that these rates show) where a curve is broken most, if it is.

        The curve is a family of claims, all of which must hold; both directions use the same two rates, so testing
        many ε adds nothing to the error. δ = p − e^ε·q is what a test of these rates shows at ε.
        """
        p, q = self.true, self.false
        found: list[tuple[float, float, float]] = []
        for high, low in ((p, q), (1.0 - q, 1.0 - p)):
            if high <= low:
                continue
            top = math.log(high / low) if low > 0.0 else 40.0
            for e in map(float, np.linspace(0.0, min(top, 40.0), 81)):
                claimed = curve.delta(e)
                if high > math.exp(e) * low + claimed:
                    found.append((e, claimed, high - math.exp(e) * low))
        return max(found, key=lambda point: point[2] - point[1], default=None)


def epsilons(true: ArrayLike, false: ArrayLike, delta: float) -> Array:
    """max(ln((p − δ)/q), ln((1 − q − δ)/(1 − p)), 0), for arrays of bounds on p and q."""
    p, q, _ = np.broadcast_arrays(np.asarray(true, float), np.asarray(false, float), check_delta(delta, pure=True))
    with np.errstate(divide="ignore", invalid="ignore"):
        one = np.log(np.maximum(p - delta, 0.0) / q)
        other = np.log(np.maximum(1.0 - q - delta, 0.0) / (1.0 - p))
    return np.asarray(np.nan_to_num(np.maximum(np.maximum(one, other), 0.0), nan=0.0))


def shifts(true: ArrayLike, false: ArrayLike) -> Array:
    """max(Φ⁻¹(p) − Φ⁻¹(q), 0) for arrays; 0 where a rate bounds nothing (p = 0 or q = 1)."""
    p, q = np.broadcast_arrays(np.asarray(true, float), np.asarray(false, float))
    with np.errstate(invalid="ignore"):
        found = ndtri(p) - ndtri(q)
    return np.asarray(np.where(np.isfinite(found), np.maximum(found, 0.0), 0.0))


def shift_epsilon(shift: float, delta: float) -> float:
    """ε at `delta` of a Gaussian mechanism with this shift: a bound on μ as a bound on ε if the noise is Gaussian."""
    return gaussian.epsilon(shift, check_delta(delta)) if shift > 0.0 else 0.0


def ideal_rates(shift: float, thresholds: ArrayLike) -> tuple[Array, Array]:
    """(p, q) of the best tests between N(0, 1) and N(shift, 1), one for each threshold."""
    t = np.asarray(thresholds, float)
    return np.asarray(ndtr(shift - t)), np.asarray(ndtr(-t))


def one_run_p_value(canaries: int, guesses: int, right: int, epsilon: float, delta: float) -> float:
    """An upper bound on the probability of so many right guesses if *one run* with `canaries` canaries is (ε, δ)-DP.

    Steinke, Nasr & Jagielski 2023, "Privacy auditing with one (1) training run". Each of m canaries is included
    with probability ½, independently; r are guessed (no guess on the rest), v of them correctly. With W ~ Binomial(r,
    1/(1 + e^−ε)),

        P[at least v right] ≤ P[W ≥ v] + 2mδ · max_{1 ≤ i ≤ v} P[v > W ≥ v − i]/i .

    Neighbours are add-remove: a canary is included or not.
    """
    if not 0 <= right <= guesses <= canaries:
        raise UsageError(f"Expected right ≤ guesses ≤ canaries, got {right}, {guesses} and {canaries}.")
    if right == 0:
        return 1.0
    # log pmf of W at v−1, v−2, …, 0, summed from the top; and the tail from v up
    k = np.arange(guesses + 1, dtype=np.float64)
    log_q, log_not = -np.logaddexp(0.0, -epsilon), -np.logaddexp(0.0, epsilon)
    pmf = np.exp(
        gammaln(guesses + 1.0) - gammaln(k + 1.0) - gammaln(guesses - k + 1.0) + k * log_q + (guesses - k) * log_not
    )
    tail = float(pmf[right:].sum())
    below = np.cumsum(pmf[right - 1 :: -1]) / np.arange(1, right + 1)
    return min(1.0, tail + 2.0 * canaries * delta * float(below.max()))


def one_run_epsilon(canaries: int, guesses: int, right: int, delta: float, confidence: float) -> float:
    """The largest ε refuted at `confidence` by one run's guesses; 0 if none is. The number of guesses is fixed before.

    >>> one_run_epsilon(1000, 1000, 500, 1e-5, 0.95)
    0.0
    """
    error = 1.0 - check_confidence(confidence)
    check_delta(delta)

    def refuted(epsilon: float) -> bool:
        return one_run_p_value(canaries, guesses, right, epsilon, delta) <= error

    if not refuted(0.0):
        return 0.0
    low, high = 0.0, 1.0
    while refuted(high) and high < 64.0:
        low, high = high, 2.0 * high
    for _ in range(60):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if refuted(middle) else (low, middle)
    return low
