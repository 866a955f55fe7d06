"""The direct solver for modest clouds on a CPU: the general solver's answer, or nothing."""

import pytest
import torch

from privot.errors import ConvergenceError
from privot.transport._solvers.costs import PointCost, between
from privot.transport._solvers.direct import MAX_SWEEPS, solve_directly
from privot.transport._solvers.epsilon_scaling import solve
from privot.transport._solvers.factored_plan import Solution


def clouds(n, m, d, seed, shift=0.5, dtype=torch.float64):
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(1, n, d, generator=generator, dtype=dtype)
    y = torch.randn(1, m, d, generator=generator, dtype=dtype) + shift
    a, b = (torch.rand(1, k, generator=generator, dtype=dtype) + 0.1 for k in (n, m))
    return between(x, y, "sqeuclidean"), a / a.sum(), b / b.sum()


@pytest.mark.parametrize(("n", "m", "d"), [(30, 20, 3), (1100, 1000, 5), (7, 400, 40)])
def test_agrees_with_the_general_solver(n, m, d):
    cost, a, b = clouds(n, m, d, seed=n)
    eps = 0.1 * cost.bound()
    ours, theirs = (s(cost, a, b, eps, 1e-10, 1000) for s in (solve_directly, solve))
    assert isinstance(ours, Solution)
    shift = (ours.f - theirs.f).mean()
    assert (ours.f - shift - theirs.f).abs().max() < 1e-8 * eps
    assert (ours.g + shift - theirs.g).abs().max() < 1e-8 * eps
    assert (ours.plan.matrix() - theirs.plan.matrix()).abs().sum() < 1e-9
    plan = ours.plan.matrix()
    assert (plan.sum(2) - ours.plan.rows).abs().max() < 1e-14
    assert (plan.sum(1) - b).abs().sum() < 1e-12
    assert (plan.sum(2) - a).abs().sum() <= 1.01e-10
    assert (ours.plan.times(cost.y) - plan @ cost.y).abs().max() < 1e-12
    assert (ours.plan.turned().times(cost.x) - plan.transpose(1, 2) @ cost.x).abs().max() < 1e-12


def test_far_apart_clouds_need_no_more_sweeps():
    near, a, b = clouds(200, 200, 10, seed=1, shift=0.0)
    far, _, _ = clouds(200, 200, 10, seed=1, shift=50.0)
    eps = 0.2 * near.bound() / 4.0
    counts = [solve_directly(c, a, b, eps, 1e-8, 1000).sweeps for c in (near, far)]
    assert abs(counts[0] - counts[1]) <= 1


@pytest.mark.parametrize("share", [1e-4, 1e3])
def test_leaves_very_small_and_very_large_regularisation_alone(share):
    cost, a, b = clouds(50, 50, 2, seed=2)
    assert not isinstance(solve_directly(cost, a, b, share * cost.bound(), 1e-6, 10_000), Solution)


def test_leaves_empty_columns_other_costs_and_batches_alone():
    cost, a, b = clouds(20, 20, 2, seed=3)
    eps = 0.1 * cost.bound()
    empty = b.clone()
    empty[0, 3] = 0.0
    assert isinstance(solve_directly(cost, a, b, eps, 1e-6, 100), Solution)
    assert solve_directly(cost, a, empty / empty.sum(), eps, 1e-6, 100) == 0
    assert solve_directly(PointCost(cost.x, cost.y, 1.0, 0.5), a, b, eps, 1e-6, 100) == 0
    twice = PointCost(cost.x.repeat(2, 1, 1), cost.y.repeat(2, 1, 1), 1.0, 0.0)
    assert solve_directly(twice, a.repeat(2, 1), b.repeat(2, 1), eps, 1e-6, 100) == 0


def test_stops_at_the_limit_without_an_answer():
    cost, a, b = clouds(100, 100, 2, seed=4)
    with pytest.raises(ConvergenceError, match="in 2 sweeps"):
        solve_directly(cost, a, b, 0.02 * cost.bound(), 1e-12, 2)
    assert solve_directly(cost, a, b, 0.02 * cost.bound(), 1e-12, 10_000) == MAX_SWEEPS


def test_overflow_gives_no_answer():
    cost, a, b = clouds(20, 20, 2, seed=5, dtype=torch.float32)
    huge = PointCost(cost.x * 1e19, cost.y * 1e19, 1.0, 0.0)
    assert solve_directly(huge, a, b, 1.0, 1e-6, 100) == 0
