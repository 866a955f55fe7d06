"""Records in memory as a vault holds them: in closures, handed to mechanisms and to nobody else."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from privot.common.block_sums import RowSums
from privot.data.record_digest import row_digests
from privot.errors import UsageError
from privot.mechanisms.clipping import clip_rows
from privot.mechanisms.mechanism import Facts
from privot.vault.stream import Sealed


class _Records(Sealed, RowSums):
    """The arrays, in closures: an object browser finds functions here, not values."""

    in_one_place = True
    __slots__ = ("__labels", "__rows", "count", "facts")

    def __init__(self, x: NDArray[Any], y: NDArray[np.int64] | None, facts: Facts) -> None:
        def rows(indices: NDArray[np.int64] | None) -> NDArray[np.float64]:
            return np.array(x if indices is None else x[indices], dtype=np.float64)

        def labels(indices: NDArray[np.int64] | None) -> NDArray[np.int64]:
            if y is None:
                raise UsageError("The vault holds no labels: give it y and the number of classes.")
            return np.array(y if indices is None else y[indices])

        self.__rows, self.__labels = rows, labels
        self.count, self.facts = x.shape[0], facts

    def forget_sums(self) -> None:
        """There are none: sums are made when they are asked for."""

    def rows(self, indices: NDArray[np.int64] | None = None) -> NDArray[np.float64]:
        return self.__rows(indices)

    def clipped(self, indices: NDArray[np.int64] | None = None) -> NDArray[np.float64]:
        return clip_rows(self.__rows(indices), self.facts.clip)

    def labels(self, indices: NDArray[np.int64] | None = None) -> NDArray[np.int64]:
        return self.__labels(indices)

    def exact_digest(self, row_key: bytes) -> bytes:
        labels = None if self.facts.classes is None else self.__labels(None)
        return row_digests(self.__rows(None), labels).tobytes()
