"""Moments over a population of drawn rows, made to fit the noisy tables; it sees no record."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from privot.synthesis.tabular.column_laws.conditional import Floats

PRIOR = 1.0
"""τ, a typical log odds ratio between two groups."""


def on_population(table: Floats, codes: NDArray[np.int64], shares: Floats, noise: Floats | float) -> Floats:
    """Moments over the population: `table`, corrected so that the sum of each row is the population's.

    The population's share of a row differs from the estimated one, by sampling error and by noise; uncorrected, the
    difference would push along directions that no law can follow. It is split over the cells as the row itself is; a
    row that is mostly noise (in shares, per cell) is split like the whole population (`shares`).
    """
    lacking: Floats = present(table, codes) - table.sum(axis=1)
    split = np.maximum(table, 0.0) + np.broadcast_to(noise, table.shape) * len(shares) * shares
    split = split / np.maximum(split.sum(axis=1, keepdims=True), 1e-300)
    out: Floats = table + lacking[:, None] * split
    return out


def present(table: Floats, codes: NDArray[np.int64]) -> Floats:
    """The population's share of each row of `table`."""
    return np.bincount(codes, minlength=len(table)) / len(codes)
