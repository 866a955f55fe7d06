"""Takes NumPy arrays or tensors in at the surface and refuses what no distance can be computed from."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from privot.errors import DataError, UsageError, brief

FLOATS = (torch.float32, torch.float64)
SUM_SLACK = 1e-5
"""How far weights may be from summing to one: what float32 leaves of an honest normalisation."""


def check_finite(name: str, x: Tensor) -> None:
    """Refuse NaN and infinities."""
    # A sum is finite only if every term is; one that overflows is looked at again term by term.
    if not bool(torch.isfinite(x.detach().sum())) and not bool(torch.isfinite(x.detach()).all()):
        raise DataError(f"{name} holds NaN or infinite values: remove or replace those rows.")


def tensors(*named: tuple[str, Any]) -> tuple[list[Tensor], bool]:
    """Each array as a floating tensor, all of one dtype on one device, and whether all came from NumPy.

    Among NumPy arrays float64 wins over float32, and integers become float64. Beside a tensor, NumPy arrays
    take its dtype and device. Two tensors that disagree are refused: silently copying data between devices or
    losing digits is the caller's decision.
    """
    given = [(name, value) for name, value in named if isinstance(value, Tensor)]
    for name, value in given:
        if value.dtype not in FLOATS:
            raise UsageError(f"{name} is a tensor of {value.dtype}: convert it to float32 or float64.")
    if given:
        first, like = given[0]
        for name, value in given[1:]:
            if value.dtype != like.dtype or value.device != like.device:
                raise UsageError(
                    f"{first} is {like.dtype} on {like.device} but {name} is {value.dtype} on {value.device}: "
                    "bring them together first."
                )
        return [value if isinstance(value, Tensor) else _read(name, value).to(like) for name, value in named], False
    read = [_read(name, value) for name, value in named]
    dtype = torch.float64 if any(t.dtype == torch.float64 for t in read) else torch.float32
    return [t.to(dtype) for t in read], True


def _read(name: str, value: Any) -> Tensor:
    try:
        array = np.asarray(value)
    except ValueError:
        raise DataError(f"{name} is not an array of numbers: its rows differ in length.") from None
    if array.dtype.kind not in "fiub":
        raise DataError(f"{name} is not an array of numbers: it holds {brief(array.dtype)}.")
    small = array.dtype.kind == "f" and array.dtype.itemsize <= 4
    return from_array(np.ascontiguousarray(array, dtype=np.float32 if small else np.float64))


def from_array(array: Any) -> Tensor:
    """An array as a tensor that shares its memory; one that may not be written to is copied, since PyTorch cannot
    keep anybody from writing to it, and warns of that.
    """
    held = np.ascontiguousarray(array)
    return torch.from_numpy(held if held.flags.writeable else held.copy())


def points(x: Any, y: Any, batched: bool = False, check: bool = True) -> tuple[Tensor, Tensor, bool]:
    """x as (n, d), y as (m, d) and whether both came from NumPy; a flat array is n points on a line.

    With `batched`, (B, n, d) against (B, m, d) passes too.
    """
    (tx, ty), as_numpy = tensors(("x", x), ("y", y))
    pair = []
    for name, t in (("x", tx), ("y", ty)):
        if t.dim() == 1:
            t = t[:, None]
        if t.dim() != 2 and not (batched and t.dim() == 3):
            raise DataError(f"{name} must have shape (points, dimensions), got {tuple(t.shape)}.")
        if t.numel() == 0:
            raise DataError(f"{name} is empty (shape {tuple(t.shape)}): give at least one point.")
        if check:
            check_finite(name, t)
        pair.append(t)
    tx, ty = pair
    if tx.dim() != ty.dim() or tx.shape[-1] != ty.shape[-1] or tx.shape[:-2] != ty.shape[:-2]:
        raise DataError(f"x of shape {tuple(tx.shape)} and y of shape {tuple(ty.shape)} do not lie in one space.")
    return tx, ty, as_numpy


def weights(name: str, given: Any, shape: tuple[int, ...], like: Tensor) -> Tensor:
    """The weights of the points: uniform unless given; non-negative, summing to one along the last axis."""
    if given is None:
        return torch.full(shape, 1.0 / shape[-1], dtype=like.dtype, device=like.device)
    w = given if isinstance(given, Tensor) else _read(name, given).to(like.device)
    if w.dtype not in FLOATS:
        raise UsageError(f"{name} is a tensor of {w.dtype}: convert it to float32 or float64.")
    w = w.to(dtype=like.dtype)
    if w.device != like.device:
        raise UsageError(f"{name} is on {w.device} but the points are on {like.device}: bring them together first.")
    if tuple(w.shape) != shape and tuple(w.shape) != shape[-1:]:
        raise DataError(f"{name} has shape {tuple(w.shape)} but there are {shape} points: give one weight per point.")
    check_finite(name, w)
    if bool((w < 0).any()):
        raise DataError(f"{name} holds negative weights: masses must be at least 0.")
    total = w.sum(-1, keepdim=True)
    off = float((total.detach().double() - 1.0).abs().max())
    if off > SUM_SLACK:
        raise DataError(f"{name} sums to {float(total.detach().reshape(-1)[0]):.6g}, not to 1: divide it by its sum.")
    return (w / total).expand(shape)


def fixed(name: str, w: Tensor) -> Tensor:
    """`w`, if nobody asks for its gradient: this method has none with respect to weights."""
    if w.requires_grad:
        raise UsageError(f"{name} asks for a gradient, which only `sinkhorn` gives: detach it.")
    return w
