"""Generated points: those asked about lie on the records' own levels, and those looked at leave no trace."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from privot.accounting import FixedSize
from privot.mechanisms import GradientQuery, SanitizedGradient
from privot.mechanisms.batches import Batches
from privot.synthesis.points import Points, on_levels
from privot.synthesis.rules import Rules
from privot.synthesis.sinkhorn import SinkhornStrategy
from privot.synthesis.training import Training


def training(**options: Any) -> Training:
    config = {"kind": "mlp", "dim": 4, "classes": 3, "segments": [[0, 4, "interval"]], "latent": 4, "hidden": [8]}
    return Training.start(Rules(config, 10, 6, 1e-2, {"optimizer": "adam", **options}), 1, "cpu")


@settings(max_examples=100, deadline=None)
@given(st.integers(1, 1000), st.floats(-1.0, 1.0, width=32))
def test_levels_are_equally_far_apart_and_the_nearest_is_taken(levels: int, value: float) -> None:
    x = torch.tensor([value])
    found = float(on_levels(x, levels))
    place = (found + 1.0) * levels / 2.0
    assert abs(place - round(place)) < 1e-4
    assert 0 <= round(place) <= levels
    assert abs(found - value) <= 1.0 / levels + 1e-6
    assert float(x) == value
    assert torch.equal(on_levels(torch.tensor([found]), levels), torch.tensor([found]))


def test_no_levels_leave_points_alone() -> None:
    x = torch.rand(5)
    assert on_levels(x, 0) is x


@pytest.mark.parametrize("levels", [1, 16, 255])
def test_levels_are_the_records_own_bit_for_bit(levels: int) -> None:
    """|x − y| has no slope where x = y, and its full slope one rounding beside it."""
    rows = np.arange(levels + 1.0)[:, None] / levels
    records: Any = SimpleNamespace(rows=lambda: rows, count=len(rows))
    sampling: Any = None
    noise: Any = None
    held = Batches(records, noise, sampling, room=1, steps=1, span=(0.0, 1.0), labels=False, device="cpu").rows[:-1]
    near = (held + 0.4 / levels * torch.linspace(-1.0, 1.0, levels + 1)[:, None]).clamp(-1.0, 1.0)
    assert torch.equal(on_levels(near, levels), held)


@pytest.mark.parametrize("rows", [1, 2, 7])
def test_points_aside_are_generated_and_leave_no_trace(rows: int) -> None:
    """One alone would have no statistics to be normalised by; those of a step's worth of points are not remembered."""
    held = training()
    points = Points(held, 6)
    first = points.make()
    before = {k: v.clone() for k, v in held.generator.state_dict().items() if "num_batches" not in k}
    state = held.random.get_state()
    x, labels = points.aside(rows)
    assert x.shape == (rows, 4)
    assert labels.tolist() == [k % 3 for k in range(rows)]
    assert not x.requires_grad
    for k, v in before.items():
        assert torch.equal(v, held.generator.state_dict()[k]), k
    held.random.set_state(state)
    z, marks = held.draw(max(rows, 6))
    torch.testing.assert_close(x, (2.0 * held.generator(z, marks) - 1.0).detach()[:rows])
    # what is learned is learned at the points that were made, not at those aside
    points.learn(torch.ones_like(first))


class Asked:
    """A stream that writes down its queries and answers with zeros."""

    def __init__(self) -> None:
        self.queries: list[GradientQuery] = []

    def ask(self, query: GradientQuery) -> Any:
        self.queries.append(query)
        return SimpleNamespace(value=torch.zeros_like(query.x))


@pytest.mark.parametrize("batch", [1, 5])
@pytest.mark.parametrize("levels", [0, 16, None])
def test_a_step_asks_about_points_on_levels_and_learns(levels: int | None, batch: int) -> None:
    held, stream = training(), Asked()
    mechanism = SanitizedGradient(6, 1.0, 0.5, FixedSize(batch, 9), reg=1.0, sweeps=6, labels=True)
    options = {"p": 0.5, "debias": "matched", "batch": batch, "levels": levels}
    if levels is None:
        # a job that was begun before there were levels
        del options["levels"]
    step = SinkhornStrategy().trainer(held, mechanism, options)
    weights = [p.detach().clone() for p in held.generator.parameters()]
    for _ in range(2):
        told: Any = stream
        assert bool(torch.isfinite(step(told)))
    assert len(stream.queries) == 2
    for query in stream.queries:
        assert query.x.shape == (6, 4)
        assert torch.equal(query.x, on_levels(query.x, 16)) == (levels == 16)
    assert any(not torch.equal(p, q) for p, q in zip(weights, held.generator.parameters(), strict=True))
