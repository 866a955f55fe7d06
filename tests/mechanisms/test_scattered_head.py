"""A classifier tuned on scattering features moves by no more than is counted, whatever a record is."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from mechanism_samples import Plain, Silent

from privot.guarantee import Adjacency
from privot.mechanisms.exact_sums import MARGIN
from privot.mechanisms.gradients import linear_head
from privot.mechanisms.gradients.linear_head import TunedHead
from privot.synthesis.neural.features.scattering import Scattering

ADD = Adjacency.ADD_REMOVE
SPECIAL = [0.0, 1.0, 0.5, math.nan, math.inf, -math.inf, 1e308, 5e-324, 2.0**-17]


def rows(count: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).uniform(size=(count, 256))


def made() -> Scattering:
    return Scattering((16, 16), 4).standardised(torch.from_numpy(rows(20, 9)).float(), 0.0, 1.0)


@settings(max_examples=10, deadline=None)
@given(st.lists(st.sampled_from(SPECIAL), min_size=1, max_size=256), st.integers(0, 2), st.booleans())
def test_one_record_moves_a_step_by_at_most_one(values: list[float], label: int, wrong: bool) -> None:
    held = made()
    x, y = rows(12, 8), np.arange(12) % 3
    x[-1] = np.resize(values, 256)
    y[-1] = label
    start = np.random.default_rng(1).standard_normal((held.size, 3)) * (1e3 if wrong else 1.0)

    def step(count: int) -> np.ndarray:
        tuned = TunedHead(held, start, 1.0, 1, 1.0)
        records = Plain(x[:count], y[:count], ADD, 3)
        value, _ = tuned.run(records, Silent(), tuned.event(records.facts), 0)
        # W = start − 0.2·S
        return (start - value["weights"]) / 0.2

    assert np.linalg.norm(step(12) - step(11)) <= 1.0 - 0.9 * MARGIN


def test_tuning_without_room_to_keep_features_gives_the_same_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    held = made()
    x, y = rows(50, 10), np.arange(50) % 2
    tuned = TunedHead(held, np.zeros((held.size, 2)), 1.0, 3, 0.5)
    records = Plain(x, y, ADD, 2)
    monkeypatch.setattr(linear_head, "_ROWS", 16)
    calls: list[int] = []
    monkeypatch.setattr(held, "features", lambda rows: calls.append(len(rows)) or Scattering.features(held, rows))

    def weights(most: int) -> np.ndarray:
        monkeypatch.setattr(linear_head, "_MAX_KEPT", most)
        event = tuned.event(records.facts)
        calls.clear()
        return np.asarray(tuned.run(records, Silent(), event, 0)[0]["weights"])

    kept = weights(2**29)
    assert calls == [16, 16, 16, 2]
    assert np.array_equal(weights(20 * held.size), kept)
    # the first block fits into that room
    assert calls == [16, 16, 16, 2] + [16, 16, 2] * 2
    assert np.array_equal(weights(0), kept)
    assert calls == [16, 16, 16, 2] * 3
