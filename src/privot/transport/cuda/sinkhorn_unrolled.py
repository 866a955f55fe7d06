"""Whole unrolled Sinkhorn solves of small clouds in one launch: at training sizes launches are what takes the time.

A cost matrix stays in one multiprocessor's registers, so a sweep is two reductions and no trip to memory. The same
operations run in the same order whatever the numbers are, as in
`privot.transport._solvers.unrolled`, which it stands in for.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from privot.errors import UsageError

MAX_POINTS = 128
"""Points a side: 128 × 128 numbers are what the registers hold."""


@triton.jit
def _softmin(t, axis: tl.constexpr):
    """−log Σ exp(t) along an axis."""
    top = tl.max(t, axis)
    return -(top + tl.log(tl.sum(tl.exp(t - tl.expand_dims(top, axis)), axis)))


@triton.jit
def _solve(
    cost, a, b, plan, n, m, reg, least, falling, levels, inner, rows: tl.constexpr, columns: tl.constexpr
):  # fmt: skip
    """The plan (n, m) of `cost` between weights a (n,) and b (m,), each of sum 1; beyond them nothing is there.

    One program a problem; they lie one after another in memory.
    """
    which = tl.program_id(0).to(tl.int64)
    cost, plan, a, b = cost + which * n * m, plan + which * n * m, a + which * n, b + which * m
    i, j = tl.arange(0, rows), tl.arange(0, columns)
    at, inside = i[:, None] * m + j[None, :], (i[:, None] < n) & (j[None, :] < m)
    c = tl.load(cost + at, mask=inside, other=0.0)
    p, q = tl.load(a + i, mask=i < n, other=0.0), tl.load(b + j, mask=j < m, other=0.0)
    there = (p[:, None] > 0.0) & (q[None, :] > 0.0)
    nothing = float("-inf")
    log_p, log_q = tl.where(p > 0.0, tl.log(p), nothing), tl.where(q > 0.0, tl.log(q), nothing)
    top = tl.maximum(tl.max(tl.max(c, 1), 0), reg)
    span = tl.log(top / reg)
    f, g = tl.zeros((rows,), tl.float32), tl.zeros((columns,), tl.float32)
    for level in range(levels):
        share = tl.maximum(1.0 - level / falling, 0.0)
        eps = reg * tl.exp(share * span)
        f = eps * _softmin((g[None, :] - c) / eps + log_q[None, :], 1)
        g = eps * _softmin((f[:, None] - c) / eps + log_p[:, None], 0)
        kernel = tl.where(there, tl.exp((f[:, None] + g[None, :] - c) / eps), 0.0)
        u, v = tl.full((rows,), 1.0, tl.float32), tl.full((columns,), 1.0, tl.float32)
        for _ in range(inner):
            u = 1.0 / (least + tl.sum(kernel * (q * v)[None, :], 1))
            v = 1.0 / (least + tl.sum(kernel * (p * u)[:, None], 0))
        f, g = f + eps * tl.log(u), g + eps * tl.log(v)
    f = reg * _softmin((g[None, :] - c) / reg + log_q[None, :], 1)
    found = tl.exp((f[:, None] + g[None, :] - c) / reg + log_p[:, None] + log_q[None, :])
    tl.store(plan + at, tl.where(there, found, 0.0), mask=inside)


def fits(cost: torch.Tensor) -> bool:
    """Whether one multiprocessor holds it; a public question, of shape and type alone."""
    return cost.dtype == torch.float32 and max(cost.shape[-2:]) <= MAX_POINTS


def plan_of(
    cost: torch.Tensor, a: torch.Tensor, b: torch.Tensor, reg: float, least: float, levels: list[tuple[float, int]]
) -> torch.Tensor:
    """The plan after the sweeps of `levels` (made by `schedule`), of one problem or several."""
    n, m = cost.shape[-2:]
    if a.shape != cost.shape[:-1] or b.shape != (*cost.shape[:-2], m):
        # the kernel would read what lies beside them
        raise UsageError("Weights must have the shape of the rows and of the columns of the cost.")
    plan = torch.empty_like(cost, memory_format=torch.contiguous_format)
    falling = sum(share > 0.0 for share, _ in levels)
    sizes = [max(16, triton.next_power_of_2(k)) for k in (n, m)]
    # Triton launches on the current device
    with torch.cuda.device(cost.device):
        _solve[(cost.numel() // (n * m),)](
            cost.contiguous(), a.contiguous(), b.contiguous(), plan, n, m, reg, least, float(falling), len(levels),
            levels[0][1], rows=sizes[0], columns=sizes[1], num_warps=16 if sizes[0] * sizes[1] > 8192 else 8,
        )  # fmt: skip
    return plan
