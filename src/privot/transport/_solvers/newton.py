"""Newton's step for entropic transport: what rescues clouds whose parts hardly exchange mass.

Sinkhorn's rate is 1 − (mass exchanged between the parts): nearly separate clusters, or a cloud against itself,
take for ever, while Newton's method sees the small eigenvalue and jumps.
"""

from __future__ import annotations

import torch
from torch import Tensor

from privot.transport._solvers.stabilised_kernel import Kernel

LARGEST = 1 << 24
"""Entries B·n² up to which the n × n systems are solved."""
LONGEST = 4.0
"""Largest change of ln u in one step; the quadratic model holds no further."""
MIN_RIDGE, RIDGES = 1e-14, 8
"""Of the largest diagonal entry: none, this, and each a hundred times the last."""
HALVINGS = 6


def worth_it(kernel: Kernel, sweeps: int) -> bool:
    """Whether a step is possible, and cheap beside the sweeps already spent (n³ against n² each)."""
    B, n, _ = kernel.cost.shape
    possible = kernel.held is not None and not kernel.symmetric and B * n * n <= LARGEST
    return possible and sweeps >= max(40, n // 8)


def newton_step(kernel: Kernel) -> bool:
    """Move u along Newton's direction as far as the row error falls; False, and nothing moved, if it does not.

    With columns exact the dual's Hessian eliminates to S = diag(P1) − P diag(1/b) Pᵀ, and S δ = a − P1 is the
    change of ln u (Brauer, Clason, Lorenz & Wirth 2017, "A Sinkhorn–Newton method for entropic optimal
    transport"). S is singular along constants, which change nothing; r rᵀ is added there.
    """
    before = kernel.move(kernel.u)
    u, v, plan = kernel.u, kernel.v, kernel.plan()
    if plan is None:
        return False
    step = _direction(plan.double(), kernel.a.double(), kernel.b.double())
    if step is None:
        return False
    step = step.to(u.dtype)
    for _ in range(HALVINGS):
        error = kernel.move(u * step.exp())
        if bool((error <= 0.9 * before.max()).all()):
            return True
        step = step / 2.0
    kernel.u, kernel.v = u, v
    return False


def _direction(plan: Tensor, a: Tensor, b: Tensor) -> Tensor | None:
    """(S + ridge)⁻¹ (a − P1), at most LONGEST; for each problem the smallest ridge with which that is so.

    Parts that exchange no more than rounding make S singular to the last digit, and those that exchange little ask for
    a long step. A ridge holds back such parts alone; a shorter step would hold back all of them.
    """
    rows = plan.sum(2)
    share = plan / torch.where(b > 0, b, torch.ones_like(b))[:, None, :]
    system = -torch.bmm(share, plan.transpose(1, 2))
    # A point of zero weight has a zero row: 1 on its diagonal leaves it where it is.
    system.diagonal(dim1=1, dim2=2).add_(rows + (a == 0))
    system.add_(rows[:, :, None] * rows[:, None, :])
    diagonal = system.diagonal(dim1=1, dim2=2)
    bare, largest, off = diagonal.clone(), diagonal.amax(1), (a - rows)[:, :, None]
    ridge = torch.zeros_like(largest)
    for _ in range(RIDGES):
        diagonal.copy_(bare + (ridge * largest)[:, None])
        factor, info = torch.linalg.cholesky_ex(system)
        step = torch.cholesky_solve(off, factor)[:, :, 0]
        # written so that NaN is too long
        fits = (info == 0) & (step.abs().amax(1) <= LONGEST)
        if bool(fits.all()):
            return step
        ridge = torch.where(fits, ridge, (100.0 * ridge).clamp(min=MIN_RIDGE))
    return None
