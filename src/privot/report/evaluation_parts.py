"""What an evaluation found, as parts of a page: scores, columns, pairs, queries, confusion, nearest neighbours.

An evaluation looks at real records. Only what it found on test records that were stated to be public may be shown on a
page to be handed on (`public_part`); everything else belongs on the page that says of itself not to be published.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from typing import Any

from privot.errors import DataError
from privot.report.html_page import Card, Chart, Fold, Grid, Key, Paragraph, Part, Photo, Rows, Section
from privot.report.page_charts import column_bars, confusion_map, heat_map, roc_curves, score_bars
from privot.report.svg_drawing import clean
from privot.report.table_parts import counts_section, groups_section, lost_section, targets_section

CONFIDENTIAL = "not private: these figures say something about the test records, so they are as confidential as those"
"""The warning beside every score on real records."""
PUBLIC_TEST = "the test records were stated to be public, so these figures reveal no more than the synthetic data"
"""What is said beside scores on public records."""
PNG = b"\x89PNG\r\n\x1a\n"
_DRAWN = 60
"""Columns that a page shows."""
_SHOWN = 12
"""Columns whose pictures are not folded away."""
_OF_REAL = ("real", "real_auc", "real_roc")
"""Scores of models trained on real records: on those behind the release, unless `real_from` says `HALF`."""
HALF = "half of the test records"
_ALWAYS_PRIVATE = (*_OF_REAL, "nearest", "verdict")
"""What may have looked at the records behind the release."""


def public_part(fields: Mapping[str, Any]) -> dict[str, Any] | None:
    """What may be shown to anybody: everything measured on public test records only; None where there were none."""
    if fields.get("public_test") is not True:
        return None
    kept = _OF_REAL if fields.get("real_from") == HALF else ()
    return {name: value for name, value in fields.items() if name not in _ALWAYS_PRIVATE or name in kept}


def quality_card(fields: Mapping[str, Any], title: str = "How good the data are") -> Card:
    """The main figures in words: what a model learns from the data, and what a query gets wrong."""
    parts: list[Part] = []
    made, real = fields.get("auc") or fields.get("scores") or {}, fields.get("real_auc") or fields.get("real") or {}
    by_area = bool(fields.get("auc"))
    best = max((n for n, v in made.items() if v is not None), key=lambda n: float(made[n]), default=None)
    if best is not None:
        model = f"{clean(best)}, the best of {len(made)}" if len(made) > 1 else clean(best)
        whom = str(fields.get("real_from") or "the real records")
        parts.append(Paragraph(_learned(model, float(made[best]), real.get(best), by_area, clean(whom)), "verdict"))
        rows = [("trained on synthetic", "made", float(made[best]))]
        rows += [(f"trained on {clean(whom)}", "real", float(real[best]))] if real.get(best) is not None else []
        parts.append(Chart(score_bars(f"{clean(best)}: {'area under the ROC curve' if by_area else 'accuracy'}", rows)))
    for query in list(fields.get("queries", []))[:3]:
        typical, worst = (100 * float(query[name]) for name in ("typical", "worst"))
        unit = "% of a standard deviation" if query["what"] == "a mean" else "percentage points"
        parts.append(
            Paragraph(
                f"Ask the synthetic table for {clean(query['what'])}: it is typically wrong by {typical:.2g} {unit}, "
                f"at worst by {worst:.2g} ({clean(query['where'], 100)})."
            )
        )
    if fields.get("fid") is not None:
        parts.append(Paragraph(f"Fréchet inception distance: {float(fields['fid']):.2f} (0 is perfect)."))
    if not parts:
        parts.append(Paragraph("The evaluation has no figures."))
    return Card(title, parts)


def _learned(model: str, made: float, real: Any, by_area: bool, whom: str) -> str:
    what = "puts a positive record above a negative one" if by_area else "classifies"
    told = f"{100 * made:.1f} % of the time" if by_area else f"{100 * made:.1f} % of real test records correctly"
    words = f"A model ({model}) that saw synthetic data only {what} {told}"
    return words + ("." if real is None else f"; one trained on {whom}, {100 * float(real):.1f} %.")


def scores_section(fields: Mapping[str, Any]) -> Section | None:
    """Accuracy, area and ROC curves of what was trained on synthetic and on real records."""
    rows = []
    for measure, real, form in (("scores", "real", "{:.1%}"), ("auc", "real_auc", "{:.4f}")):
        for name, score in (fields.get(measure) or {}).items():
            other = (fields.get(real) or {}).get(name)
            shown = ["–" if v is None else form.format(v).replace("%", " %") for v in (score, other)]
            rows.append([clean(name) if measure == "scores" else f"{clean(name)}, ROC-AUC", *shown])
    if not rows:
        return None
    heads = ["classifier", "on synthetic", f"on {clean(fields.get('real_from') or 'real')}"]
    if not fields.get("real") and not fields.get("real_auc"):
        heads, rows = heads[:2], [row[:2] for row in rows]
    parts: list[Part] = [Rows("Trained on synthetic, tested on real", heads, rows)]
    parts += _curves(fields)
    if fields.get("confusion") is not None:
        found = fields["confusion"]
        parts.append(confusion_chart(found, f"Confusion of {clean(found['classifier'])}, trained on synthetic"))
    return Section("What models learn from them", parts)


def _curves(fields: Mapping[str, Any]) -> list[Part]:
    charts: list[Part] = []
    for name, curve in list((fields.get("roc") or {}).items())[:4]:
        if curve is None:
            continue
        lines = {"on synthetic": ("made", _rates(curve))}
        other = (fields.get("real_roc") or {}).get(name)
        if other is not None:
            lines["on real"] = ("real thin", _rates(other))
        charts.append(Chart(roc_curves(f"ROC curve, {clean(name)}", lines), f"ROC curve, {clean(name)}"))
    return [Grid(charts)] if charts else []


def _rates(curve: Any) -> list[tuple[float, float]]:
    values = [float(v) for v in curve][:1001]
    return [(k / max(len(values) - 1, 1), v) for k, v in enumerate(values)]


def confusion_chart(found: Mapping[str, Any], title: str) -> Chart:
    """`matrix` of counts, and `names` of the classes where they have some."""
    matrix = [[int(v) for v in row] for row in found["matrix"]]
    if any(len(row) != len(matrix) for row in matrix):
        raise ValueError("not square")
    names = [clean(name) for name in found.get("names") or range(len(matrix))]
    names += [str(k) for k in range(len(names), len(matrix))]
    drawn = confusion_map(title, matrix, names)
    return Chart(drawn, f"{title}. {drawn.description} Rows: what the records are. Columns: what they were taken for.")


def columns_section(fields: Mapping[str, Any], title: str, over_real: bool) -> Section | None:
    """Every column's shares, the worst first where real ones are there to compare with."""
    columns = list(fields.get("columns") or [])
    if not columns:
        return None
    if over_real:
        columns.sort(key=lambda column: -float(column.get("distance") or 0.0))
    charts: list[Part] = [Chart(_column(column, over_real), _below(column, over_real)) for column in columns[:_DRAWN]]
    parts: list[Part] = [Key()] if over_real else []
    parts.append(Grid(charts[:_SHOWN]))
    if len(charts) > _SHOWN:
        parts.append(Fold(f"{len(charts) - _SHOWN} more columns", [Grid(charts[_SHOWN:])]))
    return Section(title, parts + _not_shown(len(columns), "columns that differ less" if over_real else "columns"))


def _not_shown(count: int, what: str) -> list[Part]:
    """A sentence about what a page has no room for."""
    return [Paragraph(f"{count - _DRAWN} {what} are not shown here.", "quiet")] if count > _DRAWN else []


def _column(column: Mapping[str, Any], over_real: bool) -> Any:
    shares = [float(v) for v in column["shares"]]
    real = [float(v) for v in column["real"]] if over_real else None
    words = [str(word) for word in column["words"]] or [""] * len(shares)
    words += [""] * (len(shares) - len(words))
    ends = None if column["ends"] is None else (str(column["ends"][0]), str(column["ends"][1]))
    # an older file says neither
    others = None if column.get("others") is None else int(column["others"])
    far = float(column["distance"]) if over_real and column.get("distance") is not None else None
    return column_bars(str(column["name"]), words, shares, real, ends, others, far)


def _below(column: Mapping[str, Any], over_real: bool) -> str:
    scales = {"log": "logarithmic scale", "quantile": "scale by quantiles"}
    notes = [words for name, words in scales.items() if column.get("scale") == name]
    if column.get("missing") is not None:
        notes.append(f"missing {100 * float(column['missing']):.1f} %")
    if over_real and column.get("real_missing") is not None:
        notes.append(f"of real records {100 * float(column['real_missing']):.1f} %")
    return ", ".join(notes)


def correlations_section(fields: Mapping[str, Any]) -> Section | None:
    """How columns go together: synthetic, and real beside it where that is known."""
    found = fields.get("correlations") or {}
    names = [clean(name) for name in found.get("names", [])]
    if len(names) < 2:
        return None
    charts: list[Part] = []
    for which in ("synthetic", "real"):
        if found.get(which) is not None:
            matrix = [[float(v) for v in row] for row in found[which]]
            charts.append(Chart(heat_map(which, names, matrix)))
    said = (
        "Correlation from −1 to 1 where both columns have an order, Cramér's V from 0 to 1 elsewhere: the stronger the "
        "colour, the closer to ±1; blue is positive, orange is negative."
    )
    return Section("How columns go together", [Grid(charts), Paragraph(said, "quiet")])


def differences_section(fields: Mapping[str, Any]) -> Section | None:
    """The worst columns and pairs by name, and what a query would get wrong by."""
    if "marginals" not in fields:
        return None
    worst = sorted(((str(n), float(v)) for n, v in fields["marginals"].items()), key=lambda item: -item[1])[:10]
    rows = [["all columns, mean", f"{float(fields['marginal_distance']):.4f}"]]
    rows += [["all pairs of columns, mean", f"{float(fields['pair_distance']):.4f}"]]
    rows += [[f"column {clean(name)}", f"{distance:.4f}"] for name, distance in worst]
    rows += [
        [f"pair {clean(first, 40)}, {clean(second, 40)}", f"{float(distance):.4f}"]
        for first, second, distance in list(fields.get("pairs") or [])[:10]
    ]
    said = "Total variation is the largest error of any share that a column or pair can show: 0 is perfect, 1 is none."
    parts: list[Part] = [
        Rows("Total-variation distance to the real records, the worst by name", ["what", "distance"], rows)
    ]
    queries = [
        [
            clean(q["what"]),
            str(int(q["count"])),
            *[f"{100 * float(q[name]):.2f}" for name in ("typical", "high", "worst")],
            clean(q["where"], 120),
        ]
        for q in list(fields.get("queries") or [])[:10]
    ]
    if queries:
        heads = ["query", "how many", "half are within", "95 % are within", "worst", "worst where"]
        parts.append(
            Rows(
                "What a query gets wrong by, in percentage points (means: in % of a standard deviation)",
                heads,
                queries,
            )
        )
    return Section("Shares over the schema's cells", [*parts, Paragraph(said, "quiet")])


def numbers_section(fields: Mapping[str, Any]) -> Section | None:
    """Quantiles and means of columns of numbers in their own units, and the columns that the schema breaks."""
    columns = list(fields.get("numbers") or [])
    rows = []
    for column in columns[:_DRAWN]:
        for which in ("synthetic", "real"):
            figures = [*column["quantiles"][which], column["means"][which]]
            rows.append([clean(column["name"]), which, *[clean(v, 40) for v in figures]])
    if not rows:
        return None
    warnings = [Paragraph(clean(sentence, 300), "verdict") for sentence in list(fields.get("broken") or [])]
    heads = ["column", "records", "5 %", "25 %", "50 %", "75 %", "95 %", "mean"]
    table = Rows("Quantiles and means", heads, rows)
    return Section("Numbers in their own units", [*warnings, table, *_not_shown(len(columns), "columns of numbers")])


def nearest_section(fields: Mapping[str, Any]) -> Section | None:
    """Synthetic records beside their nearest real neighbours."""
    near = fields.get("nearest")
    if near is None:
        return None
    rows = [
        [name, *[f"{float(v):.4f}" for v in near[key]]]
        for name, key in (("synthetic records", "synthetic"), ("other real records", "held_out"))
    ]
    heads = ["distance to the nearest real record", "1 %", "5 %", "50 %"]
    parts: list[Part] = [
        Paragraph(
            "Synthetic records should be no closer to real ones than other real records are. This is a sanity check "
            "and no measure of privacy: the guarantee is."
        ),
        Rows("Distances to the nearest real record (percentiles)", heads, rows),
        Paragraph(_nearness(*(float(near[key][1]) for key in ("synthetic", "held_out")))),
    ]
    if near.get("picture") is not None:
        words = "The synthetic images that come closest to a real one (above), and that real one (below)."
        parts.append(Photo(_png(near["picture"]), words, words, pixels=True))
    parts.append(Paragraph(clean(near["marked"], 200), "verdict"))
    return Section("Nearest real neighbours", parts)


def _nearness(made: float, held_out: float) -> str:
    """The fifth percentiles in words."""
    told = f"One synthetic record in twenty is within {made:.4f} of a real one; of other real records, within"
    if made >= held_out:
        return f"{told} {held_out:.4f}: synthetic records are no closer."
    return f"{told} {held_out:.4f}: synthetic records are closer, at {100 * made / held_out:.0f} % of that distance."


def _png(text: Any) -> bytes:
    try:
        content = base64.b64decode(text, validate=True)
    except (binascii.Error, TypeError):
        content = b""
    if not content.startswith(PNG):
        raise DataError("The picture inside evaluation.json is no PNG image: evaluate again, or remove the file.")
    return content


def evaluation_sections(fields: Mapping[str, Any]) -> list[Section]:
    """All sections that an evaluation has figures for."""
    made = (
        scores_section(fields),
        targets_section(fields),
        groups_section(fields),
        numbers_section(fields),
        counts_section(fields),
        differences_section(fields),
        columns_section(fields, "Columns: synthetic over real", over_real=True),
        correlations_section(fields),
        lost_section(fields),
        nearest_section(fields),
    )
    return [section for section in made if section is not None]
