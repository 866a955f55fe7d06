"""What is public about tables that belong together by a key: a parent table and tables of its children; no record.

A row of patients.csv is a parent, the rows of visits.csv that carry its key are its children. For a vault one parent
with its children is one row of numbers (`RelatedCodec.dim` of them), in this order:

    the parent's columns | how many children it has in each table | its label | the children, table by table, in slots

each coordinate as the compact layout of `TableCodec` has it. Slots beyond the number of children hold zeros.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np

from privot.common.privacy_unit import Unit
from privot.errors import DataError, UsageError, brief
from privot.tables.codec import TableCodec
from privot.tables.columns import Column
from privot.tables.constraints.stated import Constant, Key
from privot.tables.schema import Schema

KIND = "related tables"
DEFAULT_CHILDREN = 5
"""How many children of a parent take part in each table unless another number is given."""
MAX_CHILDREN = 10_000
MAX_TABLES = 10
_LONGEST_NAME = 100


class RelatedCodec:
    """A parent table and its tables of children: their public schemas, and the key that links them.

    Parameters
    ----------
    schemas
        The schema of every table by its name; the first table is the parent.
    key
        The column that every table has: each parent's own in the first one, its parent's in the others. It is an
        identifier: it is read, need not be described, and is made anew in synthetic tables. A constraint of kind "key"
        in the parent's schema says how.
    per_parent
        At most how many children of a parent take part in each table, or such a number for each table of children; 5
        unless given. It is public, and noise grows with it.

    Examples
    --------
    >>> patients = Schema((Column("age", "integer", 0, 120),))
    >>> visits = Schema((Column("days", "integer", 0, 30), Column("ward", "categorical", categories=("a", "b"))))
    >>> codec = RelatedCodec({"patients": patients, "visits": visits}, key="patient_id", per_parent=3)
    >>> codec.dim, codec.parent_codec.schema.names
    (8, ('age', 'number of visits'))
    >>> print(codec.unit)
    one patient_id, at most 4 rows
    """

    def __init__(
        self, schemas: Mapping[str, Schema], *, key: str, per_parent: int | Mapping[str, int] | None = None
    ) -> None:
        if not isinstance(schemas, Mapping) or not all(isinstance(schema, Schema) for schema in schemas.values()):
            raise UsageError("Related tables are a mapping from their names to schemas, the parent first.")
        names = list(schemas)
        if not 2 <= len(names) <= MAX_TABLES:
            raise UsageError(f"Related tables are a parent and 1 to {MAX_TABLES - 1} tables of children.")
        for name in names:
            _check_name(name)
        if len({name.casefold() for name in names}) != len(names):
            raise UsageError("Two related tables have the same name, large and small letters taken alike: rename one.")
        self.key = Unit(key).name
        self.names = tuple(names)
        self.schemas = tuple(_without_key(name, schemas[name], self.key, names[0]) for name in names)
        self.per_parent = _bounds(names[1:], per_parent)

    # --- public facts

    @property
    def parent(self) -> str:
        """The name of the parent table."""
        return self.names[0]

    @property
    def children(self) -> tuple[str, ...]:
        """The names of the tables of children."""
        return self.names[1:]

    @property
    def unit(self) -> Unit:
        """What is protected: one key, with its parent's row and at most so many rows of its children."""
        return Unit(self.key, 1 + sum(self.per_parent))

    @property
    def bounds_in_words(self) -> str:
        """Which rows of one key take part."""
        parts = [f"at most {most} of {name}" for name, most in zip(self.children, self.per_parent, strict=True)]
        return f"of one {self.key} take part: its row of {self.parent} and {', '.join(parts)}"

    # --- codecs

    @cached_property
    def file_codecs(self) -> tuple[TableCodec, ...]:
        """Those that read each table."""
        return tuple(TableCodec(schema) for schema in self.schemas)

    @cached_property
    def count_columns(self) -> tuple[Column, ...]:
        """How many children a parent has in each table, as columns of the parent."""
        taken = {*self.schemas[0].names, *self.schemas[0].generated, self.key}
        counted = zip(self.children, self.per_parent, strict=True)
        return tuple(Column(_fresh(f"number of {name}", taken), "integer", 0, most) for name, most in counted)

    @cached_property
    def parent_codec(self) -> TableCodec:
        """The parent's columns and how many children it has."""
        own = self.schemas[0]
        return TableCodec(replace(own, columns=(*own.columns, *self.count_columns)))

    @cached_property
    def joined_codecs(self) -> tuple[TableCodec, ...]:
        """By table of children: the columns of a child's parent first, then its own; the label is the child's."""
        out = []
        parent = self.schemas[0]
        label = [] if parent.label is None else [parent[parent.label]]
        known = (*parent.learned.features, *self.count_columns, *label)
        for schema in self.schemas[1:]:
            context = tuple(replace(column, name=f"{self.parent}.{column.name}") for column in known)
            taken = {*schema.names, *schema.generated}
            context = tuple(replace(column, name=_fresh(column.name, taken)) for column in context)
            rules = tuple(c for c in schema.constraints if not isinstance(c, Key | Constant))
            columns = (*context, *schema.columns)
            asked = {"further_labels": schema.further_labels, "interactions": schema.interactions}
            out.append(TableCodec(Schema(columns, schema.label, schema.marks, rules, **asked)))  # type: ignore[arg-type]
        return tuple(out)

    @cached_property
    def output_schemas(self) -> tuple[Schema, ...]:
        """The schemas of what comes out: the key first."""
        made = next((c for c in self.schemas[0].constraints if isinstance(c, Key) and c.column == self.key), None)
        first = made or Key(self.key)
        return tuple(_beginning_with(first, schema) for schema in self.schemas)

    # --- the row of a parent

    @property
    def width(self) -> int:
        """Coordinates of a parent's columns and numbers of children."""
        return len(self.parent_codec.features)

    @property
    def context(self) -> int:
        """The same and the parent's label: what a child's law may depend on."""
        return self.width + (self.parent_codec.classes is not None)

    @property
    def slots(self) -> tuple[int, ...]:
        """Coordinates of one child, with its label, by table of children."""
        return tuple(len(codec.features) + (codec.classes is not None) for codec in self.file_codecs[1:])

    @property
    def starts(self) -> tuple[int, ...]:
        """The first coordinate of the first slot, by table of children."""
        lengths = [most * slot for most, slot in zip(self.per_parent, self.slots, strict=True)]
        return tuple(int(start) for start in self.context + np.cumsum([0, *lengths[:-1]]))

    @property
    def dim(self) -> int:
        """How many coordinates a parent's row has."""
        return self.starts[-1] + self.per_parent[-1] * self.slots[-1]

    def bound(self) -> float:
        """The largest norm that a row can have."""
        total = _square(self.parent_codec)
        for codec, most in zip(self.file_codecs[1:], self.per_parent, strict=True):
            total += most * _square(codec)
        return float(np.sqrt(total))

    # --- files

    def to_dict(self) -> dict[str, Any]:
        """The codec as plain JSON types."""
        tables = [{"name": name, "schema": s.to_dict()} for name, s in zip(self.names, self.schemas, strict=True)]
        return {"kind": KIND, "key": self.key, "per_parent": list(self.per_parent), "tables": tables}

    @classmethod
    def from_dict(cls, raw: Mapping[str, Any]) -> RelatedCodec:
        """Read what `to_dict` wrote."""
        try:
            if raw["kind"] != KIND:
                raise ValueError
            schemas = {table["name"]: Schema.from_dict(table["schema"]) for table in raw["tables"]}
            if len(schemas) != len(raw["tables"]):
                raise ValueError
            bounds = dict(zip(list(schemas)[1:], raw["per_parent"], strict=True))
            return cls(schemas, key=raw["key"], per_parent=bounds)
        except (KeyError, TypeError, ValueError, UsageError, AttributeError):
            raise DataError("This is not the codec of related tables.") from None


def _square(codec: TableCodec) -> float:
    return codec.bound(compact=True) ** 2 + (0 if codec.classes is None else (codec.classes - 1) ** 2)


def _check_name(name: Any) -> None:
    odd = not isinstance(name, str) or not name.strip() or len(name) > _LONGEST_NAME or not name.isprintable()
    if odd or name.startswith(".") or any(mark in name for mark in "/\\"):
        raise UsageError("A related table is named by letters and digits, as a file is, without folders.")


def _without_key(name: str, schema: Schema, key: str, parent: str) -> Schema:
    """The schema as it reads a table with the key, which is an identifier and no column to synthesise."""
    if key in schema.labels:
        raise UsageError(f"The key {brief(key)} is the label of {brief(name)}: an identifier cannot be predicted.")
    for made in schema.constraints:
        if isinstance(made, Key | Constant) and made.column == key and (name != parent or isinstance(made, Constant)):
            raise UsageError(
                f"Column {brief(key)} of {brief(name)} links it to {brief(parent)}: leave it out of the constraints."
            )
    return schema.dropping(key)


def _beginning_with(key: Key, schema: Schema) -> Schema:
    rest = tuple(c for c in schema.constraints if not (isinstance(c, Key) and c.column == key.column))
    return replace(schema, constraints=(key, *rest))


def _fresh(name: str, taken: set[str]) -> str:
    """`name`, or something like it that no column has yet; it is then taken."""
    while name in taken:
        name += "_"
    taken.add(name)
    return name


def _bounds(children: list[str], given: int | Mapping[str, int] | None) -> tuple[int, ...]:
    if given is None:
        given = DEFAULT_CHILDREN
    if isinstance(given, Mapping):
        odd = [name for name in given if name not in children]
        if odd:
            raise UsageError(f"{brief(odd[0])} is no table of children: per_parent bounds one of {children}.")
        bounds = tuple(given.get(name, DEFAULT_CHILDREN) for name in children)
    else:
        bounds = (given,) * len(children)
    for most in bounds:
        if isinstance(most, bool) or not isinstance(most, int) or not 1 <= most <= MAX_CHILDREN:
            raise UsageError(f"The children per parent must be a whole number from 1 to {MAX_CHILDREN}.")
    return bounds
