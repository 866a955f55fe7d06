"""Conditions on the columns of synthetic rows, such as sex=F or age>=65; they are public, and see no record."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privot.errors import DataError, UsageError, brief
from privot.tables.cell_values import parse
from privot.tables.columns import Column
from privot.tables.constraints.keeping import Support
from privot.tables.schema import Schema

Where = str | Sequence[str] | Mapping[str, Any]
OPERATORS = ("<=", ">=", "!=", "=", "<", ">")
_TEXT = re.compile(r"\s*(<=|>=|!=|==|=|<|>)\s*(.*)", re.DOTALL)


@dataclass(frozen=True)
class Condition:
    """`column` compared by `operator` with a number, or with the place of a category; NaN stands for an empty value.

    >>> age = Column("age", "integer", 0, 120)
    >>> Condition(age, ">=", 65.0).holds(np.array([30.0, 65.0, np.nan]))
    array([False,  True, False])
    """

    column: Column
    operator: str
    value: float

    def __str__(self) -> str:
        shown: Any = "" if np.isnan(self.value) else f"{self.value:g}"
        if not np.isnan(self.value) and not self.column.is_number:
            shown = self.column.words[int(self.value)]
        elif not np.isnan(self.value) and self.column.type == "date":
            shown = self.column.to_date(self.value).strftime(self.column.format)
        return f"{self.column.name}{self.operator}{shown}"

    @property
    def _tolerance(self) -> float:
        free = self.column.type == "continuous" and self.column.decimals is None
        return 1e-9 * (self.column.range[1] - self.column.range[0]) if free else 0.0

    def holds(self, numbers: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Which rows satisfy it; an empty value satisfies only = and != of an empty value, and != of any other.

        Numbers with any decimals are equal within 10⁻⁹ of the range, which is what a change of scale may round.
        """
        gone = np.isnan(numbers)
        if self.operator in ("=", "!="):
            same = gone if np.isnan(self.value) else np.abs(numbers - self.value) <= self._tolerance
            return same if self.operator == "=" else ~same
        compare = {"<=": np.less_equal, ">=": np.greater_equal, "<": np.less, ">": np.greater}[self.operator]
        out: NDArray[np.bool_] = compare(numbers, self.value) & ~gone
        return out

    def restrict(self, support: Support) -> None:
        """Leave out of `support` what cannot satisfy it; what is left may still fail by a rounding."""
        value, column = self.value, self.column
        if np.isnan(value):
            (support.present if self.operator == "=" else support.missing)[:] = False
        elif self.operator != "!=":
            support.missing[:] = False
        if np.isnan(value):
            return
        if not column.is_number:
            support.words &= self.holds(np.arange(len(column.words), dtype=np.float64))
            return
        # one whole number further where it is strict; half a unit of the last decimal may be rounded away
        step = 1.0 if column.is_whole and self.operator in ("<", ">") else 0.0
        slack = 0.0 if column.is_whole or column.decimals is None else 0.5 * 10.0**-column.decimals
        if self.operator in ("<=", "<", "="):
            support.high = np.minimum(support.high, value - step + slack)
        if self.operator in (">=", ">", "="):
            support.low = np.maximum(support.low, value + step - slack)


def conditions_of(where: Where | None, schema: Schema) -> tuple[Condition, ...]:
    """The conditions in "age>=65", in a list of such texts, or in a mapping from columns to the values they must have.

    Refuses, in one sentence, unknown columns and categories, and conditions that no row of this schema can satisfy.

    >>> schema = Schema((Column("age", "integer", 0, 120), Column("sex", "categorical", categories=("F", "M"))))
    >>> [str(condition) for condition in conditions_of(["sex=F", "age >= 65"], schema)]
    ['sex=F', 'age>=65']
    """
    if where is None:
        return ()
    if isinstance(where, Mapping):
        found = [_condition(_column(name, schema), "=", value) for name, value in where.items()]
    else:
        found = [_read(text, schema) for text in ([where] if isinstance(where, str) else where)]
    for name in {condition.column.name for condition in found}:
        some = [condition for condition in found if condition.column.name == name]
        if not possible(some):
            words = " and ".join(map(str, some))
            raise UsageError(f"No row can have {words}: the schema does not allow it, or the conditions contradict.")
    return tuple(found)


def possible(conditions: Sequence[Condition]) -> bool:
    """Whether a value of their one column satisfies all conditions."""
    column = conditions[0].column
    support = Support.free(column, 1)
    for condition in conditions:
        condition.restrict(support)
    there = support.low[0] <= support.high[0] if column.is_number else support.words[0].any()
    return bool((support.present[0] and there) or support.missing[0])


def _read(text: Any, schema: Schema) -> Condition:
    if not isinstance(text, str):
        raise UsageError(f"A condition is a text such as age>=65, got {brief(text)}.")
    # the longest name first: one may begin like another, or hold a sign
    for name in sorted({*schema.names, *schema.learned.names}, key=len, reverse=True):
        if text.strip().startswith(name):
            found = _TEXT.fullmatch(text.strip()[len(name) :])
            if found:
                operator = "=" if found[1] == "==" else found[1]
                return _condition(_column(name, schema), operator, found[2].strip())
    raise UsageError(
        f"Expected a column of the schema, one of {' '.join(OPERATORS)} and a value, such as age>=65, "
        f"got {brief(text)}."
    )


def _column(name: Any, schema: Schema) -> Column:
    if name in schema.names:
        return schema[name]
    if name in schema.learned.names:
        return schema.learned[name]
    raise UsageError(f"A condition names column {brief(name)}, which the schema lacks.")


def _condition(column: Column, operator: str, value: Any) -> Condition:
    if operator in ("<", "<=", ">", ">=") and not column.is_number and column.type != "ordinal":
        raise UsageError(f"The categories of column {brief(column.name)} have no order: use = or !=.")
    empty = value is None or (isinstance(value, str) and value == "") or value != value
    if empty:
        if operator not in ("=", "!=") or not column.missing:
            raise UsageError(f"Column {brief(column.name)} is never empty, or {operator} needs a value.")
        return Condition(column, operator, float("nan"))
    return Condition(column, operator, _number(column, value))


def _number(column: Column, value: Any) -> float:
    try:
        if column.type == "date":
            if isinstance(value, str):
                value = datetime.strptime(value, column.format)
            return column.to_number(value if isinstance(value, date) else np.datetime64(value, "s").item())
        if column.is_number:
            number = float(value)
            if not np.isfinite(number):
                raise ValueError
            return number
        # a category that the schema does not list is refused here, also where records may have others
        listed = replace(column, categories=column.words, unknown="refuse")
        return float(parse(listed, np.array([value], dtype=object), frozenset())[0])
    except (ValueError, TypeError, DataError):
        kind = f"a date like {column.format}" if column.type == "date" else "a number"
        wanted = kind if column.is_number else "one of its categories"
        raise UsageError(
            f"A condition compares column {brief(column.name)} with {brief(value)}: give {wanted}."
        ) from None
