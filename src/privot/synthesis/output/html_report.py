"""One self-contained HTML page about an output folder; it reads that folder and nothing else."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from privot import __version__
from privot.errors import DataError
from privot.guarantee import Guarantee
from privot.jobs.released_files import read_json, write_bytes
from privot.jobs.spending import spent_rows
from privot.opening import read_bytes
from privot.synthesis.output.saved_model import CONFIG, read_folder_guarantee
from privot.synthesis.tabular.table_folder import facts_of

REPORT = "report.html"
AUDIT = "audit.json"
MAX_PICTURE = 1 << 26
"""Bytes of one picture of the page."""
_PNG = b"\x89PNG\r\n\x1a\n"

CONFIDENTIAL = "not private: these figures say something about the test records, so they are as confidential as those"
"""The warning beside every score on real records."""
_EVALUATED = "Trained on synthetic, tested on real"

Part = tuple[str, list[str], list[list[str]], str]
"""A table of the page: its title, the heads of its columns (perhaps none), its rows, and a note below it."""

_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>privot: synthetic data</title>
<style>
body { font: 16px/1.5 system-ui, sans-serif; max-width: 54rem; margin: 2rem auto; padding: 0 1rem; color: #222; }
table { border-collapse: collapse; } td, th { padding: .25rem .9rem .25rem 0; text-align: left; vertical-align: top; }
.claim { border-left: 4px solid {{ "#2a7" if standing == "proven" else "#c33" }}; padding: .5rem 1rem; }
.open { border-left: 4px solid #c33; padding: .5rem 1rem; }
th { border-bottom: 1px solid #999; } img { max-width: 100%; } .pixels { image-rendering: pixelated; }
code { font-size: .9em; }
</style></head><body>
<h1>Synthetic data</h1>
<p class="claim"><strong>ε = {{ epsilon }} at δ = {{ delta }}, {{ adjacency }}, {{ standing }}.</strong>
{{ explanation }}</p>
{% for title, heads, rows, note in tables %}<h2>{{ title }}</h2>
<table>{% if heads %}<tr>{% for cell in heads %}<th>{{ cell }}</th>{% endfor %}</tr>{% endif %}
{% for row in rows %}<tr>{% for cell in row %}<td>{{ cell }}</td>{% endfor %}</tr>{% endfor %}</table>
{% if note %}<p class="open"><strong>{{ note }}</strong></p>{% endif %}
{% endfor %}
{% for title, picture in pictures %}<h2>{{ title }}</h2>
<img alt="{{ title }}"{% if title == "Samples" %} class="pixels"{% endif %} src="data:image/png;base64,{{ picture }}">
{% endfor %}
{% if evaluated %}<p>The guarantee above covers what follows from what was paid for: the generator and the synthetic
data. It does not cover “{{ evaluated }}”, for which real records were looked at: remove evaluation.json and
write this page again (<code>privot report</code>) before handing it to anybody who may not see those records.</p>
{% else %}<p>Everything on this page follows from what was paid for; nothing else of the records was looked at.</p>
{% endif %}
<p>Written by privot {{ version }} from the files of this folder; guarantee.json holds the guarantee for machines.</p>
</body></html>
"""


def write_report(folder: Path) -> Path:
    """Write report.html from what lies in `folder`."""
    from jinja2 import Environment

    guarantee = read_folder_guarantee(folder)
    fields = read_json(folder / CONFIG)
    pictures = [
        (title, base64.b64encode(_picture(folder, name)).decode())
        for title, name in (("Samples", "grid.png"), ("Synthetic columns", "marginals.png"), ("Training", "curves.png"))
        if (folder / name).exists()
    ]
    paid = [[str(number), _words(event)] for number, event in enumerate(guarantee.events, 1)]
    tables: list[Part] = [
        ("What was paid for", ["event", "as it is counted"], paid, ""),
        *_spent(folder, guarantee),
        ("How it was made", [], _facts(fields), ""),
    ]
    evaluated: list[str] = []
    if (folder / "evaluation.json").exists():
        evaluation = read_json(folder / "evaluation.json")
        said = _read("evaluation.json", lambda: [_scores(evaluation), *_comparisons(evaluation)])
        evaluated = [part[0] for part in said]
        tables = said + tables
    if (folder / AUDIT).exists():
        audited = read_json(folder / AUDIT)
        tables += _read(AUDIT, lambda: _attacks(audited))
    explanation, standing = guarantee.explain(), str(guarantee.standing)
    # its first words are the headline already
    said_twice, _, rest = explanation.partition(f"{standing}. ")
    page = Environment(autoescape=True).from_string(_PAGE)
    text = page.render(
        epsilon=f"{guarantee.epsilon():.6g}",
        delta=f"{guarantee.at_delta:g}",
        adjacency=str(guarantee.adjacency),
        standing=standing,
        explanation=rest or said_twice,
        version=__version__,
        tables=tables,
        evaluated="”, “".join(evaluated),
        pictures=pictures,
    )
    write_bytes(folder / REPORT, text.encode())
    return folder / REPORT


def _picture(folder: Path, name: str) -> bytes:
    """A PNG image of the folder itself: links and other files are refused."""
    content = read_bytes(folder / name, most=MAX_PICTURE, inside=folder)
    if not content.startswith(_PNG):
        raise DataError(f"{name} in {folder} is not a PNG image: make it again, or remove it.")
    return content


def _spent(folder: Path, guarantee: Guarantee) -> list[Part]:
    """The totals of the ledger when the folder was written, if there are any."""
    rows = spent_rows(folder, guarantee)
    return [("What the ledger holds", [], rows, "")] if rows else []


def _read(name: str, read: Callable[[], list[Part]]) -> list[Part]:
    """`read` applied to a file, which is untrusted input."""
    try:
        return read()
    except (AttributeError, KeyError, TypeError, ValueError, IndexError):
        raise DataError(f"{name} is damaged: make it again, or remove it.") from None


def _facts(fields: Mapping[str, Any]) -> list[list[str]]:
    params, learned = fields["params"], fields["learned"]
    if params.get("codec") is not None:
        return facts_of(params, learned)
    generator, features = learned["generator"], learned["features"]
    rows = [
        ["method", str(params["method"])],
        ["generator", f"{generator['kind']}, latent {generator['latent']}, {generator['classes']} classes"],
        ["steps", str(len(learned["losses"]))],
    ]
    if features is None:
        options = (learned.get("rules") or {}).get("options", {})
        rows.append(["options", ", ".join(f"{k} {v}" for k, v in options.items())[:600]])
        return rows
    rows.append(
        ["features", ", ".join(f"{k} {v}" for k, v in features.items() if isinstance(v, int | float | str))[:300]]
    )
    counts = learned["counts"]
    rows.append(["share of each class", ", ".join(f"{100 * c / sum(counts):.1f} %" for c in counts)])
    if min(counts) == 0.0:
        rows.append(["left out", "classes whose noisy count is below three standard deviations of its noise"])
    return rows


def _words(event: Any) -> str:
    """An event's fields in words, those of an event inside it in brackets."""
    if not isinstance(event, Mapping):
        return f"{event:.6g}" if isinstance(event, float) else str(event)
    said = [str(event["kind"])] if "kind" in event else []
    for name, value in event.items():
        if isinstance(value, Mapping):
            said.append(f"{name} ({_words(value)})")
        elif name != "kind" and isinstance(value, int | float | str):
            said.append(f"{name} {_words(value)}")
        elif isinstance(value, list | tuple) and any(isinstance(v, Mapping) for v in value):
            said.append(f"{name}: " + "; ".join(f"({_words(v)})" for v in value))
    return ", ".join(said)


def _scores(fields: Mapping[str, Any]) -> Part:
    """Accuracy, and ROC-AUC where it was measured, of what was trained on synthetic and on real records."""
    rows = []
    for measure, real, form in (("scores", "real", "{:.1%}"), ("auc", "real_auc", "{:.4f}")):
        for name, score in (fields.get(measure) or {}).items():
            other = (fields.get(real) or {}).get(name)
            shown = ["–" if v is None else form.format(v).replace("%", " %") for v in (score, other)]
            rows.append([name if measure == "scores" else f"{name}, ROC-AUC", *shown])
    heads = ["classifier", "on synthetic", "on real"] if rows else []
    return _EVALUATED, heads, rows, str(fields.get("privacy") or CONFIDENTIAL)


def _comparisons(fields: Mapping[str, Any]) -> list[Part]:
    """For tables: distances of columns and pairs, and distances to real records."""
    out: list[Part] = []
    privacy = str(fields.get("privacy") or CONFIDENTIAL)
    if "marginals" in fields:
        worst = sorted(fields["marginals"].items(), key=lambda item: -item[1])[:10]
        rows = [
            ["columns, mean", f"{fields['marginal_distance']:.4f}"],
            ["pairs, mean", f"{fields['pair_distance']:.4f}"],
        ]
        rows += [[f"column {name}", f"{distance:.4f}"] for name, distance in worst]
        out.append(("Total-variation distance to the real records", [], rows, privacy))
    if "nearest" in fields:
        near = fields["nearest"]
        heads, rows = ["distance to the nearest real record", "1 %", "5 %", "50 %"], []
        for name, key in (("synthetic records", "synthetic"), ("other real records", "held_out")):
            rows.append([name, *[f"{v:.4f}" for v in near[key]]])
        out.append(("Nearest real neighbours", heads, rows, str(near["marked"])))
    return out


def _attacks(fields: Mapping[str, Any]) -> list[Part]:
    """What `privot audit` found: claimed beside measured, checks, and tests of membership."""
    measured = [["attack", "claimed ε at most", "measured ε at least", "δ", "neighbours, standing", "verdict"]]
    checks, failed = [["what was checked", "verdict", "detail"]], []
    for found in fields.get("findings", []):
        if found["kind"] == "check":
            checks.append([found["name"], "passed" if found["passed"] else "FAILED", found["detail"]])
            failed += [] if found["passed"] else [found["name"]]
            continue
        claimed, seen = found["claimed"], found["measured"]
        words = f"{seen['epsilon']:.3g}"
        if seen.get("epsilon_if_gaussian") is not None:
            words += f" ({seen['epsilon_if_gaussian']:.3g} if the noise is Gaussian)"
        measured.append(
            [
                found["name"],
                "nothing" if claimed["epsilon"] is None else f"{claimed['epsilon']:.4g}",
                f"{words}, {100 * seen['confidence']:.0f} % sure",
                f"{claimed['delta']:g}",
                f"{claimed['adjacency']}, {claimed['standing']}",
                "REFUTED" if found["refuted"] else "not refuted",
            ]
        )
        failed += [found["name"]] if found["refuted"] else []
    guesses = [
        ["generator and test", "AUC (½ is a guess)", "members nearly copied", "non-members", "ε at least, one run"]
    ]
    for test in fields.get("membership", []):
        low, high = test["auc_interval"]
        least, most = test["copied_interval"]
        guesses.append(
            [
                test["name"],
                f"{test['auc']:.3f} ({low:.3f} to {high:.3f})",
                f"{100 * test['copied']:.1f} % ({100 * least:.1f} to {100 * most:.1f})",
                f"{100 * test['copied_others']:.1f} %",
                f"{test['epsilon']:.3g} at δ = {test['delta']:g}, {test['adjacency']}",
            ]
        )
    note = f"Did not survive the audit: {', '.join(failed)}." if failed else ""
    parts = (
        ("Audit: claimed and measured", measured, note),
        ("Audit: who was in the data (on records of the audit's own)", guesses, ""),
        ("Audit: checks", checks, ""),
    )
    return [(title, rows[0], rows[1:], words) for title, rows, words in parts if len(rows) > 1 or words]
