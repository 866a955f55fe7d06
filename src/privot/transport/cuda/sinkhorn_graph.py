"""Sinkhorn on CUDA at training sizes: a whole solve recorded once for each shape and replayed.

There a half-step takes microseconds and launching it from Python tens of them. Cost matrices are kept with their
transpose, so that both half-steps read along rows. All results lie in one buffer, so that one copy takes them out.

Whether a solve has converged is decided on the device: rounds queued after that do nothing. So the host queues as many
rounds as the last solve of this shape needed and waits once; how many it queued changes the time, never the result.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

import torch

from privot.common.cuda_graphs import side_stream
from privot.transport.cuda.sinkhorn_kernels import (
    cost_both_ways,
    dual_value,
    half_step,
    judge,
    mean_cost,
    plan_rows,
    pull_back,
)

ANNEALING = 4
FIRST = 3
MORE = 8
FAR = 0.1
"""A marginal error after the first iterations above which annealing is worth its steps."""
POINTS = 2048
ENTRIES = 1 << 24
"""Problems of up to this many points a side, and entries in all, are recorded."""
STALLED = 0.999
"""An error that does not fall even by this much in a round of iterations has met float32's rounding."""
MAX_AHEAD = 8
"""Rounds queued before the host looks at the error for the first time."""
_GRAPHS = 16


@dataclass(frozen=True)
class Parts:
    """What a solve of B problems leaves: gradients where they were worked out, potentials, dual values."""

    grad_x: torch.Tensor | None
    grad_y: torch.Tensor | None
    f: torch.Tensor
    g: torch.Tensor
    value: torch.Tensor
    late: Callable[[], torch.Tensor] | None = None
    """Works out grad_x where that is left until somebody asks."""

    def gradient(self) -> torch.Tensor:
        """∂value/∂x, now or already worked out."""
        if self.grad_x is not None:
            return self.grad_x
        assert self.late is not None
        return self.late()


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
        self._shape = (batch, n, m, d)
        # rows padded to whole 64-byte lines: the tensor cores' loads want aligned rows
        self.d, wide = d, d + -d % 16
        self.x, self.y, self.log_a, self.log_b = new(n, wide), new(m, wide), new(n), new(m)
        self.cost, self.across, self.plan = new(n, m), new(m, n), new(n, m)
        self.row_sum, self.column_sum, self._room_x, self._room_y = new(n), new(m), new(n, wide), new(m, wide)
        self._sizes = [batch * n * d, batch * m * d if both else 0, batch * n, batch * m, batch]
        self._out = torch.zeros(sum(self._sizes), device=device)
        self.parts = self._cut(self._out)
        self.value = self.parts.value
        # of the cost without its norms: small numbers, of which float32 rounds little away
        self.f, self.g, self.norms = new(n), new(m), (new(n), new(m))
        self.origin = new(wide)
        self.reg = torch.ones(1, device=device)
        self.tol = torch.zeros(1, device=device)
        self.report = torch.zeros(4, device=device)
        """The largest cost, 0 where all points are finite (else NaN), iterations, the largest marginal error of a
        problem: read together, for one wait."""
        self.top, self._finite = self.report[:1], self.report[1]
        self.errors = new()
        self._skip, self._omega = torch.zeros(2, device=device).split(1)
        self._set_uniform()
        self._reg = self._tol = 0.0
        self._ahead = 0
        with side_stream(device):
            for _ in range(2):
                self._start_up()
                self._finish()
                self._anneal()
                self._go_on()
        torch.cuda.synchronize(device)
        self._begin, self._once, self._cool, self._more, self._end = (torch.cuda.CUDAGraph() for _ in range(5))
        with torch.cuda.graph(self._begin):
            self._start_up()
        with torch.cuda.graph(self._once, pool=self._begin.pool()):
            # where the first iterations do, the end is recorded with them
            self._start_up()
            self._finish()
        with torch.cuda.graph(self._cool, pool=self._begin.pool()):
            self._anneal()
        with torch.cuda.graph(self._more, pool=self._begin.pool()):
            self._go_on()
        with torch.cuda.graph(self._end, pool=self._begin.pool()):
            self._finish()

    def _cut(self, out: torch.Tensor) -> Parts:
        batch, n, m, d = self._shape
        grad_x, grad_y, f, g, value = out.split(self._sizes)
        second = grad_y.view(batch, m, d) if self.both else None
        return Parts(grad_x.view(batch, n, d), second, f.view(batch, n), g.view(batch, m), value)

    def _set_uniform(self) -> None:
        self.log_a.fill_(-math.log(self.log_a.shape[1]))
        self.log_b.fill_(-math.log(self.log_b.shape[1]))
        self._uniform = True

    def record(self, iterations: int) -> None:
        """The whole solve as plain launches, for a fixed number of iterations; never waits."""
        self._approach(iterations)
        self._finish()

    def _approach(self, iterations: int) -> None:
        """Costs, and the first iterations.

        It starts from g_j = Σ_i a_i C_ij: under ‖x−y‖² that takes away all the distance between the clouds' means, and
        what is left is solved from near by.
        """
        self.top.zero_()
        torch.mean(self.y, 1, out=self.origin)
        cost_both_ways(self.x, self.y, self.origin, self.cost, self.across, self.norms, self.top, self.l1)
        mean_cost(self.across, self.log_a, self.g)
        self.errors.zero_()
        self._iterate(iterations)

    def _start_up(self) -> None:
        """The first iterations with everything the report says; a sum of squares is finite only if every term is."""
        self._approach(FIRST)
        torch.add(self.norms[0].sum(), self.norms[1].sum(), out=self._finite).mul_(0.0)
        self._judge(FIRST, first=True)

    def _judge(self, iterations: int, first: bool = False) -> None:
        judge(self.errors, self.report, self._skip, self._omega, self.tol, FAR, iterations, first)

    def _anneal(self) -> None:
        """Steps from the largest cost down to reg, for problems that start far from their solution; plain ones next."""
        for i in range(ANNEALING):
            warm = (self.top, 1.0 - i / ANNEALING)
            half_step(self.cost, self.g, self.log_b, self.reg, self.f, anneal=warm)
            half_step(self.across, self.f, self.log_a, self.reg, self.g, anneal=warm)
        self.report[2:3].add_(float(ANNEALING))
        self._skip.zero_()
        self._omega.fill_(1.0)

    def _go_on(self) -> None:
        """`MORE` iterations, over-relaxed but for the last two, or nothing where the error is small enough already."""
        for i in range(MORE):
            relax = self._omega if i < MORE - 2 else None
            check = (self.log_a, self.errors) if i == MORE - 1 else None
            half_step(self.cost, self.g, self.log_b, self.reg, self.f, check=check, skip=self._skip, relax=relax)
            half_step(self.across, self.f, self.log_a, self.reg, self.g, skip=self._skip, relax=relax)
        self._judge(MORE)

    def _iterate(self, times: int) -> None:
        for i in range(times):
            # after a plain g-step the columns agree exactly; the rows' error shows when f is renewed
            check = (self.log_a, self.errors) if i == times - 1 else None
            half_step(self.cost, self.g, self.log_b, self.reg, self.f, check=check)
            half_step(self.across, self.f, self.log_a, self.reg, self.g)

    def _finish(self) -> None:
        """Dual values, and gradients by the envelope theorem."""
        plan_rows(self.cost, self.f, self.g, self.log_a, self.log_b, self.reg, self.plan, self.row_sum)
        assert self.parts.grad_x is not None
        pull_back(self.plan, self.row_sum, self.x, self.y, self._room_x, self.parts.grad_x, self.l1)
        if self.parts.grad_y is not None:
            torch.sum(self.plan, 1, out=self.column_sum)
            across = self.plan.transpose(1, 2)
            pull_back(across, self.column_sum, self.y, self.x, self._room_y, self.parts.grad_y, self.l1)
        whole = (self.parts.f, self.parts.g)
        dual_value(self.f, self.g, self.log_a, self.log_b, self.norms, whole, self.parts.value)

    def start(
        self,
        x: torch.Tensor,
        y: torch.Tensor,
        weights: tuple[torch.Tensor, torch.Tensor] | None,
        reg: float,
        tol: float,
        limit: int,
    ) -> None:
        """Begin a solve and do not wait; `taken` gives its results, which `settle` then confirms."""
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
        if tol != self._tol:
            self.tol.fill_(tol)
            self._tol = tol
        rounds = min(self._ahead, (limit - FIRST) // MORE)
        if rounds <= 0:
            self._once.replay()
            return
        self._begin.replay()
        for _ in range(rounds):
            self._more.replay()
        self._end.replay()

    def taken(self) -> Parts:
        """A copy of the results, queued behind the solve."""
        return self._cut(self._out.clone())

    def settle(self, limit: int) -> tuple[int, float, float, bool]:
        """Wait, and go on until the largest L1 marginal error is at most `tol` or no longer falls.

        (iterations, error (NaN where points are not finite), largest cost, whether what was taken is out of date).
        """
        best, again, cooled = float("inf"), False, False
        largest, finite, count, error = self.report.tolist()
        error += finite
        while not error <= self._tol and count + MORE <= limit and error < best * STALLED:
            if count == FIRST and error > FAR and count + ANNEALING + MORE <= limit:
                self._cool.replay()
                cooled = True
            else:
                best = min(best, error)
            self._more.replay()
            again = True
            largest, finite, count, error = self.report.tolist()
            error += finite
        if again:
            self._end.replay()
        # annealing is only begun by the host, so rounds queued before it would be skipped
        self._ahead = 0 if cooled else min(MAX_AHEAD, -(-(int(count) - FIRST) // MORE))
        return int(count), error, largest, again


_recorded: OrderedDict[tuple[int, int, int, int, int, float, bool], GraphSolver] = OrderedDict()


def recordable(batch: int, n: int, m: int) -> bool:
    """Whether problems of this size are solved by a recorded graph."""
    return max(n, m) <= POINTS and batch * n * m <= ENTRIES


def graph_for(batch: int, n: int, m: int, d: int, device: torch.device, l1: float, both: bool) -> GraphSolver | None:
    """The solver for this shape, recorded at its first use in place of the least recently used; None if too large."""
    if not recordable(batch, n, m):
        return None
    key = (batch, n, m, d, device.index or 0, l1, both)
    if key not in _recorded:
        if len(_recorded) >= _GRAPHS:
            _recorded.popitem(last=False)
        with torch.cuda.device(device):
            _recorded[key] = GraphSolver(batch, n, m, d, device, l1, both)
    _recorded.move_to_end(key)
    return _recorded[key]
