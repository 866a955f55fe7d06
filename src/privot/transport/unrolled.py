"""Entropic transport in a fixed number of sweeps: the same operations in the same order whatever the points are.

For whoever may not let anything but the answer depend on the points: there is no tolerance, no test of convergence, no
branch, no wait for the device and no exception. It is as exact as its sweeps make it; `privot.transport.sinkhorn` is
the solver that converges or says so.
"""

from __future__ import annotations

import torch
from torch import Tensor

LEVELS = 10
LAST = 4
"""How often potentials are absorbed while ε falls, and after it has fallen."""
_LEAST = 1e-30
"""Below what a marginal may weigh: float32 ends at 1e-38."""


def schedule(sweeps: int) -> list[tuple[float, int]]:
    """(share of the way from `reg` up to the largest cost, in logarithms; sweeps there), level by level."""
    inner = max(1, round(sweeps / (LEVELS + LAST)))
    return [(1.0 - level / LEVELS, inner) for level in range(LEVELS)] + [(0.0, inner)] * LAST


def unrolled_gradients(
    x: Tensor,
    y: Tensor,
    b: Tensor,
    reg: float,
    m: float = 0.0,
    sweeps: int = 100,
    square: float = 1.0,
    offset: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """∂/∂x and ∂/∂y of OT_ε(x, y), ε = `reg`, cost `square`·‖x−y‖² + `m`·‖x−y‖₁ + `offset`, by the envelope theorem.

    x (n, d) has weights 1/n; y (M, d) the weights b (M,) ≥ 0, which are normalised here, so that a row of y with
    b_j = 0 is not there. Where all of b is 0 there is nothing to move to, and both gradients are 0. `offset` (n, M) is
    what labels add to the cost.

    ε falls geometrically from the largest cost to `reg` in `LEVELS` steps (ε-scaling) and stays there for the rest; at
    every level potentials are absorbed into the kernel and then scaled (Schmitzer 2019, "Stabilized sparse scaling
    algorithms for entropy regularized transport problems"). The last half-sweep is x's, so every row of the plan P sums
    to 1/n exactly and the gradients

        ∂x_i = Σ_j P_ij ∂₁c(x_i, y_j),        ∂y_j = Σ_i P_ij ∂₂c(x_i, y_j)

    stay bounded by those of the cost even where the sweeps were too few.
    """
    with torch.no_grad():
        x, y = x.detach(), y.detach()
        total = b.sum()
        log_b = (b / torch.where(total > 0, total, torch.ones_like(total))).log()
        n = len(x)
        cost, l1 = _cost(x, y, square, m, offset)
        present = b > 0
        # sums over nothing would be −∞ − −∞: without any y the costs are as good as zero
        cost = torch.where(present[None, :], cost, torch.zeros_like(cost))
        log_b = torch.where(present.any(), log_b, torch.zeros_like(log_b))
        a = torch.full((n,), 1.0 / n, dtype=x.dtype, device=x.device)
        log_a = a.log()
        weights = torch.where(present.any(), b / total, torch.ones_like(b))
        f, g = torch.zeros_like(a), torch.zeros_like(weights)
        top = cost.amax().clamp(min=reg)
        for share, inner in schedule(sweeps):
            eps = reg * (top / reg) ** share
            f = -eps * torch.logsumexp((g[None, :] - cost) / eps + log_b[None, :], 1)
            g = -eps * torch.logsumexp((f[:, None] - cost) / eps + log_a[:, None], 0)
            # columns of K·diag(b) are exact now, so that its scalings start near 1 and stay in the number type
            kernel = ((f[:, None] + g[None, :] - cost) / eps).exp_()
            v = torch.ones_like(g)
            for _ in range(inner):
                u = 1.0 / torch.mv(kernel, v * weights).clamp_(min=_LEAST)
                v = 1.0 / torch.mv(kernel.T, u * a).clamp_(min=_LEAST)
            f, g = f + eps * u.log(), g + eps * v.log()
        f = -reg * torch.logsumexp((g[None, :] - cost) / reg + log_b[None, :], 1)
        plan = ((f[:, None] + g[None, :] - cost) / reg + log_a[:, None] + log_b[None, :]).exp()
        gx = 2.0 * square * (x * plan.sum(1, keepdim=True) - plan @ y)
        gy = 2.0 * square * (y * plan.sum(0)[:, None] - plan.T @ x)
        if m:
            gx = gx + m * torch.ops.aten._cdist_backward(plan.contiguous(), x, y, 1.0, l1)
            back = plan.T.contiguous()
            gy = gy + m * torch.ops.aten._cdist_backward(back, y, x, 1.0, l1.T.contiguous())
        return (torch.where(total > 0, gx, torch.zeros_like(gx)), torch.where(total > 0, gy, torch.zeros_like(gy)))


def _cost(x: Tensor, y: Tensor, square: float, m: float, offset: Tensor | None) -> tuple[Tensor, Tensor]:
    """(the whole cost, ‖x_i − y_j‖₁), (n, M) each; the second is x.new_zeros(()) where nobody asked."""
    cost = x.new_zeros(len(x), len(y))
    if square:
        # centred: differences of large squares would lose what float32 has
        centre = x.mean(0, keepdim=True)
        xc, yc = x - centre, y - centre
        cost = xc.square().sum(1)[:, None] + yc.square().sum(1)[None, :] - 2.0 * xc @ yc.T
        cost = square * cost.clamp_(min=0.0)
    l1 = torch.cdist(x.contiguous(), y.contiguous(), p=1.0) if m else x.new_zeros(())
    if m:
        cost = cost + m * l1
    return cost if offset is None else cost + offset, l1
