"""Labelled records as this package takes them, checked: numbers in rows, one whole label a row."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privot.errors import DataError

Array = NDArray[np.float64]
Labels = NDArray[np.int64]
LARGEST = 1e100
"""Of a record's numbers: far from where their squares overflow."""
LABEL_WEIGHT = 2.0
"""λ of the label-aware cost ‖x − x′‖² + λ‖m_y − m_y′‖²; chosen on Fashion-MNIST: see docs/notebook/valuation.md."""


@dataclass(frozen=True, eq=False, repr=False)
class Labelled:
    """Records x (n, d) and their labels y (n,), called `name` in errors."""

    x: Array
    y: Labels
    name: str

    @classmethod
    def of(cls, x: Any, y: Any, name: str) -> Labelled:
        """Refuse what cannot be valued; no error repeats a record."""
        if y is None:
            raise DataError(
                f"{name} has no labels, and this is about labelled records: give them as y, or as a column."
            )
        rows, labels = np.asarray(x, dtype=np.float64), np.asarray(y)
        if rows.ndim != 2 or rows.size == 0 or not np.isfinite(rows).all():
            raise DataError(f"{name} must hold finite numbers of shape (records, dimension).")
        if np.abs(rows).max() > LARGEST:
            raise DataError(f"{name} holds numbers too large to be squared: divide all of them by one number.")
        if labels.shape != (len(rows),) or labels.dtype.kind not in "iu":
            raise DataError(f"{name} must have one whole number a record as its label.")
        if len(rows) < 2:
            raise DataError(f"{name} holds one record: there is nothing to compare it with.")
        return cls(rows, labels.astype(np.int64), name)

    def __repr__(self) -> str:
        return f"Labelled({self.name}, {len(self.x)} records, {self.x.shape[1]} columns)"

    def check_beside(self, validation: Labelled) -> None:
        """Refuse records that the validation set says nothing about."""
        if self.x.shape[1] != validation.x.shape[1]:
            raise DataError(
                f"{self.name} has {self.x.shape[1]} columns and {validation.name} has {validation.x.shape[1]}: "
                "they must lie in one space."
            )
        odd = np.setdiff1d(self.y, validation.y)
        if len(odd):
            raise DataError(
                f"{self.name} has {len(odd)} labels that {validation.name} has no record of: labels mean the same on "
                "both sides."
            )
        if self.x.shape == validation.x.shape and np.array_equal(self.x, validation.x):
            raise DataError(f"{self.name} and {validation.name} hold the same records, which says nothing of a value.")
