"""What a query may say: one SELECT, each of whose rows follows from the rows of one person; it runs nothing.

Only part of that can be seen in a text. What can be seen is refused here: several statements, and words that make a row
depend on other people's rows or on chance. What cannot (a join, an average over people in a subquery, a view) is the
duty of the person who writes the query: see docs/sharp-edges.md.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from privot.errors import UsageError

_PIECES = re.compile(
    r"""
      (?P<line>--[^\n]*)
    | (?P<block>/\*)
    | (?P<text>[eE]'(?:[^'\\]|\\.|'')*'|'(?:[^']|'')*')
    | (?P<name>"(?:[^"]|"")*")
    | (?P<dollar>\$(?P<tag>[^\W\d]\w*|)\$.*?\$(?P=tag)\$)
    | (?P<word>[^\W\d]\w*)
    | (?P<other>\s+|.)
    """,
    re.VERBOSE | re.DOTALL,
)
_OTHERS = {
    "limit": "LIMIT", "offset": "OFFSET", "fetch": "FETCH", "over": "window functions", "window": "window functions",
    "qualify": "QUALIFY", "tablesample": "TABLESAMPLE", "except": "EXCEPT", "intersect": "INTERSECT", "pivot": "PIVOT",
    "unpivot": "UNPIVOT", "summarize": "SUMMARIZE", "rollup": "ROLLUP", "cube": "CUBE",
}  # fmt: skip
_PAIRS = {"using": ("sample", "USING SAMPLE")}
"""Words that are refused before another one."""
_ALONE = {"union": ("all", "UNION without ALL"), "distinct": ("from", "DISTINCT")}
"""Words that are refused unless another one follows: UNION ALL and IS DISTINCT FROM look at one row."""
_CHANCE = {"random", "rand", "setseed", "uuid", "gen_random_uuid", "uuidv4", "uuidv7", "random_normal"}


def checked_query(query: str | None) -> str:
    """The query without what ends it, if it is one SELECT (or WITH … SELECT) without a refused word.

    Raises `UsageError` with the word, never with the text around it.

    >>> checked_query("SELECT age FROM people WHERE city <> ';' -- all\\n;")
    "SELECT age FROM people WHERE city <> ';' -- all"
    """
    if query is None or not query.strip():
        raise UsageError("The records of a database are the rows of a query: state the query.")
    tokens = list(_tokens(query))
    while tokens and tokens[-1][0] == ";":
        query = query[: tokens.pop()[1]].rstrip()
    words = [token for token, _ in tokens]
    if not words or words[0] not in ("select", "with"):
        raise UsageError("A query begins with SELECT or WITH: state what selects the records.")
    if ";" in words:
        raise UsageError("A query is one statement: leave out what follows the first semicolon.")
    for word, after in zip(words, [*words[1:], ""], strict=True):
        if word in _CHANCE and after == "(":
            raise UsageError(f"The rows of a query may not follow from chance ({word}): leave it out.")
        refused = _OTHERS.get(word)
        if word in _PAIRS and after == _PAIRS[word][0]:
            refused = _PAIRS[word][1]
        if word in _ALONE and after != _ALONE[word][0]:
            refused = _ALONE[word][1]
        if refused is not None:
            raise UsageError(
                f"Each row of a query must follow from one person's rows only, and {refused} looks at others: leave it "
                "out (quote a column of that name), or write the rows to a table first."
            )
    return query


def _tokens(query: str) -> Iterator[tuple[str, int]]:
    """Words in small letters and single signs, with their place; texts, quoted names and comments are left out."""
    place = 0
    while place < len(query):
        found = _PIECES.match(query, place)
        assert found is not None
        kind, start, place = found.lastgroup, place, found.end()
        if kind == "block":
            place = _after_comment(query, place)
        elif found["word"]:
            yield found["word"].lower(), start
        elif found["text"] or found["name"] or found["dollar"]:
            yield "''", start
        elif found["other"] and not found["other"].isspace():
            if found["other"] in "'\"":
                raise UsageError("A quotation in the query does not end: close it.")
            yield found["other"], start


def _after_comment(query: str, place: int) -> int:
    """Where a comment ends that begins before `place`; PostgreSQL nests them, so both kinds must end."""
    ends = query.find("*/", place)
    if ends < 0 or "/*" in query[place:ends]:
        raise UsageError("A comment in the query does not end, or holds another: leave it out.")
    return ends + 2
