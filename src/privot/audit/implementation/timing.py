"""Tests whether the time of a release depends on a record: interleaved pairs, a rank test, a stated effect size.

Other processes disturb single times, so runs come in pairs, one on each data set, in random order; what slows the
machine down for a while slows both runs of a pair. The median of the paired differences has an interval by order
statistics (the inverted sign test; no assumption about the distribution of times):

    P[d_(k) ≤ median ≤ d_(m+1−k)] ≥ 1 − 2·P[Binomial(m, ½) < k] .

A dependence is found if that interval, at 99.9 %, lies beyond a stated share of the median time, and does so again on
fresh pairs. Smaller differences are ignored: at the scale of microseconds other causes dominate. The test runs
functions that it is given and reads no record.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binom

from privot.audit.findings import Check
from privot.errors import UsageError

Array = NDArray[np.float64]
Clock = Callable[[], float]

SHARE = 0.1
"""Smallest dependence that counts, as a share of the median time of a release."""
SURE = 0.999
PAIRS = 150
MIN_PAIRS = 20
_WARM = 5
"""Pairs that are run first and not counted: they fill caches and load modules."""


@dataclass(frozen=True)
class Timing:
    """The median difference of paired times and its interval, as shares of the median time."""

    shift: float
    low: float
    high: float
    seconds: float
    pairs: int

    @property
    def apart(self) -> bool:
        """Whether the whole interval lies beyond SHARE, on either side."""
        return max(self.low, -self.high) > SHARE

    def __str__(self) -> str:
        parts = ", ".join(f"{100.0 * v:+.1f} %" for v in (self.low, self.high))
        return f"median difference {100.0 * self.shift:+.1f} % of {1e3 * self.seconds:.2f} ms ({parts} at {SURE:.1%})"


def compare_times(first: Array, second: Array) -> Timing:
    """The median of second − first over pairs, in units of the median time of all, with its interval."""
    one, two = (np.asarray(a, dtype=np.float64) for a in (first, second))
    if one.shape != two.shape or one.ndim != 1 or len(one) < MIN_PAIRS:
        raise UsageError(f"Expected two arrays of equally many times, at least {MIN_PAIRS} each.")
    middle = float(np.median(np.concatenate([one, two])))
    ordered = np.sort(two - one) / max(middle, 1e-12)
    count = len(ordered)
    # the largest k with 2·P[B < k] ≤ 1 − SURE; the order statistics d_(k) and d_(m+1−k), counted from 1
    k = int(binom.ppf((1.0 - SURE) / 2.0, count, 0.5))
    if k < 1:
        raise UsageError(f"{count} pairs are too few for an interval at {SURE:.1%}.")
    return Timing(float(np.median(ordered)), float(ordered[k - 1]), float(ordered[count - k]), middle, count)


def paired_times(
    first: Callable[[], Any], second: Callable[[], Any], pairs: int = PAIRS, clock: Clock = time.perf_counter
) -> tuple[Array, Array]:
    """(times of `first`, times of `second`), interleaved; the order within a pair is random."""
    coins = np.random.default_rng().integers(2, size=pairs + _WARM)
    times = np.empty((2, pairs + _WARM))
    runs = (first, second)
    for k, coin in enumerate(coins):
        for which in (coin, 1 - coin):
            began = clock()
            runs[which]()
            times[which, k] = clock() - began
    return times[0, _WARM:], times[1, _WARM:]


def most_runs(pairs: int) -> int:
    """The largest number of runs of each side in one check."""
    return 2 * (pairs + _WARM)


def same_time(
    name: str,
    first: Callable[[], Any],
    second: Callable[[], Any],
    *,
    pairs: int = PAIRS,
    clock: Clock = time.perf_counter,
) -> Check:
    """Whether two runs take the same time, up to a difference of SHARE."""
    found = compare_times(*paired_times(first, second, pairs, clock))
    differs = found.apart
    if differs:
        again = compare_times(*paired_times(first, second, pairs, clock))
        differs = again.apart and math.copysign(1.0, again.shift) == math.copysign(1.0, found.shift)
    widest = max(abs(found.low), abs(found.high))
    open_ = f"; up to {widest:.0%} is not ruled out" if widest > SHARE and not differs else ""
    detail = f"{found}; {found.pairs} pairs, looking for a dependence of {SHARE:.0%} or more{open_}"
    return Check(f"time of {name}", not differs, detail)
