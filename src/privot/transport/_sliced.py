"""Sliced Wasserstein distances: means and maxima of one-dimensional ones over directions, in bounded memory."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from privot.common import arguments
from privot.errors import ConvergenceError, DataError, UsageError
from privot.transport import cuda
from privot.transport._solvers.arrays import check_finite, fixed, from_array, points, weights
from privot.transport._solvers.results import Result, attach, hand_back
from privot.transport._univariate import compare_rows, root
from privot.transport.device_directions import Frames, draw_on_device, normals_of
from privot.transport.slice_directions import (
    Frame,
    check_seed,
    check_whole,
    draw_directions,
    drawn_fresh,
    fresh_seed,
)

BLOCK = {"cpu": 1 << 18, "cuda": 1 << 26}
"""Projected values held at once: on a CPU what its cache holds, on a GPU what keeps it busy."""
LONGEST_BLOCK = 1 << 15
"""Slices in a block: a launch has at most 65,535 rows of programs."""

LARGEST_KEPT = 1 << 22
"""Numbers in directions that are kept for the next call with the same seed."""

Noise = Callable[[tuple[int, int], torch.device, torch.dtype], Tensor]


def sliced(
    x: Any,
    y: Any,
    p: float = 2,
    directions: Any = None,
    slices: int = 1000,
    seed: int | None = None,
    *,
    a: Any = None,
    b: Any = None,
    frame: Frame = "orthogonal",
    smoothed: tuple[float, Noise] | None = None,
    check: bool = True,
) -> Result:
    """The sliced Wasserstein distance SW_p(x, y) = ((1/k) Σ_j W_p^p(x u_j, y u_j))^(1/p) over k directions u_j.

    Parameters
    ----------
    x, y
        Points of shape (n, d) and (m, d), arrays or tensors.
    p
        Any order p ≥ 1.
    directions
        Columns of length 1, of shape (d, k). Without them `slices` are drawn from `seed`.
    slices, seed, frame
        How many directions are drawn, from which seed, and whether in orthonormal frames ("orthogonal"), which lowers
        the variance, or independently ("independent"). A seed of your own gives those of `draw_directions` on any
        device. Without one they are drawn where the points are, much faster, and `details["seed"]` gives them again on
        that kind of device.
    a, b
        Weights of shape (n,) and (m,), not negative and of sum 1; uniform unless given.
    smoothed
        (σ, noise) adds σ·noise(shape, device, dtype) to every projection of both sides: the smoothed distance.
    check
        False skips the search for NaN, and with it a wait for the GPU, and the scaling that keeps powers of very large
        or very small numbers in range.

    Returns
    -------
    Result
        `value`: the distance; differentiable in x and y. The gradient is summed up in the forward pass, and nothing n ×
        k is kept. `details`: "costs", W_p^p of each slice; "seed", of the directions drawn.

    Raises
    ------
    DataError
        If the shapes do not fit, a number is not finite, or a direction is not of length 1.
    UsageError
        If another parameter is out of range.

    References
    ----------
    Bonneel, Rabin, Peyré & Pfister 2015, "Sliced and Radon Wasserstein barycenters of measures"; the smoothed distance:
    Rakotomamonjy & Ralaivola 2021, "Differentially private sliced Wasserstein distance".

    Examples
    --------
    >>> sliced([[0.0, 0.0]], [[3.0, 4.0]], slices=2, seed=1).value  # of a whole frame: ‖x − y‖/√d
    3.5355339059327378
    """
    p = arguments.real("p", p, 1.0, strict=False)
    tx, ty, as_numpy = points(x, y, check=False)
    seed = _seed_of(directions, slices, frame, seed)
    # those nobody chose are drawn below, where a graph does not draw them itself
    U: Tensor | Frames | None = None
    if seed is None or not drawn_fresh(seed):
        U = _directions(directions, tx, slices, frame, seed)
    sigma, noise = smoothed if smoothed is not None else (0.0, None)
    sigma = arguments.real("The smoothing σ", sigma, strict=False)
    if noise is not None and not callable(noise):
        raise UsageError("smoothed must be (sigma, noise) with noise a function of (shape, device, dtype).")
    wa = None if a is None else fixed("a", weights("a", a, (len(tx),), tx))
    wb = None if b is None else fixed("b", weights("b", b, (len(ty),), ty))
    if noise is None:
        fused = _fused(tx, ty, wa, wb)
        k, drawing = (slices, frame) if U is None else (U.shape[1], None)
        graph = fused and fused.graph_for(tx, k, p, tx.requires_grad, ty.requires_grad, check, drawing)
        if graph:
            # the tensor that was given, so that the same one is recognised at the next call
            along = seed if U is None else directions if isinstance(directions, Tensor) else U
            value, costs, grads = graph(tx.detach(), ty.detach(), along)
            if any(g is not None for g in grads):
                value = attach(value, *zip((tx, ty), grads, strict=True))
            # looked at last, while the device works; what did not pass is told below
            if not check or graph.passed():
                return Result(value=value, details={"costs": costs, "seed": seed})
    if U is None:
        U = _fresh(tx, ty, slices, frame, seed)
    scale: Tensor | float = 1.0
    if check:
        check_finite("x", tx)
        check_finite("y", ty)
        if isinstance(U, Tensor) and directions is not None:
            _check_directions(U)
        scale = _scale(tx, ty).clamp(min=sigma if noise is not None else 0.0)
        if isinstance(U, Frames) or (seed is not None and drawn_fresh(seed)):
            U.div_(scale)  # kept for nobody, and large
        else:
            U = U / scale
    added = None if noise is None or sigma == 0.0 else (sigma / scale, noise)
    costs, gx, gy = slice_costs(tx.detach(), ty.detach(), U, p, wa, wb, tx.requires_grad, ty.requires_grad, added)
    value, slope = root(costs.mean(), p)
    if check:
        value = value * scale
    if gx is not None or gy is not None:
        factor = slope * (scale / U.shape[1])
        value = attach(value, (tx, None if gx is None else gx * factor), (ty, None if gy is None else gy * factor))
    details = {"costs": hand_back(costs * scale**p if check else costs, as_numpy), "seed": seed}
    return Result(value=hand_back(value, as_numpy), details=details)


def slice_costs(
    x: Tensor,
    y: Tensor,
    U: Tensor | Frames,
    p: float,
    a: Tensor | None,
    b: Tensor | None,
    need_x: bool,
    need_y: bool,
    smoothed: tuple[Tensor | float, Noise] | None = None,
) -> tuple[Tensor, Tensor | None, Tensor | None]:
    """(W_p^p of each slice, the gradients of their *sum* in x and y where asked for), a block at a time."""
    width = min(LONGEST_BLOCK, max(1, BLOCK.get(x.device.type, BLOCK["cuda"]) // max(len(x), len(y))))
    # frames are projected on whole, which takes less than their columns would
    blocks: Any = (U,) if isinstance(U, Frames) else torch.split(U.T, width)
    fused = _fused(x, y, a, b)
    gx = torch.zeros_like(x) if need_x else None
    gy = torch.zeros_like(y) if need_y else None
    costs = []
    for u in blocks:
        if isinstance(u, Frames):
            zx, zy = torch.split(u.project(torch.cat((x, y))), [len(x), len(y)], 1)
        else:
            zx, zy = (u @ x.T, u @ y.T) if fused is None else (fused.project(u, x), fused.project(u, y))
        if smoothed is not None:
            sigma, noise = smoothed
            zx += sigma * noise((zx.shape[0], zx.shape[1]), x.device, x.dtype)
            zy += sigma * noise((zy.shape[0], zy.shape[1]), y.device, y.dtype)
        if fused is None:
            cost, sx, sy = compare_rows(zx, zy, p, a, b, need_x, need_y)
        else:
            cost, sx, sy = fused.compare_slices(zx, zy, p, need_x, need_y)
        costs.append(cost)
        for g, slopes in ((gx, sx), (gy, sy)):
            if g is not None and slopes is not None:
                _ = g.add_(u.combine(slopes)) if isinstance(u, Frames) else g.addmm_(slopes.T, u)
    return torch.cat(costs), gx, gy


def _fused(x: Tensor, y: Tensor, a: Tensor | None, b: Tensor | None) -> Any:
    """The kernels that compare equally many equally weighted points on CUDA, or None where the plain path is taken."""
    if x.device.type != "cuda" or a is not None or b is not None or not cuda.available():
        return None
    from privot.transport.cuda import sliced_kernels as fused

    return fused if fused.fits(x, y) else None


def max_sliced(
    x: Any,
    y: Any,
    p: float = 2,
    directions: Any = None,
    slices: int = 100,
    seed: int | None = None,
    *,
    tol: float = 1e-6,
    max_iterations: int = 1000,
) -> Result:
    """The max-sliced Wasserstein distance: the maximum over unit vectors u of W_p(x u, y u), by gradient ascent.

    The maximum is a local one, at least as large as at every starting direction. Ascent begins at the best of them,
    moves along the sphere, halves its step when it does not rise, and has converged when the step is below `tol`.

    Parameters
    ----------
    x, y
        Points of shape (n, d) and (m, d), arrays or tensors.
    p
        Any order p ≥ 1.
    directions
        Starting directions, columns of length 1, of shape (d, k). Without them `slices` are drawn from `seed`.
    slices, seed
        How many starting directions are drawn, and from which seed.
    tol, max_iterations
        The step at which ascent ends, and after how many steps it gives up.

    Returns
    -------
    Result
        `value`: the distance; differentiable in x and y at the direction found (envelope theorem). `details`:
        "direction", of shape (d,).

    Raises
    ------
    ConvergenceError
        If the direction still moves after `max_iterations` steps.
    DataError
        If the shapes do not fit, a number is not finite, or a direction is not of length 1.
    UsageError
        If another parameter is out of range.

    References
    ----------
    Deshpande et al. 2019, "Max-sliced Wasserstein distance and its use for GANs".

    Examples
    --------
    >>> round(max_sliced([[0.0, 0.0]], [[3.0, 4.0]], seed=1).value, 6)  # along y − x
    5.0
    """
    p = arguments.real("p", p, 1.0, strict=False)
    tol = arguments.real("tol", tol)
    tx, ty, as_numpy = points(x, y)
    U = _directions(directions, tx, slices, "orthogonal", _seed_of(directions, slices, "orthogonal", seed))
    if directions is not None:
        _check_directions(U)
    scale = _scale(tx, ty)
    x0, y0 = tx.detach() / scale, ty.detach() / scale
    costs, _, _ = slice_costs(x0, y0, U, p, None, None, False, False)
    u = U[:, int(costs.argmax())]
    best, slope = _rise(x0, y0, u, p)
    step, iterations = 0.5, 0
    while step > tol and float(slope.norm()) > 0.0:
        if iterations == max_iterations:
            raise ConvergenceError(
                f"The direction of max_sliced still moves by {step:.1g} after {max_iterations} steps (tolerance "
                f"{tol:.1g}): raise max_iterations or tol."
            )
        iterations += 1
        tangent = slope - (slope @ u) * u
        length = float(tangent.norm())
        if length <= tol * float(slope.norm()):
            break
        trial = torch.nn.functional.normalize(u + (step / length) * tangent, dim=0)
        value, trial_slope = _rise(x0, y0, trial, p)
        if bool(value > best):
            u, best, slope, step = trial, value, trial_slope, min(2.0 * step, 1.0)
        else:
            step *= 0.5
    # checked, for the scaling that comes with it: powers of very large numbers would overflow
    end = sliced(tx, ty, p, directions=u[:, None])
    details = {"direction": hand_back(u, as_numpy)}
    return Result(value=hand_back(end.value, as_numpy), iterations=iterations, details=details)


def _rise(x: Tensor, y: Tensor, u: Tensor, p: float) -> tuple[Tensor, Tensor]:
    """(W_p^p(x u, y u), its gradient with respect to u)."""
    cost, sx, sy = compare_rows((x @ u)[None], (y @ u)[None], p, None, None, True, True)
    if sx is None or sy is None:  # unreachable: both were asked for
        raise AssertionError
    return cost[0], sx[0] @ x + sy[0] @ y


def _scale(x: Tensor, y: Tensor) -> Tensor:
    """The largest coordinate, so that no p-th power of a projection overflows or vanishes."""
    size = torch.maximum(x.detach().abs().amax(), y.detach().abs().amax())
    return torch.where(size > 0, size, torch.ones_like(size))


def _seed_of(given: Any, slices: int, frame: Frame, seed: int | None) -> int | None:
    """The seed that directions are drawn from; None where they are given."""
    if given is not None:
        return None
    check_whole("The number of slices", slices, 1)
    arguments.check_frame(frame)
    return fresh_seed() if seed is None else check_seed(seed)


def _fresh(x: Tensor, y: Tensor, slices: int, frame: Frame, seed: int | None) -> Tensor | Frames:
    """Directions nobody chose: as reflections where so few points are reflected at less cost than columns are made."""
    few = 2 * (len(x) + len(y)) <= x.shape[1]
    if seed is not None and few and frame == "orthogonal" and x.device.type == "cpu":
        return Frames(x.shape[1], slices, normals_of(seed, x.device, x.dtype))
    return _directions(None, x, slices, frame, seed)


def _directions(given: Any, x: Tensor, slices: int, frame: Frame, seed: int | None) -> Tensor:
    """Columns, like `x`, drawn from a seed or given, and not yet checked."""
    if seed is not None:
        draw = _drawn if drawn_fresh(seed) or x.shape[1] * slices > LARGEST_KEPT else _kept
        return draw(x.shape[1], slices, frame, seed, x.device, x.dtype)
    U = given if isinstance(given, Tensor) else from_array(given)
    U = U.detach().to(x)
    if U.dim() != 2 or U.shape[0] != x.shape[1] or U.shape[1] == 0:
        raise DataError(f"directions have shape {tuple(U.shape)} but must have ({x.shape[1]}, k), one per column.")
    return U


def _drawn(dim: int, slices: int, frame: Frame, seed: int, device: torch.device, dtype: torch.dtype) -> Tensor:
    if drawn_fresh(seed):
        return draw_on_device(dim, slices, frame, seed, device, dtype)
    return torch.from_numpy(draw_directions(dim, slices, frame, seed)).to(device=device, dtype=dtype)


_kept = lru_cache(maxsize=8, typed=True)(_drawn)
"""Directions of a chosen seed are drawn once: drawing takes longer than a small distance. Nobody may write to them."""


def _check_directions(U: Tensor) -> None:
    check_finite("directions", U)
    if bool(((U * U).sum(0) - 1.0).abs().max() > 1e-3):
        raise DataError("directions must be columns of length 1: divide each by its norm.")
