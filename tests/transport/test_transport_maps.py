"""Geometry: Gaussians in closed form, geodesics, barycenters, label-aware distances."""

from __future__ import annotations

import numpy as np
import ot
import pytest
import torch
from scipy.linalg import sqrtm
from scipy.spatial.distance import cdist

from privot.errors import ConvergenceError, DataError, UsageError
from privot.transport import barycentric_map, bures, exact, free_support_barycenter, interpolate, otdd
from privot.transport._otdd import augmented, augmented_pair

rng = np.random.default_rng(4)


def covariance(d: int, seed: int) -> np.ndarray:
    g = np.random.default_rng(seed).normal(size=(d, d))
    return g @ g.T + 0.1 * np.eye(d)


def test_bures_agrees_with_scipy_and_pot() -> None:
    m, k, S, R = rng.normal(size=4), rng.normal(size=4), covariance(4, 1), covariance(4, 2)
    half = sqrtm(S)
    square = ((m - k) ** 2).sum() + np.trace(S + R - 2 * np.real(sqrtm(half @ R @ half)))
    assert bures(m, S, k, R).value == pytest.approx(np.sqrt(square), rel=1e-9)
    assert bures(m, S, k, R).value == pytest.approx(ot.gaussian.bures_wasserstein_distance(m, k, S, R), rel=1e-9)
    assert bures(m, S, m, S).value == pytest.approx(0.0, abs=1e-6)
    assert bures(m, S, k, S).value == pytest.approx(np.linalg.norm(m - k), rel=1e-9)
    assert bures([0.0, 0], np.diag([4.0, 0]), [0.0, 0], np.diag([1.0, 9])).value == pytest.approx(np.sqrt(10), rel=1e-9)


def test_exact_transport_of_a_linear_image_is_bures_of_its_moments() -> None:
    # x ↦ Ax with A symmetric positive is optimal, and W_2² depends on moments only: exactly Bures of empirical ones
    x, A = rng.normal(size=(60, 3)), covariance(3, 5)
    y = x @ A + 1.0
    moments = [(t.mean(0), np.cov(t.T, bias=True)) for t in (x, y)]
    assert exact(x, y).value == pytest.approx(bures(*moments[0], *moments[1]).value, rel=1e-9)


def test_bures_gradients_agree_with_finite_differences() -> None:
    means = [torch.tensor(rng.normal(size=3), requires_grad=True) for _ in range(2)]
    factors = [torch.tensor(rng.normal(size=(3, 3)), requires_grad=True) for _ in range(2)]

    def value(m: torch.Tensor, k: torch.Tensor, s: torch.Tensor, r: torch.Tensor) -> torch.Tensor:
        return bures(m, s @ s.T, k, r @ r.T).value

    assert torch.autograd.gradcheck(value, (*means, *factors), eps=1e-6, atol=1e-5)


def test_bures_refuses_what_is_no_covariance() -> None:
    for cov in ([[1.0, 2.0], [0.0, 1.0]], [[1.0, 0.0], [0.0, -1.0]], [[np.nan, 0.0], [0.0, 1.0]], [[1.0]]):
        with pytest.raises(DataError):
            bures([0.0, 0.0], cov, [0.0, 0.0], np.eye(2))


@pytest.mark.parametrize("t", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("p", [2, 3])
def test_interpolation_is_a_geodesic(t: float, p: int) -> None:
    x, y = rng.normal(size=(20, 3)), rng.normal(size=(20, 3)) + 1
    middle, whole = interpolate(x, y, t, p).value, exact(x, y, p).value
    assert exact(x, middle, p).value == pytest.approx(t * whole, rel=1e-9, abs=1e-12)
    assert exact(middle, y, p).value == pytest.approx((1 - t) * whole, rel=1e-9, abs=1e-12)


def test_the_barycentric_map_is_the_mean_of_where_mass_goes() -> None:
    x, y = rng.normal(size=(4, 2)), rng.normal(size=(8, 2))
    plan = exact(x, y).plan
    np.testing.assert_allclose(barycentric_map(x, y).value, plan @ y / plan.sum(1, keepdims=True), rtol=1e-12)
    product = np.full((4, 8), 1 / 32)
    np.testing.assert_allclose(barycentric_map(x, y, plan=product).value, np.tile(y.mean(0), (4, 1)), rtol=1e-12)
    a = np.array([0.5, 0.5, 0.0, 0.0])
    np.testing.assert_array_equal(barycentric_map(x, y, a=a).value[2:], x[2:])


def test_interpolation_passes_gradients_to_both_ends() -> None:
    x, y = (torch.tensor(rng.normal(size=(5, 2)), requires_grad=True) for _ in range(2))
    assert torch.autograd.gradcheck(lambda s, t: interpolate(s, t, 0.25).value, (x, y))
    with pytest.raises(DataError):
        interpolate(x, y, 1.5)


def test_the_barycenter_of_translates_is_the_mean_translate() -> None:
    x = rng.normal(size=(15, 2))
    shifts = [np.array([0.0, 0.0]), np.array([4.0, 0.0]), np.array([0.0, 8.0])]
    lam = [0.5, 0.25, 0.25]
    result = free_support_barycenter([x + s for s in shifts], 15, lam, start=x)
    middle = sum(w * s for w, s in zip(lam, shifts, strict=True))
    assert exact(result.value, x + middle).value < 1e-9
    # Σ λ ‖s − s̄‖²
    assert result.details["objective"] == pytest.approx(
        sum(w * ((s - middle) ** 2).sum() for w, s in zip(lam, shifts, strict=True))
    )


def test_a_barycenter_cannot_be_improved_by_its_own_rule_and_says_when_it_stops() -> None:
    clouds = [rng.normal(size=(20, 2)), rng.normal(size=(31, 2)) + 3]
    result = free_support_barycenter(clouds, 10, seed=1)
    again = np.mean([barycentric_map(result.value, c).value for c in clouds], axis=0)
    np.testing.assert_allclose(again, result.value, atol=1e-7)
    np.testing.assert_array_equal(result.value, free_support_barycenter(clouds, 10, seed=1).value)
    with pytest.raises(ConvergenceError):
        free_support_barycenter(clouds, 10, seed=1, max_iterations=1)
    for size in (0, True):
        with pytest.raises(UsageError):
            free_support_barycenter(clouds, size)


def labelled(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    g = np.random.default_rng(seed)
    labels = g.integers(0, 3, n)
    return g.normal(size=(n, 2)) * (1 + labels[:, None]) + 2 * labels[:, None], labels


def test_otdd_is_exact_transport_of_augmented_points() -> None:
    (x, lx), (y, ly) = labelled(30, 1), labelled(24, 2)
    for weight in (0.0, 1.0, 2.5):
        plain = exact(augmented(x, lx, weight), augmented(y, ly, weight)).value
        assert otdd(x, lx, y, ly, label_weight=weight).value == pytest.approx(plain, rel=1e-9)
    assert otdd(x, lx, y, ly, label_weight=0.0).value == pytest.approx(exact(x, y).value, rel=1e-9)


@pytest.mark.parametrize("columns", [1, 2, 7])
def test_a_column_per_class_has_the_distances_of_the_whole_augmented_points(columns: int, monkeypatch) -> None:
    import privot.transport._otdd as module

    monkeypatch.setattr(module, "BLOCK", 64)  # several blocks of rows
    g = np.random.default_rng(columns)
    lx, ly = g.integers(0, 3, 30), g.integers(0, 4, 24)
    # class 3 of y has one member, so no covariance; with seven columns a covariance has less than full rank
    ly = np.where(np.arange(24) == 0, 9, ly)
    x, y = (g.normal(size=(len(labels), columns)) * (1 + labels[:, None] / 4) + labels[:, None] for labels in (lx, ly))
    for weight in (0.0, 1.0, 2.5):
        one, two = augmented_pair(x, lx, y, ly, weight)
        assert one.shape[1] <= columns + 3 + 5
        whole = [augmented(x, lx, weight), augmented(y, ly, weight)]
        # the whole points come from eigenvalues of covariances, whose rounding a root magnifies to 1e-8
        np.testing.assert_allclose(cdist(one, two), cdist(*whole), rtol=1e-7, atol=1e-7)
        np.testing.assert_allclose(cdist(one, one), cdist(whole[0], whole[0]), rtol=1e-7, atol=1e-7)
        assert exact(one, two).value == pytest.approx(otdd(x, lx, y, ly, label_weight=weight).value, rel=1e-9)


def test_otdd_label_distances_by_hand_and_names_do_not_matter() -> None:
    (x, lx), (y, ly) = labelled(30, 3), labelled(30, 4)
    result = otdd(x, lx, y, ly)
    one, two = x[lx == 0], y[ly == 2]
    by_hand = ((one.mean(0) - two.mean(0)) ** 2).sum()
    by_hand += ((sqrtm(np.cov(one.T, bias=True)) - sqrtm(np.cov(two.T, bias=True))) ** 2).sum()
    assert result.details["label_distances"][0, 2] == pytest.approx(np.real(by_hand), rel=1e-9)
    names = np.array(["c", "a", "b"])
    assert otdd(x, names[lx], y, ly + 7).value == pytest.approx(result.value, rel=1e-12)
    assert otdd(x, lx, x, lx).value == 0.0


def test_otdd_by_sinkhorn_and_its_gradient() -> None:
    (x, lx), (y, ly) = labelled(12, 5), labelled(10, 6)
    near = otdd(x, lx, y, ly, method="sinkhorn", reg=1.0)
    assert near.value >= otdd(x, lx, y, ly).value ** 2
    assert near.value <= cdist(augmented(x, lx), augmented(y, ly), "sqeuclidean").mean()
    t = torch.tensor(x, requires_grad=True)
    otdd(t, lx, torch.tensor(y), ly).value.backward()
    assert t.grad is not None
    assert torch.isfinite(t.grad).all()
    for change in ({"method": "sinkhorn"}, {"method": "x"}):
        with pytest.raises(UsageError):
            otdd(x, lx, y, ly, **change)
    with pytest.raises(DataError):
        otdd(x, lx[:-1], y, ly)
