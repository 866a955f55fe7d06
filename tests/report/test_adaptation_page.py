"""The pages of an adaptation: what may be handed on, what may not, and what a damaged evaluation gets."""

from __future__ import annotations

from pathlib import Path

import pytest

from privot.accounting import Gaussian, account
from privot.errors import DataError
from privot.guarantee import Adjacency
from privot.report.adaptation_page import write_adaptation_pages

GUARANTEE = account(Gaussian(3.0, 1.0, Adjacency.REPLACE_ONE), 1e-5)
FACTS = [["method", "embedding"], ["σ", "3"]]
SCORES = {
    "accuracy": 0.91,
    "baseline": 0.83,
    "records": 200,
    "confusion": {"matrix": [[90, 10], [8, 92]], "names": ["<b>cat", "dog"]},
}


def test_the_score_on_real_records_is_on_a_page_of_its_own(tmp_path: Path) -> None:
    page = write_adaptation_pages(tmp_path, GUARANTEE, FACTS, [3.0, 2.0, 1.0], SCORES).read_text()
    private = (tmp_path / "report-private.html").read_text()
    assert "replace-one, proven" in page
    assert "adapted to private records" in page
    for words in ("91.0 %", "83.0 %", "Do not publish", "taken for"):
        assert words in private, words
        assert words not in page, words
    assert "not private" in private
    assert "<b>" not in private
    assert "&lt;b&gt;cat for dog, 10 times" in private


@pytest.mark.parametrize(
    ("found", "look", "words"),
    [
        ({"accuracy": 0.5, "harmed": True}, "poor", "adaptation did harm, so do not use it"),
        ({"accuracy": 0.82, "harmed": False}, "fair", "adaptation did not help"),
        ({"accuracy": 0.91, "harmed": False}, "good", "alone, get 83.0 %.</p>"),
    ],
)
def test_harm_is_not_called_success(tmp_path: Path, found: dict[str, object], look: str, words: str) -> None:
    write_adaptation_pages(tmp_path, GUARANTEE, FACTS, [], {**SCORES, **found})
    private = (tmp_path / "report-private.html").read_text()
    assert words in private
    assert f'class="card {look}"' in private


def test_without_an_evaluation_there_is_one_page(tmp_path: Path) -> None:
    write_adaptation_pages(tmp_path, GUARANTEE, FACTS, [], SCORES)
    page = write_adaptation_pages(tmp_path, GUARANTEE, FACTS, []).read_text()
    assert not (tmp_path / "report-private.html").exists()
    assert "No score on target records was computed" in page


def test_pictures_and_parts_are_shown_and_nothing_released_is_said_as_such(tmp_path: Path) -> None:
    png = b"\x89PNG\r\n\x1a\n"
    pictures = [("Labels before and after", "as they are", png), ("The source", "", png), ("The stand-in", "", png)]
    parts = [["the target", "not looked at"]]
    page = write_adaptation_pages(tmp_path, None, FACTS, [1.0], None, pictures, parts).read_text()
    assert "No private record was looked at" in page
    assert page.count('src="data:image/png;base64,') == 3
    assert page.count("<h2") == 5  # pictures without words share one heading
    for words in ("Labels before and after", "as they are", "What both domains look like", "The stand-in"):
        assert words in page
    assert "not looked at" in page


@pytest.mark.parametrize(
    "wrong",
    [{}, {"accuracy": "high", "records": 3}, {**SCORES, "confusion": {"matrix": [[1, 2]]}}, {**SCORES, "confusion": 7}],
)
def test_a_damaged_evaluation_is_bad_data(tmp_path: Path, wrong: dict[str, object]) -> None:
    with pytest.raises(DataError, match=r"evaluation\.json is damaged"):
        write_adaptation_pages(tmp_path, GUARANTEE, FACTS, [], wrong)
