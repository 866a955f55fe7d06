"""Faster versions of torch layers for CUDA in half precision, with the same result and weights; elsewhere torch's own.

A step of a wide generator on a few thousand samples spends most of its time in layers that torch runs slowly: a
convolution to very few maps (2.0 ms on an H200, of which 0.1 ms are its products), batch normalisation and its
rectifier in seven passes, products whose inner size is not a multiple of 8.
"""

from __future__ import annotations

from functools import lru_cache
from importlib.util import find_spec

import torch
from torch import nn
from torch.nn import functional

_ALIGNED = 8
"""Half-precision products are fast where rows begin on 16 bytes."""


def _half(x: torch.Tensor) -> bool:
    return x.is_cuda and torch.is_autocast_enabled("cuda") and _triton()


@lru_cache(maxsize=1)
def _triton() -> bool:
    return find_spec("triton") is not None


class ToMaps(nn.Linear):
    """(rows, maps, height, width) from xWᵀ + b, its channels laid out last.

    Zeros beside x and W align their rows, and W's are put in the order of the layout: it is smaller than its product.
    """

    def __init__(self, wide: int, maps: int, size: tuple[int, int]) -> None:
        super().__init__(wide, maps * size[0] * size[1])
        self.maps, self.size = maps, size

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        """(rows, maps, height, width)."""
        if not _half(input):
            made = super().forward(input).view(-1, self.maps, *self.size)
            return made.contiguous(memory_format=torch.channels_last)
        padding = (0, -self.in_features % _ALIGNED)
        weight = self.weight.view(self.maps, -1, self.in_features).transpose(0, 1).reshape(-1, self.in_features)
        bias = self.bias.view(self.maps, -1).t().reshape(-1)
        made = functional.linear(functional.pad(input, padding), functional.pad(weight, padding), bias)
        return made.view(-1, *self.size, self.maps).permute(0, 3, 1, 2)


class FewMaps(nn.Conv2d):
    """A convolution with an odd kernel, stride 1 and "same" padding, made for few output maps.

    One product computes, at every position, its contribution to each of its k² neighbours; then every position sums the
    contributions that it receives: out[p] = Σ_d (h[p+d]·W_d). Torch computes a product for every d, each a few columns
    wide.
    """

    def __init__(self, wide: int, maps: int, kernel: int) -> None:
        super().__init__(wide, maps, kernel, padding=kernel // 2)

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        """(rows, maps, height, width)."""
        if not _half(input):
            return super().forward(input)
        from privot.synthesis.neural.generators.layers_cuda import gathered

        rows, wide, height, width = input.shape
        across = self.weight.permute(1, 2, 3, 0).reshape(wide, -1)
        across = functional.pad(across, (0, -across.shape[1] % _ALIGNED))
        given = input.permute(0, 2, 3, 1).reshape(-1, wide) @ across
        out = gathered(given, (rows, height, width), self.out_channels, self.kernel_size[0])
        assert self.bias is not None
        return (out + self.bias.to(out.dtype)).permute(0, 3, 1, 2)


class FromPoint(nn.ConvTranspose2d):
    """A transposed convolution of a single position without bias: (rows, maps, height, width) by one product."""

    def __init__(self, wide: int, maps: int, size: tuple[int, int]) -> None:
        super().__init__(wide, maps, size, bias=False)

    def forward(self, input: torch.Tensor, output_size: list[int] | None = None) -> torch.Tensor:
        """(rows, maps, height, width) from (rows, wide, 1, 1)."""
        if not _half(input):
            return super().forward(input, output_size)
        padding = -self.in_channels % _ALIGNED
        weight = functional.pad(self.weight.permute(0, 2, 3, 1).reshape(self.in_channels, -1), (0, 0, 0, padding))
        made = functional.pad(input.flatten(1), (0, padding)) @ weight
        return made.view(-1, *self.kernel_size, self.out_channels).permute(0, 3, 1, 2)


class FewMapsTwice(nn.ConvTranspose2d):
    """A transposed convolution that doubles (4 × 4, stride 2, padding 1), made for few output maps.

    One position becomes four, and each of these reads two neighbours per axis: this equals four maps of a 3 × 3
    convolution with zeros in it (`FewMaps`), rearranged.
    """

    def __init__(self, wide: int, maps: int) -> None:
        super().__init__(wide, maps, 4, 2, 1)
        # the tap of 4 that a place's half (0, 1) puts on its neighbour (−1, 0, 1); 4 is none
        taps = torch.tensor([[3, 4], [1, 2], [4, 0]])
        down, across = taps[:, None, None, :, None], taps[None, :, None, None, :]
        which = torch.arange(maps)[None, None, :, None, None] * 16 + down * 4 + across
        which = torch.where((down < 4) & (across < 4), which, maps * 16)
        self.register_buffer("_which", which.flatten(), persistent=False)

    _which: torch.Tensor

    def forward(self, input: torch.Tensor, output_size: list[int] | None = None) -> torch.Tensor:
        """(rows, maps, 2·height, 2·width)."""
        if not _half(input):
            return super().forward(input, output_size)
        from privot.synthesis.neural.generators.layers_cuda import gathered

        rows, wide, height, width = input.shape
        weight = functional.pad(self.weight.reshape(wide, -1), (0, 1))[:, self._which]
        weight = functional.pad(weight, (0, -weight.shape[1] % _ALIGNED))
        given = input.permute(0, 2, 3, 1).reshape(-1, wide) @ weight
        out = gathered(given, (rows, height, width), 4 * self.out_channels, 3).permute(0, 3, 1, 2)
        assert self.bias is not None
        return functional.pixel_shuffle(out, 2) + self.bias.to(out.dtype)[:, None, None]


class DoubledReLU(nn.Module):
    """max(0, twice the size by linear interpolation without aligned corners), in one forward and one backward pass."""

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        """(rows, maps, 2·height, 2·width)."""
        if not _half(input) or input.dtype == torch.float32:
            return functional.relu(functional.interpolate(input, scale_factor=2, mode="bilinear"))
        from privot.synthesis.neural.generators.layers_cuda import doubled

        return doubled(input.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


class NormedReLU(nn.BatchNorm2d):
    """max(0, batch normalisation), in two forward and two backward passes."""

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        """The shape of the input."""
        fits = self.training and _half(input) and input.is_contiguous(memory_format=torch.channels_last)
        if not fits or input.dtype == torch.float32 or self.momentum is None:
            return functional.relu(super().forward(input))
        from privot.synthesis.neural.generators.layers_cuda import normed

        rows, maps, height, width = input.shape
        out, mean, variance = normed(input.permute(0, 2, 3, 1).reshape(-1, maps), self.weight, self.bias, self.eps)
        with torch.no_grad():
            count = rows * height * width
            assert self.running_mean is not None
            assert self.running_var is not None
            self.running_mean.lerp_(mean, self.momentum)
            # as torch does: the variance that is remembered is the unbiased one
            self.running_var.lerp_(variance * (count / max(count - 1, 1)), self.momentum)
            if self.num_batches_tracked is not None:
                self.num_batches_tracked.add_(1)
        return out.view(rows, height, width, maps).permute(0, 3, 1, 2)
