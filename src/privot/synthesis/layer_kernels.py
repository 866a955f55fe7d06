"""What `layers` does on CUDA; Triton is imported only where there is such a device."""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl

_BLOCK = 1024
_ROWS, _PARTS = 32, 528
"""Rows that a program holds at a time, and programs that add up a column: four for each processor of an H100."""


@triton.jit
def _gather(given, out, count, height, width, stride, maps: tl.constexpr, k: tl.constexpr, block: tl.constexpr):
    """out[n, y, x, o] = Σ over (i, j) of given[n, y+i−r, x+j−r, (i, j, o)], r = ⌊k/2⌋, nothing from outside."""
    at = tl.program_id(0) * block + tl.arange(0, block)
    held = at < count
    o, place = at % maps, at // maps
    x, y = place % width, (place // width) % height
    total = tl.zeros([block], tl.float32)
    for i in tl.static_range(k):
        for j in tl.static_range(k):
            dy = i - k // 2
            dx = j - k // 2
            inside = held & (y + dy >= 0) & (y + dy < height) & (x + dx >= 0) & (x + dx < width)
            source = (place + dy * width + dx).to(tl.int64) * stride + (i * k + j) * maps + o
            total += tl.load(given + source, mask=inside, other=0.0).to(tl.float32)
    tl.store(out + at, total, mask=held)


@triton.jit
def _scatter(slope, out, count, height, width, stride, maps: tl.constexpr, k: tl.constexpr, block: tl.constexpr):
    """out[n, y, x, (i, j, o)] = slope[n, y−i+r, x−j+r, o], zero where that is outside or (i, j, o) is padding."""
    at = tl.program_id(0).to(tl.int64) * block + tl.arange(0, block)
    held = at < count
    column, place = (at % stride).to(tl.int32), (at // stride).to(tl.int32)
    o, d = column % maps, column // maps
    y = (place // width) % height - d // k + k // 2
    x = place % width - d % k + k // 2
    inside = held & (d < k * k) & (y >= 0) & (y < height) & (x >= 0) & (x < width)
    source = place + (k // 2 - d // k) * width + k // 2 - d % k
    value = tl.load(slope + source.to(tl.int64) * maps + o, mask=inside, other=0.0)
    tl.store(out + at, value, mask=held)


class _Gathered(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, given: torch.Tensor, places: tuple[int, int, int], maps: int, k: int) -> torch.Tensor:
        given = given.contiguous()
        ctx.places, ctx.maps, ctx.k, ctx.stride, ctx.kind = places, maps, k, given.shape[1], given.dtype
        out = torch.empty(*places, maps, dtype=given.dtype, device=given.device)
        grid = (triton.cdiv(out.numel(), _BLOCK),)
        _gather[grid](given, out, out.numel(), places[1], places[2], ctx.stride, maps=maps, k=k, block=_BLOCK)
        return out

    @staticmethod
    def backward(ctx: Any, *slopes: torch.Tensor) -> tuple[torch.Tensor, None, None, None]:
        slope = slopes[0].contiguous()
        rows, height, width = ctx.places
        out = torch.empty(rows * height * width, ctx.stride, dtype=ctx.kind, device=slope.device)
        grid = (triton.cdiv(out.numel(), _BLOCK),)
        _scatter[grid](slope, out, out.numel(), height, width, ctx.stride, maps=ctx.maps, k=ctx.k, block=_BLOCK)
        return out, None, None, None


def gathered(given: torch.Tensor, places: tuple[int, int, int], maps: int, k: int) -> torch.Tensor:
    """(rows, height, width, maps): what every place is given by its k² neighbours.

    `given` has a row for every place, with k²·maps numbers (neighbour by neighbour) and perhaps padding.
    """
    out: torch.Tensor = _Gathered.apply(given, places, maps, k)
    return out


@triton.jit
def _sums(x, one, two, rows, columns, together, step: tl.constexpr, wide: tl.constexpr):
    """Each program's part of Σx and Σx² a column; `together` rows are taken by all of them together."""
    part = tl.program_id(0)
    at = tl.arange(0, wide)
    first = tl.zeros([wide], tl.float32)
    second = tl.zeros([wide], tl.float32)
    for start in range(0, rows, together):
        row = start + part * step + tl.arange(0, step)
        mask = (row < rows)[:, None] & (at < columns)[None, :]
        v = tl.load(x + row[:, None].to(tl.int64) * columns + at[None, :], mask=mask, other=0.0).to(tl.float32)
        first += tl.sum(v, 0)
        second += tl.sum(v * v, 0)
    tl.store(one + part * columns + at, first, mask=at < columns)
    tl.store(two + part * columns + at, second, mask=at < columns)


@triton.jit
def _normed(x, out, scale, shift, rows, columns, step: tl.constexpr, wide: tl.constexpr):
    """max(0, scale·x + shift)."""
    row, at = tl.program_id(0) * step + tl.arange(0, step), tl.arange(0, wide)
    mask = (row < rows)[:, None] & (at < columns)[None, :]
    place = row[:, None].to(tl.int64) * columns + at[None, :]
    a = tl.load(scale + at, mask=at < columns, other=0.0)
    b = tl.load(shift + at, mask=at < columns, other=0.0)
    v = tl.load(x + place, mask=mask, other=0.0).to(tl.float32)
    tl.store(out + place, tl.maximum(v * a[None, :] + b[None, :], 0.0), mask=mask)


@triton.jit
def _slope_sums(
    x, given, scale, shift, mean, inverse, one, two, rows, columns, together, step: tl.constexpr, wide: tl.constexpr
):
    """Each program's part of Σg and Σg·x̂ a column; g is the slope where the output is above 0, x̂ = (x − mean)·inverse.

    Nothing above 0 was lost: the output is computed again.
    """
    part = tl.program_id(0)
    at = tl.arange(0, wide)
    there = at < columns
    a, b = tl.load(scale + at, mask=there, other=0.0), tl.load(shift + at, mask=there, other=0.0)
    m, s = tl.load(mean + at, mask=there, other=0.0), tl.load(inverse + at, mask=there, other=0.0)
    first = tl.zeros([wide], tl.float32)
    second = tl.zeros([wide], tl.float32)
    for start in range(0, rows, together):
        row = start + part * step + tl.arange(0, step)
        mask = (row < rows)[:, None] & there[None, :]
        place = row[:, None].to(tl.int64) * columns + at[None, :]
        v = tl.load(x + place, mask=mask, other=0.0).to(tl.float32)
        g = tl.load(given + place, mask=mask, other=0.0).to(tl.float32)
        g = tl.where(v * a[None, :] + b[None, :] > 0.0, g, 0.0)
        first += tl.sum(g, 0)
        second += tl.sum(g * ((v - m[None, :]) * s[None, :]), 0)
    tl.store(one + part * columns + at, first, mask=there)
    tl.store(two + part * columns + at, second, mask=there)


@triton.jit
def _slopes(
    x, given, out, scale, shift, mean, inverse, first, second, rows, columns, step: tl.constexpr, wide: tl.constexpr
):
    """scale·(g − first − x̂·second), the slope in x; `first` and `second` are the rows' means of g and g·x̂."""
    row, at = tl.program_id(0) * step + tl.arange(0, step), tl.arange(0, wide)
    there = at < columns
    mask = (row < rows)[:, None] & there[None, :]
    place = row[:, None].to(tl.int64) * columns + at[None, :]
    a, b = tl.load(scale + at, mask=there, other=0.0), tl.load(shift + at, mask=there, other=0.0)
    m, s = tl.load(mean + at, mask=there, other=0.0), tl.load(inverse + at, mask=there, other=0.0)
    p, q = tl.load(first + at, mask=there, other=0.0), tl.load(second + at, mask=there, other=0.0)
    v = tl.load(x + place, mask=mask, other=0.0).to(tl.float32)
    g = tl.load(given + place, mask=mask, other=0.0).to(tl.float32)
    g = tl.where(v * a[None, :] + b[None, :] > 0.0, g, 0.0)
    hat = (v - m[None, :]) * s[None, :]
    tl.store(out + place, a[None, :] * (g - p[None, :] - hat * q[None, :]), mask=mask)


class _Normed(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, eps: float
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        rows, columns = x.shape
        sizes = {"step": _ROWS, "wide": triton.next_power_of_2(columns)}
        parts = x.new_empty(2, min(_PARTS, triton.cdiv(rows, _ROWS)), columns, dtype=torch.float32)
        _sums[(parts.shape[1],)](x, parts[0], parts[1], rows, columns, parts.shape[1] * _ROWS, **sizes)
        # in float64: Σx²/n − mean² loses digits where the mean is large
        mean, square = (parts.double().sum(dim=1) / rows).unbind()
        variance = (square - mean * mean).clamp(min=0.0)
        inverse = (variance + eps).rsqrt()
        scale = weight.double() * inverse
        constants = torch.stack([scale, bias.double() - mean * scale, mean, inverse]).float()
        out = torch.empty_like(x)
        _normed[(triton.cdiv(rows, _ROWS),)](x, out, constants[0], constants[1], rows, columns, **sizes)
        ctx.save_for_backward(x, constants)
        ctx.sizes, ctx.parts = sizes, parts.shape[1]
        mean, variance = mean.float(), variance.float()
        ctx.mark_non_differentiable(mean, variance)
        return out, mean, variance

    @staticmethod
    def backward(ctx: Any, *slopes: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, None]:
        x, constants = ctx.saved_tensors
        rows, columns = x.shape
        given = slopes[0].contiguous()
        parts = x.new_empty(2, ctx.parts, columns, dtype=torch.float32)
        known = [constants[i] for i in range(4)]
        _slope_sums[(ctx.parts,)](x, given, *known, parts[0], parts[1], rows, columns, ctx.parts * _ROWS, **ctx.sizes)
        sums = parts.sum(dim=1)
        means = sums / rows
        out = torch.empty_like(x)
        grid = (triton.cdiv(rows, _ROWS),)
        _slopes[grid](x, given, out, *known, means[0], means[1], rows, columns, **ctx.sizes)
        return out, sums[1], sums[0], None


def normed(
    x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, eps: float
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """(max(0, weight·(x − mean)/√(variance + eps) + bias), mean, variance): columns' own, over the rows of x."""
    out: tuple[torch.Tensor, torch.Tensor, torch.Tensor] = _Normed.apply(x, weight, bias, eps)
    return out
