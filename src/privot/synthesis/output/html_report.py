"""The pages about an output folder: one to hand on, and one that shows real records and must not be published.

Both read that folder and nothing else. What follows from the release alone (samples, columns, audit) and what was
measured on public test records goes on report.html; figures that looked at real records go on report-private.html,
which exists only while evaluation.json does.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from privot.common.visible import command_line
from privot.errors import DataError
from privot.guarantee import Guarantee
from privot.jobs.released_files import read_json, write_bytes
from privot.opening import read_bytes
from privot.report import verdict
from privot.report.audit_parts import audit_card, audit_section
from privot.report.evaluation_parts import (
    CONFIDENTIAL,
    PNG,
    columns_section,
    correlations_section,
    evaluation_sections,
    public_part,
    quality_card,
)
from privot.report.html_page import Card, Chart, Items, Link, Page, Paragraph, Part, Photo, Section, render
from privot.report.page_charts import steps_line
from privot.report.svg_drawing import clean
from privot.report.table_parts import verdict_card
from privot.synthesis.methods import method_named
from privot.synthesis.neural.features.encoder_codes import EncoderClassifier
from privot.synthesis.neural.features.scattering import ScatteringClassifier
from privot.synthesis.neural.public.public_means import PublicUse
from privot.synthesis.output.saved_model import CONFIG, read_folder_guarantee
from privot.synthesis.tabular.related import related_folder
from privot.synthesis.tabular.table_folder import FIGURES, facts_of
from privot.tables.related_codec import KIND as RELATED

__all__ = ["AUDIT", "CONFIDENTIAL", "EVALUATION", "PRIVATE_REPORT", "REPORT", "write_report"]

REPORT = "report.html"
PRIVATE_REPORT = "report-private.html"
"""The page with figures about real records."""
AUDIT = "audit.json"
EVALUATION = "evaluation.json"
MAX_PICTURE = 1 << 26
"""Bytes of one picture of the page."""

T = TypeVar("T")


def write_report(folder: Path) -> Path:
    """Write report.html from what lies in `folder`, and report-private.html where there is an evaluation."""
    guarantee = read_folder_guarantee(folder)
    fields = read_json(folder / CONFIG)
    measured = read_json(folder / EVALUATION) if (folder / EVALUATION).exists() else None
    page, private = _pages(folder, guarantee, fields, measured)
    write_bytes(folder / REPORT, render(page))
    if private is None:
        # it was about an evaluation that was removed
        (folder / PRIVATE_REPORT).unlink(missing_ok=True)
    else:
        write_bytes(folder / PRIVATE_REPORT, render(private))
    return folder / REPORT


def _pages(
    folder: Path, guarantee: Guarantee, fields: Mapping[str, Any], measured: Mapping[str, Any] | None
) -> tuple[Page, Page | None]:
    table = fields["params"].get("codec") is not None
    linked = table and _is_related(fields["params"])
    subject = "Synthetic tables" if linked else "Synthetic table" if table else "Synthetic data"
    open_part = None if measured is None else public_part(measured)
    figures = read_json(folder / FIGURES) if (folder / FIGURES).exists() else {}
    worst = _read(EVALUATION, lambda: _worst(open_part))
    # sentences about the release itself, before anything was measured
    worst = _read(FIGURES, lambda: [clean(str(said), 600) for said in figures.get("drowned", [])]) + worst
    _, promise = verdict.in_words(guarantee)
    cards = [
        verdict.promise_card(guarantee, "everything made from this release"),
        verdict.cost_card(folder, guarantee),
        *_read(EVALUATION, lambda: verdict_card(open_part or {})),
        _read(EVALUATION, lambda: _quality(open_part, measured is not None)),
        Card("What they are not good for", [Items(_limits(guarantee, fields, table) + worst)]),
    ]
    sections = _samples(folder)
    if open_part is None:
        sections += _read(FIGURES, lambda: _columns(figures))
    else:
        sections += _read(EVALUATION, lambda: evaluation_sections(open_part))
    if (folder / AUDIT).exists():
        audited = read_json(folder / AUDIT)
        cards.append(_read(AUDIT, lambda: audit_card(audited)))
        sections.append(_read(AUDIT, lambda: audit_section(audited)))
    sections += _training(fields)
    sections.append(verdict.curve_section(guarantee))
    command = _read(CONFIG, lambda: _command(guarantee, fields["params"], fields["learned"]))
    sections.append(verdict.fine_print(folder, guarantee, _facts(fields), command))
    looked = "Everything on this page follows from what was paid for; nothing else of the records was looked at."
    if open_part is not None:
        looked = (
            "Everything on this page follows from what was paid for and from test records that were stated to be "
            "public; nothing else of the records was looked at."
        )
    lead = f"{subject} made from private records. {promise}: {guarantee.stated()}."
    footer = [looked, "Made from the files of its folder; guarantee.json holds the guarantee for machines."]
    page = Page(subject, "Report for a steward", lead, cards, sections, footer)
    if measured is None:
        return page, None
    return page, _read(EVALUATION, lambda: _private(subject, measured))


def _private(subject: str, measured: Mapping[str, Any]) -> Page:
    """The page with everything that was found by looking at real records."""
    privacy = clean(measured.get("privacy") or CONFIDENTIAL, 400)
    lead = "How close the synthetic data come to real records, measured on the records themselves."
    alarm = (
        f"This page is {privacy}. The guarantee does not cover it: hand on {REPORT} instead, and keep this page with "
        "the records."
    )
    cards = [*verdict_card(measured), quality_card(measured)]
    cards.append(Card("What to do with this page", [Items(_care())], "poor"))
    footer = [f"Remove {EVALUATION} and run privot report again: this page is removed, and {REPORT} stays as it is."]
    return Page(
        f"{subject} beside real records", "Not private", lead, cards, evaluation_sections(measured), footer, alarm
    )


def _care() -> list[str]:
    return [
        "Read it where you may read the records themselves.",
        "Do not choose among several syntheses by it: the choice would tell something about the records that nobody "
        "paid for.",
        f"Hand on {REPORT}: it holds nothing from this page.",
    ]


def _quality(open_part: Mapping[str, Any] | None, measured: bool) -> Card:
    title = "How good the data are"
    if open_part is not None:
        return quality_card(open_part, title)
    if measured:
        words = "It was measured on real records, so the figures are on a page of their own, which is not private."
        return Card(title, [Paragraph(words), Link("The page that must not be published", PRIVATE_REPORT)])
    words = (
        "Nobody has measured it yet: run privot evaluate on this folder, with records that were not used for it. With "
        "--public-test the figures come here, else on a page of their own."
    )
    return Card(title, [Paragraph(words)])


def _limits(guarantee: Guarantee, fields: Mapping[str, Any], table: bool) -> list[str]:
    """What these data must not be used for, in plain words."""
    said = ["Looking somebody up: no synthetic record stands for a real one."]
    apart = guarantee.delta(0.0)
    if 0.0 < apart < 0.5:
        units = "records" if guarantee.unit is None else f"units (all rows with the same {guarantee.unit.name} are one)"
        # n records move the law by at most n times what one does, and ½ lets a guess be right three times in four
        said.append(
            f"Rare groups: whether {math.floor(0.5 / apart)} {units} of a kind are in the data or not cannot be told "
            "from any release with this promise more often than three times in four; groups several times as large "
            "may be blurred too."
        )
    said.append(
        "More certainty: drawing more synthetic records adds nothing. Intervals and p-values computed from them as if "
        "they were real are too narrow."
    )
    if table and _is_related(fields["params"]):
        said.append(related_folder.LIMITS)
    elif table:
        said.append(
            "Sequences and links between rows, such as several visits of one patient: every row is drawn by itself."
        )
    if table:
        said.append("Relations of many columns at once beyond those that the release measured.")
    elif _of_leaves(fields):
        said.append(
            "What the records look like: the images are drawn discs and boxes, for classifiers to learn from; only "
            "their labels, and a little of their light, come from the records."
        )
    elif fields["params"].get("shape"):
        said.append("Single images and fine detail: what a generator adds there is invented.")
    gone = _left_out(fields)
    if gone:
        said.append(f"Classes that are left out, because noise hides how few records they have: {', '.join(gone)}.")
    return said


def _of_leaves(fields: Mapping[str, Any]) -> bool:
    """Whether samples are drawn pictures with labels (`generators.leaves`)."""
    learned = fields["learned"]
    if not isinstance(learned, Mapping) or learned.get("labeller") is None:
        return False
    generator = learned.get("generator")
    return isinstance(generator, Mapping) and generator.get("kind") == "leaves"


def _worst(open_part: Mapping[str, Any] | None) -> list[str]:
    """The pair of columns that public test records show to be the least faithful."""
    if open_part is None or not open_part.get("pairs"):
        return []
    first, second, distance = open_part["pairs"][0]
    told = f"{clean(first)} and {clean(second)} go together: of all pairs the least faithful"
    return [f"How {told} ({100.0 * float(distance):.0f} % of the records differ)."]


def _left_out(fields: Mapping[str, Any]) -> list[str]:
    learned, params = fields["learned"], fields["params"]
    if not isinstance(learned, Mapping) or not learned.get("labels") or "counts" not in learned:
        return []
    names = params.get("class_names") or range(len(learned["counts"]))
    return [clean(name) for name, count in zip(names, learned["counts"], strict=False) if float(count) == 0.0]


def _samples(folder: Path) -> list[Section]:
    if not (folder / "grid.png").exists():
        return []
    words = "Synthetic images, drawn from the released generator; of several classes each line shows one."
    return [Section("Samples", [Photo(_picture(folder, "grid.png"), words, words, pixels=True)])]


def _columns(figures: Mapping[str, Any]) -> list[Section]:
    if "tables" in figures:
        parts = [(f"Synthetic {clean(name)}", of_table) for name, of_table in figures["tables"].items()]
    else:
        parts = [("Synthetic columns", figures)]
    made = [
        section
        for title, of_table in parts
        for section in (columns_section(of_table, title, over_real=False), correlations_section(of_table))
    ]
    return [section for section in made if section is not None]


def _is_related(params: Mapping[str, Any]) -> bool:
    """Whether the folder is of related tables."""
    return isinstance(params.get("codec"), Mapping) and params["codec"].get("kind") == RELATED


def _training(fields: Mapping[str, Any]) -> list[Section]:
    losses = fields["learned"].get("losses") or []
    if len(losses) < 2:
        return []
    name = method_named(str(fields["params"]["method"])).watched
    parts: list[Part] = [Chart(steps_line([float(v) for v in losses], name), f"{name}, step by step")]
    return [Section("Training", parts)]


def _picture(folder: Path, name: str) -> bytes:
    """A PNG image of the folder itself: links and other files are refused."""
    content = read_bytes(folder / name, most=MAX_PICTURE, inside=folder)
    if not content.startswith(PNG):
        raise DataError(f"{name} in {folder} is not a PNG image: make it again, or remove it.")
    return content


def _read(name: str, read: Callable[[], T]) -> T:
    """`read` applied to a file, which is untrusted input."""
    try:
        return read()
    except (AttributeError, KeyError, TypeError, ValueError, IndexError, OverflowError):
        raise DataError(f"{name} is damaged: make it again, or remove it.") from None


def _command(guarantee: Guarantee, params: Mapping[str, Any], learned: Mapping[str, Any]) -> str:
    """The command that makes such a folder; the data and the output folder are the user's to name."""
    words = ["privot", "synth", "DATA", "--epsilon", f"{float(params['epsilon']):g}"]
    words += ["--delta", f"{float(params['delta']):g}", "--adjacency", str(guarantee.adjacency)]
    if _is_related(params):
        words += related_folder.command_words(params)
    elif params.get("codec") is not None:
        words += ["--schema", "SCHEMA.json"]
    else:
        words += ["--method", str(params["method"])]
        words += (
            ["--range", f"{params['low']},{params['high']}"] if _plain(params.get("low"), params.get("high")) else []
        )
        words += ["--shape", ",".join(str(int(s)) for s in params["shape"])] if params.get("shape") else []
        if params.get("class_names"):
            words += ["--classes", ",".join(str(name) for name in params["class_names"])]
        elif learned.get("labels"):
            words += ["--classes", str(int(learned["generator"]["classes"]))]
        words += ["--set", f"records={int(params['records'])}"] if params.get("records") else []
    words += ["--set", "public=FILE"] if params.get("public") else []
    for name in ("encoder", "label_encoder"):
        words += _encoder_words(name, params.get(name))
    if guarantee.unit is not None and not _is_related(params):
        words += ["--unit", guarantee.unit.name, "--per-unit", str(guarantee.unit.rows)]
    for name, value in (params.get("options") or {}).items():
        words += ["--set", f"{name}={value}"]
    return clean(command_line([*words, "--out", "DIR"]), 2000)


def _encoder_words(name: str, given: Any) -> list[str]:
    """The options that name a public encoder, as its `to_dict` describes it; the file is the user's to name."""
    if given is None:
        return []
    low, high = given["range"]
    size = [] if given["size"] is None else ["--set", f"{name}_size={int(given['size'])}"]
    # every digit: with another range it is another network
    ends = ",".join(repr(float(end)).removesuffix(".0") for end in (low, high))
    file = ["--encoder", "FILE"] if name == "encoder" else ["--set", f"{name}=FILE"]
    return [*file, "--set", f"{name}_range={ends}", *size]


def _labelled(labeller: Any) -> str:
    """How samples got their labels; `labeller` is what the folder says of it, if anything."""
    if not isinstance(labeller, Mapping):
        return "the class that each sample was made for"
    known = {ScatteringClassifier.kind: "fixed wavelets", EncoderClassifier.kind: "the codes of a public encoder"}
    seen = known.get(str(labeller.get("kind")), "a network trained on samples")
    return f"given by a linear classifier of {seen}, tuned on the records for a part of the budget"


def _public(fields: Any) -> str:
    """What was made of public images."""
    used = PublicUse.from_dict(fields)
    assert used is not None
    return clean(f"{used.images}, SHA-256 {used.digest}: {used.words}", 400)


def _plain(*values: Any) -> bool:
    return all(isinstance(value, int | float) for value in values)


def _facts(fields: Mapping[str, Any]) -> list[list[str]]:
    params, learned = fields["params"], fields["learned"]
    if _is_related(params):
        return related_folder.facts_of(params)
    if params.get("codec") is not None:
        return facts_of(params, learned)
    generator, features = learned["generator"], learned["features"]
    rows = [
        ["method", str(params["method"])],
        ["generator", f"{generator['kind']}, latent {generator['latent']}, {generator['classes']} classes"],
        ["steps", str(len(learned["losses"]))],
    ]
    if learned.get("labels"):
        rows.append(["labels of samples", _labelled(learned.get("labeller"))])
    if learned.get("public") is not None:
        rows.append(["public images", _read(CONFIG, lambda: _public(learned["public"]))])
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
