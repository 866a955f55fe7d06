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
MIN_RIDGE, RIDGES = 1e-14, 9
"""Of the largest diagonal entry: none, this, and each a hundred times the last, up to one that any step obeys."""
BISECTIONS = 3
"""Of the last factor of a hundred in a ridge: a ridge that is far too large makes a step that is far too short."""
HALVINGS = 6
RISE = 1e-4
"""The share of the rise that the slope promises which a step must bring (Armijo)."""


def worth_it(kernel: Kernel, sweeps: int, left: int) -> bool:
    """Whether a step is possible, and cheap beside the sweeps already spent (n³ against n² each)."""
    B, n, _ = kernel.cost.shape
    possible = kernel.held is not None and not kernel.symmetric and B * n * n <= LARGEST and left > 2
    return possible and sweeps >= max(40, n // 8)


def newton_step(kernel: Kernel, left: int) -> bool:
    """Move u along Newton's direction, in at most `left` sweeps; whether all problems came nearer to their solution.

    With columns exact the dual's Hessian eliminates to S = diag(P1) − P diag(1/b) Pᵀ, and S δ = a − P1 is the
    change of ln u (Brauer, Clason, Lorenz & Wirth 2017, "A Sinkhorn–Newton method for entropic optimal
    transport"). S is singular along constants, which change nothing; r rᵀ is added there. The dual is concave, so a
    step that is short enough raises it; the row error may rise for a while where parts have far to go.
    """
    before = kernel.move(kernel.u).max()
    u, v, plan = kernel.u, kernel.v, kernel.plan()
    if plan is None:
        return False
    off = kernel.a - plan.sum(2)
    step = _direction(plan.double(), kernel.a.double(), kernel.b.double())
    if step is None:
        return False
    step = step.to(u.dtype)
    slope = (off * step).sum(1)
    share = torch.ones_like(slope)
    good = torch.zeros_like(slope, dtype=torch.bool)
    for _ in range(min(HALVINGS, left - 2)):
        change = share[:, None] * step
        error = kernel.move(u * change.exp())
        # of the dual over ε, ⟨a, ln u⟩ + ⟨b, ln v⟩
        rise = (kernel.a * change).sum(1) + (kernel.b * (kernel.v / v).log()).sum(1)
        good = (error <= 0.9 * before) | (rise >= RISE * share * slope)
        if bool(good.all()):
            return True
        share = torch.where(good, share, share / 2.0)
    kernel.move(u * (torch.where(good, share, 0.0)[:, None] * step).exp())
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

    def solved(ridge: Tensor) -> tuple[Tensor, Tensor]:
        """(the step with that ridge, for which problems it is short enough); NaN is too long."""
        diagonal.copy_(bare + (ridge * largest)[:, None])
        factor, info = torch.linalg.cholesky_ex(system)
        step = torch.cholesky_solve(off, factor)[:, :, 0]
        return step, (info == 0) & (step.abs().amax(1) <= LONGEST)

    ridge = torch.zeros_like(largest)
    low, (step, fits) = ridge, solved(ridge)
    for _ in range(RIDGES):
        if bool(fits.all()):
            break
        low = torch.where(fits, low, ridge)
        ridge = torch.where(fits, ridge, (100.0 * ridge).clamp(min=MIN_RIDGE))
        step, fits = solved(ridge)
    if not bool(fits.all()):
        return None
    for _ in range(BISECTIONS if bool((low > 0).any()) else 0):
        between = (low * ridge).sqrt()
        longer, fits = solved(between)
        step = torch.where(fits[:, None], longer, step)
        low, ridge = torch.where(fits, low, between), torch.where(fits, between, ridge)
    return step
