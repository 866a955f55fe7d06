"""Parts of a page about an evaluated table: figures as given, hostile words harmless, private figures kept off."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from privot.evaluation.table_quality import evaluate_table
from privot.evaluation.table_verdict import verdict
from privot.report.evaluation_parts import evaluation_sections, nearest_section, public_part
from privot.report.html_page import Page, render
from privot.report.page_charts import paired_dots
from privot.report.table_parts import counts_section, groups_section, lost_section, targets_section, verdict_card
from privot.tables import Column, Schema, Table, TableCodec

BAD = "<script>x"
FIELDS: dict[str, Any] = {
    "verdict": {"worst": [{"size": 0.2, "sentence": f"Column {BAD} is off."}], "sentence": "flawed"},
    "targets": [{"target": BAD, "measure": "R²", "synthetic": -0.211, "real": 0.464}],
    "groups": [
        {"column": "sex", "value": BAD, "rows": 78, "accuracy": {"synthetic": 0.68, "real": 0.718}, "clear": True}
    ],
    "counts": {
        "pairs": {"mean": 0.0697, "chance": 0.0394, "worst": [[["age", BAD], 0.1836, 0.0568]]},
        "queries": {"count": 1000, "mean": 0.0066, "high": 0.0203},
    },
    "associations": {"mean_gap": 0.066, "worst": [["age", BAD, "η", 0.1234, 0.31]], "lost": [f"Columns {BAD}: lost."]},
}


def page(fields: dict[str, Any]) -> str:
    return render(Page("t", "s", "l", verdict_card(fields), evaluation_sections(fields))).decode()


def test_every_figure_stands_on_the_page_and_no_word_becomes_markup() -> None:
    html = page(FIELDS)
    for figure in ("-0.211", "0.464", "-0.675", "68.0 %", "71.8 %", "-3.8", "0.0697", "0.0394", "0.1836", "0.66",
                   "2.03", "0.066", "0.12, real 0.31", "The worst thing about these data"):  # fmt: skip
        assert figure in html, figure
    assert BAD not in html
    assert html.count("&lt;script&gt;x") >= 5


def test_an_evaluation_without_these_figures_has_none_of_the_parts() -> None:
    assert verdict_card({}) == []
    for section in (targets_section, groups_section, counts_section, lost_section):
        assert section({}) is None


@pytest.mark.parametrize(("size", "look"), [(0.7, "poor"), (0.2, "fair"), (0.06, "good")])
def test_the_verdict_is_marked_by_its_worst_fault(size: float, look: str) -> None:
    card = verdict_card({"verdict": {"worst": [{"size": size, "sentence": "s"}], "sentence": ""}})[0]
    assert card.look == look
    assert verdict_card({"verdict": {"worst": [], "sentence": "No fault."}})[0].look == "good"


def test_dots_stand_where_their_values_are() -> None:
    shown = paired_dots("t", [("a", 0.25, 0.75), ("b", 0.0, 1.0)]).markup()
    # 6 + 348 · value, on a canvas of 360
    assert 'cx="93"' in shown
    assert 'cx="6"' in shown
    assert 'x="265"' in shown  # two to the left of 267, the middle of the mark


@pytest.mark.slow
def test_distances_to_private_records_are_not_on_the_page_to_be_handed_on() -> None:
    codec = TableCodec(Schema((Column("a", "continuous", 0, 1), Column("b", "continuous", 0, 1))))
    dice = np.random.default_rng(0)
    private, test = (Table({"a": dice.random(300), "b": dice.random(300)}) for _ in range(2))
    # copies of the private records: their distance 0 is the worst thing about the table
    found = {**evaluate_table(private, test, codec, private=private).to_dict(), "public_test": True}
    assert "closer to real ones" in page(found)
    assert "closer to real ones" in found["verdict"]["sentence"]
    shown = public_part(found)
    assert shown is not None
    assert "nearest" not in shown
    assert "closer to real ones" not in page(shown)
    assert shown["test_verdict"] == verdict(found, nearness=False)
    # whatever the private records are, the page to be handed on is the same
    other = evaluate_table(private, test, codec, private=Table({"a": test["b"], "b": test["a"]})).to_dict()
    assert page(public_part({**other, "public_test": True}) or {}) == page(shown)


def test_nearness_is_said_in_words() -> None:
    near = {"synthetic": [0.0, 0.02, 0.6], "held_out": [0.0, 0.04, 0.1], "marked": "private"}
    section = nearest_section({"nearest": near})
    assert section is not None
    html = render(Page("t", "s", "l", [], [section])).decode()
    assert "synthetic records are closer, at 50 % of that distance" in html
