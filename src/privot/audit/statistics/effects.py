"""Means over records and halvings with their 95 % intervals: of numbers, and of what happens to a record or does not.

The same records come back in every halving, so neither records nor halvings nor their pairs are independent draws as
they stand. Each interval here is the wider of two: one whose draws are records (each with its mean over halvings), and
one whose draws are halvings (each with its mean over records). A few halvings cannot tell what one release in a hundred
gives away: for that there is the guarantee.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp
from scipy.stats import t as student

Array = NDArray[np.float64]
Happened = NDArray[np.bool_]
"""(records, halvings): whether something happened to a record in a halving."""

LEVEL = 0.05
STAKES = 64
"""How many κ `mean_below` has; any number is right, more change nothing."""


@dataclass(frozen=True)
class Effect:
    """A mean and its 95 % interval."""

    value: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Array) -> Effect:
        """From (records, halvings): the wider of two intervals by Student's t, over records and over halvings.

        Within one halving a half's luck with its release helps its own records inside and the other half's outside, so
        it cancels in the mean over both.
        """
        middle = float(values.mean())
        width = max(_student(values, axis, LEVEL / 2) for axis in range(values.ndim))
        return cls(middle, middle - width, middle + width)

    @classmethod
    def paired(cls, first: Happened, second: Happened) -> Effect:
        """P(first) − P(second), of pairs: the same record in the same halving; right also where nothing ever happens.

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
    """A number below the mean share of records to which it happens, with probability at most LEVEL: one-sided."""
    means = happened.mean(1)
    width = _student(happened.astype(np.float64), 1, LEVEL)
    return min(1.0, max(1.0 - mean_below(1.0 - means, LEVEL), float(means.mean()) + width))


def mean_below(values: Array, error: float) -> float:
    """A number that exceeds the mean with probability at most `error`, from independent draws in [0, 1] of any law.

    Waudby-Smith & Ramdas 2024, "Estimating means of bounded random variables by betting". If the mean is m, somebody
    who stakes a fixed share κ of his wealth on each draw, at odds Y/m, ends with Π(1 − κ + κ·Y/m), 1 on average; so
    does whoever splits his wealth over several κ, and by Markov's inequality he ends at 1/`error` or more with
    probability at most `error`. Wealth falls with m: the answer is the m at which it is 1/`error`. The κ lie as
    Cover's universal portfolio has them (arcsine law), so no order of the draws and no choice comes in.
    """
    found, counts = np.unique(values, return_counts=True)
    stakes = np.sin(math.pi * (np.arange(STAKES) + 0.5) / (2 * STAKES))[:, None] ** 2

    def wealth(mean: float) -> float:
        return float(logsumexp(np.log1p(stakes * (found / mean - 1.0)) @ counts)) - math.log(STAKES)

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
