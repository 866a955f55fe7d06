"""The fused CUDA paths give the plain path's numbers; skipped where there is no CUDA device."""

from __future__ import annotations

import math

import pytest

torch = pytest.importorskip("torch")
if not torch.cuda.is_available():
    pytest.skip("There is no CUDA device here.", allow_module_level=True)

from privot.transport import sinkhorn, sliced, wasserstein_1d  # noqa: E402
from privot.transport.cuda.frame_kernels import _inverse, draw_into, seed_on_device  # noqa: E402
from privot.transport.cuda.matrix_product import multiply  # noqa: E402
from privot.transport.cuda.row_sort import sort_rows  # noqa: E402
from privot.transport.cuda.sinkhorn_graph import GraphSolver  # noqa: E402
from privot.transport.cuda.sinkhorn_streamed import StreamSolver  # noqa: E402
from privot.transport.cuda.sliced_kernels import _small, compare_slices, smooth_  # noqa: E402
from privot.transport.device_directions import Frames, draw_on_device, normals_of  # noqa: E402
from privot.transport.slice_directions import fresh_seed  # noqa: E402


def clouds(n, m, d, seed=0, shift=0.3):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(n, d, generator=generator), torch.randn(m, d, generator=generator) + shift


@pytest.mark.parametrize(("rows", "n"), [(3, 1), (7, 33), (5, 4096), (200, 4097), (130, 10000), (2, 65536)])
def test_sorting(rows, n):
    values = torch.randn(rows, n, device="cuda")
    values[0] = values[0].round() + 0.0  # ties, but no −0, which sorts below 0 here and beside it there
    values[-1, : n // 2] *= 1e-40  # denormals keep their order too
    keys, at = sort_rows(values, True)
    expected, order = torch.sort(values, dim=1, stable=True)
    assert torch.equal(keys, expected)
    assert torch.equal(sort_rows(values, False)[0], expected)
    assert torch.equal(values.gather(1, at.to(torch.int64)), expected)
    ties = expected[:, 1:] != expected[:, :-1]
    assert torch.equal(at.to(torch.int64)[:, 1:][ties], order[:, 1:][ties])


@pytest.mark.parametrize(("m", "k", "n"), [(1, 1, 1), (100, 784, 37), (513, 65, 300), (1000, 784, 3000)])
def test_products_keep_float32_accuracy(m, k, n):
    a, b = torch.randn(m, k, device="cuda"), torch.randn(n, k, device="cuda")
    expected = a.double() @ b.double().T
    scale = (a.double().norm(dim=1)[:, None] * b.double().norm(dim=1)[None]).clamp(min=1e-30)
    for left, right in ((a, b.T), (a.T.contiguous().T, b.T), (a, b.T.contiguous())):
        assert float(((multiply(left, right).double() - expected).abs() / scale).max()) < 2e-6


@pytest.mark.parametrize("p", [1, 2, 3.5])
@pytest.mark.parametrize(("n", "m"), [(1, 1), (100, 100), (513, 513), (2500, 2500), (5000, 5000), (60, 45)])
def test_sliced_agrees_with_float64_on_the_cpu(n, m, p):
    x, y = clouds(n, m, 32)
    results = []
    for cast in (lambda t: t.double(), lambda t: t.cuda()):
        a, b = cast(x).requires_grad_(), cast(y).requires_grad_()
        value = sliced(a, b, p=p, slices=150, seed=4).value
        value.backward()
        results.append((float(value), a.grad.double().cpu(), b.grad.double().cpu()))
    (v, gx, gy), (w, hx, hy) = results
    assert w == pytest.approx(v, rel=1e-5)
    for expected, found in ((gx, hx), (gy, hy)):
        # two points that nearly tie in a slice may change places in float32, which moves single gradients a little
        assert float((found - expected).norm() / expected.norm()) < 5e-3


def test_sliced_asks_only_for_the_gradients_wanted():
    x, y = (t.cuda() for t in clouds(700, 700, 20))
    for first, second in ((True, False), (False, True), (False, False)):
        a, b = x.clone().requires_grad_(first), y.clone().requires_grad_(second)
        value = sliced(a, b, slices=64, seed=1).value
        assert float(value) == pytest.approx(float(sliced(x.double(), y.double(), slices=64, seed=1).value), rel=1e-5)
        if first or second:
            value.backward()


@pytest.mark.parametrize(("dim", "slices"), [(1, 3), (2, 11), (5, 3), (64, 150), (300, 290), (784, 1000), (3000, 7)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_frames_are_orthonormal(dim, slices, dtype):
    across = torch.empty(slices, dim, device="cuda", dtype=dtype)
    draw_into(across, "orthogonal", seed_on_device(fresh_seed(), across.device))
    for part in across.double().split(dim):
        off = part @ part.T - torch.eye(len(part), device="cuda")
        assert float(off.abs().max()) < (1e-6 if dtype == torch.float32 else 1e-12)
    plain = Frames(dim, slices, normals_of(fresh_seed(), across.device, dtype)).columns().double()
    off = plain.T[:dim] @ plain[:, :dim] - torch.eye(min(dim, slices), device="cuda")
    assert float(off.abs().max()) < 1e-12


@pytest.mark.parametrize("width", [1, 5, 200, 260])
def test_frames_are_the_product_of_reflections_in_the_vectors_drawn(width):
    from privot.transport.cuda.frame_kernels import _drawn, _frames

    dim, key = 260, seed_on_device(5, torch.device("cuda"))
    vectors, signs = _drawn(2, width + 1, width, dim, key, 0, True)
    assert not vectors[:, width].any()
    assert torch.allclose(vectors[:, :width].square().sum(2), torch.tensor(2.0, device="cuda").double())
    # the rows drawn are those of any number of rows
    q = torch.empty(2, width, dim, device="cuda", dtype=torch.float64)
    _frames(q[:1], key, 0)
    v = vectors[0, :width].T.cpu()
    head = v.diagonal().clone()
    expected = torch.linalg.householder_product(v / head, 2.0 / (v / head).square().sum(0)) * signs[0, :width].cpu()
    assert torch.allclose(q[0].T.cpu(), expected, rtol=0.0, atol=1e-12)
    assert bool((torch.sign(head) == -signs[0, :width].cpu()).all())


def test_frames_follow_haars_law():
    across = torch.empty(180_000, 3, device="cuda", dtype=torch.float64)
    draw_into(across, "orthogonal", seed_on_device(7, across.device))
    U = across.cpu().reshape(-1, 3, 3).mT
    # of a Haar matrix E trace = 0, E trace² = 1, and an entry is uniform on [−1, 1] in three dimensions
    trace = U.diagonal(dim1=1, dim2=2).sum(1)
    assert abs(float(trace.mean())) < 4 / len(U) ** 0.5
    assert float(trace.square().mean()) == pytest.approx(1.0, abs=0.06)
    for i in range(3):
        for j in range(3):
            levels = torch.sort(U[:, i, j]).values
            gap = (levels + 1) / 2 - torch.arange(1, len(U) + 1, dtype=levels.dtype) / len(U)
            assert float(gap.abs().max()) < 2.2 / len(U) ** 0.5
    assert abs(float(torch.linalg.det(U).mean())) < 4 / len(U) ** 0.5


def test_numbers_that_frames_are_made_of_are_independent_and_gaussian():
    from privot.transport.cuda.frame_kernels import _drawn

    drawn, factors = _drawn(1, 400, 400, 500, seed_on_device(1 << 126, torch.device("cuda")), 1, False)
    assert torch.allclose(drawn.norm(dim=2) * factors, torch.ones(1, device="cuda").double())
    z = drawn.flatten().cpu()
    levels = (torch.special.ndtr(torch.sort(z).values) * len(z)).round()
    assert float((levels - torch.arange(len(z))).abs().max()) < 2.2 * len(z) ** 0.5
    for apart in (1, 500, 501, len(z) // 2):
        for power in (1, 2):
            left, right = z[:-apart] ** power, z[apart:] ** power
            assert abs(float(torch.corrcoef(torch.stack((left, right)))[0, 1])) < 4.5 / len(left) ** 0.5
    other = _drawn(1, 400, 400, 500, seed_on_device(1 << 126, torch.device("cuda")), 0, False)[0].flatten().cpu()
    assert abs(float(torch.corrcoef(torch.stack((z, other)))[0, 1])) < 4.5 / len(z) ** 0.5


@pytest.mark.parametrize(("frames", "side", "halvings"), [(1, 32, 0), (1, 17, 1), (3, 25, 2), (2, 25, 5)])
def test_triangles_are_inverted_by_halves(frames, side, halvings):
    n = side << halvings
    given = torch.randn(frames, n + 1, n, device="cuda", dtype=torch.float64) / n**0.5
    triangle = given[:, :n].tril(-1) + torch.eye(n, device="cuda")
    assert float((_inverse(given, side) @ triangle - torch.eye(n, device="cuda")).abs().max()) < 1e-11


@pytest.mark.parametrize(("n", "d"), [(1, 3), (40, 2), (100, 784), (513, 64), (1000, 784), (1500, 20)])
@pytest.mark.parametrize("frame", ["orthogonal", "independent"])
def test_directions_nobody_chose_are_drawn_within_the_graph_and_can_be_had_again(n, d, frame):
    x, y = (t.cuda() for t in clouds(n, n, d))
    for slope in (False, True):
        a = x.clone().requires_grad_(slope)
        first, second = sliced(a, y, frame=frame), sliced(a, y, frame=frame)
        again = sliced(a, y, frame=frame, seed=first.details["seed"])
        U = draw_on_device(d, 1000, frame, first.details["seed"], x.device, x.dtype)
        given, wide = sliced(a, y, directions=U), sliced(x.double().cpu(), y.double().cpu(), directions=U.cpu())
        assert float(first.value) != float(second.value)
        assert float(again.value) == float(first.value)
        assert float(given.value) == pytest.approx(float(first.value), rel=1e-6)
        assert float(wide.value) == pytest.approx(float(first.value), rel=1e-5)
        assert torch.allclose(first.details["costs"].cpu().double(), wide.details["costs"], rtol=1e-3, atol=1e-5)
        if slope:
            grads = [torch.autograd.grad(r.value, a)[0] for r in (first, given)]
            assert float((grads[0] - grads[1]).norm() / grads[1].norm()) < 5e-3


@pytest.mark.parametrize("n", [1, 100, 512, 700, 1024, 1025])
@pytest.mark.parametrize("p", [1.0, 2.0, 3.0])
def test_slices_side_by_side_are_compared_whichever_gradient_is_wanted(n, p):
    both = torch.randn(50, 2 * n, device="cuda")
    both[0] = both[0].round()
    x, y = both[:, :n], both[:, n:]
    expected = (x.double().sort(1).values - y.double().sort(1).values).abs().pow(p).mean(1)
    all_x, all_y = compare_slices(x, y, p, True, True)[1:]
    for need_x in (False, True):
        for need_y in (False, True):
            costs, by_x, by_y = compare_slices(x, y, p, need_x, need_y)
            assert torch.allclose(costs.double(), expected, rtol=1e-5, atol=1e-7)
            for need, found, whole in ((need_x, by_x, all_x), (need_y, by_y, all_y)):
                assert found is None if not need else torch.equal(found, whole)


def test_a_number_that_is_none_moves_no_gradient_out_of_its_row():
    x, y = torch.randn(2, 1, 20, device="cuda")
    x[0, 3] = y[0, 5] = float("nan")
    grads, cost = torch.zeros(2, 3, 20, device="cuda"), torch.zeros(1, device="cuda")
    _small[(1,)](x, y, grads[0], grads[1], cost, 20, 20, 20, 2.0, 1.0 / 20, True, True, width=32, num_warps=1)
    assert not grads[:, 1:].any()
    assert bool(cost.isnan())


@pytest.mark.parametrize("cost", ["sqeuclidean", ("mixture", 0.7)])
@pytest.mark.parametrize(("n", "m"), [(1, 1), (50, 50), (200, 130), (1000, 1000)])
def test_sinkhorn_agrees_with_float64_on_the_cpu(n, m, cost):
    x, y = clouds(n, m, 24)
    reg = 4.0
    results = []
    for cast in (lambda t: t.double(), lambda t: t.cuda()):
        a, b = cast(x).requires_grad_(), cast(y).requires_grad_()
        found = sinkhorn(a, b, reg, cost=cost, tol=1e-5)
        found.value.backward()
        results.append((float(found.value), a.grad.double().cpu(), b.grad.double().cpu(), found.marginal_error))
    (v, gx, gy, _), (w, hx, hy, error) = results
    assert error <= 1e-5
    assert w == pytest.approx(v, rel=1e-4)
    assert float((hx - gx).norm() / gx.norm()) < 1e-3
    assert float((hy - gy).norm() / gy.norm()) < 1e-3


def test_sinkhorn_with_weights_and_a_batch():
    x, y = clouds(3 * 40, 3 * 30, 8)
    x, y = x.reshape(3, 40, 8), y.reshape(3, 30, 8)
    a, b = torch.rand(3, 40) + 0.1, torch.rand(3, 30)
    b[:, :5] = 0.0
    a, b = a / a.sum(1, keepdim=True), b / b.sum(1, keepdim=True)
    plain = sinkhorn(x.double(), y.double(), 2.0, a=a.double(), b=b.double(), tol=1e-6)
    fused = sinkhorn(x.cuda(), y.cuda(), 2.0, a=a.cuda(), b=b.cuda(), tol=1e-5)
    assert torch.allclose(fused.value.double().cpu(), plain.value, rtol=1e-4)
    assert torch.allclose(fused.plan.double().cpu(), plain.plan, atol=1e-6)


def test_streaming_agrees_with_keeping_the_matrix():
    from privot.transport.cuda import sinkhorn_streamed as module

    x, y = (t.cuda() for t in clouds(1500, 1300, 30))
    log_a = torch.full((1500,), -math.log(1500.0), device="cuda")
    log_b = torch.full((1300,), -math.log(1300.0), device="cuda")
    kept = StreamSolver(x, y, log_a, log_b)
    kept.solve(5.0, 1e-5, 500)
    limit = module._STREAM
    module._STREAM = 1 << 18
    try:
        streamed = StreamSolver(x, y, log_a, log_b)
        assert streamed.stored is None
        streamed.solve(5.0, 1e-5, 500)
        gradient = streamed.gradient(5.0, True)
    finally:
        module._STREAM = limit
    assert torch.allclose(kept.f, streamed.f, atol=1e-3)
    assert torch.allclose(kept.gradient(5.0, True), gradient, atol=1e-6)


def test_a_solve_records_inside_an_outer_graph():
    solver = GraphSolver(1, 64, 64, 10, torch.device("cuda"))
    x, y = (t.cuda()[None] for t in clouds(64, 64, 10))
    solver.x[:, :, :10].copy_(x)
    solver.y[:, :, :10].copy_(y)
    solver.reg.fill_(3.0)
    outer = torch.cuda.CUDAGraph()
    with torch.cuda.graph(outer):
        solver.record(40)
    outer.replay()
    expected = float(sinkhorn(x[0].double().cpu(), y[0].double().cpu(), 3.0).value)
    assert float(solver.value) == pytest.approx(expected, rel=1e-4)


def test_smoothing_adds_the_stated_noise():
    drawn = smooth_(torch.zeros(1_000_000, device="cuda"), 2.0, seed=5)
    again = smooth_(torch.zeros(1_000_000, device="cuda"), 2.0, seed=5)
    assert torch.equal(drawn, again)
    assert float(drawn.std()) == pytest.approx(2.0, rel=5e-3)
    assert abs(float(drawn.mean())) < 0.02


def test_hostile_points_are_refused_in_one_sentence():
    from privot.errors import PrivotError

    x, y = (t.cuda() for t in clouds(50, 50, 4))
    x[3, 2] = float("nan")
    for call in (lambda: sliced(x, y, slices=8), lambda: sinkhorn(x, y, 1.0), lambda: wasserstein_1d(x[:, 2], y[:, 2])):
        with pytest.raises(PrivotError):
            call()


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf")])
@pytest.mark.parametrize("side", [0, 1])
def test_default_calls_refuse_points_that_are_not_finite(bad, side):
    """The recorded calls look for them on the device, after a good call of the same shape too."""
    from privot.errors import DataError

    pair = [t.cuda() for t in clouds(50, 50, 4)]
    u = torch.nn.functional.normalize(torch.randn(4, 8, device="cuda"), dim=0)
    sliced(*pair, directions=u), sinkhorn(*pair, 1.0)
    pair[side][3, 2] = bad
    for call in (lambda: sliced(*pair, directions=u), lambda: sinkhorn(*pair, 1.0)):
        with pytest.raises(DataError, match="NaN or infinite"):
            call()


@pytest.mark.parametrize("fault", [float("nan"), 2.0])
def test_default_sliced_refuses_directions_that_are_not_of_length_one(fault):
    from privot.errors import DataError

    x, y = (t.cuda() for t in clouds(50, 50, 4))
    u = torch.nn.functional.normalize(torch.randn(4, 8, device="cuda"), dim=0)
    sliced(x, y, directions=u)
    u[1, 3] = fault
    with pytest.raises(DataError):
        sliced(x, y, directions=u)


@pytest.mark.parametrize("size", [1e-30, 1e-12, 1.0, 1e12, 1e30])
@pytest.mark.parametrize("p", [1.0, 2.0, 3.5])
def test_default_sliced_keeps_very_large_and_very_small_points(size, p):
    x, y = clouds(60, 60, 5)
    u = torch.nn.functional.normalize(torch.randn(5, 12, dtype=torch.float64), dim=0)
    expected = float(sliced(x.double() * size, y.double() * size, p, directions=u).value)
    found = float(sliced((x * size).cuda(), (y * size).cuda(), p, directions=u.float().cuda()).value)
    assert found == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize("n", [50, 1000])
def test_default_sinkhorn_reaches_its_tolerance_in_many_dimensions(n):
    """Costs of about 2000 with reg 100: whole potentials in float32 would round the marginals by more than that."""
    # images of noise with 15·one-hot labels appended, as DP-Sinkhorn compares them; reg a twentieth of the mean cost
    labels = 15.0 * torch.nn.functional.one_hot(torch.arange(n) % 10, 10).float()
    x, y = (torch.cat([t, labels], 1) for t in clouds(n, n, 784, seed=n, shift=0.2))
    reg = 0.05 * float(torch.cdist(x[:500], y[:500]).square().mean())
    expected = sinkhorn(x.double(), y.double(), reg, tol=1e-9)
    found = sinkhorn(x.cuda(), y.cuda(), reg)
    assert found.marginal_error <= 1e-6
    assert float(found.value) == pytest.approx(float(expected.value), rel=1e-6)
    assert torch.allclose(found.plan.double().cpu(), expected.plan, rtol=1e-3, atol=1e-9)


def test_result_does_not_depend_on_rounds_queued_ahead():
    x, y = (t.cuda() for t in clouds(80, 80, 6))
    far = y + 3.0
    first = sinkhorn(x, y, 0.5)
    sinkhorn(x, far, 0.2)
    again = sinkhorn(x, y, 0.5)
    third = sinkhorn(x, y, 0.5)
    assert torch.equal(first.value, again.value)
    assert torch.equal(again.value, third.value)
    assert first.iterations == again.iterations == third.iterations


def test_recorded_slices_follow_their_inputs():
    """The recorded graph reads fixed buffers: new points, and directions changed in place, must reach it."""
    x, y = (t.cuda() for t in clouds(100, 100, 16))
    directions = torch.nn.functional.normalize(torch.randn(16, 40, device="cuda"), dim=0)
    for turn in range(3):
        if turn == 1:
            directions.copy_(torch.nn.functional.normalize(torch.randn(16, 40, device="cuda"), dim=0))
        if turn == 2:
            x = x * 1.5
        a, b = x.clone().requires_grad_(), x.double().requires_grad_()
        quick = sliced(a, y, directions=directions, check=False).value
        plain = sliced(b, y.double(), directions=directions.double()).value
        (gradient,), (expected,) = torch.autograd.grad(quick, a), torch.autograd.grad(plain, b)
        assert float(quick) == pytest.approx(float(plain), rel=1e-5)
        assert float((gradient - expected).norm() / expected.norm()) < 5e-3


@pytest.mark.parametrize("n", [60, 3000])
def test_the_gradient_is_there_without_autograd(n):
    x, y = (t.cuda() for t in clouds(n, n, 16))
    asking = x.clone().requires_grad_(True)
    sinkhorn(asking, y, 5.0, tol=1e-4).value.backward()
    assert torch.allclose(sinkhorn(x, y, 5.0, tol=1e-4).gradient, asking.grad, rtol=1e-3, atol=1e-6)
