"""The output folder of an adaptation: weights, guarantee, report; it sees what was released and the public source."""

from __future__ import annotations

import base64
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from privot.adaptation.adaptation_design import AdaptationDesign
from privot.adaptation.networks import Committee, Networks, build, build_committee, check_known
from privot.adaptation.stand_in.report_figures import as_context
from privot.adaptation.stand_in.stand_in_learner import Checks
from privot.adaptation.stand_in.weighted_training import TableChecks
from privot.common.devices import usable_device
from privot.errors import DataError
from privot.guarantee import Guarantee
from privot.jobs.blocks import counted_anew
from privot.jobs.released_files import read_json, sync, write_bytes, write_json
from privot.jobs.spending import SPENT, spent_rows
from privot.jobs.tensor_files import read_tensors, write_tensors
from privot.opening import read_text
from privot.synthesis.output.html_report import CONFIDENTIAL

CONFIG = "config.json"
MODEL = "model.safetensors"
GUARANTEE = "guarantee.json"
REPORT = "report.html"
EVALUATION = "evaluation.json"
SCHEMA_VERSION = 1

_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>privot: domain adaptation</title>
<style>
body { font: 16px/1.5 system-ui, sans-serif; max-width: 54rem; margin: 2rem auto; padding: 0 1rem; color: #222; }
table { border-collapse: collapse; } td { padding: .25rem .9rem .25rem 0; text-align: left; vertical-align: top; }
.claim { border-left: 4px solid {{ "#2a7" if standing == "proven" else "#c33" }}; padding: .5rem 1rem; }
.open { border-left: 4px solid #c33; padding: .5rem 1rem; }
</style></head><body>
<h1>A classifier adapted to private records</h1>
<p class="claim"><strong>{{ claim }}</strong> {{ explanation }}</p>
{% if tested %}<h2>On held-out target records</h2><table><tr><td>accuracy</td><td>{{ tested }}</td></tr></table>
<p class="open"><strong>{{ confidential }}</strong></p>{% endif %}
<h2>How it was made</h2>
<table>{% for name, value in rows %}<tr><td>{{ name }}</td><td>{{ value }}</td></tr>{% endfor %}</table>
<h2>What is private and what is not</h2>
<table>{% for name, value in parts %}<tr><td>{{ name }}</td><td>{{ value }}</td></tr>{% endfor %}</table>
{% for f in figures %}<h2>{{ f.title }}</h2><p>{{ f.words }}</p>
{% if f.picture %}<img alt="{{ f.title }}" src="data:image/png;base64,{{ f.picture | base64 }}">{% endif %}{% endfor %}
{% if curve %}<h2>Training</h2><img alt="Training" src="data:image/png;base64,{{ curve }}">{% endif %}
<p>The classifier follows from the public source and from what was paid for; nothing else of the private records was
looked at. The last weights were taken: no model was chosen by target labels.</p>
</body></html>
"""


@dataclass
class Adapted:
    """The result of an adaptation without its networks: the design, the cost, the losses."""

    design: AdaptationDesign
    guarantee: Guarantee | None
    losses: list[float]
    charged: int
    lost: int
    stopped: bool
    checks: Checks | TableChecks | None = None
    """What the method stand-in found before it used its stand-in."""


def write_model(folder: Path, adapted: Adapted, networks: Networks | Committee) -> None:
    """Everything that predicting needs; the configuration last, so that a folder with one is whole.

    Files of an earlier model are removed first: a kill must not leave a new model beside the guarantee of an old one.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for name in (CONFIG, GUARANTEE, SPENT, REPORT, EVALUATION):
        (folder / name).unlink(missing_ok=True)
    sync(folder)
    write_tensors(folder / MODEL, networks.state_dict(), {"kind": "adaptation"})
    if adapted.guarantee is not None:
        write_bytes(folder / GUARANTEE, (adapted.guarantee.to_json() + "\n").encode())
    learned: dict[str, Any] = {
        "losses": [float(f"{v:.6g}") for v in adapted.losses],
        "charged": adapted.charged,
        "lost": adapted.lost,
        "stopped": adapted.stopped,
        "released": adapted.guarantee is not None,
    }
    if adapted.checks is not None:
        learned["checks"] = adapted.checks.to_dict()
    # a model is passed on: its receiver should not be able to identify the source by its digest
    design = replace(adapted.design, source=None).to_dict()
    fields = {"schema": SCHEMA_VERSION, "kind": "adaptation", "design": design, "learned": learned}
    write_json(folder / CONFIG, fields)


def read_model(folder: Path, device: str = "cpu", network: str | None = None) -> tuple[Adapted, Networks | Committee]:
    """What `write_model` wrote; the guarantee is counted anew. `network` allows a network that is not built in."""
    adapted = read_adapted(folder)
    config = adapted.design.networks
    check_known(config["kind"], network)
    try:
        members = adapted.design.settings.members
        networks: Networks | Committee = build(config, adapted.design.seed)
        if adapted.design.settings.method == "stand-in":
            networks = build_committee(config, adapted.design.seed, members)
        networks.load_state_dict(read_tensors(folder / MODEL)[0])
        return adapted, networks.to(usable_device(device, auto=True)).eval()
    except (KeyError, TypeError, RuntimeError, OSError) as error:
        raise DataError(f"{folder} does not hold a whole adaptation ({type(error).__name__}).") from None


def read_adapted(folder: Path) -> Adapted:
    """The facts in an adaptation's folder; no network is built, so no code that the folder names is run."""
    fields = read_json(folder / CONFIG)
    if fields.get("schema") != SCHEMA_VERSION or fields.get("kind") != "adaptation":
        raise DataError(f"{folder / CONFIG} does not describe an adaptation that this privot reads.")
    try:
        learned, guarantee = fields["learned"], None
        if learned["released"]:
            guarantee = counted_anew(read_text(folder / GUARANTEE, inside=folder))
        design = AdaptationDesign.from_dict(fields["design"])
        kind = Checks if design.table is None else TableChecks
        return Adapted(
            design,
            guarantee,
            [float(v) for v in learned["losses"]],
            int(learned["charged"]),
            int(learned["lost"]),
            bool(learned.get("stopped", False)),
            None if learned.get("checks") is None else kind(**{n: float(v) for n, v in learned["checks"].items()}),
        )
    except (KeyError, TypeError, RuntimeError, OSError) as error:
        raise DataError(f"{folder} does not hold a whole adaptation ({type(error).__name__}).") from None


def write_evaluation(folder: Path, accuracy: float, records: int) -> None:
    """A score on held-out records, marked as not private."""
    write_json(folder / EVALUATION, {"accuracy": accuracy, "records": records, "privacy": CONFIDENTIAL})


def write_report(folder: Path) -> Path:
    """One self-contained page about `folder`, made from its files."""
    from jinja2 import Environment

    from privot.synthesis.output.figures import draw_curve

    adapted = read_adapted(folder)
    guarantee, design = adapted.guarantee, adapted.design
    claim = "No private record was looked at."
    if guarantee is not None:
        claim = (
            f"ε = {guarantee.epsilon():.6g} at δ = {guarantee.at_delta:g}, {guarantee.adjacency}, {guarantee.standing}."
        )
    evaluation: dict[str, Any] = read_json(folder / EVALUATION) if (folder / EVALUATION).exists() else {}
    rows = [(name, str(value)) for name, value in design.settings.to_dict().items()]
    rows += [("σ", f"{design.sigma:.6g}" if design.sigma is not None else "–"), ("seed", str(design.seed))]
    rows += [("blocks charged", str(adapted.charged)), ("of those lost", str(adapted.lost))]
    rows += [(f"ledger, {what}", words) for what, words in spent_rows(folder, guarantee)]
    found = {} if adapted.checks is None else adapted.checks.to_dict()
    rows += [(f"check, {name}", f"{value:.3g}") for name, value in found.items()]
    rows += [("stopped", "the budget had no room for more blocks")] if adapted.stopped else []
    curve = base64.b64encode(draw_curve(adapted.losses, "loss")).decode() if len(adapted.losses) > 1 else ""
    pages = Environment(autoescape=True)
    pages.filters["base64"] = lambda picture: base64.b64encode(picture).decode()
    shape, method = design.networks["shape"], design.settings.method
    text = pages.from_string(_PAGE).render(
        **as_context(folder, shape, guarantee, method, bool(evaluation)),
        claim=claim,
        standing=str(guarantee.standing) if guarantee is not None else "proven",
        explanation="" if guarantee is None else guarantee.explain(),
        tested=f"{100 * evaluation['accuracy']:.1f} % of {evaluation['records']}" if evaluation else "",
        confidential=CONFIDENTIAL,
        rows=rows,
        curve=curve,
    )
    write_bytes(folder / REPORT, text.encode())
    return folder / REPORT
