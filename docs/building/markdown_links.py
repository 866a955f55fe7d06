"""Links, headings and code blocks of a Markdown page, as text; it reads no file. The site and the tests share it."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

_FENCED = re.compile(r"^( *)(```|~~~).*?^ *\2", re.MULTILINE | re.DOTALL)
_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"(!?\[(?:[^\[\]]|\[[^\[\]]*\])*\]\(\s*<?)([^)\s>]+)(>?(?:\s+\"[^\"]*\")?\s*\))")
_CODE = re.compile(r"`[^`]+`")
_HEADING = re.compile(r"^#{1,6} +(.+?) *#*$", re.MULTILINE)
_OWN_ANCHOR = re.compile(r'<a id="([\w-]+)"></a>')
_ADDRESS = re.compile(r"[a-z][a-z0-9+.-]*:")


class Block(NamedTuple):
    """One fenced block: its language, and its text."""

    language: str
    text: str


def blocks(page: str) -> list[Block]:
    """Every fenced block that names a language, in the order of the page."""
    return [Block(*found) for found in _BLOCK.findall(page)]


def prose(page: str) -> str:
    """The page without its fenced blocks, where brackets mean something else."""
    return _FENCED.sub("", page)


def relative_links(page: str) -> list[str]:
    """Where the page's links lead, but for those with an address of their own (https:, mailto:)."""
    return [target for _, target, _ in _LINK.findall(prose(page)) if not _ADDRESS.match(target)]


def with_links(page: str, moved: Callable[[str], str]) -> str:
    """The page with every relative link replaced by what `moved` makes of it; fenced blocks stay as they are."""

    def replaced(found: re.Match[str]) -> str:
        target = found[2] if _ADDRESS.match(found[2]) else moved(found[2])
        return found[1] + target + found[3]

    done, out = 0, []
    for fenced in _FENCED.finditer(page):
        out += [_LINK.sub(replaced, page[done : fenced.start()]), fenced[0]]
        done = fenced.end()
    return "".join([*out, _LINK.sub(replaced, page[done:])])


def without_escaped_pipes(page: str) -> str:
    """The page without backslashes before pipes in code of tables: GitHub wants them, Python-Markdown shows them."""
    rows = [
        _CODE.sub(lambda code: code[0].replace("\\|", "|"), line) if line.startswith("|") else line
        for line in page.split("\n")
    ]
    return "\n".join(rows)


def slug(heading: str, separator: str = "-") -> str:
    """The anchor that GitHub makes of a heading, so that a link works there and on the site."""
    # a link in a heading counts by its words, and formatting marks not at all
    words = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower()
    return re.sub(r"[^\w\- ]", "", words).strip().replace(" ", separator)


def anchors(page: str) -> set[str]:
    """The anchors of the page's headings, and those that it sets itself (`<a id="…"></a>`)."""
    found = set(_OWN_ANCHOR.findall(prose(page)))
    counts: dict[str, int] = {}
    for heading in _HEADING.findall(prose(page)):
        made = slug(heading)
        found.add(made if made not in counts else f"{made}-{counts[made]}")
        counts[made] = counts.get(made, 0) + 1
    return found
