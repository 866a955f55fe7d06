"""The pages in a real browser: no error, no request, nothing too wide, keyboard, contrast, names for all pictures.

Skipped where no Chromium is installed. The pages are those of a table with hostile names and of images, each with an
evaluation, at the widths of a phone, a tablet and a desk, light and dark.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from headless import Tab, browser, opened
from hostile_pages import HOSTILE, image_folder, table_folder

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(browser() is None, reason="no Chromium is installed: apt-get install chromium"),
]

WIDTHS, SCHEMES = (390, 768, 1440), ("light", "dark")
PAGES = ("table/report.html", "table/report-private.html", "images/report.html", "images/report-private.html")
ROOM = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
CONTRAST = """
(() => {
  const parse = text => { const m = text.match(/[\\d.]+/g).map(Number); return m.length > 3 ? m : [...m, 1]; };
  const linear = v => (v /= 255) <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;
  const light = c => 0.2126 * linear(c[0]) + 0.7152 * linear(c[1]) + 0.0722 * linear(c[2]);
  const behind = e => { for (; e; e = e.parentElement) { const c = parse(getComputedStyle(e).backgroundColor);
    if (c[3] > 0.99) return c; } return [255, 255, 255, 1]; };
  const weak = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const e = walker.currentNode.parentElement, words = walker.currentNode.textContent.trim();
    if (!words || ['TITLE', 'DESC', 'STYLE', 'title', 'desc'].includes(e.tagName)) continue;
    const style = getComputedStyle(e);
    const ink = parse(e.tagName === 'text' ? style.fill : style.color), paper = behind(e);
    const [a, b] = [light(ink), light(paper)].sort((x, y) => y - x);
    const ratio = (a + 0.05) / (b + 0.05);
    if (ratio < 4.5) weak.push([words.slice(0, 40), Math.round(100 * ratio) / 100]);
  }
  return weak.slice(0, 10);
})()
"""
NAMELESS = """
[...document.querySelectorAll('svg, img, table, [role=region], a, summary')].filter(e => {
  const title = e.querySelector(':scope > title'), caption = e.querySelector(':scope > caption');
  const name = e.getAttribute('aria-label') || e.getAttribute('alt') || (title && title.textContent) ||
    (caption && caption.textContent) || (['A', 'SUMMARY'].includes(e.tagName) && e.textContent);
  return !(name && name.trim());
}).map(e => e.outerHTML.slice(0, 80))
"""
HEADINGS = "[...document.querySelectorAll('h1, h2, h3, h4')].map(e => Number(e.tagName[1]))"
REACHABLE = "document.querySelectorAll('a[href], summary, [tabindex=\"0\"]').length"
REACHED = """
(() => { const e = document.activeElement; if (!e || e === document.body) return -1;
  return [...document.querySelectorAll('a[href], summary, [tabindex="0"]')].indexOf(e); })()
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("pages")
    table_folder(place / "table")
    image_folder(place / "images")
    return place


@pytest.fixture(scope="module")
def tab() -> Iterator[Tab]:
    with opened() as found:
        yield found


@pytest.mark.parametrize("page", PAGES)
def test_pages_fit_every_width_and_say_nothing_on_the_console(folder: Path, tab: Tab, page: str) -> None:
    tab.errors.clear()
    for width in WIDTHS:
        for scheme in SCHEMES:
            tab.requests.clear()
            tab.open(folder / page, width, scheme)
            assert tab.value(ROOM) == 0, f"{page} is too wide at {width}"
            # folded parts count as well
            tab.value("document.querySelectorAll('details').forEach(e => e.open = true)")
            assert tab.value(ROOM) == 0, f"{page}, unfolded, is too wide at {width}"
            foreign = [url for url in tab.requests if not url.startswith(("file:", "data:"))]
            assert foreign == []
    assert tab.errors == []


@pytest.mark.parametrize("page", PAGES)
@pytest.mark.parametrize("scheme", SCHEMES)
def test_words_have_contrast_and_pictures_have_names(folder: Path, tab: Tab, page: str, scheme: str) -> None:
    tab.open(folder / page, 768, scheme)
    tab.value("document.querySelectorAll('details').forEach(e => e.open = true)")
    assert tab.value(CONTRAST) == []
    assert tab.value(NAMELESS) == []
    levels = tab.value(HEADINGS)
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after <= before + 1 for before, after in pairwise(levels)), levels
    for landmark in ("header", "nav", "main", "footer"):
        assert tab.value(f"document.querySelectorAll('body > {landmark}').length") == 1


def test_the_keyboard_reaches_everything(folder: Path, tab: Tab) -> None:
    tab.open(folder / PAGES[0], 1440, "light")
    tab.value("document.querySelectorAll('details').forEach(e => e.open = true)")
    count, reached = tab.value(REACHABLE), set()
    assert count > 5
    for _ in range(count + 3):
        tab.press_tab()
        reached.add(tab.value(REACHED))
    assert reached >= set(range(count))


def test_hostile_names_run_nothing_and_are_shown_as_text(folder: Path, tab: Tab) -> None:
    for page in PAGES[:2]:
        tab.open(folder / page, 1440, "light")
        assert tab.value("window.hacked") is None
        assert tab.value("document.querySelectorAll('script, iframe, object, [onerror], [onload]').length") == 0
        shown: Any = tab.value("document.body.textContent")
        assert HOSTILE[:20] in shown


def test_the_driver_sees_what_is_wrong(tmp_path: Path, tab: Tab) -> None:
    """A page with every fault that the tests above look for."""
    bad = tmp_path / "bad.html"
    bad.write_text(
        "<!doctype html><body style='background:#fff'><h3>a</h3><p style='color:#ccc'>pale</p><svg></svg>"
        "<div style='width:3000px'>wide</div><script>console.error('loud')</script></body>"
    )
    tab.errors.clear()
    tab.open(bad, 390, "light")
    assert tab.value(ROOM) > 0
    assert [words for words, _ in tab.value(CONTRAST)] == ["pale"]
    assert len(tab.value(NAMELESS)) == 1
    assert tab.value(HEADINGS) == [3]
    assert any("loud" in error for error in tab.errors)
    tab.errors.clear()
