"""Which rows and columns scikit-learn's boosting can be fitted to, and with how many threads.

Without the first it raises an error for rare values.

Beyond 10,000 rows HistGradientBoosting sets a tenth of them aside, class by class, to see when to stop, and beyond
200,000 it cuts columns into bins by some of the rows. Both end in an error where a value is rare: a class that one row
alone has cannot be in both parts, and a column whose few values were all set aside cannot be cut. A synthetic table
holds such values by chance.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

SPLIT_ROWS = 10_000
"""Rows beyond which boosting sets some aside."""
LEAST_VALUES, LEAST_SHARE = 20, 1 / 8000
"""A column with fewer values is left out: no leaf has fewer rows, so it could not be used (of many rows, hardly). All
of 20 values are set aside with a chance of 10⁻²⁰, all of 1/8000 of the rows are left out of the bins with 10⁻⁹."""


FEW_ROWS = 50_000
"""Up to as many rows one thread is enough: threads wait for each other at every node of every tree, and where the cores
are busy with something else that takes ten times as long as the work."""


@contextmanager
def few_threads(rows: int) -> Iterator[None]:
    """One thread for boosting of few `rows`; as many as there are for more."""
    from threadpoolctl import threadpool_limits

    with threadpool_limits(limits=1 if rows <= FEW_ROWS else None, user_api="openmp"):
        yield


def rows_to_fit(y: NDArray[Any]) -> NDArray[np.bool_]:
    """The rows whose class another row has too, where boosting sets rows aside; else all of them.

    >>> int(rows_to_fit(np.array([0, 1, 1])).sum()), int(rows_to_fit(np.array([7] + 6000 * [0, 1])).sum())
    (3, 12000)
    """
    if len(y) <= SPLIT_ROWS:
        return np.ones(len(y), dtype=bool)
    _, place, count = np.unique(y, return_inverse=True, return_counts=True)
    out: NDArray[np.bool_] = count[place] > 1
    return out


def empty_columns(x: NDArray[np.float64]) -> NDArray[np.bool_]:
    """The columns in which so few numbers are present that boosting cannot use them."""
    present = (~np.isnan(x)).sum(axis=0)
    out: NDArray[np.bool_] = (present < len(x)) & (present < max(LEAST_VALUES, LEAST_SHARE * len(x)))
    return out
