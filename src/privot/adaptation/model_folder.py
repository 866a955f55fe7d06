"""The output folder of an adaptation: weights, guarantee, report; it sees what was released and the public source."""

from __future__ import annotations

import base64
from dataclasses import replace
from pathlib import Path
from typing import Any

from privot.adaptation.adaptation_design import AdaptationDesign
from privot.adaptation.adapter import DomainAdapter
from privot.adaptation.networks import build, check_known
from privot.adaptation.paying import counted_anew
from privot.errors import DataError
from privot.jobs.released_files import read_json, read_tensors, sync, write_bytes, write_json, write_tensors
from privot.jobs.spending import SPENT, spent_rows
from privot.opening import read_text
from privot.synthesis.design import usable_device
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
{% if curve %}<h2>Training</h2><img alt="Training" src="data:image/png;base64,{{ curve }}">{% endif %}
<p>The classifier follows from the public source and from what was paid for; nothing else of the private records was
looked at. The last weights were taken: no model was chosen by target labels.</p>
</body></html>
"""


def write_model(adapter: DomainAdapter, folder: Path) -> None:
    """Everything that predicting needs; the configuration last, so that a folder with one is whole.

    What an earlier model left goes first: a kill must not leave a new model beside the guarantee of an old one.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for name in (CONFIG, GUARANTEE, SPENT, REPORT, EVALUATION):
        (folder / name).unlink(missing_ok=True)
    sync(folder)
    write_tensors(folder / MODEL, adapter.networks_.state_dict(), {"kind": "adaptation"})
    if adapter.guarantee_ is not None:
        write_bytes(folder / GUARANTEE, (adapter.guarantee_.to_json() + "\n").encode())
    learned = {
        "losses": [float(f"{v:.6g}") for v in adapter.losses_],
        "charged": adapter.charged_,
        "lost": adapter.lost_,
        "stopped": adapter.stopped_,
        "released": adapter.guarantee_ is not None,
    }
    # a model is handed on: who gets it need not be able to tell the source by its digest
    design = replace(adapter.design_, source=None).to_dict()
    fields = {"schema": SCHEMA_VERSION, "kind": "adaptation", "design": design, "learned": learned}
    write_json(folder / CONFIG, fields)


def read_model(folder: Path, device: str = "cpu", network: str | None = None) -> DomainAdapter:
    """A fitted adapter; its guarantee is counted anew from its events. `network` allows one that is not built in."""
    adapter = _described(folder, device)
    config = adapter.design_.networks
    check_known(config["kind"], network)
    try:
        networks = build(config, adapter.design_.seed)
        networks.load_state_dict(read_tensors(folder / MODEL)[0])
        adapter.networks_ = networks.to(usable_device(device)).eval()
        return adapter
    except (KeyError, TypeError, RuntimeError, OSError) as error:
        raise DataError(f"{folder} does not hold a whole adaptation ({type(error).__name__}).") from None


def _described(folder: Path, device: str = "cpu") -> DomainAdapter:
    """What a folder says about its adaptation; no network is built, so nothing that it names is run."""
    fields = read_json(folder / CONFIG)
    if fields.get("schema") != SCHEMA_VERSION or fields.get("kind") != "adaptation":
        raise DataError(f"{folder / CONFIG} does not describe an adaptation that this privot reads.")
    try:
        design, learned = AdaptationDesign.from_dict(fields["design"]), fields["learned"]
        config = design.networks
        adapter = DomainAdapter(
            design.epsilon, design.delta, method=design.settings.method, network=config["kind"], shape=config["shape"],
            low=config["low"], high=config["high"], settings=design.settings, device=device, seed=design.seed,
        )  # fmt: skip
        adapter.design_ = design
        adapter.losses_ = [float(v) for v in learned["losses"]]
        adapter.charged_, adapter.lost_ = int(learned["charged"]), int(learned["lost"])
        adapter.stopped_ = bool(learned.get("stopped", False))
        adapter.guarantee_ = None
        if learned["released"]:
            adapter.guarantee_ = counted_anew(read_text(folder / GUARANTEE, inside=folder))
        return adapter
    except (KeyError, TypeError, RuntimeError, OSError) as error:
        raise DataError(f"{folder} does not hold a whole adaptation ({type(error).__name__}).") from None


def write_evaluation(folder: Path, accuracy: float, records: int) -> None:
    """A score on held-out records, marked as not private."""
    write_json(folder / EVALUATION, {"accuracy": accuracy, "records": records, "privacy": CONFIDENTIAL})


def write_report(folder: Path) -> Path:
    """One self-contained page about `folder`, from what lies in it."""
    from jinja2 import Environment

    from privot.synthesis.output.figures import draw_curve

    adapter = _described(folder)
    guarantee, design = adapter.guarantee_, adapter.design_
    claim = "No private record was looked at."
    if guarantee is not None:
        claim = (
            f"ε = {guarantee.epsilon():.6g} at δ = {guarantee.at_delta:g}, {guarantee.adjacency}, {guarantee.standing}."
        )
    evaluation: dict[str, Any] = read_json(folder / EVALUATION) if (folder / EVALUATION).exists() else {}
    rows = [(name, str(value)) for name, value in design.settings.to_dict().items()]
    rows += [("σ", f"{design.sigma:.6g}" if design.sigma is not None else "–"), ("seed", str(design.seed))]
    rows += [("blocks charged", str(adapter.charged_)), ("of those lost", str(adapter.lost_))]
    rows += [(f"ledger, {what}", words) for what, words in spent_rows(folder, guarantee)]
    rows += [("stopped", "the budget had no room for more blocks")] if adapter.stopped_ else []
    curve = base64.b64encode(draw_curve(adapter.losses_, "loss")).decode() if len(adapter.losses_) > 1 else ""
    text = (
        Environment(autoescape=True)
        .from_string(_PAGE)
        .render(
            claim=claim,
            standing=str(guarantee.standing) if guarantee is not None else "proven",
            explanation="" if guarantee is None else guarantee.explain(),
            tested=f"{100 * evaluation['accuracy']:.1f} % of {evaluation['records']}" if evaluation else "",
            confidential=CONFIDENTIAL,
            rows=rows,
            curve=curve,
        )
    )
    write_bytes(folder / REPORT, text.encode())
    return folder / REPORT
