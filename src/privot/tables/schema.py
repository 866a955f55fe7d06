"""What is public about a table: its columns, its label, how missing values are marked; it may not see a record.

A schema is written by the user (JSON or TOML), or proposed from public hints: the header, a data dictionary, a public
sample. Never from the private table: a range or a list of categories read off the data is an unpaid release.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from privot.common.declared import declared
from privot.errors import DataError, UsageError, brief
from privot.opening import read_json
from privot.opening.json_toml import read_toml
from privot.tables.columns import Column
from privot.tables.constraints.checking import check_constraints, named_columns
from privot.tables.constraints.differences import as_differences, differences_of, learned_column
from privot.tables.constraints.stated import (
    Constant,
    Constraint,
    Difference,
    EmptyUnless,
    Key,
    constraint_from_dict,
)

SCHEMA_VERSION = 1
MAX_LABELS = 10
MAX_INTERACTIONS = 20
FIELDS = ("schema", "label", "labels", "marks", "columns", "constraints", "interactions")
USES = ("keep", "drop", "unit")
"""What a data dictionary may want of a column."""
ASKED = "keep, drop or unit?"
"""Stands in a dictionary that is begun, where a use has not been said yet."""
MARKS = ("", "?", "NA", "N/A", "NaN", "nan", "null", "NULL", "None")
"""How missing values are usually marked. A category of the same name wins over the mark."""


@dataclass(frozen=True)
class Schema:
    """`columns` in the table's order; `label` names the column to predict, if any; the first of `marks` is written.

    `constraints` state how columns belong together, and which columns are made and not learned (keys, constants).
    `dropped` names columns that the table may have and that nobody reads: identifiers. In a file such a column is
    written among the others, as {"name": "visit_id", "drop": true}.

    `further_labels` names more columns to predict, of the same types as a label; a file names all of them as
    "labels": ["income", "sex"], the first of which is `label`. `interactions` name two columns whose joint effect on
    the label matters, or three columns that matter together.
    """

    columns: tuple[Column, ...]
    label: str | None = None
    marks: tuple[str, ...] = MARKS
    constraints: tuple[Constraint, ...] = ()
    dropped: tuple[str, ...] = ()
    further_labels: tuple[str, ...] = ()
    interactions: tuple[tuple[str, ...], ...] = ()

    def __post_init__(self) -> None:
        if not isinstance(self.columns, tuple) or not all(isinstance(c, Column) for c in self.columns):
            raise UsageError("The columns of a schema must be a tuple of Column objects.")
        if not self.features:
            raise UsageError("A schema needs at least one column besides the label.")
        if not all(isinstance(name, str) and name.strip() for name in self.dropped):
            raise UsageError("Every column that is dropped needs a name.")
        if self.label is not None and self.label in self.dropped:
            raise UsageError(f"The label {brief(self.label)} is dropped: name another, or keep its column.")
        if len({*self.names, *self.dropped}) != len(self.names) + len(self.dropped):
            raise UsageError("Two columns of the schema have the same name: rename one.")
        if not self.marks or not all(isinstance(mark, str) for mark in self.marks):
            raise UsageError("A schema needs at least one mark for missing values, as text.")
        if self.label is not None:
            if self.label not in self.names:
                raise UsageError(f"The label {brief(self.label)} is no column of the schema.")
            if self[self.label].is_number:
                raise UsageError("The label must be categorical, ordinal or boolean: give it categories, or name none.")
        if not isinstance(self.constraints, tuple) or not all(isinstance(c, Constraint) for c in self.constraints):
            raise UsageError("The constraints of a schema must be a tuple of constraints.")
        check_constraints(self.constraints, self.columns)
        self._check_further_labels()
        self._check_interactions()

    def _check_further_labels(self) -> None:
        if not isinstance(self.further_labels, tuple):
            raise UsageError("Further labels are a tuple of names.")
        if self.further_labels and self.label is None:
            raise UsageError("Further labels need a first one: name the label too.")
        for name in self.further_labels:
            if name not in self.names:
                raise UsageError(f"The label {brief(name)} is no column of the schema.")
            if self[name].is_number:
                raise UsageError(
                    f"The label {brief(name)} must be categorical, ordinal or boolean: give it categories, or leave "
                    "it out."
                )
        if len({self.label, *self.further_labels}) != len(self.further_labels) + 1:
            raise UsageError("A column is named twice among the labels: name it once.")
        if len(self.further_labels) >= MAX_LABELS:
            raise UsageError(f"At most {MAX_LABELS} labels share a budget: name fewer.")
        if self.further_labels and len(self.columns) - 1 == len(self.further_labels):
            raise UsageError("A schema needs at least one column besides the labels.")

    def _check_interactions(self) -> None:
        if not isinstance(self.interactions, tuple):
            raise UsageError("Interactions are a tuple of two or three names each.")
        if len(self.interactions) > MAX_INTERACTIONS:
            raise UsageError(f"At most {MAX_INTERACTIONS} interactions share a budget: name fewer.")
        found = set()
        for columns in self.interactions:
            if not isinstance(columns, tuple) or len(columns) not in (2, 3) or len(set(columns)) != len(columns):
                raise UsageError("An interaction names two or three different columns.")
            for name in columns:
                if name not in self.names:
                    raise UsageError(f"An interaction names {brief(name)}, which is no column of the schema.")
            if len(columns) == 2 and (self.label is None or self.label in columns):
                raise UsageError(
                    "All pairs of columns are counted anyway: an interaction names two columns besides the label, "
                    "whose joint effect on it matters, or three columns."
                )
            found.add(frozenset(self.interaction(columns)))
        if len(found) != len(self.interactions):
            raise UsageError("Two interactions name the same columns: name them once.")

    def interaction(self, columns: tuple[str, ...]) -> tuple[str, ...]:
        """The three columns that an interaction is about: of two columns, the label is the third."""
        return columns if len(columns) == 3 or self.label is None else (*columns, self.label)

    @property
    def labels(self) -> tuple[str, ...]:
        """All columns to predict, the first label first."""
        return () if self.label is None else (self.label, *self.further_labels)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all columns, in order."""
        return tuple(column.name for column in self.columns)

    @property
    def generated(self) -> tuple[str, ...]:
        """The columns that are made and not learned; a private table may have them, and they are not read."""
        return tuple(c.column for c in self.constraints if isinstance(c, Key | Constant))

    @property
    def output_names(self) -> tuple[str, ...]:
        """The columns of what comes out: keys first, constants last."""
        keys, constants = (tuple(c.column for c in self.constraints if isinstance(c, kind)) for kind in (Key, Constant))
        return (*keys, *self.names, *constants)

    @property
    def features(self) -> tuple[Column, ...]:
        """All columns but the label."""
        return tuple(column for column in self.columns if column.name != self.label)

    @cached_property
    def learned(self) -> Schema:
        """The schema of what is counted and modelled: each difference stands in place of its column.

        >>> days = [Column(name, "date", "2024-01-01", "2024-12-31") for name in ("admitted", "discharged")]
        >>> Schema(tuple(days), constraints=(Difference("discharged", "admitted", high=60),)).learned.names
        ('admitted', 'discharged - admitted')
        """
        found = differences_of(self.constraints)
        if not found:
            return self
        known = {column.name: column for column in self.columns}
        stands = {c.column: learned_column(c, known) for c in found}
        named = {name: stands[name].name if name in stands else name for name in self.names}
        constraints = tuple(
            replace(c, column=named[c.column]) if isinstance(c, EmptyUnless) else c
            for c in self.constraints
            if not isinstance(c, Difference)
        )
        return replace(
            self,
            columns=tuple(stands.get(column.name, column) for column in self.columns),
            constraints=constraints,
            interactions=tuple(tuple(named[name] for name in names) for names in self.interactions),
        )

    @property
    def classes(self) -> tuple[str | int | None, ...] | None:
        """The values of the label, None standing for a missing one; None without a label."""
        if self.label is None:
            return None
        column = self[self.label]
        return (*column.words, None) if column.missing else column.words

    def without_label(self) -> Schema:
        """The same columns in the same order, the label's left out: what describes records whose label is missing."""
        kept = tuple(c for c in self.constraints if self.label not in named_columns(c))
        three = tuple(names for names in self.interactions if len(names) == 3 and self.label not in names)
        return Schema(self.features, None, self.marks, kept, self.dropped, (), three)

    def dropping(self, name: str) -> Schema:
        """The same schema without the column `name`, which a table may then have and nobody reads as a column."""
        if name in self.dropped:
            return self
        if name in self.labels:
            raise UsageError(f"The label {brief(name)} cannot be dropped: name another label, or none.")
        kept = tuple(column for column in self.columns if column.name != name)
        return replace(self, columns=kept, dropped=(*self.dropped, name))

    def __getitem__(self, name: str) -> Column:
        for column in self.columns:
            if column.name == name:
                return column
        raise UsageError(f"The schema has no column {brief(name)}.")

    def to_dict(self) -> dict[str, Any]:
        """The schema as plain JSON types."""
        return {
            "schema": SCHEMA_VERSION,
            "label": self.label,
            "marks": list(self.marks),
            "columns": [
                *(column.to_dict() for column in self.columns),
                *({"name": name, "drop": True} for name in self.dropped),
            ],
            # left out where there are none: what was written before stays the same
            **({"constraints": [c.to_dict() for c in self.constraints]} if self.constraints else {}),
            **({"labels": list(self.labels)} if self.further_labels else {}),
            **({"interactions": [list(names) for names in self.interactions]} if self.interactions else {}),
        }

    @classmethod
    def from_dict(cls, raw: Mapping[str, Any]) -> Schema:
        """Read what `to_dict` wrote, or what a user wrote."""
        if not isinstance(raw, Mapping) or not isinstance(raw.get("columns"), list):
            raise DataError("A schema is an object with a list of columns.")
        odd = sorted(str(key) for key in raw if key not in FIELDS)
        if odd:
            raise DataError(
                f"The schema has the unknown field {brief(odd[0])}: it has columns, label, marks and constraints, and "
                "may have labels and interactions."
            )
        if raw.get("schema", SCHEMA_VERSION) != SCHEMA_VERSION:
            raise DataError("This schema was written for another version of privot.")
        marks = raw.get("marks", list(MARKS))
        if not isinstance(marks, list):
            raise DataError("The marks of missing values are a list of texts.")
        constraints = raw.get("constraints", [])
        if not isinstance(constraints, list):
            raise DataError("The constraints of a schema are a list of objects.")
        found = tuple(constraint_from_dict(c) for c in constraints)
        kept, dropped = _told_apart(raw["columns"])
        columns = tuple(Column.from_dict(c) for c in kept)
        label, further = _labels_of(raw)
        return cls(columns, label, tuple(marks), found, dropped, further, _interactions_of(raw))

    def save(self, path: str | Path) -> None:
        """Write the schema as JSON."""
        text = json.dumps(self.to_dict(), indent=1, ensure_ascii=False, allow_nan=False)
        Path(path).write_text(text + "\n", encoding="utf-8")

    @classmethod
    @declared(path="path")
    def load(cls, path: str | Path) -> Schema:
        """Read a schema from a `.json` or `.toml` file."""
        path = Path(path)
        try:
            return cls.from_dict(read_toml(path) if path.suffix.lower() == ".toml" else read_json(path))
        except OSError:
            raise DataError(
                f"There is no readable schema file {path.name!r}: check the name and its permissions."
            ) from None


def _labels_of(raw: Mapping[str, Any]) -> tuple[Any, tuple[str, ...]]:
    """The first label, and the further ones."""
    if "labels" not in raw:
        return raw.get("label"), ()
    labels = raw["labels"]
    if not isinstance(labels, list) or not labels or not all(isinstance(name, str) for name in labels):
        raise DataError("The labels of a schema are a list of names of columns.")
    if raw.get("label", labels[0]) != labels[0]:
        raise DataError("The schema's label is not the first of its labels: leave out one of the two fields.")
    return labels[0], tuple(labels[1:])


def _interactions_of(raw: Mapping[str, Any]) -> tuple[tuple[str, ...], ...]:
    found = raw.get("interactions", [])
    lists = isinstance(found, list) and all(isinstance(names, list) for names in found)
    if not lists or not all(isinstance(name, str) for names in found for name in names):
        raise DataError("The interactions of a schema are a list of lists of names of columns.")
    return tuple(tuple(names) for names in found)


def _told_apart(columns: list[Any]) -> tuple[list[Any], tuple[str, ...]]:
    """What columns say of themselves, and the names of those that are dropped, whatever else is said of them."""
    kept, dropped = [], []
    for column in columns:
        if not isinstance(column, Mapping) or "drop" not in column:
            kept.append(column)
            continue
        if not isinstance(column["drop"], bool) or not isinstance(column.get("name"), str):
            raise DataError("A column that is dropped has a name and drop: true.")
        if column["drop"]:
            dropped.append(column["name"])
        else:
            kept.append({name: value for name, value in column.items() if name != "drop"})
    return kept, tuple(dropped)


@declared(names="list", dictionary="mapping")
def propose(
    names: Sequence[str],
    dictionary: Mapping[str, Mapping[str, Any]],
    label: str | Sequence[str] | None = None,
    constraints: tuple[Constraint, ...] = (),
) -> Schema:
    """A schema for a table with the header `names`, from a public data `dictionary`: name → the fields of a column.

    A type that is left out follows from what is said: categories make a column categorical, a range of whole numbers
    integer, any other range continuous, ISO dates date, nothing at all is refused: it would have to be read off the
    data. `"use": "drop"` (or `drop: true`) drops the column; `"use": "unit"` does so too, since the column that says
    whose a row is is not synthesised: name it again where records are read. `label` is one name, or several. Entries
    for columns that the table does not have are ignored.
    """
    # such a first line may be a record, so nothing of it is quoted
    if not any(name in dictionary for name in names):
        raise UsageError(
            "The data dictionary has none of the table's columns: is the first line of the table a line of names?"
        )
    columns: list[Column] = []
    dropped: list[str] = []
    units: list[str] = []
    for name in names:
        if name not in dictionary:
            raise UsageError(f"Nothing public is known about column {brief(name)}: describe it in the data dictionary.")
        if not isinstance(dictionary[name], Mapping):
            raise DataError(f"The data dictionary describes column {brief(name)} by an object: low, high, categories …")
        use = use_of(name, dictionary[name])
        if use in ("drop", "unit"):
            dropped.append(name)
            units += [name] if use == "unit" else []
            continue
        hints = {field: value for field, value in dictionary[name].items() if field not in ("drop", "use")}
        # only where it is left out: a boolean has a type and may have nothing else
        least, apart = hints.pop("at_least", None), hints.pop("apart", None)
        if least is not None:
            constraints = (*constraints, constraint_from_dict(_difference(name, least, apart)))
        elif apart is not None:
            raise DataError(f"The data dictionary says how far column {brief(name)} is apart: say at_least which one.")
        if "type" not in hints:
            hints["type"] = _type_of(name, hints)
        if hints.get("name", name) != name:
            raise DataError(f"The data dictionary gives column {brief(name)} another name: leave it out.")
        columns.append(Column.from_dict({**hints, "name": name}))
    if len(units) > 1:
        raise UsageError(
            f"The data dictionary has two units, {brief(units[0])} and {brief(units[1])}: keep or drop one."
        )
    first, further = several_labels(label)
    constraints = as_differences(constraints, columns)
    return Schema(tuple(columns), first, constraints=constraints, dropped=tuple(dropped), further_labels=further)


def _difference(name: str, least: Any, apart: Any) -> dict[str, Any]:
    """The column `name` as a difference of at least 0 from another one, and at most `apart` where that is known."""
    return {"kind": "difference", "column": name, "minus": least, **({} if apart is None else {"high": apart})}


def use_of(name: str, hints: Mapping[str, Any]) -> str | None:
    """What a data dictionary wants of a column: to keep it, to drop it, or to take it for the unit; None: not said.

    >>> use_of("age", {"low": 0, "high": 120}), use_of("visit_id", {"drop": True}), use_of("sex", {"use": ASKED})
    ('keep', 'drop', None)
    """
    drop, use = hints.get("drop", False), hints.get("use", ASKED)
    if not isinstance(drop, bool):
        raise DataError(f"The data dictionary must have true or false for whether column {brief(name)} is dropped.")
    if use not in (ASKED, *USES):
        raise DataError(f"The data dictionary has an unknown use of column {brief(name)}: say keep, drop or unit.")
    if drop and use not in (ASKED, "drop"):
        raise DataError(f"The data dictionary drops column {brief(name)} and uses it otherwise: say one of the two.")
    if drop or use != ASKED:
        return "drop" if drop else str(use)
    return "keep" if any(field not in ("drop", "use") for field in hints) else None


def several_labels(label: str | Sequence[str] | None) -> tuple[str | None, tuple[str, ...]]:
    """One name, several or none, as the first label and further ones.

    >>> several_labels(["income", "sex"])
    ('income', ('sex',))
    """
    names = () if label is None else (label,) if isinstance(label, str) else tuple(label)
    return (names[0], names[1:]) if names else (None, ())


def _type_of(name: str, hints: Mapping[str, Any]) -> str:
    if "categories" in hints:
        return "categorical"
    ends = [hints.get("low"), hints.get("high")]
    if all(isinstance(end, str) for end in ends):
        return "date"
    if all(isinstance(end, int) and not isinstance(end, bool) for end in ends):
        return "integer"
    if all(isinstance(end, int | float) for end in ends):
        return "continuous"
    raise UsageError(f"The data dictionary gives column {brief(name)} neither a range nor categories.")
