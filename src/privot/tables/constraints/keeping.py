"""Keeps the stated constraints in synthetic rows: what a value may be beside others, and exact last corrections.

Rows here are numbers by column: the number (days or seconds of a date), or the place of a category; NaN where a value
is missing. All of it is post-processing of what was released, by public statements; no record is seen.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from privot.tables.columns import Column
from privot.tables.constraints.checking import narrowed, ordered_pairs, value_number
from privot.tables.constraints.stated import Constant, Constraint, EmptyUnless, Function, Key
from privot.tables.table import Table

Floats = NDArray[np.float64]
Numbers = Mapping[str, Floats]
_PASSES = 8
_DIGITS = 16


class Constrained(Protocol):
    """What is asked of a schema here."""

    @property
    def columns(self) -> Sequence[Column]:
        """The columns that are learned."""
        ...

    @property
    def constraints(self) -> Sequence[Constraint]:
        """How columns belong together."""
        ...

    @property
    def output_names(self) -> Sequence[str]:
        """The names of all columns in the order in which they are written."""
        ...


@dataclass
class Support:
    """What the values of one column may be, row by row.

    `low` and `high` bound a number; `words` of shape (rows, categories) marks the categories; `present` and `missing`
    say whether the value may be there, and whether it may be missing.
    """

    low: Floats
    high: Floats
    words: NDArray[np.bool_]
    present: NDArray[np.bool_]
    missing: NDArray[np.bool_]

    @classmethod
    def free(cls, column: Column, rows: int) -> Support:
        """Whatever the schema allows."""
        low, high = column.range if column.is_number else (0.0, 0.0)
        return cls(
            np.full(rows, low),
            np.full(rows, high),
            np.ones((rows, len(column.words)), dtype=bool),
            np.ones(rows, dtype=bool),
            np.full(rows, column.missing),
        )

    def at(self, rows: NDArray[Any]) -> Support:
        """The same for some of the rows."""
        return Support(self.low[rows], self.high[rows], self.words[rows], self.present[rows], self.missing[rows])

    def within(self, other: Support) -> Support:
        """What both allow."""
        low, high = np.maximum(self.low, other.low), np.minimum(self.high, other.high)
        both = self.words & other.words, self.present & other.present, self.missing & other.missing
        return Support(low, high, *both)

    def allows(self, column: Column, numbers: Floats) -> NDArray[np.bool_]:
        """Which of the numbers, one per row, are allowed."""
        gone = np.isnan(numbers)
        if column.is_number:
            inside = (numbers >= self.low) & (numbers <= self.high)
        else:
            place = np.where(gone, 0, numbers).astype(np.int64)
            inside = self.words[np.arange(len(numbers)), place]
        out: NDArray[np.bool_] = np.where(gone, self.missing, self.present & inside)
        return out


class Rules:
    """The constraints of a schema, ready to be asked what a column may be beside others that are drawn already."""

    def __init__(self, schema: Constrained) -> None:
        self.columns = {column.name: column for column in schema.columns}
        constraints = schema.constraints
        self.pairs = ordered_pairs(constraints)
        self.ranges = narrowed(constraints, self.columns)
        self.empties = [c for c in constraints if isinstance(c, EmptyUnless)]
        self.functions = [c for c in constraints if isinstance(c, Function)]
        self.named = {name for pair in self.pairs for name in pair}
        self.named |= {name for c in self.empties for name in (c.column, c.when)}
        self.named |= {name for c in self.functions for name in (c.column, c.of)}

    def support(self, name: str, drawn: Numbers, rows: int) -> Support | None:
        """What column `name` may be beside the numbers in `drawn`; None where it may be anything."""
        if name not in self.named:
            return None
        out = Support.free(self.columns[name], rows)
        if name in self.ranges:
            out.low[:], out.high[:] = self.ranges[name]
        for a, b in self.pairs:
            # beside a missing value any is in order
            if b == name and a in drawn:
                out.low = np.fmax(out.low, drawn[a])
            if a == name and b in drawn:
                out.high = np.fmin(out.high, drawn[b])
        for empty in self.empties:
            self._empty_unless(empty, name, drawn, out)
        for function in self.functions:
            self._function(function, name, drawn, out)
        return out

    def _empty_unless(self, c: EmptyUnless, name: str, drawn: Numbers, out: Support) -> None:
        places = self.places(c)
        if name == c.column and c.when in drawn:
            out.present &= np.isin(drawn[c.when], places)
        if name == c.when and c.column in drawn:
            there = ~np.isnan(drawn[c.column])
            wanted = np.isin(np.arange(out.words.shape[1]), places)
            out.words &= wanted | ~there[:, None]
            out.missing &= ~there

    def _function(self, c: Function, name: str, drawn: Numbers, out: Support) -> None:
        column, values = self.columns[c.column], self.values(c)
        if name == c.column:
            if c.of in drawn:
                self._exactly(column, _looked_up(values, drawn[c.of]), out)
            elif column.is_number:
                # within what the function can give; which of them is decided by the column it follows from
                out.low = np.maximum(out.low, np.nanmin(values, initial=np.inf))
                out.high = np.minimum(out.high, np.nanmax(values, initial=-np.inf))
                out.missing &= bool(np.isnan(values[:-1]).any() or self.columns[c.of].missing)
            else:
                out.words &= np.isin(np.arange(out.words.shape[1]), values)
                out.missing &= bool(np.isnan(values[:-1]).any() or self.columns[c.of].missing)
        if name == c.of and c.column in drawn:
            beside = drawn[c.column][:, None]
            same = (values[None, :-1] == beside) | (np.isnan(values[None, :-1]) & np.isnan(beside))
            if column.is_number:
                # a number that was drawn first is moved to the nearest that the function gives, see `settle`
                apart = np.abs(np.where(np.isnan(values[None, :-1]), np.inf, values[None, :-1]) - beside)
                same |= ~np.isnan(beside) & (apart == apart.min(axis=1, keepdims=True))
            out.words &= same
            out.missing &= np.isnan(drawn[c.column])

    def _exactly(self, column: Column, numbers: Floats, out: Support) -> None:
        gone = np.isnan(numbers)
        out.present &= ~gone
        out.missing &= gone
        if column.is_number:
            out.low, out.high = (np.where(gone, end, numbers) for end in (out.low, out.high))
        else:
            out.words &= np.arange(out.words.shape[1]) == np.where(gone, -1, numbers)[:, None]

    def places(self, c: EmptyUnless) -> Floats:
        """The places of the categories with which a column may be present."""
        return np.array([value_number(self.columns[c.when], value) for value in c.values])

    def values(self, c: Function) -> Floats:
        """What the function gives for each category of its source, and last for a missing one."""
        given = dict(c.pairs)
        found = [value_number(self.columns[c.column], given[str(word)]) for word in self.columns[c.of].words]
        return np.array([*found, np.nan])


def settle(schema: Constrained, numbers: dict[str, Floats]) -> dict[str, Floats]:
    """The same rows with every constraint kept exactly: what rounding to a column's decimals undid is put right.

    Functions are applied, values that must be empty are emptied, and of two columns out of order the later one is
    raised to the next number that it can have, or the earlier one lowered.
    """
    if not schema.constraints:
        return numbers
    rules, out = Rules(schema), dict(numbers)
    left = list(rules.functions)
    while left:
        # a column that another one follows from comes first
        ready = [c for c in left if c.of not in {d.column for d in left}]
        for c in ready:
            out[c.column] = _looked_up(rules.values(c), out[c.of])
        left = [c for c in left if c not in ready]
    for empty in rules.empties:
        out[empty.column] = np.where(np.isin(out[empty.when], rules.places(empty)), out[empty.column], np.nan)
    for _ in range(_PASSES):
        wrong = False
        for a, b in sorted(rules.pairs):
            bad = out[a] > out[b]
            if bad.any():
                wrong = True
                _put_in_order(rules, out, a, b, bad)
        if not wrong:
            break
    return out


def _put_in_order(rules: Rules, out: dict[str, Floats], a: str, b: str, bad: NDArray[np.bool_]) -> None:
    raised = _rounded(rules.columns[b], out[a], up=True)
    fits = raised <= rules.columns[b].range[1]
    out[b] = np.where(bad & fits, raised, out[b])
    lowered = _rounded(rules.columns[a], out[b], up=False)
    out[a] = np.where(bad & ~fits, np.maximum(lowered, rules.columns[a].range[0]), out[a])


def _rounded(column: Column, numbers: Floats, up: bool) -> Floats:
    """The nearest number above (or below) that the column can have."""
    away = np.ceil if up else np.floor
    if column.is_whole:
        return np.asarray(away(numbers))
    if column.decimals is None:
        return numbers
    unit = 10.0**column.decimals
    near = np.round(numbers, column.decimals)
    wrong = near < numbers if up else near > numbers
    return np.where(wrong, np.round((away(numbers * unit)) / unit, column.decimals), near)


def _looked_up(values: Floats, places: Floats) -> Floats:
    out: Floats = values[np.where(np.isnan(places), len(values) - 1, places).astype(np.int64)]
    return out


def with_generated(table: Table, schema: Constrained, rng: np.random.Generator) -> Table:
    """The table with the columns that are made and not learned: keys first, constants last."""
    made: dict[str, Any] = {}
    for c in schema.constraints:
        if isinstance(c, Key):
            made[c.column] = _keys(c, table.rows, rng)
        elif isinstance(c, Constant):
            made[c.column] = [c.value] * table.rows
    if not made:
        return table
    return Table({name: made[name] if name in made else table[name] for name in schema.output_names})


def _keys(c: Key, rows: int, rng: np.random.Generator) -> list[Any]:
    """As many different keys; random ones have 16 hexadecimal digits, and two alike are drawn again."""
    if c.source == "counter":
        return [f"{c.prefix}{place}" for place in range(1, rows + 1)] if c.prefix else list(range(1, rows + 1))
    found: dict[str, None] = {}
    while len(found) < rows:
        bits = rng.integers(0, 2**64, size=rows - len(found), dtype=np.uint64)
        found |= dict.fromkeys(f"{c.prefix}{int(b):0{_DIGITS}x}" for b in bits)
    return list(found)
