"""Sinkhorn on CUDA: half-steps as single kernels, whole solves at training sizes as graph replays, large ones streamed.

At training sizes a half-step takes microseconds and launching it from Python tens of them, so a solve is recorded once
for each shape as CUDA graphs over fixed buffers and replayed (`GraphSolver`). Cost matrices are kept with their
transpose, so that both half-steps read along rows. `StreamSolver` keeps no n×m matrix beyond a limit: blocks of rows
are multiplied and reduced in turn.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from dataclasses import dataclass

import torch
import triton
import triton.language as tl

from privot.transport.kernels.product import multiply

ANNEALING = 4
FIRST = 3
MORE = 8
GRAPH_POINTS = 2048
GRAPH_ENTRIES = 1 << 24
"""Problems of up to this many points a side, and entries in all, are recorded as graphs."""
_GRAPHS = 16
_STALLED = 0.999
"""An error that does not fall even by this much in a round of iterations has met float32's rounding."""
_STREAM = 1 << 27
"""Entries of the block of products that a streamed half-step holds."""


@triton.jit
def _cost(
    x,
    y,
    cost,
    across,
    top,
    n,
    m,
    d,
    l1,
    absolute: tl.constexpr,
    tile: tl.constexpr,
    chunk: tl.constexpr,
):
    """A tile of ‖x−y‖² + l1·‖x−y‖₁ both ways round, and the largest entry, for one problem.

    Points are taken relative to y₀, so that in ‖x‖² + ‖y‖² − 2⟨x, y⟩ little cancels in float32.
    """
    problem = tl.program_id(2).to(tl.int64)
    row = tl.program_id(0) * tile + tl.arange(0, tile)
    column = tl.program_id(1) * tile + tl.arange(0, tile)
    product = tl.zeros((tile, tile), dtype=tl.float32)
    size_x = tl.zeros((tile,), dtype=tl.float32)
    size_y = tl.zeros((tile,), dtype=tl.float32)
    for start in range(0, d, chunk):
        at = start + tl.arange(0, chunk)
        origin = tl.load(y + problem * m * d + at, mask=at < d, other=0.0)
        here = (row[:, None] < n) & (at[None, :] < d)
        there = (column[:, None] < m) & (at[None, :] < d)
        left = tl.load(x + (problem * n + row[:, None]) * d + at[None, :], mask=here, other=0.0)
        right = tl.load(y + (problem * m + column[:, None]) * d + at[None, :], mask=there, other=0.0)
        left = tl.where(here, left - origin[None, :], 0.0)
        right = tl.where(there, right - origin[None, :], 0.0)
        product = tl.dot(left, tl.trans(right), product, input_precision="tf32x3")
        size_x += tl.sum(left * left, axis=1)
        size_y += tl.sum(right * right, axis=1)
    c = tl.maximum(size_x[:, None] + size_y[None, :] - 2.0 * product, 0.0)
    inside = (row[:, None] < n) & (column[None, :] < m)
    if absolute:
        for k in range(0, d):
            left = tl.load(x + (problem * n + row) * d + k, mask=row < n, other=0.0)
            right = tl.load(y + (problem * m + column) * d + k, mask=column < m, other=0.0)
            c += l1 * tl.abs(left[:, None] - right[None, :])
    tl.store(cost + (problem * n + row[:, None]) * m + column[None, :], c, mask=inside)
    tl.store(across + (problem * m + column[None, :]) * n + row[:, None], c, mask=inside)
    # costs are not negative, so their bits are in their order
    largest = tl.max(tl.max(tl.where(inside, c, 0.0), axis=1), axis=0)
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
    columns,
    norms: tl.constexpr,
    anneal: tl.constexpr,
    check: tl.constexpr,
    width: tl.constexpr,
):
    """out_i = −reg·ln Σ_j exp((other_j − C_ij)/reg + ln b_j), one program a row of a problem.

    With `norms`, `cost` holds the products x·y and C = ‖x‖² + ‖y‖² − 2·x·y. With `anneal`, reg is raised to
    reg·(top/reg)^warmth. With `check`, the row's marginal error |exp((out_old − out_new)/reg) − 1|·a_i is added to its
    problem's, before `out` is replaced.
    """
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
def _combine(x, row_sum, pulled, d, width: tl.constexpr):
    """pulled_i ← 2(x_i·Σ_j P_ij − pulled_i), one program a row of a problem."""
    at = tl.program_id(0).to(tl.int64)
    mass = tl.load(row_sum + at)
    for start in range(0, d, width):
        k = start + tl.arange(0, width)
        here = at * d + k
        old = tl.load(pulled + here, mask=k < d, other=0.0)
        tl.store(pulled + here, 2.0 * (tl.load(x + here, mask=k < d, other=0.0) * mass - old), mask=k < d)


@triton.jit
def _dual(f, g, log_a, log_b, value, n, m, width: tl.constexpr):
    """Σ a f + Σ b g of a problem in float64; points without mass count nothing."""
    problem = tl.program_id(0).to(tl.int64)
    total = tl.zeros((width,), dtype=tl.float64)
    for start in range(0, n, width):
        i = start + tl.arange(0, width)
        weight = tl.exp(tl.load(log_a + problem * n + i, mask=i < n, other=-float("inf"))).to(tl.float64)
        potential = tl.load(f + problem * n + i, mask=i < n, other=0.0).to(tl.float64)
        total += tl.where(weight > 0.0, weight * potential, 0.0)
    for start in range(0, m, width):
        i = start + tl.arange(0, width)
        weight = tl.exp(tl.load(log_b + problem * m + i, mask=i < m, other=-float("inf"))).to(tl.float64)
        potential = tl.load(g + problem * m + i, mask=i < m, other=0.0).to(tl.float64)
        total += tl.where(weight > 0.0, weight * potential, 0.0)
    tl.store(value + problem, tl.sum(total, axis=0))


@triton.jit
def _l1_pull(plan, x, y, out, columns, d, weight, width: tl.constexpr):
    """out_i += weight·Σ_j P_ij·sign(x_i − y_j), one program a row and a piece of the coordinates."""
    problem = tl.program_id(2).to(tl.int64)
    at = problem * tl.num_programs(0) + tl.program_id(0)
    coordinate = tl.program_id(1) * width + tl.arange(0, width)
    inside = coordinate < d
    own = tl.load(x + at * d + coordinate, mask=inside, other=0.0)
    total = tl.zeros((width,), dtype=tl.float32)
    for j in range(0, columns):
        there = tl.load(y + (problem * columns + j) * d + coordinate, mask=inside, other=0.0)
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
) -> None:
    """One half-step over the rows of `cost` (batch, n, m) into `out` (batch, n).

    `norms` = (row, column) squared norms where `cost` holds products; `anneal` = (largest cost, warmth); `check` =
    (ln a, errors (batch,) to add to).
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
        columns,
        norms=norms is not None,
        anneal=anneal is not None,
        check=check is not None,
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


class GraphSolver:
    """`batch` problems of n against m points in d dimensions, cost ‖x−y‖² + l1·‖x−y‖₁, recorded as graphs.

    Not for use inside another capture; there, call `record` with a fixed number of iterations.
    """

    def __init__(
        self, batch: int, n: int, m: int, d: int, device: torch.device, l1: float = 0.0, both: bool = False
    ) -> None:
        def new(*shape: int) -> torch.Tensor:
            return torch.zeros(batch, *shape, device=device, dtype=torch.float32)

        self.l1, self.both = l1, both
        # rows padded to whole 64-byte lines: the tensor cores' loads want aligned rows
        self.d, wide = d, d + -d % 16
        self.x, self.y, self.log_a, self.log_b = new(n, wide), new(m, wide), new(n), new(m)
        self.cost, self.across, self.plan = new(n, m), new(m, n), new(n, m)
        self.f, self.g, self.row_sum, self.column_sum = new(n), new(m), new(n), new(m)
        self.grad_x, self.grad_y = new(n, wide), new(m, wide)
        self.value = torch.zeros(batch, device=device, dtype=torch.float64)
        self.reg = torch.ones(1, device=device)
        self.report = torch.zeros(1 + batch, device=device)
        """The largest cost, then the marginal error of each problem: read together, for one wait."""
        self.top, self.errors = self.report[:1], self.report[1:]
        self._set_uniform()
        self._reg = 0.0
        # warm up on a side stream, as capturing asks: Triton compiles, cuBLAS takes its workspace
        stream = torch.cuda.Stream(device)
        stream.wait_stream(torch.cuda.current_stream(device))
        with torch.cuda.stream(stream):
            for _ in range(2):
                self.record(1)
        torch.cuda.current_stream(device).wait_stream(stream)
        torch.cuda.synchronize(device)
        self._begin, self._more, self._end = (torch.cuda.CUDAGraph() for _ in range(3))
        with torch.cuda.graph(self._begin):
            # mostly the first iterations do, so the end is recorded with them too
            self._start()
            self._iterate(FIRST)
            self._finish()
        with torch.cuda.graph(self._more, pool=self._begin.pool()):
            self._iterate(MORE)
        with torch.cuda.graph(self._end, pool=self._begin.pool()):
            self._finish()

    def _set_uniform(self) -> None:
        self.log_a.fill_(-math.log(self.log_a.shape[1]))
        self.log_b.fill_(-math.log(self.log_b.shape[1]))
        self._uniform = True

    def record(self, iterations: int) -> None:
        """The whole solve as plain launches, for a fixed number of iterations after annealing; never waits."""
        self._start()
        self._iterate(iterations)
        self._finish()

    def _start(self) -> None:
        """The cost both ways, and annealed steps from the largest cost down to reg."""
        (batch, n, wide), m = self.x.shape, self.y.shape[1]
        self.top.zero_()
        grid = (triton.cdiv(n, 64), triton.cdiv(m, 64), batch)
        top = self.top.view(torch.int32)
        _cost[grid](
            self.x, self.y, self.cost, self.across, top, n, m, wide, self.l1, absolute=self.l1 != 0.0, tile=64, chunk=32
        )
        self.g.zero_()
        for i in range(ANNEALING):
            warm = (self.top, 1.0 - i / ANNEALING)
            half_step(self.cost, self.g, self.log_b, self.reg, self.f, anneal=warm)
            half_step(self.across, self.f, self.log_a, self.reg, self.g, anneal=warm)

    def _iterate(self, times: int) -> None:
        self.errors.zero_()
        for i in range(times):
            # after a g-step the columns agree exactly; the rows' error shows when f is renewed
            check = (self.log_a, self.errors) if i == times - 1 else None
            half_step(self.cost, self.g, self.log_b, self.reg, self.f, check=check)
            half_step(self.across, self.f, self.log_a, self.reg, self.g)

    def _finish(self) -> None:
        """Dual values, and gradients by the envelope theorem: ∂/∂x_i = 2(x_i·Σ_j P_ij − Σ_j P_ij y_j) + l1 term."""
        (batch, n, wide), m = self.x.shape, self.y.shape[1]
        plan_rows(self.cost, self.f, self.g, self.log_a, self.log_b, self.reg, self.plan, self.row_sum)
        torch.bmm(self.plan, self.y, out=self.grad_x)
        _combine[(batch * n,)](self.x, self.row_sum, self.grad_x, wide, width=1024)
        if self.l1:
            _pull(self.plan, self.x, self.y, self.grad_x, self.l1)
        if self.both:
            across = self.plan.transpose(1, 2)
            torch.bmm(across, self.x, out=self.grad_y)
            torch.sum(self.plan, 1, out=self.column_sum)
            _combine[(batch * m,)](self.y, self.column_sum, self.grad_y, wide, width=1024)
            if self.l1:
                _pull(across.contiguous(), self.y, self.x, self.grad_y, self.l1)
        _dual[(batch,)](self.f, self.g, self.log_a, self.log_b, self.value, n, m, width=1024)

    def solve(
        self,
        x: torch.Tensor,
        y: torch.Tensor,
        weights: tuple[torch.Tensor, torch.Tensor] | None,
        reg: float,
        tol: float,
        limit: int,
    ) -> tuple[int, float, float]:
        """Run until the largest L1 marginal error is at most `tol`; (iterations, error, largest cost).

        Results stay in the buffers.
        """
        self.x[:, :, : self.d].copy_(x)
        self.y[:, :, : self.d].copy_(y)
        # at training sizes every launch counts: what has not changed is not written again
        if weights is not None:
            torch.log(weights[0], out=self.log_a)
            torch.log(weights[1], out=self.log_b)
            self._uniform = False
        elif not self._uniform:
            self._set_uniform()
        if reg != self._reg:
            self.reg.fill_(reg)
            self._reg = reg
        self._begin.replay()
        done, best = ANNEALING + FIRST, float("inf")
        largest, *errors = self.report.tolist()
        error = max(errors)
        while not error <= tol and done < limit and error < best * _STALLED:
            self._more.replay()
            done, best = done + MORE, min(best, error)
            largest, *errors = self.report.tolist()
            error = max(errors)
        if done > ANNEALING + FIRST:
            self._end.replay()
        return done, error, largest


def _pull(plan: torch.Tensor, x: torch.Tensor, y: torch.Tensor, out: torch.Tensor, weight: float) -> None:
    batch, rows, columns = plan.shape
    d = x.shape[2]
    _l1_pull[(rows, triton.cdiv(d, 256), batch)](plan, x, y, out, columns, d, weight, width=256)


class StreamSolver:
    """One squared-Euclidean problem of any size: products of a block of rows at a time, memory O((n + m)·d + block)."""

    def __init__(self, x: torch.Tensor, y: torch.Tensor, log_a: torch.Tensor, log_b: torch.Tensor) -> None:
        centre = y.mean(0, keepdim=True)
        # rows padded to whole 64-byte lines: the tensor cores' loads want aligned rows
        self.d = x.shape[1]
        pad = (0, -self.d % 16)
        self.x, self.y = (torch.nn.functional.pad(z - centre, pad).contiguous() for z in (x, y))
        self.log_a, self.log_b = log_a, log_b
        self.norm_x, self.norm_y = self.x.square().sum(1), self.y.square().sum(1)
        self.f, self.g = torch.zeros_like(self.norm_x), torch.zeros_like(self.norm_y)
        self.error = torch.zeros(1, device=x.device)
        self.largest = 0.0
        n, m = len(self.f), len(self.g)
        self.stored = multiply(self.x, self.y.t()) if n * m <= _STREAM else None
        self.stored_across = None if self.stored is None else self.stored.t().contiguous()

    def _half(self, rows: bool, reg: torch.Tensor, check: bool = False) -> None:
        mine, theirs = (self.x, self.y) if rows else (self.y, self.x)
        norm, other_norm = (self.norm_x, self.norm_y) if rows else (self.norm_y, self.norm_x)
        out, other = (self.f, self.g) if rows else (self.g, self.f)
        weight = self.log_b if rows else self.log_a
        stored = self.stored if rows else self.stored_across
        block = len(mine) if stored is not None else max(1, _STREAM // len(theirs))
        for start in range(0, len(mine), block):
            part = slice(start, start + block)
            products = stored if stored is not None else multiply(mine[part], theirs.t())
            half_step(
                products[None],
                other[None],
                weight[None],
                reg,
                out[None, part],
                norms=(norm[None, part], other_norm[None]),
                check=(self.log_a[None, part], self.error) if check else None,
            )

    def solve(self, reg: float, tol: float, limit: int) -> tuple[int, float]:
        """Run until the L1 marginal error is at most `tol`; (iterations, error)."""
        # ‖x − y‖² ≤ 2(‖x‖² + ‖y‖²) after centring: where annealing starts
        self.largest = float(2.0 * (self.norm_x.max() + self.norm_y.max()))
        top = max(self.largest, reg)
        for i in range(ANNEALING):
            at = torch.full((1,), reg * (top / reg) ** (1.0 - i / ANNEALING), device=self.x.device)
            self._half(True, at)
            self._half(False, at)
        at = torch.full((1,), reg, device=self.x.device)
        done, error, best, wait = ANNEALING, float("inf"), float("inf"), FIRST
        while not error <= tol and done < limit and (done == ANNEALING or error < best * _STALLED):
            best = min(best, error)
            self.error.zero_()
            for i in range(wait):
                self._half(True, at, check=i == wait - 1)
                self._half(False, at)
            done, error, wait = done + wait, float(self.error), MORE
        return done, error

    def gradient(self, reg: float, rows: bool) -> torch.Tensor:
        """∂ value/∂x (or ∂y), by blocks of the plan."""
        mine, theirs = (self.x, self.y) if rows else (self.y, self.x)
        norm, other_norm = (self.norm_x, self.norm_y) if rows else (self.norm_y, self.norm_x)
        own, other = (self.f, self.g) if rows else (self.g, self.f)
        own_weight, other_weight = (self.log_a, self.log_b) if rows else (self.log_b, self.log_a)
        at = torch.full((1,), reg, device=mine.device)
        out = mine.new_empty(len(mine), self.d)
        stored = self.stored if rows else self.stored_across
        block = len(mine) if stored is not None else max(1, _STREAM // len(theirs))
        for start in range(0, len(mine), block):
            part = slice(start, start + block)
            products = multiply(mine[part], theirs.t()) if stored is None else stored
            plan = products if stored is None else torch.empty_like(products)
            total = torch.empty_like(norm[part])
            plan_rows(
                products[None],
                own[None, part],
                other[None],
                own_weight[None, part],
                other_weight[None],
                at,
                plan[None],
                total[None],
                norms=(norm[None, part], other_norm[None]),
            )
            pulled = mine[part] * total[:, None] - plan @ theirs
            out[part] = 2.0 * pulled[:, : self.d]
        return out

    @property
    def value(self) -> torch.Tensor:
        """The dual value Σ a f + Σ b g."""
        return self.log_a.exp().double() @ self.f.double() + self.log_b.exp().double() @ self.g.double()


@dataclass(frozen=True)
class Fused:
    """What a fused solve found, for B problems: potentials, dual values, marginal error, gradients where asked for."""

    f: torch.Tensor
    g: torch.Tensor
    value: torch.Tensor
    error: float
    largest: float
    """The largest cost, or a bound on it."""
    iterations: int
    grad_x: torch.Tensor | None
    grad_y: torch.Tensor | None


_recorded: OrderedDict[tuple[int, int, int, int, int, float, bool], GraphSolver] = OrderedDict()


def _graph(batch: int, n: int, m: int, d: int, device: torch.device, l1: float, both: bool) -> GraphSolver:
    """The solver for this shape, recorded at its first use; the least recently used one makes room."""
    key = (batch, n, m, d, device.index or 0, l1, both)
    if key not in _recorded:
        if len(_recorded) >= _GRAPHS:
            _recorded.popitem(last=False)
        with torch.cuda.device(device):
            _recorded[key] = GraphSolver(batch, n, m, d, device, l1, both)
    _recorded.move_to_end(key)
    return _recorded[key]


def solve(
    x: torch.Tensor,
    y: torch.Tensor,
    weights: tuple[torch.Tensor, torch.Tensor] | None,
    reg: float,
    tol: float,
    limit: int,
    l1: float,
    need_x: bool,
    need_y: bool,
) -> Fused | None:
    """B problems x (B, n, d) against y (B, m, d), cost ‖x−y‖² + l1·‖x−y‖₁, `weights` (a, b) or uniform ones.

    None where this path does not reach `tol` in float32 or does not apply, so that the plain one can try.
    """
    (batch, n, d), m = x.shape, y.shape[1]
    small = max(n, m) <= GRAPH_POINTS and batch * n * m <= GRAPH_ENTRIES
    if torch.cuda.is_current_stream_capturing() or not (small or (batch == 1 and not l1)):
        return None
    if small:
        graph = _graph(batch, n, m, d, x.device, l1, need_y)
        iterations, error, largest = graph.solve(x, y, weights, reg, tol, limit)
        found = Fused(
            graph.f.clone(),
            graph.g.clone(),
            graph.value.clone(),
            error,
            largest,
            iterations,
            graph.grad_x[:, :, :d].clone() if need_x else None,
            graph.grad_y[:, :, :d].clone() if need_y else None,
        )
    else:
        if weights is None:
            log_a, log_b = x.new_full((n,), -math.log(n)), x.new_full((m,), -math.log(m))
        else:
            log_a, log_b = weights[0][0].log(), weights[1][0].log()
        stream = StreamSolver(x[0], y[0], log_a, log_b)
        iterations, error = stream.solve(reg, tol, limit)
        largest = stream.largest
        found = Fused(
            stream.f[None],
            stream.g[None],
            stream.value[None],
            error,
            largest,
            iterations,
            stream.gradient(reg, True)[None] if need_x and error <= tol else None,
            stream.gradient(reg, False)[None] if need_y and error <= tol else None,
        )
    # NaN fails this too
    return found if error <= tol else None
