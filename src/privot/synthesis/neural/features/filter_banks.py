"""A bank of small random filters, averaged over regions of an image; drawn from a seed, without any record."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn.grad import conv2d_input

from privot.common import arguments
from privot.common.image_axes import Axes
from privot.errors import UsageError
from privot.synthesis.neural.features.fourier import BITS

_LARGEST = 64.0
"""The largest gradient in half precision: weighted sums of a thousand of them stay below 65,504."""
_LEAST = 1e-30
"""The smallest divisor of gradients, so that gradients that are all 0 stay 0."""
_MAX_DENSE = 2**27
"""Most numbers in a matrix that applies all filters at once (256 MB); larger images use a convolution."""
_FEW = 4
"""Channels up to which one product with that matrix, mostly zeros, is faster than a convolution."""
_MIN_BITS = 8
"""Fewest binary digits behind the point of a weight: exact sums over larger regions would leave fewer."""
HALF = torch.float16
"""The number type of filter outputs of generated samples on a GPU."""
_MAX_HELD = 2**25
"""Most numbers held for records at a time: 256 MB in float64."""
Linear = Callable[[torch.Tensor], torch.Tensor]
_POSITIONS = (2, 4)
"""The axes of (rows, down, side, across, side, filters) that run over the positions of a region."""


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
    def name(self) -> tuple[Any, ...]:
        """The parameters that define the bank."""
        drawn = (self._entropy.entropy, self._entropy.spawn_key, self._each)
        return (*self.axes, self.filters, self.width, self.cell, self.stride, self.gain, *drawn)

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
        if bits < _MIN_BITS:
            raise UsageError("The regions are too large for sums over them to be exact: use smaller ones.")
        return np.ldexp(np.rint(np.ldexp(drawn, bits)), -bits)

    @cached_property
    def most(self) -> float:
        """The largest value of u: white where a filter's weights have one sign, black elsewhere."""
        w = self.weights
        return self.gain * float(np.maximum(np.maximum(w, 0.0).sum(axis=0), np.maximum(-w, 0.0).sum(axis=0)).max())

    def seen(self, x: torch.Tensor) -> torch.Tensor:
        """u, of shape (rows, regions · filters), from (rows, pixels · channels) in [0, 1]; exact in float64."""
        if x.dtype == torch.float64:
            step = self._at_once
            return torch.cat([self._exact(x[i : i + step]) for i in range(0, len(x), step)])
        # generated samples need no exact sums, and unfolding launches a kernel for every image
        if not x.is_cuda:
            regional = torch.nn.functional.avg_pool2d(self._found(x, self._on(x)).abs(), self._side)
            return regional.permute(0, 2, 3, 1).reshape(len(x), -1) * self.gain
        return self.plain(x) * self.gain

    def plain(self, x: torch.Tensor) -> torch.Tensor:
        """u without its gain, of generated samples on a GPU: the caller multiplies its own weights by the gain."""
        small = x.shape[1] * self.size * self._side**2 <= _MAX_DENSE and self.axes.channels <= _FEW
        answers = self._product if small else self._convolution
        return pooled(x, *answers(x)).reshape(len(x), -1)

    def _exact(self, x: torch.Tensor) -> torch.Tensor:
        """u of rows whose numbers lie on the grid."""
        (rows, columns), side = self.regions, self._side
        patches = torch.nn.functional.unfold(self._padded(x), self.width, stride=self.stride)
        found = (patches.transpose(1, 2) @ self._on(x)).abs().view(len(x), rows, side, columns, side, self.filters)
        return found.sum(dim=(2, 4)).reshape(len(x), -1) * (self.gain / side**2)

    @property
    def _at_once(self) -> int:
        """Rows whose patches and answers are held together."""
        places = self.regions[0] * self.regions[1] * self._side**2
        return max(1, _MAX_HELD // (places * (len(self.weights) + self.filters)))

    def _product(self, x: torch.Tensor) -> tuple[Linear, Linear]:
        """The filters and their transpose as one matrix product, faster than a convolution of few channels."""
        matrix, positions = self._dense(x.device), self._side**2
        return (
            lambda rows: (rows.to(matrix.dtype) @ matrix).view(len(rows), 1, positions, 1, 1, -1),
            lambda slope: slope.flatten(1) @ matrix.t(),
        )

    def _convolution(self, x: torch.Tensor) -> tuple[Linear, Linear]:
        """The filters and their transpose as convolutions, channels last, as tensor cores need."""
        bank = self._shaped(self._on(x).to(HALF)).contiguous(memory_format=torch.channels_last)
        sizes = [n for pair in zip(self.regions, (self._side, self._side), strict=True) for n in pair]

        def there(rows: torch.Tensor) -> torch.Tensor:
            found = torch.nn.functional.conv2d(self._padded(rows.to(bank.dtype)), bank, stride=self.stride)
            return found.permute(0, 2, 3, 1).reshape(len(rows), *sizes, self.filters)

        def back(slope: torch.Tensor) -> torch.Tensor:
            flat = slope.reshape(len(slope), sizes[0] * sizes[1], -1, self.filters).permute(0, 3, 1, 2)
            height, width = (n * self.cell + self.width - 1 for n in self.regions)
            padded = (len(slope), self.axes.channels, height, width)
            whole = conv2d_input(padded, bank, flat, stride=self.stride)  # type: ignore[no-untyped-call]
            top = self.width // 2
            return self.axes.rows(whole[:, :, top : top + self.axes.height, top : top + self.axes.width])

        return there, back

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
        return torch.nn.functional.conv2d(self._padded(x), self._shaped(weights), stride=self.stride)

    def _shaped(self, weights: torch.Tensor) -> torch.Tensor:
        """(filters, channels, width, width)."""
        return weights.T.reshape(self.filters, self.axes.channels, self.width, self.width)

    def _dense(self, device: torch.device) -> torch.Tensor:
        """`matrix` in half precision."""
        if device not in self._kept:
            self._kept[device] = self.matrix().to(HALF).to(device)
        return self._kept[device]

    def matrix(self) -> torch.Tensor:
        """⟨w_f, patch at p⟩ as a product: (dim, positions in a region · regions · filters)."""
        height, width, channels, _ = self.axes
        (rows, columns), side = self.regions, self._side
        unit = torch.eye(height * width * channels)
        found = self._found(unit, torch.as_tensor(self.weights, dtype=torch.float32))
        found = found.view(len(unit), self.filters, rows, side, columns, side)
        return found.permute(0, 3, 5, 2, 4, 1).reshape(len(unit), -1)


def pooled(x: torch.Tensor, there: Linear, back: Linear) -> torch.Tensor:
    """Means of |Lx| over the positions of each region, L linear, in the number type that `there` returns.

    `there` returns (rows, down, side, across, side, filters), for regions down and across and side² positions in
    each; `back` is its transpose.
    """
    out: torch.Tensor = _Pooled.apply(x, there, back)  # type: ignore[no-untyped-call]
    return out


class _Pooled(torch.autograd.Function):
    """`pooled`, with scaled gradients: in half precision the gradient of a batch's mean would be almost 0."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, there: Linear, back: Linear) -> torch.Tensor:
        found = there(x)
        ctx.save_for_backward(found)
        ctx.back = back
        if not found.is_cuda:
            return found.abs().mean(dim=_POSITIONS, dtype=torch.float32)
        from privot.synthesis.neural.features.filter_cuda import region_means

        return region_means(found)

    @staticmethod
    def backward(ctx: Any, *slopes: torch.Tensor) -> tuple[torch.Tensor, None, None]:
        (found,), slope = ctx.saved_tensors, slopes[0]
        count = math.prod(found.shape[dim] for dim in _POSITIONS)
        scale = _LARGEST / slope.abs().amax().clamp(min=_LEAST)
        if found.is_cuda:
            from privot.synthesis.neural.features.filter_cuda import region_slopes

            moved = region_slopes(found, slope, scale)
        else:
            for dim in _POSITIONS:
                slope = slope.unsqueeze(dim)
            moved = torch.sign(found) * (slope * scale).to(found.dtype)
        return ctx.back(moved).float() / (scale * count), None, None
