"""The page about a ledger: what its data set may spend and has spent, as a picture and a table; it opens no ledger."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from privot.common.privacy_unit import RECORD
from privot.ledger.ledger_facts import listed_kind
from privot.report.html_page import Card, Chart, Items, Page, Paragraph, Part, Rows, Section, render
from privot.report.page_charts import budget_bar
from privot.report.svg_drawing import clean

_OF_RECORDS = "ε is promised to every record, one record each: somebody with several records is promised less."
_HOW_TO_READ = (
    "The ε of single charges do not add up: the budget is a filter, which promises its ε for whoever chose each "
    "release by the last one. With Gaussian noise that is less than the sum.",
    "A job that charges several times reserves all of it before its first release; its charges draw on that.",
    "A charge comes before the records are touched. One that led to no release, because a process was killed, stays.",
    "The ledger refuses a release that would bring the whole above the budget, before the records are touched.",
    "The page is a copy of what the ledger held when it was written. The ledger is the authority: privot ledger verify "
    "says whether a row was edited, removed or reordered.",
)


def ledger_page(name: str, spending: Sequence[Mapping[str, Any]]) -> bytes:
    """The page as a file's content.

    Parameters
    ----------
    name
        The ledger's file name, without its folder: a page travels, and a path says where somebody works.
    spending
        What `privot ledger show --json` says of every data set.
    """
    sections = [section for held in spending for section in _sections(held, len(spending) > 1)]
    cards = [_card(held) for held in spending]
    if not spending:
        cards = [Card("No budget", [Paragraph("No data set has a budget yet.", "verdict")])]
    page = Page(
        title=name,
        subject="Privacy ledger",
        lead="What may be released of these records in all, and what was.",
        cards=cards,
        sections=[*sections, Section("How to read this page", [Items([*_promised(spending), *_HOW_TO_READ])])],
        footer=["Nothing on this page is about a single record."],
    )
    return render(page)


def _promised(spending: Sequence[Mapping[str, Any]]) -> list[str]:
    """To whom ε is promised: a sentence for every unit that a budget is for."""
    units = list(dict.fromkeys(str(held["unit"]) for held in spending)) or [RECORD]
    return [
        _OF_RECORDS
        if unit == RECORD
        else f"ε is promised to everything that one {clean(unit, 60)} has, however many rows that is."
        for unit in units
    ]


def _relation(held: Mapping[str, Any]) -> str:
    return clean(held["relation"], 90)


def _card(held: Mapping[str, Any]) -> Card:
    terms = f"at δ = {held['delta']:g}, {_relation(held)}"
    spent, budget = float(held["spent_epsilon"]), float(held["epsilon"])
    parts: list[Part] = []
    if held["standing"] is None:
        parts.append(Paragraph(f"Nothing is spent of ε = {budget:g} {terms}.", "verdict"))
    else:
        parts.append(Paragraph(f"Spent: ε = {spent:.6g} of {budget:g} {terms}, {held['standing']}.", "verdict"))
    if math.isfinite(spent):
        parts.append(Chart(budget_bar(spent, budget, terms)))
    charges = len(held["entries"])
    parts.append(Paragraph(f"{charges} {'charge' if charges == 1 else 'charges'}; fingerprint {_short(held)}…"))
    parts += [
        Paragraph(f"Raised from ε = {made['before']:g} to ε = {made['epsilon']:g}: {made['reason']}")
        for made in held["raises"]
    ]
    if held["new_records"]:
        parts.append(Paragraph("Stated to be new records, beside those of the same ledger."))
    over = not spent <= budget or held["standing"] not in (None, "proven")
    return Card(str(held["label"]), parts, "poor" if over else "")


def _sections(held: Mapping[str, Any], several: bool) -> list[Section]:
    of = f" of {clean(held['label'], 40)} ({_short(held)})" if several else ""
    terms = f"δ = {held['delta']:g}, {_relation(held)}"
    found = []
    if held["raises"]:
        rows = [
            [str(r["id"]), _moment(r["at"]), f"{r['before']:g}", f"{r['epsilon']:g}", str(r["reason"])]
            for r in held["raises"]
        ]
        heads = ["raise", "when (UTC)", "ε before", "ε after", "reason"]
        found.append(Section(f"Raises{of}", [Rows(f"Raises of the budget{of}", heads, rows)]))
    rows = [
        [str(e["id"]), _moment(e["at"]), e["purpose"], _number(e["epsilon"]), e["standing"], listed_kind(e)]
        for e in sorted([*held["reservations"], *held["entries"]], key=lambda e: int(e["id"]))
    ]
    heads = ["entry", "when (UTC)", "purpose", f"ε alone at {terms}", "standing", "event"]
    parts: list[Part] = [Rows(f"Every charge{of}", heads, rows)] if rows else [Paragraph("There are none yet.")]
    return [*found, Section(f"Charges{of}", parts)]


def _short(held: Mapping[str, Any]) -> str:
    return str(held["fingerprint"])[:12]


def _moment(at: str) -> str:
    """To the second; the heading says that it is UTC."""
    return str(at)[:19].replace("T", " ")


def _number(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, int | float) and math.isfinite(value) else "no finite ε"
