"""Means of absolute values over the positions of a region, and their gradients, in one pass each on CUDA.

Torch takes seven passes over the outputs of a bank of filters, the largest arrays of a training step. Triton is
imported only where there is a CUDA device.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

_COLUMNS = 256


@triton.jit
def _means(found, out, columns, filters, down: tl.constexpr, across: tl.constexpr, block: tl.constexpr):
    """out[region, f] = mean over the region's positions of |found|."""
    region = tl.program_id(0).to(tl.int64)
    f = tl.program_id(1) * block + tl.arange(0, block)
    held = f < filters
    row, column = region // columns, region % columns
    total = tl.zeros([block], tl.float32)
    for i in range(down):
        for j in range(across):
            at = ((row * down + i) * columns + column) * across + j
            total += tl.abs(tl.load(found + at * filters + f, mask=held, other=0.0).to(tl.float32))
    tl.store(out + region * filters + f, total / (down * across), mask=held)


@triton.jit
def _slopes(found, given, scale, out, columns, filters, down: tl.constexpr, across: tl.constexpr, block: tl.constexpr):
    """out = scale · given · sign(found), at every position of the region."""
    region = tl.program_id(0).to(tl.int64)
    f = tl.program_id(1) * block + tl.arange(0, block)
    held = f < filters
    row, column = region // columns, region % columns
    slope = tl.load(given + region * filters + f, mask=held, other=0.0) * tl.load(scale)
    for i in range(down):
        for j in range(across):
            at = (((row * down + i) * columns + column) * across + j) * filters + f
            value = tl.load(found + at, mask=held, other=0.0).to(tl.float32)
            turned = tl.where(value > 0.0, slope, tl.where(value < 0.0, -slope, 0.0))
            tl.store(out + at, turned.to(out.dtype.element_ty), mask=held)


def _sizes(found: torch.Tensor) -> tuple[int, int, int, int, int]:
    """Regions in all, in a row, filters, positions down and across, of (rows, down, side, across, side, filters)."""
    n, rows, down, columns, across, filters = found.shape
    return n * rows * columns, columns, filters, down, across


def region_means(found: torch.Tensor) -> torch.Tensor:
    """(rows, down, across, filters) in float32 from contiguous (rows, down, side, across, side, filters)."""
    regions, columns, filters, down, across = _sizes(found)
    out = found.new_empty((found.shape[0], found.shape[1], columns, filters), dtype=torch.float32)
    grid = (regions, triton.cdiv(filters, _COLUMNS))
    _means[grid](found, out, columns, filters, down=down, across=across, block=_COLUMNS)
    return out


def region_slopes(found: torch.Tensor, given: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    """scale · given · sign(found), of the shape and type of `found`, given the gradients of `region_means`."""
    regions, columns, filters, down, across = _sizes(found)
    out = torch.empty_like(found)
    grid = (regions, triton.cdiv(filters, _COLUMNS))
    _slopes[grid](found, given.contiguous(), scale, out, columns, filters, down=down, across=across, block=_COLUMNS)
    return out
