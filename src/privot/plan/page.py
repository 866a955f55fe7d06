"""The page itself: a form made from the fields, empty places for the answer, and its style; everything is escaped."""

from __future__ import annotations

from functools import cache
from html import escape
from importlib.resources import files

from privot import __version__
from privot.plan.plan_settings import ADJACENCIES, CLIPPINGS, FIELDS, KINDS, Field
from privot.report.page_style import STYLE

_OWN_STYLE = """
.desk { display: grid; gap: 1.5rem 2.5rem; grid-template-columns: minmax(0, 1fr); margin-top: 1.25rem; }
@media (min-width: 56rem) { .desk { grid-template-columns: minmax(0, 24rem) minmax(0, 1fr); align-items: start; } }
main { padding-bottom: 1rem; }
form { background: var(--card); border: 1px solid var(--line); border-radius: .6rem; padding: 1rem 1.15rem;
  min-width: 0; }
fieldset { border: 0; padding: 0; margin: 0 0 1rem; min-width: 0; } legend, .name { font-weight: 600; padding: 0; }
.field { margin: 0 0 .9rem; } .pair { display: grid; grid-template-columns: minmax(0, 1fr) 9rem; gap: .25rem .75rem;
  align-items: center; } .field label { font-weight: 600; } .hint { color: var(--soft); font-size: .85rem; }
.choice { display: flex; gap: .5rem; align-items: baseline; padding: .15rem 0; }
input, select, button { font: inherit; color: inherit; }
input[type=number], select { width: 100%; min-width: 0; background: var(--paper); border: 1px solid var(--soft);
  border-radius: .35rem; padding: .35rem .5rem; }
input[type=range] { width: 100%; min-width: 0; margin: .5rem 0; accent-color: var(--made); }
input[type=radio] { accent-color: var(--made); }
input:focus-visible, select:focus-visible, button:focus-visible { outline: 3px solid var(--made); outline-offset: 2px; }
button { background: var(--paper); border: 1px solid var(--soft); border-radius: .35rem; padding: .3rem .8rem;
  cursor: pointer; }
#answer { min-width: 0; } #answer-title { margin: 0; } #answer[aria-busy=true] .result { opacity: .55; }
.big { font-size: 2.1rem; font-weight: 650; margin: 0; line-height: 1.25; } .result h2 { margin-top: 1.75rem; }
.message { border-left: 4px solid var(--fair); padding: .5rem 1rem; background: var(--card); }
.copy { display: flex; flex-wrap: wrap; gap: .5rem 1rem; align-items: center; justify-content: space-between; }
.copy h3 { margin: 0; } meter { width: 100%; height: 1.1rem; }
.refused { color: var(--poor); } .fits { color: var(--good); }
.status { color: var(--soft); margin: 0; } .top { display: flex; flex-wrap: wrap; gap: 0 1rem; align-items: baseline;
  margin-bottom: .5rem; } [hidden] { display: none !important; }
"""
_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark"><meta name="referrer" content="no-referrer">
<title>privot plan</title><link rel="icon" href="data:,"><link rel="stylesheet" href="page.css">
<script src="page.js" defer></script></head><body>
<a class="skip" href="#answer">Skip to the answer</a>
<header><p class="kind">privot plan</p><h1>Try a budget before you spend it</h1>
<p class="lead">No data is read and nothing is charged. Every number comes from the library on this machine.</p>
</header>
<main><noscript><p class="message">This page sends what you type to privot on this machine, and needs scripts for it.
</p></noscript><div class="desk"><form id="form" aria-label="What is planned" autocomplete="off">
<div class="field"><label for="kind">What is released</label>
<select id="kind" name="kind">{kinds}</select></div>
<fieldset><legend>Neighbours</legend><p class="hint" id="neighbours">What may change without being noticed. It is always
stated, so nothing is chosen for you.</p>{adjacencies}</fieldset>
<fieldset id="clipping-set"><legend>What is clipped to norm 1</legend>{clippings}</fieldset>
{fields}</form>
<section id="answer" aria-labelledby="answer-title" aria-busy="false" tabindex="-1">
<div class="top"><h2 id="answer-title">The answer</h2><p class="status" id="status" role="status"></p></div>
<p class="message" id="refused" hidden></p>
<div class="result" id="result" hidden>
<p class="big" id="headline"></p><p class="verdict" id="promise"></p><p id="people"></p>
<h2>How wrong the answer is</h2>
<div class="scroll" tabindex="0" role="region" aria-label="How wrong the answer is"><table>
<caption>Because of the noise alone</caption><tbody id="errors"></tbody></table></div><div id="notes"></div>
<div id="measured-part"><h2>What was measured</h2><ul id="measured"></ul><p class="quiet" id="caution"></p></div>
<div id="ledger-part"><h2>What is left in the ledger</h2>
<p class="quiet" id="ledger-file"></p><div id="ledger"></div></div>
<h2>To copy</h2>
<div class="copy"><h3 id="command-title">Command line</h3>
<button type="button" data-copies="command">Copy the command</button></div>
<pre tabindex="0" role="region" aria-labelledby="command-title"><code id="command"></code></pre>
<div class="copy"><h3 id="python-title">Python</h3>
<button type="button" data-copies="python">Copy the Python</button></div>
<pre tabindex="0" role="region" aria-labelledby="python-title"><code id="python"></code></pre>
<details><summary><h2>Fine print</h2></summary><p id="explanation"></p>
<div class="scroll" tabindex="0" role="region" aria-label="The plan in numbers"><table>
<caption>The plan in numbers</caption><tbody id="facts"></tbody></table></div></details>
</div></section></div></main>
<footer><p>privot {version}. This page lives as long as the command that opened it: Ctrl-C in its terminal ends both.
</p></footer></body></html>
"""


@cache
def page() -> str:
    """The page's HTML.

    >>> page().count("<label") > len(FIELDS) and "http:" not in page()
    True
    """
    kinds = "".join(
        f'<option value="{name}" data-fields="{" ".join(kind.fields)}" data-clipping="{int(kind.clipping)}">'
        f"{escape(kind.label)}</option>"
        for name, kind in KINDS.items()
    )
    return _PAGE.format(
        kinds=kinds,
        adjacencies=_choices("adjacency", ADJACENCIES, None),
        clippings=_choices("clipping", CLIPPINGS, "per-example"),
        fields="".join(_field(name, field) for name, field in FIELDS.items()),
        version=escape(__version__),
    )


def style() -> str:
    """The style sheet: that of the reports, and what a form needs."""
    return STYLE + _OWN_STYLE


@cache
def script() -> str:
    """The script: it sends what is typed and shows what comes back."""
    return files("privot.plan").joinpath("page.js").read_text(encoding="utf-8")


def _choices(name: str, choices: dict[str, str], chosen: str | None) -> str:
    return "".join(
        f'<label class="choice"><input type="radio" name="{name}" value="{value}"'
        f"{' checked' if value == chosen else ''}><span>{value}: {escape(words)}</span></label>"
        for value, words in choices.items()
    )


def _field(name: str, field: Field) -> str:
    low, high = field.slider
    kind = ' data-log="1"' if field.log else ""
    return (
        f'<div class="field" data-field="{name}"><label for="{name}">{escape(field.label)}</label><div class="pair">'
        f'<input type="range" id="{name}-slider" aria-label="{escape(field.label)}, slider" min="0" max="1000" step="1"'
        f' data-slides="{name}" data-low="{low!r}" data-high="{high!r}" data-whole="{int(field.whole)}"{kind}>'
        f'<input type="number" id="{name}" name="{name}" min="{field.least:g}" max="{field.most:g}"'
        f' step="{1 if field.whole else "any"}" value="{field.first:g}" aria-describedby="{name}-hint" required></div>'
        f'<span class="hint" id="{name}-hint">{escape(field.hint)}</span></div>'
    )
