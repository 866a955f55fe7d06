"""One self-contained HTML page from words, tables and drawings: everything is escaped, nothing is loaded or run.

A page begins with its verdict (cards), goes on with sections, and folds its fine print away. Its landmarks, headings,
table headers and descriptions are there for readers who listen or use a keyboard. Its own policy forbids scripts and
foreign content, so that even a fault in escaping would not run anything.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING

from privot import __version__
from privot.common.visible import visible
from privot.report.page_style import STYLE
from privot.report.svg_drawing import Drawing

if TYPE_CHECKING:
    from jinja2 import Template


@dataclass(frozen=True)
class Paragraph:
    """Words; `look` is "", "lead", "verdict" or "quiet"."""

    text: str
    look: str = ""
    kind = "paragraph"


@dataclass(frozen=True)
class Items:
    """A list."""

    texts: Sequence[str]
    kind = "items"


@dataclass(frozen=True)
class Link:
    """A link to another page of the same folder."""

    words: str
    file: str
    kind = "link"


@dataclass(frozen=True)
class Chart:
    """A drawing with words below it."""

    drawing: Drawing
    caption: str = ""
    kind = "chart"


@dataclass(frozen=True)
class Photo:
    """A PNG image; `pixels` where each of its pixels is to be seen."""

    png: bytes
    described: str
    caption: str = ""
    pixels: bool = False
    kind = "photo"

    @property
    def encoded(self) -> str:
        """The image as text."""
        return base64.b64encode(self.png).decode()


@dataclass(frozen=True)
class Rows:
    """A table; without `heads` its first column names the rows."""

    caption: str
    heads: Sequence[str]
    rows: Sequence[Sequence[str]]
    kind = "rows"


@dataclass(frozen=True)
class Code:
    """Text to be copied."""

    text: str
    kind = "code"


@dataclass(frozen=True)
class Key:
    """Which colour is what, for drawings of synthetic over real values."""

    kind = "key"


@dataclass(frozen=True)
class Grid:
    """Parts side by side where there is room."""

    parts: Sequence[Part]
    kind = "grid"


@dataclass(frozen=True)
class Fold:
    """Parts that are shown when they are asked for."""

    title: str
    parts: Sequence[Part]
    kind = "fold"


Part = Paragraph | Items | Link | Chart | Photo | Rows | Code | Key | Grid | Fold


@dataclass(frozen=True)
class Card:
    """One part of the verdict; `look` is "", "good", "fair" or "poor"."""

    title: str
    parts: Sequence[Part]
    look: str = ""


@dataclass(frozen=True)
class Section:
    """One heading with what belongs to it; `folded` for the fine print."""

    title: str
    parts: Sequence[Part]
    folded: bool = False

    @property
    def anchor(self) -> str:
        """The name that links use; made of the title's letters only."""
        return re.sub(r"[^a-z0-9]+", "-", self.title.lower()).strip("-") or "section"


@dataclass(frozen=True)
class Page:
    """Everything on one page. `alarm` is shown above all else, where a page must not be handed on."""

    title: str
    subject: str
    lead: str
    cards: Sequence[Card]
    sections: Sequence[Section]
    footer: Sequence[str] = field(default_factory=tuple)
    alarm: str = ""


_PAGE = """{% macro show(part) %}
{%- if part.kind == "paragraph" %}<p{% if part.look %} class="{{ part.look }}"{% endif %}>{{ part.text }}</p>
{% elif part.kind == "items" %}<ul>{% for text in part.texts %}<li>{{ text }}</li>{% endfor %}</ul>
{% elif part.kind == "link" %}<p><a href="{{ part.file }}">{{ part.words }}</a></p>
{% elif part.kind == "chart" %}<figure>{{ part.drawing.markup() | safe }}
{%- if part.caption %}<figcaption>{{ part.caption }}</figcaption>{% endif %}</figure>
{% elif part.kind == "photo" %}<figure><img alt="{{ part.described }}"{% if part.pixels %} class="pixels"{% endif %}
 src="data:image/png;base64,{{ part.encoded }}">
{%- if part.caption %}<figcaption>{{ part.caption }}</figcaption>{% endif %}</figure>
{% elif part.kind == "rows" %}<div class="scroll" tabindex="0" role="region" aria-label="{{ part.caption }}"><table>
<caption>{{ part.caption }}</caption>
{%- if part.heads %}<thead><tr>{% for cell in part.heads %}<th scope="col">{{ cell }}</th>{% endfor %}</tr></thead>
{%- endif %}<tbody>
{%- for row in part.rows %}<tr>{% for cell in row %}
{%- if loop.first %}<th scope="row">{{ cell }}</th>{% else %}<td>{{ cell }}</td>{% endif %}{% endfor %}</tr>
{% endfor %}</tbody></table></div>
{% elif part.kind == "code" %}<pre><code>{{ part.text }}</code></pre>
{% elif part.kind == "key" %}<ul class="key"><li><span></span>synthetic</li><li><span class="real"></span>real</li></ul>
{% elif part.kind == "grid" %}<div class="grid">{% for inner in part.parts %}{{ show(inner) }}{% endfor %}</div>
{% elif part.kind == "fold" %}<details><summary><h3>{{ part.title }}</h3></summary>
{% for inner in part.parts %}{{ show(inner) }}{% endfor %}</details>
{% endif %}{% endmacro -%}
<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; img-src data:">
<meta name="referrer" content="no-referrer"><meta name="color-scheme" content="light dark">
<title>{{ page.title }}: {{ page.subject }}</title>
<style>{{ style | safe }}</style></head><body>
<a class="skip" href="#verdict">Skip to the verdict</a>
{% if page.alarm %}<aside class="alarm" aria-label="Warning"><p><strong>Do not publish.</strong> {{ page.alarm }}</p>
</aside>
{% endif -%}
<header><p class="kind">{{ page.subject }}</p><h1>{{ page.title }}</h1><p class="lead">{{ page.lead }}</p></header>
<nav aria-label="On this page"><ul><li><a href="#verdict">Verdict</a></li>
{%- for section in page.sections %}<li><a href="#{{ section.anchor }}">{{ section.title }}</a></li>
{%- endfor %}</ul></nav>
<main><section id="verdict" aria-labelledby="verdict-title"><h2 id="verdict-title">Verdict</h2><div class="cards">
{% for card in page.cards %}<div class="card {{ card.look }}"><h3>{{ card.title }}</h3>
{% for part in card.parts %}{{ show(part) }}{% endfor %}</div>
{% endfor %}</div></section>
{% for section in page.sections -%}
{% if section.folded %}<details id="{{ section.anchor }}"><summary><h2>{{ section.title }}</h2></summary>
{% for part in section.parts %}{{ show(part) }}{% endfor %}</details>
{% else %}<section aria-labelledby="{{ section.anchor }}"><h2 id="{{ section.anchor }}">{{ section.title }}</h2>
{% for part in section.parts %}{{ show(part) }}{% endfor %}</section>
{% endif %}{% endfor %}</main>
<footer>{% for line in page.footer %}<p>{{ line }}</p>{% endfor %}<p>Written by privot {{ version }}.</p></footer>
</body></html>
"""


def render(page: Page) -> bytes:
    """The page as a file's content.

    >>> shown = render(Page("A <b>", "about & around", "", [], [])).decode()
    >>> "A &lt;b&gt;" in shown, "<b>" in shown, "http:" in shown
    (True, False, False)
    """
    text = _template().render(page=page, style=STYLE, version=__version__)
    # a half of a surrogate pair, as JSON may hold, is no letter
    return text.encode("utf-8", "replace")


@cache
def _template() -> Template:
    """Made once: that takes ten times as long as a page."""
    from jinja2 import Environment

    # drawings are marked as escaped, and made their words visible themselves
    shown = Environment(autoescape=True, trim_blocks=True, finalize=lambda x: visible(x) if type(x) is str else x)
    return shown.from_string(_PAGE)
