"""Losses made of several entropic distances: the Sinkhorn divergence and the semi-debiased loss."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from privot.common import arguments
from privot.errors import DataError
from privot.transport._sinkhorn import finish, sinkhorn
from privot.transport._solvers.arrays import points, weights
from privot.transport._solvers.costs import CostName, between
from privot.transport._solvers.results import Result, hand_back


def sinkhorn_divergence(
    x: Any,
    y: Any,
    reg: float,
    cost: CostName = "sqeuclidean",
    tol: float = 1e-6,
    *,
    a: Any = None,
    b: Any = None,
    max_iterations: int = 10_000,
) -> Result:
    """The Sinkhorn divergence S_ε(x, y) = OT_ε(x, y) − ½ OT_ε(x, x) − ½ OT_ε(y, y): zero at x = y, and never negative.

    Parameters, batches, convergence, gradients and raises are those of `sinkhorn`; there is no precomputed cost. The
    terms share their centre, so equal clouds cancel to the solver's tolerance.

    Returns
    -------
    Result
        `value`: the divergence, or one per problem. `plan`, `potentials` and `transport_cost` are those of the first
        term.

    References
    ----------
    Feydy et al. 2019, "Interpolating between optimal transport and MMD using Sinkhorn divergences".

    Examples
    --------
    >>> cloud, moved = [[0.0], [1.0]], [[2.0], [3.0]]
    >>> round(sinkhorn_divergence(cloud, moved, reg=0.1).value, 3)  # moved by 2
    4.0
    >>> abs(sinkhorn_divergence(cloud, cloud, reg=0.1).value) < 1e-6
    True
    """
    eps, tol = arguments.real("reg", reg), arguments.real("tol", tol)
    tx, ty, as_numpy = points(x, y, batched=True)
    wa, wb = weights("a", a, tx.shape[:-1], tx), weights("b", b, ty.shape[:-1], ty)
    cross = sinkhorn(tx, ty, eps, cost, tol, a=wa, b=wb, max_iterations=max_iterations)
    selves = [_self_cost(t, w, eps, cost, tol, max_iterations) for t, w in ((tx, wa), (ty, wb))]
    value = cross.value - 0.5 * (selves[0].value + selves[1].value)
    lazy = {
        "plan": lambda: hand_back(cross.plan, as_numpy),
        "potentials": lambda: tuple(hand_back(h, as_numpy) for h in cross.potentials),
        "transport_cost": lambda: hand_back(cross.transport_cost, as_numpy),
    }
    return Result(
        value=hand_back(value, as_numpy),
        iterations=max(r.iterations for r in (cross, *selves)),
        marginal_error=max(r.marginal_error for r in (cross, *selves)),
        lazy=lazy,
    )


def _self_cost(x: Tensor, w: Tensor, eps: float, cost: CostName, tol: float, max_iterations: int) -> Result:
    """OT_ε(x, x): its two potentials are equal, which halves the work and speeds convergence."""
    whole = x if x.dim() == 3 else x[None]
    return finish((x,), between(whole, whole, cost), w, w, eps, tol, max_iterations, False, symmetric=True)


def semi_debiased(
    x: Any,
    y: Any,
    reg: float,
    p: float = 0.4,
    m: float = 1.0,
    tol: float = 1e-6,
    *,
    max_iterations: int = 10_000,
) -> Result:
    """DP-Sinkhorn's loss 2 Ŵ(X[0:n], Y) − Ŵ(X[0:n], X[n′:n+n′]), n′ = ⌊n·p⌋, for n + n′ generated points X.

    Ŵ is the regularised transport cost of `sinkhorn` under ‖·‖² + m‖·‖₁, whose gradient is the paper's: the cost's,
    averaged under the plan.

    Parameters
    ----------
    x
        Generated points X of shape (n + n′, d).
    y
        Points Y of shape (k, d).
    reg, tol, max_iterations
        As for `sinkhorn`.
    p
        The share of points drawn anew, from 0 to 1: p = 0 compares X[0:n] with itself, p = 1 with points of its own.
    m
        The weight of ‖·‖₁.

    Returns
    -------
    Result
        `value`: the loss; differentiable in x and y. `details`: "cross" = 2 Ŵ(X[0:n], Y), the only term that sees Y,
        and "self", each differentiable; "n".

    Raises
    ------
    DataError
        If p is above 1, or the number of points is not n + ⌊n·p⌋ for any n.
    ConvergenceError
        If the tolerance was not reached.

    References
    ----------
    Cao, Bie, Vahdat, Fidler & Kreis 2021, "Don't Generate Me", definition 4.3.

    Examples
    --------
    >>> loss = semi_debiased([[0.0], [1.0], [2.0]], [[0.0], [1.0]], reg=0.5, p=0.5)
    >>> loss.details["n"], loss.value == loss.details["cross"] - loss.details["self"]
    (2, True)
    """
    p = arguments.real("p", p, strict=False)
    if p > 1.0:
        raise DataError(f"p is the share of X drawn anew and must be at most 1, got {p:g}.")
    tx, ty, as_numpy = points(x, y)
    n = split_size(len(tx), p)
    fresh = len(tx) - n
    cost: CostName = ("mixture", m)
    cross = sinkhorn(tx[:n], ty, reg, cost, tol, max_iterations=max_iterations)
    own = sinkhorn(tx[:n], tx[fresh:], reg, cost, tol, max_iterations=max_iterations)
    terms = {"cross": 2.0 * cross.value, "self": own.value}
    return Result(
        value=hand_back(terms["cross"] - terms["self"], as_numpy),
        iterations=max(cross.iterations, own.iterations),
        marginal_error=max(cross.marginal_error, own.marginal_error),
        details={**{name: hand_back(torch.as_tensor(v), as_numpy) for name, v in terms.items()}, "n": n},
    )


def split_size(total: int, p: float) -> int:
    """The n with n + ⌊n·p⌋ = total."""
    n = round(total / (1.0 + p))
    for size in (n - 1, n, n + 1):
        if size > 0 and size + int(size * p) == total:
            return size
    raise DataError(f"{total} points are not n + floor(n·{p:g}) for any n: draw one more or one fewer.")
