"""The pages in a real browser: no error, no request, nothing too wide, keyboard, contrast, names for all pictures.

Skipped where no Chromium is installed. The pages are those of a table with hostile names, of images and of an
adaptation, each with an evaluation, at the widths of a phone, a tablet and a desk, light and dark.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hostile_pages import HOSTILE, adaptation_folder, image_folder, ledger_folder, table_folder

from headless import CONTRAST, HEADINGS, ROOM, Tab, browser, opened

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(browser() is None, reason="no Chromium is installed: apt-get install chromium"),
]

WIDTHS, SCHEMES = (390, 768, 1440), ("light", "dark")
PAGES = (
    *(f"{kind}/{name}.html" for kind in ("table", "images", "adaptation") for name in ("report", "report-private")),
    "ledger/report.html",
)
NAMELESS = """
[...document.querySelectorAll('svg, img, table, [role=region], a, summary')].filter(e => {
  const title = e.querySelector(':scope > title'), caption = e.querySelector(':scope > caption');
  const name = e.getAttribute('aria-label') || e.getAttribute('alt') || (title && title.textContent) ||
    (caption && caption.textContent) || (['A', 'SUMMARY'].includes(e.tagName) && e.textContent);
  return !(name && name.trim());
}).map(e => e.outerHTML.slice(0, 80))
"""
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
    adaptation_folder(place / "adaptation")
    ledger_folder(place / "ledger")
    return place


@pytest.fixture(scope="module")
def tab() -> Iterator[Tab]:
    with opened() as found:
        yield found


@pytest.mark.parametrize("page", PAGES)
def test_pages_fit_every_width_and_say_nothing_on_the_console(
    folder: Path, tab: Tab, page: str, whole_run: bool
) -> None:
    tab.errors.clear()
    for number, width in enumerate(WIDTHS):
        for scheme in SCHEMES if whole_run else SCHEMES[number % 2 :][:1]:
            tab.requests.clear()
            tab.open(folder / page, width, scheme)
            assert tab.value(ROOM) == 0, f"{page} is too wide at {width}"
            # folded parts count as well
            tab.value("document.querySelectorAll('details').forEach(e => e.open = true)")
            assert tab.value(ROOM) == 0, f"{page}, unfolded, is too wide at {width}"
            foreign = [url for url in tab.requests if not url.startswith(("file:", "data:"))]
            assert foreign == []
    assert tab.errors == []


@pytest.mark.gate(each="page")
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
    for page in (*PAGES[:2], PAGES[-1]):
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
