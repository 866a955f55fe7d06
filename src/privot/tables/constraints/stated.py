"""The constraints that a schema may state; they are public knowledge, written down by hand, never read off records."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from privot.errors import DataError, brief

Word = str | int | float | bool | None
SOURCES = ("counter", "random")


@dataclass(frozen=True)
class Order:
    """The numbers or dates in `columns` never fall from one to the next, where they are present: a ≤ b ≤ c."""

    columns: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """As plain JSON types."""
        return {"kind": "order", "columns": list(self.columns)}


@dataclass(frozen=True)
class Difference:
    """`column` is `minus` and a difference of at least `low` and at most `high`, which is learned in its place.

    The most is what the ranges of the two columns allow, unless given. Of moments, dates with a time of day, the
    difference is counted in `unit`: seconds unless given, minutes, hours or days; of dates without one, in days.
    `scale` says where its cells are cut, as for a column. It is missing where either column is.
    """

    column: str
    minus: str
    low: float = 0
    high: float | None = None
    unit: str | None = None
    scale: str = "auto"

    @property
    def name(self) -> str:
        """What the column of differences is called in counts, reports and conditions."""
        return f"{self.column} - {self.minus}"

    def to_dict(self) -> dict[str, Any]:
        """As plain JSON types; what is left out has its default."""
        ends = {"low": self.low, **({} if self.high is None else {"high": self.high})}
        said = {**({} if self.unit is None else {"unit": self.unit}), "scale": self.scale}
        return {"kind": "difference", "column": self.column, "minus": self.minus, **ends, **said}


@dataclass(frozen=True)
class EmptyUnless:
    """`column` is empty unless the column `when` has one of `values`; with one of them it may still be empty."""

    column: str
    when: str
    values: tuple[Word, ...]

    def to_dict(self) -> dict[str, Any]:
        """As plain JSON types."""
        return {"kind": "empty-unless", "column": self.column, "when": self.when, "is": list(self.values)}


@dataclass(frozen=True)
class Function:
    """`column` follows from the column `of`: `pairs` of a category of `of` and the value that goes with it.

    An empty value of `of` goes with an empty value.
    """

    column: str
    of: str
    pairs: tuple[tuple[str, Word], ...]

    def to_dict(self) -> dict[str, Any]:
        """As plain JSON types."""
        return {"kind": "function", "column": self.column, "of": self.of, "map": dict(self.pairs)}


@dataclass(frozen=True)
class Constant:
    """`column` of what comes out has this value in every row; a private table may have the column, it is not read."""

    column: str
    value: Word

    def to_dict(self) -> dict[str, Any]:
        """As plain JSON types."""
        return {"kind": "constant", "column": self.column, "value": self.value}


@dataclass(frozen=True)
class Key:
    """`column` of what comes out identifies its row: a counter, or random digits; never a value of the private table.

    A private table may have the column, it is not read. A counter begins with 1 in every file.
    """

    column: str
    source: str = "counter"
    prefix: str = ""

    def to_dict(self) -> dict[str, Any]:
        """As plain JSON types."""
        return {"kind": "key", "column": self.column, "from": self.source, "prefix": self.prefix}


Constraint = Order | Difference | EmptyUnless | Function | Constant | Key
_FIELDS: dict[str, tuple[set[str], set[str]]] = {
    "order": ({"columns"}, set()),
    "difference": ({"column", "minus"}, {"low", "high", "unit", "scale"}),
    "empty-unless": ({"column", "when", "is"}, set()),
    "function": ({"column", "of", "map"}, set()),
    "constant": ({"column", "value"}, set()),
    "key": ({"column"}, {"from", "prefix"}),
}
"""Kind → fields that it needs, and fields that it may have."""


def constraint_from_dict(raw: Any) -> Constraint:
    """Read what `to_dict` wrote, or what a user wrote.

    >>> constraint_from_dict({"kind": "order", "columns": ["admitted", "discharged"]})
    Order(columns=('admitted', 'discharged'))
    """
    kind = raw.get("kind") if isinstance(raw, Mapping) else None
    if kind not in _FIELDS:
        raise DataError(f"A constraint has the unknown kind {brief(kind)}: say one of {', '.join(_FIELDS)}.")
    needed, possible = _FIELDS[kind]
    found = set(raw) - {"kind"}
    if not needed <= found or found - needed - possible:
        fields = ", ".join([*sorted(needed), *(f"{name} (if you like)" for name in sorted(possible))])
        raise DataError(f"A constraint of kind {kind} has the fields {fields}; got {brief(sorted(map(str, found)))}.")
    for name in ("column", "minus", "unit", "scale", "when", "of", "from", "prefix"):
        if name in raw and not isinstance(raw[name], str):
            raise DataError(f"A constraint of kind {kind} has a {name} that is no text.")
    if kind == "order":
        _check_list(raw["columns"], "columns", str)
        return Order(tuple(raw["columns"]))
    if kind == "difference":
        ends = [raw[end] for end in ("low", "high") if end in raw]
        if not all(isinstance(end, int | float) and not isinstance(end, bool) for end in ends):
            raise DataError("A difference lies between two numbers, low and high.")
        return Difference(**{name: value for name, value in raw.items() if name != "kind"})
    if kind == "empty-unless":
        values = raw["is"] if isinstance(raw["is"], list) else [raw["is"]]
        _check_list(values, "is", str | int | float | bool)
        return EmptyUnless(raw["column"], raw["when"], tuple(values))
    if kind == "function":
        if not isinstance(raw["map"], Mapping) or not all(_plain(value) for value in raw["map"].values()):
            raise DataError("A constraint of kind function has a map from categories to values.")
        return Function(raw["column"], raw["of"], tuple((str(word), value) for word, value in raw["map"].items()))
    if kind == "constant":
        if not _plain(raw["value"]):
            raise DataError("A constant is a text, a number, true, false or null.")
        return Constant(raw["column"], raw["value"])
    return Key(raw["column"], raw.get("from", SOURCES[0]), raw.get("prefix", ""))


def _plain(value: Any) -> bool:
    return value is None or isinstance(value, str | int | float | bool)


def _check_list(value: Any, name: str, kinds: Any) -> None:
    if not isinstance(value, list) or not value or not all(isinstance(item, kinds) for item in value):
        raise DataError(f"A constraint needs a list for {name}, with at least one entry of the right kind.")
