"""Reads CREATE TABLE statements as hints for a schema: types, NOT NULL, CHECK and ENUM; it runs no SQL.

    CREATE TABLE visits (id BIGINT PRIMARY KEY, age SMALLINT NOT NULL CHECK (age BETWEEN 0 AND 120),
      sex CHAR(1) CHECK (sex IN ('F', 'M')), admitted DATE, discharged DATE, CHECK (admitted <= discharged))

A primary key of one column becomes a generated key, `a <= b` an order of columns. What a definition does not say, such
as the range of a date, is left to a data dictionary.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from privot.errors import DataError, UsageError, brief
from privot.opening import read_text
from privot.tables.constraints import Constraint, Key, Order
from privot.tables.hints.dictionaries import Hints

_NAME = r'(?:"[^"]+"|`[^`]+`|\[[^\]]+\]|[A-Za-z_][\w$]*)'
_CREATE = re.compile(
    rf"create\s+(?:temp(?:orary)?\s+)?table\s+(?:if\s+not\s+exists\s+)?((?:{_NAME}\s*\.\s*)*{_NAME})\s*\(",
    re.IGNORECASE,
)
_WHOLE = ("int", "integer", "smallint", "bigint", "tinyint", "mediumint", "int2", "int4", "int8", "serial", "bigserial")
_REAL = ("real", "double", "float", "float4", "float8", "decimal", "numeric", "number", "money")
_TABLE_WORDS = ("primary", "unique", "foreign", "check", "constraint", "key", "index", "exclude")
_VALUE = r"(?:date\s+|timestamp\s+)?('(?:[^']|'')*'|-?\d+(?:\.\d+)?)"
_MOMENT, _DAY = "%Y-%m-%d %H:%M:%S", "%Y-%m-%d"


def read_ddl(path: str | Path, table: str | None = None) -> Hints:
    """What the definition of `table` in an SQL file says; the only table of the file unless named."""
    found = _tables(read_text(Path(path)))
    if not found:
        raise DataError(f"{Path(path).name!r} holds no CREATE TABLE statement.")
    if table is None and len(found) > 1:
        raise UsageError(f"{Path(path).name!r} defines {len(found)} tables: say which of {brief(list(found))}.")
    name = next(iter(found)) if table is None else table
    if name not in found:
        raise UsageError(f"{Path(path).name!r} defines no table {brief(name)}: it has {brief(list(found))}.")
    return _hints(found[name], Path(path).name)


def _tables(text: str) -> dict[str, str]:
    """The bodies of all definitions, by the last part of the table's name."""
    plain = re.sub(r"/\*.*?\*/", " ", re.sub(r"--[^\n]*", " ", text), flags=re.DOTALL)
    out = {}
    for start in _CREATE.finditer(plain):
        body = _inside(plain, start.end())
        out[_bare(re.split(r"\s*\.\s*", start[1])[-1])] = body
    return out


def _inside(text: str, start: int) -> str:
    """The text up to the bracket that closes the one before `start`."""
    depth, quoted = 1, False
    for place in range(start, len(text)):
        sign = text[place]
        quoted ^= sign == "'"
        depth += 0 if quoted else (sign == "(") - (sign == ")")
        if depth == 0:
            return text[start:place]
    raise DataError("A CREATE TABLE statement is not closed: a bracket is missing.")


def _parts(body: str) -> list[str]:
    """The body cut at its commas, those within brackets and quotes aside."""
    out, depth, quoted, last = [], 0, False, 0
    for place, sign in enumerate(body):
        quoted ^= sign == "'"
        depth += 0 if quoted else (sign == "(") - (sign == ")")
        if sign == "," and depth == 0 and not quoted:
            out.append(body[last:place].strip())
            last = place + 1
    return [part for part in [*out, body[last:].strip()] if part]


def _bare(name: str) -> str:
    return name[1:-1] if name[0] in '"`[' else name


def _hints(body: str, file: str) -> Hints:
    columns: dict[str, dict[str, Any]] = {}
    checks, keys = [], []
    for part in _parts(body):
        if part.split("(")[0].split()[0].lower() in _TABLE_WORDS:
            checks += _checks(part)
            primary = re.search(rf"primary\s+key\s*\(\s*({_NAME})\s*\)", part, re.IGNORECASE)
            keys += [_bare(primary[1])] if primary else []
            continue
        found = re.match(
            rf"({_NAME})\s+([A-Za-z_]\w*(?:\s+(?:precision|varying))?)\s*(?:\(([^()]*)\))?(.*)", part, re.DOTALL
        )
        if found is None:
            raise DataError(f"{file!r} defines a column in a way that cannot be read: {brief(part)}.")
        name = _bare(found[1])
        rest = found[4].lower()
        columns[name] = _column(found[2].lower(), found[3], rest)
        checks += _checks(found[4])
        keys += [name] if re.search(r"\bprimary\s+key\b", rest) else []
    made: list[Constraint] = []
    for check in checks:
        made += _apply(check, columns)
    for fields in columns.values():
        # 1.0 as a bound of whole numbers is 1
        if fields.get("type") == "integer":
            fields |= {end: int(fields[end]) for end in ("low", "high") if isinstance(fields.get(end), float)}
    for key in keys:
        columns.pop(key, None)
    made = [c for c in made if not isinstance(c, Order) or all(name in columns for name in c.columns)]
    return Hints(columns, (*made, *(Key(key) for key in keys)), tuple(keys))


def _column(kind: str, size: str | None, rest: str) -> dict[str, Any]:
    """The fields that a type says."""
    out: dict[str, Any] = {} if re.search(r"\bnot\s+null\b|\bprimary\s+key\b", rest) else {"missing": True}
    word = kind.split()[0]
    if word in ("bool", "boolean", "bit"):
        return {"type": "boolean", **out}
    if word == "enum" and size is not None:
        return {"type": "categorical", "categories": [_value(v) for v in _parts(size)], **out}
    if word == "date":
        return {"type": "date", **out}
    if word in ("timestamp", "datetime", "timestamptz"):
        return {"type": "date", "format": _MOMENT, **out}
    if word in _WHOLE:
        return {"type": "integer", **out}
    if word in _REAL:
        digits = [int(d) for d in re.findall(r"\d+", size or "")] if word in ("decimal", "numeric", "number") else []
        if digits and (len(digits) == 1 or digits[1] == 0):
            return {"type": "integer", **out}
        return {"type": "continuous", **({"decimals": digits[1]} if len(digits) > 1 else {}), **out}
    return {"type": "categorical", **out}


def _checks(text: str) -> list[str]:
    """The conditions of all CHECKs."""
    return [_inside(text, found.end()) for found in re.finditer(r"\bcheck\s*\(", text, re.IGNORECASE)]


def _value(text: str) -> Any:
    text = text.strip()
    if text.startswith("'"):
        return text[1:-1].replace("''", "'")
    return float(text) if "." in text else int(text)


def _apply(check: str, columns: dict[str, dict[str, Any]]) -> list[Constraint]:
    """Enter what a CHECK says into `columns`; conditions that are understood only in part say nothing else."""
    if re.search(r"\bor\b", check, re.IGNORECASE):
        return []
    for found in re.finditer(rf"({_NAME})\s+between\s+{_VALUE}\s+and\s+{_VALUE}", check, re.IGNORECASE):
        if _bare(found[1]) in columns:
            columns[_bare(found[1])] |= {"low": _value(found[2]), "high": _value(found[3])}
    for found in re.finditer(rf"(?<!\bnot )({_NAME})\s+in\s*\(([^()]*)\)", check, re.IGNORECASE):
        name = _bare(found[1])
        if name in columns:
            columns[name] |= {"type": "categorical", "categories": [_value(v) for v in _parts(found[2])]}
    plain = re.sub(rf"{_NAME}\s+between\s+{_VALUE}\s+and\s+{_VALUE}", " ", check, flags=re.IGNORECASE)
    for found in re.finditer(rf"({_NAME})\s*(<=|>=|<|>)\s*{_VALUE}", plain, re.IGNORECASE):
        name, value = _bare(found[1]), _value(found[3])
        if name in columns:
            strict = len(found[2]) == 1 and columns[name].get("type") == "integer" and not isinstance(value, str)
            by = (1 if found[2][0] == ">" else -1) if strict else 0
            columns[name]["low" if found[2][0] == ">" else "high"] = value + by if by else value
    out: list[Constraint] = []
    for found in re.finditer(rf"({_NAME})\s*(<=|>=|<|>)\s*({_NAME})", plain):
        first, second = _bare(found[1]), _bare(found[3])
        if first in columns and second in columns:
            out.append(Order((first, second) if found[2][0] == "<" else (second, first)))
    return out
