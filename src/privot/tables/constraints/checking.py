"""Refuses constraints that no table could keep, in one sentence each; it sees columns of a schema and no record."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np

from privot.errors import DataError, UsageError, brief
from privot.tables.cell_values import numbers_of, parse
from privot.tables.columns import Column
from privot.tables.constraints.differences import check_differences
from privot.tables.constraints.stated import (
    SOURCES,
    Constant,
    Constraint,
    Difference,
    EmptyUnless,
    Function,
    Key,
    Order,
    Word,
)


def check_constraints(constraints: Sequence[Constraint], columns: Sequence[Column]) -> None:
    """Refuse constraints on unknown columns, in circles, or that contradict each other or the columns."""
    known = {column.name: column for column in columns}
    _check_generated(constraints, known)
    for constraint in constraints:
        for name in named_columns(constraint):
            if name not in known:
                raise UsageError(f"A constraint names column {brief(name)}, which the schema lacks.")
        if isinstance(constraint, EmptyUnless):
            _check_empty(constraint, known)
        elif isinstance(constraint, Function):
            _check_function(constraint, known)
        elif isinstance(constraint, Order):
            _check_kinds(constraint, known)
    _check_functions(constraints)
    check_differences(constraints, known)
    narrowed(constraints, known)


def value_number(column: Column, value: Word) -> float:
    """The number (or the place of the category) of a stated value; NaN for null. UsageError where it is none."""
    if value is None:
        return float("nan")
    try:
        if column.is_number:
            found = float(numbers_of(column, np.array([value], dtype=object), frozenset())[0])
            if not column.range[0] <= found <= column.range[1]:
                raise DataError("outside the range")
        else:
            listed = replace(column, categories=column.words, unknown="refuse")
            found = float(parse(listed, np.array([value], dtype=object), frozenset())[0])
    except DataError:
        raise UsageError(
            f"A constraint gives column {brief(column.name)} the value {brief(value)}, which it cannot have."
        ) from None
    return found


def ordered_pairs(constraints: Sequence[Constraint]) -> set[tuple[str, str]]:
    """All (a, b) with a ≤ b that the constraints imply: a ≤ b and b ≤ c give a ≤ c."""
    out = {pair for c in constraints if isinstance(c, Order) for pair in pairwise(c.columns)}
    while True:
        more = {(a, d) for a, b in out for c, d in out if b == c} - out
        if not more:
            return out
        out |= more


def narrowed(constraints: Sequence[Constraint], known: dict[str, Column]) -> dict[str, tuple[float, float]]:
    """The range that the order of columns leaves each of them: a ≤ b means that a is at most b's highest value."""
    pairs = ordered_pairs(constraints)
    for a, b in pairs:
        if a == b:
            raise UsageError(f"The order of columns goes in a circle through {brief(a)}: state each order once.")
    names = {name for pair in pairs for name in pair}
    out = {name: known[name].range for name in names}
    for a, b in pairs:
        out[a] = (out[a][0], min(out[a][1], known[b].range[1]))
        out[b] = (max(out[b][0], known[a].range[0]), out[b][1])
    for a, b in sorted(pairs):
        if known[a].range[0] > known[b].range[1]:
            raise UsageError(
                f"Column {brief(a)} is never at most column {brief(b)}: their ranges contradict the stated order."
            )
    return out


def named_columns(constraint: Constraint) -> tuple[str, ...]:
    """The columns of the private table that a constraint names."""
    if isinstance(constraint, Order):
        return constraint.columns
    if isinstance(constraint, EmptyUnless):
        return (constraint.column, constraint.when)
    if isinstance(constraint, Difference):
        return (constraint.column, constraint.minus)
    return (constraint.column, constraint.of) if isinstance(constraint, Function) else ()


def _check_generated(constraints: Sequence[Constraint], known: dict[str, Column]) -> None:
    made = [c for c in constraints if isinstance(c, Constant | Key)]
    names = [c.column for c in made]
    for name in names:
        if not name.strip() or names.count(name) > 1:
            raise UsageError(f"Two constraints make column {brief(name)}, or it has no name: state it once.")
        if name in known:
            raise UsageError(
                f"Column {brief(name)} is generated and not learned: remove it from the columns of the schema."
            )
    for c in made:
        if isinstance(c, Key) and c.source not in SOURCES:
            raise UsageError(f"A key comes from {' or '.join(SOURCES)}, got {brief(c.source)}.")


def _check_empty(c: EmptyUnless, known: dict[str, Column]) -> None:
    if not known[c.column].missing:
        raise UsageError(f"Column {brief(c.column)} is stated to be empty at times: set missing = true for it.")
    if known[c.when].is_number or c.when == c.column:
        raise UsageError(f"Column {brief(c.when)} decides whether another is empty: it needs categories.")
    for value in c.values:
        value_number(known[c.when], value)


def _check_function(c: Function, known: dict[str, Column]) -> None:
    source, target = known[c.of], known[c.column]
    if source.is_number or c.of == c.column:
        raise UsageError(f"Column {brief(c.of)} decides the value of another: it needs categories.")
    words, given = [str(word) for word in source.words], [word for word, _ in c.pairs]
    if sorted(words) != sorted(given):
        odd = sorted(set(words) ^ set(given))
        raise UsageError(
            f"The map from column {brief(c.of)} must name each of its categories once; {brief(odd[0] if odd else '')} "
            "is too many or lacking."
        )
    if (source.missing or any(value is None for _, value in c.pairs)) and not target.missing:
        raise UsageError(f"Column {brief(c.column)} is empty where {brief(c.of)} says so: set missing = true for it.")
    for _, value in c.pairs:
        value_number(target, value)


def _check_kinds(c: Order, known: dict[str, Column]) -> None:
    if len(c.columns) < 2:
        raise UsageError("An order needs at least two columns.")
    kinds = {"number" if known[n].type != "date" else ("day", "moment")[not known[n].daily] for n in c.columns}
    if not all(known[n].is_number for n in c.columns) or len(kinds) > 1:
        raise UsageError(
            f"The order of {brief(list(c.columns))} compares columns that are not all numbers, or not all dates of "
            "one kind."
        )


def _check_functions(constraints: Sequence[Constraint]) -> None:
    """A column that follows from another follows from that one alone, and not in a circle."""
    functions = [c for c in constraints if isinstance(c, Function)]
    decided = [c.column for c in functions]
    other = {n for c in constraints if isinstance(c, Order) for n in c.columns}
    other |= {c.column for c in constraints if isinstance(c, EmptyUnless)}
    for name in decided:
        if decided.count(name) > 1 or name in other:
            raise UsageError(
                f"Column {brief(name)} follows from another column, so that no other constraint may decide its value."
            )
    source = {c.column: c.of for c in functions}
    for name in source:
        seen, at = {name}, source[name]
        while at in source:
            if at in seen:
                raise UsageError(f"Column {brief(name)} follows from itself: the functions go in a circle.")
            seen.add(at)
            at = source[at]
