"""How far a distance could be off: intervals from random slices, or from records drawn again. It draws no plots."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privot.errors import UsageError


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


def over_records(
    distance: Callable[[NDArray[Any], NDArray[Any]], float],
    x: NDArray[Any],
    y: NDArray[Any],
    seed: int = 0,
    draws: int = 20,
    most: int = 500,
) -> tuple[Interval, float]:
    """Of the distance between samples of this size, by drawing at most `most` records a side, `draws` times.

    Also the *null level*: the mean distance between two disjoint halves of the pooled records, which is what two
    parties with the same distribution would see. An empirical distance in many dimensions is mostly that.
    """
    generator = np.random.default_rng(seed)
    pool = np.concatenate([x, y])
    size = min(most, len(x) // 2 or 1, len(y) // 2 or 1)
    values, nulls = [], []
    for _ in range(draws):
        i, j = (generator.choice(len(z), size, replace=False) for z in (x, y))
        values.append(distance(x[i], y[j]))
        both = generator.choice(len(pool), 2 * size, replace=False)
        nulls.append(distance(pool[both[:size]], pool[both[size:]]))
    low, high = np.quantile(values, [0.025, 0.975])
    meaning = f"95 % over samples of {size} records a side (smaller samples lie further apart)"
    return Interval(float(low), float(high), meaning), float(np.mean(nulls))
