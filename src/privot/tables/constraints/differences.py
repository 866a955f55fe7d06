"""Columns that are learned as their difference from another column: a stay in days in place of the day of discharge.

Of b = a + d the vault's rows hold d, and so do all counts. Row by row: what one record becomes depends on no other.

    d = min(max((b − a)/u, low), high)        missing where a or b is
    b = a + u·d                               rounded as b is written, within b's range

with u the seconds of the unit for moments, else 1. Where b would leave its range, it is cut there, and a moves so far
that low ≤ d ≤ high still holds: of rows that keep their schema none is changed.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privot.errors import UsageError, brief
from privot.tables.cell_values import rounded
from privot.tables.columns import Column
from privot.tables.constraints.stated import Constraint, Difference, Function, Order

SECONDS = {"seconds": 1, "minutes": 60, "hours": 3600, "days": 86400}
"""The units in which the difference of two moments may be counted; that of two days is counted in days."""
SCALES = ("auto", "linear", "log")

Floats = NDArray[np.float64]


def differences_of(constraints: Sequence[Constraint]) -> list[Difference]:
    """The differences among the constraints, those first whose `minus` is no difference itself or stands before."""
    left = [c for c in constraints if isinstance(c, Difference)]
    out: list[Difference] = []
    while left:
        waiting = {c.column for c in left}
        ready = [c for c in left if c.minus not in waiting]
        if not ready:
            raise UsageError(f"The differences go in a circle through {brief(left[0].column)}: state each once.")
        out += ready
        left = [c for c in left if c not in ready]
    return out


def learned_column(c: Difference, known: Mapping[str, Column]) -> Column:
    """The column of differences, of which the counts are made."""
    column, minus = known[c.column], known[c.minus]
    high = (column.range[1] - minus.range[0]) / _seconds(c, column) if c.high is None else c.high
    if column.decimals is not None:
        high = round(high, column.decimals)
    whole = column.is_whole and _seconds(c, column) == 1
    decimals = column.decimals if column.type == "continuous" else None
    kind: Any = "integer" if whole else "continuous"
    scale: Any = c.scale
    return Column(c.name, kind, c.low, high, missing=column.missing, scale=scale, decimals=decimals)


def check_differences(constraints: Sequence[Constraint], known: Mapping[str, Column]) -> None:
    """Refuse differences of columns that have none, or that no row could keep."""
    found = [c for c in constraints if isinstance(c, Difference)]
    ruled = {n for c in constraints if isinstance(c, Order) for n in c.columns}
    ruled |= {n for c in constraints if isinstance(c, Function) for n in (c.column, c.of)}
    for c in found:
        _check_columns(c, known)
        if [d.column for d in found].count(c.column) > 1:
            raise UsageError(f"Column {brief(c.column)} is the difference from two columns: state one of them.")
        for name in (c.column, c.minus):
            if name in ruled:
                raise UsageError(
                    f"Column {brief(name)} is part of a difference, so that no order or function may name it: "
                    "state an order as a difference too."
                )
        if c.name in known:
            raise UsageError(f"The difference {brief(c.name)} is called like a column of the schema: rename that.")
        learned_column(c, known)
    ordered = differences_of(constraints)
    if ordered:
        ends = {c.name: np.zeros(1) for c in ordered}
        low, high = _windows(ordered, known, ends)
        for name in low:
            if low[name][0] > high[name][0]:
                raise UsageError(f"No value of column {brief(name)} fits the stated differences: widen a range.")


def difference(c: Difference, known: Mapping[str, Column], column: Floats, minus: Floats) -> Floats:
    """b − a in the difference's unit, as it stands, also outside its range; NaN where one is missing."""
    return np.asarray((column - minus) / _seconds(c, known[c.column]))


def restored(ordered: Sequence[Difference], known: Mapping[str, Column], numbers: dict[str, Floats]) -> None:
    """Add to `numbers`, which has the differences, the columns that they stand for; and state them as written there."""
    low, high = _windows(ordered, known, numbers)
    later = {c.column for c in ordered}
    for name in {c.minus for c in ordered} - later:
        numbers[name] = np.clip(numbers[name], low[name], high[name])
    for c in ordered:
        column, unit, a = known[c.column], _seconds(c, known[c.column]), numbers[c.minus]
        span = learned_column(c, known).range
        b = a + numbers[c.name] * unit
        if column.is_whole or column.decimals is not None:
            b = np.round(b, 0 if column.is_whole else column.decimals or 0)
        least, most = (a + end * unit for end in span)
        b = np.clip(b, np.maximum(low[c.column], least), np.minimum(high[c.column], most))
        numbers[c.column], numbers[c.name] = b, rounded(learned_column(c, known), difference(c, known, b, a))


def as_differences(constraints: Sequence[Constraint], columns: Sequence[Column]) -> tuple[Constraint, ...]:
    """The constraints with every order of columns stated as differences, where these say as much.

    They do not where a column is at least two others, where a function names one, or where a later column has fewer
    decimals; columns that such an order joins stay as they are stated.

    >>> days = [Column(name, "date", "2024-01-01", "2024-12-31") for name in ("admitted", "discharged")]
    >>> as_differences([Order(("admitted", "discharged"))], days)
    (Difference(column='discharged', minus='admitted', low=0, high=None, unit=None, scale='auto'),)
    """
    known = {column.name: column for column in columns}
    out: list[Constraint] = [c for c in constraints if not isinstance(c, Order)]
    stated = {(c.minus, c.column) for c in out if isinstance(c, Difference)}
    for group in _joined([c for c in constraints if isinstance(c, Order)]):
        pairs = [pair for c in group for pair in pairwise(c.columns)]
        made = [Difference(b, a) for a, b in dict.fromkeys(pairs) if (a, b) not in stated]
        try:
            if {*known} >= {name for pair in pairs for name in pair}:
                check_differences([*out, *made], known)
                out += made
                continue
        except UsageError:
            pass
        out += group
    return tuple(out)


def _joined(orders: Sequence[Order]) -> list[list[Order]]:
    """The orders in groups that share no column."""
    groups: list[list[Order]] = []
    for order in orders:
        near = [group for group in groups if any({*c.columns} & {*order.columns} for c in group)]
        groups = [*(group for group in groups if group not in near), [*(c for group in near for c in group), order]]
    return groups


def _check_columns(c: Difference, known: Mapping[str, Column]) -> None:
    column, minus = known[c.column], known[c.minus]
    kinds = {_kind(column), _kind(minus)}
    if len(kinds) > 1 or "categories" in kinds or c.column == c.minus:
        raise UsageError(
            f"The difference {brief(c.name)} needs two columns of numbers, of days, or of moments: got "
            f"{column.type} and {minus.type}."
        )
    units = {"moment": tuple(SECONDS), "day": ("days",)}.get(_kind(column), ())
    if c.unit is not None and c.unit not in units:
        said = f"say {', '.join(units)}" if units else "leave it out: numbers have none"
        raise UsageError(f"The difference {brief(c.name)} has the unknown unit {brief(c.unit)}: {said}.")
    if c.scale not in SCALES:
        raise UsageError(f"The difference {brief(c.name)} has the unknown scale {brief(c.scale)}: {', '.join(SCALES)}.")
    if minus.missing and not column.missing:
        raise UsageError(
            f"Column {brief(c.column)} is missing where {brief(c.minus)} is: set missing = true for it too."
        )
    if _decimals(column) < _decimals(minus):
        raise UsageError(
            f"Column {brief(c.column)} has fewer decimals than {brief(c.minus)}, which it is counted from: give it as "
            "many."
        )
    if column.decimals is not None and any(round(end, column.decimals) != end for end in (c.low, c.high or 0)):
        raise UsageError(
            f"The difference {brief(c.name)} has an end with more decimals than {brief(c.column)}: shorten it."
        )


def _kind(column: Column) -> str:
    if not column.is_number:
        return "categories"
    return "number" if column.type != "date" else ("day" if column.daily else "moment")


def _decimals(column: Column) -> float:
    """How many decimals a column's numbers have; without end where none are declared."""
    return 0 if column.is_whole else math.inf if column.decimals is None else column.decimals


def _seconds(c: Difference, column: Column) -> int:
    return SECONDS[c.unit or "seconds"] if _kind(column) == "moment" else 1


def _windows(
    ordered: Sequence[Difference], known: Mapping[str, Column], numbers: Mapping[str, Floats]
) -> tuple[dict[str, Floats], dict[str, Floats]]:
    """Between which values each column must lie, row by row, for all that are counted from it to be in their range."""
    rows = len(numbers[ordered[0].name])
    names = {name for c in ordered for name in (c.column, c.minus)}
    low, high = ({name: np.full(rows, known[name].range[end]) for name in names} for end in (0, 1))
    for c in reversed(ordered):
        there, unit = ~np.isnan(numbers[c.name]), _seconds(c, known[c.column])
        least, most = (end * unit for end in learned_column(c, known).range)
        low[c.minus] = np.where(there, np.maximum(low[c.minus], low[c.column] - most), low[c.minus])
        high[c.minus] = np.where(there, np.minimum(high[c.minus], high[c.column] - least), high[c.minus])
    return low, high
