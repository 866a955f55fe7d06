"""What a query may say: one SELECT, each of whose rows follows from one row of each table; it runs nothing.

The statement is parsed, and allowed are the kinds of nodes that are known to act row by row: tables, joins on equal
columns, WHERE, UNION ALL, and plain expressions of listed functions. All else is refused by its name. What no text
shows (a view, a table that was made of other people's rows, a join that repeats a person) is the duty of the person who
writes the query: see docs/sharp-edges.md.
"""

from __future__ import annotations

from typing import Any

from privot.errors import DataError, UsageError, brief
from privot.opening.sql import parse_statement, sql_pieces

_WHAT = "The query"
_STRUCTURE = (
    "Select", "From", "Where", "Join", "Table", "TableAlias", "Subquery", "With", "CTE", "Union", "Star", "Column",
    "Alias", "Identifier", "Var",
)  # fmt: skip
_PLAIN = (
    "Literal", "National", "RawString", "ByteString", "HexString", "Null", "Boolean", "Interval", "Paren", "Tuple",
    "And", "Or", "Xor", "Not", "EQ", "NEQ", "NullSafeEQ", "NullSafeNEQ", "LT", "LTE", "GT", "GTE", "Is", "Between",
    "In", "Like", "ILike", "SimilarTo", "RegexpLike", "RegexpILike", "Escape", "Add", "Sub", "Mul", "Div", "IntDiv",
    "Mod", "Neg", "DPipe", "BitwiseAnd", "BitwiseOr", "BitwiseXor", "BitwiseNot", "Case", "If", "Cast", "TryCast",
    "DataType", "DataTypeParam", "Collate", "AtTimeZone", "Extract",
)  # fmt: skip
_FUNCTIONS = (
    "Abs", "Ceil", "Floor", "Round", "Trunc", "Sign", "Sqrt", "Cbrt", "Exp", "Ln", "Log", "Pow", "Sin", "Cos", "Tan",
    "Asin", "Acos", "Atan", "Atan2", "Pi", "Degrees", "Radians", "IsNan", "IsInf", "Greatest", "Least", "Coalesce",
    "Nullif", "Lower", "Upper", "Initcap", "Trim", "Length", "Substring", "Left", "Right", "Concat", "ConcatWs",
    "Replace", "Reverse", "Repeat", "Pad", "StrPosition", "StartsWith", "EndsWith", "Contains", "SplitPart",
    "RegexpReplace", "RegexpExtract", "Translate", "Ascii", "Chr", "MD5", "SHA", "SHA2",
    "Date", "DateFromParts", "DateTrunc", "TimestampTrunc", "DateDiff", "DateAdd", "DateSub", "TimestampDiff", "Year",
    "Quarter", "Month", "Week", "Day", "DayOfWeek", "DayOfWeekIso", "DayOfMonth", "DayOfYear", "Hour", "Minute",
    "Second", "LastDay", "StrToTime", "StrToDate", "TimeToStr", "UnixToTime", "TsOrDsToDate", "MakeInterval",
)  # fmt: skip
"""Functions of their arguments alone, by sqlglot's names; no time of day, no chance, no state of the database."""
_ALLOWED = frozenset((*_STRUCTURE, *_PLAIN, *_FUNCTIONS))
_OTHERS = {
    "limit": "LIMIT", "offset": "OFFSET", "distinct": "DISTINCT", "group": "GROUP BY", "having": "HAVING",
    "order": "ORDER BY", "sample": "a sample (TABLESAMPLE, USING SAMPLE)", "qualify": "QUALIFY",
    "windows": "WINDOW", "pivots": "PIVOT", "laterals": "LATERAL", "into": "INTO", "locks": "FOR UPDATE",
    "when": "an older version of a table", "recursive": "WITH RECURSIVE", "by_name": "UNION BY NAME",
    "replace": "* REPLACE", "query": "a subquery in an expression",
}  # fmt: skip
"""What parts of a statement are called in SQL, by sqlglot's names."""
_KINDS = {
    "Window": "a window function (OVER)", "Filter": "FILTER", "WithinGroup": "WITHIN GROUP", "Except": "EXCEPT",
    "Intersect": "INTERSECT", "Lateral": "LATERAL", "Unnest": "UNNEST", "Explode": "UNNEST", "Values": "VALUES",
    "Exists": "a subquery in an expression", "Pivot": "PIVOT", "Columns": "COLUMNS", "ObjectIdentifier": "a type of "
    "the database's own", "Parameter": "a parameter", "Placeholder": "a parameter", "Summarize": "SUMMARIZE",
}  # fmt: skip
_CHANCE = (
    "Rand", "Randn", "Uuid", "Randstr", "CurrentDate", "CurrentTime", "CurrentTimestamp", "Localtime", "Localtimestamp",
)  # fmt: skip
_PARTS = {
    "Select": ("expressions", "from_", "joins", "where", "with_"),
    "Table": ("this", "db", "catalog", "alias", "joins", "only"),
    "Join": ("this", "on", "using", "side", "kind"),
    "Subquery": ("this", "alias", "joins"),
    "Union": ("this", "expression", "with_"),
    "With": ("expressions",),
    "In": ("this", "expressions"),
    "Star": ("except_",),
}
"""What these nodes may hold, and nothing else."""
_HIDDEN = ("rowid", "ctid", "xmin", "xmax", "cmin", "cmax", "tableoid", "filename", "file_row_number", "file_index")
"""Columns that a database adds, which say where among others a row lies."""
_CATALOGUES = ("pg_", "duckdb_", "sqlite_", "pragma_")


def checked_query(query: str | None, dialect: str = "duckdb") -> str:
    """The query without what ends it, if it is one SELECT (or WITH … SELECT) that acts row by row.

    Raises `UsageError` with the word that is refused, never with a value.

    >>> checked_query("SELECT age FROM people WHERE city <> ';' -- all\\n;")
    "SELECT age FROM people WHERE city <> ';' -- all"
    """
    if query is None or not isinstance(query, str) or not query.strip():
        raise UsageError("The records of a database are the rows of a query: state the query.")
    refusal = ""
    try:
        pieces = sql_pieces(query, _WHAT, dialect)
        while pieces and pieces[-1].token_type.name == "SEMICOLON":
            query = query[: pieces.pop().start].rstrip()
        if not pieces or pieces[0].token_type.name not in ("SELECT", "WITH"):
            raise UsageError("A query begins with SELECT or WITH: state what selects the records.")
        if any(piece.token_type.name == "SEMICOLON" for piece in pieces):
            raise UsageError("A query is one statement: leave out what follows the first semicolon.")
        tree = parse_statement(pieces, query, _WHAT, dialect)
    except DataError as error:
        refusal = str(error)
    if refusal:
        raise UsageError(refusal)
    for node in tree.walk():
        _check(node)
    return query


def _check(node: Any) -> None:
    """Refuse one node of the tree, by its kind, by what it holds, or by where it stands."""
    kind = type(node).__name__
    if kind == "Union" and node.args.get("distinct"):
        _refuse("UNION without ALL")
    if node.args.get("method") and kind == "Join":
        _refuse(f"{node.args['method']} JOIN")
    for part, held in node.args.items():
        if held and part not in _PARTS.get(kind, (part,)):
            _refuse(_OTHERS.get(part, f"{kind.upper()} … {part.strip('_').upper()}"))
    if kind in _CHANCE:
        raise UsageError(
            f"The rows of a query may not follow from chance or the time of day ({_name(node)}): leave it out."
        )
    if kind not in _ALLOWED:
        _refuse(_KINDS.get(kind, f"{_name(node)}, which is not known to act row by row,"))
    if kind in ("Select", "Subquery", "Union") and node.parent is not None:
        above = type(node.parent).__name__
        if above not in ("From", "Join", "CTE", "Union", "Subquery"):
            _refuse("a subquery in an expression")
    if kind == "Join":
        _check_join(node)
    if kind == "Table":
        _check_table(node)
    if kind == "Column" and node.name.lower() in _HIDDEN:
        _refuse(f"{brief(node.name.lower())}, a column that the database adds,")
    if kind == "DataType" and node.this.name == "USERDEFINED":
        _refuse("a type of the database's own")


def _check_join(node: Any) -> None:
    from sqlglot import exp

    if str(node.args.get("kind") or "").upper() not in ("", "INNER", "OUTER"):
        _refuse(f"{node.args['kind']} JOIN")
    waiting, equal = [node.args.get("on")], bool(node.args.get("using"))
    while waiting:
        found = waiting.pop()
        if isinstance(found, exp.And):
            waiting += [found.this, found.expression]
        elif isinstance(found, exp.Paren):
            waiting.append(found.this)
        elif isinstance(found, exp.EQ):
            equal |= isinstance(found.this, exp.Column) and isinstance(found.expression, exp.Column)
    if not equal:
        _refuse("a join without an equality of two columns (ON a.id = b.id, USING (id))")


def _check_table(node: Any) -> None:
    from sqlglot import exp

    if not isinstance(node.this, exp.Identifier):
        _refuse(f"a table function ({_name(node.this)})")
    if node.name.lower().startswith(_CATALOGUES) or node.db.lower() in ("information_schema", "pg_catalog"):
        _refuse("a table of the database's catalogue")


def _name(node: Any) -> str:
    """What a function or a word is called in SQL."""
    return brief(str(node.name if type(node).__name__ == "Anonymous" else type(node).__name__).lower())


def _refuse(what: str) -> None:
    raise UsageError(
        f"Each row of a query must follow from one person's rows only, and {what} may look at others: leave it out, or "
        "write the rows to a table first."
    )
