"""A table's columns as coordinates within public bounds, and back; it knows the schema and keeps no record.

Two layouts of one row, both functions of that row and the schema alone:

  * compact (`encode(table, compact=True)`), one coordinate per column: a number scaled to [0, 1], or −1 where it is
    missing; a category's place, missing last. Eight bytes per value, so a million rows fit anywhere.
  * wide (`encode(table)`), for networks: numbers scaled to [0, 1] (where they may be missing ½ and two indicators,
    present and missing), categories one-hot. `segments` says which coordinates are what.

`widen` turns the first into the second. The label is left out of both and comes as int64.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from privot.common.declared import declared
from privot.errors import DataError, UsageError, brief
from privot.tables.cell_values import checked, parse, rounded, unparse
from privot.tables.columns import Column
from privot.tables.constraints.differences import difference, differences_of, restored
from privot.tables.constraints.keeping import settle
from privot.tables.schema import Schema
from privot.tables.table import Table

Segment = tuple[int, int, Literal["interval", "categorical"]]
KIND = "table"
MAX_VALUES = 128
"""A column of at most this many whole numbers gets a cell for each."""
CELLS = 64
"""How many cells other numbers are cut into, evenly in the scaled coordinate."""


class TableCodec:
    """Encodes and decodes the tables of one `schema`.

    Without `fine_ends` whole numbers on a linear scale are cut evenly, as in jobs of before (`edges_of`).
    """

    @declared(schema="privot.tables.schema:Schema")
    def __init__(self, schema: Schema, fine_ends: bool = True) -> None:
        self.schema = schema
        self.fine_ends = fine_ends and any(has_fine_ends(column) for column in schema.learned.features)
        self.features = schema.learned.features
        self._differences = differences_of(schema.constraints)
        self._known = {column.name: column for column in schema.columns}
        self.marks = frozenset(schema.marks)

    # --- shape

    @property
    def classes(self) -> int | None:
        """How many labels there are; None without a label column."""
        values = self.schema.classes
        return None if values is None else len(values)

    @property
    def widths(self) -> tuple[int, ...]:
        """How many coordinates each column has in the wide layout."""
        return tuple((3 if c.missing else 1) if c.is_number else len(c.words) + c.missing for c in self.features)

    @property
    def dim(self) -> int:
        """How many coordinates a wide row has."""
        return sum(self.widths)

    @property
    def segments(self) -> list[Segment]:
        """(start, stop, kind) of the coordinates that belong together in a wide row, in order."""
        out: list[Segment] = []
        start = 0
        for column, width in zip(self.features, self.widths, strict=True):
            if column.is_number:
                out.append((start, start + 1, "interval"))
                if column.missing:
                    out.append((start + 1, start + 3, "categorical"))
            else:
                out.append((start, start + width, "categorical"))
            start += width
        return out

    def bound(self, compact: bool = False) -> float:
        """The largest norm a row can have."""
        if not compact:
            # an interval is at most 1, or ½ where it is missing; a one-hot part is 1
            return float(np.sqrt(len(self.segments)))
        tops = [1.0 if c.is_number else len(c.words) + c.missing - 1 for c in self.features]
        return float(np.sqrt(sum(top * top for top in tops)) or 1.0)

    # --- encoding

    def encode(self, table: Table, compact: bool = False) -> tuple[NDArray[np.float64], NDArray[np.int64] | None]:
        """Rows of shape (records, dim), or (records, columns) if `compact`, and labels where there are any."""
        self.check_names(table)
        rows = np.empty((table.rows, len(self.features)))
        for place, column in enumerate(self.features):
            numbers = self.read(column, lambda written: parse(written, table[written.name], self.marks))
            rows[:, place] = self.coordinates(column, numbers)
        return (rows if compact else self.widen(rows)), self._labels(table)

    def read(
        self, column: Column, of: Callable[[Column], NDArray[np.float64]], within: bool = True
    ) -> NDArray[np.float64]:
        """The numbers of a column as it is learned, from those `of` the columns as they are written.

        A difference is cut to its range, unless it need not be `within` it.
        """
        found = next((c for c in self._differences if c.name == column.name), None)
        if found is None:
            return of(column)
        numbers = difference(found, self._known, of(self._known[found.column]), of(self._known[found.minus]))
        return checked(column, numbers) if within else numbers

    def widen(self, rows: NDArray[np.float64]) -> NDArray[np.float64]:
        """Wide rows from compact ones."""
        out = np.zeros((len(rows), self.dim))
        start = 0
        for place, (column, width) in enumerate(zip(self.features, self.widths, strict=True)):
            value = rows[:, place]
            if column.is_number:
                gone = value < 0.0
                out[:, start] = np.where(gone, 0.5, value) if column.missing else value
                if column.missing:
                    out[:, start + 1], out[:, start + 2] = ~gone, gone
            else:
                out[np.arange(len(rows)), start + np.rint(value).astype(np.int64)] = 1.0
            start += width
        return out

    def narrow(self, rows: NDArray[np.float64]) -> NDArray[np.float64]:
        """Compact rows from wide ones, also from a generator's, whose indicators are not exactly 0 and 1."""
        out = np.empty((len(rows), len(self.features)))
        start = 0
        for place, (column, width) in enumerate(zip(self.features, self.widths, strict=True)):
            if column.is_number:
                out[:, place] = np.clip(rows[:, start], 0.0, 1.0)
                if column.missing:
                    out[rows[:, start + 2] > rows[:, start + 1], place] = -1.0
            else:
                out[:, place] = np.argmax(rows[:, start : start + width], axis=1)
            start += width
        return out

    def decode(
        self, rows: NDArray[np.float64], labels: NDArray[np.int64] | None = None, compact: bool = False
    ) -> Table:
        """A table with the schema's columns and types, in its order."""
        if (labels is None) != (self.classes is None):
            raise UsageError("Labels must be given exactly where the schema has a label column.")
        expected = len(self.features) if compact else self.dim
        if rows.ndim != 2 or rows.shape[1] != expected:
            raise UsageError(f"Expected rows of shape (records, {expected}), got {rows.shape}.")
        small = rows if compact else self.narrow(rows)
        numbers = self.numbers(small, labels)
        return Table({c.name: unparse(c, numbers[c.name]) for c in self.schema.columns})

    def numbers(self, rows: NDArray[np.float64], labels: NDArray[np.int64] | None) -> dict[str, NDArray[np.float64]]:
        """By column, what `decode` writes for compact rows: numbers, or places of categories; NaN where missing.

        The schema's constraints hold in it exactly. Differences are there by their own names too.
        """
        out = {c.name: self.column_numbers(c, rows[:, i]) for i, c in enumerate(self.features)}
        if labels is not None and self.schema.label is not None:
            out[self.schema.label] = self.column_numbers(self.schema[self.schema.label], labels.astype(np.float64))
        out = settle(self.schema.learned, out)
        if self._differences:
            restored(self._differences, self._known, out)
        return out

    def check_names(self, names: Iterable[str]) -> None:
        """Refuse a table whose columns have other `names` than the schema's."""
        found = list(names)
        lacking = [name for name in self.schema.names if name not in found]
        if lacking:
            raise DataError(
                f"The table lacks column {brief(lacking[0])}, which the schema has: add it, or remove it "
                "from the schema."
            )
        known = {*self.schema.names, *self.schema.generated, *self.schema.dropped}
        odd = [name for name in found if name not in known]
        if odd:
            raise DataError(
                f"The table has column {brief(odd[0])}, which the schema lacks: describe it or drop it there "
                '("drop": true).'
            )

    def _labels(self, table: Table) -> NDArray[np.int64] | None:
        if self.schema.label is None:
            return None
        column = self.schema[self.schema.label]
        return np.rint(self.coordinates(column, parse(column, table[column.name], self.marks))).astype(np.int64)

    def coordinates(self, column: Column, numbers: NDArray[np.float64]) -> NDArray[np.float64]:
        """The compact coordinate of what `parse` made of a column."""
        gone = np.isnan(numbers)
        if not column.is_number:
            return np.where(gone, float(len(column.words)), numbers)
        return np.where(gone, -1.0, scaled(column, np.where(gone, column.range[0], numbers)))

    def column_numbers(self, column: Column, coordinates: NDArray[np.float64]) -> NDArray[np.float64]:
        """What a column's compact coordinates stand for, as it is written; NaN where a value is missing."""
        if not column.is_number:
            return np.where(coordinates > len(column.words) - 0.5, np.nan, coordinates)
        return np.where(coordinates < 0.0, np.nan, rounded(column, unscaled(column, coordinates)))

    # --- files

    def to_dict(self) -> dict[str, Any]:
        """The codec as plain JSON types."""
        return {"kind": KIND, "schema": self.schema.to_dict()}

    @classmethod
    def from_dict(cls, raw: Mapping[str, Any]) -> TableCodec:
        """Read what `to_dict` wrote."""
        if not isinstance(raw, Mapping) or raw.get("kind") != KIND or "schema" not in raw:
            raise DataError("This is not the codec of a table.")
        return cls(Schema.from_dict(raw["schema"]))


def scaled(column: Column, numbers: NDArray[np.float64]) -> NDArray[np.float64]:
    """Numbers on [0, 1]: (v − low)/(high − low), or ln(1 + v − low)/ln(1 + high − low) on a log scale.

    On the scale of k quantiles, those are at 1/(k + 1), 2/(k + 1) …, with straight lines between them.
    """
    low, high = column.range
    if high == low:
        return np.zeros(len(numbers))
    if column.scale == "quantile":
        return np.clip(_straight(np.asarray(numbers), *_knots(column)), 0.0, 1.0)
    out = np.log1p(numbers - low) / np.log1p(high - low) if column.scale == "log" else (numbers - low) / (high - low)
    return np.clip(out, 0.0, 1.0)


def unscaled(column: Column, coordinates: NDArray[np.float64]) -> NDArray[np.float64]:
    """The inverse of `scaled`; whole where the column's numbers are."""
    low, high = column.range
    numbers = values_at(column, np.clip(coordinates, 0.0, 1.0))
    out: NDArray[np.float64] = np.clip(np.rint(numbers) if column.is_whole else numbers, low, high)
    return out


def has_fine_ends(column: Column) -> bool:
    """Whether the even cells of a column are wider than a value, and are cut further at both ends (`edges_of`)."""
    return column.is_whole and column.scale == "linear" and column.range[1] - column.range[0] >= MAX_VALUES


def edges_of(column: Column, fine_ends: bool = True) -> NDArray[np.float64]:
    """Where a column of numbers is cut into fixed fine cells, in the scaled coordinate.

    Few whole numbers get a cell each. Others are cut evenly in the scaled coordinate, whole numbers halfway between two
    of them. On a scale of logarithms or quantiles the lowest value, often a spike (no gain, no debt), has its own cell.
    Whole numbers on a linear scale have, at both ends, cells of 1, 2, 4 … values up to the even width, as counts crowd
    there: most are 0, and few are large.
    """
    low, high = column.range
    if column.is_whole and high - low + 1 <= MAX_VALUES:
        cuts = np.arange(low, high) + 0.5
    else:
        cuts = values_at(column, np.arange(1, CELLS) / CELLS)
        if column.is_whole:
            cuts = np.floor(cuts) + 0.5
            if fine_ends and has_fine_ends(column):
                away = 2.0 ** np.arange(np.ceil(np.log2((high - low) / CELLS))) - 0.5
                cuts = np.concatenate([low + away, cuts, high - away])
        elif column.scale in ("log", "quantile"):
            cuts = np.concatenate([[low + 1e-9 * (high - low)], cuts])
    cuts = np.unique(cuts[(cuts > low) & (cuts < high)])
    edges: NDArray[np.float64] = np.unique(scaled(column, cuts))
    return edges


def values_at(column: Column, at: NDArray[np.float64]) -> NDArray[np.float64]:
    """The inverse of `scaled`, not rounded, for coordinates from 0 to 1."""
    low, high = column.range
    if column.scale == "quantile":
        values, shares = _knots(column)
        return _straight(at, shares, values)
    out: NDArray[np.float64] = low + (
        np.expm1(at * np.log1p(high - low)) if column.scale == "log" else at * (high - low)
    )
    return out


def _knots(column: Column) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    low, high = column.range
    values = np.array([low, *column.quantiles, high])
    return values, np.linspace(0.0, 1.0, len(values))


def _straight(x: NDArray[np.float64], knots: NDArray[np.float64], heights: NDArray[np.float64]) -> NDArray[np.float64]:
    """Straight lines between knots, value by value: the same to the last bit, however many values there are."""
    x = np.clip(x, knots[0], knots[-1])
    place = np.clip(np.searchsorted(knots, x, side="right") - 1, 0, len(knots) - 2)
    # a share of the gap: a slope could overflow where two knots nearly meet
    share = (x - knots[place]) / np.diff(knots)[place]
    out: NDArray[np.float64] = heights[place] + share * np.diff(heights)[place]
    return out
