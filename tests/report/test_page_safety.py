"""Pages are self-contained and escaped, whatever names and files say; colours have contrast; parts are labelled."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from itertools import pairwise

import pytest

from privot.common.html_facts import html_facts
from privot.report.html_page import (
    Card,
    Chart,
    Code,
    Fold,
    Grid,
    Items,
    Link,
    Page,
    Paragraph,
    Photo,
    Rows,
    Section,
    render,
)
from privot.report.page_charts import (
    claimed_bars,
    column_bars,
    confusion_map,
    heat_map,
    roc_curves,
    score_bars,
    steps_line,
)
from privot.report.page_style import DARK, LIGHT
from privot.report.svg_drawing import Drawing, clean

HOSTILE = [
    "<script>alert(1)</script>",
    "\"'><img src=x onerror=alert(1)>",
    "</title></svg></style><b>",
    "{{ 7 * 7 }}{% raw %}",
    "&lt;b&gt; &amp;",
    "turn\u202eround\u0000 and\nnewline",
    "]]><!--",
    "\ud800 half a letter",
    "x" * 5000,
]
CHARTS = {
    "columns": lambda name: column_bars(name, [name, "b"], [0.5, 0.5], [0.4, 0.6], None),
    "ranges": lambda name: column_bars(name, [], [0.5, 0.5], None, (name, name)),
    "heat": lambda name: heat_map(name, [name, "b"], [[1.0, 0.5], [0.5, 1.0]]),
    "roc": lambda name: roc_curves(name, {name: ("made", [(0.0, 0.0), (1.0, 1.0)])}),
    "confusion": lambda name: confusion_map(name, [[3, 1], [0, 2]], [name, "b"]),
    "scores": lambda name: score_bars(name, [(name, "made", 0.5)]),
    "claims": lambda name: claimed_bars([(name, 1.0, 0.5)]),
    "steps": lambda name: steps_line([3.0, 2.0, 1.0], name),
}


class Outline(HTMLParser):
    """Tags, attributes and texts as a browser would see them."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.texts: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def page_of(name: str, charts: list[Drawing] | None = None) -> str:
    everything = [
        Paragraph(name),
        Items([name]),
        Rows(name, [name], [[name, name]]),
        Code(name),
        Photo(b"\x89PNG\r\n\x1a\n", name, name),
        Grid([Fold(name, [Paragraph(name)])]),
        *[Chart(chart, name) for chart in charts or []],
    ]
    page = Page(name, name, name, [Card(name, everything)], [Section(name, everything, folded=True)], [name], name)
    return render(page).decode()


@pytest.mark.parametrize("name", HOSTILE, ids=range(len(HOSTILE)))
def test_no_name_breaks_out_of_its_place(name: str) -> None:
    plain, hostile = Outline(), Outline()
    plain.feed(page_of("plain", [chart("plain") for chart in CHARTS.values()]))
    hostile.feed(page_of(name, [chart(name) for chart in CHARTS.values()]))
    # the same elements with the same attributes' names, whatever the words are
    assert hostile.tags == plain.tags
    assert [key for key, _ in hostile.attributes] == [key for key, _ in plain.attributes]
    assert "script" not in hostile.tags
    assert not any(key.startswith("on") for key, _ in hostile.attributes)


@pytest.mark.parametrize("kind", CHARTS)
def test_the_words_of_charts_are_escaped(kind: str) -> None:
    """Without it the test above would not see what a chart lets through."""
    text = CHARTS[kind]("<b>bold</b>").markup()
    assert "<b>" not in text
    assert "&lt;b" in text


def test_pages_load_nothing_and_run_nothing() -> None:
    text = page_of("plain", [chart("plain") for chart in CHARTS.values()])
    assert not re.search(r"https?:|@import|url\(|<script|<link|<iframe", text)
    assert "default-src 'none'" in text
    for source in re.findall(r'src="([^"]*)', text):
        assert source.startswith("data:image/png;base64,")


@pytest.mark.parametrize("mark", [*"\u202e\u202a\u2066\u2069\u200f\u061c\u200b\ufeff\u2028\x1b\x00\U000e0001"])
def test_letters_that_hide_or_turn_others_round_are_written_out(mark: str) -> None:
    """Also in parts whose words go to the page as they are: paragraphs, tables, commands and headings."""
    name = f"age{mark}(raey)"
    parts = [
        Paragraph(name),
        Items([name]),
        Rows(name, [name], [[name]]),
        Code(name + "\nand more"),
        Fold(name, [Link(name, "a.html")]),
    ]
    shown = render(Page(name, name, name, [Card(name, parts)], [Section(name, parts)])).decode()
    assert mark not in shown
    assert "and more" in shown
    assert json.dumps(mark)[1:-1] in shown
    assert mark not in html_facts(name, [(name, name)])
    assert mark not in clean(name)


def test_templates_in_names_are_not_run() -> None:
    assert "49" not in page_of("{{ 7 * 7 }}")


def test_words_are_cut_cleaned_and_kept_on_one_line() -> None:
    assert clean("a\n b\tc") == "a b c"
    assert clean("x" * 100, 10) == "x" * 9 + "…"
    assert "\u202e" not in clean("turn\u202eround")
    assert clean("Straße 7 µg") == "Straße 7 µg"


def luminance(colour: str) -> float:
    parts = [int(colour[k : k + 2], 16) / 255.0 for k in (1, 3, 5)]
    red, green, blue = (v / 12.92 if v <= 0.03928 else ((v + 0.055) / 1.055) ** 2.4 for v in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def test_contrast_is_computed_as_the_guidelines_do() -> None:
    assert contrast("#000000", "#ffffff") == pytest.approx(21.0)
    assert contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.01)


@pytest.mark.parametrize("palette", [LIGHT, DARK], ids=["light", "dark"])
def test_every_colour_of_words_has_contrast_on_every_background(palette: dict[str, str]) -> None:
    for ink in ("ink", "soft", "good", "fair", "poor", "made"):
        for paper in ("paper", "card"):
            assert contrast(palette[ink], palette[paper]) >= 4.5, (ink, paper)
    assert contrast(palette["poor"], palette["alarm"]) >= 4.5
    assert contrast(palette["ink"], palette["alarm"]) >= 4.5
    # lines and bars need less
    assert contrast(palette["real"], palette["paper"]) >= 3.0


def test_pages_have_landmarks_labels_and_table_headers() -> None:
    text = page_of("plain", [chart("plain") for chart in CHARTS.values()])
    for landmark in ("<header", "<nav aria-label", "<main", "<footer", '<html lang="en"', 'class="skip"'):
        assert landmark in text
    assert text.count("<svg") == text.count('role="img"') == text.count("<desc>")
    assert text.count("<table>") == text.count("<caption>")
    assert 'scope="col"' in text
    assert 'scope="row"' in text
    levels = [int(level) for level in re.findall(r"<h([1-6])", text)]
    assert levels[0] == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))
