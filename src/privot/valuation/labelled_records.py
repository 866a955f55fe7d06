"""Labelled records, checked: numbers in rows, and one whole number per row as its label. No error quotes a record."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privot.errors import DataError, UsageError

Array = NDArray[np.float64]
Labels = NDArray[np.int64]
LARGEST = 1e100
"""Largest number in a record: far from where squares overflow."""
LABEL_WEIGHT = 2.0
"""λ of the label-aware cost ‖x − x′‖² + λ‖m_y − m_y′‖²; chosen on Fashion-MNIST: see lab/docs/notebook/valuation.md."""


@dataclass(frozen=True, eq=False, repr=False)
class Labelled:
    """Records x (n, d) and their labels y (n,); errors call them `name`."""

    x: Array
    y: Labels
    name: str

    @classmethod
    def of(cls, x: Any, y: Any, name: str) -> Labelled:
        """Check and copy; raises `DataError` for shapes, types or values that cannot be valued."""
        if y is None:
            raise DataError(f"{name} has no labels, and labelled records are needed: give them as y, or as a column.")
        rows, labels = np.asarray(x, dtype=np.float64), np.asarray(y)
        if rows.ndim != 2 or rows.size == 0 or not np.isfinite(rows).all():
            raise DataError(f"{name} must hold finite numbers of shape (records, dimension).")
        if np.abs(rows).max() > LARGEST:
            raise DataError(f"{name} holds numbers too large to be squared: divide all of them by one number.")
        if labels.shape != (len(rows),) or labels.dtype.kind not in "iu":
            raise DataError(f"{name} must have one whole number per record as its label.")
        if len(rows) < 2:
            raise DataError(f"{name} holds one record: at least two are needed.")
        return cls(rows, labels.astype(np.int64), name)

    def __repr__(self) -> str:
        return f"Labelled({self.name}, {len(self.x)} records, {self.x.shape[1]} columns)"

    def check_beside(self, validation: Labelled) -> None:
        """Raise `DataError` unless columns and labels fit those of the validation set."""
        if self.x.shape[1] != validation.x.shape[1]:
            raise DataError(
                f"{self.name} has {self.x.shape[1]} columns and {validation.name} has {validation.x.shape[1]}: "
                "they must have equally many."
            )
        odd = np.setdiff1d(self.y, validation.y)
        if len(odd):
            raise DataError(
                f"{self.name} has {len(odd)} labels that do not occur in {validation.name}: labels must mean the same "
                "on both sides."
            )
        if self.x.shape == validation.x.shape and np.array_equal(self.x, validation.x):
            raise DataError(
                f"{self.name} and {validation.name} hold the same records: give a validation set of other records."
            )


LabelledRecords = Labelled | tuple[Any, Any]
"""Labelled records as functions accept them: a plain tuple (x, y), or records that were checked before."""


def as_labelled(given: LabelledRecords, name: str) -> Labelled:
    """`given`, checked; errors call it `name`. Raises `UsageError` unless it is a tuple (x, y)."""
    if isinstance(given, Labelled):
        return given
    if not isinstance(given, tuple) or len(given) != 2:
        length = f" of length {len(given)}" if isinstance(given, tuple) else ""
        raise UsageError(f"Expected {name} as a tuple (x, y), got {type(given).__name__}{length}.")
    return Labelled.of(given[0], given[1], name)
