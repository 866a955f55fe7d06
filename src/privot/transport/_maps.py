"""What a plan does to points: barycentric maps, displacement interpolation, and Gaussians in closed form."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from privot.common import arguments
from privot.errors import DataError
from privot.transport._exact import exact
from privot.transport._solvers.arrays import check_finite, points, tensors
from privot.transport._solvers.results import Result, attach, hand_back


def barycentric_map(x: Any, y: Any, p: float = 2, a: Any = None, b: Any = None, plan: Any = None) -> Result:
    """T(x_i) = Σ_j P_ij y_j / Σ_j P_ij: the mean place that each x_i goes to under the optimal plan, or a given one.

    Parameters
    ----------
    x, y
        Points of shape (n, d) and (m, d), arrays or tensors.
    p, a, b
        Of the optimal plan: its order and weights, as for `exact`.
    plan
        A plan of shape (n, m) to use instead.

    Returns
    -------
    Result
        `value`: points of shape (n, d); differentiable in y, the plan held fixed. A point that sends no mass stays
        where it is.

    Raises
    ------
    DataError
        If the shapes do not fit, or a number is not finite.

    References
    ----------
    Ferradans, Papadakis, Peyré & Aujol 2014, "Regularized discrete optimal transport".

    Examples
    --------
    >>> barycentric_map([[0.0], [1.0]], [[3.0], [2.0]]).value.tolist()
    [[2.0], [3.0]]
    """
    tx, ty, as_numpy = points(x, y)
    mapped = _mapped(tx, ty, p, a, b, plan)
    return Result(value=hand_back(mapped, as_numpy))


def interpolate(x: Any, y: Any, t: float, p: float = 2, a: Any = None, b: Any = None, plan: Any = None) -> Result:
    """The points on their way to y, (1 − t)·x + t·T(x), T the barycentric map of the optimal plan.

    For equal sizes and uniform weights this is the geodesic of W_p.

    Parameters
    ----------
    x, y
        Points of shape (n, d) and (m, d), arrays or tensors.
    t
        How far they went, from 0 to 1.
    p, a, b, plan
        As for `barycentric_map`.

    Returns
    -------
    Result
        `value`: points of shape (n, d); differentiable in x and y, the plan held fixed.

    Raises
    ------
    DataError
        If t is above 1, the shapes do not fit, or a number is not finite.

    References
    ----------
    McCann 1997, "A convexity principle for interacting gases".

    Examples
    --------
    >>> interpolate([[0.0], [1.0]], [[3.0], [2.0]], t=0.5).value.tolist()
    [[1.0], [2.0]]
    """
    t = arguments.real("t", t, strict=False)
    if t > 1.0:
        raise DataError(f"t must lie from 0 to 1, got {t:g}.")
    tx, ty, as_numpy = points(x, y)
    return Result(value=hand_back((1.0 - t) * tx + t * _mapped(tx, ty, p, a, b, plan), as_numpy))


def _mapped(x: Tensor, y: Tensor, p: float, a: Any, b: Any, plan: Any) -> Tensor:
    if plan is None:
        P = exact(x.detach(), y.detach(), p, a, b).plan
    else:
        (P,), _ = tensors(("plan", plan))
        P = P.detach().to(x.detach())
        if tuple(P.shape) != (len(x), len(y)):
            raise DataError(f"plan has shape {tuple(P.shape)} but must have ({len(x)}, {len(y)}).")
        check_finite("plan", P)
    mass = P.sum(1, keepdim=True)
    return torch.where(mass > 0, (P @ y) / torch.where(mass > 0, mass, torch.ones_like(mass)), x.detach())


def bures(mean_x: Any, cov_x: Any, mean_y: Any, cov_y: Any) -> Result:
    """W_2 between Gaussians in closed form: W_2² = ‖m − m′‖² + tr(Σ + Σ′ − 2 (Σ^½ Σ′ Σ^½)^½).

    Parameters
    ----------
    mean_x, mean_y
        m and m′, of shape (d,).
    cov_x, cov_y
        Σ and Σ′, of shape (d, d): symmetric, without negative eigenvalues.

    Returns
    -------
    Result
        `value`: the distance; differentiable: ∂W_2²/∂Σ = I − Σ^−½ (Σ^½ Σ′ Σ^½)^½ Σ^−½, the pseudo-inverse where Σ is
        singular.

    Raises
    ------
    DataError
        If the shapes do not fit, a number is not finite, or a matrix is no covariance.

    References
    ----------
    Dowson & Landau 1982, "The Fréchet distance between multivariate normal distributions".

    Examples
    --------
    >>> bures([0.0], [[1.0]], [3.0], [[25.0]]).value  # √(3² + (5 − 1)²)
    5.0
    """
    names = ("mean_x", "cov_x", "mean_y", "cov_y")
    (m, s, k, r), as_numpy = tensors(*zip(names, (mean_x, cov_x, mean_y, cov_y), strict=True))
    for name, mean, cov in (("x", m, s), ("y", k, r)):
        if mean.dim() != 1 or mean.numel() == 0 or tuple(cov.shape) != (len(mean), len(mean)):
            raise DataError(f"mean_{name} must have shape (d,) and cov_{name} (d, d).")
        check_finite(f"mean_{name}", mean)
        check_finite(f"cov_{name}", cov)
    if len(m) != len(k):
        raise DataError(f"The Gaussians have {len(m)} and {len(k)} dimensions: they do not lie in one space.")
    covs = [_checked(name, cov.detach()) for name, cov in (("cov_x", s), ("cov_y", r))]
    half_x, half_y = (sqrtm(cov) for cov in covs)
    # tr (Σ^½ Σ′ Σ^½)^½ is the sum of the singular values of Σ^½ Σ′^½, which squares no small number away.
    shift = (m - k).detach()
    overlap = torch.linalg.svdvals(half_x @ half_y).sum()
    square = (shift @ shift + covs[0].trace() + covs[1].trace() - 2.0 * overlap).clamp_(min=0.0)
    value = square.sqrt()
    if any(t.requires_grad for t in (m, s, k, r)):
        slope = torch.where(value > 0, 0.5 / value, torch.zeros_like(value))
        gs, gr = (slope * _slope(one, other) for one, other in ((half_x, half_y), (half_y, half_x)))
        value = attach(value, (m, 2.0 * slope * shift), (k, -2.0 * slope * shift), (s, gs), (r, gr))
    return Result(value=hand_back(value, as_numpy))


def sqrtm(cov: Tensor) -> Tensor:
    """Σ^½ of a symmetric positive semi-definite matrix."""
    eigenvalues, vectors = torch.linalg.eigh(cov)
    root: Tensor = (vectors * eigenvalues.clamp(min=0.0).sqrt()) @ vectors.mT
    return root


def _checked(name: str, cov: Tensor) -> Tensor:
    size = float(cov.abs().max())
    slack = 1e4 * torch.finfo(cov.dtype).eps * size
    if float((cov - cov.T).abs().max()) > slack or float(torch.linalg.eigvalsh(cov)[0]) < -slack:
        raise DataError(f"{name} is no covariance: it must be symmetric with no negative eigenvalue.")
    return (cov + cov.T) / 2.0


def _slope(half: Tensor, other: Tensor) -> Tensor:
    inverse = torch.linalg.pinv(half, hermitian=True)
    cross = half @ other
    transport: Tensor = inverse @ sqrtm(cross @ cross.T) @ inverse
    return torch.eye(len(half), dtype=half.dtype, device=half.device) - transport
