"""Means over records and halvings with 95 % intervals, for numbers and for events that happen to a record or not.

The same records occur in every halving, so neither records nor halvings nor their pairs are independent draws. Each
interval is the wider of two: over records (each with its mean over halvings), and over halvings (each with its mean
over records). A few halvings cannot show what one release in a hundred reveals: the guarantee covers that. Only
measurements are seen here, no record.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.stats import t as student

from privot.accounting.log_sums import log_sum_exp

Array = NDArray[np.float64]
Happened = NDArray[np.bool_]
"""(records, halvings): whether something happened to a record in a halving."""

LEVEL = 0.05
STAKES = 64
"""Number of κ in `mean_below`; any number is valid, and more change nothing."""


@dataclass(frozen=True)
class Effect:
    """A mean and its 95 % interval."""

    value: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Array) -> Effect:
        """From (records, halvings): the wider of two intervals by Student's t, over records and over halvings.

        Within one halving a lucky release of one half helps its own records inside and the other half's outside, so the
        effect cancels in the mean over both.
        """
        middle = float(values.mean())
        width = max(_student(values, axis, LEVEL / 2) for axis in range(values.ndim))
        return cls(middle, middle - width, middle + width)

    @classmethod
    def paired(cls, first: Happened, second: Happened) -> Effect:
        """P(first) − P(second) of pairs: the same record in the same halving; valid even if nothing ever happens.

        Each record's mean difference over halvings lies in [−1, 1], and is 0 unless the two differ for it: bounded by
        `mean_below` over records. Where halvings differ by more than that, Student's interval over halvings is taken.

        >>> nothing = np.zeros((600, 10), dtype=bool)
        >>> print(Effect.paired(nothing, nothing))
        +0.000 (-0.008 to +0.008)
        """
        differences = np.subtract(first, second, dtype=np.float64)
        middle, each = float(differences.mean()), differences.mean(1)
        width = _student(differences, 1, LEVEL / 2)
        low = 2.0 * mean_below((1.0 + each) / 2.0, LEVEL / 2) - 1.0
        high = 1.0 - 2.0 * mean_below((1.0 - each) / 2.0, LEVEL / 2)
        return cls(middle, max(-1.0, min(low, middle - width)), min(1.0, max(high, middle + width)))

    def __str__(self) -> str:
        return f"{self.value:+.3f} ({self.low:+.3f} to {self.high:+.3f})"


def share_above(happened: Happened) -> float:
    """An upper bound on the mean share of records to which it happens, at confidence 1 − LEVEL (one-sided)."""
    means = happened.mean(1)
    width = _student(happened.astype(np.float64), 1, LEVEL)
    return min(1.0, max(1.0 - mean_below(1.0 - means, LEVEL), float(means.mean()) + width))


def mean_below(values: Array, error: float) -> float:
    """A lower bound on the mean that fails with probability at most `error`, from independent draws in [0, 1].

    Waudby-Smith & Ramdas 2024, "Estimating means of bounded random variables by betting". If the mean is m, a bettor
    who stakes a fixed share κ of the wealth on each draw, at odds Y/m, ends with Π(1 − κ + κ·Y/m), which is 1 on
    average; the same holds for a bettor who splits the wealth over several κ. By Markov's inequality the final wealth
    is 1/`error` or more with probability at most `error`. Wealth falls with m: the bound is the m at which it is
    1/`error`. The κ follow the arcsine law of Cover's universal portfolio, so the order of the draws does not matter.
    """
    found, counts = np.unique(values, return_counts=True)
    stakes = np.sin(math.pi * (np.arange(STAKES) + 0.5) / (2 * STAKES))[:, None] ** 2

    def wealth(mean: float) -> float:
        return float(log_sum_exp(np.log1p(stakes * (found / mean - 1.0)) @ counts)) - math.log(STAKES)

    low, high = 0.0, float(values.mean())
    for _ in range(30):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if middle <= 0.0 or wealth(middle) >= -math.log(error) else (low, middle)
    return low


def _student(values: Array, axis: int, error: float) -> float:
    """Half the width of Student's interval, of means along `axis`, with `error` on either side."""
    means = values.mean(tuple(k for k in range(values.ndim) if k != axis))
    spread = float(means.std(ddof=1)) / math.sqrt(len(means))
    return float(student.ppf(1.0 - error, len(means) - 1)) * spread
