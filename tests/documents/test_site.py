"""The built site in a real browser: no console error, no foreign request, nothing too wide, search that works.

`make docs` builds the site first; without it, or without a Chromium, these tests are skipped.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from block_runner import ROOT
from check_site import problems

from headless import Tab, browser, opened

SITE = ROOT / "site"
WIDTHS, SCHEMES = (390, 768, 1440), ("light", "dark")
PAGES = [
    "index.html",
    "quickstart.html",
    "guides/images.html",
    "guides/cookbook.html",
    "concepts/adjacency-and-standing.html",
    "concepts/how-budgets-add-up.html",
    "concepts/what-is-sent.html",
    "notebooks/budgets.ipynb.html",
    "notebooks/images.ipynb.html",
    "reference/command-line.html",
    "reference/help.html",
    "reference/api/vault.html",
    "reference/api/accounting.html",
    "sharp-edges.html",
    "when-to-use-something-else.html",
    "repository/lab/docs/results/synthesis-images.html",
    "repository/src/privot/guarantee.py.html",
]
ROOM = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
SCHEME = "document.body.getAttribute('data-md-color-scheme')"
BROKEN = "[...document.images].filter(i => i.complete && !i.naturalWidth).map(i => i.src.slice(0, 100))"
UNREACHED = """
[...document.querySelectorAll('main *')].filter(e => e.scrollWidth > e.clientWidth + 1 && e.checkVisibility() &&
  ['auto', 'scroll'].includes(getComputedStyle(e).overflowX) && e.tabIndex < 0 &&
  !e.querySelector('a[href], button, input, [tabindex="0"]')).map(e => e.outerHTML.slice(0, 100))
"""
"""What scrolls sideways and can be reached by no key."""
NAMELESS = """
[...document.querySelectorAll('nav, [role=dialog], [role=group]')].filter(e => {
  const by = e.getAttribute('aria-labelledby');
  return !(e.getAttribute('aria-label') || (by && document.getElementById(by).textContent) || '').trim();
}).map(e => e.outerHTML.slice(0, 100))
"""

built = pytest.mark.skipif(not (SITE / "index.html").exists(), reason="no site is built: make docs")
shown = pytest.mark.skipif(browser() is None, reason="no Chromium is installed: apt-get install chromium")


@pytest.fixture(scope="module")
def tab() -> Iterator[Tab]:
    with opened() as found:
        yield found


@built
def test_every_link_and_anchor_is_there_and_nothing_is_fetched_from_elsewhere() -> None:
    assert problems(SITE) == []


@built
@shown
@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES)
def test_pages_fit_every_width_light_and_dark_without_an_error(tab: Tab, page: str) -> None:
    tab.errors.clear()
    for width in WIDTHS:
        for scheme in SCHEMES:
            tab.requests.clear()
            tab.open(SITE / page, width, scheme)
            assert tab.value(ROOM) == 0, f"{page} is too wide at {width}"
            assert tab.value(SCHEME) == {"light": "default", "dark": "slate"}[scheme]
            assert tab.value(BROKEN) == []
            assert [url for url in tab.requests if not url.startswith(("file:", "data:"))] == []
    assert tab.errors == []


@built
@shown
@pytest.mark.slow
@pytest.mark.parametrize(
    "page", ["guides/budgets.html", "reference/command-line.html", "repository/lab/docs/results/pages.html"]
)
def test_the_keyboard_reaches_whatever_scrolls_and_everything_has_a_name(tab: Tab, page: str) -> None:
    for width in WIDTHS:
        tab.open(SITE / page, width, "light")
        end = time.monotonic() + 30
        while tab.value("document.querySelectorAll('.md-typeset__scrollwrap').length") == 0:
            assert time.monotonic() < end, "no table was put into a box"
            time.sleep(0.1)
        # what the theme changes later, when it has measured the page, is mended at once
        tab.value("window.dispatchEvent(new Event('resize'))")
        time.sleep(0.3)
        assert tab.value(UNREACHED) == []
        assert tab.value(NAMELESS) == []
    tab.errors.clear()


@built
@shown
@pytest.mark.slow
def test_search_finds_a_page_that_was_opened_as_a_file(tab: Tab) -> None:
    tab.errors.clear()
    tab.open(SITE / "index.html", 1440, "light")
    tab.value("document.querySelector('.md-search__input').focus()")
    tab.value(
        "(() => { const e = document.querySelector('.md-search__input'); e.value = 'replace-one';"
        " e.dispatchEvent(new Event('keyup', {bubbles: true}));"
        " e.dispatchEvent(new Event('input', {bubbles: true})); })()"
    )
    end, found = time.monotonic() + 60, 0
    while not found and time.monotonic() < end:
        time.sleep(0.2)
        found = tab.value("document.querySelectorAll('.md-search-result__item').length")
    assert found
    assert tab.errors == []
