"""How the records of a group are spread over its fine cells, from noisy counts of known deviation; it sees no record.

Counts of single cells are mostly noise. They are drawn to a simple shape, as far as noise alone explains that they
differ from it (James & Stein): with m cells, residuals d and noise σ, E‖d‖² is about m·σ² and what the records add, so
the share of ‖d‖² beyond noise is kept. The simple shape is even, except at the two ends of an ordered column, where
counts fall towards the end (isotonic regression) and a stretch that noise could have made is empty: a long range that
hardly any record reaches would otherwise fill with noise, and means with it. The ends of a column of numbers have a law
that is fitted to them (`tail_law`); there only a cell that stands out by itself differs from it.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import isotonic_regression

from privot.mechanisms.table_counts.cell_axes import Axis
from privot.mechanisms.table_counts.cell_grouping import nearest_counts

Floats = NDArray[np.float64]
CLEAR = 2.0
"""Deviations of noise that a stretch at an end must hold, not to be called empty."""
STANDS_OUT = 4.0
"""Deviations of noise by which a single cell of a tail must differ from the tail's law, not to follow it. Of k cells
√(`STANDS_OUT`² + 2·ln k): among many, noise makes one that stands out, and far out it would carry the mean along."""


def cell_shares(
    counts: Floats, groups: NDArray[np.int64], axis: Axis, sd: float, tails: Mapping[int, Floats] | None = None
) -> Floats:
    """The share of each fine cell, none negative; only the shares within one group are compared.

    `tails` are the shares that the cells of some groups have by a law.
    """
    out = np.empty(len(counts))
    last = int(groups[: len(groups) - int(axis.missing)].max(initial=0)) if axis.ordered else -1
    for group in range(int(groups.max()) + 1):
        at = np.flatnonzero(groups == group)
        some = counts[at]
        if tails is not None and group in tails:
            out[at] = _like(max(float(some.sum()), 1.0) * tails[group], some, sd)
            continue
        shape, free = np.full(len(some), some.mean()), len(some) - 1
        if last > 0 and group in (0, last) and not (axis.missing and at[-1] == len(counts) - 1):
            # outwards: the first group is read backwards
            step = -1 if group == 0 else 1
            tail, free = _falling(some[::step], sd)
            shape = tail[::step]
        apart = some - shape
        out[at] = nearest_counts(shape + _kept(apart, free, sd) * apart)
    whole: Floats = out / out.sum()
    return whole


def _kept(apart: Floats, free: int, sd: float) -> float:
    """The share of residuals that noise of deviation `sd` does not explain, `free` of them independent."""
    noise = sd**2 * (free + (2.0 * free) ** 0.5)
    return float(max(1.0 - noise / max(float(apart @ apart), 1e-300), 0.0))


def _like(law: Floats, counts: Floats, sd: float) -> Floats:
    """Counts by a law, and by what was counted where that says more: where many are expected, or one stands out."""
    apart = counts - law
    near = law >= CLEAR * sd
    kept = np.where(np.abs(apart) > (STANDS_OUT**2 + 2.0 * np.log(len(counts))) ** 0.5 * sd, 1.0, 0.0)
    kept[near] = _kept(apart[near], int(near.sum()), sd)
    out: Floats = nearest_counts(law + kept * apart)
    return out


def _falling(counts: Floats, sd: float) -> tuple[Floats, int]:
    """The nearest counts that never rise, without stretches that are empty up to noise, and how many were averaged."""
    found = isotonic_regression(counts, increasing=False)
    shape, ends = np.asarray(found.x, dtype=np.float64).copy(), found.blocks
    for start, stop in pairwise(ends):
        if start > 0 and shape[start] * (stop - start) < CLEAR * sd * (stop - start) ** 0.5:
            shape[start:] = 0.0
            break
    return shape, len(counts) - (len(ends) - 1)
