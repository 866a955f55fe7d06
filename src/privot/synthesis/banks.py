"""A bank of small random filters that look at images region by region; drawn from a seed, without any record."""

from __future__ import annotations

import math
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from privot.errors import UsageError
from privot.images import Axes
from privot.noise import arguments
from privot.synthesis.features import BITS

_SCALE = 1024.0
_MOST_DENSE = 2**27
"""Numbers in a matrix that does all of the filters' work at once (256 MB); for larger images it is a convolution."""
_MANY = 16
"""Channels from which on a convolution in half precision is worth its rounding."""


class Bank:
    """u_cf = (unit·cell/√F) · mean over positions p in region c of |⟨w_f, patch of x at p⟩|, from x in [0, 1].

    w_f are F Gaussian filters of `width` × `width` × channels, of mean zero (over all, or in `each` channel) and norm
    one; regions are squares of `cell` pixels, positions lie `stride` pixels apart, and outside of the image is 0.
    `entropy` names the draw.

    In float64, for x on a grid of 2⁻¹⁶, w lies on a grid of its own, so that an inner product and the sum over a region
    are whole numbers below 2⁵³, in whatever order they are summed, and u is one multiplication of that.
    """

    def __init__(
        self,
        axes: Axes,
        filters: int,
        width: int,
        cell: int,
        stride: int,
        entropy: np.random.SeedSequence,
        unit: float = 1.0,
        each: bool = False,
    ) -> None:
        self.axes = axes
        self.filters = arguments.whole("The number of filters", filters, 1)
        self.width = arguments.whole("The width of a filter", width, 2)
        self.stride = arguments.whole("The stride of a filter", stride, 1)
        self.cell = arguments.whole("The side of a region", cell, self.stride)
        if self.cell % self.stride:
            raise UsageError(f"The side of a region must be a multiple of {self.stride}.")
        self.gain, self._entropy, self._each = unit * self.cell / math.sqrt(self.filters), entropy, each
        self.regions = (-(-axes.height // self.cell), -(-axes.width // self.cell))
        self._kept: dict[Any, torch.Tensor] = {}

    @property
    def size(self) -> int:
        """Numbers in u."""
        return self.filters * self.regions[0] * self.regions[1]

    @property
    def out(self) -> Axes:
        """u as an image with a channel for every filter."""
        return Axes(*self.regions, self.filters, True)

    @property
    def _side(self) -> int:
        """Positions in a row of a region."""
        return self.cell // self.stride

    @cached_property
    def weights(self) -> NDArray[np.float64]:
        """w of shape (channels·width², filters), on its grid."""
        dice = np.random.Generator(np.random.Philox(self._entropy))
        drawn = dice.standard_normal((self.axes.channels * self.width**2, self.filters))
        if self._each:
            parts = drawn.reshape(self.axes.channels, self.width**2, self.filters)
            drawn = (parts - parts.mean(axis=1, keepdims=True)).reshape(drawn.shape)
        else:
            drawn -= drawn.mean(axis=0)
        drawn /= np.linalg.norm(drawn, axis=0)
        # |a region's sum| ≤ positions·Σ|w|: with 16 bits for x, w may have this many behind the point
        bits = 52 - BITS - math.frexp(self._side**2 * float(np.abs(drawn).sum(axis=0).max()))[1]
        return np.ldexp(np.rint(np.ldexp(drawn, bits)), -bits)

    @cached_property
    def most(self) -> float:
        """The most that u can be: all weights of one sign of a filter on white, all others on black."""
        w = self.weights
        return self.gain * float(np.maximum(np.maximum(w, 0.0).sum(axis=0), np.maximum(-w, 0.0).sum(axis=0)).max())

    def seen(self, x: torch.Tensor) -> torch.Tensor:
        """u, of shape (rows, regions · filters), from (rows, pixels · channels) in [0, 1]; exact in float64."""
        side = self._side
        if x.dtype == torch.float64:
            rows, columns = self.regions
            patches = torch.nn.functional.unfold(self._padded(x), self.width, stride=self.stride)
            found = (patches.transpose(1, 2) @ self._on(x)).abs().view(len(x), rows, side, columns, side, self.filters)
            out: torch.Tensor = found.sum(dim=(2, 4)).reshape(len(x), -1) * (self.gain / side**2)
            return out
        # generated samples need no exact sums, and unfolding launches a kernel for every image
        if x.is_cuda and x.shape[1] * self.size * side**2 <= _MOST_DENSE:
            made: torch.Tensor = _AtOnce.apply(x, self._dense(x.device), side**2)  # type: ignore[no-untyped-call]
            return made * self.gain
        if x.is_cuda and self.axes.channels >= _MANY:
            # tensor cores multiply many channels fast, in a type that has the range of slopes
            x = x.bfloat16()
        regional = torch.nn.functional.avg_pool2d(self._found(x, self._on(x)).abs(), side)
        return regional.permute(0, 2, 3, 1).reshape(len(x), -1).float() * self.gain

    def _on(self, x: torch.Tensor) -> torch.Tensor:
        """The weights where `x` is and in its number type."""
        if (x.device, x.dtype) not in self._kept:
            self._kept[x.device, x.dtype] = torch.as_tensor(self.weights).to(x)
        return self._kept[x.device, x.dtype]

    def _padded(self, x: torch.Tensor) -> torch.Tensor:
        """(rows, channels, height, width), with zeros around it and up to whole regions."""
        before, after = self.width // 2, (self.width - 1) // 2
        below, right = (n * self.cell - s for n, s in zip(self.regions, self.axes[:2], strict=True))
        return torch.nn.functional.pad(self.axes.pictures(x), (before, after + right, before, after + below))

    def _found(self, x: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
        """⟨w_f, patch⟩ of shape (rows, filters, positions down, positions across)."""
        bank = weights.T.reshape(self.filters, self.axes.channels, self.width, self.width)
        return torch.nn.functional.conv2d(self._padded(x), bank, stride=self.stride)

    def _dense(self, device: torch.device) -> torch.Tensor:
        """`matrix` in half precision: a convolution of few channels runs badly, one product of everything well."""
        if device not in self._kept:
            self._kept[device] = self.matrix().half().to(device)
        return self._kept[device]

    def matrix(self) -> torch.Tensor:
        """⟨w_f, patch at p⟩ as a product: (dim, positions in a region · regions · filters)."""
        height, width, channels, _ = self.axes
        (rows, columns), side = self.regions, self._side
        unit = torch.eye(height * width * channels)
        found = self._found(unit, torch.as_tensor(self.weights, dtype=torch.float32))
        found = found.view(len(unit), self.filters, rows, side, columns, side)
        return found.permute(0, 3, 5, 2, 4, 1).reshape(len(unit), -1)


class _AtOnce(torch.autograd.Function):
    """Means over `positions` of |x·matrix| in half precision, x (rows, dim), matrix (dim, positions · columns)."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, matrix: torch.Tensor, positions: int) -> torch.Tensor:
        found = (x.to(matrix.dtype) @ matrix).view(len(x), positions, -1)
        ctx.save_for_backward(found, matrix)
        return found.abs().mean(dim=1, dtype=torch.float32)

    @staticmethod
    def backward(ctx: Any, *slopes: torch.Tensor) -> tuple[torch.Tensor, None, None]:
        found, matrix = ctx.saved_tensors
        # scaled: the slopes of a mean over a batch are small, and most would be 0 in half precision
        slope = (slopes[0] * (_SCALE / found.shape[1])).to(matrix.dtype)
        back = (torch.sign(found) * slope[:, None, :]).flatten(1) @ matrix.t()
        return back.float() / _SCALE, None, None
