"""One dimension: closed forms, SciPy and POT as oracles, finite differences."""

from __future__ import annotations

import numpy as np
import ot
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import stats

from privot.errors import UsageError
from privot.transport import exact, wasserstein_1d

POWERS = [1, 1.5, 2, 3, 7.3]
rng = np.random.default_rng(0)


def simplex(n: int, seed: int) -> np.ndarray:
    w = np.random.default_rng(seed).random(n)
    return w / w.sum()


@pytest.mark.parametrize("p", POWERS)
def test_a_translation_costs_its_length(p: float) -> None:
    x = rng.normal(size=30)
    assert wasserstein_1d(x, x + 2.5, p).value == pytest.approx(2.5, rel=1e-12)
    assert wasserstein_1d(x, rng.permutation(x), p).value == 0.0


@pytest.mark.parametrize("p", POWERS)
def test_two_masses_by_hand(p: float) -> None:
    # 0 (¾), 1 (¼) against 0 (½), 2 (½): ¼ stays to be moved by 2 and ¼ by 1
    value = wasserstein_1d([0.0, 1.0], [0.0, 2.0], p, a=[0.75, 0.25], b=[0.5, 0.5]).value
    assert value == pytest.approx((0.25 * 2**p + 0.25) ** (1 / p), rel=1e-12)


@pytest.mark.parametrize(("n", "m"), [(8, 8), (5, 13), (12, 8), (1, 6), (40, 39)])
def test_agrees_with_scipy_at_p_one(n: int, m: int) -> None:
    x, y, a, b = rng.normal(size=n), rng.normal(size=m), simplex(n, 1), simplex(m, 2)
    assert wasserstein_1d(x, y, 1).value == pytest.approx(stats.wasserstein_distance(x, y), rel=1e-12)
    assert wasserstein_1d(x, y, 1, a, b).value == pytest.approx(stats.wasserstein_distance(x, y, a, b), rel=1e-10)


@pytest.mark.parametrize("p", POWERS)
@pytest.mark.parametrize(("n", "m"), [(8, 8), (5, 13), (12, 8)])
def test_agrees_with_the_network_simplex(n: int, m: int, p: float) -> None:
    x, y, a, b = rng.normal(size=n), rng.normal(size=m), simplex(n, 3), simplex(m, 4)
    cost = np.abs(x[:, None] - y[None, :]) ** p
    uniform = ot.emd2(np.full(n, 1 / n), np.full(m, 1 / m), cost) ** (1 / p)
    assert wasserstein_1d(x, y, p).value == pytest.approx(uniform, rel=1e-9)
    assert wasserstein_1d(x, y, p, a, b).value == pytest.approx(ot.emd2(a, b, cost) ** (1 / p), rel=1e-9)


def test_the_plan_has_its_marginals_and_its_cost() -> None:
    x, y, a, b = rng.normal(size=9), rng.normal(size=5), simplex(9, 5), simplex(5, 6)
    result = wasserstein_1d(x, y, 2, a, b)
    np.testing.assert_allclose(result.plan.sum(1), a, atol=1e-14)
    np.testing.assert_allclose(result.plan.sum(0), b, atol=1e-14)
    assert np.sqrt((result.plan * (x[:, None] - y) ** 2).sum()) == pytest.approx(result.value, rel=1e-12)


@pytest.mark.gate(5)
@pytest.mark.slow
@pytest.mark.parametrize("p", POWERS)
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("m", [6, 9])
def test_gradients_agree_with_finite_differences(p: float, weighted: bool, m: int) -> None:
    x = torch.tensor(rng.normal(size=(6, 3)), requires_grad=True)
    y = torch.tensor(rng.normal(size=(m, 3)), requires_grad=True)
    a, b = (simplex(6, 7), simplex(m, 8)) if weighted else (None, None)
    assert torch.autograd.gradcheck(lambda s, t: wasserstein_1d(s, t, p, a, b).value, (x, y), eps=1e-7, atol=1e-6)


def test_columns_are_separate_problems() -> None:
    x, y = rng.normal(size=(7, 4)), rng.normal(size=(9, 4))
    together = wasserstein_1d(x, y, 3).value
    np.testing.assert_allclose(together, [wasserstein_1d(x[:, j], y[:, j], 3).value for j in range(4)], rtol=1e-13)


@pytest.mark.parametrize("scale", [1e-25, 1e25])
def test_float32_neither_overflows_nor_vanishes(scale: float) -> None:
    x = rng.normal(size=20).astype(np.float32)
    for p in (2, 40):
        small = wasserstein_1d(x, x[::-1] * 2 + 1, p).value
        shifted = wasserstein_1d(x * np.float32(scale), (x[::-1] * 2 + 1) * np.float32(scale), p).value
        assert shifted / scale == pytest.approx(small, rel=1e-5)


def test_float32_orders_like_float64_with_signs_and_ties() -> None:
    x = np.array([0.0, -0.0, -1.5, 3.0, -1.5, 2e-38, -2e-38, 7.0, 0.0], dtype=np.float32)
    t = torch.tensor(x, requires_grad=True)
    y = torch.linspace(-3, 5, 9)
    value = wasserstein_1d(t, y).value
    value.backward()
    assert value.item() == pytest.approx(wasserstein_1d(x.astype(float), y.double().numpy()).value, rel=1e-6)
    # each point is pulled towards the quantile it is matched with; all pulls together are the mean gap
    assert t.grad is not None
    assert t.grad.sum().item() * value.item() == pytest.approx((t - y).mean().item(), rel=1e-5)


numbers = arrays(np.float64, st.integers(1, 12), elements=st.floats(-100, 100, width=32))


@settings(max_examples=60, deadline=None)
@given(numbers, numbers, numbers, st.sampled_from([1, 2, 3.5]))
def test_it_is_a_metric(x: np.ndarray, y: np.ndarray, z: np.ndarray, p: float) -> None:
    xy, yx = wasserstein_1d(x, y, p).value, wasserstein_1d(y, x, p).value
    xz, zy = wasserstein_1d(x, z, p).value, wasserstein_1d(z, y, p).value
    assert xy == pytest.approx(yx, rel=1e-9, abs=1e-12)
    assert xy <= xz + zy + 1e-9
    assert wasserstein_1d(x, x, p).value == 0.0
    assert xy == pytest.approx(exact(x, y, p).value, rel=1e-6, abs=1e-6)


@pytest.mark.parametrize("p", [0.5, 0, -1, np.nan, np.inf, True, "2"])
def test_powers_below_one_are_refused(p: object) -> None:
    with pytest.raises(UsageError):
        wasserstein_1d([0.0], [1.0], p)
