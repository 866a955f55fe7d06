"""Entropic transport between two modest clouds on a CPU under ‖x−y‖²: one product, one exponential, plain sweeps.

In ‖x−y‖² only −2⟨x, y⟩ couples the sides, everything else is a potential. So the kernel is the exponential of
one matrix product, made a block of rows at a time while the block is in the cache, and the cost matrix is
never written down. Whatever does not suit it (wide ranges, slow convergence) is left to the general solver.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from privot.transport._solvers.costs import Cost, PointCost
from privot.transport._solvers.factored_plan import FactoredPlan, Solution
from privot.transport._solvers.results import stopped

MAX_ENTRIES = 1 << 24
BLOCK = 1 << 18
"""Entries of a block of rows: what a core's cache holds."""
SMALLEST_RANGE = 8.0
"""Below this many ε of cost, logarithms of scalings near 1 would lose the digits that ε multiplies."""
MAX_SWEEPS = 40
"""Beyond these the general solver's over-relaxation is worth its start."""
FAINTEST = {torch.float32: 1e-25, torch.float64: 1e-200}
"""A column lighter than this share of its mass may have lost entries to underflow."""
WIDEST = {torch.float32: 1e12, torch.float64: 1e100}
"""Scalings beyond which products may leave the number type."""


def solve_directly(cost: Cost, a: Tensor, b: Tensor, eps: float, tol: float, max_sweeps: int) -> Solution | int:
    """Potentials and plan with marginal error at most `tol`; where the general solver should try, the sweeps spent.

    K_ij = exp((2/ε)⟨x_i − c, y_j⟩ − r_i), c the mean of x (which balances the columns as far as means can), r_i
    the largest exponent of row i; P = diag(a u) K diag(w); u ← 1/(Kw), w ← b/Kᵀ(a u) (Sinkhorn).
    """
    B, n, m = cost.shape
    if B != 1 or a.device.type != "cpu" or n * m > MAX_ENTRIES or not isinstance(cost, PointCost):
        return 0
    if cost.square != 1.0 or cost.absolute or cost.bound() < SMALLEST_RANGE * eps or not bool((b > 0).all()):
        return 0
    x, y, a0, b0 = cost.x[0], cost.y[0], a[0], b[0]
    centre = x.mean(0) if cost.mean is None else cost.mean[0, 0]
    kernel = torch.mm((x - centre).mul_(2.0 / eps), y.T)
    # products are fastest whole, everything else in blocks that stay in the cache
    step = max(1, BLOCK // m) if n * m > 4 * BLOCK else n
    blocks = [(slice(i, min(n, i + step)), kernel[i : i + step]) for i in range(0, n, step)]
    top, u, w = torch.empty_like(a0), torch.empty_like(a0), b0
    columns = torch.zeros_like(b0)
    for rows, part in blocks:
        torch.amax(part, 1, out=top[rows])
        part.sub_(top[rows, None]).exp_()
        torch.reciprocal(torch.mv(part, w), out=u[rows])
        columns.addmv_(part.T, a0[rows] * u[rows])
    # NaN and overflow fail here too
    if not float((columns / b0).amin()) > FAINTEST[a.dtype]:
        return 0
    w = b0 / columns
    for sweeps in range(1, min(MAX_SWEEPS, max_sweeps) + 1):
        mass, fresh, columns = torch.empty_like(u), torch.empty_like(u), torch.zeros_like(b0)
        for rows, part in blocks:
            torch.mv(part, w, out=mass[rows])
            torch.reciprocal(mass[rows], out=fresh[rows])
            columns.addmv_(part.T, a0[rows] * fresh[rows])
        # of the plan before this sweep: its columns are exact, its rows sum to a·u·mass
        mass.mul_(u)
        error = float(torch.dot(a0, (mass - 1.0).abs_()))
        if error <= tol:
            break
        if sweeps == max_sweeps and math.isfinite(error):
            raise stopped(error, sweeps, tol)
        u, w = fresh, b0 / columns
    else:
        return sweeps
    v = w / b0
    limits = torch.stack((u.amax(), v.amax(), 1.0 / u.amin(), 1.0 / v.amin()))
    if not float(limits.amax()) < WIDEST[a.dtype]:
        return sweeps
    f = (u.log() - top).mul_(eps).add_(cost.norms[0][0])
    g = torch.mv(y, centre).mul_(-2.0).add_(v.log(), alpha=eps).add_(cost.norms[1][0])
    plan = FactoredPlan((a0 * u)[None], kernel[None], w[None], (a0 * mass)[None], b)
    return Solution(f[None], g[None], error, sweeps, plan)
