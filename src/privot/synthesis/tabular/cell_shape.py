"""How the records of a group are spread over its fine cells, from noisy counts of known deviation; it sees no record.

Counts of single cells are mostly noise. They are drawn to a simple shape, as far as noise alone explains that they
differ from it (James & Stein): with m cells, residuals d and noise σ, E‖d‖² is about m·σ² and what the records add, so
the share of ‖d‖² beyond noise is kept. The simple shape is even, except at the two ends of an ordered column, where
counts fall towards the end (isotonic regression) and a stretch that noise could have made is empty: a long range that
hardly any record reaches would otherwise fill with noise, and means with it.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import isotonic_regression

from privot.mechanisms.table_counts.cell_axes import Axis
from privot.mechanisms.table_counts.cell_grouping import nearest_counts

Floats = NDArray[np.float64]
CLEAR = 2.0
"""Deviations of noise that a stretch at an end must hold, not to be called empty."""


def cell_shares(counts: Floats, groups: NDArray[np.int64], axis: Axis, sd: float) -> Floats:
    """The share of each fine cell, none negative; only the shares within one group are compared."""
    out = np.empty(len(counts))
    last = int(groups[: len(groups) - int(axis.missing)].max(initial=0)) if axis.ordered else -1
    for group in range(int(groups.max()) + 1):
        at = np.flatnonzero(groups == group)
        some = counts[at]
        shape, free = np.full(len(some), some.mean()), len(some) - 1
        if last > 0 and group in (0, last) and not (axis.missing and at[-1] == len(counts) - 1):
            # outwards: the first group is read backwards
            step = -1 if group == 0 else 1
            tail, free = _falling(some[::step], sd)
            shape = tail[::step]
        apart = some - shape
        noise = sd**2 * (free + (2.0 * free) ** 0.5)
        kept = max(1.0 - noise / max(float(apart @ apart), 1e-300), 0.0)
        out[at] = nearest_counts(shape + kept * apart)
    whole: Floats = out / out.sum()
    return whole


def _falling(counts: Floats, sd: float) -> tuple[Floats, int]:
    """The nearest counts that never rise, without stretches that are empty up to noise, and how many were averaged."""
    found = isotonic_regression(counts, increasing=False)
    shape, ends = np.asarray(found.x, dtype=np.float64).copy(), found.blocks
    for start, stop in pairwise(ends):
        if start > 0 and shape[start] * (stop - start) < CLEAR * sd * (stop - start) ** 0.5:
            shape[start:] = 0.0
            break
    return shape, len(counts) - (len(ends) - 1)
