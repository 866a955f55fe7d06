"""A small table of facts as HTML, for objects that show themselves in a notebook; it knows no privacy and no data.

Everything is escaped and nothing is loaded or run: no script, no style sheet, no address. Colours are those of the
notebook, so that the table is readable on light and on dark pages.
"""

from __future__ import annotations

import html
from collections.abc import Iterable

from privot.common.visible import visible

MAX_WORDS = 300
"""The longest text of one cell, in characters."""
MAX_ROWS = 60
"""The most rows of one table; a last one says how many were left out."""

_TABLE = "border-collapse:collapse;margin:.3em 0;max-width:60em"
_CAPTION = "text-align:left;font-weight:bold;padding:.2em 0"
_HEAD = "text-align:left;vertical-align:top;font-weight:normal;opacity:.8;padding:.15em 1em .15em 0;white-space:nowrap"
_CELL = "text-align:left;vertical-align:top;padding:.15em 0;overflow-wrap:anywhere"


def html_facts(title: str, facts: Iterable[tuple[str, object]]) -> str:
    """One table: `title` above, one row per fact.

    Parameters
    ----------
    title
        What the facts are about.
    facts
        Pairs of a name and what is said about it; each becomes text on one line, and is cut after `MAX_WORDS`
        characters. Pairs whose second part is None are left out.

    Examples
    --------
    >>> "ε &lt; 1" in html_facts("Guarantee", [("what", "ε < 1")])
    True
    """
    said = [(name, value) for name, value in facts if value is not None]
    shown = said[:MAX_ROWS]
    if len(said) > MAX_ROWS:
        shown.append(("…", f"{len(said) - MAX_ROWS} more"))
    rows = "".join(
        f'<tr><th scope="row" style="{_HEAD}">{_text(name)}</th><td style="{_CELL}">{_text(value)}</td></tr>'
        for name, value in shown
    )
    caption = f'<caption style="{_CAPTION}">{_text(title)}</caption>'
    return f'<table style="{_TABLE}">{caption}<tbody>{rows}</tbody></table>'


def _text(value: object) -> str:
    """`value` as escaped text on one line, without letters that hide or turn round others."""
    text = " ".join(str(value)[: 4 * MAX_WORDS].split())
    text = visible(text)
    return html.escape(text if len(text) <= MAX_WORDS else text[: MAX_WORDS - 1] + "…")
