"""What an evaluation found about a table, as parts of a page: the verdict, models by target and by group, counts.

Like everything in an evaluation these figures are about real records: they stand on the page that must not be
published, or on the other one where the test records were stated to be public (`evaluation_parts.public_part`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from privot.report.html_page import Card, Chart, Fold, Items, Key, Paragraph, Part, Rows, Section
from privot.report.page_charts import paired_dots
from privot.report.svg_drawing import clean

_SHOWN = 10
"""Rows of a chart or table of the worst."""
_POOR, _FAIR = 0.5, 0.15
"""Sizes of the worst fault from which on the verdict is marked as poor and as fair."""


def verdict_card(fields: Mapping[str, Any]) -> list[Card]:
    """The three worst things, each a sentence; no card where the evaluation has no verdict (images, older files)."""
    found = fields.get("verdict") or fields.get("test_verdict")
    if not found:
        return []
    worst = list(found["worst"])[:3]
    if not worst:
        return [Card("The worst of it", [Paragraph(clean(found["sentence"], 300), "verdict")], "good")]
    size = float(worst[0]["size"])
    look = "poor" if size >= _POOR else "fair" if size >= _FAIR else "good"
    words = {
        "poor": "Unusable in part.",
        "fair": "Usable with care: flawed.",
        "good": "Usable; nothing large is wrong.",
    }
    number = {1: "The worst thing", 2: "The two worst things", 3: "The three worst things"}[len(worst)]
    parts: list[Part] = [
        Paragraph(words[look], "verdict"),
        Items([clean(fault["sentence"], 300) for fault in worst]),
        Paragraph(
            "Sizes are compared as shares from 0 to 1: distances beyond chance, lacking scores, lost links.", "quiet"
        ),
    ]
    return [Card(f"{number} about these data", parts, look)]


def targets_section(fields: Mapping[str, Any]) -> Section | None:
    """Models of several columns, trained on synthetic rows and on real ones."""
    entries = [
        (clean(t["target"], 60), clean(t["measure"], 8), float(t["synthetic"]), float(t["real"]))
        for t in list(fields.get("targets") or [])[:_SHOWN]
    ]
    if not entries:
        return None
    title = "Models of several columns"
    said = (
        "Gradient boosting of one column from all others, tested on half of the real rows: trained on synthetic rows, "
        "and on the other half. AUC is 0.5 by chance and 1 at best; R² is 0 for a guess of the mean and 1 at best."
    )
    rows = [
        [name, measure, f"{made:.3f}", f"{real:.3f}", f"{made - real:+.3f}"] for name, measure, made, real in entries
    ]
    drawn = paired_dots(title, [(f"{name}, {measure}", made, real) for name, measure, made, real in entries])
    heads = ["target", "measure", "on synthetic", "on half of the real rows", "difference"]
    return Section(
        title, [Key(), Chart(drawn), Paragraph(said, "quiet"), Fold("As numbers", [Rows(title, heads, rows)])]
    )


def groups_section(fields: Mapping[str, Any]) -> Section | None:
    """The groups of real rows that a model of the label serves worst when it saw synthetic rows only."""
    groups = list(fields.get("groups") or [])[:_SHOWN]
    if not groups:
        return None
    rows = []
    for group in groups:
        made, real = (float(group["accuracy"][which]) for which in ("synthetic", "real"))
        shown = [f"{100 * made:.1f} %", f"{100 * real:.1f} %", f"{100 * (made - real):+.1f}"]
        name = f"{clean(group['column'], 60)} = {clean(group['value'], 60)}"
        rows.append([name, str(int(group["rows"])), *shown, "yes" if group["clear"] is True else "no"])
    heads = ["group", "rows", "on synthetic", "on real", "points", "beyond chance"]
    said = (
        "The worst served first. “Beyond chance” means that the difference is larger than two of its standard errors, "
        "for this group alone."
    )
    caption = "How often a model of the label is right, trained on synthetic rows and on half of the real ones"
    return Section("Who is served badly", [Rows(caption, heads, rows), Paragraph(said, "quiet")])


def counts_section(fields: Mapping[str, Any]) -> Section | None:
    """Columns, pairs and triples in bins at quantiles of the real rows, beside chance, and range queries."""
    counts = fields.get("counts") or {}
    kinds = [name for name in ("columns", "pairs", "triples") if name in counts]
    if not kinds:
        return None
    rows = [
        [f"all {name}, mean", *(f"{float(counts[name][which]):.4f}" for which in ("mean", "chance"))] for name in kinds
    ]
    worst = [
        [", ".join(clean(name, 40) for name in names), f"{float(distance):.4f}", f"{float(chance):.4f}"]
        for kind in kinds
        for names, distance, chance in list(counts[kind]["worst"])[:3]
    ]
    heads = ["what", "total variation", "by chance"]
    said = (
        "Bins lie at quantiles of the real rows, at most 16 per column, so that they see what the schema's cells hide. "
        "“By chance” is what two samples of one table of these sizes would have."
    )
    parts: list[Part] = [
        Rows("Total variation in bins of the real rows", heads, rows),
        Rows("The three worst of each", heads, worst),
        Paragraph(said, "quiet"),
    ]
    queries = counts.get("queries")
    if queries:
        mean, high = (100 * float(queries[which]) for which in ("mean", "high"))
        parts.insert(
            0,
            Paragraph(
                f"Ask for the share of rows within ranges of three columns: over {int(queries['count'])} random "
                f"questions the answer is wrong by {mean:.2f} percentage points on average, by more than {high:.2f} in "
                "one of twenty."
            ),
        )
    return Section("Counts and range queries", parts)


def lost_section(fields: Mapping[str, Any]) -> Section | None:
    """The links between columns that differ most from those of the real rows."""
    found = fields.get("associations") or {}
    rows = [
        (f"{clean(a, 40)}, {clean(b, 40)} ({clean(kind, 8)})", float(made), float(real))
        for a, b, kind, made, real in list(found.get("worst") or [])[:_SHOWN]
    ]
    if not rows:
        return None
    title = "Links between columns that differ most"
    lost = [clean(sentence, 300) for sentence in list(found.get("lost") or [])[:_SHOWN]]
    parts: list[Part] = [
        Paragraph(f"Over all pairs of columns the link is off by {float(found['mean_gap']):.3f} on average."),
        Key(),
        Chart(paired_dots(title, rows)),
        Paragraph(
            "Spearman's ρ of ordered columns, the ratio η of one with a category, Cramér's V of categories.", "quiet"
        ),
    ]
    if lost:
        parts += [
            Paragraph("Lost: strong in real rows, less than half as strong or reversed here.", "verdict"),
            Items(lost),
        ]
    return Section(title, parts)
