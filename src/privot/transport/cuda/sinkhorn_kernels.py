"""The CUDA kernels of Sinkhorn's algorithm and how each is launched; who calls them in which order is not told here."""

from __future__ import annotations

import torch
import triton
import triton.language as tl


@triton.jit
def _cost(
    x,
    y,
    origin_at,
    cost,
    across,
    norm_x,
    norm_y,
    top,
    n,
    m,
    d,
    l1,
    absolute: tl.constexpr,
    tile: tl.constexpr,
    chunk: tl.constexpr,
):
    """A tile of −2⟨x, y⟩ + l1·‖x−y‖₁ both ways round, ‖x‖², ‖y‖², and the largest whole cost, for one problem.

    Points are taken relative to `origin_at`, the mean of y. What is left of ‖x−y‖² without its two norms is many times
    smaller where there are many dimensions, and so is what float32 rounds away of it and of its potentials.
    """
    problem = tl.program_id(2).to(tl.int64)
    row = tl.program_id(0) * tile + tl.arange(0, tile)
    column = tl.program_id(1) * tile + tl.arange(0, tile)
    product = tl.zeros((tile, tile), dtype=tl.float32)
    size_x = tl.zeros((tile,), dtype=tl.float32)
    size_y = tl.zeros((tile,), dtype=tl.float32)
    for start in range(0, d, chunk):
        at = start + tl.arange(0, chunk)
        origin = tl.load(origin_at + problem * d + at, mask=at < d, other=0.0)
        here = (row[:, None] < n) & (at[None, :] < d)
        there = (column[:, None] < m) & (at[None, :] < d)
        left = tl.load(x + (problem * n + row[:, None]) * d + at[None, :], mask=here, other=0.0)
        right = tl.load(y + (problem * m + column[:, None]) * d + at[None, :], mask=there, other=0.0)
        left = tl.where(here, left - origin[None, :], 0.0)
        right = tl.where(there, right - origin[None, :], 0.0)
        product = tl.dot(left, tl.trans(right), product, input_precision="tf32x3")
        size_x += tl.sum(left * left, axis=1)
        size_y += tl.sum(right * right, axis=1)
    c = -2.0 * product
    inside = (row[:, None] < n) & (column[None, :] < m)
    if absolute:
        for k in range(0, d):
            left = tl.load(x + (problem * n + row) * d + k, mask=row < n, other=0.0)
            right = tl.load(y + (problem * m + column) * d + k, mask=column < m, other=0.0)
            c += l1 * tl.abs(left[:, None] - right[None, :])
    tl.store(cost + (problem * n + row[:, None]) * m + column[None, :], c, mask=inside)
    tl.store(across + (problem * m + column[None, :]) * n + row[:, None], c, mask=inside)
    if tl.program_id(1) == 0:
        tl.store(norm_x + problem * n + row, size_x, mask=row < n)
    if tl.program_id(0) == 0:
        tl.store(norm_y + problem * m + column, size_y, mask=column < m)
    # costs are not negative, so their bits are in their order
    whole = tl.maximum(c + size_x[:, None] + size_y[None, :], 0.0)
    largest = tl.max(tl.max(tl.where(inside, whole, 0.0), axis=1), axis=0)
    tl.atomic_max(top, largest.to(tl.int32, bitcast=True))


@triton.jit
def _half_step(
    cost,
    row_norm,
    column_norm,
    other,
    log_weight,
    reg_at,
    top_at,
    warmth,
    out,
    target,
    error,
    skip,
    relax_at,
    columns,
    norms: tl.constexpr,
    anneal: tl.constexpr,
    check: tl.constexpr,
    guarded: tl.constexpr,
    relaxed: tl.constexpr,
    width: tl.constexpr,
):
    """out_i = −reg·ln Σ_j exp((other_j − C_ij)/reg + ln b_j), one program a row of a problem.

    With `norms`, `cost` holds the products x·y and C = ‖x‖² + ‖y‖² − 2·x·y. With `anneal`, reg is raised to
    reg·(top/reg)^warmth. With `check`, the row's marginal error |exp((out_old − out_new)/reg) − 1|·a_i is added to its
    problem's, before `out` is replaced. With `guarded`, nothing happens where `skip` holds a number above 0.
    With `relaxed`, out becomes old + ω(new − old), ω read from `relax_at`.
    """
    if guarded:  # noqa: SIM102 (known when compiled: without it nothing is loaded)
        if tl.load(skip) > 0.0:
            return
    problem = tl.program_id(1).to(tl.int64)
    at = problem * tl.num_programs(0) + tl.program_id(0)
    reg = tl.load(reg_at)
    if anneal:
        reg = reg * tl.exp2(warmth * tl.log2(tl.maximum(tl.load(top_at) / reg, 1.0)))
    scale = 1.4426950408889634 / reg
    peak = -float("inf")
    total = 0.0
    own = tl.load(row_norm + at) if norms else 0.0
    for start in range(0, columns, width):
        column = start + tl.arange(0, width)
        inside = column < columns
        c = tl.load(cost + at * columns + column, mask=inside, other=0.0)
        if norms:
            norm = tl.load(column_norm + problem * columns + column, mask=inside, other=0.0)
            c = tl.maximum(own + norm - 2.0 * c, 0.0)
        g = tl.load(other + problem * columns + column, mask=inside, other=0.0)
        w = tl.load(log_weight + problem * columns + column, mask=inside, other=-float("inf"))
        z = (g - c) * scale + w * 1.4426950408889634
        top = tl.maximum(peak, tl.max(z, axis=0))
        # a whole tile of zero weights leaves both at −∞, whose difference is no number
        kept = tl.where(peak == -float("inf"), 0.0, total * tl.exp2(peak - top))
        total = kept + tl.sum(tl.where(z == -float("inf"), 0.0, tl.exp2(z - top)), axis=0)
        peak = top
    fresh = -(peak + tl.log2(total)) / scale
    if check:
        old = tl.load(out + at)
        tl.atomic_add(error + problem, tl.abs(tl.exp2((old - fresh) * scale) - 1.0) * tl.exp(tl.load(target + at)))
    if relaxed:
        before = tl.load(out + at)
        fresh = before + tl.load(relax_at) * (fresh - before)
    tl.store(out + at, fresh)


@triton.jit
def _plan(
    cost,
    row_norm,
    column_norm,
    f,
    g,
    log_a,
    log_b,
    reg_at,
    plan,
    row_sum,
    columns,
    norms: tl.constexpr,
    width: tl.constexpr,
):
    """P_ij = exp((f_i + g_j − C_ij)/reg)·a_i·b_j and its row sums, one program a row of a problem."""
    problem = tl.program_id(1).to(tl.int64)
    at = problem * tl.num_programs(0) + tl.program_id(0)
    reg = tl.load(reg_at)
    base = tl.load(f + at) / reg + tl.load(log_a + at)
    own = tl.load(row_norm + at) if norms else 0.0
    total = 0.0
    for start in range(0, columns, width):
        column = start + tl.arange(0, width)
        inside = column < columns
        c = tl.load(cost + at * columns + column, mask=inside, other=0.0)
        if norms:
            norm = tl.load(column_norm + problem * columns + column, mask=inside, other=0.0)
            c = tl.maximum(own + norm - 2.0 * c, 0.0)
        z = (tl.load(g + problem * columns + column, mask=inside, other=0.0) - c) / reg + base
        z += tl.load(log_b + problem * columns + column, mask=inside, other=-float("inf"))
        p = tl.exp(z)
        total += tl.sum(p, axis=0)
        tl.store(plan + at * columns + column, p, mask=inside)
    tl.store(row_sum + at, total)


@triton.jit
def _combine(x, row_sum, pulled, out, wide, d, width: tl.constexpr):
    """out_i = 2(x_i·Σ_j P_ij − pulled_i), one program a row; rows of `out` are d long, the others `wide`."""
    at = tl.program_id(0).to(tl.int64)
    mass = tl.load(row_sum + at)
    for start in range(0, d, width):
        k = start + tl.arange(0, width)
        old = tl.load(pulled + at * wide + k, mask=k < d, other=0.0)
        own = tl.load(x + at * wide + k, mask=k < d, other=0.0)
        tl.store(out + at * d + k, 2.0 * (own * mass - old), mask=k < d)


@triton.jit
def _mean_cost(cost, log_weight, out, columns, width: tl.constexpr):
    """out_i = Σ_j b_j C_ij, one program a row of a problem."""
    problem = tl.program_id(1).to(tl.int64)
    at = problem * tl.num_programs(0) + tl.program_id(0)
    total = tl.zeros((width,), dtype=tl.float32)
    for start in range(0, columns, width):
        column = start + tl.arange(0, width)
        inside = column < columns
        c = tl.load(cost + at * columns + column, mask=inside, other=0.0)
        w = tl.load(log_weight + problem * columns + column, mask=inside, other=-float("inf"))
        total += c * tl.exp(w)
    tl.store(out + at, tl.sum(total, axis=0))


@triton.jit
def _judge(errors, report, skip, omega, tol_at, batch, far, iterations, first: tl.constexpr, width: tl.constexpr):
    """What a round reached: iterations into report[2], the worst error into report[3]; whether to skip the next, and ω.

    Rounds are skipped once the error is at most the tolerance, and after a `first` round that ended `far` away. ω
    starts at 1.3 and then follows from the rate μ of a round: near the solution Sinkhorn is block Gauss–Seidel with a
    rate λ, relaxed by ω its rate satisfies (μ + ω − 1)² = μ ω² λ, and 2/(1 + √(1 − λ)) is best (Young 1971, "Iterative
    Solution of Large Linear Systems", chapter 6). Where a round does not halve the error, steps are plain.
    """
    if not first:  # noqa: SIM102 (known when compiled)
        if tl.load(skip) > 0.0:
            return
    at = tl.arange(0, width)
    each = tl.load(errors + at, mask=at < batch, other=0.0)
    total = tl.sum(each, axis=0)
    # a maximum may pass NaN over, a sum does not
    worst = tl.where(total == total, tl.max(each, axis=0), total)
    tl.store(errors + at, tl.zeros((width,), dtype=tl.float32), mask=at < batch)
    stop = worst <= tl.load(tol_at)
    if first:
        tl.store(omega, 1.3)
        tl.store(report + 2, iterations)
        stop = stop | (worst > far) | (total != total)
    else:
        old = tl.load(omega)
        ratio = worst / tl.load(report + 3)
        rate = tl.exp2(tl.log2(tl.maximum(ratio, 1e-30)) / iterations)
        lam = (rate + old - 1.0) * (rate + old - 1.0) / (rate * old * old)
        best = 2.0 / (1.0 + tl.sqrt(1.0 - tl.minimum(lam, 0.99)))
        fresh = tl.where(rate > old - 1.0, best, old)
        tl.store(omega, tl.where(ratio < 0.5, fresh, 1.0))
        tl.store(report + 2, tl.load(report + 2) + iterations)
    tl.store(report + 3, worst)
    tl.store(skip, tl.where(stop, 1.0, 0.0))


@triton.jit
def _dual(f, g, log_a, log_b, norm_x, norm_y, out_f, out_g, value, n, m, width: tl.constexpr):
    """Potentials of the whole cost, f + ‖x‖² and g + ‖y‖², and Σ a f + Σ b g of them in float64.

    Points without mass count nothing.
    """
    problem = tl.program_id(0).to(tl.int64)
    total = tl.zeros((width,), dtype=tl.float64)
    for start in range(0, n, width):
        i = start + tl.arange(0, width)
        weight = tl.exp(tl.load(log_a + problem * n + i, mask=i < n, other=-float("inf"))).to(tl.float64)
        potential = tl.load(f + problem * n + i, mask=i < n, other=0.0).to(tl.float64)
        potential += tl.load(norm_x + problem * n + i, mask=i < n, other=0.0).to(tl.float64)
        tl.store(out_f + problem * n + i, potential.to(tl.float32), mask=i < n)
        total += tl.where(weight > 0.0, weight * potential, 0.0)
    for start in range(0, m, width):
        i = start + tl.arange(0, width)
        weight = tl.exp(tl.load(log_b + problem * m + i, mask=i < m, other=-float("inf"))).to(tl.float64)
        potential = tl.load(g + problem * m + i, mask=i < m, other=0.0).to(tl.float64)
        potential += tl.load(norm_y + problem * m + i, mask=i < m, other=0.0).to(tl.float64)
        tl.store(out_g + problem * m + i, potential.to(tl.float32), mask=i < m)
        total += tl.where(weight > 0.0, weight * potential, 0.0)
    tl.store(value + problem, tl.sum(total, axis=0))


@triton.jit
def _l1_pull(plan, x, y, out, columns, wide, d, weight, width: tl.constexpr):
    """out_i += weight·Σ_j P_ij·sign(x_i − y_j), one program a row and a piece of the coordinates."""
    problem = tl.program_id(2).to(tl.int64)
    at = problem * tl.num_programs(0) + tl.program_id(0)
    coordinate = tl.program_id(1) * width + tl.arange(0, width)
    inside = coordinate < d
    own = tl.load(x + at * wide + coordinate, mask=inside, other=0.0)
    total = tl.zeros((width,), dtype=tl.float32)
    for j in range(0, columns):
        there = tl.load(y + (problem * columns + j) * wide + coordinate, mask=inside, other=0.0)
        sign = tl.where(own > there, 1.0, tl.where(own < there, -1.0, 0.0))
        total += tl.load(plan + at * columns + j) * sign
    here = out + at * d + coordinate
    tl.store(here, tl.load(here, mask=inside, other=0.0) + weight * total, mask=inside)


def _shape_of(columns: int) -> tuple[int, int]:
    """Tile width and warps for rows of `columns` numbers."""
    width = min(2048, max(64, triton.next_power_of_2(columns)))
    return width, max(1, min(8, width // 256))


def half_step(
    cost: torch.Tensor,
    other: torch.Tensor,
    log_weight: torch.Tensor,
    reg: torch.Tensor,
    out: torch.Tensor,
    *,
    norms: tuple[torch.Tensor, torch.Tensor] | None = None,
    anneal: tuple[torch.Tensor, float] | None = None,
    check: tuple[torch.Tensor, torch.Tensor] | None = None,
    skip: torch.Tensor | None = None,
    relax: torch.Tensor | None = None,
) -> None:
    """One half-step over the rows of `cost` (batch, n, m) into `out` (batch, n).

    `norms` = (row, column) squared norms where `cost` holds products; `anneal` = (largest cost, warmth); `check` =
    (ln a, errors (batch,) to add to); `skip` (1,) turns the step into nothing where it is above 0, without the host;
    `relax` (1,) is the over-relaxation ω.
    """
    batch, rows, columns = cost.shape
    width, warps = _shape_of(columns)
    row_norm, column_norm = norms or (out, out)
    target, error = check or (out, out)
    top, warmth = anneal or (reg, 0.0)
    _half_step[(rows, batch)](
        cost,
        row_norm,
        column_norm,
        other,
        log_weight,
        reg,
        top,
        warmth,
        out,
        target,
        error,
        out if skip is None else skip,
        out if relax is None else relax,
        columns,
        norms=norms is not None,
        anneal=anneal is not None,
        check=check is not None,
        guarded=skip is not None,
        relaxed=relax is not None,
        width=width,
        num_warps=warps,
    )


def plan_rows(
    cost: torch.Tensor,
    f: torch.Tensor,
    g: torch.Tensor,
    log_a: torch.Tensor,
    log_b: torch.Tensor,
    reg: torch.Tensor,
    plan: torch.Tensor,
    row_sum: torch.Tensor,
    norms: tuple[torch.Tensor, torch.Tensor] | None = None,
) -> None:
    """The plan (batch, n, m) of given potentials, and its row sums (batch, n)."""
    batch, rows, columns = cost.shape
    width, warps = _shape_of(columns)
    row_norm, column_norm = norms or (f, f)
    _plan[(rows, batch)](
        cost,
        row_norm,
        column_norm,
        f,
        g,
        log_a,
        log_b,
        reg,
        plan,
        row_sum,
        columns,
        norms=norms is not None,
        width=width,
        num_warps=warps,
    )


def cost_both_ways(
    x: torch.Tensor,
    y: torch.Tensor,
    origin: torch.Tensor,
    cost: torch.Tensor,
    across: torch.Tensor,
    norms: tuple[torch.Tensor, torch.Tensor],
    top: torch.Tensor,
    l1: float,
) -> None:
    """‖x−y‖² + l1·‖x−y‖₁ of points (batch, n, d) and (batch, m, d), less the two norms, into `cost` and its transpose.

    The squared norms relative to `origin` (batch, d) go into `norms`, the largest whole cost into `top`.
    """
    batch, n, d = x.shape
    m = y.shape[1]
    grid = (triton.cdiv(n, 64), triton.cdiv(m, 64), batch)
    bits = top.view(torch.int32)
    _cost[grid](x, y, origin, cost, across, *norms, bits, n, m, d, l1, absolute=l1 != 0.0, tile=64, chunk=32)


def mean_cost(cost: torch.Tensor, log_weight: torch.Tensor, out: torch.Tensor) -> None:
    """Σ_j b_j C_ij of each row of `cost` (batch, n, m) into `out` (batch, n)."""
    batch, rows, columns = cost.shape
    width, warps = _shape_of(columns)
    _mean_cost[(rows, batch)](cost, log_weight, out, columns, width=width, num_warps=warps)


def pull_back(
    plan: torch.Tensor,
    row_sum: torch.Tensor,
    x: torch.Tensor,
    y: torch.Tensor,
    room: torch.Tensor,
    out: torch.Tensor,
    l1: float,
) -> None:
    """∂Σ P_ij C_ij/∂x_i = 2(x_i·Σ_j P_ij − Σ_j P_ij y_j) + l1·Σ_j P_ij sign(x_i − y_j) into `out` (batch, n, d).

    Points and `room` have rows padded beyond d.
    """
    batch, n, wide = x.shape
    m, d = y.shape[1], out.shape[2]
    torch.bmm(plan, y, out=room)
    _combine[(batch * n,)](x, row_sum, room, out, wide, d, width=1024)
    if l1:
        _l1_pull[(n, triton.cdiv(d, 256), batch)](plan.contiguous(), x, y, out, m, wide, d, l1, width=256)


def dual_value(
    f: torch.Tensor,
    g: torch.Tensor,
    log_a: torch.Tensor,
    log_b: torch.Tensor,
    norms: tuple[torch.Tensor, torch.Tensor],
    whole: tuple[torch.Tensor, torch.Tensor],
    value: torch.Tensor,
) -> None:
    """The potentials with their norms added into `whole`, and Σ a f + Σ b g of those into `value` (batch,)."""
    _dual[(len(f),)](f, g, log_a, log_b, *norms, *whole, value, f.shape[1], g.shape[1], width=1024)


def judge(
    errors: torch.Tensor,
    report: torch.Tensor,
    skip: torch.Tensor,
    omega: torch.Tensor,
    tol: torch.Tensor,
    far: float,
    iterations: int,
    first: bool,
) -> None:
    """Take in what `iterations` reached: errors (batch,) into `report`, and say whether the next are skipped, and ω."""
    batch = len(errors)
    width = triton.next_power_of_2(batch)
    _judge[(1,)](errors, report, skip, omega, tol, batch, far, float(iterations), first=first, width=width)
