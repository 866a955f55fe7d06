"""What `privot audit` found, as parts of a page: claimed beside measured ε, tests of membership, checks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from privot.common.privacy_unit import Unit, relation_words
from privot.report.html_page import Card, Chart, Fold, Paragraph, Part, Rows, Section
from privot.report.page_charts import claimed_bars
from privot.report.svg_drawing import clean

_MAX_ROWS = 200


def lost(fields: Mapping[str, Any]) -> list[str]:
    """Names of what did not survive the audit."""
    found = []
    for item in fields.get("findings", [])[:_MAX_ROWS]:
        wrong = not item["passed"] if item["kind"] == "check" else bool(item["refuted"])
        found += [clean(item["name"])] if wrong else []
    return found


def audit_card(fields: Mapping[str, Any]) -> Card:
    """Whether an attacker got anywhere."""
    title, failed = "What an attacker got", lost(fields)
    if failed:
        return Card(title, [Paragraph(f"Did not survive the audit: {', '.join(failed)}.", "verdict")], "poor")
    parts: list[Part] = [Paragraph("Attacked, and not refuted.", "verdict")]
    attacks = _attacks(fields)
    if attacks:
        told = {clean(f"δ = {c['delta']:g}, {_relation(c)}, {c['standing']}", 300) for c in _claims(fields)}
        parts.append(
            Chart(claimed_bars(attacks), f"A bar past its mark would refute the claim. {'; '.join(sorted(told))}.")
        )
    for test in fields.get("membership", [])[:1]:
        low, high = (float(v) for v in test["auc_interval"])
        words = "Of a record that was in the data and one that was not, the attack picks the right one"
        chance = f"{100 * float(test['auc']):.0f} % of the time ({100 * low:.0f} to {100 * high:.0f} %; a coin: 50 %)."
        parts.append(Paragraph(f"{words} {chance}"))
    parts += _untested(fields)
    parts.append(Paragraph("Attacks ran on records that the audit made itself; no real record was looked at.", "quiet"))
    return Card(title, parts, "good")


def _untested(fields: Mapping[str, Any]) -> list[Part]:
    """Why nobody's membership was tested, where that is so; folders audited before this was said hold nothing."""
    said = fields.get("untested")
    return [Paragraph(clean(said, 300))] if isinstance(said, str) and said else []


def _relation(claimed: Mapping[str, Any]) -> str:
    return relation_words(claimed["adjacency"], Unit.from_dict(claimed.get("unit")))


def _claims(fields: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [found["claimed"] for found in fields.get("findings", [])[:_MAX_ROWS] if found["kind"] != "check"]


def _attacks(fields: Mapping[str, Any]) -> list[tuple[str, float | None, float]]:
    rows = []
    for found in fields.get("findings", [])[:_MAX_ROWS]:
        if found["kind"] != "check":
            said = found["claimed"]["epsilon"]
            rows.append(
                (clean(found["name"]), None if said is None else float(said), float(found["measured"]["epsilon"]))
            )
    return rows[:8]


def _verdict(found: Mapping[str, Any]) -> str:
    if not found["refuted"]:
        return "not refuted"
    where = found.get("refuted_where")
    return clean(f"REFUTED: {where}", 300) if where else "REFUTED"


def audit_section(fields: Mapping[str, Any]) -> Section:
    """Everything that the audit found, in tables."""
    measured, checks, guesses = [], [], []
    for found in fields.get("findings", [])[:_MAX_ROWS]:
        if found["kind"] == "check":
            checks.append(
                [clean(found["name"]), "passed" if found["passed"] else "FAILED", clean(found["detail"], 300)]
            )
            continue
        claimed, seen = found["claimed"], found["measured"]
        words = f"{seen['epsilon']:.3g}"
        if seen.get("epsilon_if_gaussian") is not None:
            words += f" ({seen['epsilon_if_gaussian']:.3g} if the noise is Gaussian)"
        measured.append(
            [
                clean(found["name"]),
                "nothing" if claimed["epsilon"] is None else f"{claimed['epsilon']:.4g}",
                f"{words}, {100 * seen['confidence']:.0f} % sure",
                f"{claimed['delta']:g}",
                clean(f"{_relation(claimed)}, {claimed['standing']}", 300),
                _verdict(found),
            ]
        )
    for test in fields.get("membership", [])[:_MAX_ROWS]:
        low, high = test["auc_interval"]
        least, most = test["copied_interval"]
        guesses.append(
            [
                clean(test["name"]),
                f"{test['auc']:.3f} ({low:.3f} to {high:.3f})",
                f"{100 * test['copied']:.1f} % ({100 * least:.1f} to {100 * most:.1f})",
                f"{100 * test['copied_others']:.1f} %",
                f"{test['epsilon']:.3g} at δ = {test['delta']:g}, {clean(test['adjacency'])}",
            ]
        )
    heads = ["attack", "claimed ε at most", "measured ε at least", "δ", "neighbours, standing", "verdict"]
    parts: list[Part] = []
    failed = lost(fields)
    if failed:
        parts.append(Paragraph(f"Did not survive the audit: {', '.join(failed)}.", "verdict"))
    if measured:
        parts.append(Rows("Audit: claimed and measured", heads, measured))
    parts += _untested(fields)
    if guesses:
        heads = [
            "generator and test",
            "AUC (½ is a guess)",
            "members nearly copied",
            "non-members",
            "ε at least, one run",
        ]
        parts.append(Rows("Audit: who was in the data (on records of the audit's own)", heads, guesses))
    if checks:
        parts.append(Fold("Audit: checks", [Rows("What was checked", ["check", "verdict", "detail"], checks)]))
    return Section("Attacks on it", parts)
