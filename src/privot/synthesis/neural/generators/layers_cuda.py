"""The CUDA kernels of `fused_layers`; Triton is imported only where there is a CUDA device."""

from __future__ import annotations

import math
from typing import Any

import torch
import triton
import triton.language as tl

from privot.errors import UsageError

_BLOCK = 1024
_TILE, _WARPS, _PARTS = 4096, 8, 1056
"""Numbers per program, its warps, and the number of programs that sum a column."""


@triton.jit
def _gather(
    given,
    out,
    count,
    height: tl.constexpr,
    width: tl.constexpr,
    stride: tl.constexpr,
    maps: tl.constexpr,
    k: tl.constexpr,
    block: tl.constexpr,
):
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
def _scatter(
    slope,
    out,
    rows,
    height: tl.constexpr,
    width: tl.constexpr,
    stride: tl.constexpr,
    maps: tl.constexpr,
    k: tl.constexpr,
    step: tl.constexpr,
    wide: tl.constexpr,
):
    """out[n, y, x, (i, j, o)] = slope[n, y−i+r, x−j+r, o], zero where that is outside or (i, j, o) is padding."""
    place = tl.program_id(0) * step + tl.arange(0, step)
    column = tl.arange(0, wide)
    o, d = column % maps, column // maps
    down, right = k // 2 - d // k, k // 2 - d % k
    y = ((place // width) % height)[:, None] + down[None, :]
    x = (place % width)[:, None] + right[None, :]
    held = (place < rows)[:, None] & (column < stride)[None, :]
    inside = held & (d < k * k)[None, :] & (y >= 0) & (y < height) & (x >= 0) & (x < width)
    source = (place[:, None] + (down * width + right)[None, :]) * maps + o[None, :]
    value = tl.load(slope + source, mask=inside, other=0.0)
    tl.store(out + place[:, None].to(tl.int64) * stride + column[None, :], value, mask=held)


def _check_count(numbers: int) -> None:
    """Positions are counted in 32 bits, because division is faster."""
    if numbers >= 2**31:
        raise UsageError(f"One layer cannot make {numbers} numbers at once: use fewer samples per step.")


class _Gathered(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, given: torch.Tensor, places: tuple[int, int, int], maps: int, k: int) -> torch.Tensor:
        given = given.contiguous()
        ctx.places, ctx.maps, ctx.k, ctx.stride, ctx.kind = places, maps, k, given.shape[1], given.dtype
        _check_count(max(given.numel(), math.prod(places) * maps))
        out = torch.empty(*places, maps, dtype=given.dtype, device=given.device)
        grid = (triton.cdiv(out.numel(), _BLOCK),)
        sizes = {"height": places[1], "width": places[2], "stride": ctx.stride, "maps": maps, "k": k, "block": _BLOCK}
        _gather[grid](given, out, out.numel(), **sizes)
        return out

    @staticmethod
    def backward(ctx: Any, *slopes: torch.Tensor) -> tuple[torch.Tensor, None, None, None]:
        slope = slopes[0].contiguous()
        rows, height, width = ctx.places
        out = torch.empty(rows * height * width, ctx.stride, dtype=ctx.kind, device=slope.device)
        wide = triton.next_power_of_2(ctx.stride)
        step = max(1, _TILE // wide)
        sizes = {"stride": ctx.stride, "maps": ctx.maps, "k": ctx.k, "step": step, "wide": wide, "num_warps": _WARPS}
        _scatter[(triton.cdiv(len(out), step),)](slope, out, len(out), height=height, width=width, **sizes)
        return out, None, None, None


def gathered(given: torch.Tensor, places: tuple[int, int, int], maps: int, k: int) -> torch.Tensor:
    """(rows, height, width, maps): the sum of what every position receives from its k² neighbours.

    `given` has a row for every position, with k²·maps numbers (neighbour by neighbour) and perhaps padding.
    """
    out: torch.Tensor = _Gathered.apply(given, places, maps, k)
    return out


@triton.jit
def _double(given, out, count, height: tl.constexpr, width: tl.constexpr, maps: tl.constexpr, block: tl.constexpr):
    """out[n, Y, X, o] = max(0, Σ of the place (Y/2, X/2) and its nearest neighbours, weighed 3/4 and 1/4 an axis)."""
    at = tl.program_id(0) * block + tl.arange(0, block)
    held = at < count
    o, place = at % maps, at // maps
    right, down = place % (2 * width), (place // (2 * width)) % (2 * height)
    row = place // (4 * width * height) * height
    total = tl.zeros([block], tl.float32)
    for i in tl.static_range(2):
        # the second tap is the neighbour on the side of the half
        y = tl.minimum(tl.maximum(down // 2 + i * (2 * (down % 2) - 1), 0), height - 1)
        for j in tl.static_range(2):
            x = tl.minimum(tl.maximum(right // 2 + j * (2 * (right % 2) - 1), 0), width - 1)
            value = tl.load(given + ((row + y) * width + x) * maps + o, mask=held, other=0.0).to(tl.float32)
            total += (0.75 - 0.5 * i) * (0.75 - 0.5 * j) * value
    # a NaN stays NaN
    tl.store(out + at, tl.maximum(total, 0.0, propagate_nan=tl.PropagateNan.ALL), mask=held)


@triton.jit
def _halve(
    slope, made, out, count, height: tl.constexpr, width: tl.constexpr, maps: tl.constexpr, block: tl.constexpr
):  # fmt: skip
    """The gradient at (y, x), from the 4 × 4 positions that read it; reads beyond an edge go to the edge."""
    at = tl.program_id(0) * block + tl.arange(0, block)
    held = at < count
    o, place = at % maps, at // maps
    x, y = place % width, (place // width) % height
    row = place // (width * height) * (2 * height)
    total = tl.zeros([block], tl.float32)
    for i in tl.static_range(4):
        down = tl.minimum(tl.maximum(2 * y + i - 1, 0), 2 * height - 1)
        for j in tl.static_range(4):
            right = tl.minimum(tl.maximum(2 * x + j - 1, 0), 2 * width - 1)
            source = ((row + down) * (2 * width) + right) * maps + o
            kept = tl.load(made + source, mask=held, other=0.0).to(tl.float32) > 0.0
            value = tl.load(slope + source, mask=held & kept, other=0.0).to(tl.float32)
            total += (0.25 + 0.5 * (i % 3 > 0)) * (0.25 + 0.5 * (j % 3 > 0)) * value
    tl.store(out + at, total, mask=held)


class _Doubled(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, given: torch.Tensor) -> torch.Tensor:
        given = given.contiguous()
        rows, height, width, maps = given.shape
        _check_count(4 * given.numel())
        out = torch.empty(rows, 2 * height, 2 * width, maps, dtype=given.dtype, device=given.device)
        sizes = {"height": height, "width": width, "maps": maps, "block": _BLOCK}
        _double[(triton.cdiv(out.numel(), _BLOCK),)](given, out, out.numel(), **sizes)
        ctx.sizes = sizes
        ctx.save_for_backward(out)
        return out

    @staticmethod
    def backward(ctx: Any, *slopes: torch.Tensor) -> torch.Tensor:
        (made,) = ctx.saved_tensors
        sizes = ctx.sizes
        shape = (len(made), sizes["height"], sizes["width"], sizes["maps"])
        out = torch.empty(shape, dtype=made.dtype, device=made.device)
        slope = slopes[0].contiguous()
        _halve[(triton.cdiv(out.numel(), _BLOCK),)](slope, made, out, out.numel(), **sizes)
        return out


def doubled(given: torch.Tensor) -> torch.Tensor:
    """max(0, twice the size by linear interpolation), (rows, 2·height, 2·width, maps)."""
    out: torch.Tensor = _Doubled.apply(given)
    return out


@triton.jit
def _sums(x, one, two, rows, columns, together, step: tl.constexpr, wide: tl.constexpr):
    """Each program's part of Σx and Σx² per column; all programs together take `together` rows at a time."""
    part = tl.program_id(0)
    at = tl.arange(0, wide)
    # whole tiles are added up and their rows once at the end
    first = tl.zeros([step, wide], tl.float32)
    second = tl.zeros([step, wide], tl.float32)
    for start in range(0, rows, together):
        row = start + part * step + tl.arange(0, step)
        mask = (row < rows)[:, None] & (at < columns)[None, :]
        v = tl.load(x + row[:, None].to(tl.int64) * columns + at[None, :], mask=mask, other=0.0).to(tl.float32)
        first += v
        second += v * v
    tl.store(one + part * columns + at, tl.sum(first, 0), mask=at < columns)
    tl.store(two + part * columns + at, tl.sum(second, 0), mask=at < columns)


@triton.jit
def _normed(x, out, scale, shift, rows, columns, step: tl.constexpr, wide: tl.constexpr):
    """max(0, scale·x + shift)."""
    row, at = tl.program_id(0) * step + tl.arange(0, step), tl.arange(0, wide)
    mask = (row < rows)[:, None] & (at < columns)[None, :]
    place = row[:, None].to(tl.int64) * columns + at[None, :]
    a = tl.load(scale + at, mask=at < columns, other=0.0)
    b = tl.load(shift + at, mask=at < columns, other=0.0)
    v = tl.load(x + place, mask=mask, other=0.0).to(tl.float32)
    # NaN stays NaN, so that a diverged training is noticed
    top = tl.maximum(v * a[None, :] + b[None, :], 0.0, propagate_nan=tl.PropagateNan.ALL)
    tl.store(out + place, top, mask=mask)


@triton.jit
def _slope_sums(
    x, given, scale, shift, mean, inverse, one, two, rows, columns, together, step: tl.constexpr, wide: tl.constexpr
):
    """Each program's part of Σg and Σg·x̂ per column; g is the slope where the output is > 0, x̂ = (x − mean)·inverse.

    Nothing above 0 was lost: the output is computed again.
    """
    part = tl.program_id(0)
    at = tl.arange(0, wide)
    there = at < columns
    a, b = tl.load(scale + at, mask=there, other=0.0), tl.load(shift + at, mask=there, other=0.0)
    m, s = tl.load(mean + at, mask=there, other=0.0), tl.load(inverse + at, mask=there, other=0.0)
    # whole tiles are added up and their rows once at the end
    first = tl.zeros([step, wide], tl.float32)
    second = tl.zeros([step, wide], tl.float32)
    for start in range(0, rows, together):
        row = start + part * step + tl.arange(0, step)
        mask = (row < rows)[:, None] & there[None, :]
        place = row[:, None].to(tl.int64) * columns + at[None, :]
        v = tl.load(x + place, mask=mask, other=0.0).to(tl.float32)
        g = tl.load(given + place, mask=mask, other=0.0).to(tl.float32)
        g = tl.where(v * a[None, :] + b[None, :] > 0.0, g, 0.0)
        first += g
        second += g * ((v - m[None, :]) * s[None, :])
    tl.store(one + part * columns + at, tl.sum(first, 0), mask=there)
    tl.store(two + part * columns + at, tl.sum(second, 0), mask=there)


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
        wide = triton.next_power_of_2(columns)
        step = max(1, _TILE // wide)
        sizes = {"step": step, "wide": wide, "num_warps": _WARPS}
        tiles = triton.cdiv(rows, step)
        parts = x.new_empty(2, min(_PARTS, tiles), columns, dtype=torch.float32)
        _sums[(parts.shape[1],)](x, parts[0], parts[1], rows, columns, parts.shape[1] * step, **sizes)
        # in float64: Σx²/n − mean² loses digits where the mean is large
        mean, square = (parts.double().sum(dim=1) / rows).unbind()
        variance = (square - mean * mean).clamp(min=0.0)
        inverse = (variance + eps).rsqrt()
        scale = weight.double() * inverse
        constants = torch.stack([scale, bias.double() - mean * scale, mean, inverse]).float()
        out = torch.empty_like(x)
        _normed[(tiles,)](x, out, constants[0], constants[1], rows, columns, **sizes)
        ctx.save_for_backward(x, constants)
        ctx.sizes, ctx.parts, ctx.tiles = sizes, parts.shape[1], tiles
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
        _slope_sums[(ctx.parts,)](
            x, given, *known, parts[0], parts[1], rows, columns, ctx.parts * ctx.sizes["step"], **ctx.sizes
        )
        sums = parts.sum(dim=1)
        means = sums / rows
        out = torch.empty_like(x)
        _slopes[(ctx.tiles,)](x, given, out, *known, means[0], means[1], rows, columns, **ctx.sizes)
        return out, sums[1], sums[0], None


def normed(
    x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, eps: float
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """(max(0, weight·(x − mean)/√(variance + eps) + bias), mean, variance): columns' own, over the rows of x."""
    out: tuple[torch.Tensor, torch.Tensor, torch.Tensor] = _Normed.apply(x, weight, bias, eps)
    return out
