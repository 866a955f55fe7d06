"""A classifier tuned on records moves by no more than is counted in every step, and has its noise in every step."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from mechanism_samples import Plain, Raw, Silent
from scipy import stats

from privot.accounting import Gaussian, account
from privot.accounting.events import Composed, Repeated
from privot.errors import UsageError
from privot.guarantee import Adjacency
from privot.mechanisms import Facts
from privot.mechanisms.exact_sums import MARGIN
from privot.mechanisms.gradients.linear_head import TunedHead, bounded, on_grid
from privot.noise import SystemNoise
from privot.synthesis.neural.features.fourier import Fourier
from privot.vault import Vault
from weaker_noise import WeakerNoise

ADD, REPLACE = Adjacency.ADD_REMOVE, Adjacency.REPLACE_ONE
ANY = st.floats(allow_nan=True, allow_infinity=True)


def head(dim: int = 3, classes: int = 2, **given: Any) -> TunedHead:
    fields = {"sigma": 2.0, "rounds": 4, "rate": 0.1, "start": np.zeros((dim, classes)), **given}
    return TunedHead(Raw(dim), **fields)


@pytest.mark.parametrize(("adjacency", "sensitivity"), [(ADD, 1.0), (REPLACE, 2.0)])
def test_event_says_what_runs(adjacency: Adjacency, sensitivity: float) -> None:
    x, y = np.random.default_rng(0).uniform(size=(30, 3)), np.arange(30) % 2
    records, noise = Plain(x, y, adjacency, 2), Silent()
    event = head().event(records.facts)
    assert event == Repeated(Gaussian(4.0, sensitivity, adjacency), 4)
    value, public = head().run(records, noise, event, 0)
    assert noise.asked == [((3, 2), 4.0)] * 4
    assert value["weights"].shape == (3, 2)
    assert public["records"] == (30 if adjacency is REPLACE else None)


def test_all_steps_cost_what_one_release_with_the_stated_sigma_costs() -> None:
    facts = Plain(np.zeros((4, 3)), np.zeros(4, dtype=int), ADD, 2).facts
    for rounds in (1, 7, 100):
        once = account(Gaussian(2.0, 1.0, ADD), 1e-5).epsilon()
        assert account(head(rounds=rounds).event(facts), 1e-5).epsilon() == pytest.approx(once, rel=1e-9)
    # and beside another Gaussian release the squares of 1/σ add up: 1/1.5² + 1/2² = 1/1.2²
    both = Composed((Gaussian(1.5, 1.0, ADD), head().event(facts)))
    assert account(both, 1e-5).epsilon() == pytest.approx(account(Gaussian(1.2, 1.0, ADD), 1e-5).epsilon(), rel=1e-9)


@settings(max_examples=200)
@given(arrays(np.float64, (4, 5), elements=ANY))
def test_features_are_bounded_exactly_and_row_by_row(phi: np.ndarray) -> None:
    held = bounded(torch.from_numpy(phi))
    assert torch.equal(torch.cat([bounded(torch.from_numpy(row[None])) for row in phi]), held)
    for row in held.numpy():
        norm = sum((Fraction(float(v)) ** 2 for v in row), Fraction(0))
        assert norm <= Fraction(1.0 - MARGIN) ** 2 * (1 + Fraction(2, 2**50))
        assert np.array_equal(row, np.ldexp(np.rint(np.ldexp(row, 24)), -24))


@settings(max_examples=100)
@given(
    arrays(np.float64, (3, 6), elements=ANY),
    arrays(np.float64, (6, 4), elements=st.floats(-1e6, 1e6)),
)
def test_scores_are_exact_whatever_features_and_weights_are(phi: np.ndarray, weights: np.ndarray) -> None:
    g, held = bounded(torch.from_numpy(phi)), on_grid(weights)
    found = (g @ torch.from_numpy(held)).numpy()
    for i in range(3):
        for c in range(4):
            exact = sum((Fraction(float(a)) * Fraction(float(b)) for a, b in zip(g[i], held[:, c], strict=True)), 0)
            assert Fraction(float(found[i, c])) == exact


@settings(max_examples=100)
@given(
    arrays(np.float64, (6, 4), elements=ANY),
    arrays(np.float64, (4, 3), elements=st.floats(-1e5, 1e5)),
    st.integers(0, 2),
)
def test_one_record_moves_a_step_by_at_most_one(phi: np.ndarray, weights: np.ndarray, label: int) -> None:
    tuned = head(4, 3)
    labels = torch.tensor([0, 1, 2, 0, 1, label])
    g = bounded(torch.from_numpy(phi))
    without = tuned._slope([(g[:-1], labels[:-1])], weights)
    assert np.linalg.norm(tuned._slope([(g, labels)], weights) - without) <= 1.0 - 0.9 * MARGIN


def test_a_record_can_move_a_step_by_nearly_one() -> None:
    """So the bound is not met by releasing nothing."""
    tuned = head(4, 3)
    g = bounded(torch.tensor([[8.0, 0.0, 0.0, 0.0]]))
    wrong = np.zeros((4, 3))
    wrong[0, 1] = 100.0
    assert np.linalg.norm(tuned._slope([(g, torch.tensor([0]))], wrong)) > 0.9999


def test_it_goes_down_the_gradient_as_another_implementation_does() -> None:
    dice = np.random.default_rng(1)
    x, y = 0.3 * dice.standard_normal((50, 3)), dice.integers(0, 2, 50)
    start = dice.standard_normal((3, 2))
    tuned = head(start=start, rounds=6)
    value, _ = tuned.run(Plain(x, y, ADD, 2), Silent(), tuned.event(Plain(x, y, ADD, 2).facts), 0)
    w, v, kept = torch.tensor(start), torch.zeros(3, 2, dtype=torch.float64), []
    for _ in range(6):
        total = torch.zeros_like(w)
        for row, label in zip(torch.tensor(x), y, strict=True):
            row = row / max(1.0, float(row.norm()))
            at = w.clone().requires_grad_()
            loss = torch.nn.functional.cross_entropy((row @ at)[None], torch.tensor([label]))
            (slope,) = torch.autograd.grad(loss, at)
            off = float((torch.softmax(row @ w, 0) - torch.eye(2, dtype=w.dtype)[label]).norm())
            total += slope / max(1.0, off)
        v = 0.8 * v + 0.2 * total
        w = w - 0.1 * v
        kept.append(w)
    np.testing.assert_allclose(value["weights"], torch.stack(kept[3:]).mean(0).numpy(), atol=2e-3)


def _spread(noise: Any) -> float:
    """The p-value of the released weights' variance where all features are zero and all that is released is noise."""
    rounds, dim = 5, 600
    tuned = TunedHead(Raw(dim), np.zeros((dim, 4)), 3.0, rounds, 0.5)
    records = Plain(np.zeros((2, dim)), np.array([0, 3]), ADD, 4)
    value, _ = tuned.run(records, noise, tuned.event(records.facts), 0)
    # W_t = −rate·Σ_s (1 − 0.8^(t−s+1))·S_s, and W_2 … W_4 are averaged
    share = [np.mean([1 - 0.8 ** (t - s + 1) if t >= s else 0.0 for t in (2, 3, 4)]) for s in range(rounds)]
    sigma = 0.5 * 3.0 * math.sqrt(rounds) * float(np.linalg.norm(share))
    squares = float((value["weights"] ** 2).sum()) / sigma**2
    return 2.0 * min(stats.chi2.cdf(squares, 4 * dim), stats.chi2.sf(squares, 4 * dim))


def test_noise_of_every_step_is_the_stated_one() -> None:
    assert _spread(SystemNoise()) > 1e-6
    assert _spread(WeakerNoise(2 / 3)) < 1e-6


def test_it_is_released_by_a_vault_and_charged_before() -> None:
    x, y = np.random.default_rng(0).uniform(size=(40, 3)), np.arange(40) % 2
    vault = Vault(x, y, classes=2, clip=1.0, adjacency="add-remove", budget=(10.0, 1e-5))
    release = vault.release(head(), purpose="labels")
    assert release.guarantee.epsilon() == pytest.approx(account(Gaussian(2.0, 1.0, ADD), 1e-5).epsilon(), rel=1e-9)


@pytest.mark.parametrize(
    "bad",
    [
        {"start": np.zeros((4, 2))},
        {"start": np.zeros(3)},
        {"start": np.full((3, 2), np.nan)},
        {"sigma": 0.0},
        {"rounds": 0},
        {"rate": 0.0},
        {"rate": math.inf},
    ],
)
def test_what_cannot_be_tuned_is_refused(bad: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        head(**bad)


def test_an_inexact_map_other_classes_and_too_many_records_are_refused_before_paying() -> None:
    with pytest.raises(UsageError, match="last bit"):
        TunedHead(Fourier(3, 2, [1.0], 0), np.zeros((4, 2)), 1.0, 2, 0.1)
    x = np.zeros((4, 3))
    with pytest.raises(UsageError, match="classes"):
        head().event(Plain(x, np.zeros(4, dtype=int), ADD, 3).facts)
    facts = Facts(3, 10**7, 1.0, REPLACE, 2)
    with pytest.raises(UsageError, match="Rounding"):
        head().event(facts)
    many = Plain(x, np.zeros(4, dtype=int), ADD, 2)
    many.count = 10**7
    with pytest.raises(UsageError, match="Rounding"):
        head().run(many, Silent(), head().event(many.facts), 0)
    head().event(replace(facts, records=6 * 10**6))
    with pytest.raises(UsageError, match="event it made"):
        head().run(Plain(x, np.zeros(4, dtype=int), ADD, 2), Silent(), Gaussian(2.0, 1.0, ADD), 0)
