"""The planner in a real browser: no error, nothing too wide, labels for all controls, keyboard reaches all."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from headless import CONTRAST, HEADINGS, ROOM, Tab, browser, opened
from privot.accounting import Gaussian
from privot.guarantee import Adjacency
from privot.ledger import Ledger
from privot.plan.plan_answers import answer
from privot.plan.plan_settings import KINDS
from privot.plan.server import PlanServer

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(browser() is None, reason="no Chromium is installed: apt-get install chromium"),
]

WIDTHS, SCHEMES = (390, 768, 1440), ("light", "dark")
NAMELESS = """
[...document.querySelectorAll('input, select, button, meter, a, summary, table, [role=region]')].filter(e => {
  const by = e.getAttribute('aria-labelledby'), caption = e.querySelector(':scope > caption');
  const name = e.getAttribute('aria-label') || (by && document.getElementById(by).textContent) ||
    (e.labels && e.labels.length && e.labels[0].textContent) || (caption && caption.textContent) ||
    (['A', 'SUMMARY', 'BUTTON'].includes(e.tagName) && e.textContent);
  return !(name && name.trim());
}).map(e => e.outerHTML.slice(0, 80))
"""
SEEN = """
[...document.querySelectorAll('a[href], summary, [tabindex="0"], input, select, button')].filter(e =>
  e.checkVisibility() && !(e.type === 'radio' && !e.checked && document.querySelector(`input[name=${e.name}]:checked`)))
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PlanServer]:
    path = tmp_path_factory.mktemp("plan") / "clinic.ledger"
    with Ledger.create(path) as ledger:
        name = ledger.fingerprint({"x": np.zeros((2, 2))})
        hostile = "<img src=x onerror='window.hacked=1'>" + "n" * 80
        ledger.set_budget(name, epsilon=2.0, delta=1e-6, adjacency="add-remove", label=hostile)
        ledger.charge(name, Gaussian(5.0, 1.0, Adjacency.ADD_REMOVE), "a count")
    with PlanServer(ledger=path) as made:
        threading.Thread(target=made.serve_forever, daemon=True).start()
        yield made
        made.shutdown()


@pytest.fixture(scope="module")
def tab() -> Iterator[Tab]:
    with opened() as found:
        yield found


def settle(tab: Tab) -> None:
    """Wait until what is typed has been answered."""
    end = time.monotonic() + 120
    while not tab.value("!asking && answered === asked()"):
        assert time.monotonic() < end, "no answer"
        time.sleep(0.05)


def choose(tab: Tab, kind: str, adjacency: str, **numbers: float) -> dict[str, Any]:
    """Set the form as a person does, event by event; what was asked."""
    tab.value(f"kind.value = '{kind}'; kind.dispatchEvent(new Event('input', {{bubbles: true}}))")
    tab.value(f"document.querySelector('input[value={adjacency}]').click()")
    for name, value in numbers.items():
        tab.value(f"at('{name}').value = {value}; at('{name}').dispatchEvent(new Event('input', {{bubbles: true}}))")
    settle(tab)
    return dict(tab.value("JSON.parse(answered)"))


def test_every_kind_fits_every_width_and_says_nothing_on_the_console(server: PlanServer, tab: Tab) -> None:
    tab.errors.clear()
    for width in WIDTHS:
        for scheme in SCHEMES:
            tab.requests.clear()
            tab.open(server.url, width, scheme)
            settle(tab)
            assert tab.value(ROOM) == 0, f"too wide at {width}"
            # colours change no widths
            for kind in KINDS if scheme == SCHEMES[0] else list(KINDS)[:1]:
                asked = choose(tab, kind, "replace-one", columns=784 if kind == "images" else 16, records=2000)
                assert tab.value("at('refused').hidden"), tab.value("at('refused').textContent")
                assert asked["kind"] == kind
                tab.value("document.querySelectorAll('details').forEach(e => e.open = true)")
                assert tab.value(ROOM) == 0, f"{kind} is too wide at {width}"
            assert [url for url in tab.requests if not url.startswith((server.url, "data:"))] == []
    assert tab.errors == []


@pytest.mark.parametrize("scheme", SCHEMES)
def test_words_have_contrast_and_controls_have_labels(server: PlanServer, tab: Tab, scheme: str) -> None:
    tab.open(server.url, 768, scheme)
    for kind, adjacency in (("mean", "add-remove"), ("gradient", "replace-one")):
        choose(tab, kind, adjacency, records=2000)
        tab.value("document.querySelectorAll('details').forEach(e => e.open = true)")
        assert tab.value(CONTRAST) == []
        assert tab.value(NAMELESS) == []
    assert (
        tab.value("[...document.querySelectorAll('[id]')].map(e => e.id).filter((id, k, all) => all.indexOf(id) !== k)")
        == []
    )
    levels = tab.value(HEADINGS)
    assert levels[0] == 1
    assert levels.count(1) == 1
    for landmark in ("header", "main", "footer"):
        assert tab.value(f"document.querySelectorAll('body > {landmark}').length") == 1


def test_the_keyboard_reaches_everything(server: PlanServer, tab: Tab) -> None:
    tab.open(server.url, 1440, "light")
    choose(tab, "gradient", "add-remove", records=2000)
    count, reached = tab.value(f"{SEEN}.length"), set()
    assert count > 15
    for _ in range(count + 3):
        tab.press_tab()
        reached.add(tab.value(f"{SEEN}.indexOf(document.activeElement)"))
    assert reached >= set(range(count))


def test_what_is_shown_is_what_the_library_answers(server: PlanServer, tab: Tab) -> None:
    tab.open(server.url, 1440, "light")
    settle(tab)
    # no adjacency is chosen for anybody
    assert "nothing is chosen" in tab.value("at('refused').textContent")
    asked = choose(tab, "mean", "add-remove", epsilon=0.7, records=5000, low=10, high=30, person=3)
    found = answer(asked, server.ledger)
    for part in ("headline", "promise", "people", "command", "python"):
        assert tab.value(f"at('{part}').textContent") == found[part], part
    assert tab.value("at('errors').textContent") == "".join("".join(row) for row in found["errors"])
    # a slider moves the number beside it, and the answer
    tab.value(
        "at('epsilon-slider').value = 1000; at('epsilon-slider').dispatchEvent(new Event('input', {bubbles: true}))"
    )
    settle(tab)
    assert tab.value("at('epsilon').value") == "100"
    assert tab.value("at('headline').textContent") != found["headline"]
    tab.value("at('epsilon').value = ''; at('epsilon').dispatchEvent(new Event('input', {bubbles: true}))")
    settle(tab)
    assert "ε must be a number" in tab.value("at('refused').textContent")


def test_names_from_a_ledger_are_shown_as_text(server: PlanServer, tab: Tab) -> None:
    tab.open(server.url, 390, "light")
    choose(tab, "count", "add-remove", records=2000)
    assert "<img src=x" in tab.value("at('ledger').textContent")
    assert tab.value("window.hacked") is None
    assert tab.value("document.querySelectorAll('img, iframe, object').length") == 0


def test_another_page_cannot_ask(server: PlanServer, tab: Tab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answered: list[object] = []
    monkeypatch.setattr("privot.plan.server.answer", lambda *asked: answered.append(asked) or {})
    foreign = tmp_path / "foreign.html"
    foreign.write_text(
        f"<!doctype html><title>foreign</title><iframe src='{server.url}'></iframe><script>"
        f"fetch('{server.url}answer', {{method: 'POST', body: '{{}}', mode: 'no-cors'}})"
        ".then(() => window.got = 'sent', () => window.got = 'refused')</script>"
    )
    tab.open(foreign, 768, "light")
    end = time.monotonic() + 20
    while tab.value("window.got") is None:
        assert time.monotonic() < end
        time.sleep(0.05)
    # the browser hides what comes back; the server has not answered in the first place
    assert answered == []
    tab.errors.clear()
