"""Columns of plain arrays, and how a mechanism finds a column by its name or number; it sees no record."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from privot.common.arguments import is_number
from privot.errors import UsageError, brief
from privot.mechanisms.mechanism import Facts, PublicColumn
from privot.mechanisms.table_counts.cell_axes import LABEL

LABEL_NAME = "label"
"""The name of a vault's labels, where no column has it."""


@dataclass(frozen=True)
class ArrayColumn:
    """A column whose coordinates are its values: of an array, or of a file of numbers."""

    name: str
    place: int
    categories: tuple[str, ...] | None = None
    range: tuple[float, float] | None = None
    missing: bool = False
    whole: bool = False

    def values(self, coordinates: NDArray[np.float64]) -> NDArray[np.float64]:
        """The coordinates themselves."""
        return coordinates

    def coordinates(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """The values themselves."""
        return values


def checked_columns(columns: Sequence[str | PublicColumn], dim: int) -> tuple[PublicColumn, ...]:
    """The columns of a vault's rows: names in order, or columns that say themselves where they lie."""
    if isinstance(columns, str):
        raise UsageError("The columns must be a list of names, got one text: put it in brackets.")
    out = tuple(ArrayColumn(c, place) if isinstance(c, str) else c for place, c in enumerate(columns))
    if out and sum(column.place != LABEL for column in out) != dim:
        raise UsageError(f"There must be one name per column: {dim} columns, got {len(out)} names.")
    return out


def find_column(column: int | str, facts: Facts) -> PublicColumn:
    """The column of that name, or at that place; refuses one that is not there."""
    if isinstance(column, str):
        return _named(column, facts)
    if isinstance(column, bool) or not isinstance(column, int) or not 0 <= column < facts.dim:
        raise UsageError(
            f"A column is named, or numbered from 0 to {facts.dim - 1}, got {brief(column)}: choose one of those."
        )
    for known in facts.columns:
        if known.place == column:
            return known
    return ArrayColumn(f"column {column}", column)


def _named(name: str, facts: Facts) -> PublicColumn:
    found = [column for column in facts.columns if column.name == name]
    if len(found) == 1:
        return found[0]
    if not found and name == LABEL_NAME and facts.classes is not None:
        return ArrayColumn(name, LABEL, tuple(str(label) for label in range(facts.classes)))
    if found:
        raise UsageError(f"Several columns are called {brief(name)}: give the number of one, from 0.")
    if not facts.columns:
        raise UsageError(f"The columns have no names: give a number from 0 to {facts.dim - 1}, got {brief(name)}.")
    names = ", ".join(column.name for column in facts.columns[:20])
    raise UsageError(f"There is no column {brief(name)}: name one of {names}.")


def bounds_of(column: PublicColumn, given: tuple[float, float] | None) -> tuple[float, float]:
    """The public range of a column of numbers: as `given`, else as stated with the data."""
    if column.categories is not None:
        raise UsageError(f"The values of {brief(column.name)} are categories, and numbers are needed: count them.")
    if given is None:
        if column.range is None:
            raise UsageError(f"The range of {brief(column.name)} is public and has to be stated, as range=(low, high).")
        given = column.range
    low, high = checked_pair("The range", given)
    if column.range is not None and not column.range[0] <= low < high <= column.range[1]:
        raise UsageError(
            f"The range of {brief(column.name)} must lie within the stated {column.range[0]:g} to {column.range[1]:g}."
        )
    return low, high


def checked_pair(name: str, pair: tuple[float, float]) -> tuple[float, float]:
    """Two numbers, the first smaller than the second."""
    try:
        low, high = pair
    except (TypeError, ValueError):
        raise UsageError(f"{name} must be two numbers, (low, high), got {brief(pair)}.") from None
    ok = is_number(low) and is_number(high) and low < high and max(abs(low), abs(high)) <= 1e100
    if not ok or not (high - low) / 2.0 >= 1e-100:
        raise UsageError(f"{name} must be two numbers, (low, high), with low < high, got {brief(pair)}.")
    return float(low), float(high)
