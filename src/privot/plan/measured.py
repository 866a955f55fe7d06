"""What was measured in the project's own results, nearest in ε to what is planned; nothing is extrapolated."""

from __future__ import annotations

import json
import math
from functools import cache
from importlib.resources import files
from typing import Any

SHOWN = 3
CAUTION = "Measured on other data than yours: an example, not a promise."


@cache
def results() -> tuple[dict[str, Any], ...]:
    """Every result of `measured.json`, with the page of the documents and the commit it comes from."""
    text = files("privot.plan").joinpath("measured.json").read_text(encoding="utf-8")
    return tuple(json.loads(text)["results"])


def nearest(kind: str, epsilon: float) -> list[dict[str, Any]]:
    """The few results of this kind whose ε is nearest, as ratios are."""
    found = [result for result in results() if result["kind"] == kind]
    return sorted(found, key=lambda r: abs(math.log(r["epsilon"] / epsilon)))[:SHOWN]


def in_words(result: dict[str, Any]) -> str:
    """One result as a sentence, with its ε, δ, adjacency and standing."""
    return (
        f"{result['data']}, {result['records']:,} records, ε = {result['epsilon']:g} at δ = {result['delta']:g}, "
        f"{result['adjacency']}, proven: {result['score']} {result['value']}; trained on the real records "
        f"{result['real']} ({result['page']}, commit {result['commit']})."
    )
