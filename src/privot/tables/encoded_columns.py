"""The columns of a schema as a vault's compact rows hold them: how a coordinate is read, and what is public of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from privot.tables.codec import scaled, unscaled
from privot.tables.columns import Column
from privot.tables.schema import Schema

MISSING = "(missing)"
"""What the category of missing values is called."""
LABEL_PLACE = -1


@dataclass(frozen=True)
class EncodedColumn:
    """`column`, which lies at coordinate `place` of a compact row; −1 for the label, which lies beside the rows.

    >>> age = EncodedColumn(Column("age", "integer", 0, 120), 0)
    >>> age.values(np.array([0.25, -1.0])), age.coordinates(np.array([30.0]))
    (array([30., nan]), array([0.25]))
    """

    stable_name: ClassVar[str] = "privot.tables.encoded_columns.EncodedColumn"

    column: Column
    place: int

    @property
    def name(self) -> str:
        """Its name in the table."""
        return self.column.name

    @property
    def range(self) -> tuple[float, float] | None:
        """The schema's bounds; days or seconds since 1970 for a date. None for categories."""
        return self.column.range if self.column.is_number else None

    @property
    def categories(self) -> tuple[str, ...] | None:
        """The schema's categories, and one for missing values where they are allowed. None for numbers."""
        if self.column.is_number:
            return None
        return (*map(str, self.column.words), *([MISSING] if self.column.missing else []))

    @property
    def missing(self) -> bool:
        """Whether a value may be missing."""
        return self.column.missing

    @property
    def whole(self) -> bool:
        """Whether its numbers are whole."""
        return self.column.is_whole

    def values(self, coordinates: NDArray[np.float64]) -> NDArray[np.float64]:
        """The numbers that coordinates stand for; NaN where one is missing."""
        return np.where(coordinates < 0.0, np.nan, unscaled(self.column, coordinates))

    def coordinates(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """The coordinates of numbers within the range."""
        return scaled(self.column, values)


def encoded_columns(schema: Schema) -> tuple[EncodedColumn, ...]:
    """All columns of a table as a vault of it holds them: in the order of its coordinates, the label last."""
    found = [EncodedColumn(column, place) for place, column in enumerate(schema.learned.features)]
    if schema.label is not None:
        found.append(EncodedColumn(schema[schema.label], LABEL_PLACE))
    return tuple(found)
