"""Studies about privot itself: verdicts follow the numbers, and the numbers come from the product."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from privot.studies import StudyRun, find_study
from privot.studies.product_list import PRODUCT_STUDIES

ROOT = Path(__file__).resolve().parents[2]


def findings(name: str, folder: Path | None = None, **settings: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = StudyRun(find_study(name), data_folder=folder).result(settings)["result"]["findings"]
    return found


def test_every_study_of_the_product_names_a_page_of_results() -> None:
    for study in PRODUCT_STUDIES:
        pages = [page.read_text() for page in (ROOT / "docs" / "results").glob("*.md")]
        assert any(f"privot study run {study.name}" in page for page in pages), study.name


def test_the_schema_of_adult_is_that_of_the_documents() -> None:
    from privot.studies.product.adult_data import SCHEMA_FILE

    shown = ROOT / "docs" / "examples" / "adult-schema.json"
    assert json.loads(SCHEMA_FILE.read_text()) == json.loads(shown.read_text())


def test_embedding_is_judged_by_what_is_stated_and_by_dpdm(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch")
    asked = []

    def given(accuracy: float) -> Any:
        def scores(run: Any, data: str, method: str, epsilon: float, seed: int, **more: Any) -> dict[str, Any]:
            asked.append((data, method, epsilon, seed, more["adjacency"]))
            terms = {"epsilon": epsilon, "standing": "proven", "seconds": 1.0}
            return {**dict.fromkeys(more["classifiers"], accuracy), **terms}

        return scores

    module = "privot.studies.product.embedding_images.synthesis_scores"
    whole: dict[str, Any] = {"sets": ["mnist"], "epsilons": [10.0], "classifiers": ["logreg"], "seeds": 2}
    # stated 92.2, DPDM 90.8
    for accuracy, verdicts in ((0.92, [True, True]), (0.908, [True, False]), (0.90, [False, False])):
        monkeypatch.setattr(module, given(accuracy))
        found = findings("privot-embedding", **whole)
        assert [f["verdict"] == "reproduced" for f in found] == verdicts
    assert asked[:2] == [("mnist", "embedding", 10.0, seed, "add-remove") for seed in (0, 1)]
    assert "FID left out" in found[0]["measured"]


def test_adult_is_judged_by_what_is_stated(monkeypatch: pytest.MonkeyPatch) -> None:
    from privot.studies.product import adult_synthesis
    from privot.tables import Table

    table = Table({"age": __import__("numpy").array(["20", "30"])})
    monkeypatch.setattr(adult_synthesis, "adult_tables", lambda run: (table, table))
    good = {**adult_synthesis.STATED, "positive share": 0.24, "marginal distance": 0.02, "pair distance": 0.04}
    good |= {"epsilon": 0.9999, "processor seconds": 1.0}
    monkeypatch.setattr(adult_synthesis, "_real", lambda *a: good)
    for change, verdicts in (
        ({}, [True, True, True]),
        ({"boosting auc": 0.89}, [False, True, True]),
        ({"logistic accuracy": 0.84, "positive share": 0.26}, [True, False, False]),
    ):
        monkeypatch.setattr(adult_synthesis, "_draw", lambda *a, change=change: {**good, **change})
        found = findings("privot-adult")
        assert [f["verdict"] == "reproduced" for f in found] == verdicts
        assert "δ = 1e-06, add-remove, proven" in found[0]["measured"]
    # other terms than the stated ones reproduce nothing
    assert findings("privot-adult", epsilon=10.0)[0]["verdict"] == "not reproduced"
