"""Sinkhorn on CUDA between many points: blocks of rows are multiplied and reduced in turn, no large matrix is kept."""

from __future__ import annotations

import torch

from privot.transport.cuda.matrix_product import multiply
from privot.transport.cuda.sinkhorn_graph import ANNEALING, FAR, FIRST, MORE, STALLED
from privot.transport.cuda.sinkhorn_kernels import half_step, plan_rows

_STREAM = 1 << 27
"""Entries of the block of products that a streamed half-step holds."""


class StreamSolver:
    """One squared-Euclidean problem of any size: products of a block of rows at a time, memory O((n + m)·d + block)."""

    def __init__(
        self, x: torch.Tensor, y: torch.Tensor, log_a: torch.Tensor, log_b: torch.Tensor, keep: bool = True
    ) -> None:
        """With `keep`, products that fit into one block are kept from step to step."""
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
        self.stored = multiply(self.x, self.y.t()) if keep and n * m <= _STREAM else None
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
        # g_j = Σ_i a_i C_ij takes away the distance between the clouds' means
        share = self.log_a.exp()
        torch.addmv(self.norm_y + share @ self.norm_x, self.y, share @ self.x, alpha=-2.0, out=self.g)
        at = torch.full((1,), reg, device=self.x.device)
        done, error = FIRST, self._iterate(at, FIRST)
        if error > FAR and done + ANNEALING + MORE <= limit:
            self._anneal(reg)
            done, error = done + ANNEALING, float("inf")
        best = float("inf")
        while not error <= tol and done + MORE <= limit and (error == float("inf") or error < best * STALLED):
            best = min(best, error)
            done, error = done + MORE, self._iterate(at, MORE)
        return done, error

    def _iterate(self, reg: torch.Tensor, times: int) -> float:
        """Full steps, and the L1 error of the rows before the last of them."""
        self.error.zero_()
        for i in range(times):
            self._half(True, reg, check=i == times - 1)
            self._half(False, reg)
        return float(self.error)

    def _anneal(self, reg: float) -> None:
        top = max(self.largest, reg)
        for i in range(ANNEALING):
            at = torch.full((1,), reg * (top / reg) ** (1.0 - i / ANNEALING), device=self.x.device)
            self._half(True, at)
            self._half(False, at)

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
