"""The output folder of an adaptation: weights, guarantee, report; it sees what was released and the public source."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from privot.adaptation.adaptation_design import AdaptationDesign
from privot.adaptation.adaptation_methods import method_of, read_design
from privot.adaptation.networks import Committee, Networks, check_known
from privot.adaptation.stand_in.report_figures import figures_of, privacy_of_parts
from privot.common.devices import usable_device
from privot.common.visible import command_line
from privot.errors import DataError
from privot.guarantee import Guarantee
from privot.jobs.blocks import counted_anew
from privot.jobs.released_files import read_json, sync, write_bytes, write_json
from privot.jobs.spending import SPENT
from privot.jobs.tensor_files import read_tensors, write_tensors
from privot.opening import read_text
from privot.report.adaptation_page import PRIVATE_REPORT, REPORT, write_adaptation_pages
from privot.report.evaluation_parts import CONFIDENTIAL

CONFIG = "config.json"
MODEL = "model.safetensors"
GUARANTEE = "guarantee.json"
EVALUATION = "evaluation.json"
SCHEMA_VERSION = 1


@dataclass
class Adapted:
    """The result of an adaptation without its networks: the design, the cost, the losses."""

    design: AdaptationDesign
    guarantee: Guarantee | None
    losses: list[float]
    charged: int
    lost: int
    checks: Any = None
    """What was found before a stand-in was used."""


def write_model(folder: Path, adapted: Adapted, networks: Networks | Committee) -> None:
    """Everything that predicting needs; the configuration last, so that a folder with one is whole.

    Files of an earlier model are removed first: a kill must not leave a new model beside the guarantee of an old one.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for name in (CONFIG, GUARANTEE, SPENT, REPORT, PRIVATE_REPORT, EVALUATION):
        (folder / name).unlink(missing_ok=True)
    sync(folder)
    write_tensors(folder / MODEL, networks.state_dict(), {"kind": "adaptation"})
    if adapted.guarantee is not None:
        write_bytes(folder / GUARANTEE, (adapted.guarantee.to_json() + "\n").encode())
    learned: dict[str, Any] = {
        "losses": [float(f"{v:.6g}") for v in adapted.losses],
        "charged": adapted.charged,
        "lost": adapted.lost,
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
    check_known(adapted.design.networks["kind"], network)
    try:
        networks = method_of(adapted.design).networks(adapted.design)
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
        design = read_design(fields["design"])
        return Adapted(
            design,
            guarantee,
            [float(v) for v in learned["losses"]],
            int(learned["charged"]),
            int(learned["lost"]),
            None if learned.get("checks") is None else _checks(design, learned["checks"]),
        )
    except (KeyError, TypeError, RuntimeError, OSError) as error:
        raise DataError(f"{folder} does not hold a whole adaptation ({type(error).__name__}).") from None


def _checks(design: AdaptationDesign, found: dict[str, Any]) -> Any:
    return method_of(design).checks(**{name: float(value) for name, value in found.items()})


def write_evaluation(
    folder: Path,
    accuracy: float,
    records: int,
    confusion: list[list[int]] | None = None,
    baseline: float | None = None,
    harmed: bool = False,
) -> None:
    """A score on held-out records, marked as not private.

    Parameters
    ----------
    accuracy, records
        The share of so many records that is classified correctly.
    confusion
        How many records of each class (rows) were given each label (columns).
    baseline
        The accuracy of the same networks, trained on the public source alone.
    harmed
        Whether that is more than chance explains.
    """
    fields: dict[str, Any] = {"accuracy": accuracy, "records": records, "privacy": CONFIDENTIAL}
    if confusion is not None:
        fields["confusion"] = {"matrix": confusion}
    if baseline is not None:
        fields |= {"baseline": baseline, "harmed": harmed}
    write_json(folder / EVALUATION, fields)


def write_report(folder: Path) -> Path:
    """One self-contained page about `folder`, made from its files, and a second one for a score on real records."""
    adapted = read_adapted(folder)
    guarantee, design = adapted.guarantee, adapted.design
    evaluation = read_json(folder / EVALUATION) if (folder / EVALUATION).exists() else None
    facts = [(name, str(value)) for name, value in design.settings.to_dict().items()]
    facts += [("σ", f"{design.sigma:.6g}" if design.sigma is not None else "–"), ("seed", str(design.seed))]
    facts += [("blocks charged", str(adapted.charged)), ("of those lost", str(adapted.lost))]
    found = {} if adapted.checks is None else adapted.checks.to_dict()
    facts += [(f"check, {name}", f"{value:.3g}") for name, value in found.items()]
    return write_adaptation_pages(
        folder,
        guarantee,
        facts,
        adapted.losses,
        evaluation,
        [(f.title, f.words, f.picture) for f in figures_of(folder, design.networks["shape"])],
        privacy_of_parts(guarantee, design.settings.releases, method_of(design).follows, evaluation is not None),
        _command(design, guarantee),
    )


def _command(design: AdaptationDesign, guarantee: Guarantee | None) -> str:
    """The command that makes such a folder; the data and the output folder are the user's to name."""
    if guarantee is None:
        return ""
    words = ["privot", "adapt", "SOURCE", "TARGET", "--epsilon", f"{design.epsilon:g}", "--delta", f"{design.delta:g}"]
    words += ["--adjacency", str(guarantee.adjacency), "--method", design.settings.name]
    if design.table is not None:
        words += ["--schema", "SCHEMA.json"]
    if guarantee.unit is not None:
        words += ["--unit", guarantee.unit.name, "--per-unit", str(guarantee.unit.rows)]
    return command_line([*words, "--out", "DIR"])
