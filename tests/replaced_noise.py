"""Answers in place of noisy counts that do not depend on the records: whatever follows from them must not, either."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest


class Answers:
    """Stands where noise is added to counts; `given` answers by the place of the question, other answers are made up.

    A made-up answer follows from how often was asked and for how many cells, and from nothing else.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch, given: dict[int, np.ndarray] | None = None) -> None:
        self.asked = 0
        self.given = given or {}
        for place in ("marginals", "scored_marginals"):
            monkeypatch.setattr(f"privot.mechanisms.table_counts.{place}.add_noise_to_counts", self)

    def __call__(self, counts: np.ndarray, noise: Any, sigma: float) -> np.ndarray:
        self.asked += 1
        if self.asked - 1 in self.given:
            assert self.given[self.asked - 1].shape == counts.shape
            return self.given[self.asked - 1]
        return np.random.default_rng(self.asked).uniform(40.0, 400.0, counts.shape)
