"""How far a distance could be off: intervals from random slices, or from records drawn again. It draws no plots."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from privot.errors import UsageError

DRAWS = 20
"""Samples of the records for one interval."""


@dataclass(frozen=True)
class Interval:
    """A 95 % interval, and what it is an interval *of*, in words."""

    low: float
    high: float
    meaning: str


def over_slices(costs: NDArray[Any], p: float, seed: int = 0, draws: int = 2000) -> Interval:
    """Of the sliced distance over all directions, given W_p^p along k random ones: a bootstrap over the slices.

    It covers the choice of directions only, not that other records might have been drawn.
    """
    if len(costs) < 2:
        raise UsageError("An interval over slices needs at least two of them.")
    generator = np.random.default_rng(seed)
    means = np.asarray(costs, float)[generator.integers(0, len(costs), (draws, len(costs)))].mean(1)
    low, high = np.quantile(means, [0.025, 0.975]) ** (1.0 / p)
    return Interval(float(low), float(high), "95 % over the random directions, for these records")


@dataclass(frozen=True)
class OverRecords:
    """An interval for a distance between two samples, and what chance alone shows in smaller ones.

    `null_level` is the mean distance between two disjoint samples of `size` records of both sides pooled: what two
    parties with one distribution would see. It is compared with `at_size`, the mean distance between `size` records of
    either side, not with the distance between all of them: smaller samples lie further apart.
    """

    interval: Interval
    null_level: float
    at_size: float
    size: int


def over_records(
    distance: Callable[[NDArray[Any], NDArray[Any]], float],
    x: NDArray[Any],
    y: NDArray[Any],
    value: float,
    seed: int = 0,
    draws: int = DRAWS,
    most: int = 500,
) -> OverRecords:
    """Of the mean distance between samples as large as `x` and `y`, around their distance `value`.

    b of n records drawn without replacement, `draws` times, show a distance that varies as σ²·(1/b − 1/n), and the
    distance itself varies as σ²/n around its mean: the standard deviation of the first, times √(b/(n − b)), is that of
    the second (half-samples: J. Shao & C. F. J. Wu, 1989; asymptotic normality: E. del Barrio & J.-M. Loubes, 2019).
    Of two sides the larger factor is taken. In many dimensions that mean lies above the distance of the distributions
    behind the samples, mostly by what `null_level` shows.
    """
    if min(len(x), len(y)) < 2:
        raise UsageError("An interval over records needs at least two of them per side.")
    generator = np.random.default_rng(seed)
    pool = np.concatenate([x, y])
    size = min(most, len(x) // 2, len(y) // 2)
    values, nulls = [], []
    for _ in range(draws):
        i, j = (generator.choice(len(z), size, replace=False) for z in (x, y))
        values.append(distance(x[i], y[j]))
        both = generator.choice(len(pool), 2 * size, replace=False)
        nulls.append(distance(pool[both[:size]], pool[both[size:]]))
    factor = max(size / (len(z) - size) for z in (x, y)) ** 0.5
    # in units of the largest, whose square is a float whatever it is itself
    unit = max(values) or 1.0
    off = float(stdtrit(draws - 1, 0.975) * np.std(np.divide(values, unit), ddof=1) * factor * unit)
    meaning = "95 %, for the mean distance between samples of as many records (asymptotic)"
    interval = Interval(min(value, max(0.0, value - off)), value + off, meaning)
    return OverRecords(interval, float(np.mean(nulls)), float(np.mean(values)), size)
