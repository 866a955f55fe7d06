"""Exact optimal transport: assignment where it is one, the network simplex otherwise; never a rough answer."""

from __future__ import annotations

import contextlib
import io
import math
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment
from torch import Tensor

from privot.common import arguments
from privot.common.extras import needing
from privot.errors import ConvergenceError, DataError, UsageError
from privot.transport._solvers.arrays import fixed, points, tensors, weights
from privot.transport._solvers.costs import check_cost_matrix
from privot.transport._solvers.results import Result, attach, hand_back
from privot.transport._univariate import root

MAX_ENTRIES = 1 << 28
MAX_PIVOTS = 10**9
Array = NDArray[np.float64]


@dataclass(frozen=True)
class Coupling:
    """An optimal plan's support: `mass[t]` goes from i[t] to j[t]; `duals` as the solver left them, if it did."""

    i: NDArray[np.int64]
    j: NDArray[np.int64]
    mass: Array
    duals: tuple[Array, Array] | None


def exact(x: Any, y: Any, p: float = 2, a: Any = None, b: Any = None) -> Result:
    """The Wasserstein distance W_p(x, y) = (min_P Σ_ij P_ij ‖x_i − y_j‖^p)^(1/p) over plans with P1 = a, Pᵀ1 = b.

    Parameters
    ----------
    x, y
        Points of shape (n, d) and (m, d), arrays or tensors; at most 2²⁸ pairs.
    p
        Any order p ≥ 1.
    a, b
        Weights of shape (n,) and (m,), not negative and of sum 1; uniform unless given.

    Returns
    -------
    Result
        `value`: the distance; differentiable in x and y: the plan is optimal, so only the distances under it move
        (envelope theorem). `plan` of shape (n, m); `transport_cost`, without the root; `potentials` (f, g) of shapes
        (n,) and (m,) satisfy f_i + g_j ≤ ‖x_i − y_j‖^p with equality where P_ij > 0; they are not unique.

    Raises
    ------
    DataError
        If the shapes do not fit, a number is not finite, or the points lie too far apart to compare.
    UsageError
        If p is below 1, or there are too many pairs.
    ConvergenceError
        If the solver stopped before its optimum.
    MissingDependencyError
        If the weights need POT and it is not installed.

    Notes
    -----
    Equal sizes and uniform weights are solved as an assignment (SciPy), everything else by POT's network simplex, whose
    result code is checked. Costs are taken in float64.

    References
    ----------
    Peyré & Cuturi 2019, "Computational optimal transport", chapter 3.

    Examples
    --------
    >>> exact([[0.0, 0.0], [1.0, 0.0]], [[1.0, 3.0], [0.0, 3.0]]).value
    3.0
    """
    p = arguments.real("p", p, 1.0, strict=False)
    tx, ty, as_numpy = points(x, y)
    wa, wb = _both_weights(a, b, tx, ty)
    scale = _scale(tx, ty)
    cost = _distances(tx, ty, scale, p)
    found = couple(cost, wa, wb)
    rows, columns = torch.from_numpy(found.i).to(tx.device), torch.from_numpy(found.j).to(tx.device)
    mass = torch.from_numpy(found.mass).to(tx)
    gap = (tx.detach()[rows] - ty.detach()[columns]) / scale
    square = (gap * gap).sum(1)
    total = (mass * square.pow(p / 2.0)).sum()
    value, slope = root(total, p)
    value = value * scale
    if tx.requires_grad or ty.requires_grad:
        power = torch.where(square > 0, square, torch.ones_like(square)).pow(p / 2.0 - 1.0)
        push = (slope * p) * (mass * power)[:, None] * gap
        gx = torch.zeros_like(tx).index_add_(0, rows, push)
        gy = torch.zeros_like(ty).index_add_(0, columns, -push)
        value = attach(value, (tx, gx), (ty, gy))
    lazy = _lazy(cost, found, scale**p, tx, as_numpy)
    lazy["transport_cost"] = lambda: hand_back(total * scale**p, as_numpy)
    return Result(value=hand_back(value, as_numpy), lazy=lazy)


def exact_matrix(cost: Any, a: Any = None, b: Any = None) -> Result:
    """min_P ⟨P, C⟩ for a given cost matrix C (n, m); differentiable in C, whose gradient is the plan."""
    (matrix,), as_numpy = tensors(("The cost matrix", cost))
    check_cost_matrix(matrix)
    if matrix.dim() != 2:
        raise DataError(f"A cost matrix must have shape (n, m) here, got {tuple(matrix.shape)}.")
    like_x, like_y = matrix.detach()[:, :1], matrix.detach()[:1].T
    wa, wb = _both_weights(a, b, like_x, like_y)
    ground = matrix.detach().double().cpu().numpy()
    found = couple(ground, wa, wb)
    where = torch.from_numpy(found.i).to(matrix.device), torch.from_numpy(found.j).to(matrix.device)
    value = (matrix[where] * torch.from_numpy(found.mass).to(matrix)).sum()
    lazy = _lazy(ground, found, 1.0, matrix, as_numpy)
    return Result(value=hand_back(value, as_numpy), lazy=lazy)


def couple(cost: Array, a: Array | None, b: Array | None) -> Coupling:
    """The support of an optimal plan for `cost`; weights None are uniform."""
    if not np.isfinite(cost).all():
        # the network simplex would not come back, or not alive
        raise DataError("The costs are not all finite: the points lie too far apart to compare, rescale them.")
    n, m = cost.shape
    if a is None and b is None and n == m:
        i, j = linear_sum_assignment(cost)
        return Coupling(i, j, np.full(n, 1.0 / n), None)
    a = np.full(n, 1.0 / n) if a is None else a
    b = np.full(m, 1.0 / m) if b is None else b
    plan, log = _pot().emd(a, b, cost, numItermax=MAX_PIVOTS, log=True)
    if log["result_code"] != 1:
        raise ConvergenceError(
            f"The network simplex stopped before its optimum (code {log['result_code']}, cost {log['cost']:.6g}): "
            "rescale the points or use fewer of them."
        )
    i, j = np.nonzero(plan)
    return Coupling(i, j, plan[i, j], (log["u"], log["v"]))


@cache
def _pot() -> Any:
    """POT, imported when first needed: it takes seconds and may greet on standard output."""
    with needing("General weights and sizes need", "exact"), contextlib.redirect_stdout(io.StringIO()):
        import ot  # type: ignore[import-untyped,unused-ignore]
    return ot


def network_simplex() -> Any:
    """POT's solver itself: (a, b, cost, pivots, threads) → (plan, cost, u, v, code)."""
    _pot()
    from ot.lp.emd_wrap import emd_c  # type: ignore[import-untyped,unused-ignore]

    return emd_c


def feasible_duals(cost: Array, found: Coupling) -> tuple[Array, Array]:
    """(f, g) with f_i + g_j ≤ C_ij everywhere and equality on the plan.

    From whatever the solver left, or f = 0: f_i ← min over the plan's columns of C_ij − g_j, with
    g_j = min_k C_kj − f_k, are shortest paths (Bellman–Ford) in the graph of `dual_gaps`.
    """
    gaps = dual_gaps(cost, found)
    f = np.zeros(len(cost)) if found.duals is None else found.duals[0].copy()
    slack = 1e-12 * max(1.0, float(np.abs(cost).max()))
    for _ in range(len(cost) + 1):
        lower = np.minimum(f, (gaps + f[None, :]).min(1))
        if float((f - lower).max()) <= slack:
            break
        f = lower
    else:
        raise ConvergenceError("The dual potentials of the plan did not settle: its costs are too close to ties.")
    return f, (cost - f[:, None]).min(0)


def dual_gaps(cost: Array, found: Coupling) -> Array:
    """G with f_i − f_k ≤ G_ik for every optimal dual f: G_ik = min over j that k sends mass to of C_ij − C_kj.

    Because f_i ≤ C_ij − g_j and g_j = C_kj − f_k where P_kj > 0. A point that sends no mass bounds nobody.
    """
    gaps = np.full((len(cost), len(cost)), math.inf)
    for k, j in zip(found.i, found.j, strict=True):
        np.minimum(gaps[:, k], cost[:, j] - cost[k, j], out=gaps[:, k])
    np.fill_diagonal(gaps, 0.0)
    return gaps


def _lazy(cost: Array, found: Coupling, scale: Tensor | float, like: Tensor, as_numpy: bool) -> dict[str, Any]:
    def plan() -> Any:
        out = np.zeros(cost.shape)
        np.add.at(out, (found.i, found.j), found.mass)
        return hand_back(torch.from_numpy(out).to(like.detach()), as_numpy)

    def potentials() -> Any:
        duals = feasible_duals(cost, found)
        return tuple(hand_back(torch.from_numpy(h).to(like.detach()) * scale, as_numpy) for h in duals)

    return {"plan": plan, "potentials": potentials}


def _both_weights(a: Any, b: Any, x: Tensor, y: Tensor) -> tuple[Array | None, Array | None]:
    """Weights in float64 that sum to one to its last digits, as the simplex wants; None where not given."""
    out: list[Array | None] = []
    for name, given, t in (("a", a, x), ("b", b, y)):
        if given is None:
            out.append(None)
            continue
        w = fixed(name, weights(name, given, (len(t),), t.detach().double())).cpu().numpy()
        out.append(w / w.sum())
    return out[0], out[1]


def _scale(x: Tensor, y: Tensor) -> Tensor:
    size = torch.maximum(x.detach().abs().amax(), y.detach().abs().amax())
    return torch.where(size > 0, size, torch.ones_like(size))


def _distances(x: Tensor, y: Tensor, scale: Tensor, p: float) -> Array:
    """‖x_i − y_j‖^p / scale^p in float64, without the cancellation of ‖x‖² + ‖y‖² − 2⟨x, y⟩ far from 0."""
    if len(x) * len(y) > MAX_ENTRIES:
        raise UsageError(f"{len(x)} × {len(y)} points are too many for an exact plan: use sinkhorn or sliced.")
    x, y = (t.detach().double().cpu() / scale.double().cpu() for t in (x, y))
    centre = x.mean(0)
    x, y = x - centre, y - centre
    square = torch.addmm((y * y).sum(1)[None, :], x, y.T, alpha=-2.0).add_((x * x).sum(1)[:, None]).clamp_(min=0.0)
    out: Array = (square if p == 2 else square.pow_(p / 2.0)).numpy()
    return out
