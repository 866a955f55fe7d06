"""SQL from strangers, read by sqlglot: bounded in length, pieces, nesting and digits before it is parsed; it runs none.

sqlglot is imported at the first statement, not with this module. docs/design/decisions/0014-reading-sql.md says why a
library reads SQL.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

from privot.common.extras import needing
from privot.errors import DataError
from privot.opening.limits import MAX_DIGITS, shown

MAX_SQL = 1 << 20
"""Bytes of one SQL text."""
MAX_PIECES = 30_000
"""Words, signs and values of one statement: a table of 2,000 columns has fewer."""
MAX_NESTING = 32
"""Brackets, CASEs and signs before a value, one within the other."""

_OPENS, _CLOSES = ("L_PAREN", "L_BRACKET", "L_BRACE", "CASE"), ("R_PAREN", "R_BRACKET", "R_BRACE", "END")
_BEFORE = ("NOT", "DASH", "PLUS", "TILDE", "EXCLAMATION", "INTERVAL")


class NotSqlError(DataError):
    """The text is not SQL of the dialect that it was read as; it may be of another."""


def sql_pieces(text: str, what: str, dialect: str) -> list[Any]:
    """The text as tokens, comments left out; `what` names the text in a refusal, which never quotes it."""
    if len(text.encode("utf-8", "replace")) > MAX_SQL:
        raise DataError(f"{what} has more than {shown(MAX_SQL)}: no SQL of that length is read.")
    with needing("Reading SQL needs", "synthesis"):
        from sqlglot.dialects.dialect import Dialect
        from sqlglot.errors import SqlglotError
    try:
        return list(Dialect.get_or_raise(dialect).tokenize(text))
    except (SqlglotError, ValueError, LookupError):
        pass
    raise NotSqlError(f"{what} holds a quotation or a comment that does not end: close it.")


def parse_statement(pieces: Sequence[Any], text: str, what: str, dialect: str) -> Any:
    """The tree of one statement, given as tokens of `text`; a refusal says the line and quotes nothing."""
    _check_shape(pieces, what)
    from sqlglot.dialects.dialect import Dialect
    from sqlglot.errors import ParseError, SqlglotError

    # the library logs, on standard error and with the text, what it does not know
    logging.getLogger("sqlglot").setLevel(logging.CRITICAL)
    line = ""
    try:
        found = Dialect.get_or_raise(dialect).parser().parse(list(pieces), text)
        if len(found) == 1 and found[0] is not None:
            return found[0]
    except ParseError as error:
        number = error.errors[0].get("line") if error.errors else None
        line = "" if number is None else f" (line {number})"
    except (SqlglotError, RecursionError, ValueError, LookupError, AttributeError):
        # what a parser of fifty dialects does with anything at all is not foreseen
        pass
    raise NotSqlError(f"{what} cannot be read as SQL{line}: write it in plain SQL.")


def _check_shape(pieces: Sequence[Any], what: str) -> None:
    """Refuse what is too long or too deep for the parser, by its tokens alone."""
    if len(pieces) > MAX_PIECES:
        raise DataError(f"{what} has more than {MAX_PIECES} words and signs in one statement: no table needs as many.")
    depth = before = 0
    for piece in pieces:
        kind = piece.token_type.name
        if kind == "NUMBER" and len(piece.text) > MAX_DIGITS:
            raise DataError(f"{what} holds a number of more than {MAX_DIGITS} digits.")
        depth += (kind in _OPENS) - (kind in _CLOSES)
        before = before + 1 if kind in _BEFORE else 0
        if max(depth, before) > MAX_NESTING:
            raise DataError(f"{what} is nested more than {MAX_NESTING} levels deep (line {piece.line}).")
