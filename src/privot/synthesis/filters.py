"""Features of what small filters see in an image, region by region; drawn from a recorded seed, without any record.

A network that classifies images looks at edges and textures, wherever in a region they lie. Pixels compared one by one
(`features.Fourier`) say little of that, these features do.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from privot.errors import UsageError
from privot.images import image_axes
from privot.noise import arguments
from privot.synthesis.features import BITS, Fourier, kept_on, public_range, register, to_unit
from privot.transport.directions import check_seed

_STRIDE = 2
_SCALE = 1024.0
_MOST_DENSE = 2**27
"""Numbers in a matrix that does all of the filters' work at once (256 MB); for larger images it is a convolution."""


class Filtered:
    """φ(x) = Fourier(u(x)), u_fc = (cell/√F)·mean over positions p in region c of |⟨w_f, patch of x' at p⟩|.

    x' is the image scaled from [`low`, `high`] to [0, 1]; w_f are F Gaussian filters of `width` × `width` × channels,
    of mean zero and norm one; regions are squares of `cell` pixels, positions lie two pixels apart, and outside of the
    image is 0. `bandwidths` are those of `Fourier` in the unit of u. The norm of φ is exactly 1.

    In float64 everything is as exact as there: x' lies on a grid of 2⁻¹⁶ and w on one of its own, so that an inner
    product and the sum over a region are whole numbers below 2⁵³, in whatever order they are summed; u is one
    multiplication of that, and `Fourier` puts it on a grid again.
    """

    kind = "filtered"
    rounding = Fourier.rounding

    def __init__(
        self,
        shape: Sequence[int],
        filters: int,
        frequencies: int,
        bandwidths: Sequence[float],
        seed: int,
        low: float | Sequence[float] = 0.0,
        high: float | Sequence[float] = 1.0,
        width: int = 5,
        cell: int = 4,
    ) -> None:
        self.shape = tuple(int(s) for s in shape)
        self.axes = image_axes(self.shape)
        self.height, self.breadth, self.channels, _ = self.axes
        self.dim = self.height * self.breadth * self.channels
        self.filters = arguments.whole("The number of filters", filters, 1)
        self.width = arguments.whole("The width of a filter", width, 2)
        self.cell = arguments.whole("The side of a region", cell, _STRIDE)
        if self.cell % _STRIDE:
            raise UsageError(f"The side of a region must be a multiple of {_STRIDE}.")
        self.seed = check_seed(seed)
        self.low, self.high = public_range(low, high, self.dim)
        self.regions = (-(-self.height // self.cell), -(-self.breadth // self.cell))
        # the most that u can be: all positive weights of a filter on white, all others on black
        most = self._gain * float(np.maximum(self._weights, 0.0).sum(axis=0).max())
        bank = self.filters * self.regions[0] * self.regions[1]
        # not orthogonal: among thousands of columns directions nearly are, and a frame takes minutes to draw
        scaled = [h / most for h in bandwidths]
        self.inner = Fourier(bank, frequencies, scaled, self.seed, 0.0, most, "independent")
        self.bandwidths = tuple(float(h) for h in bandwidths)

    @property
    def size(self) -> int:
        """A cosine and a sine for every frequency."""
        return self.inner.size

    @property
    def _gain(self) -> float:
        return self.cell / math.sqrt(self.filters)

    @property
    def _positions(self) -> int:
        """In one region."""
        return (self.cell // _STRIDE) ** 2

    @cached_property
    def _weights(self) -> NDArray[np.float64]:
        """w of shape (channels·width², filters), on its grid."""
        dice = np.random.Generator(np.random.Philox(np.random.SeedSequence(self.seed, spawn_key=(2,))))
        drawn = dice.standard_normal((self.channels * self.width**2, self.filters))
        drawn -= drawn.mean(axis=0)
        drawn /= np.linalg.norm(drawn, axis=0)
        # |a region's sum| ≤ positions·Σ|w|: with 16 bits for x', w may have this many behind the point
        bits = 52 - BITS - math.frexp(self._positions * float(np.abs(drawn).sum(axis=0).max()))[1]
        return np.ldexp(np.rint(np.ldexp(drawn, bits)), -bits)

    def seen(self, x: torch.Tensor) -> torch.Tensor:
        """u, of shape (rows, filters · regions)."""
        weights, low, span = kept_on(self, x, lambda: (self._weights, self.low, self.high))
        scaled, rows, columns = to_unit(x, low, span), *self.regions
        side = self.cell // _STRIDE
        if x.dtype == torch.float64:
            patches = torch.nn.functional.unfold(self._padded(scaled), self.width, stride=_STRIDE)
            found = (patches.transpose(1, 2) @ weights).abs().view(len(x), rows, side, columns, side, self.filters)
            out: torch.Tensor = found.sum(dim=(2, 4)).reshape(len(x), -1) * (self._gain / self._positions)
            return out
        # generated samples need no exact sums, and unfolding launches a kernel for every image
        if x.is_cuda and self.dim * self.filters * rows * columns * side**2 <= _MOST_DENSE:
            return self._seen_at_once(scaled)
        regional = torch.nn.functional.avg_pool2d(self._found(scaled, weights).abs(), side)
        return regional.permute(0, 2, 3, 1).reshape(len(x), -1) * self._gain

    def _padded(self, scaled: torch.Tensor) -> torch.Tensor:
        """(rows, channels, height, width), with zeros around it and up to whole regions."""
        before, after = self.width // 2, (self.width - 1) // 2
        below, right = (n * self.cell - s for n, s in zip(self.regions, (self.height, self.breadth), strict=True))
        return torch.nn.functional.pad(self.axes.pictures(scaled), (before, after + right, before, after + below))

    def _found(self, scaled: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
        """⟨w_f, patch⟩ of shape (rows, filters, positions down, positions across)."""
        bank = weights.T.reshape(self.filters, self.channels, self.width, self.width)
        return torch.nn.functional.conv2d(self._padded(scaled), bank, stride=_STRIDE)

    def _seen_at_once(self, scaled: torch.Tensor) -> torch.Tensor:
        """u in half precision, all filters at all positions by one product: a convolution of one map runs badly."""
        matrices = self.__dict__.setdefault("_matrices", {})
        if scaled.device not in matrices:
            matrices[scaled.device] = self.matrix().half().to(scaled.device)
        out: torch.Tensor = _AtOnce.apply(scaled, matrices[scaled.device], self._positions)  # type: ignore[no-untyped-call]
        return out * self._gain

    def matrix(self) -> torch.Tensor:
        """⟨w_f, patch at p⟩ as a product: (dim, positions in a region · regions · filters)."""
        unit, (rows, columns) = torch.eye(self.dim), self.regions
        side = self.cell // _STRIDE
        found = self._found(unit, torch.as_tensor(self._weights, dtype=torch.float32))
        found = found.view(self.dim, self.filters, rows, side, columns, side)
        return found.permute(0, 3, 5, 2, 4, 1).reshape(self.dim, -1)

    def features(self, x: torch.Tensor) -> torch.Tensor:
        """(rows, size) from (rows, dim)."""
        return self.inner.features(self.seen(x))

    def to_dict(self) -> dict[str, Any]:
        """All it takes to draw the map again."""
        return {
            "kind": self.kind,
            "shape": list(self.shape),
            "filters": self.filters,
            "frequencies": self.inner.frequencies,
            "bandwidths": list(self.bandwidths),
            "seed": self.seed,
            "low": self.low,
            "high": self.high,
            "width": self.width,
            "cell": self.cell,
        }


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


@register("filtered")
def _filtered(fields: Mapping[str, Any]) -> Filtered:
    names = ("shape", "filters", "frequencies", "bandwidths", "seed", "low", "high", "width", "cell")
    return Filtered(**{name: fields[name] for name in names})
