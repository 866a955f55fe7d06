"""Generated points: those looked at leave no trace, and those asked about are learned from."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from privot.accounting import FixedSize
from privot.mechanisms import SanitizedGradient
from privot.mechanisms.gradients.sinkhorn_gradient import GradientQuery
from privot.synthesis.methods.generated_points import Points
from privot.synthesis.methods.sinkhorn_method import SinkhornMethod, second_term
from privot.synthesis.neural.defaults.problem_and_rules import Rules
from privot.synthesis.neural.generator_training.training_state import TrainingState


def training(**options: Any) -> TrainingState:
    config = {"kind": "mlp", "dim": 4, "classes": 3, "segments": [[0, 4, "interval"]], "latent": 4, "hidden": [8]}
    return TrainingState.start(Rules(config, 10, 6, 1e-2, {"optimizer": "adam", **options}), 1, "cpu")


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
    """A stream that records its queries and answers with zeros, or with `value`(query)."""

    def __init__(self, value: Any = None) -> None:
        self.queries: list[GradientQuery] = []
        self.value = value

    def answer(self, query: GradientQuery) -> Any:
        self.queries.append(GradientQuery(query.x.clone(), query.labels))
        return SimpleNamespace(value=torch.zeros_like(query.x) if self.value is None else self.value(query))


@pytest.mark.parametrize("batch", [1, 5])
def test_a_step_asks_about_its_points_and_learns(batch: int) -> None:
    held, stream = training(), Asked()
    mechanism = SanitizedGradient(6, 1.0, 0.5, FixedSize(batch, 9), reg=1.0, sweeps=6, labels=True)
    options = {"p": 0.5, "debias": "matched", "batch": batch}
    step = SinkhornMethod().trainer(held, mechanism, options)
    weights = [p.detach().clone() for p in held.generator.parameters()]
    for _ in range(2):
        told: Any = stream
        assert bool(torch.isfinite(step(told)))
    assert len(stream.queries) == 2
    for query in stream.queries:
        assert query.x.shape == (6, 4)
    assert any(not torch.equal(p, q) for p, q in zip(weights, held.generator.parameters(), strict=True))


@pytest.mark.parametrize("debias", ["none", "plain"])
def test_a_step_of_several_samples_follows_the_mean_of_its_groups(debias: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each group's first points are asked about, and what is answered goes to them; more are made only if needed."""
    learned: list[torch.Tensor] = []
    monkeypatch.setattr(Points, "learn", lambda self, slope: learned.append(slope.clone()))
    mechanism = SanitizedGradient(6, 1.0, 0.5, FixedSize(5, 9), samples=2, reg=1.0, sweeps=6, labels=True)
    held = training()
    stream: Any = Asked(lambda query: query.x + query.labels[:, None])
    step = SinkhornMethod().trainer(held, mechanism, {"p": 0.5, "debias": debias, "batch": 5})
    (x,) = watched(1, monkeypatch, lambda: step(stream))
    rows = 6 if debias == "none" else 9
    assert len(x) == 2 * rows
    marks = torch.arange(2 * rows) % held.generator.classes
    asked = torch.tensor([*range(6), *range(rows, rows + 6)])
    (query,) = stream.queries
    torch.testing.assert_close(query.x, x[asked])
    assert torch.equal(query.labels, marks[asked])
    wanted = torch.zeros_like(x)
    wanted[asked] = (x + marks[:, None])[asked]
    if debias == "plain":
        wanted -= second_term(mechanism, 6, 3)(x, marks)[0]
    torch.testing.assert_close(learned[0], 0.5 * wanted)


@pytest.mark.parametrize("every", [1, 3])
def test_the_second_term_comes_every_so_often_and_as_often_as_it_was_left_out(
    every: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    learned: list[torch.Tensor] = []
    monkeypatch.setattr(Points, "learn", lambda self, slope: learned.append(slope.clone()))
    mechanism = SanitizedGradient(6, 1.0, 0.5, FixedSize(5, 9), reg=1.0, sweeps=6, labels=True)
    held, told = training(), Asked()
    step = SinkhornMethod().trainer(held, mechanism, {"p": 0.5, "debias": "plain", "batch": 5, "every": every})
    whole = watched(7, monkeypatch, lambda: step(told))  # type: ignore[arg-type]
    for number, (slope, x) in enumerate(zip(learned, whole, strict=True)):
        if number % every:
            # without it, its own points are not made
            assert slope.shape == (6, 4)
            assert not bool(slope.any())
        else:
            (term,) = second_term(mechanism, 6, 3)(x, torch.arange(9) % held.generator.classes)
            torch.testing.assert_close(slope, -every * term)
    assert any(bool(slope.any()) for slope in learned)


def watched(times: int, monkeypatch: pytest.MonkeyPatch, act: Any) -> list[torch.Tensor]:
    """The points that were made while `act` was called that often."""
    made: list[torch.Tensor] = []
    plain = Points.make

    def make(self: Points) -> torch.Tensor:
        made.append(plain(self).clone())
        return made[-1]

    monkeypatch.setattr(Points, "make", make)
    for _ in range(times):
        act()
    return made
