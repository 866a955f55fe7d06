"""Moments over a population of drawn rows, made to fit the noisy tables; it sees no record."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from privot.synthesis.tabular.conditional import Floats

PRIOR = 1.0
"""τ, a typical log odds ratio between two groups."""


def on_population(table: Floats, codes: NDArray[np.int64], shares: Floats, noise: Floats | float) -> Floats:
    """Moments over the population: `table`, with what its rows lack or have too much there made up for.

    The population's share of a row differs from the estimated one, by chance and by noise; left as it is, that would
    push along directions that no law can follow. The difference is split as the row itself is, as far as that is known:
    a row that the noise (in shares, a cell) drowns is split like everything (`shares`).
    """
    lacking: Floats = present(table, codes) - table.sum(axis=1)
    split = np.maximum(table, 0.0) + np.broadcast_to(noise, table.shape) * len(shares) * shares
    split = split / np.maximum(split.sum(axis=1, keepdims=True), 1e-300)
    out: Floats = table + lacking[:, None] * split
    return out


def present(table: Floats, codes: NDArray[np.int64]) -> Floats:
    """The population's share of each row of `table`."""
    return np.bincount(codes, minlength=len(table)) / len(codes)
