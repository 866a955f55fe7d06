"""What tests of sketches share."""

from __future__ import annotations

from typing import Any

import pytest

from privot.federation.sketches import sketch_comparison


@pytest.fixture
def intervals_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Comparisons estimate no null levels, which take half of their time: for tests that look at intervals only.

    `compare_sketches` estimates the distances, makes a `Null`, estimates them for each of its draws, and asks for the
    signed estimates: draws of a null get the first answer again. Intervals have their own draws and estimates.
    """
    real, last, null = sketch_comparison.estimates, [], [False]

    class Unused(sketch_comparison.Null):
        def __init__(self, *given: Any) -> None:
            super().__init__(*given)
            null[0] = True

    def estimates(*views: Any, signed: bool = False) -> Any:
        if null[0] and not signed:
            return last[0]
        null[0] = False
        last[:] = [real(*views, signed=signed)]
        return last[0]

    monkeypatch.setattr(sketch_comparison, "Null", Unused)
    monkeypatch.setattr(sketch_comparison, "estimates", estimates)
