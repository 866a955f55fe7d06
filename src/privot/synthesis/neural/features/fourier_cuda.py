"""Class means of cosines and sines on CUDA without storing them: one product, one forward pass, one backward pass.

Half precision is enough for generated samples, whose means carry the noise of a batch; released features are computed
in float64 (`fourier`). The device's own cosine is off by 2⁻²² of a phase, which has ten bits here. Triton
is imported only where there is a CUDA device.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from triton.language.extra import libdevice

_COLUMNS, _ROWS = 64, 64
_SCALE = 1024.0
"""Gradients of a mean over a batch are small; scaled, they keep their digits in half precision."""


@triton.jit
def _means(phases, out, rows, m, columns: tl.constexpr, step: tl.constexpr):
    """out[c, 0 and 1, :] = mean of cos and sin over the rows of class c, for one stretch of columns."""
    c = tl.program_id(0)
    at = tl.program_id(1) * columns + tl.arange(0, columns)
    held = at < m
    cosines = tl.zeros([columns], tl.float32)
    sines = tl.zeros([columns], tl.float32)
    for start in range(0, rows, step):
        row = start + tl.arange(0, step)
        mask = (row < rows)[:, None] & held[None, :]
        place = phases + (c * rows + row)[:, None].to(tl.int64) * m + at[None, :]
        p = tl.load(place, mask=mask, other=0.0).to(tl.float32)
        cosines += tl.sum(tl.where(mask, libdevice.fast_cosf(p), 0.0), 0)
        sines += tl.sum(tl.where(mask, libdevice.fast_sinf(p), 0.0), 0)
    tl.store(out + 2 * c * m + at, cosines / rows, mask=held)
    tl.store(out + (2 * c + 1) * m + at, sines / rows, mask=held)


@triton.jit
def _slopes(phases, given, rows, m, scale, columns: tl.constexpr, step: tl.constexpr):
    """Turns phases into scale·(cos·slope of the sine mean − sin·slope of the cosine mean), in place."""
    c = tl.program_id(0)
    at = tl.program_id(1) * columns + tl.arange(0, columns)
    held = at < m
    of_cosine = scale * tl.load(given + 2 * c * m + at, mask=held, other=0.0)
    of_sine = scale * tl.load(given + (2 * c + 1) * m + at, mask=held, other=0.0)
    for start in range(0, rows, step):
        row = start + tl.arange(0, step)
        mask = (row < rows)[:, None] & held[None, :]
        place = phases + (c * rows + row)[:, None].to(tl.int64) * m + at[None, :]
        p = tl.load(place, mask=mask, other=0.0).to(tl.float32)
        slope = libdevice.fast_cosf(p) * of_sine[None, :] - libdevice.fast_sinf(p) * of_cosine[None, :]
        tl.store(place, slope.to(tl.float16), mask=mask)


class _MeanPhases(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, angles: torch.Tensor, classes: int) -> torch.Tensor:
        phases = x.half() @ angles
        rows, m = len(x) // classes, angles.shape[1]
        out = torch.empty(classes, 2 * m, device=x.device)
        _means[(classes, triton.cdiv(m, _COLUMNS))](phases, out, rows, m, columns=_COLUMNS, step=_ROWS)
        ctx.save_for_backward(phases, angles)
        ctx.rows, ctx.classes = rows, classes
        return out

    @staticmethod
    def backward(ctx: Any, *given: torch.Tensor) -> tuple[torch.Tensor, None, None]:
        phases, angles = ctx.saved_tensors
        m = angles.shape[1]
        # in place: a second backward through the same graph would find slopes where phases were
        grid = (ctx.classes, triton.cdiv(m, _COLUMNS))
        _slopes[grid](phases, given[0].contiguous(), ctx.rows, m, _SCALE, columns=_COLUMNS, step=_ROWS)
        return (phases @ angles.t()).float() / (_SCALE * ctx.rows), None, None


def mean_phases(x: torch.Tensor, angles: torch.Tensor, classes: int) -> torch.Tensor:
    """(classes, 2m): mean of cos(x·angles), then of sin, over the rows of each class, which come class by class.

    `angles` of shape (columns, m) is in half precision. One backward only.
    """
    out: torch.Tensor = _MeanPhases.apply(x, angles, classes)
    return out
