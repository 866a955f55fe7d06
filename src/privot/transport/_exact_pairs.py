"""Exact transport between all pairs of many histograms on the same few points: one cost, thousands of problems."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
from numpy.typing import NDArray

from privot.common.devices import usable_cores
from privot.errors import ConvergenceError, DataError
from privot.transport._exact import network_simplex

Array = NDArray[np.float64]
_PIVOTS = 10**6


def transport_between_all(cost: Array, weights: Array, workers: int | None = None) -> Array:
    """T with T_ij = min ⟨P, `cost`⟩ over plans from `weights`[i] to `weights`[j]; (k, k), symmetric.

    `cost` (m, m) is symmetric, `weights` (k, m) non-negative with rows of sum 1. POT's network simplex is called
    without its checks, which take longer than problems of this size; its result code is looked at. It lets go of
    Python's lock while it works, so threads share the pairs (as many as there are cores, unless `workers` says).

    >>> cost = np.array([[0.0, 1.0], [1.0, 0.0]])
    >>> float(transport_between_all(cost, np.array([[1.0, 0.0], [0.25, 0.75]]))[0, 1])
    0.75
    """
    ground, rows = np.ascontiguousarray(cost, dtype=np.float64), np.ascontiguousarray(weights, dtype=np.float64)
    m = len(ground)
    if ground.shape != (m, m) or rows.ndim != 2 or rows.shape[1] != m or not np.allclose(ground, ground.T):
        raise DataError("Costs must have shape (m, m), symmetric, and histograms shape (k, m).")
    if not (np.isfinite(ground).all() and np.isfinite(rows).all() and rows.min() >= 0.0):
        raise DataError("Costs and histograms must be finite, and histograms not negative.")
    rows = rows / rows.sum(1, keepdims=True)
    solve = network_simplex()
    out = np.zeros((len(rows), len(rows)))

    def fill(i: int) -> None:
        for j in range(i):
            # the solver wants equal sums to the last bit
            other = rows[j] * (rows[i].sum() / rows[j].sum())
            _, value, _, _, code = solve(rows[i], other, ground, _PIVOTS, 1)
            if code != 1:
                raise ConvergenceError(f"The network simplex stopped before its optimum (code {code}).")
            out[i, j] = value

    # long rows first: the last ones to run are then short, and no worker waits
    with ThreadPoolExecutor(workers or usable_cores()) as pool:
        list(pool.map(fill, range(len(rows) - 1, 0, -1)))
    return np.asarray(out + out.T)
