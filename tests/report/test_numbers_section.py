"""Numbers in their own units on the page of an evaluation: figures as given, words from a file made harmless."""

from __future__ import annotations

from typing import Any

from privot.report.evaluation_parts import evaluation_sections, numbers_section
from privot.report.html_page import Page, render

COLUMN: dict[str, Any] = {
    "name": "<script>spent",
    "quantiles": {"synthetic": [1.0, 2.0, 413.0, 600.0, 900.0], "real": [0.5, 9.0, 35.0, 80.0, 400.0]},
    "means": {"synthetic": 461.0, "real": 169.0},
}


def page(fields: dict[str, Any]) -> str:
    return render(Page("t", "s", "l", [], evaluation_sections(fields))).decode()


def test_quantiles_and_means_stand_side_by_side_and_a_broken_column_is_named() -> None:
    html = page(
        {"numbers": [COLUMN], "broken": ["Column 'spent': the schema's cells are too wide; <b>declare</b> log."]}
    )
    for figure in ("413.0", "35.0", "461.0", "169.0", "5 %", "95 %", "the schema&#39;s cells are too wide"):
        assert figure in html
    assert "<script>spent" not in html
    assert "<b>declare" not in html


def test_an_evaluation_without_numbers_has_no_such_section() -> None:
    assert numbers_section({}) is None
    assert numbers_section({"numbers": []}) is None
