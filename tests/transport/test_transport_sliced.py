"""Sliced distances: closed forms, POT, finite differences, bounded memory."""

from __future__ import annotations

import numpy as np
import ot
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from privot.errors import ConvergenceError, DataError, UsageError
from privot.transport import _sliced, draw_directions, exact, max_sliced, sliced, wasserstein_1d
from privot.transport.device_directions import BAND, Frames, _Reflections, draw_on_device, normals_of
from privot.transport.slice_directions import fresh_seed

rng = np.random.default_rng(1)


def test_two_diracs_and_a_whole_frame() -> None:
    # Σ_j ⟨z, u_j⟩² = ‖z‖² over an orthonormal frame, so SW_2 = ‖z‖/√d
    x, y = np.zeros((1, 5)), np.arange(5.0)[None]
    assert sliced(x, y, slices=10, seed=3).value == pytest.approx(np.sqrt(30 / 5), rel=1e-12)


def test_a_translation_and_a_permutation() -> None:
    x, shift = rng.normal(size=(40, 6)), rng.normal(size=6)
    assert sliced(x, x + shift, slices=12, seed=1).value == pytest.approx(np.linalg.norm(shift) / np.sqrt(6), rel=1e-12)
    assert sliced(x, rng.permutation(x), slices=12, seed=1).value == pytest.approx(0.0, abs=1e-12)
    y = rng.normal(size=(30, 6))
    base = sliced(x, y, slices=12, seed=1).value
    assert sliced(x[rng.permutation(40)] + shift, y + shift, slices=12, seed=1).value == pytest.approx(base, rel=1e-9)


@pytest.mark.parametrize("p", [1, 2, 3])
@pytest.mark.parametrize(("n", "m"), [(30, 30), (30, 21)])
def test_agrees_with_pot_and_with_the_line(p: int, n: int, m: int) -> None:
    x, y = rng.normal(size=(n, 4)), rng.normal(size=(m, 4)) + 0.3
    U = draw_directions(4, 9, "independent", seed=2)
    result = sliced(x, y, p, directions=U)
    assert result.value == pytest.approx(ot.sliced_wasserstein_distance(x, y, projections=U, p=p), rel=1e-9)
    line = wasserstein_1d(x @ U, y @ U, p).value
    np.testing.assert_allclose(result.details["costs"], line**p, rtol=1e-10)
    assert result.value == pytest.approx(np.mean(line**p) ** (1 / p), rel=1e-12)


def test_weights_agree_with_pot() -> None:
    x, y, a, b = rng.normal(size=(9, 3)), rng.normal(size=(6, 3)), rng.random(9), rng.random(6)
    a, b = a / a.sum(), b / b.sum()
    U = draw_directions(3, 5, "orthogonal", seed=2)
    ours = sliced(x, y, 2, directions=U, a=a, b=b).value
    assert ours == pytest.approx(ot.sliced_wasserstein_distance(x, y, a, b, projections=U), rel=1e-9)


@pytest.mark.parametrize("p", [1, 2, 2.5])
@pytest.mark.parametrize("m", [7, 10])
def test_gradients_agree_with_finite_differences(p: float, m: int) -> None:
    x = torch.tensor(rng.normal(size=(7, 3)), requires_grad=True)
    y = torch.tensor(rng.normal(size=(m, 3)), requires_grad=True)
    U = draw_directions(3, 8, "orthogonal", seed=4)
    assert torch.autograd.gradcheck(lambda s, t: sliced(s, t, p, directions=U).value, (x, y), eps=1e-7, atol=1e-6)


def test_the_gradient_of_max_sliced_is_that_at_its_direction() -> None:
    x = torch.tensor(rng.normal(size=(7, 3)), requires_grad=True)
    y = torch.tensor(rng.normal(size=(9, 3)) @ np.diag([1, 4, 1]) + 2.0)
    result = max_sliced(x, y, seed=4)
    (gradient,) = torch.autograd.grad(result.value, x)
    fixed = sliced(x, y, directions=result.details["direction"][:, None])
    torch.testing.assert_close(gradient, torch.autograd.grad(fixed.value, x)[0])


def test_blocks_of_slices_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    x = torch.tensor(rng.normal(size=(50, 6)), requires_grad=True)
    y = torch.tensor(rng.normal(size=(50, 6)))
    whole = sliced(x, y, slices=40, seed=1).value
    (gradient,) = torch.autograd.grad(whole, x)
    monkeypatch.setitem(_sliced.BLOCK, "cpu", 150)
    blocked = sliced(x, y, slices=40, seed=1).value
    assert blocked.item() == pytest.approx(whole.item(), rel=1e-12)
    torch.testing.assert_close(torch.autograd.grad(blocked, x)[0], gradient)


def test_nothing_the_size_of_points_times_slices_is_kept() -> None:
    x = torch.randn(300, 5, requires_grad=True)
    seen: list[int] = []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: (seen.append(t.numel()), t)[1], lambda t: t):
        sliced(x, torch.randn(300, 5), slices=500, seed=1).value.backward()
    assert max(seen, default=0) <= 1500


def test_float32_agrees_with_float64() -> None:
    x, y = rng.normal(size=(500, 20)), rng.normal(size=(500, 20)) + 0.1
    results = []
    for dtype in (torch.float32, torch.float64):
        t = torch.tensor(x, dtype=dtype, requires_grad=True)
        value = sliced(t, torch.tensor(y, dtype=dtype), slices=60, seed=1).value
        value.backward()
        results.append((value.item(), t.grad))
    assert results[0][0] == pytest.approx(results[1][0], rel=1e-5)
    difference = (results[0][1].double() - results[1][1]).norm() / results[1][1].norm()
    assert difference < 1e-3


def test_smoothing_adds_noise_of_its_size_to_both_sides() -> None:
    generator = torch.Generator().manual_seed(1)

    def noise(shape: tuple[int, int], device: torch.device, dtype: torch.dtype) -> torch.Tensor:
        return torch.randn(shape, generator=generator, device=device, dtype=dtype)

    # x at the origin, y at distance 3 on every axis' mean: N(0, σ²) against N(shift, σ²) on each slice
    n, sigma = 4000, 0.7
    x, y = torch.zeros(n, 4).double(), torch.full((n, 4), 1.5).double()
    smooth = sliced(x, y, slices=40, seed=2, smoothed=(sigma, noise)).value.item()
    assert smooth == pytest.approx(1.5, rel=0.02)
    one_sided = sliced(x, x, slices=40, seed=2, smoothed=(sigma, noise)).value.item()
    # two samples of N(0, σ²): E W_2² is about 2σ² ln ln n/n; one point against a sample would be σ
    assert 0.0 < one_sided < 0.1
    wide = torch.tensor(rng.normal(size=(n, 4)))
    against = sliced(wide * np.sqrt(1 + sigma**2), wide, slices=40, seed=2).value.item()
    assert against == pytest.approx(np.sqrt(1 + sigma**2) - 1, rel=0.1)


@pytest.mark.parametrize("scale", [1e160, 1e-160])
def test_max_sliced_of_very_large_and_very_small_values_scales(scale: float) -> None:
    g = np.random.default_rng(0)
    x, y = g.normal(size=(30, 3)), g.normal(size=(30, 3)) + 1.0
    assert max_sliced(x * scale, y * scale, seed=1).value == pytest.approx(max_sliced(x, y, seed=1).value * scale)


def test_max_sliced_finds_the_direction_of_a_shift_and_beats_every_slice() -> None:
    x, shift = rng.normal(size=(60, 5)), np.array([0.0, 0.0, 4.0, 0.0, 3.0])
    result = max_sliced(x, x + shift, seed=1)
    assert result.value == pytest.approx(5.0, rel=1e-6)
    np.testing.assert_allclose(np.abs(result.details["direction"]), [0, 0, 0.8, 0, 0.6], atol=1e-3)
    y = rng.normal(size=(45, 5)) @ np.diag([1, 1, 3, 1, 1])
    U = draw_directions(5, 300, "independent", seed=9)
    assert max_sliced(x, y, directions=U).value >= wasserstein_1d(x @ U, y @ U).value.max()
    assert max_sliced(x, y, seed=1).value <= exact(x, y).value
    with pytest.raises(ConvergenceError, match="max_sliced"):
        max_sliced(x, y, seed=1, max_iterations=1)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 9), st.integers(1, 9), st.integers(1, 4), st.sampled_from([1, 2, 3]))
def test_it_is_a_metric_below_the_exact_one(seed: int, n: int, m: int, d: int, p: int) -> None:
    g = np.random.default_rng(seed)
    x, y, z = g.normal(size=(n, d)), g.normal(size=(m, d)), g.normal(size=(4, d))
    U = draw_directions(d, 5, "independent", seed=seed)

    def distance(s: np.ndarray, t: np.ndarray) -> float:
        return sliced(s, t, p, directions=U).value

    assert distance(x, y) == pytest.approx(distance(y, x), rel=1e-9)
    assert distance(x, y) <= distance(x, z) + distance(z, y) + 1e-9
    assert distance(x, x) == 0.0
    assert distance(x, y) <= exact(x, y, p).value + 1e-9


def test_equal_clouds_have_a_zero_gradient_not_nan() -> None:
    x = torch.randn(8, 3, requires_grad=True)
    sliced(x, x.detach().clone(), slices=5, seed=1).value.backward()
    assert x.grad is not None
    assert torch.all(x.grad == 0)


def test_bad_directions_are_refused() -> None:
    x = rng.normal(size=(4, 3))
    for U in (np.eye(2), 2 * np.eye(3), np.full((3, 1), np.nan), np.zeros((3, 0))):
        with pytest.raises(DataError):
            sliced(x, x, directions=U)
    with pytest.raises(UsageError):
        sliced(x, x, slices=0)
    with pytest.raises(UsageError):
        sliced(x, x, p=0.5)
    with pytest.raises(UsageError):
        sliced(x, x, smoothed=(1.0, 3))


@pytest.mark.parametrize(("dim", "slices"), [(1, 3), (2, 11), (5, 3), (30, 100), (300, 290), (300, 450)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_frames_drawn_on_the_device_are_orthonormal(dim: int, slices: int, dtype: torch.dtype) -> None:
    U = draw_on_device(dim, slices, "orthogonal", fresh_seed(), torch.device("cpu"), dtype)
    assert U.shape == (dim, slices)
    assert U.dtype == dtype
    for part in U.double().split(dim, 1):
        torch.testing.assert_close(part.T @ part, torch.eye(part.shape[1], dtype=part.dtype), rtol=0.0, atol=1e-6)


def test_frames_drawn_on_the_device_follow_haars_law() -> None:
    cpu, wide = torch.device("cpu"), torch.float64
    U = draw_on_device(3, 60_000, "orthogonal", 1 << 127, cpu, wide).T.reshape(-1, 3, 3)
    # of a Haar matrix E trace = 0, E trace² = 1, and an entry is uniform on [−1, 1] in three dimensions
    trace = U.diagonal(dim1=1, dim2=2).sum(1)
    assert abs(float(trace.mean())) < 4 / len(U) ** 0.5
    assert float(trace.square().mean()) == pytest.approx(1.0, abs=0.06)
    for i in range(3):
        for j in range(3):
            levels = torch.sort(U[:, i, j]).values
            gap = (levels + 1) / 2 - torch.arange(1, len(U) + 1, dtype=wide) / len(U)
            assert float(gap.abs().max()) < 2.2 / len(U) ** 0.5
    assert abs(float(torch.linalg.det(U).mean())) < 4 / len(U) ** 0.5


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_numbers_that_frames_are_made_of_are_independent_and_gaussian(dtype: torch.dtype) -> None:
    z = normals_of(1 << 127, torch.device("cpu"), dtype)(1, 3, 66_667).flatten().double()
    levels = (torch.special.ndtr(torch.sort(z).values) * len(z)).round()
    assert float((levels - torch.arange(len(z))).abs().max()) < 2.2 * len(z) ** 0.5
    for apart in (1, len(z) // 2, (len(z) + 1) // 2):
        for power in (1, 2):
            left, right = z[:-apart] ** power, z[apart:] ** power
            assert abs(float(torch.corrcoef(torch.stack((left, right)))[0, 1])) < 4.5 / len(left) ** 0.5


@pytest.mark.parametrize("width", [1, 5, 200, 260])
def test_frames_are_the_product_of_reflections_in_the_vectors_drawn(width: int) -> None:
    dim = 260
    assert width < dim or width > 2 * BAND
    drawn: list[torch.Tensor] = []

    def normals(*shape: int) -> torch.Tensor:
        drawn.append(torch.from_numpy(rng.normal(size=shape)))
        return drawn[-1].clone()

    q = _Reflections(2, width, dim, normals).rows()
    # by LAPACK: columns with a 1 on the diagonal, 2 / |v|², and the sign that R's diagonal would have
    vectors = torch.zeros(2, dim, width, dtype=torch.float64)
    at = 0
    for v in drawn:
        vectors[:, at:, at : at + v.shape[1]] = v.mT.tril()
        at += v.shape[1]
    head = vectors.diagonal(dim1=1, dim2=2)
    sign = torch.sign(head)
    head += sign * vectors.norm(dim=1)
    vectors /= head.clone()[:, None]
    expected = torch.linalg.householder_product(vectors, 2.0 / vectors.square().sum(1)) * -sign[:, None]
    torch.testing.assert_close(q.mT, expected, rtol=0.0, atol=1e-12)


def test_frames_of_zeros_and_of_tiny_numbers_are_orthonormal_too() -> None:
    for size in (0.0, 1e-30, 1e30):
        q = _Reflections(2, 6, 6, lambda *shape, size=size: size * torch.from_numpy(rng.normal(size=shape))).rows()
        assert float((q @ q.mT - torch.eye(6)).abs().max()) < 1e-13
    given = torch.tensor([[[1.0, -2.0, 0.5], [9.0, 0.0, 0.0], [9.0, 9.0, 0.0]]])
    few = _Reflections(1, 3, 3, lambda *shape: given).rows()
    assert float((few @ few.mT - torch.eye(3)).abs().max()) < 1e-6
    first = torch.tensor([1.0, -2.0, 0.5])
    torch.testing.assert_close(few[0, 0], first / first.norm())


@pytest.mark.parametrize(("dim", "slices"), [(60, 100), (60, 60), (300, 200), (90, 400)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_few_points_are_reflected_as_the_columns_would_project_them(dim: int, slices: int, dtype: torch.dtype) -> None:
    seed, cpu = fresh_seed(), torch.device("cpu")
    U = draw_on_device(dim, slices, "orthogonal", seed, cpu, dtype)
    frames = Frames(dim, slices, normals_of(seed, cpu, dtype)).div_(torch.tensor(2.0, dtype=dtype))
    close = {"rtol": 0.0, "atol": 1e-5 if dtype == torch.float32 else 1e-13}
    x, s = torch.tensor(rng.normal(size=(7, dim)), dtype=dtype), torch.tensor(rng.normal(size=(slices, 7)), dtype=dtype)
    torch.testing.assert_close(frames.project(x), (x @ U / 2.0).T, **close)
    torch.testing.assert_close(frames.combine(s), (U @ s / 2.0).T, **close)


@pytest.mark.parametrize("p", [1, 2, 3])
@pytest.mark.parametrize("m", [12, 9])
def test_few_points_have_the_distance_and_gradients_of_the_columns(p: int, m: int) -> None:
    x = torch.tensor(rng.normal(size=(12, 60)), requires_grad=True)
    y = torch.tensor(rng.normal(size=(m, 60)) + 0.3, requires_grad=True)
    few = sliced(x, y, p, slices=100)
    U = draw_on_device(60, 100, "orthogonal", few.details["seed"], torch.device("cpu"), torch.float64)
    columns = sliced(x, y, p, directions=U)
    torch.testing.assert_close(few.details["costs"], columns.details["costs"])
    for found, expected in zip(*(torch.autograd.grad(r.value, (x, y)) for r in (few, columns)), strict=True):
        torch.testing.assert_close(found, expected)


def test_directions_nobody_chose_are_new_and_can_be_had_again() -> None:
    x, y = rng.normal(size=(20, 4)), rng.normal(size=(20, 4))
    first, second = sliced(x, y, slices=10), sliced(x, y, slices=10)
    assert first.value != second.value
    assert sliced(x, y, slices=10, seed=first.details["seed"]).value == first.value
    with pytest.raises(UsageError):
        sliced(x, y, slices=True)
    chosen = draw_directions(4, 10, "orthogonal", 3)
    assert sliced(x, y, slices=10, seed=3).value == sliced(x, y, directions=chosen).value


def test_orthonormal_frames_lower_the_variance_of_the_default_call() -> None:
    x, y = rng.normal(size=(60, 6)), rng.normal(size=(60, 6)) * np.arange(1, 7)
    spread = {
        frame: np.var([sliced(x, y, slices=6, frame=frame).value ** 2 for _ in range(150)])
        for frame in ("orthogonal", "independent")
    }
    assert spread["orthogonal"] < 0.5 * spread["independent"]


@pytest.mark.statistical
@pytest.mark.parametrize("n", [4, 12])
def test_a_default_call_varies_no_more_than_with_frames_of_a_seed(n: int) -> None:
    g = np.random.default_rng(n)
    x, y = g.normal(size=(n, 20)), g.normal(size=(n, 20)) * np.arange(1, 21)
    # a whole frame and a half, of few points reflected and of columns; 800 draws tell variances 1.5 apart by 4 σ
    fresh, seeded = ([sliced(x, y, slices=30, seed=s).value for s in seeds] for seeds in ([None] * 800, range(800)))
    assert 1 / 1.5 < np.var(fresh) / np.var(seeded) < 1.5
    assert np.mean(fresh) == pytest.approx(np.mean(seeded), abs=5 * np.std(fresh) * (2 / 800) ** 0.5)
