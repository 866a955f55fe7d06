"""The verdict's words fit its numbers: the promise, the cost, what is left, and what nothing is said about."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from scipy.stats import norm

from privot.accounting import Gaussian, account
from privot.accounting.events import Unbounded
from privot.errors import DataError
from privot.guarantee import Adjacency, Guarantee
from privot.report.html_page import Chart, Page, render
from privot.report.verdict import cost_card, curve_section, fine_print, in_words, percent_up, promise_card

ADD, REPLACE = Adjacency.ADD_REMOVE, Adjacency.REPLACE_ONE


def of(sigma: float, adjacency: Adjacency = ADD) -> Guarantee:
    return account(Gaussian(sigma, 1.0, adjacency), 1e-5)


def shown(card: object) -> str:
    return render(Page("t", "s", "l", [card], [])).decode()  # type: ignore[list-item]


@pytest.mark.parametrize(("sigma", "words"), [(6.0, "strong"), (2.0, "moderate"), (1.0, "weak"), (0.4, "Hardly")])
def test_the_words_follow_epsilon(sigma: float, words: str) -> None:
    look, said = in_words(of(sigma))
    assert words in said
    assert look == ("good" if sigma >= 2.0 else "fair" if sigma >= 1.0 else "poor")


@pytest.mark.parametrize("sigma", [0.5, 1.0, 4.0, 30.0])
def test_the_best_guess_is_that_between_two_gaussians(sigma: float) -> None:
    """The likelihood-ratio test at even odds is right with probability Φ(Δ/2σ)."""
    guess = of(sigma).best_guess()
    assert guess == pytest.approx(norm.cdf(0.5 / sigma), rel=1e-6)
    assert guess >= norm.cdf(0.5 / sigma) * (1.0 - 1e-12)
    assert f"at most {percent_up(guess)}" in shown(promise_card(of(sigma), "it"))


def test_percentages_are_rounded_up_and_never_to_certainty() -> None:
    assert percent_up(0.5001) == "50.1 %"
    assert percent_up(0.99996) == "99.996 %"
    assert percent_up(1.0 - 1e-12) in ("100 %", "99.99999999 %")
    assert percent_up(1.0) == "100 %"


def test_the_promise_says_what_neighbours_are() -> None:
    assert "had not been in the data" in shown(promise_card(of(1.0), "it"))
    assert "had been another one" in shown(promise_card(of(1.0, REPLACE), "it"))
    assert "person" not in shown(promise_card(of(1.0), "it"))


def test_what_is_not_proven_is_no_promise() -> None:
    unproven = account(Unbounded("x", ADD), 1e-5)
    assert in_words(unproven) == ("poor", "No proven promise")
    text = shown(promise_card(unproven, "it"))
    assert "must not be relied on" in text
    assert "is right at most" not in text


def test_nothing_released_is_said_as_such(tmp_path: Path) -> None:
    assert "no private record was looked at" in shown(promise_card(None, ""))
    assert "cost nothing" in shown(cost_card(tmp_path, None))


def write_spent(folder: Path, spent: float, budget: object) -> None:
    plain = {"epsilon": spent, "delta": 1e-5, "adjacency": "add-remove", "standing": "proven"}
    (folder / "spent.json").write_text(json.dumps({**plain, "budget": budget, "job": {**plain, "charges": 1}}))


def test_what_is_left_is_shown_where_a_ledger_paid(tmp_path: Path) -> None:
    assert "does not say which budget" in shown(cost_card(tmp_path, of(1.0)))
    write_spent(tmp_path, 1.25, 2.0)
    text = shown(cost_card(tmp_path, of(1.0)))
    assert "0.75 is left" in text
    write_spent(tmp_path, 2.0, 2.0)
    assert "The budget is spent" in shown(cost_card(tmp_path, of(1.0)))
    write_spent(tmp_path, 2.0, "many")
    with pytest.raises(DataError, match="spent\\.json is damaged"):
        cost_card(tmp_path, of(1.0))
    # as folders of earlier versions are
    write_spent(tmp_path, 2.0, None)
    assert "does not say which budget" in shown(cost_card(tmp_path, of(1.0)))


def test_the_curve_quotes_the_guarantee() -> None:
    guarantee = of(1.0)
    (chart,) = curve_section(guarantee).parts
    assert isinstance(chart, Chart)
    assert f"ε = {guarantee.epsilon():.4g} at δ = 1e-05" in chart.drawing.description


def test_the_fine_print_is_folded_and_holds_what_a_checker_needs(tmp_path: Path) -> None:
    guarantee = of(1.0)
    section = fine_print(tmp_path, guarantee, [["method", "embedding"]], "privot synth DATA")
    assert section.folded
    text = render(Page("t", "s", "l", [], [section])).decode()
    assert "gaussian, sigma 1, sensitivity 1" in text
    assert "privot synth DATA" in text
    for words in guarantee.assumptions:
        assert words.split(";")[0][:30].replace("'", "&#39;") in text
