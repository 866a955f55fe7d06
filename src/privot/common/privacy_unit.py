"""The privacy unit: what neighbouring data sets differ in, where that is more than one record; it sees no data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from privot.errors import DataError, UsageError

RECORD = "record"
"""The unit where none is stated, as files say it."""
DEFAULT_ROWS = 1
"""How many rows of a unit take part unless another number is given.

Noise grows with the bound and what is kept of a unit does not grow faster, so no other bound has less noise per row.
"""
MAX_ROWS = 1_000_000
_LONGEST_NAME = 100


@dataclass(frozen=True)
class Unit:
    """Everything that carries one value in the column `name`; at most `rows` of its records take part in a release.

    >>> print(Unit("patient_id", 5))
    one patient_id, at most 5 rows
    """

    name: str
    rows: int = DEFAULT_ROWS

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name.strip() or len(self.name) > _LONGEST_NAME:
            raise UsageError(f"The unit is named by 1 to {_LONGEST_NAME} characters: the name of a column.")
        if not self.name.isprintable() or self.name.strip().lower() == RECORD:
            raise UsageError(f'The name of the unit must be printable and not "{RECORD}": rename the column.')
        if isinstance(self.rows, bool) or not isinstance(self.rows, int) or not 1 <= self.rows <= MAX_ROWS:
            raise UsageError(f"The rows per unit must be a whole number from 1 to {MAX_ROWS}.")

    def __str__(self) -> str:
        return f"one {self.name}, at most {self.rows} row{'' if self.rows == 1 else 's'}"

    def to_dict(self) -> dict[str, Any]:
        """The unit as plain JSON types."""
        return {"column": self.name, "rows": self.rows}

    @classmethod
    def from_dict(cls, raw: Any) -> Unit | None:
        """Read what `to_dict` wrote; None for "record", and where an earlier version wrote no unit."""
        if raw is None or raw == RECORD:
            return None
        try:
            if isinstance(raw, Mapping) and set(raw) == {"column", "rows"}:
                return cls(raw["column"], raw["rows"])
        except UsageError:
            pass
        raise DataError('The unit is "record", or a column with the number of rows that take part.')


def relation_words(adjacency: object, unit: Unit | None) -> str:
    """The adjacency, and the unit where it is not a record.

    >>> relation_words("add-remove", Unit("patient_id", 5))
    'add-remove of one patient_id, at most 5 rows'
    """
    return str(adjacency) if unit is None else f"{adjacency} of {unit}"


def unit_words(unit: Unit | None) -> str:
    """The unit in words: "one record", or "one patient_id, at most 5 rows"."""
    return f"one {RECORD}" if unit is None else str(unit)
