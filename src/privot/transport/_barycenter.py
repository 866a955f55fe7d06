"""Free-support Wasserstein barycenters: points that are, on the whole, nearest to several clouds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from privot.common import arguments
from privot.errors import ConvergenceError, DataError, UsageError
from privot.transport._exact import exact
from privot.transport._solvers.arrays import points, weights
from privot.transport._solvers.results import Result, hand_back
from privot.transport.slice_directions import check_seed, fresh_seed


def free_support_barycenter(
    clouds: Sequence[Any],
    size: int,
    weights_of_clouds: Any = None,
    seed: int | None = None,
    *,
    start: Any = None,
    tol: float = 1e-9,
    max_iterations: int = 200,
) -> Result:
    """A Wasserstein barycenter: `size` equally weighted points z that minimise Σ_c λ_c W_2²(z, cloud_c).

    The minimum is a local one. Exact plans alternate with z ← Σ_c λ_c T_c(z), T_c the barycentric map to cloud c; each
    round lowers the objective.

    Parameters
    ----------
    clouds
        Arrays or tensors of points, of shapes (n_c, d).
    size
        How many points the barycenter has.
    weights_of_clouds
        λ, of shape (clouds,), not negative and of sum 1; uniform unless given.
    seed
        Of the points of the clouds that the search starts from.
    start
        Points of shape (size, d) to start from instead.
    tol, max_iterations
        Converged means: no point moves by more than `tol` of the clouds' size.

    Returns
    -------
    Result
        `value`: the points, of shape (size, d). `details`: "objective".

    Raises
    ------
    ConvergenceError
        If points still move after `max_iterations` rounds.
    DataError
        If the shapes do not fit, or a number is not finite.
    UsageError
        If another parameter is out of range.

    References
    ----------
    Cuturi & Doucet 2014, "Fast computation of Wasserstein barycenters"; Álvarez-Esteban et al. 2016, "A fixed-point
    approach to barycenters in Wasserstein space".

    Examples
    --------
    >>> free_support_barycenter([[[0.0]], [[4.0]]], size=1, weights_of_clouds=[0.75, 0.25], seed=1).value.tolist()
    [[1.0]]
    """
    if not isinstance(clouds, Sequence) or len(clouds) == 0:
        raise UsageError("clouds must be a list of at least one array of points.")
    if isinstance(size, bool) or not isinstance(size, int) or size < 1:
        raise UsageError(f"size must be a whole number of at least 1, got {size!r}.")
    tol = arguments.real("tol", tol)
    pairs = [points(clouds[0], cloud) for cloud in clouds]
    as_numpy = all(pair[2] for pair in pairs)
    ys = [pair[1].detach() for pair in pairs]
    lam = weights("weights_of_clouds", weights_of_clouds, (len(ys),), ys[0]).detach()
    pool = torch.cat(ys)
    if start is None:
        generator = np.random.default_rng(fresh_seed() if seed is None else check_seed(seed))
        z = pool[torch.from_numpy(generator.choice(len(pool), size, replace=size > len(pool))).to(pool.device)]
    else:
        z = points(start, ys[0])[0].detach().to(pool).clone()
        if len(z) != size:
            raise DataError(f"start has {len(z)} points but size is {size}.")
    reach = float((pool - pool.mean(0)).abs().max()) or 1.0
    for iteration in range(1, max_iterations + 1):
        results = [exact(z, y) for y in ys]
        new = sum((w * size * (r.plan @ y) for w, r, y in zip(lam, results, ys, strict=True)), torch.zeros_like(z))
        move = float((new - z).abs().max())
        z = new
        if move <= tol * reach:
            objective = sum((w * r.value**2 for w, r in zip(lam, results, strict=True)), torch.zeros_like(lam[0]))
            details = {"objective": hand_back(objective, as_numpy)}
            return Result(value=hand_back(z, as_numpy), iterations=iteration, details=details)
    raise ConvergenceError(
        f"The barycenter still moved by {move:.2g} after {max_iterations} rounds, not {tol * reach:.2g}: raise "
        "max_iterations or tol."
    )
