"""The public gradient function of DP-SGD, and the public weights at which it is called; it touches no record."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from privot.errors import UsageError

if TYPE_CHECKING:
    from torch import Tensor

Array = NDArray[np.float64]
CHUNK = 64
"""Records whose gradients are held at once."""


class Gradients(Protocol):
    """A public function: gradients of a public loss at given weights, per record or of a batch's mean."""

    size: int
    """How many parameters there are."""

    def each(self, weights: Array, rows: Array, labels: NDArray[np.int64]) -> Array | Tensor:
        """One gradient per record, of shape (records, size), each of that record alone; a tensor keeps its device."""
        ...

    def mean(self, weights: Array, rows: Array, labels: NDArray[np.int64]) -> Array:
        """The gradient of the mean loss of all rows together."""
        ...


class Query:
    """The public weights that the next gradient is taken at; the training loop sets them between two releases."""

    def __init__(self, weights: Array) -> None:
        self.weights = np.array(weights, dtype=np.float64)

    def set(self, weights: Array) -> None:
        """Use other weights from now on."""
        given = np.array(weights, dtype=np.float64)
        if given.shape != self.weights.shape or not np.isfinite(given).all():
            raise UsageError("The weights must be finite and keep their shape: use a smaller learning rate.")
        self.weights = given
