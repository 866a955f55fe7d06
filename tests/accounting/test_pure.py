"""Pure differential privacy: ε at δ = 0 against closed forms and brute force, and the refusal where there is none."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from privot.accounting import (
    Composed,
    FixedSize,
    Gaussian,
    Laplace,
    Poisson,
    Repeated,
    Sampled,
    account,
    laplace,
    read_guarantee,
)
from privot.accounting.events import Renyi, Unbounded
from privot.accounting.pure import pure_epsilon
from privot.errors import UsageError
from privot.guarantee import Adjacency, Guarantee, Standing

A, R = Adjacency.ADD_REMOVE, Adjacency.REPLACE_ONE


@pytest.mark.slow
def test_laplace_steps_add_up() -> None:
    event = Composed((Repeated(Laplace(2.0, 1.0, A), 3), Laplace(0.5, 1.0, A)))
    assert pure_epsilon(event) == pytest.approx(3.5, rel=1e-11)
    assert pure_epsilon(event) >= 3.5
    assert account(event, 0.0).epsilon() == pure_epsilon(event)
    # a greater δ costs less, and δ → 0 comes back to it
    assert account(event, 1e-5).epsilon() < account(event, 0.0).epsilon()
    assert account(event, 1e-5).epsilon(0.0) == pure_epsilon(event)


def randomised_response(epsilon: float) -> np.ndarray:
    """P(answer | bit), the mechanism that reaches every pure bound."""
    p = 1.0 / (1.0 + math.exp(-epsilon))
    return np.array([[p, 1.0 - p], [1.0 - p, p]])


@pytest.mark.parametrize("epsilon", [1e-6, 0.3, 2.0, 9.0])
def test_a_poisson_sample_costs_what_enumeration_says(epsilon: float) -> None:
    table, rate = randomised_response(epsilon), 0.2
    # without the record the answer is that of bit 0; with it that of bit 1, if it is in the sample
    without, with_ = table[0], (1 - rate) * table[0] + rate * table[1]
    worst = max(np.abs(np.log(with_ / without)))
    step = Sampled(Laplace(1.0, epsilon, A), Poisson(rate))
    assert pure_epsilon(step) == pytest.approx(worst, rel=1e-9)
    assert pure_epsilon(step) >= worst * (1 - 1e-9)


def test_a_sample_of_fixed_size_costs_what_enumeration_says() -> None:
    table, n, m = randomised_response(1.5), 5, 2
    law = {}
    for last in (0, 1):
        bits = [0, 0, 0, 0, last]
        samples = list(itertools.combinations(range(n), m))
        law[last] = sum(table[max(bits[i] for i in s)] for s in samples) / len(samples)
    worst = max(np.abs(np.log(law[1] / law[0])))
    assert pure_epsilon(Sampled(Laplace(1.0, 1.5, R), FixedSize(m, n))) == pytest.approx(worst, rel=1e-9)


def test_a_curve_with_a_pure_bound_has_one_and_other_events_have_none() -> None:
    known = Renyi((2.0,), (0.1,), A, Standing.PROVEN, pure=0.7)
    assert pure_epsilon(Repeated(known, 2)) == pytest.approx(1.4, rel=1e-9)
    for event in (Gaussian(1.0, 1.0, A), Unbounded("x", A), Renyi((2.0,), (0.1,), A, Standing.PROVEN)):
        assert pure_epsilon(event) == math.inf
        assert pure_epsilon(Composed((Laplace(1.0, 1.0, A), event))) == math.inf
        with pytest.raises(UsageError, match="At δ = 0 nothing is promised"):
            account(event, 0.0)
    assert account(Gaussian(1.0, 1.0, A), 1e-5).epsilon(0.0) == math.inf


@pytest.mark.slow
def test_a_pure_guarantee_is_written_and_read_back(monkeypatch: pytest.MonkeyPatch) -> None:
    # composed privacy losses of Laplace noise take a second per δ
    monkeypatch.setattr("privot.guarantee.TABLE_DELTAS", (1e-6, 0.1))
    pure = account(Repeated(Laplace(2.0, 1.0, A), 3), 0.0)
    assert "δ = 0" in pure.stated()
    for again in (Guarantee.from_json(pure.to_json()), read_guarantee(pure.to_json())):
        assert again.at_delta == 0.0
        assert again.epsilon() == pytest.approx(1.5, rel=1e-9)
        assert again.epsilon(1e-6) <= again.epsilon()
    assert "plus" not in pure.explain()


@pytest.mark.slow
@pytest.mark.parametrize("delta", [0.0, pytest.param(1e-6, marks=pytest.mark.slow)])
def test_the_plan_of_laplace_noise_meets_its_target(delta: float) -> None:
    plan = laplace(adjacency=R, delta=delta, epsilon=1.0, sensitivity=5.0, releases=2)
    assert plan.scale is not None
    assert plan.sigma == pytest.approx(math.sqrt(2) * plan.scale)
    assert 0.99 <= plan.guarantee.epsilon() <= 1.0
    back = laplace(adjacency=R, delta=delta, scale=plan.scale, sensitivity=5.0, releases=2)
    assert back.guarantee.epsilon() == plan.guarantee.epsilon()
    if delta == 0.0:
        assert plan.scale == pytest.approx(10.0, rel=1e-9)
    else:
        # two releases gain nothing from so small a δ; the search is exact to two parts in ten thousand
        assert plan.scale <= 10.0 * (1 + 3e-4)
    for wrong in ({}, {"epsilon": 1.0, "scale": 1.0}, {"epsilon": -1.0}, {"scale": 0.0}):
        with pytest.raises(UsageError):
            laplace(adjacency=R, **wrong)
