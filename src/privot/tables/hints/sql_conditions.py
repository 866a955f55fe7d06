"""What a CHECK says of columns: ranges, lists and orders, joined by AND; anything else says nothing."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

_MIRRORED = {"LT": "GT", "LTE": "GTE", "GT": "LT", "GTE": "LTE"}


@dataclass(frozen=True)
class Condition:
    """What holds of every row: `column` lies between two values, is one of `categories`, or is at most `other`."""

    column: str
    low: Any = None
    high: Any = None
    strict: bool = False
    categories: list[Any] | None = None
    other: str | None = None

    def ends(self, whole: bool) -> dict[str, Any]:
        """The fields `low` and `high`, as far as they are said; `whole` numbers are rounded into the range."""
        out = {}
        for name, value, round_in in (("low", self.low, math.ceil), ("high", self.high, math.floor)):
            if value is None:
                continue
            if whole and isinstance(value, int | float):
                inward = round_in(value)
                value = inward if inward != value or not self.strict else inward + (1 if name == "low" else -1)
            out[name] = value
        return out


def conditions(check: Any) -> Iterator[Condition]:
    """All conditions of a CHECK that are understood, of those that AND joins.

    A list with NULL in it (`a IN (1, NULL)`) is never false, so it says nothing either.
    """
    from sqlglot import exp

    waiting = [check]
    while waiting:
        node = waiting.pop()
        if isinstance(node, exp.Paren):
            waiting.append(node.this)
        elif isinstance(node, exp.And):
            waiting += [node.expression, node.this]
        else:
            yield from _one(node)


def _one(node: Any) -> Iterator[Condition]:
    from sqlglot import exp

    column = _column(node.this) if isinstance(node, exp.Expression) and "this" in node.args else None
    if isinstance(node, exp.Between) and column is not None and not node.args.get("symmetric"):
        low, high = literal(node.args["low"]), literal(node.args["high"])
        if low is not None and high is not None:
            yield Condition(column, low, high)
    elif isinstance(node, exp.In) and column is not None and node.expressions:
        words = [literal(value) for value in node.expressions]
        if not any(word is None for word in words):
            yield Condition(column, categories=words)
    elif isinstance(node, exp.LT | exp.LTE | exp.GT | exp.GTE):
        sign, left, right = type(node).__name__, node.this, node.expression
        if column is None:
            sign, left, right = _MIRRORED[sign], right, left
        first, second, value = _column(left), _column(right), literal(right)
        if first is not None and second is not None:
            pair = (first, second) if sign[0] == "L" else (second, first)
            yield Condition(pair[0], other=pair[1])
        elif first is not None and value is not None:
            low, high = (value, None) if sign[0] == "G" else (None, value)
            yield Condition(first, low, high, strict=len(sign) == 2)


def _column(node: Any) -> str | None:
    from sqlglot import exp

    while isinstance(node, exp.Paren):
        node = node.this
    return str(node.name) if isinstance(node, exp.Column) and node.name else None


def literal(node: Any) -> str | int | float | None:
    """The text or the finite number that a value stands for, a whole one as int; None for anything else."""
    from sqlglot import exp

    sign = 1
    while isinstance(node, exp.Paren | exp.Neg | exp.Cast):
        # DATE '2020-01-01' is a cast
        sign *= -1 if isinstance(node, exp.Neg) else 1
        node = node.this
    if isinstance(node, exp.National) and sign == 1:
        return str(node.name)
    if not isinstance(node, exp.Literal):
        return None
    if node.is_string:
        return str(node.name) if sign == 1 else None
    try:
        value = float(node.name)
    except ValueError:
        return None
    if not math.isfinite(value):
        return None
    whole = int(node.name) if node.name.isascii() and node.name.isdigit() else int(value) if value % 1 == 0 else None
    return sign * (value if whole is None else whole)
