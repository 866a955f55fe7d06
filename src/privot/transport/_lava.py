"""Calibrated gradients: how much each point adds to a transport distance (LAVA)."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray

from privot.common import arguments
from privot.errors import UsageError, brief
from privot.transport._exact import couple, dual_gaps
from privot.transport._sinkhorn import sinkhorn
from privot.transport._solvers.arrays import points
from privot.transport._solvers.results import Result, hand_back

MAX_POINTS = 2000


def calibrated_gradients(
    x: Any,
    y: Any,
    *,
    method: Literal["entropic", "exact"] = "entropic",
    reg: float | None = None,
    tol: float = 1e-6,
    max_iterations: int = 10_000,
) -> Result:
    """LAVA: how much mass at each point of x adds to the distance from y, f_i − (1/(n−1)) Σ_{k≠i} f_k.

    f is the dual potential of x under the squared distance to y. High means that mass there makes the distance grow.

    Parameters
    ----------
    x, y
        Points of shape (n, d) and (m, d), arrays or tensors.
    method
        Exact duals are not unique, an interval can be hundreds wide. "entropic": the entropic dual, which is unique up
        to the constant that calibration removes. "exact": the midpoint: with D the tightest bounds f_i − f_k ≤ D_ik,
        f_i = ½ mean_k (D_ik − D_ki), itself an optimal dual; it costs n³ and takes at most 2000 points.
    reg
        Of the entropic dual; 5 % of the mean cost unless given.
    tol, max_iterations
        As for `sinkhorn`.

    Returns
    -------
    Result
        `value`: one number per point of x, of shape (n,).

    Raises
    ------
    UsageError
        If the method is unknown, or there are too many points for "exact".
    DataError
        If the shapes do not fit, or a number is not finite.
    ConvergenceError
        If the tolerance was not reached.

    Notes
    -----
    All mass of x goes to y: where x holds one point too many of a far-off group (of a class, if labels are columns),
    all of that group score badly, good or not; `privot.valuation` relaxes the masses of y for that reason.

    References
    ----------
    Just, Kang, Wang et al. 2023, "LAVA: data valuation without pre-specified learning algorithms".

    Examples
    --------
    >>> scores = calibrated_gradients([[0.0], [1.0], [9.0]], [[0.0], [0.5], [1.0]], method="exact").value
    >>> int(scores.argmax())  # the point far off
    2
    """
    tx, ty, as_numpy = points(x, y)
    tx, ty = tx.detach(), ty.detach()
    iterations, error = 0, 0.0
    if method == "entropic":
        centre = ty.mean(0)
        spread = ((tx - centre) ** 2).sum(1).mean() + ((ty - centre) ** 2).sum(1).mean()
        reg = arguments.real("reg", reg if reg is not None else max(0.05 * float(spread), 1e-12))
        end = sinkhorn(tx, ty, reg, tol=tol, max_iterations=max_iterations)
        f, iterations, error = end.potentials[0], end.iterations, end.marginal_error
    elif method == "exact":
        if len(tx) > MAX_POINTS:
            raise UsageError(f"Exact calibration takes at most {MAX_POINTS} points, got {len(tx)}: use entropic.")
        x64, y64 = tx.double().cpu(), ty.double().cpu()
        f = torch.from_numpy(midpoint_duals(torch.cdist(x64, y64).square_().numpy())).to(tx)
    else:
        raise UsageError(f"Unknown method {brief(method)}: say entropic or exact.")
    others = max(len(f) - 1, 1)
    value = f - (f.sum() - f) / others if len(f) > 1 else torch.zeros_like(f)
    return Result(value=hand_back(value, as_numpy), iterations=iterations, marginal_error=error)


def midpoint_duals(cost: NDArray[np.float64]) -> NDArray[np.float64]:
    """½ mean_k (D_ik − D_ki), D all shortest paths (Floyd–Warshall) in the graph of `dual_gaps`.

    Every D_·k and −D_k· is an optimal dual, and so is their mean, because optimal duals are a convex set.
    """
    bounds = dual_gaps(cost, couple(cost, None, None))
    for k in range(len(bounds)):
        np.minimum(bounds, bounds[:, k : k + 1] + bounds[k : k + 1, :], out=bounds)
    mid: NDArray[np.float64] = (bounds.mean(1) - bounds.mean(0)) / 2.0
    return mid
