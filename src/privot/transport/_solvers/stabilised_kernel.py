"""The stabilised kernel of entropic transport and one Sinkhorn sweep over it; it does not decide when to stop.

For B problems at once. The plan is P_ij = a_i b_j exp((f_i + g_j − C_ij)/ε); the potentials f, g are written
f + ε ln u, g + ε ln v around a kernel K_ij = b_j exp((f_i + g_j − C_ij)/ε), f shifted so that the largest
exponent of each row is 0. Nothing can overflow, and a sweep is two matrix–vector products instead of n·m
exponentials (Schmitzer 2019, "Stabilized sparse scaling algorithms for entropy regularized transport
problems"). When u or v drift far from 1 they are absorbed and K is made anew. Where n·m is large K is never
whole: blocks of its rows are made, used for both products and dropped.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from privot.transport._solvers.costs import Cost
from privot.transport._solvers.factored_plan import FactoredPlan

DENSE_LIMIT = 1 << 26
"""Entries B·n·m up to which the cost and its kernel are held whole."""
STREAMED_BLOCK = 1 << 22
"""Entries of a block of rows when they are not."""
CACHED_BLOCK = 1 << 18
"""Entries of a block of rows of a held kernel: fetched from memory once, used for both products."""
FLAT = 0.5
"""Range of exponents below which the entries of a kernel differ in their last digits only."""


def row_blocks(cost: Cost, held: Tensor | None) -> Iterator[tuple[slice, Tensor]]:
    """(rows, C[:, rows]) in turn: the held matrix whole, else freshly made blocks."""
    B, n, m = cost.shape
    if held is not None:
        yield slice(0, n), held
        return
    step = max(1, STREAMED_BLOCK // (B * m))
    for start in range(0, n, step):
        stop = min(n, start + step)
        yield slice(start, stop), cost.rows(start, stop)


def hold(cost: Cost) -> Tensor | None:
    """C whole where that is small, else None."""
    B, n, m = cost.shape
    return cost.rows(0, n) if B * n * m <= DENSE_LIMIT else None


class Kernel:
    """The iterate of Sinkhorn's algorithm: potentials (f, g), scalings (u, v) and the kernel between them."""

    def __init__(
        self, cost: Cost, held: Tensor | None, a: Tensor, b: Tensor, symmetric: bool = False, sweeps: int = 0
    ) -> None:
        self.cost, self.held, self.a, self.b, self.symmetric = cost, held, a, b, symmetric
        self.f, self.g = self._hard_potentials()
        self.u, self.v = torch.ones_like(a), torch.ones_like(b)
        self.eps = 1.0
        self._last = (self.u, self.v)
        self._matrix: Tensor | None = None
        # A column of zero weight is a zero column of K: 1/1 there in place of 0/0.
        empty = (b == 0).to(b.dtype)
        self._empty = empty if bool(empty.any()) else None
        self._b = b + empty
        self._tiny = float(torch.finfo(a.dtype).tiny)
        self.sweeps = sweeps
        """Passes over both sides so far."""

    def _hard_potentials(self) -> tuple[Tensor, Tensor]:
        """f_i = min_j C_ij, g_j = min_i (C_ij − f_i): each row and column then has an exponent 0, none above."""
        if self.symmetric:
            return torch.zeros_like(self.a), torch.zeros_like(self.b)
        f = torch.cat([c.amin(2) for _, c in row_blocks(self.cost, self.held)], 1)
        g = torch.full_like(self.b, torch.inf)
        for rows, c in row_blocks(self.cost, self.held):
            g = torch.minimum(g, (c - f[:, rows, None]).amin(1))
        return f, g

    def absorb(self) -> None:
        """Move the scalings into the potentials; the kernel is then out of date."""
        self.f = self.f + self.eps * self.u.log()
        self.g = self.f if self.symmetric else self.g + self.eps * self.v.log()
        self.u, self.v = torch.ones_like(self.u), torch.ones_like(self.v)
        self._matrix = None

    def recover(self) -> None:
        """One plain sweep in the log domain from the potentials last absorbed, after scalings left the number type.

        Its columns are exact, and each row and column has an exponent of about 0: nothing underflows.
        """
        self.sweeps += 1
        f = transform(self.cost, self.held, self.g, self.b, self.eps)
        turned = None if self.held is None else self.held.transpose(1, 2)
        self.f = (f + self.g) / 2.0 if self.symmetric else f
        self.g = self.f if self.symmetric else transform(self.cost.turned(), turned, f, self.a, self.eps)
        self.u, self.v = torch.ones_like(self.u), torch.ones_like(self.v)
        self.rebuild(self.eps)

    def rebuild(self, eps: float) -> None:
        """Make the kernel anew for `eps` from absorbed potentials."""
        self.absorb()
        self.eps = eps
        if self.held is not None:
            self._matrix = self._exponentiate(slice(0, self.held.shape[1]), self.held)

    def _exponentiate(self, rows: slice, c: Tensor) -> Tensor:
        """K[:, rows] from the absorbed potentials, its rows' shifts going from f to u."""
        f = self.f[:, rows]
        e = torch.sub(self.g[:, None, :], c).add_(f[:, :, None]).div_(self.eps)
        if self.symmetric:
            e.clamp_(max=60.0)
        else:
            shift = e.amax(2)
            e.sub_(shift[:, :, None])
            f -= self.eps * shift  # in place: f is a view of self.f, which absorb() made
            self.u[:, rows] = shift.clamp(-80.0, 80.0).exp()
        return e.exp_().mul_(self.b[:, None, :])

    def _kernel_blocks(self) -> Iterator[tuple[slice, Tensor]]:
        if self._matrix is None:
            for rows, c in row_blocks(self.cost, None):
                yield rows, self._exponentiate(rows, c)
            return
        B, n, m = self._matrix.shape
        step = n
        if self._matrix.device.type == "cpu" and B * n * m > 4 * CACHED_BLOCK:
            step = max(1, CACHED_BLOCK // (B * m))
        for start in range(0, n, step):
            rows = slice(start, min(n, start + step))
            yield rows, self._matrix[:, rows]

    def sweep(self, omega: float, measure: bool) -> Tensor | None:
        """One update of u, then v, over-relaxed by ω; if asked to, answers Σ_i |P1 − a|_i of the plan *before* it.

        u ← u·(1/(u·Kv))^ω, v ← v·(b/(v·Kᵀ(a u)))^ω: ω = 1 is Sinkhorn's own update, after which the columns
        of the plan sum to b exactly. Symmetric problems (x against itself) take u = v ← u·(u·Ku)^−½ instead.
        """
        if self._matrix is None:
            self.absorb()
        self.sweeps += 1
        columns, fresh, errors = None, [], []
        for rows, k in self._kernel_blocks():
            old, a = self.u[:, rows], self.a[:, rows]
            sums = _times(k, self.v).clamp_(min=self._tiny)
            if measure:
                errors.append(((old * sums).sub_(1.0).abs_().mul_(a)).sum(1))
            if self.symmetric:
                fresh.append(sums.div_(old).rsqrt_())
                continue
            new = sums.reciprocal_()
            if omega != 1.0:
                new = new.div_(old).pow_(omega).mul_(old)
            fresh.append(new)
            part = _times(k.transpose(1, 2), new * a)
            columns = part if columns is None else columns.add_(part)
        self._last = (self.u, self.v)
        self.u = fresh[0] if len(fresh) == 1 else torch.cat(fresh, 1)
        if columns is None:
            self.v = self.u
        else:
            self.v = self._column_update(columns, omega)
        return torch.stack(errors).sum(0) if measure else None

    def _column_update(self, columns: Tensor, omega: float) -> Tensor:
        if self._empty is not None:
            columns = columns + self._empty
        target = self._b / columns.clamp_(min=self._tiny)
        return target if omega == 1.0 else target.div_(self.v).pow_(omega).mul_(self.v)

    def step_back(self) -> None:
        """Return to the plan whose error the last sweep measured."""
        self.u, self.v = self._last

    def plan(self) -> Tensor | None:
        """The dense plan if the kernel is dense, else None."""
        if self._matrix is None:
            return None
        return (self._matrix * (self.a * self.u)[:, :, None]).mul_(self.v[:, None, :])

    def move(self, u: Tensor) -> Tensor:
        """Set u, fit the columns to it, and answer the row error Σ_i |P1 − a|_i then; for held kernels."""
        if self._matrix is None:  # unreachable: a move follows a look at the plan
            raise AssertionError
        self.sweeps += 1
        self.u = u
        self.v = self._column_update(_times(self._matrix.transpose(1, 2), u * self.a), 1.0)
        return ((_times(self._matrix, self.v) * u - 1.0).abs() * self.a).sum(1)

    def marginal_error(self) -> Tensor:
        """Σ|P1 − a| + Σ|Pᵀ1 − b| of the plan as it stands, of each problem."""
        if self._matrix is None:
            self.absorb()
        columns, errors = torch.zeros_like(self.b), torch.zeros_like(self.b[:, 0])
        for rows, k in self._kernel_blocks():
            left = self.a[:, rows] * self.u[:, rows]
            errors += (left * _times(k, self.v) - self.a[:, rows]).abs().sum(1)
            columns += _times(k.transpose(1, 2), left)
        return errors + (columns * self.v - self.b).abs().sum(1)

    def take_plan(self) -> FactoredPlan | None:
        """P where the kernel is held whole, without a copy; the kernel is gone then."""
        if self._matrix is None:
            return None
        left, kernel, right = self.a * self.u, self._matrix, self.v
        rows = left * _times(kernel, right)
        columns = rows if self.symmetric else right * _times(kernel.transpose(1, 2), left)
        self._matrix = None
        return FactoredPlan(left, kernel, right, rows, columns)

    def spread(self) -> Tensor:
        """How far the scalings have drifted: the largest of u, v, 1/u, 1/v."""
        largest = torch.maximum(self.u.amax(), self.v.amax())
        return torch.maximum(largest, 1.0 / torch.minimum(self.u.amin(), self.v.amin()))


def _times(k: Tensor, v: Tensor) -> Tensor:
    if k.shape[0] == 1:
        return torch.mv(k[0], v[0])[None]
    return torch.bmm(k, v[:, :, None])[:, :, 0]


def transform(cost: Cost, held: Tensor | None, g: Tensor, b: Tensor, eps: float) -> Tensor:
    """f_i = −ε ln Σ_j b_j exp((g_j − C_ij)/ε), the soft minimum of C_ij − g_j, for every row i.

    Where all exponents of a row are within FLAT of each other the sum is close to 1 and is taken as
    1 + Σ b_j expm1(·), which keeps the digits that ε would multiply away.
    """
    out = []
    for _, c in row_blocks(cost, held):
        e = torch.sub(g[:, None, :], c).div_(eps)
        e.masked_fill_((b == 0)[:, None, :], -torch.inf)
        top = e.amax(2, keepdim=True)
        flat = e.masked_fill(e == -torch.inf, torch.inf).amin(2, keepdim=True) > top - FLAT
        e.sub_(top)
        weights = b[:, :, None]
        near = torch.bmm(torch.where(flat, e, torch.zeros_like(e)).nan_to_num_(neginf=0.0).expm1_(), weights)
        far = torch.bmm(e.exp_(), weights)
        log = torch.where(flat, near.log1p_(), far.log_())
        out.append(-eps * (log + top)[:, :, 0])
    return torch.cat(out, 1)
