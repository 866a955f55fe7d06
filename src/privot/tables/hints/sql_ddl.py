"""Reads CREATE TABLE statements as hints for a schema: types, NOT NULL, CHECK and ENUM; it runs no SQL.

    CREATE TABLE visits (id BIGINT PRIMARY KEY, age SMALLINT NOT NULL CHECK (age BETWEEN 0 AND 120),
      sex CHAR(1) CHECK (sex IN ('F', 'M')), admitted DATE, discharged DATE, CHECK (admitted <= discharged))

A primary key of one column becomes a generated key, `a <= b` an order of columns. What a definition does not say, such
as the range of a date, is left to a data dictionary; a condition that is understood only in part says nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from privot.errors import DataError, UsageError, brief
from privot.opening import read_text
from privot.opening.sql import MAX_SQL, NotSqlError, parse_statement, sql_pieces
from privot.tables.constraints.stated import Constraint, Key, Order
from privot.tables.hints.dictionaries import Hints
from privot.tables.hints.sql_conditions import Condition, conditions, literal

_DIALECTS = ("sqlite", "mysql", "postgres", "tsql")
"""Tried in this order: SQLite's reads the quotes of all others."""
_BOOLEAN = ("BOOLEAN", "BIT")
_WHOLE = (
    "INT", "BIGINT", "SMALLINT", "TINYINT", "MEDIUMINT", "INT128", "INT256", "UINT", "UBIGINT", "USMALLINT", "UTINYINT",
    "UMEDIUMINT", "UINT128", "UINT256", "SERIAL", "BIGSERIAL", "SMALLSERIAL", "YEAR",
)  # fmt: skip
_EXACT = ("DECIMAL", "DECIMAL32", "DECIMAL64", "DECIMAL128", "DECIMAL256", "BIGDECIMAL", "UDECIMAL")
_REAL = (*_EXACT, "FLOAT", "DOUBLE", "UDOUBLE", "DECFLOAT", "MONEY", "SMALLMONEY")
_MOMENTS = (
    "TIMESTAMP", "TIMESTAMPTZ", "TIMESTAMPNTZ", "TIMESTAMPLTZ", "TIMESTAMP_S", "TIMESTAMP_MS", "TIMESTAMP_NS",
    "DATETIME", "DATETIME2", "DATETIME64", "SMALLDATETIME",
)  # fmt: skip
_DAYS = ("DATE", "DATE32")
_MOMENT = "%Y-%m-%d %H:%M:%S"
_MOST_DECIMALS = 15
_NO_COLUMN = "{!r} defines a column in a way that cannot be read: give each a name and a type."


def read_ddl(path: str | Path, table: str | None = None) -> Hints:
    """What the definition of `table` in an SQL file says; the only table of the file unless named."""
    path = Path(path)
    text = read_text(path, most=MAX_SQL)
    refusals: list[DataError] = []
    for dialect in _DIALECTS:
        try:
            found = _definitions(sql_pieces(text, repr(path.name), dialect))
            pieces = _chosen(found, table, path.name)
            return _hints(parse_statement(pieces, text, repr(path.name), dialect), path.name)
        except NotSqlError as error:
            refusals.append(error)
    raise refusals[0]


def _definitions(pieces: list[Any]) -> dict[str, list[Any]]:
    """The tokens of all definitions, by the last part of the table's name: CREATE TABLE name ( … ) without options."""
    out: dict[str, list[Any]] = {}
    place = 0
    while place < len(pieces):
        start, kind = place, pieces[place].token_type.name
        place += 1
        if kind != "CREATE":
            continue
        # CREATE OR REPLACE GLOBAL TEMPORARY TABLE
        table = next((k for k in range(start + 1, min(start + 6, len(pieces))) if _kind(pieces, k) == "TABLE"), None)
        if table is None:
            continue
        name = table + 1
        if [piece.text.lower() for piece in pieces[name : name + 3]] == ["if", "not", "exists"]:
            name += 3
        while _kind(pieces, name + 1) == "DOT":
            name += 2
        if _kind(pieces, name + 1) != "L_PAREN":
            continue
        place = _closed(pieces, name + 1)
        out[pieces[name].text] = [pieces[start], pieces[table], *pieces[name:place]]
    return out


def _kind(pieces: list[Any], place: int) -> str:
    return str(pieces[place].token_type.name) if place < len(pieces) else ""


def _closed(pieces: list[Any], start: int) -> int:
    """The place after the bracket that closes the one at `start`."""
    depth = 0
    for place in range(start, len(pieces)):
        kind = _kind(pieces, place)
        depth += (kind == "L_PAREN") - (kind == "R_PAREN")
        if depth == 0:
            return place + 1
    raise NotSqlError("A CREATE TABLE statement is not closed: a bracket is missing.")


def _chosen(found: dict[str, list[Any]], table: str | None, file: str) -> list[Any]:
    if not found:
        raise DataError(f"{file!r} holds no CREATE TABLE statement.")
    if table is None and len(found) > 1:
        raise UsageError(f"{file!r} defines {len(found)} tables: say which of {brief(list(found))}.")
    name = next(iter(found)) if table is None else table
    if name not in found:
        raise UsageError(f"{file!r} defines no table {brief(name)}: it has {brief(list(found))}.")
    return found[name]


def _hints(tree: Any, file: str) -> Hints:
    from sqlglot import exp

    columns: dict[str, dict[str, Any]] = {}
    checks: list[Any] = []
    keys: list[str] = []
    if not isinstance(tree, exp.Create) or not isinstance(tree.this, exp.Schema):
        raise NotSqlError(f"{file!r} defines a table in a way that cannot be read.")
    for part in tree.this.expressions:
        if not isinstance(part, exp.ColumnDef):
            if isinstance(part, exp.Identifier | exp.Column | exp.Literal):
                raise NotSqlError(
                    f"{file!r} defines a column in a way that cannot be read: give each a name and a type."
                )
            of_table = part.expressions if isinstance(part, exp.Constraint) else [part]
            checks += [found.this for found in of_table if isinstance(found, exp.CheckColumnConstraint)]
            keys += [name for found in of_table for name in _one_key(found)]
            continue
        if not isinstance(part.this, exp.Identifier):
            raise NotSqlError(_NO_COLUMN.format(file))
        if _is_index(part):
            continue
        said = [constraint.args.get("kind") for constraint in part.args.get("constraints") or ()]
        is_key = any(isinstance(kind, exp.PrimaryKeyColumnConstraint) for kind in said)
        filled = any(isinstance(kind, exp.NotNullColumnConstraint) and not kind.args.get("allow_null") for kind in said)
        columns[part.name] = _column(part.args.get("kind"), missing=not (is_key or filled))
        checks += [kind.this for kind in said if isinstance(kind, exp.CheckColumnConstraint)]
        keys += [part.name] if is_key else []
    return _checked(columns, [one for check in checks for one in conditions(check)], keys)


def _checked(columns: dict[str, dict[str, Any]], said: list[Condition], keys: list[str]) -> Hints:
    """The columns with what all CHECKs say of them; keys are generated and no columns."""
    orders: list[Constraint] = []
    for one in said:
        fields = columns.get(one.column)
        if fields is None:
            continue
        if one.other is not None:
            pair = (one.column, one.other)
            orders += [Order(pair)] if {*pair} <= {*columns} - {*keys} and len({*pair}) == 2 else []
        elif one.categories is not None:
            fields |= {"type": "categorical", "categories": one.categories}
        else:
            fields |= one.ends(whole=fields.get("type") == "integer")
    for key in keys:
        columns.pop(key, None)
    return Hints(columns, (*orders, *(Key(key) for key in keys)), tuple(keys))


def _one_key(found: Any) -> Iterator[str]:
    """The column of a primary key that has one."""
    from sqlglot import exp

    if isinstance(found, exp.PrimaryKey) and len(found.expressions) == 1:
        yield found.expressions[0].name


def _is_index(part: Any) -> bool:
    """Whether KEY name (column), as MySQL has it, was taken for a column of the type `name`."""
    kind = part.args.get("kind")
    return (
        not part.this.args.get("quoted")
        and part.name.lower() in ("key", "index", "fulltext", "spatial")
        and kind is not None
        and kind.this.name == "USERDEFINED"
    )


def _column(kind: Any, missing: bool) -> dict[str, Any]:
    """The fields that a type says; one that is not known has categories, which another document states."""
    out: dict[str, Any] = {"missing": True} if missing else {}
    word = "" if kind is None else str(getattr(kind.this, "name", ""))
    if word == "USERDEFINED":
        # the types of other databases than the one whose quotes are read
        own = kind.args.get("kind")
        word = str(getattr(own, "name", own)).upper()
    if word in _BOOLEAN:
        return {"type": "boolean", **out}
    if word.startswith("ENUM"):
        words = [literal(value) for value in kind.expressions]
        known = words and all(isinstance(value, str) for value in words)
        return {"type": "categorical", **({"categories": words} if known else {}), **out}
    if word in _DAYS:
        return {"type": "date", **out}
    if word in _MOMENTS:
        return {"type": "date", "format": _MOMENT, **out}
    if word in _WHOLE:
        return {"type": "integer", **out}
    if word in _REAL:
        digits = [int(size.name) for size in kind.expressions if size.name.isdecimal()] if word in _EXACT else []
        if digits and (len(digits) == 1 or digits[1] == 0):
            return {"type": "integer", **out}
        return {"type": "continuous", **({"decimals": min(digits[1], _MOST_DECIMALS)} if digits else {}), **out}
    return {"type": "categorical", **out}
