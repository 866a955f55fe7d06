"""Distances between labelled data sets that need not share their labels (OTDD with Gaussian label statistics)."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from privot.common import arguments
from privot.errors import DataError, UsageError, brief
from privot.transport._exact import exact_matrix
from privot.transport._maps import sqrtm
from privot.transport._sinkhorn import sinkhorn
from privot.transport._solvers.arrays import points
from privot.transport._solvers.results import Result, hand_back

BLOCK = 1 << 22
"""Numbers of a block of rows of the classes' roots of covariances."""


def otdd(
    x: Any,
    labels_x: Any,
    y: Any,
    labels_y: Any,
    *,
    label_weight: float = 1.0,
    method: Literal["exact", "sinkhorn"] = "exact",
    reg: float | None = None,
    tol: float = 1e-6,
    max_iterations: int = 10_000,
) -> Result:
    """OTDD, the distance √(min_P Σ P_ij (‖x_i − y_j‖² + λ‖m_i − m_j‖² + λ‖Σ_i^½ − Σ_j^½‖_F²)) of labelled data sets.

    m and Σ are the mean and covariance of the class that a point belongs to, so each point stands for
    [x; √λ m; √λ vec(Σ^½)]. Classes of x and y need no correspondence.

    Parameters
    ----------
    x, y
        Points of shape (n, d) and (m, d), arrays or tensors.
    labels_x, labels_y
        One label per point, of shapes (n,) and (m,).
    label_weight
        λ.
    method
        "exact" answers with that distance; "sinkhorn" with the regularised transport *cost*, no root taken.
    reg, tol, max_iterations
        Of "sinkhorn", as for `sinkhorn`.

    Returns
    -------
    Result
        `value`; differentiable in x and y, the label statistics held fixed. `plan` of shape (n, m). `details`:
        "label_distances", squared, of shape (classes of x, classes of y).

    Raises
    ------
    DataError
        If the shapes do not fit, or a number is not finite.
    UsageError
        If the method is unknown, or "sinkhorn" has no `reg`.
    ConvergenceError
        If the tolerance was not reached.

    References
    ----------
    Alvarez-Melis & Fusi 2020, "Geometric dataset distances via optimal transport", with the commuting form of the Bures
    distance.

    Examples
    --------
    >>> x = [[0.0], [1.0], [5.0], [6.0]]
    >>> otdd(x, [0, 0, 1, 1], x, ["a", "a", "b", "b"]).value
    0.0
    """
    label_weight = arguments.real("label_weight", label_weight, strict=False)
    tx, ty, as_numpy = points(x, y)
    stats_x, which_x = _statistics("labels_x", tx.detach(), labels_x)
    stats_y, which_y = _statistics("labels_y", ty.detach(), labels_y)
    between_labels = torch.cdist(stats_x, stats_y, compute_mode="donot_use_mm_for_euclid_dist").square()
    cost = torch.cdist(tx, ty, compute_mode="donot_use_mm_for_euclid_dist").square()
    cost = cost + label_weight * between_labels[which_x][:, which_y]
    details = {"label_distances": hand_back(between_labels, as_numpy)}
    if method == "exact":
        end = exact_matrix(cost)
        positive = end.value > 0
        value = torch.where(positive, end.value, torch.ones_like(end.value)).sqrt() * positive
    elif method == "sinkhorn":
        if reg is None:
            raise UsageError("otdd with method='sinkhorn' needs reg.")
        end = sinkhorn(cost, None, reg, "precomputed", tol, max_iterations=max_iterations)
        value = end.value
    else:
        raise UsageError(f"Unknown method {brief(method)}: say exact or sinkhorn.")
    lazy = {"plan": lambda: hand_back(end.plan, as_numpy)}
    return Result(
        value=hand_back(value, as_numpy),
        iterations=end.iterations,
        marginal_error=end.marginal_error,
        details=details,
        lazy=lazy,
    )


def augmented(x: Any, labels: Any, label_weight: float = 1.0) -> Any:
    """[x; √λ m; √λ vec(Σ^½)] for every point, of dimension 2d + d²: OTDD as plain points, for small d.

    Where both sides are at hand, `augmented_pair` has the same distances in far fewer columns.
    """
    tx, _, as_numpy = points(x, x)
    stats, which = _statistics("labels", tx.detach(), labels)
    return hand_back(torch.cat((tx, label_weight**0.5 * stats[which]), 1), as_numpy)


def augmented_pair(x: Any, labels_x: Any, y: Any, labels_y: Any, label_weight: float = 1.0) -> tuple[Any, Any]:
    """Both sides as plain points whose distances are those of `augmented`, with one column per class and not d².

    A point stands for [x; √λ r_c]. r_c are the coordinates of its class's [m; vec(Σ^½)] in an orthonormal basis of what
    the classes of both sides span, so that ‖r_c − r_c′‖² = ‖m − m′‖² + ‖Σ^½ − Σ′^½‖² exactly: an isometry. There are at
    most as many such columns as classes. With V the matrix whose columns are the [m; vec(Σ^½)], V = QR, and r_c is the
    c-th column of R; Q is never formed, and of V only some rows at a time.

    >>> one = [[0.0, 0.0], [1.0, 0.0], [5.0, 5.0], [6.0, 7.0]]
    >>> a, b = augmented_pair(one, [0, 0, 1, 1], one, [1, 1, 0, 0])
    >>> a.shape
    (4, 6)
    """
    label_weight = arguments.real("label_weight", label_weight, strict=False)
    tx, ty, as_numpy = points(x, y)
    (roots_x, which_x), (roots_y, which_y) = (
        _roots(name, side.detach(), labels)
        for name, side, labels in (("labels_x", tx, labels_x), ("labels_y", ty, labels_y))
    )
    rows = label_weight**0.5 * _coordinates([*roots_x, *roots_y])
    one = torch.cat((tx, rows[which_x]), 1)
    two = torch.cat((ty, rows[which_y + len(roots_x)]), 1)
    return hand_back(one, as_numpy), hand_back(two, as_numpy)


def _coordinates(roots: list[tuple[Tensor, Tensor, Tensor]]) -> Tensor:
    """One row per class (m, V, s), Σ^½ = V diag(s) Vᵀ: R of the QR of all [m; vec(Σ^½)], taken in blocks of rows."""
    means = torch.stack([mean for mean, _, _ in roots], 1)
    upper: Tensor = torch.linalg.qr(means, mode="r").R
    columns = len(means)
    height = max(1, BLOCK // (columns * len(roots)))
    for start in range(0, columns, height):
        part = slice(start, start + height)
        block = torch.stack([((v[part] * s) @ v.T).reshape(-1) for _, v, s in roots], 1)
        upper = torch.linalg.qr(torch.cat((upper, block)), mode="r").R
    return upper.T


def _roots(name: str, x: Tensor, labels: Any) -> tuple[list[tuple[Tensor, Tensor, Tensor]], Tensor]:
    """(m, V, s) of each class present, Σ^½ = V diag(s) Vᵀ; and which of them each point belongs to."""
    count, which = _classes(name, x, labels)
    found = []
    for c in range(count):
        members = x[which == c]
        mean = members.mean(0)
        _, size, directions = torch.linalg.svd(members - mean, full_matrices=False)
        found.append((mean, directions.T, size / len(members) ** 0.5))
    return found, which


def _statistics(name: str, x: Tensor, labels: Any) -> tuple[Tensor, Tensor]:
    """([m; vec(Σ^½)] of each class present, which of them each point belongs to)."""
    count, which = _classes(name, x, labels)
    rows = []
    for c in range(count):
        members = x[which == c]
        mean = members.mean(0)
        centred = members - mean
        rows.append(torch.cat((mean, sqrtm(centred.T @ centred / len(members)).reshape(-1))))
    return torch.stack(rows), which


def _classes(name: str, x: Tensor, labels: Any) -> tuple[int, Tensor]:
    """(how many classes are present, which of them each point belongs to)."""
    marks = labels.detach().cpu().numpy() if isinstance(labels, Tensor) else np.asarray(labels)
    if marks.shape != (len(x),):
        raise DataError(f"{name} must hold one label per point: {len(x)} points, labels of shape {marks.shape}.")
    if marks.dtype.kind == "f" and not np.isfinite(marks).all():
        raise DataError(f"{name} holds NaN or infinite labels: remove or replace those rows.")
    names, which = np.unique(marks, return_inverse=True)
    return len(names), torch.from_numpy(which).to(x.device)
