"""Entropic transport: closed forms, GeomLoss and POT as oracles, finite differences, hostile regularisation."""

from __future__ import annotations

import math

import geomloss
import numpy as np
import ot
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.distance import cdist
from scipy.special import rel_entr

from privot.errors import ConvergenceError, DataError, PrivotError, UsageError
from privot.transport import exact, sinkhorn, sinkhorn_divergence
from privot.transport._divergences import semi_debiased, split_size
from privot.transport._solvers import stabilised_kernel
from privot.transport._solvers.costs import between, with_labels
from privot.transport._solvers.direct import MAX_SWEEPS
from privot.transport._solvers.newton import LONGEST, _direction
from privot.transport._solvers.results import Result

rng = np.random.default_rng(2)


def clouds(n: int = 12, m: int = 9, d: int = 3, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    g = np.random.default_rng(seed)
    return g.normal(size=(n, d)), g.normal(size=(m, d)) + 0.5


def simplex(n: int, seed: int) -> np.ndarray:
    w = np.random.default_rng(seed).random(n) + 0.1
    return w / w.sum()


def test_one_point_against_any_cloud_has_one_plan() -> None:
    x, y = clouds(1, 7)
    result = sinkhorn(x, y, reg=0.3)
    assert result.value == pytest.approx(cdist(x, y, "sqeuclidean").mean(), rel=1e-12)  # KL is 0: P = a⊗b
    np.testing.assert_allclose(result.plan, np.full((1, 7), 1 / 7), rtol=1e-9)


@pytest.mark.parametrize("reg", [0.1, 1.0, 10.0])
def test_two_points_a_side_by_hand(reg: float) -> None:
    # C = [[0, 1], [1, 0]]: by symmetry P = [[s, ½−s], [½−s, s]] with s/(½−s) = e^{1/ε}
    s = 0.5 / (1 + math.exp(-1 / reg))
    kl = 2 * (s * math.log(4 * s) + (0.5 - s) * math.log(4 * (0.5 - s)))
    result = sinkhorn([[0.0], [1.0]], [[0.0], [1.0]], reg, tol=1e-12)
    assert result.value == pytest.approx(2 * (0.5 - s) + reg * kl, rel=1e-9)
    assert result.transport_cost == pytest.approx(2 * (0.5 - s), rel=1e-9)
    assert result.plan[0, 0] == pytest.approx(s, rel=1e-9)


def test_gaussians_in_closed_form() -> None:
    # OT_ε between N(0, s²) and N(0, t²) under |x−y|² (Janati, Muzellec, Peyré & Cuturi 2020, with σ² = ε/2),
    # on a grid of weights fine enough to stand for the densities
    s, t, eps = 1.0, 1.6, 0.8
    grid = np.linspace(-9, 9, 400)
    a, b = (np.exp(-(grid**2) / (2 * v * v)) for v in (s, t))
    value = sinkhorn(grid, grid, eps, a=a / a.sum(), b=b / b.sum(), tol=1e-10).value
    root = math.sqrt(4 * s * s * t * t + (eps / 2) ** 2)
    closed = s * s + t * t - root + (eps / 2) * (1 - math.log(eps)) + (eps / 2) * math.log(root + eps / 2)
    assert value == pytest.approx(closed, rel=1e-6)


@pytest.mark.gate(each="cost")
@pytest.mark.slow
@pytest.mark.parametrize("cost", ["sqeuclidean", "l1", ("mixture", 0.7)])
@pytest.mark.parametrize("reg", [0.05, 0.5, 5.0])
def test_value_plan_and_marginals_agree_with_pot(cost: str | tuple[str, float], reg: float) -> None:
    x, y = clouds()
    a, b = simplex(12, 1), simplex(9, 2)
    square, absolute = cdist(x, y, "sqeuclidean"), cdist(x, y, "cityblock")
    C = {"sqeuclidean": square, "l1": absolute}.get(cost) if isinstance(cost, str) else square + 0.7 * absolute
    result = sinkhorn(x, y, reg, cost, tol=1e-11, a=a, b=b)
    P = ot.sinkhorn(a, b, C, reg, method="sinkhorn_log", stopThr=1e-13, numItermax=200_000)
    np.testing.assert_allclose(result.plan, P, atol=1e-9)
    value = (P * C).sum() + reg * (P * np.log(P / np.outer(a, b))).sum()
    assert result.value == pytest.approx(value, rel=1e-9)
    assert result.transport_cost == pytest.approx((P * C).sum(), rel=1e-8)
    assert sinkhorn(C, None, reg, "precomputed", a=a, b=b, tol=1e-11).value == pytest.approx(value, rel=1e-9)
    f, g = result.potentials
    rebuilt = np.outer(a, b) * np.exp((f[:, None] + g - C) / reg)
    np.testing.assert_allclose(rebuilt, P, atol=1e-9)


@pytest.mark.parametrize("debias", [False, True])
def test_agrees_with_geomloss(debias: bool) -> None:
    # GeomLoss's cost is |x−y|²/2 and its ε is blur², so both halve
    x, y = (torch.tensor(t, requires_grad=True) for t in clouds(20, 15))
    blur = 0.6
    loss = geomloss.SamplesLoss("sinkhorn", p=2, blur=blur, scaling=0.998, debias=debias, backend="tensorized")
    theirs = loss(x, y)
    ours = (sinkhorn_divergence if debias else sinkhorn)(x, y, 2 * blur**2, tol=1e-10).value
    assert ours.item() == pytest.approx(2 * theirs.item(), rel=1e-3)
    for mine, other in zip(torch.autograd.grad(ours, (x, y)), torch.autograd.grad(theirs, (x, y)), strict=True):
        assert (mine - 2 * other).norm() < 0.01 * mine.norm()  # its ε-scaling lags behind by 1 − scaling


@pytest.mark.slow
@pytest.mark.parametrize("cost", ["sqeuclidean", "l1", ("mixture", 0.7)])
def test_gradients_agree_with_finite_differences(cost: str | tuple[str, float]) -> None:
    x, y = (torch.tensor(t, requires_grad=True) for t in clouds(5, 4))
    logits = torch.randn(5, dtype=torch.float64, generator=torch.Generator().manual_seed(1)).requires_grad_()

    def value(s: torch.Tensor, t: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return sinkhorn(s, t, 0.5, cost, tol=1e-13, a=w.softmax(0)).value

    assert torch.autograd.gradcheck(value, (x, y, logits), eps=1e-6, atol=1e-6)
    assert torch.autograd.gradcheck(
        lambda s, t: sinkhorn_divergence(s, t, 0.5, cost, tol=1e-13).value, (x, y), eps=1e-6, atol=1e-6
    )
    matrix = torch.rand(4, 6, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda c: sinkhorn(c, None, 0.3, "precomputed", tol=1e-13).value, (matrix,))


def test_a_batch_is_its_problems() -> None:
    x = torch.tensor(rng.normal(size=(3, 8, 2)), requires_grad=True)
    y = torch.tensor(rng.normal(size=(3, 6, 2)) * 2)
    together = sinkhorn(x, y, 0.2, tol=1e-10)
    assert together.value.shape == (3,)
    assert together.plan.shape == (3, 8, 6)
    (gradient,) = torch.autograd.grad((together.value * torch.tensor([1.0, 2.0, 3.0])).sum(), x)
    for i in range(3):
        alone = sinkhorn(x[i], y[i], 0.2, tol=1e-10)
        assert together.value[i].item() == pytest.approx(alone.value.item(), rel=1e-8)
        torch.testing.assert_close(
            gradient[i], (i + 1) * torch.autograd.grad(alone.value, x)[0][i], rtol=1e-6, atol=1e-8
        )
    both = sinkhorn_divergence(x.detach(), y, 0.2, tol=1e-10).value
    assert both[1].item() == pytest.approx(
        sinkhorn_divergence(x[1].detach(), y[1], 0.2, tol=1e-10).value.item(), rel=1e-7
    )


@pytest.mark.slow
@pytest.mark.parametrize("cost", ["sqeuclidean", "l1"])
def test_streaming_changes_nothing(monkeypatch: pytest.MonkeyPatch, cost: str) -> None:
    x, y = (torch.tensor(t, requires_grad=True) for t in clouds(50, 37))

    def run() -> tuple[torch.Tensor, ...]:
        result = sinkhorn(x, y, 0.05, cost, tol=1e-9)
        return result.value, result.transport_cost, result.plan, *torch.autograd.grad(result.value, (x, y))

    whole = run()
    divergence = sinkhorn_divergence(x, y, 0.05, cost, tol=1e-9).value
    monkeypatch.setattr(stabilised_kernel, "DENSE_LIMIT", 100)
    monkeypatch.setattr(stabilised_kernel, "STREAMED_BLOCK", 37 * 8)
    monkeypatch.setattr("privot.transport._sinkhorn.STREAMED_BLOCK", 37 * 8)
    for streamed, held in zip(run(), whole, strict=True):
        torch.testing.assert_close(streamed, held, rtol=1e-6, atol=1e-8)
    assert sinkhorn_divergence(x, y, 0.05, cost, tol=1e-9).value.item() == pytest.approx(divergence.item(), rel=1e-6)


def test_cached_row_blocks_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = clouds(60, 45)
    whole = sinkhorn(x, y, 0.1, tol=1e-10).value
    monkeypatch.setattr(stabilised_kernel, "CACHED_BLOCK", 45 * 7)
    assert sinkhorn(x, y, 0.1, tol=1e-10).value == pytest.approx(whole, rel=1e-8)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("exponent", range(-6, 7))
def test_any_regularisation_gives_an_answer_or_a_sentence(exponent: int, dtype: type) -> None:
    x, y = (t.astype(dtype) for t in clouds(30, 25))
    reg = 10.0**exponent
    C = cdist(x.astype(float), y.astype(float), "sqeuclidean")
    low, high = exact(x.astype(float), y.astype(float)).value ** 2, C.mean()
    try:
        result = sinkhorn(x, y, reg, max_iterations=500)
    except ConvergenceError:
        assert exponent <= -2
        with pytest.raises(ConvergenceError, match=r"marginal error of .*raise reg"):
            sinkhorn(x, y, reg, max_iterations=500)
        return
    slack = 1e-4 if dtype is np.float32 else 1e-7
    # OT ≤ OT_ε ≤ ⟨a⊗b, C⟩, nearing either end as ε → 0 and ε → ∞
    assert low - slack <= result.value <= high + slack
    assert np.isfinite(result.plan).all()
    assert np.abs(result.plan.sum(0) - 1 / 25).sum() < slack
    assert np.abs(result.plan.sum(1) - 1 / 30).sum() < max(slack, 2e-6)
    if exponent >= 3:
        # second-order expansion at large ε: ⟨a⊗b, C⟩ − Var(doubly centred C)/2ε
        centred = C - C.mean(0) - C.mean(1, keepdims=True) + C.mean()
        assert high - result.value == pytest.approx((centred**2).mean() / (2 * reg), rel=0.05, abs=slack * 1e-2)


def test_small_regularisation_nears_the_exact_cost() -> None:
    x, y = clouds(20, 20)
    value = sinkhorn(x, y, 0.02).transport_cost
    assert value == pytest.approx(exact(x, y).value ** 2, rel=5e-3)


@pytest.mark.parametrize(("seed", "n"), [(169363, 5), (539, 3), (1, 40)])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_parts_that_hardly_exchange_mass_converge(seed: int, n: int, dtype: type) -> None:
    # a cloud against itself: plain sweeps need far more than 10,000; the symmetric iteration is the oracle
    x = np.random.default_rng(seed).normal(size=(n, 2)).astype(dtype)
    result = sinkhorn(x, x, 0.05, tol=1e-6, max_iterations=300)
    assert sinkhorn_divergence(x, x, 0.05, tol=1e-6).value == pytest.approx(0.0, abs=1e-5)
    assert np.abs(result.plan.sum(1) - 1 / n).sum() < 3e-6
    np.testing.assert_allclose(result.plan, result.plan.T, atol=1e-5)


def test_parts_that_exchange_less_than_rounding_do_not_hold_up_the_others() -> None:
    for seed in range(20):
        dice = np.random.default_rng(seed)
        x = dice.normal(size=(40, 2))
        for y in (x, x + 0.01 * dice.normal(size=x.shape)):
            result = sinkhorn(x, y, 0.05, tol=1e-6, max_iterations=200)
            assert np.abs(result.plan.sum(1) - 1 / 40).sum() < 1e-6


def test_a_problem_that_asks_for_a_ridge_changes_nothing_for_its_neighbour() -> None:
    dice = np.random.default_rng(0)
    easy = torch.tensor(dice.uniform(0.5, 1.0, size=(6, 6)))
    apart = torch.block_diag(easy[:3, :3], easy[3:, 3:])
    plans = torch.stack([easy / easy.sum(0) / 6, apart / apart.sum(0) / 6])
    weights = torch.full((2, 6), 1 / 6, dtype=torch.float64)
    # the rows of the first part want more than its columns have: no step can help, and none may be long
    wanted = weights.clone()
    wanted[1, :3] *= 1.01
    wanted[1, 3:] *= 0.99
    step = _direction(plans, wanted, weights)
    assert step is not None
    rows = plans[0].sum(1)
    system = torch.diag(rows) - plans[0] @ plans[0].T * 6 + torch.outer(rows, rows)
    np.testing.assert_allclose(step[0], torch.linalg.solve(system, wanted[0] - rows), rtol=1e-9)
    assert float(step[1].abs().max()) <= LONGEST
    assert float(step[1].abs().max()) > 0.01


def _certified(x: np.ndarray, y: np.ndarray, reg: float, result: Result, a: np.ndarray, b: np.ndarray) -> None:
    """The value is that of the problem: between the dual at its potentials and the primal at a plan rounded to a, b."""
    C = cdist(x, y, "sqeuclidean")
    f, g = result.potentials
    P = np.outer(a, b) * np.exp((f[:, None] + g - C) / reg)
    dual = a @ f + b @ g - reg * (P.sum() - 1.0)
    # Altschuler, Weed & Rigollet 2017, algorithm 2: a plan with exactly these marginals
    P *= np.minimum(1.0, a / P.sum(1))[:, None]
    P *= np.minimum(1.0, b / P.sum(0))
    rows, columns = (a - P.sum(1)).clip(0.0), (b - P.sum(0)).clip(0.0)
    P += np.outer(rows, columns) / max(rows.sum(), 1e-30)
    primal = (P * C).sum() + reg * rel_entr(P, np.outer(a, b)).sum()
    slack = 1e-9 * (1.0 + C.max())
    assert dual - slack <= result.value <= primal + slack
    # mass that was in the wrong place costs at most the largest cost, and ε times its logarithm
    wrong = result.marginal_error * (C.max() + 30.0 * reg)
    assert primal - dual <= 2.0 * wrong + slack


@pytest.mark.parametrize("tol", [1e-2, 1e-6])
def test_integer_points_of_small_regularisation_converge(tol: float) -> None:
    # shares of 1/30 and 1/40 with costs up to 7,602 times reg: potentials have far to go while the error stands still
    g = np.random.default_rng(1)
    x, y = (np.trunc(g.normal(size=(n, 3)) * 10) for n in (30, 40))
    result = sinkhorn(x, y, reg=0.5, tol=tol)
    assert result.iterations < 1000
    assert result.marginal_error <= tol
    _certified(x, y, 0.5, result, np.full(30, 1 / 30), np.full(40, 1 / 40))
    # by Newton steps in 40 digits (mpmath), whose marginal error is 3e-39
    assert result.value == pytest.approx(115.161883492595, rel=1e-5 if tol > 1e-3 else 1e-9)


@settings(max_examples=20, deadline=None)
@given(
    st.integers(0, 10**6),
    st.tuples(st.integers(1, 20), st.integers(1, 20)),
    st.sampled_from([1, 3, 10]),
    st.sampled_from([0.2, 0.5, 3.0]),
    st.sampled_from([1e-2, 1e-6]),
    st.sampled_from(["other", "same", "twice"]),
)
def test_integer_grids_converge(
    seed: int, sizes: tuple[int, int], scale: int, reg: float, tol: float, how: str
) -> None:
    g = np.random.default_rng(seed)
    x, y = (np.trunc(g.normal(size=(n, 2)) * scale) for n in sizes)
    if how != "other":
        y = x.copy() if how == "same" else np.concatenate([x, x])
    a, b = (simplex(len(t), seed) if seed % 2 else np.full(len(t), 1 / len(t)) for t in (x, y))
    result = sinkhorn(x, y, reg, tol=tol, a=a, b=b)
    assert result.marginal_error <= tol
    _certified(x, y, reg, result, a, b)


@pytest.mark.parametrize("limit", [1, 3, 20, 41, 90])
@pytest.mark.parametrize("cost", ["sqeuclidean", "l1"])
def test_the_limit_of_iterations_is_kept_and_their_number_is_true(monkeypatch, limit: int, cost: str) -> None:
    passes = 0
    for name in ("sweep", "move"):
        real = getattr(stabilised_kernel.Kernel, name)

        def counted(kernel, *rest, _real=real, **options):
            nonlocal passes
            passes += 1
            return _real(kernel, *rest, **options)

        monkeypatch.setattr(stabilised_kernel.Kernel, name, counted)
    x, y = clouds(40, 30)
    with pytest.raises(ConvergenceError, match=f"in {limit} sweeps"):
        sinkhorn(x, y, 0.002, cost, tol=1e-9, max_iterations=limit)
    assert passes <= limit
    passes = 0
    needed = sinkhorn(x, y, 0.01, cost, tol=1e-9).iterations
    assert needed - (MAX_SWEEPS if cost == "sqeuclidean" else 0) == passes
    assert sinkhorn(x, y, 0.01, cost, tol=1e-9, max_iterations=needed).iterations == needed


def test_flat_problems_keep_the_limit_too() -> None:
    x, y = clouds()
    needed = sinkhorn(x, y, 1e3, tol=1e-12).iterations
    assert sinkhorn(x, y, 1e3, tol=1e-12, max_iterations=needed).iterations == needed
    with pytest.raises(ConvergenceError, match="in 1 sweeps"):
        sinkhorn(x, y, 100.0, tol=1e-15, max_iterations=1)


def test_scalings_that_leave_the_number_type_are_taken_up_again() -> None:
    x, y = (torch.tensor(t)[None] for t in clouds(20, 15))
    a, b = (torch.full((1, n), 1.0 / n, dtype=torch.float64) for n in (20, 15))
    ground = between(x, y, "sqeuclidean")
    kernel = stabilised_kernel.Kernel(ground, stabilised_kernel.hold(ground), a, b)
    kernel.rebuild(0.05)
    kernel.u = kernel.u * math.inf
    kernel.recover()
    assert kernel.sweeps == 1
    assert (kernel.plan().sum(1) - b).abs().max() < 1e-12  # as after any sweep
    assert float(kernel.marginal_error()) < 2.0


def test_stopping_early_raises_and_says_how_far_it_got() -> None:
    x, y = clouds(40, 40)
    with pytest.raises(ConvergenceError, match=r"marginal error of .* in \d+ sweeps, not 1e-12"):
        sinkhorn(x, y, 0.01, tol=1e-12, max_iterations=8)


def test_the_reported_error_is_that_of_the_plan() -> None:
    x, y = clouds(40, 30)
    a, b = simplex(40, 5), simplex(30, 6)
    for tol in (1e-3, 1e-6, 1e-9):
        result = sinkhorn(x, y, 0.1, tol=tol, a=a, b=b)
        off = np.abs(result.plan.sum(1) - a).sum()
        assert off <= tol
        assert off == pytest.approx(result.marginal_error, rel=1e-3, abs=1e-13)
        np.testing.assert_allclose(result.plan.sum(0), b, atol=1e-14)
        assert result.converged
        assert result.iterations > 0


@pytest.mark.parametrize("reg", [0.1, 100.0])
def test_zero_weights_duplicates_and_outliers(reg: float) -> None:
    x, y = clouds(10, 8)
    x[3] = x[4]
    a, b = simplex(10, 1), simplex(8, 2)
    a[[0, 5]], b[[1, 7]] = 0.0, 0.0
    a, b = a / a.sum(), b / b.sum()
    full = sinkhorn(x, y, reg, a=a, b=b, tol=1e-10)
    kept = sinkhorn(x[a > 0], y[b > 0], reg, a=a[a > 0], b=b[b > 0], tol=1e-10)
    assert full.value == pytest.approx(kept.value, rel=1e-9)
    assert all(np.isfinite(h).all() for h in full.potentials)
    assert full.plan[0].sum() == 0.0
    x[2] = 1e3
    assert np.isfinite(sinkhorn(x, y, reg, a=a, b=b).value)


def test_float32_survives_points_far_from_the_origin() -> None:
    x, y = clouds(40, 40)
    near = sinkhorn(x, y, 0.5).value
    far = sinkhorn((x + 300).astype(np.float32), (y + 300).astype(np.float32), 0.5).value
    assert far == pytest.approx(near, rel=1e-3)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 8), st.integers(1, 8), st.sampled_from([0.3, 1.0, 30.0]))
def test_symmetry_invariance_and_a_divergence_that_is_zero_at_home(seed: int, n: int, m: int, reg: float) -> None:
    x, y = clouds(n, m, 2, seed)
    g = np.random.default_rng(seed)
    there = sinkhorn(x, y, reg, tol=1e-7).value
    assert sinkhorn(y, x, reg, tol=1e-7).value == pytest.approx(there, rel=1e-4)
    moved = sinkhorn(g.permutation(x) + 7.0, y + 7.0, reg, tol=1e-7).value
    assert moved == pytest.approx(there, rel=1e-4)
    assert sinkhorn_divergence(x, x, reg, tol=1e-7).value == pytest.approx(0.0, abs=1e-5)
    assert sinkhorn_divergence(x, y, reg, tol=1e-7).value > -1e-5


def test_the_divergence_at_large_regularisation_is_the_squared_distance_of_means() -> None:
    # with c = ‖x−y‖², S_∞ = −½ ∬ c d(α−β)² = ‖E x − E y‖²
    x, y = clouds(30, 20)
    assert sinkhorn_divergence(x, y, 1e6).value == pytest.approx(((x.mean(0) - y.mean(0)) ** 2).sum(), rel=1e-4)


@pytest.mark.slow
def test_the_semi_debiased_loss_is_its_two_terms() -> None:
    x, y = torch.tensor(rng.normal(size=(14, 3)), requires_grad=True), torch.tensor(rng.normal(size=(9, 3)))
    result = semi_debiased(x, y, reg=3.0, p=0.4, m=2.0, tol=1e-11)  # n = 10, n' = 4
    cost = ("mixture", 2.0)
    by_hand = 2 * sinkhorn(x[:10], y, 3.0, cost, 1e-11).value - sinkhorn(x[:10], x[4:], 3.0, cost, 1e-11).value
    assert result.details["n"] == 10
    assert result.value.item() == pytest.approx(by_hand.item(), rel=1e-10)
    assert torch.autograd.gradcheck(lambda t: semi_debiased(t, y, 3.0, tol=1e-13).value, (x,), eps=1e-6, atol=1e-6)
    # rows n.. see no Y: the term that does has no gradient there
    (gradient,) = torch.autograd.grad(result.details["cross"], x, retain_graph=True)
    assert torch.all(gradient[10:] == 0)
    assert gradient[:10].abs().min() > 0
    biased = semi_debiased(x, y, 3.0, p=0.0, tol=1e-11).value - sinkhorn(y, y, 3.0, ("mixture", 1.0), 1e-11).value
    assert biased.item() == pytest.approx(
        2 * sinkhorn_divergence(x, y, 3.0, ("mixture", 1.0), 1e-11).value.item(), rel=1e-8
    )


@pytest.mark.parametrize("p", [0.0, 0.2, 0.4, 0.5, 1.0])
def test_split_sizes(p: float) -> None:
    for n in range(1, 60):
        assert split_size(n + int(n * p), p) == n


def test_impossible_splits_are_refused() -> None:
    with pytest.raises(DataError):
        split_size(3, 1.0)
    with pytest.raises(PrivotError):
        semi_debiased(np.zeros((4, 1)), np.zeros((2, 1)), 1.0, p=1.5)


def test_labels_appended_with_a_weight() -> None:
    x = torch.tensor([[1.0], [2.0]], requires_grad=True)
    out = with_labels(x, [1, 0], classes=3, weight=15.0)
    assert out.tolist() == [[1.0, 0.0, 15.0, 0.0], [2.0, 15.0, 0.0, 0.0]]
    out.sum().backward()
    assert x.grad is not None
    for labels in ([0, 3], [0], [0.5, 1.0], [-1, 0]):
        with pytest.raises(DataError):
            with_labels(x, labels, classes=3, weight=1.0)


@pytest.mark.parametrize("change", [{"reg": 0.0}, {"reg": -1}, {"reg": math.nan}, {"reg": math.inf}, {"tol": 0}])
def test_bad_numbers_are_refused(change: dict) -> None:
    with pytest.raises(UsageError):
        sinkhorn(*clouds(), **{"reg": 1.0, **change})


def test_unknown_costs_and_huge_costs_are_refused() -> None:
    x, y = clouds()
    for cost in ("euclid", ("mixture", -1.0), ("mix", 1.0)):
        with pytest.raises(UsageError):
            sinkhorn(x, y, 1.0, cost)
    with pytest.raises(DataError, match="too large"):
        sinkhorn(x * 1e200, y, 1.0)
    with pytest.raises(UsageError):
        sinkhorn(x, y, 1.0, "precomputed")


def test_second_derivatives_are_refused_rather_than_wrong():
    x = torch.randn(5, 2, dtype=torch.float64, requires_grad=True)
    value = sinkhorn(x, torch.randn(4, 2, dtype=torch.float64), reg=1.0).value
    with pytest.raises(UsageError, match="first derivatives only"):
        torch.autograd.grad(value, x, create_graph=True)


@pytest.mark.parametrize("cost", ["sqeuclidean", "l1", ("mixture", 0.5)])
@pytest.mark.parametrize("reg", [0.3, 30.0])
def test_the_gradient_is_there_without_autograd(cost, reg):
    generator = torch.Generator().manual_seed(1)
    x, y = (torch.randn(2, k, 3, generator=generator, dtype=torch.float64) for k in (12, 9))
    asking = x.clone().requires_grad_(True)
    sinkhorn(asking, y, reg, cost=cost, tol=1e-10).value.sum().backward()
    assert torch.allclose(sinkhorn(x, y, reg, cost=cost, tol=1e-10).gradient, asking.grad, atol=1e-9)
    single = sinkhorn(x[0].numpy(), y[0].numpy(), reg, cost=cost, tol=1e-10).gradient
    assert isinstance(single, np.ndarray)
    assert np.allclose(single, asking.grad[0].numpy(), atol=1e-9)


def test_the_gradient_of_given_costs_is_the_plan():
    found = sinkhorn(np.array([[0.0, 1.0], [2.0, 0.5]]), None, 0.5, cost="precomputed")
    assert np.allclose(found.gradient, found.plan)
