"""The optimal one-to-one match between two sets of points of equal size. It knows nothing of attacks or releases."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment

from privot.errors import DataError

Array = NDArray[np.float64]


def assignment(x: Array, y: Array) -> NDArray[np.int64]:
    """The permutation σ of the optimal plan x_i ↔ y_σ(i) for squared distances.

    Both arrays have the shape (points, dimensions). Raises `DataError` if the shapes differ.
    """
    if x.shape != y.shape:
        raise DataError(f"A one-to-one match needs two arrays of one shape, got {x.shape} and {y.shape}.")
    cost = (x**2).sum(1)[:, None] - 2.0 * x @ y.T + (y**2).sum(1)
    return np.asarray(linear_sum_assignment(cost)[1])
