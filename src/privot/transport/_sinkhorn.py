"""Entropic optimal transport between clouds of points: values, plans, potentials and envelope gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from privot.common import arguments
from privot.errors import DataError, UsageError
from privot.transport import cuda
from privot.transport._solvers.arrays import check_finite, points, tensors, weights
from privot.transport._solvers.costs import Cost, CostName, MatrixCost, between, check_cost_matrix, parse
from privot.transport._solvers.direct import solve_directly
from privot.transport._solvers.epsilon_scaling import solve
from privot.transport._solvers.factored_plan import Solution
from privot.transport._solvers.results import Result, attach, hand_back
from privot.transport._solvers.stabilised_kernel import STREAMED_BLOCK

if TYPE_CHECKING:
    from privot.transport.cuda.sinkhorn_graph import Parts

Pairs = list[tuple[Tensor, Tensor | None]]

ROUNDING = 1e-5
"""Relative error of a plan's entries above which float32 points are solved in float64: its potentials, rounded
to float32, would no longer give the marginals that were reached."""


def sinkhorn(
    x: Any,
    y: Any,
    reg: float,
    cost: CostName = "sqeuclidean",
    tol: float = 1e-6,
    *,
    a: Any = None,
    b: Any = None,
    max_iterations: int = 10_000,
    check: bool = True,
) -> Result:
    """Entropic transport OT_ε(x, y) = min_P ⟨P, C⟩ + ε KL(P | a⊗b) over plans with P1 = a, Pᵀ1 = b, for ε = `reg`.

    Parameters
    ----------
    x, y
        Points of shape (n, d) and (m, d), or B problems at once, (B, n, d) and (B, m, d). Arrays or tensors. With the
        cost "precomputed", x is the matrix C of shape (n, m) or (B, n, m), and y is None.
    reg
        ε, the regularisation, in units of the cost. (It is no privacy parameter.)
    cost
        "sqeuclidean" ‖x−y‖², "l1" ‖x−y‖₁, ("mixture", m) ‖·‖² + m‖·‖₁, or "precomputed".
    tol
        Converged means: columns of P sum to b and rows to a within `tol` in L1.
    a, b
        Weights of shape (n,) and (m,), or (B, n) and (B, m), not negative and of sum 1; uniform unless given.
    max_iterations
        After how many iterations the solver gives up.
    check
        False skips the search for NaN, and with it a wait for the GPU.

    Returns
    -------
    Result
        `value`: that minimum, the *regularised* transport cost, or B of them, taken at the dual ⟨a, f⟩ + ⟨b, g⟩ (the
        error is of second order in the marginal error). It is differentiable in x, y (or C) and in a, b by the envelope
        theorem: ∂/∂x_i = Σ_j P_ij ∂c(x_i, y_j), ∂/∂a = f. `transport_cost` is ⟨P, C⟩ alone; `plan`, `potentials` and
        `gradient` are worked out when asked for.

    Raises
    ------
    ConvergenceError
        If the tolerance was not reached.
    DataError
        If the shapes do not fit, a number is not finite, or the device has not enough memory.
    UsageError
        If another parameter is out of range.

    Notes
    -----
    KL(P|a⊗b) = Σ P ln(P/ab), so there is no constant −ε ln(nm) as with the entropy of P. No n × m matrix is held when
    n·m exceeds 2²⁷ on a GPU or 2²⁶ elsewhere. float32 points are solved in float32 while that rounds P's entries by
    less than 1e-5, in float64 beyond.

    References
    ----------
    Cuturi 2013, "Sinkhorn distances: lightspeed computation of optimal transport".

    Examples
    --------
    >>> round(sinkhorn([[0.0], [1.0]], [[0.0], [1.0]], reg=1e-2).value, 4)  # ε ln 2
    0.0069
    """
    eps = arguments.real("reg", reg)
    tol = arguments.real("tol", tol)
    if isinstance(max_iterations, bool) or not isinstance(max_iterations, int) or max_iterations < 1:
        raise UsageError(f"max_iterations must be a whole number of at least 1, got {max_iterations!r}.")
    quick = _quick(x, y, cost, a, b, eps, tol, max_iterations, check)
    if isinstance(quick, Result):
        return quick
    inputs, ground, as_numpy, batched = _read(x, y, cost, check)
    B, n, m = ground.shape
    like = inputs[0]
    wa = weights("a", a, (B, n) if batched else (n,), like)
    wb = weights("b", b, (B, m) if batched else (m,), like)
    return finish(inputs, ground, wa, wb, eps, tol, max_iterations, as_numpy, spent=quick)


def _read(x: Any, y: Any, cost: CostName, check: bool = True) -> tuple[tuple[Tensor, ...], Cost, bool, bool]:
    """(the differentiable inputs, the cost between them, whether they are NumPy's, whether they are a batch)."""
    if cost == "precomputed":
        if y is not None:
            raise UsageError("With cost='precomputed' x is the cost matrix and y must be None.")
        (matrix,), as_numpy = tensors(("x", x))
        check_cost_matrix(matrix)
        whole = matrix.detach() if matrix.dim() == 3 else matrix.detach()[None]
        return (matrix,), MatrixCost(whole), as_numpy, matrix.dim() == 3
    tx, ty, as_numpy = points(x, y, batched=True, check=check)
    batched = tx.dim() == 3
    ground = between(tx if batched else tx[None], ty if batched else ty[None], cost)
    return (tx, ty), ground, as_numpy, batched


def finish(
    inputs: tuple[Tensor, ...],
    ground: Cost,
    wa: Tensor,
    wb: Tensor,
    eps: float,
    tol: float,
    max_iterations: int,
    as_numpy: bool,
    symmetric: bool = False,
    spent: int = 0,
) -> Result:
    """Solve and dress up: what `sinkhorn` does once its arguments are tensors and `spent` iterations are used."""
    batched = wa.dim() == 2
    a, b = (w.detach() if batched else w.detach()[None] for w in (wa, wb))
    dtype = a.dtype
    if dtype == torch.float32 and ground.bound() * torch.finfo(dtype).eps > ROUNDING * eps:
        ground, a, b = ground.double(), a.double(), b.double()
    try:
        end = 0 if symmetric else solve_directly(ground, a, b, eps, tol, max_iterations)
        if not isinstance(end, Solution):
            end = solve(ground, a, b, eps, tol, max_iterations, symmetric, spent + end)
    except torch.OutOfMemoryError as error:
        raise DataError("There is not enough memory on the device for this many points.") from error
    value = (a * end.f).sum(1) + (b * end.g).sum(1)
    value = (value if batched else value[0]).to(dtype)
    if any(t.requires_grad for t in (*inputs, wa, wb)):
        value = attach(value, *_gradients(inputs, ground, a, b, wa, wb, eps, end, symmetric))

    def whole(t: Tensor) -> Any:
        return hand_back((t if batched else t[0]).to(dtype), as_numpy)

    return Result(
        value=hand_back(value, as_numpy),
        iterations=end.sweeps,
        marginal_error=end.error,
        lazy={
            "plan": lambda: whole(torch.cat([p for _, _, p in plan_blocks(ground, a, b, eps, end)], 1)),
            "potentials": lambda: (whole(end.f), whole(end.g)),
            "transport_cost": lambda: whole(_transport_cost(ground, a, b, eps, end)),
            "gradient": lambda: whole(_gradient(ground, a, b, eps, end, symmetric)),
        },
    )


def _quick(
    x: Any, y: Any, cost: CostName, a: Any, b: Any, eps: float, tol: float, limit: int, check: bool
) -> Result | int:
    """The fused CUDA solve of float32 points; where there is none or float32 does not carry that far, the iterations
    spent.
    """
    if not isinstance(x, Tensor) or x.device.type != "cuda" or x.dtype != torch.float32 or cost == "precomputed":
        return 0
    square, absolute = parse(cost)
    if square != 1.0 or not cuda.available():
        return 0
    from privot.transport.cuda.sinkhorn_graph import recordable
    from privot.transport.cuda.sinkhorn_solver import solve as fused

    tx, ty, _ = points(x, y, batched=True, check=False)
    batched = tx.dim() == 3
    # a recorded solve looks for NaN itself and says so with its result: one wait for both
    if check and not recordable(len(tx) if batched else 1, tx.shape[-2], ty.shape[-2]):
        check_finite("x", tx)
        check_finite("y", ty)

    def whole(t: Tensor) -> Tensor:
        return t.detach() if batched else t.detach()[None]

    wa = None if a is None and b is None else weights("a", a, tuple(tx.shape[:-1]), tx)
    wb = None if wa is None else weights("b", b, tuple(ty.shape[:-1]), ty)
    px, py = whole(tx), whole(ty)
    shares = None if wa is None or wb is None else (whole(wa).contiguous(), whole(wb).contiguous())

    def shaped(t: Tensor) -> Tensor:
        return t if batched else t[0]

    def dress(parts: Parts) -> tuple[Tensor, Parts]:
        pairs: Pairs = [(tx, shaped(parts.grad_x))] if parts.grad_x is not None and tx.requires_grad else []
        if parts.grad_y is not None:
            pairs.append((ty, shaped(parts.grad_y)))
        if wa is not None and wb is not None:
            pairs += [(wa, shaped(parts.f)), (wb, shaped(parts.g))]
        value = shaped(parts.value)
        return attach(value, *pairs) if pairs else value, parts

    found = fused(px, py, shares, eps, tol, limit, absolute, tx.requires_grad, ty.requires_grad, dress)
    if isinstance(found, int):
        return found
    if found.largest * torch.finfo(torch.float32).eps > ROUNDING * eps:
        return found.iterations
    value, parts = found.dressed
    end = Solution(parts.f, parts.g, found.error, found.iterations)

    def terms() -> tuple[Cost, Tensor, Tensor, float, Solution]:
        first, second = shares or (t.new_full(t.shape[:-1], 1.0 / t.shape[-2]) for t in (px, py))
        return between(px, py, cost), first, second, eps, end

    return Result(
        value=value,
        iterations=end.sweeps,
        marginal_error=end.error,
        lazy={
            "plan": lambda: shaped(torch.cat([p for *_, p in plan_blocks(*terms())], 1)),
            "potentials": lambda: (shaped(end.f), shaped(end.g)),
            "transport_cost": lambda: shaped(_transport_cost(*terms())),
            "gradient": lambda: shaped(parts.gradient()),
        },
    )


def plan_blocks(ground: Cost, a: Tensor, b: Tensor, eps: float, end: Solution) -> Any:
    """(start, stop, P[:, start:stop]) in turn; whole, without new exponentials, where the solver left it."""
    B, n, m = ground.shape
    if end.plan is not None:
        yield 0, n, end.plan.matrix()
        return
    step = max(1, STREAMED_BLOCK // (B * m))
    for start in range(0, n, step):
        stop = min(n, start + step)
        e = torch.sub(end.g[:, None, :], ground.rows(start, stop)).add_(end.f[:, start:stop, None]).div_(eps)
        yield start, stop, e.exp_().mul_(b[:, None, :]).mul_(a[:, start:stop, None])


def _transport_cost(ground: Cost, a: Tensor, b: Tensor, eps: float, end: Solution) -> Tensor:
    parts = [(p * ground.rows(i, j)).sum((1, 2)) for i, j, p in plan_blocks(ground, a, b, eps, end)]
    return torch.stack(parts).sum(0)


def _gradients(
    inputs: tuple[Tensor, ...],
    ground: Cost,
    a: Tensor,
    b: Tensor,
    wa: Tensor,
    wb: Tensor,
    eps: float,
    end: Solution,
    symmetric: bool,
) -> Pairs:
    """The envelope theorem: P is optimal, so only the explicit dependence of ⟨P, C⟩ + … on the inputs counts."""
    shaped: Callable[[Tensor], Tensor] = (lambda t: t.to(wa)) if wa.dim() == 2 else (lambda t: t[0].to(wa))
    pairs: Pairs = [(wa, shaped(end.f)), (wb, shaped(end.g))]
    if not any(t.requires_grad for t in inputs):
        return pairs
    gradient, second = _pull(ground, a, b, eps, end, symmetric or inputs[-1].requires_grad)
    if symmetric:
        return [*pairs, (inputs[0], shaped(gradient + second))]
    pairs.append((inputs[0], shaped(gradient)))
    if len(inputs) == 2 and inputs[1].requires_grad:
        pairs.append((inputs[1], shaped(second)))
    return pairs


def _gradient(ground: Cost, a: Tensor, b: Tensor, eps: float, end: Solution, symmetric: bool) -> Tensor:
    first, second = _pull(ground, a, b, eps, end, symmetric)
    return first + second if symmetric else first


def _pull(ground: Cost, a: Tensor, b: Tensor, eps: float, end: Solution, both: bool) -> tuple[Tensor, Tensor]:
    """What the cost pulls back to its two sides, by a held plan or a block of one at a time."""
    if end.plan is not None:
        return ground.pull_plan(end.plan, both)
    first, second = [], torch.zeros((), dtype=a.dtype, device=a.device)
    for start, stop, plan in plan_blocks(ground, a, b, eps, end):
        gx, gy = ground.pull(start, stop, plan, both)
        first.append(gx)
        second = second + gy
    return torch.cat(first, 1), second
