"""Shapley values against all orders, the axioms that define them, and closed forms where orders are drawn."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privot.errors import UsageError
from privot.valuation.shapley import CoalitionPlan

worths = st.integers(1, 4).flatmap(
    lambda k: st.lists(st.floats(-100, 100), min_size=2**k, max_size=2**k).map(lambda v: [0.0, *v[1:]])
)


def along_all_orders(v: list[float]) -> np.ndarray:
    k = len(v).bit_length() - 1
    total, orders = np.zeros(k), list(permutations(range(k)))
    for order in orders:
        inside = 0
        for i in order:
            total[i] += v[inside | 1 << i] - v[inside]
            inside |= 1 << i
    return total / len(orders)


def values(v: list[float]) -> np.ndarray:
    plan = CoalitionPlan.of(len(v).bit_length() - 1)
    assert plan.errors(plan.worths(v.__getitem__)) is None
    return plan.values(plan.worths(v.__getitem__))


@settings(max_examples=60, deadline=None)
@given(worths)
def test_exact_values_are_the_mean_over_all_orders_and_sum_to_the_whole(v: list[float]) -> None:
    found = values(v)
    np.testing.assert_allclose(found, along_all_orders(v), atol=1e-9)
    assert found.sum() == pytest.approx(v[-1] - v[0], abs=1e-9)


@settings(max_examples=40, deadline=None)
@given(worths, st.floats(-10, 10))
def test_a_constant_contribution_is_its_value_and_twins_have_equal_values(v: list[float], own: float) -> None:
    k = len(v).bit_length() - 1
    # a dummy, worth `own` in whatever company; 0 is the null player
    found = values([v[s % 2**k] + own * (s >> k) for s in range(2 ** (k + 1))])
    assert found[k] == pytest.approx(own, abs=1e-9)
    np.testing.assert_allclose(found[:k], values(v), atol=1e-9)
    # party k is a twin of party 0: only whether one of them is in counts, or how many
    twins = [v[(s | s >> k) % 2**k] + own * (s & 1) * (s >> k) for s in range(2 ** (k + 1))]
    found = values(twins)
    assert found[k] == pytest.approx(found[0], abs=1e-9)


def test_drawn_orders_are_exact_for_pairs_and_state_their_error_otherwise() -> None:
    k, g = 12, np.random.default_rng(0)
    alone, both = g.normal(size=k), np.triu(g.normal(size=(k, k)), 1)
    plan = CoalitionPlan.of(k, seed=3)
    assert plan == CoalitionPlan.of(k, seed=3)
    assert plan != CoalitionPlan.of(k, seed=4)

    def pairwise(s: int) -> float:
        inside = np.array([s >> i & 1 for i in range(k)])
        return float(inside @ alone + inside @ both @ inside)

    answers = plan.worths(pairwise)
    # orders and their reverses count every pair as often one way as the other: no error is left
    np.testing.assert_allclose(plan.values(answers), alone + (both + both.T).sum(1) / 2, atol=1e-9)
    np.testing.assert_allclose(plan.errors(answers), 0.0, atol=1e-9)
    np.testing.assert_allclose(
        plan.left_out(answers), [pairwise(2**k - 1) - pairwise(2**k - 1 - 2**i) for i in range(k)], atol=1e-9
    )
    # the airport game: the longest runway is paid for; sorted lengths c have φ_i = Σ_{j ≤ i} (c_j − c_{j−1})/(k − j)
    length = np.sort(g.random(k))
    truth = np.cumsum(np.diff(length, prepend=0.0) / np.arange(k, 0, -1))
    plan = CoalitionPlan.of(k, seed=3, orders=1200)
    answers = plan.worths(lambda s: max((length[i] for i in range(k) if s >> i & 1), default=0.0))
    error = plan.errors(answers)
    assert error is not None
    found = plan.values(answers)
    # the shortest runway adds something when it comes first only, which it does as often in every group
    assert found[0] == pytest.approx(truth[0])
    off = np.abs(found - truth)[1:] / error.diagonal()[1:]
    # 11 deviations of one fixed seed: neither too large nor, as an error thrice as large would have them, too small
    assert 0.7 < off.max() < 4.0
    apart = np.abs((found[:, None] - found) - (truth[:, None] - truth)) / (error + np.eye(k))
    assert 0.7 < apart.max() < 5.0
    # as many orders that are not in groups leave an error half as large again
    assert error.diagonal().max() < 0.03 * truth.max()


def test_no_party_is_refused() -> None:
    with pytest.raises(UsageError):
        CoalitionPlan.of(0)
