"""The pages about a classifier adapted to private records: one to hand on, one with its score on real records."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from privot.errors import DataError
from privot.guarantee import Guarantee
from privot.jobs.released_files import write_bytes
from privot.report import verdict
from privot.report.evaluation_parts import CONFIDENTIAL, confusion_chart
from privot.report.html_page import Card, Chart, Grid, Items, Link, Page, Paragraph, Part, Photo, Rows, Section, render
from privot.report.page_charts import score_bars, steps_line
from privot.report.svg_drawing import clean

REPORT = "report.html"
PRIVATE_REPORT = "report-private.html"
TITLE = "A classifier adapted to private records"
Picture = tuple[str, str, bytes]
"""A title, words, and a PNG image, which may be empty."""


def write_adaptation_pages(
    folder: Path,
    guarantee: Guarantee | None,
    facts: Sequence[Sequence[str]],
    losses: Sequence[float],
    evaluation: Mapping[str, Any] | None = None,
    pictures: Sequence[Picture] = (),
    parts: Sequence[Sequence[str]] = (),
    command: str = "",
) -> Path:
    """Write report.html, and report-private.html where there is an evaluation on real records.

    Parameters
    ----------
    folder
        Where the pages go, and where spent.json lies if a ledger paid.
    guarantee
        None where no private record was looked at.
    facts
        (name, value) of every choice.
    losses
        The training's loss, step by step.
    evaluation
        `accuracy` on `records` held-out records, perhaps `baseline`, the accuracy of the source alone, whether
        adaptation `harmed`, and `confusion`; it is not private.
    pictures
        Pictures that follow from the release and the public source.
    parts
        (part, what protects it) of everything that the adaptation touched.
    """
    promised = "the classifier" if guarantee is not None else ""
    measured = (
        "It was measured on real target records, so the figures are on a page of their own, which is not private."
    )
    quality: list[Part] = [Paragraph("No score on target records was computed: give --test to measure it.")]
    if evaluation is not None:
        quality = [Paragraph(measured), Link("The page that must not be published", PRIVATE_REPORT)]
    cards = [
        verdict.promise_card(guarantee, promised),
        verdict.cost_card(folder, guarantee),
        Card("How good it is", quality),
        Card("What it is not good for", [Items(_LIMITS)]),
    ]
    sections = (
        [Section("What is private and what is not", [Rows("Parts of this adaptation", [], parts)])] if parts else []
    )
    grids = [Photo(png, title, title) for title, words, png in pictures if png and not words]
    if grids:
        sections.append(Section("What both domains look like", [Grid(grids)]))
    sections += [_shown(title, words, png) for title, words, png in pictures if words]
    if len(losses) > 1:
        sections.append(Section("Training", [Chart(steps_line(losses, "loss"), "The loss, step by step")]))
    if guarantee is not None:
        sections.append(verdict.curve_section(guarantee))
    sections.append(verdict.fine_print(folder, guarantee, facts, command))
    lead = "No private record was looked at."
    if guarantee is not None:
        lead = f"{TITLE}. {verdict.in_words(guarantee)[1]}: {guarantee.stated()}."
    footer = [
        "The classifier follows from the public source and from what was paid for; nothing else of the private records "
        "was looked at. The last weights were taken: no model was chosen by target labels."
    ]
    write_bytes(folder / REPORT, render(Page(TITLE, "Report for a steward", lead, cards, sections, footer)))
    if evaluation is None:
        (folder / PRIVATE_REPORT).unlink(missing_ok=True)
    else:
        write_bytes(folder / PRIVATE_REPORT, render(_private(evaluation)))
    return folder / REPORT


_LIMITS = (
    "Learning who was in the target: it saw sums with noise, and no record.",
    "Classes that the source does not have: it cannot know them.",
    "Telling how well it does without a test: the promise is about privacy, not about accuracy.",
)


def _shown(title: str, words: str, png: bytes) -> Section:
    return Section(title, [Paragraph(words), *([Photo(png, title)] if png else [])])


def _beside(accuracy: float, alone: float, harmed: bool) -> tuple[str, str]:
    """(good, fair or poor; what the score is worth beside that of the source alone)."""
    said = f"The same networks, trained on the public source alone, get {100 * alone:.1f} %"
    if harmed:
        return "poor", f"{said}, which is more than chance explains: adaptation did harm, so do not use it."
    if accuracy < alone:
        return "fair", f"{said}: on these records adaptation did not help."
    return "good", f"{said}."


def _private(evaluation: Mapping[str, Any]) -> Page:
    try:
        accuracy, records = float(evaluation["accuracy"]), int(evaluation["records"])
        rows = [("adapted", "made", accuracy)]
        if evaluation.get("baseline") is not None:
            rows.insert(0, ("source alone", "real", float(evaluation["baseline"])))
        words = f"{100 * accuracy:.1f} % of {records} held-out target records are classified correctly."
        parts: list[Part] = [Paragraph(words, "verdict"), Chart(score_bars("Accuracy on target records", rows))]
        look = ""
        if len(rows) == 2:
            look, beside = _beside(accuracy, rows[0][2], evaluation.get("harmed") is True)
            parts.append(Paragraph(beside))
        card = Card("How good it is", parts, look)
        sections = []
        if evaluation.get("confusion") is not None:
            chart = confusion_chart(evaluation["confusion"], "Confusion on held-out target records")
            sections.append(Section("What was taken for what", [chart]))
    except (AttributeError, KeyError, TypeError, ValueError, IndexError, OverflowError):
        raise DataError("evaluation.json is damaged: make it again, or remove it.") from None
    alarm = f"This page is {clean(evaluation.get('privacy') or CONFIDENTIAL, 400)}. The guarantee does not cover it."
    footer = [f"Remove evaluation.json and run privot report again: this page is removed, and {REPORT} stays as it is."]
    lead = "How well the classifier does on real target records."
    return Page(f"{TITLE}: its score", "Not private", lead, [card], sections, footer, alarm)
