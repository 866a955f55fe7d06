"""Two neighbouring data sets for a mechanism of which nothing is known: the pair, among a few, that moves it furthest.

The candidates follow from public facts alone, and the mechanism runs on them without noise. No user's record is read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privot.audit.simulation.neighbours import Neighbour, releases
from privot.audit.simulation.noiseless import NoNoise
from privot.guarantee import Adjacency
from privot.mechanisms import Facts, Mechanism
from privot.noise import NoiseSource
from privot.release import Release

Array = NDArray[np.float64]

FAR = 1000.0
"""How many times beyond the clipping bound a canary lies: clipping that is missing or relative shows."""
MIN_RECORDS = 3
_DRAWN = 8
"""Random candidates per class, beside the far ones."""
MAX_CLASSES = 4
"""Classes that candidates are tried in: the first ones and the last."""


def furthest_neighbours(
    mechanism: Mechanism, facts: Facts, noise: NoiseSource, view: Callable[[Release], Array], query: Any = None
) -> tuple[Neighbour, Neighbour]:
    """(D, D'): of all candidates the pair whose releases without noise are furthest apart, as `view` sees them.

    Under replace-one D and D' differ in the first record; under add-remove D lacks it. The other records are zeros of
    class 0. Where no candidate moves the release (a sampler may have left the record out), the two far records serve.
    """
    size = facts.records or max(MIN_RECORDS, mechanism.needs.least_records + 1)
    candidates = [_with_first(facts, size, row, label) for row, label in _candidates(facts)]
    quiet = NoNoise(noise)

    def seen(held: Neighbour) -> Array:
        steps = releases(held, mechanism, 1, clip=facts.clip, adjacency=facts.adjacency, noise=quiet, query=query)
        return np.nan_to_num(view(next(steps)))

    values = [seen(held) for held in candidates]
    if facts.adjacency is Adjacency.ADD_REMOVE:
        absent = _without_first(candidates[0])
        base = seen(absent)
        return absent, candidates[int(np.argmax([np.linalg.norm(value - base) for value in values]))]
    gaps = np.array([[np.linalg.norm(one - two) for two in values] for one in values])
    first, second = np.unravel_index(int(np.argmax(gaps)), gaps.shape) if gaps.any() else (0, 1)
    return candidates[int(first)], candidates[int(second)]


def _candidates(facts: Facts) -> Iterator[tuple[Array, int]]:
    """(record, label): far out on both sides, then random ones; the two far ones of the first class come first."""
    # coordinates of different size, so that a mechanism that looks for the largest one finds it
    far = FAR * facts.clip * np.linspace(0.5, 1.0, facts.dim)
    drawn = facts.clip * np.random.default_rng(0).standard_normal((_DRAWN, facts.dim))
    count = facts.classes or 1
    for label in sorted({*range(min(count, MAX_CLASSES - 1)), count - 1}):
        for row in (-far, far, *drawn):
            yield row, label


def _with_first(facts: Facts, size: int, row: Array, label: int) -> Neighbour:
    x = np.zeros((size, facts.dim))
    x[0] = row
    if facts.classes is None:
        return Neighbour(x)
    y = np.zeros(size, dtype=np.int64)
    y[0] = label
    return Neighbour(x, y, facts.classes)


def _without_first(held: Neighbour) -> Neighbour:
    return Neighbour(held.x[1:], None if held.y is None else held.y[1:], held.classes)
