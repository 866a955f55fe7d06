"""Transport in a fixed number of sweeps: near the converging solver's, and defined for whatever it is given."""

from __future__ import annotations

import math
import sys

import pytest
import torch

from privot.common.cuda_graphs import Replayed
from privot.errors import UsageError
from privot.transport import cuda, sinkhorn
from privot.transport._solvers.unrolled import LAST, LEVELS, _plan, _shares, schedule, unrolled_gradients

needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")


def clouds(dtype: torch.dtype = torch.float64) -> tuple[torch.Tensor, torch.Tensor]:
    random = torch.Generator().manual_seed(0)
    x, y = (torch.rand(n, 3, generator=random, dtype=torch.float64).to(dtype) for n in (9, 7))
    return x, y


@pytest.mark.parametrize("m", [0.0, 0.7])
@pytest.mark.parametrize("reg", [0.05, 1.0])
def test_enough_sweeps_agree_with_the_solver(m: float, reg: float) -> None:
    x, y = (t.requires_grad_() for t in clouds())
    sinkhorn(x, y, reg, ("mixture", m), 1e-10).value.backward()
    both = unrolled_gradients(x, y, torch.ones(7, dtype=x.dtype), reg, m, 3000)
    for found, exact in zip(both, (x.grad, y.grad), strict=True):
        torch.testing.assert_close(found, exact, rtol=1e-5, atol=1e-7)


def test_an_absolute_cost_alone() -> None:
    x, y = clouds()
    exact = sinkhorn(x, y, 0.5, "l1", 1e-10).gradient
    found, _ = unrolled_gradients(x, y, torch.ones(7, dtype=x.dtype), 0.5, 1.0, 2000, square=0.0)
    torch.testing.assert_close(found, exact, rtol=1e-5, atol=1e-7)


def test_weights_are_shares_and_points_without_weight_are_not_there() -> None:
    x, y = clouds()
    b = torch.tensor([1.0, 2, 0, 1, 0, 3, 1], dtype=x.dtype)
    exact = sinkhorn(x, y[b > 0], 0.5, "sqeuclidean", 1e-10, b=b[b > 0] / b.sum()).gradient
    far = y.clone()
    far[b == 0] = 1e6
    for points in (y, far):
        found, other = unrolled_gradients(x, points, 5 * b, 0.5, 0.0, 3000)
        torch.testing.assert_close(found, exact, rtol=1e-5, atol=1e-7)
        assert not bool(other[b == 0].any())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_what_is_not_there_may_lie_anywhere(dtype: torch.dtype) -> None:
    """Far from all that is there and near each other: their kernel is ∞, and ∞·0 would be in every sum."""
    cost = torch.rand(9, 7, generator=torch.Generator().manual_seed(3), dtype=torch.float64).to(dtype)
    a, b = torch.ones(9, dtype=dtype), torch.ones(7, dtype=dtype)
    a[5:], b[4:] = 0.0, 0.0
    # the largest cost, from which ε falls, is one that is there
    cost[0, 0], cost[5:, :4], cost[:5, 4:], cost[5:, 4:] = 6.0, 5.0, 5.0, 0.0
    found = _plan(cost, _shares(a)[:2], _shares(b)[:2], 0.01, 40)
    alone = _plan(cost[:5, :4], _shares(a[:5])[:2], _shares(b[:4])[:2], 0.01, 40)
    torch.testing.assert_close(found[:5, :4], alone, rtol=0.0, atol=1e-4 if dtype == torch.float32 else 1e-12)
    assert not bool(found[5:].any())
    assert not bool(found[:, 4:].any())


def test_few_sweeps_over_what_is_not_there_do_not_spoil_the_rest() -> None:
    """float32 ends near exp(88), which few sweeps at an ε far below the costs exceed where nothing is."""
    for seed in range(40):
        random = torch.Generator().manual_seed(seed)
        x, y = (torch.rand(n, 13, generator=random) * 2 - 1 for n in (6, 10))
        a, b = ((torch.rand(n, generator=random) < 0.5).float() for n in (6, 10))
        offset = 480.0 * (torch.arange(6)[:, None] % 3 != torch.arange(10)[None, :] % 3).float()
        for found, there in zip(unrolled_gradients(x, y, b, 1e-3, 1.0, 8, 1.0, offset, a), (a > 0, b > 0), strict=True):
            assert bool(torch.isfinite(found).all())
            assert not bool(found[~there].any())


class Elsewhere(torch.Tensor):
    """Says that it lies on a GPU."""

    is_cuda = True


def test_without_triton_sweeps_run_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """An import that fails would do so after a charge."""
    monkeypatch.setattr(cuda, "available", lambda: False)
    monkeypatch.setitem(sys.modules, "privot.transport.cuda.sinkhorn_unrolled", None)
    x, y = clouds(torch.float32)
    sides = [_shares(torch.ones(len(t)))[:2] for t in (x, y)]
    cost = torch.cdist(x, y)
    found = _plan(cost.as_subclass(Elsewhere), *sides, 0.5, 40)
    torch.testing.assert_close(found.as_subclass(torch.Tensor), _plan(cost, *sides, 0.5, 40), rtol=0.0, atol=0.0)


@pytest.mark.parametrize("m", [0.0, 1.0])
def test_nothing_to_move_to_moves_nothing(m: float) -> None:
    x, y = clouds()
    for found in unrolled_gradients(x, y, torch.zeros(7, dtype=x.dtype), 0.5, m):
        assert not bool(found.any())


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=needs_gpu)])
@pytest.mark.parametrize(("m", "square"), [(1.0, 1.0), (0.0, 1.0), (1.0, 0.0)])
def test_several_problems_at_once_are_solved_each_by_itself(m: float, square: float, device: str) -> None:
    """What stands in one problem, numbers that are none among it, changes nothing in the others."""
    g = torch.Generator().manual_seed(5)
    x, y = torch.rand(4, 9, 6, generator=g), torch.rand(4, 13, 6, generator=g)
    a, b = (torch.rand(4, 9, generator=g) < 0.7).float(), (torch.rand(4, 13, generator=g) < 0.7).float()
    a[1], b[2, 3:], x[3] = 0.0, 0.0, math.nan
    offset = 3.0 * (torch.arange(9)[:, None] % 3 != torch.arange(13)[None, :] % 3).float().expand(4, 9, 13)
    given = [t.to(device) for t in (x, y, b, offset, a)]
    found = unrolled_gradients(*given[:3], 0.05, m, 40, square, *given[3:])
    for i in range(3):
        alone = unrolled_gradients(*(t[i] for t in given[:3]), 0.05, m, 40, square, *(t[i] for t in given[3:]))
        for one, other in zip(found, alone, strict=True):
            torch.testing.assert_close(one[i], other, rtol=1e-4, atol=1e-5)
    assert bool(found[0][0].any())
    assert not bool(found[0][1].any())
    (first,) = unrolled_gradients(*given[:3], 0.05, m, 40, square, *given[3:], both=False)
    torch.testing.assert_close(first, found[0], rtol=0.0, atol=0.0, equal_nan=True)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("reg", [1e-6, 1e-3, 1e6])
def test_too_few_sweeps_stay_within_the_reach_of_the_cost(dtype: torch.dtype, reg: float) -> None:
    """Rows of the plan sum to 1/n, so no point is pulled further than to the farthest y: n·|∂x| ≤ 2·diameter."""
    x, y = clouds(dtype)
    found, _ = unrolled_gradients(x, y, torch.ones(7, dtype=dtype), reg, 0.0, 1)
    assert bool(torch.isfinite(found).all())
    assert float(9 * found.norm(dim=1).max()) <= 2.0 * 3.0**0.5 * 1.01


def test_the_schedule_falls_to_the_end_and_stays() -> None:
    shares, inner = zip(*schedule(100), strict=True)
    assert shares[0] == 1.0
    assert list(shares) == sorted(shares, reverse=True)
    assert shares[-LAST:] == (0.0,) * LAST
    assert len(shares) == LEVELS + LAST
    assert set(inner) == {7}


def test_elsewhere_than_on_cuda_a_replay_is_a_call() -> None:
    calls: list[int] = []

    def work(t: torch.Tensor) -> tuple[torch.Tensor]:
        calls.append(1)
        return (2.0 * t,)

    replay = Replayed(work)
    assert [float(replay(torch.tensor(v))[0]) for v in (1.0, 4.0)] == [2.0, 8.0]
    assert len(calls) == 2


@needs_gpu
def test_a_replay_on_cuda_is_the_call() -> None:
    x, y = (t.cuda() for t in clouds(torch.float32))
    b = torch.ones(7, device="cuda")
    replay = Replayed(lambda *given: unrolled_gradients(*given, 0.5, 1.0, 50))
    for shift in (0.0, 0.3, -0.2):
        expected = unrolled_gradients(x + shift, y, b, 0.5, 1.0, 50)
        for found, wanted in zip(replay(x + shift, y, b), expected, strict=True):
            torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-5)


@needs_gpu
@pytest.mark.parametrize(("n", "m"), [(50, 93), (70, 70), (7, 3), (128, 20), (1, 1), (1, 7), (17, 1)])
def test_one_launch_finds_what_sweeps_one_by_one_do(n: int, m: int) -> None:
    g = torch.Generator().manual_seed(n)
    x, y = torch.rand(n, 30, generator=g), torch.rand(m, 30, generator=g)
    a, b = torch.ones(n), torch.ones(m)
    # rows that are not there, on both sides
    a[1::5], b[(m + 1) // 2 :] = 0.0, 0.0
    offset = 3.0 * (torch.arange(n)[:, None] % 3 != torch.arange(m)[None, :] % 3)
    given = (x, y, b, 0.05, 1.0, 40, 1.0, offset, a)
    wanted = unrolled_gradients(*(t.double() if isinstance(t, torch.Tensor) else t for t in given))
    found = unrolled_gradients(*(t.cuda() if isinstance(t, torch.Tensor) else t for t in given))
    for one, other in zip(found, wanted, strict=True):
        assert torch.isfinite(one).all()
        torch.testing.assert_close(one.cpu().double(), other, rtol=0.0, atol=float(2e-3 * other.abs().max()))


@needs_gpu
def test_a_replay_refuses_other_shapes() -> None:
    """Also one that a copy would spread over the recorded tensor."""
    replay = Replayed(lambda t: (2.0 * t,))
    assert float(replay(torch.ones(3, 4, device="cuda"))[0].sum()) == 24.0
    with pytest.raises(UsageError, match="shapes"):
        replay(torch.ones(3, 1, device="cuda"))
