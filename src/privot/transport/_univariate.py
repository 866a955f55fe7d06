"""Transport on the line, in closed form, for many problems at once; it knows nothing of directions."""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd
from typing import Any

import numpy as np
import torch
from torch import Tensor

from privot.common import arguments
from privot.errors import DataError
from privot.transport._solvers.arrays import check_finite, fixed, tensors, weights
from privot.transport._solvers.results import Result, attach, hand_back
from privot.transport._solvers.row_sorting import sort_rows


@dataclass(frozen=True)
class Matching:
    """The monotone plan between sorted points: mass w_t goes from the ix_t-th of x to the iy_t-th of y.

    Shapes (T,), one plan for every row, or (k, T), one per row. `ix` None: the i-th goes to the i-th, w = 1/n.
    """

    ix: Tensor | None
    iy: Tensor | None
    w: Tensor | float


def match_sizes(n: int, m: int, like: Tensor) -> Matching:
    """The plan for uniform weights, in whole numbers, so that no rounding splits a point."""
    if n == m:
        return Matching(None, None, 1.0 / n)
    common = gcd(n, m)
    per_x, per_y = m // common, n // common  # a point of x holds per_x units of mass, one of y per_y
    edges = torch.from_numpy(np.union1d(np.arange(1, n + 1) * per_x, np.arange(1, m + 1) * per_y))
    ix = torch.div(edges - 1, per_x, rounding_mode="floor")
    iy = torch.div(edges - 1, per_y, rounding_mode="floor")
    w = edges.diff(prepend=torch.zeros(1, dtype=edges.dtype)).to(torch.float64) / (n * per_x)
    return Matching(ix.to(like.device), iy.to(like.device), w.to(like))


def match_weights(a: Tensor, b: Tensor) -> Matching:
    """The plan for the weights a (k, n) and b (k, m) of sorted points, by merging their cumulative sums."""
    ca, cb = a.double().cumsum(-1), b.double().cumsum(-1)
    ca, cb = ca / ca[:, -1:], cb / cb[:, -1:]
    levels = torch.cat((ca, cb), -1).sort(-1).values
    ix = torch.searchsorted(ca, levels).clamp_(max=a.shape[-1] - 1)
    iy = torch.searchsorted(cb, levels).clamp_(max=b.shape[-1] - 1)
    w = levels.diff(dim=-1, prepend=torch.zeros_like(levels[:, :1]))
    return Matching(ix, iy, w.to(a.dtype))


def compare_rows(
    zx: Tensor, zy: Tensor, p: float, a: Tensor | None, b: Tensor | None, need_x: bool, need_y: bool
) -> tuple[Tensor, Tensor | None, Tensor | None]:
    """(W_p^p of each row, its gradients with respect to zx and zy where asked for); zx and zy are overwritten.

    W_p^p(α, β) = ∫₀¹ |F_α⁻¹(t) − F_β⁻¹(t)|^p dt: sort both, match by cumulative mass, add up (Villani 2003,
    "Topics in Optimal Transportation", theorem 2.18). Rows of zx (k, n) against rows of zy (k, m); weights
    a (n,) and b (m,) are uniform when None.
    """
    weighted = a is not None or b is not None
    (xs, order_x), (ys, order_y) = sort_rows((zx, need_x or weighted), (zy, need_y or weighted))
    if order_x is not None and order_y is not None and weighted:
        matching = match_weights(_weights_in(order_x, a), _weights_in(order_y, b))
    else:
        matching = match_sizes(xs.shape[-1], ys.shape[-1], xs)
    gap = _take(xs, matching.ix) - _take(ys, matching.iy)
    cost, slope = power_sums(gap, matching.w, p, need_x or need_y)
    gx = _spread(slope, matching.ix, order_x, xs) if need_x and slope is not None else None
    gy = _spread(slope, matching.iy, order_y, ys) if need_y and slope is not None else None
    return cost, gx, None if gy is None else gy.neg_()


def power_sums(gap: Tensor, w: Tensor | float, p: float, need_slope: bool) -> tuple[Tensor, Tensor | None]:
    """(Σ_t w_t |gap_t|^p of each row, its derivative with respect to each gap_t or None)."""
    if p == 2:
        slope = gap * w
        return torch.linalg.vecdot(slope, gap), slope.mul_(2.0) if need_slope else None
    if p == 1:
        return (gap.abs() * w).sum(-1), gap.sign().mul_(w) if need_slope else None
    lower = gap.abs().pow_(p - 1.0).mul_(w)
    return torch.linalg.vecdot(lower, gap.abs()), lower.mul_(gap.sign()).mul_(p) if need_slope else None


def root(total: Tensor, p: float) -> tuple[Tensor, Tensor]:
    """(total^(1/p), its derivative); at 0, where the root has none, the derivative is taken as 0."""
    value = total.pow(1.0 / p)
    return value, torch.where(total > 0, value / (p * total), torch.zeros_like(total))


def _weights_in(order: Tensor, w: Tensor | None) -> Tensor:
    if w is None:
        return torch.full(order.shape, 1.0 / order.shape[-1], dtype=torch.float64, device=order.device)
    return w[order]


def _take(sorted_rows: Tensor, index: Tensor | None) -> Tensor:
    if index is None:
        return sorted_rows
    return sorted_rows[:, index] if index.dim() == 1 else sorted_rows.gather(1, index)


def _spread(slope: Tensor, index: Tensor | None, order: Tensor | None, like: Tensor) -> Tensor:
    """Slopes of matched pairs, added up a point and put back where the points came from."""
    if order is None:  # unreachable: where a gradient is needed, rows were sorted with their order
        raise AssertionError
    if index is not None:
        where = index.expand(slope.shape) if index.dim() == 1 else index
        slope = torch.zeros_like(like).scatter_add_(1, where, slope)
    return torch.empty_like(slope).scatter_(1, order, slope)


def wasserstein_1d(x: Any, y: Any, p: float = 2, a: Any = None, b: Any = None) -> Result:
    """W_p between points on the line, W_p(α, β) = (∫₀¹ |F_α⁻¹(t) − F_β⁻¹(t)|^p dt)^(1/p), in closed form.

    Parameters
    ----------
    x, y
        Points of shape (n,) and (m,), or columns of shape (n, k) and (m, k): one distance per column. Arrays or
        tensors.
    p
        Any order p ≥ 1.
    a, b
        Weights of shape (n,) and (m,), not negative and of sum 1; uniform unless given.

    Returns
    -------
    Result
        `value`: the distance, or k distances; differentiable in x and y. `plan`, of shape (n, m), for a single pair of
        columns.

    Raises
    ------
    DataError
        If the shapes do not fit, or a number is not finite.
    UsageError
        If p is below 1.

    References
    ----------
    Villani 2003, "Topics in optimal transportation", theorem 2.18.

    Examples
    --------
    >>> wasserstein_1d([0.0, 1.0], [1.0, 2.0], p=1).value
    1.0
    """
    p = arguments.real("p", p, 1.0, strict=False)
    (tx, ty), as_numpy = tensors(("x", x), ("y", y))
    flat = tx.dim() == 1 and ty.dim() == 1
    if flat:
        tx, ty = tx[:, None], ty[:, None]
    for name, t in (("x", tx), ("y", ty)):
        if t.dim() != 2 or t.numel() == 0 or t.shape[1] != ty.shape[1]:
            raise DataError(f"{name} of shape {tuple(t.shape)} does not fit: give points (n,) or columns (n, k).")
        check_finite(name, t)
    n, m = len(tx), len(ty)
    wa = None if a is None else fixed("a", weights("a", a, (n,), tx))
    wb = None if b is None else fixed("b", weights("b", b, (m,), ty))
    need_x, need_y = tx.requires_grad, ty.requires_grad
    zx, zy = tx.detach().T, ty.detach().T
    scale = torch.maximum(zx.abs().amax(), zy.abs().amax())  # so that no p-th power overflows
    scale = torch.where(scale > 0, scale, torch.ones_like(scale))
    cost, gx, gy = compare_rows(zx / scale, zy / scale, p, wa, wb, need_x, need_y)
    value, slope = root(cost, p)
    value = value * scale
    if need_x or need_y:
        slopes = slope[:, None]
        gx, gy = (None if g is None else (g * slopes).T.contiguous() for g in (gx, gy))
        value = attach(value.sum(), (tx, gx), (ty, gy)) if len(value) == 1 else _columns(value, (tx, gx), (ty, gy))
    if flat or value.numel() == 1:
        value = value.reshape(())

    def plan() -> Any:
        return hand_back(_plan(tx.detach()[:, 0], ty.detach()[:, 0], wa, wb), as_numpy)

    return Result(value=hand_back(value, as_numpy), lazy={"plan": plan} if value.dim() == 0 else {})


def _columns(value: Tensor, *pairs: tuple[Tensor, Tensor | None]) -> Tensor:
    """Values of columns: the gradient of the j-th touches only the j-th column."""
    turned = [(t.T, None if g is None else g.T) for t, g in pairs]
    return attach(value, *turned)


def _plan(x: Tensor, y: Tensor, a: Tensor | None, b: Tensor | None) -> Tensor:
    order_x, order_y = x.argsort()[None], y.argsort()[None]
    matching = match_weights(_weights_in(order_x, a), _weights_in(order_y, b))
    out = torch.zeros(len(x), len(y), dtype=torch.float64, device=x.device)
    if matching.ix is not None and matching.iy is not None:
        where = (order_x[0][matching.ix[0]], order_y[0][matching.iy[0]])
        out.index_put_(where, torch.as_tensor(matching.w)[0].double(), accumulate=True)
    return out.to(x.dtype)
