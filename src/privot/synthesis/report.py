"""One self-contained HTML page about an output folder; it reads that folder and nothing else."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from privot.synthesis.files import read_json, write_bytes

REPORT = "report.html"

CONFIDENTIAL = "not private: these figures say something about the test records, so they are as confidential as those"
"""What is said wherever scores on real records are shown or written."""
_EVALUATED = "Trained on synthetic, tested on real"

_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>privot: synthetic data</title>
<style>
body { font: 16px/1.5 system-ui, sans-serif; max-width: 54rem; margin: 2rem auto; padding: 0 1rem; color: #222; }
table { border-collapse: collapse; } td, th { padding: .25rem .9rem .25rem 0; text-align: left; vertical-align: top; }
.claim { border-left: 4px solid {{ "#2a7" if standing == "proven" else "#c33" }}; padding: .5rem 1rem; }
.open { border-left: 4px solid #c33; padding: .5rem 1rem; }
img { max-width: 100%; image-rendering: pixelated; } code { font-size: .9em; }
</style></head><body>
<h1>Synthetic data</h1>
<p class="claim"><strong>ε = {{ epsilon }} at δ = {{ delta }}, {{ adjacency }}, {{ standing }}.</strong>
{{ explanation }}</p>
{% for title, rows, note in tables %}<h2>{{ title }}</h2>
<table>{% for row in rows %}<tr>{% for cell in row %}<td>{{ cell }}</td>{% endfor %}</tr>{% endfor %}</table>
{% if note %}<p class="open"><strong>{{ note }}</strong></p>{% endif %}
{% endfor %}
{% for title, picture in pictures %}<h2>{{ title }}</h2>
<img alt="{{ title }}" src="data:image/png;base64,{{ picture }}">
{% endfor %}
{% if evaluated %}<p>The guarantee above covers what follows from one paid release: the generator and the synthetic
data. It does not cover the table “{{ evaluated }}”, for which real records were looked at: remove evaluation.json and
write this page again (<code>privot report</code>) before handing it to anybody who may not see those records.</p>
{% else %}<p>Everything on this page follows from one paid release; nothing else of the records was looked at.</p>
{% endif %}
</body></html>
"""


def write_report(folder: Path) -> Path:
    """Write report.html from what lies in `folder`."""
    from jinja2 import Environment

    from privot.synthesis.folder import CONFIG, read_folder_guarantee

    guarantee = read_folder_guarantee(folder)
    fields = read_json(folder / CONFIG)
    pictures = [
        (title, base64.b64encode((folder / name).read_bytes()).decode())
        for title, name in (("Samples", "grid.png"), ("Training", "curves.png"))
        if (folder / name).exists()
    ]
    tables = [("How it was made", _facts(fields), "")]
    evaluated = (folder / "evaluation.json").exists()
    if evaluated:
        evaluation = read_json(folder / "evaluation.json")
        tables.insert(0, (_EVALUATED, _scores(evaluation), str(evaluation.get("privacy") or CONFIDENTIAL)))
    page = Environment(autoescape=True).from_string(_PAGE)
    text = page.render(
        epsilon=f"{guarantee.epsilon():.6g}",
        delta=f"{guarantee.at_delta:g}",
        adjacency=str(guarantee.adjacency),
        standing=str(guarantee.standing),
        explanation=guarantee.explain(),
        tables=tables,
        evaluated=_EVALUATED if evaluated else "",
        pictures=pictures,
    )
    write_bytes(folder / REPORT, text.encode())
    return folder / REPORT


def _facts(fields: Mapping[str, Any]) -> list[list[str]]:
    params, learned = fields["params"], fields["learned"]
    generator, features = learned["generator"], learned["features"]
    rows = [
        ["method", str(params["method"])],
        ["generator", f"{generator['kind']}, latent {generator['latent']}, {generator['classes']} classes"],
        ["features", ", ".join(f"{k} {v}" for k, v in features.items() if isinstance(v, int | float | str))[:300]],
        ["steps", str(len(learned["losses"]))],
        ["noisy class counts", ", ".join(f"{c:.0f}" for c in learned["counts"])],
    ]
    return rows


def _scores(fields: Mapping[str, Any]) -> list[list[str]]:
    rows = [["classifier", "on synthetic", "on real"]]
    for name, score in fields.get("scores", {}).items():
        real = fields.get("real", {}).get(name)
        rows.append([name, f"{100 * score:.1f} %", "–" if real is None else f"{100 * real:.1f} %"])
    return rows
