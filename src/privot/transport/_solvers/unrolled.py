"""Entropic transport in a fixed number of sweeps: the same operations in the same order whatever the points are.

For callers that may let nothing but the answer depend on the points: there is no tolerance, no test of convergence, no
branch on values, no wait for the device and no exception. It is as exact as its sweeps make it;
`privot.transport.sinkhorn` is the solver that converges or says so.
"""

from __future__ import annotations

import torch
from torch import Tensor

from privot.transport import cuda

LEVELS = 10
LAST = 4
"""How often potentials are absorbed while ε falls, and after it has fallen."""
_LEAST = 1e-30
"""What is added to a marginal, so that none is 0: float32 ends at 1e-38."""


def schedule(sweeps: int) -> list[tuple[float, int]]:
    """(share of the way from `reg` up to the largest cost, in logarithms; sweeps there), level by level."""
    levels = max(2, min(LEVELS, sweeps // 3))
    last = max(1, round(LAST * levels / LEVELS))
    inner = max(1, round(sweeps / (levels + last)))
    return [(1.0 - level / levels, inner) for level in range(levels)] + [(0.0, inner)] * last


def unrolled_gradients(
    x: Tensor,
    y: Tensor,
    b: Tensor,
    reg: float,
    m: float = 0.0,
    sweeps: int = 100,
    square: float = 1.0,
    offset: Tensor | None = None,
    a: Tensor | None = None,
    both: bool = True,
) -> tuple[Tensor, ...]:
    """∂/∂x of OT_ε(x, y), and ∂/∂y if `both`; ε = `reg`, cost `square`·‖x−y‖² + `m`·‖x−y‖₁ + `offset`.

    x (n, d) has the weights a (n,) ≥ 0 (1/n unless given), y (M, d) the weights b (M,) ≥ 0; both are normalised here,
    and a row of weight 0 is not there. Where all of a or all of b is 0 there is nothing to move, and both gradients are
    0. `offset` (n, M) is what labels add to the cost. All may have one more axis in front: as many problems, each by
    itself.

    ε falls geometrically from the largest cost to `reg` level by level (ε-scaling) and stays there for the rest; at
    every level potentials are absorbed into the kernel and then scaled (Schmitzer 2019, "Stabilized sparse scaling
    algorithms for entropy regularized transport problems"). The last half-sweep is x's, so every row of the plan P sums
    to a_i exactly and the gradients, by the envelope theorem

        ∂x_i = Σ_j P_ij ∂₁c(x_i, y_j),        ∂y_j = Σ_i P_ij ∂₂c(x_i, y_j)

    stay bounded by those of the cost even where the sweeps were too few.
    """
    with torch.no_grad():
        x, y = x.detach().contiguous(), y.detach().contiguous()
        plan, l1, some = _solved(x, y, b, reg, m, sweeps, square, offset, a)
        first = _pulled(plan, x, y, square, m, l1)
        if not both:
            return (torch.where(some, first, torch.zeros_like(first)),)
        second = _pulled(plan.mT.contiguous(), y, x, square, m, l1.mT.contiguous())
        return tuple(torch.where(some, g, torch.zeros_like(g)) for g in (first, second))


def _solved(
    x: Tensor,
    y: Tensor,
    b: Tensor,
    reg: float,
    m: float,
    sweeps: int,
    square: float,
    offset: Tensor | None,
    a: Tensor | None,
) -> tuple[Tensor, Tensor, Tensor]:
    """(the plan, ‖x_i − y_j‖₁, whether there is anything to move)."""
    a = torch.ones(x.shape[:-1], dtype=x.dtype, device=x.device) if a is None else a
    (a, log_a, some_a), (b, log_b, some_b) = _shares(a), _shares(b)
    cost, l1 = _cost(x, y, square, m, offset)
    # the largest cost is that of pairs that are there
    cost = torch.where(_there(a, b), cost, torch.zeros_like(cost))
    return _plan(cost, (a, log_a), (b, log_b), reg, sweeps), l1, some_a & some_b


def _pulled(plan: Tensor, x: Tensor, y: Tensor, square: float, m: float, l1: Tensor) -> Tensor:
    """Σ_j P_ij ∂₁c(x_i, y_j)."""
    out = 2.0 * square * (x * plan.sum(-1, keepdim=True) - plan @ y)
    if not m:
        return out
    pulled: Tensor = torch.ops.aten._cdist_backward(plan, x, y, 1.0, l1)
    return out + m * pulled


def _there(a: Tensor, b: Tensor) -> Tensor:
    """Pairs of which both have a weight."""
    return (a[..., :, None] > 0) & (b[..., None, :] > 0)


def _plan(cost: Tensor, first: tuple[Tensor, Tensor], second: tuple[Tensor, Tensor], reg: float, sweeps: int) -> Tensor:
    """The plan after all sweeps; each side comes as (weights, their logarithms)."""
    (a, log_a), (b, log_b) = first, second
    levels = schedule(sweeps)
    if cost.is_cuda and cuda.available():
        from privot.transport.cuda import sinkhorn_unrolled as fused

        if fused.fits(cost):
            return fused.plan_of(cost, a, b, reg, _LEAST, levels)
    there = _there(a, b)
    f, g = torch.zeros_like(a), torch.zeros_like(b)
    top = cost.amax((-2, -1)).clamp(min=reg)[..., None]
    for share, inner in levels:
        eps = reg * (top / reg) ** share
        deep = eps[..., None]
        f = -eps * torch.logsumexp((g[..., None, :] - cost) / deep + log_b[..., None, :], -1)
        g = -eps * torch.logsumexp((f[..., :, None] - cost) / deep + log_a[..., :, None], -2)
        # columns of K·diag(b) are exact now, so that its scalings start near 1 and stay in the number type; what is
        # not there may lie anywhere, and ∞·0 would spoil the rest
        kernel = torch.where(there, ((f[..., :, None] + g[..., None, :] - cost) / deep).exp_(), 0.0)
        # the weights go into the kernel once
        rows, columns = kernel * b[..., None, :], (kernel * a[..., :, None]).mT.contiguous()
        v = torch.ones_like(g)
        for _ in range(inner):
            u = _product(rows, v).add_(_LEAST).reciprocal_()
            v = _product(columns, u).add_(_LEAST).reciprocal_()
        f, g = f + eps * u.log(), g + eps * v.log()
    f = -reg * torch.logsumexp((g[..., None, :] - cost) / reg + log_b[..., None, :], -1)
    logs = (f[..., :, None] + g[..., None, :] - cost) / reg + log_a[..., :, None] + log_b[..., None, :]
    return torch.where(there, logs.exp_(), 0.0)


def _product(matrix: Tensor, vector: Tensor) -> Tensor:
    return (matrix @ vector[..., None])[..., 0]


def _shares(weights: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """(weights with sum 1, their logarithms, whether there are any, as a matrix); equal ones where there are none."""
    total = weights.sum(-1, keepdim=True)
    some = total > 0
    # sums over nothing would be −∞ − −∞
    held = torch.where(some, weights / torch.where(some, total, torch.ones_like(total)), 1.0 / weights.shape[-1])
    return held, held.log(), some[..., None]


def _cost(x: Tensor, y: Tensor, square: float, m: float, offset: Tensor | None) -> tuple[Tensor, Tensor]:
    """(the whole cost, ‖x_i − y_j‖₁), (n, M) each; the second is nothing where nobody asked."""
    cost = x.new_zeros(*x.shape[:-1], y.shape[-2])
    if square:
        # centred: differences of large squares would lose what float32 has
        centre = x.mean(-2, keepdim=True)
        xc, yc = x - centre, y - centre
        cost = xc.square().sum(-1)[..., :, None] + yc.square().sum(-1)[..., None, :] - 2.0 * xc @ yc.mT
        cost = square * cost.clamp_(min=0.0)
    l1 = torch.cdist(x, y, p=1.0) if m else x.new_zeros(0, 0)
    if m:
        cost = cost + m * l1
    return cost if offset is None else cost + offset, l1
