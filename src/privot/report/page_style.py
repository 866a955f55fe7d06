"""The style sheet of every page: light and dark, phone to paper. It loads nothing.

Words stand on backgrounds with a contrast of at least 4.5 to 1 in both palettes; a test measures it.
"""

from __future__ import annotations

LIGHT = {
    "paper": "#ffffff", "card": "#f4f6f8", "ink": "#1b1f24", "soft": "#525c66", "line": "#c6ced6",
    "made": "#0b63c5", "real": "#a84300", "good": "#1a7f37", "fair": "#8a5a00", "poor": "#b42318", "alarm": "#fdecea",
}  # fmt: skip
DARK = {
    "paper": "#12161c", "card": "#1c232c", "ink": "#e8ebef", "soft": "#aab4bf", "line": "#465261",
    "made": "#6cb2ff", "real": "#ffb066", "good": "#56d67b", "fair": "#e3b341", "poor": "#ff8f85", "alarm": "#3a1a18",
}  # fmt: skip
"""Colours by role: `made` is synthetic, `real` is real; good, fair and poor are always said in words as well."""


def _variables(palette: dict[str, str]) -> str:
    return " ".join(f"--{name}: {colour};" for name, colour in palette.items())


STYLE = (
    f":root {{ color-scheme: light dark; {_variables(LIGHT)} }}\n"
    f"@media screen and (prefers-color-scheme: dark) {{ :root {{ {_variables(DARK)} }} }}\n"
    """
* { box-sizing: border-box; }
body { margin: 0; background: var(--paper); color: var(--ink); font: 1rem/1.55 system-ui, sans-serif;
  overflow-wrap: anywhere; }
header, nav, main, footer { max-width: 68rem; margin: 0 auto; padding: 0 1.25rem; }
header { padding-top: 1.75rem; } footer { padding: 1.5rem 1.25rem 3rem; color: var(--soft); font-size: .9rem; }
h1 { font-size: 1.9rem; line-height: 1.2; margin: 0 0 .5rem; } h2 { font-size: 1.35rem; margin: 2.5rem 0 .75rem; }
h3 { font-size: 1.05rem; margin: 0 0 .4rem; } p { margin: .5rem 0; max-width: 46rem; }
a { color: var(--made); }
a:focus-visible, summary:focus-visible, .scroll:focus-visible { outline: 3px solid var(--made); outline-offset: 2px; }
.skip { position: absolute; left: -99rem; }
.skip:focus { left: 1rem; top: .5rem; background: var(--paper); padding: .5rem; }
.kind { color: var(--soft); margin: 0 0 .25rem; } .lead { font-size: 1.15rem; }
.alarm { background: var(--alarm); border: 2px solid var(--poor); padding: .75rem 1.25rem; margin: 0; }
.alarm p { margin: 0 auto; max-width: 65.5rem; } .alarm strong { color: var(--poor); }
nav ul { display: flex; flex-wrap: wrap; gap: .25rem 1.25rem; padding: 0; margin: 1rem 0 0; list-style: none; }
nav a { display: inline-block; padding: .25rem 0; }
.cards { display: grid; gap: 1rem; grid-template-columns: repeat(auto-fit, minmax(min(100%, 22rem), 1fr)); }
.card { background: var(--card); border: 1px solid var(--line); border-radius: .6rem; padding: 1rem 1.15rem;
  border-top: 4px solid var(--line); min-width: 0; }
.card.good { border-top-color: var(--good); } .card.fair { border-top-color: var(--fair); }
.card.poor { border-top-color: var(--poor); } .card p:last-child { margin-bottom: 0; }
.verdict { font-weight: 650; } .good .verdict { color: var(--good); } .fair .verdict { color: var(--fair); }
.poor .verdict { color: var(--poor); } .quiet { color: var(--soft); font-size: .9rem; }
ul { margin: .5rem 0; padding-left: 1.25rem; max-width: 46rem; } li { margin: .2rem 0; }
.grid { display: grid; gap: 1.25rem; align-items: start;
  grid-template-columns: repeat(auto-fit, minmax(min(100%, 19rem), 1fr)); }
figure { margin: .5rem 0; min-width: 0; } figcaption { color: var(--soft); font-size: .9rem; margin-top: .35rem; }
.drawing { display: block; width: 100%; height: auto; overflow: visible; }
img { display: block; max-width: 100%; height: auto; border: 1px solid var(--line); background: #fff; }
.pixels { image-rendering: pixelated; width: 100%; max-width: 30rem; }
.scroll { overflow-x: auto; margin: .5rem 0; } table { border-collapse: collapse; font-size: .95rem; }
caption { text-align: left; color: var(--soft); padding-bottom: .3rem; }
td, th { padding: .3rem 1rem .3rem 0; text-align: left; vertical-align: top; overflow-wrap: normal;
  border-bottom: 1px solid var(--line); }
td { overflow-wrap: break-word; max-width: 34rem; } th[scope=row] { font-weight: 500; max-width: 20rem; }
pre { background: var(--card); border: 1px solid var(--line); border-radius: .4rem; padding: .75rem 1rem;
  margin: .5rem 0; white-space: pre-wrap; font-size: .88rem; }
details { border: 1px solid var(--line); border-radius: .5rem; padding: .5rem 1rem; margin: .75rem 0; }
summary { cursor: pointer; font-weight: 600; padding: .25rem 0; }
summary h2, summary h3 { display: inline; margin: 0; font-size: 1.05rem; }
text { font: 11.5px system-ui, sans-serif; fill: var(--ink); } text.strong { font-weight: 650; }
text.middle { text-anchor: middle; } text.end { text-anchor: end; }
.fill { fill: var(--made); } .stroke { fill: none; stroke: var(--made); stroke-width: 2; }
.fill.real { fill: var(--real); } .stroke.real { stroke: var(--real); } .fill.soft { fill-opacity: .55; }
.fill.good { fill: var(--good); } .fill.fair { fill: var(--fair); } .fill.poor { fill: var(--poor); }
.stroke.thin { stroke-width: 1.3; stroke-dasharray: 5 3; }
.track, .cell { fill: var(--line); fill-opacity: .35; } .ink { stroke: var(--ink); stroke-width: 2; }
.axis { stroke: var(--soft); fill: none; } .rule { stroke: var(--line); } .dashed { stroke-dasharray: 4 4; }
.key { display: flex; flex-wrap: wrap; gap: .25rem 1.25rem; padding: 0; list-style: none; }
.key span { display: inline-block; width: 1.1rem; height: .7rem; margin-right: .4rem; background: var(--made);
  opacity: .6; }
.key .real { background: var(--real); height: .2rem; vertical-align: middle; opacity: 1; }
@media (max-width: 30rem) { h1 { font-size: 1.5rem; } .card { padding: .8rem .9rem; } }
@media print {
  body { font-size: 10.5pt; } nav, .skip { display: none; } .card, figure, tr { break-inside: avoid; }
  h2, h3 { break-after: avoid; } details { border: 0; padding: 0; }
  details::details-content { content-visibility: visible; block-size: auto; }
  .scroll { overflow: visible; }
}
"""
)
