"""Charts show the numbers that they are given, in the right place; odd numbers do not break them."""

from __future__ import annotations

import math
import re
from xml.etree.ElementTree import Element, fromstring

import pytest

from privot.report.page_charts import (
    MAX_SIDE,
    budget_bar,
    claimed_bars,
    column_bars,
    confusion_map,
    distance_line,
    heat_map,
    odds,
    privacy_curve,
    roc_curves,
    score_bars,
    steps_line,
)
from privot.report.svg_drawing import WIDTH, Drawing


def tree(drawn: Drawing) -> Element:
    return fromstring(drawn.markup())


def boxes(drawn: Drawing, look: str) -> list[dict[str, float]]:
    found = [e for e in tree(drawn).iter("rect") if look in e.get("class", "").split()]
    return [{k: float(v) for k, v in e.attrib.items() if k != "class"} for e in found]


def lines(drawn: Drawing, look: str) -> list[list[tuple[float, float]]]:
    found = [e for e in tree(drawn).iter("polyline") if look in e.get("class", "").split()]
    return [[tuple(map(float, p.split(","))) for p in e.get("points", "").split()] for e in found]  # type: ignore[misc]


def words(drawn: Drawing) -> str:
    return " ".join(e.text or "" for e in tree(drawn).iter("text"))


@pytest.mark.parametrize(
    ("spent", "budget", "share"), [(0.0, 3.0, 0.0), (1.0, 4.0, 0.25), (4.0, 4.0, 1.0), (9.0, 4.0, 1.0)]
)
def test_the_budget_bar_is_as_long_as_what_is_spent(spent: float, budget: float, share: float) -> None:
    drawn = budget_bar(spent, budget, "at δ = 1e-05, add-remove, proven")
    (track,), (bar,) = boxes(drawn, "track"), boxes(drawn, "made")
    assert bar["width"] == pytest.approx(share * track["width"], rel=1e-4)
    assert f"{max(budget - spent, 0.0):.3g} is left" in drawn.description
    assert "add-remove, proven" in drawn.description


def test_the_odds_run_from_a_coin_to_certainty() -> None:
    ends = [boxes(odds(guess, "x"), "fill")[0]["width"] for guess in (0.5, 0.75, 1.0)]
    assert ends[0] == 0.0
    assert ends[1] == pytest.approx(ends[2] / 2.0)


def test_the_privacy_curve_falls_and_marks_the_quoted_point() -> None:
    drawn = privacy_curve([(1e-9, 3.0), (1e-6, 2.0), (1e-3, 1.0), (1e-12, math.inf)], (1e-6, 2.0))
    (line,) = lines(drawn, "made")
    assert len(line) == 3
    assert [x for x, _ in line] == sorted(x for x, _ in line)
    assert [y for _, y in line] == sorted(y for _, y in line), "lower ε is drawn lower, and y grows downwards"
    circle = next(tree(drawn).iter("circle"))
    assert (float(circle.get("cx", 0)), float(circle.get("cy", 0))) == pytest.approx(line[1], abs=1e-2)


def test_a_column_of_numbers_shows_synthetic_bars_and_a_real_line() -> None:
    drawn = column_bars("age", [], [0.1, 0.4, 0.5], [0.2, 0.4, 0.4], ("0", "99"), distance=0.1)
    bars = boxes(drawn, "made")
    assert [b["height"] / bars[2]["height"] for b in bars] == pytest.approx([0.2, 0.8, 1.0], rel=1e-3)
    (line,) = lines(drawn, "real")
    base = bars[2]["y"] + bars[2]["height"]
    assert (base - line[0][1]) / bars[2]["height"] == pytest.approx(0.4, rel=1e-3)
    assert "0.100" in drawn.description
    assert not lines(column_bars("age", [], [0.5, 0.5], None, ("0", "1")), "real")


def test_of_many_categories_the_most_frequent_are_drawn_and_the_rest_is_counted() -> None:
    shares = [k / 190 for k in range(20)]
    drawn = column_bars("code", [f"c{k}" for k in range(20)], shares, None, None)
    assert "c19" in words(drawn)
    assert "c0 " not in words(drawn) + " "
    assert "others (6) 7.9 %" in words(drawn), "15/190"
    hidden = [*([0.3 / 19] * 19), 0.7 / 14], [0.06] * 14 + [0.0] * 6
    assert "Most frequent: c19, 5.0 %" in column_bars("code", [f"c{k}" for k in range(20)], *hidden, None).description
    longer = column_bars("code", [f"c{k}" for k in range(20)], [0.5 * s for s in shares], None, None, others=280)
    assert "others (286) 53.9 %" in words(longer)


def test_a_heat_map_is_stronger_where_the_number_is_larger_and_names_the_strongest() -> None:
    drawn = heat_map("synthetic", ["a", "b", "c"], [[1, 0.2, -0.9], [0.2, 1, 0], [-0.9, 0, 1]])
    assert {round(b["opacity"], 2) for b in boxes(drawn, "real")} == {0.9}
    assert sorted({round(b["opacity"], 2) for b in boxes(drawn, "made")}) == [0.0, 0.2, 1.0]
    assert "c and a, -0.90" in drawn.description
    many = heat_map("m", [str(k) for k in range(100)], [[0.0] * 100 for _ in range(100)])
    assert len(boxes(many, "cell")) == MAX_SIDE**2


def test_a_confusion_map_counts_and_names_the_worst_mistake() -> None:
    drawn = confusion_map("c", [[8, 2], [1, 9]], ["cat", "dog"])
    assert "85.0 % of 20" in drawn.description
    assert "cat for dog, 2 times" in drawn.description
    assert {"8", "2", "1", "9"} <= set(words(drawn).split())
    right = boxes(drawn, "made")
    assert [round(b["opacity"], 3) for b in right] == [0.36, 0.405]


def test_roc_curves_start_below_and_end_above() -> None:
    drawn = roc_curves("r", {"a": ("made", [(0.0, 0.0), (0.5, 0.9), (1.0, 1.0)])})
    (line,) = lines(drawn, "made")
    assert line[0][1] > line[1][1] > line[2][1]
    assert line[0][0] < line[1][0] < line[2][0]


def test_measured_beyond_claimed_is_marked() -> None:
    assert boxes(claimed_bars([("a", 1.0, 2.0)]), "poor")
    fine = claimed_bars([("a", 2.0, 1.0), ("b", None, 0.5)])
    assert not boxes(fine, "poor")
    mark = next(e for e in tree(fine).iter("line") if e.get("class") == "ink")
    assert float(mark.get("x1", 0)) == pytest.approx(2.0 * boxes(fine, "made")[0]["width"], rel=1e-3)


def test_scores_and_distances_are_in_proportion() -> None:
    bars = boxes(score_bars("s", [("a", "made", 0.25), ("b", "real", 0.5)]), "fill")
    assert bars[1]["width"] == pytest.approx(2.0 * bars[0]["width"]) == pytest.approx(WIDTH / 2.0)
    drawn = distance_line(0.5, (0.4, 0.6), 0.1)
    assert boxes(drawn, "made")[0]["width"] == pytest.approx(2.0 * boxes(drawn, "track")[0]["width"], rel=1e-3)


@pytest.mark.parametrize(
    "drawn",
    [
        steps_line([], "loss"),
        steps_line([math.nan, math.inf], "loss"),
        steps_line([1.0] * 5000, "loss"),
        steps_line([-1.0, 1e308, 5.0], "loss"),
        privacy_curve([(1e-5, math.inf)], (1e-5, math.inf)),
        column_bars("a", [], [], None, ("0", "1")),
        column_bars("a", ["x"], [0.0], [0.0], None),
        heat_map("h", [], []),
        confusion_map("c", [[0]], ["a"]),
        confusion_map("c", [], []),
        score_bars("s", []),
        claimed_bars([]),
        budget_bar(0.0, 0.0, ""),
        distance_line(0.0, (0.0, 0.0), 0.0),
    ],
    ids=range(14),
)
def test_odd_numbers_are_drawn_without_an_infinite_place(drawn: Drawing) -> None:
    assert not re.search(r"=\"[^\"]*\b(nan|inf)\b", drawn.markup())
