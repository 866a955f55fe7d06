"""Exact transport: closed forms, POT to 1e-9, SciPy's linear programme, duals, calibrated gradients."""

from __future__ import annotations

import numpy as np
import ot
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog
from scipy.spatial.distance import cdist

from privot.errors import ConvergenceError, DataError, UsageError
from privot.transport import _exact, calibrated_gradients, exact
from privot.transport._exact import couple, exact_matrix
from privot.transport._lava import midpoint_duals

rng = np.random.default_rng(3)


def simplex(n: int, seed: int) -> np.ndarray:
    w = np.random.default_rng(seed).random(n)
    return w / w.sum()


@pytest.mark.parametrize("p", [1, 2, 3.5])
def test_diracs_translations_and_permutations(p: float) -> None:
    assert exact([[0.0, 0.0]], [[3.0, 4.0]], p).value == pytest.approx(5.0, rel=1e-14)
    x = rng.normal(size=(25, 4))
    assert exact(x, rng.permutation(x), p).value == 0.0
    assert exact(x, x + np.array([1, 2, 2, 0]), p).value == pytest.approx(3.0, rel=1e-12)


@pytest.mark.parametrize("p", [1, 2, 3.5])
@pytest.mark.parametrize(("n", "m", "weighted"), [(40, 40, False), (40, 40, True), (30, 47, False), (9, 50, True)])
def test_agrees_with_pot(n: int, m: int, weighted: bool, p: float) -> None:
    x, y = rng.normal(size=(n, 5)), rng.normal(size=(m, 5)) + 0.4
    a, b = (simplex(n, 1), simplex(m, 2)) if weighted else (None, None)
    C = cdist(x, y) ** p
    wa, wb = (np.full(n, 1 / n), np.full(m, 1 / m)) if a is None else (a, b)
    result = exact(x, y, p, a, b)
    assert result.value == pytest.approx(ot.emd2(wa, wb, C) ** (1 / p), rel=1e-9)
    np.testing.assert_allclose(result.plan.sum(1), wa, atol=1e-12)
    np.testing.assert_allclose(result.plan.sum(0), wb, atol=1e-12)
    f, g = result.potentials
    assert (f[:, None] + g - C).max() < 1e-9 * C.max()
    assert f @ wa + g @ wb == pytest.approx(result.value**p, rel=1e-9)
    assert result.transport_cost == pytest.approx(result.value**p, rel=1e-12)


def test_agrees_with_a_linear_programme() -> None:
    C, a, b = rng.random((6, 5)), simplex(6, 1), simplex(5, 2)
    rows = np.kron(np.eye(6), np.ones(5)), np.kron(np.ones(6), np.eye(5))
    best = linprog(C.ravel(), A_eq=np.vstack(rows), b_eq=np.concatenate((a, b))).fun
    assert exact_matrix(C, a, b).value == pytest.approx(best, rel=1e-9)


@pytest.mark.parametrize("p", [1, 2, 3.5])
@pytest.mark.parametrize("m", [6, 8])
def test_gradients_agree_with_finite_differences(p: float, m: int) -> None:
    x = torch.tensor(rng.normal(size=(6, 3)), requires_grad=True)
    y = torch.tensor(rng.normal(size=(m, 3)), requires_grad=True)
    assert torch.autograd.gradcheck(lambda s, t: exact(s, t, p).value, (x, y), eps=1e-7, atol=1e-6)
    C = torch.rand(5, m, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda c: exact_matrix(c).value, (C,), eps=1e-7, atol=1e-6)


def test_touching_points_have_a_finite_gradient() -> None:
    x = torch.tensor([[0.0], [1.0]], dtype=torch.float64, requires_grad=True)
    for p in (1, 1.5, 2):
        exact(x, torch.tensor([[0.0], [3.0]], dtype=torch.float64), p).value.backward()
        assert x.grad is not None
        assert torch.isfinite(x.grad).all()


def test_an_unfinished_simplex_raises(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_exact, "MAX_PIVOTS", 3)
    x, y = rng.normal(size=(60, 3)), rng.normal(size=(61, 3))
    with pytest.raises(ConvergenceError, match="network simplex"), pytest.warns(UserWarning, match="numItermax"):
        exact(x, y)


def test_zero_weights_and_duplicates() -> None:
    x, y = np.repeat(rng.normal(size=(4, 2)), 2, axis=0), rng.normal(size=(6, 2))
    a, b = np.array([0.5, 0, 0.25, 0, 0.25, 0, 0, 0]), np.array([0, 0.5, 0.5, 0, 0, 0])
    full = exact(x, y, a=a, b=b)
    assert full.value == pytest.approx(exact(x[a > 0], y[b > 0], a=a[a > 0], b=b[b > 0]).value, rel=1e-12)
    assert np.isfinite(full.potentials[0]).all()


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 7), st.integers(1, 7), st.sampled_from([1, 2, 3]))
def test_it_is_a_metric_and_invariant(seed: int, n: int, m: int, p: int) -> None:
    g = np.random.default_rng(seed)
    x, y, z = (np.round(g.normal(size=(k, 2)), 1) for k in (n, m, 4))
    there = exact(x, y, p).value
    assert exact(y, x, p).value == pytest.approx(there, rel=1e-9, abs=1e-12)
    assert there <= exact(x, z, p).value + exact(z, y, p).value + 1e-9
    assert exact(x, x, p).value == 0.0
    assert exact(g.permutation(x) + 5.0, y + 5.0, p).value == pytest.approx(there, rel=1e-9, abs=1e-9)


def test_midpoint_duals_are_optimal_and_in_the_middle() -> None:
    C = cdist(rng.normal(size=(12, 2)), rng.normal(size=(12, 2)) + 1, "sqeuclidean")
    f = midpoint_duals(C)
    g = (C - f[:, None]).min(0)
    found = couple(C, None, None)
    assert f.mean() + g.mean() == pytest.approx(C[found.i, found.j].mean(), rel=1e-10)
    # one pair: f₀ − f₁ may lie anywhere in [C01 − C11 reversed …], the midpoint of its two bounds by hand
    C = np.array([[0.0, 5.0], [3.0, 1.0]])  # f₀ − f₁ ≤ C01 − C11 = 4, f₁ − f₀ ≤ C10 − C00 = 3
    f = midpoint_duals(C)
    assert f[0] - f[1] == pytest.approx((4 - 3) / 2)


@pytest.mark.parametrize("cost", [np.nan, np.inf])
@pytest.mark.parametrize("columns", [3, 4])
def test_costs_that_are_no_numbers_are_refused(cost: float, columns: int) -> None:
    # the network simplex does not survive them
    C = np.ones((3, columns))
    C[1, 1] = cost
    with pytest.raises(DataError, match="finite"):
        couple(C, None, None)


@pytest.mark.parametrize("method", ["entropic", "exact"])
def test_calibrated_gradients_find_the_strangers(method: str) -> None:
    y, x = rng.normal(size=(60, 4)), rng.normal(size=(50, 4))
    x[:5] += 6.0
    score = calibrated_gradients(x, y, method=method).value
    assert set(np.argsort(score)[-5:]) == set(range(5))
    assert score.shape == (50,)
    # they are f_i minus the mean of the others, so they sum to zero
    assert score.sum() == pytest.approx(0.0, abs=1e-8 * np.abs(score).max())


def test_calibrated_gradients_predict_what_moving_mass_does() -> None:
    # d/dt OT(x with weight t more on i and t/(n−1) less on each other) = f_i − mean of the other f
    from privot.transport import sinkhorn

    x, y = rng.normal(size=(8, 2)), rng.normal(size=(9, 2))
    score = calibrated_gradients(x, y, reg=0.7, tol=1e-12).value
    t, a = 1e-5, np.full(8, 1 / 8)
    for i in (0, 5):
        push = np.full(8, -t / 7)
        push[i] = t
        up, down = (sinkhorn(x, y, 0.7, a=a + s * push, tol=1e-12).value for s in (1, -1))
        assert (up - down) / (2 * t) == pytest.approx(score[i], rel=1e-5)


def test_refusals() -> None:
    x = rng.normal(size=(3, 2))
    with pytest.raises(UsageError):
        calibrated_gradients(x, x, method="guess")
    with pytest.raises(UsageError):
        exact(x, x, p=0.9)
    with pytest.raises(DataError):
        exact_matrix(np.zeros((2, 0)))
    with pytest.raises(UsageError, match="asks for a gradient"):
        exact(x, x, a=torch.full((3,), 1 / 3, requires_grad=True))
