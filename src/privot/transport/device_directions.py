"""Draws directions where the points are, for calls that nobody has to repeat elsewhere; it sees no data.

Whole frames as `slice_directions` draws them, from the same law, not the same numbers: many times faster, and
repeatable on one kind of device only.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from privot.transport import cuda
from privot.transport.slice_directions import Frame

BAND = 128
"""Rows of a triangle that are drawn at once: few draw little that is not wanted, many take few calls."""

Normals = Callable[[int, int, int], Tensor]
"""A shape to as many independent Gaussian numbers."""


def draw_on_device(dim: int, slices: int, frame: Frame, seed: int, device: torch.device, dtype: torch.dtype) -> Tensor:
    """Random unit vectors, the columns of U (dim, slices): in whole Haar-random frames, or independent."""
    if device.type == "cuda" and cuda.available():
        from privot.transport.cuda.frame_kernels import draw_into, seed_on_device

        across = torch.empty(slices, dim, device=device, dtype=dtype)
        draw_into(across, frame, seed_on_device(seed, device))
        return across.T
    normals = normals_of(seed, device, dtype)
    if frame == "independent":
        return torch.nn.functional.normalize(normals(1, slices, dim)[0], dim=1).to(dtype).T
    return Frames(dim, slices, normals).columns().to(dtype)


def normals_of(seed: int, device: torch.device, dtype: torch.dtype) -> Normals:
    """Of `dtype` on a CPU; elsewhere in float64, so that no setting for products in float32 makes a frame crooked."""
    if device.type == "cpu":
        return _normals_on_cpu(seed, dtype)
    generator = torch.Generator(device)
    generator.manual_seed(seed & (1 << 63) - 1)  # a GPU's takes 63 bits

    def draw(*shape: int) -> Tensor:
        return torch.randn(shape, generator=generator, device=device, dtype=torch.float64)

    return draw


def _normals_on_cpu(seed: int, dtype: torch.dtype) -> Normals:
    """From NumPy's generator: PyTorch's own takes 32 bits of a seed there."""
    bits = np.random.SFC64(np.random.SeedSequence(seed))
    generator = np.random.Generator(bits)

    def draw(*shape: int) -> Tensor:
        if dtype != torch.float32:
            return torch.from_numpy(generator.standard_normal(shape))
        # by Box & Muller 1958, "A note on the generation of random normal deviates": a third as long as NumPy takes
        count = math.prod(shape)
        half = -(-count // 2)
        first, second = torch.from_numpy(bits.random_raw(half).view(np.int32)).view(2, half)
        # 24 bits of it, uniform on (0, 1], whose logarithm is finite
        length = (first >> 8).to(dtype).mul_(-(2.0**-24)).add_(0.5).log_().mul_(-2.0).sqrt_()
        angle = second.to(dtype).mul_(math.pi * 2.0**-31)
        out = torch.empty(2, half)
        torch.cos(angle, out=out[0])
        torch.sin(angle, out=out[1])
        out *= length
        return out.flatten()[:count].view(shape)

    return draw


class Frames:
    """Directions in Haar-random orthonormal frames, kept as the reflections that make them.

    Householder's QR of a Gaussian matrix turns one vector after another onto an axis, the i-th in dim − i + 1
    dimensions, and what it finds there is Gaussian, whatever came before. So Q is a product of reflections made from
    as many fresh Gaussian vectors: there is nothing to factor, and nothing is lost where a matrix would have been
    nearly singular (Stewart 1980, "The efficient generation of random orthogonal matrices with an application to
    condition estimators"). The signs of its columns are those that make R's diagonal positive (Mezzadri 2007). Few
    points are reflected themselves, at less cost than Q is.
    """

    def __init__(self, dim: int, slices: int, normals: Normals) -> None:
        whole, rest = divmod(slices, dim)
        parts = ((whole, dim), (1, rest))
        self._parts = [_Reflections(count, width, dim, normals) for count, width in parts if count and width]
        self.shape = (dim, slices)

    def columns(self) -> Tensor:
        """U of shape (dim, slices), orthonormal to a few roundings."""
        return torch.cat([part.rows().flatten(0, 1) for part in self._parts]).T

    def div_(self, scale: Tensor) -> Frames:
        """All columns divided by `scale`."""
        for part in self._parts:
            part.signs /= scale
        return self

    def project(self, points: Tensor) -> Tensor:
        """(points·U)ᵀ of points (n, dim): of shape (slices, n)."""
        return torch.cat([part.project(points).flatten(0, 1) for part in self._parts])

    def combine(self, slopes: Tensor) -> Tensor:
        """(U·slopes)ᵀ of slopes (slices, n): of shape (n, dim)."""
        out, done = torch.zeros(()), 0
        for part in self._parts:
            count = part.signs.numel()
            out, done = out + part.combine(slopes[done : done + count]), done + count
        return out


class _Reflections:
    """The first `width` columns of `frames` Haar-random matrices, as LAPACK keeps them: I − τvvᵀ with vᵢ = 1."""

    def __init__(self, frames: int, width: int, dim: int, normals: Normals) -> None:
        first = normals(frames, min(width, BAND), dim)
        v = torch.zeros(frames, width, dim, dtype=first.dtype, device=first.device)
        v[:, :BAND] = first
        for start in range(BAND, width, BAND):
            stop = min(start + BAND, width)
            v[:, start:stop, start:] = normals(frames, stop - start, dim - start)
        head = v.triu_().diagonal(dim1=1, dim2=2)
        length = torch.linalg.vector_norm(v, dim=2)
        head += torch.copysign(length, head)
        self.signs = torch.copysign(torch.ones_like(length), -head)
        # a vector of zeros, which float32 can draw, reflects nothing
        tiny = torch.finfo(v.dtype).tiny
        self._tau = head.abs() / length.clamp_(min=tiny)
        v /= torch.copysign(head.abs().clamp_(min=tiny), head)[:, :, None]
        self._columns = v.mT

    def rows(self) -> Tensor:
        """Uᵀ of each frame, (frames, width, dim)."""
        q: Tensor = torch.linalg.householder_product(self._columns, self._tau).mT
        # in float32 roundings of a length would be seen
        signs = self.signs / torch.linalg.vector_norm(q, dim=2) if q.dtype == torch.float32 else self.signs
        return q.mul_(signs[:, :, None])

    def project(self, points: Tensor) -> Tensor:
        """(points·U)ᵀ of points (n, dim): (frames, width, n)."""
        frames, width = self.signs.shape
        met = torch.ormqr(self._columns, self._tau, points.expand(frames, *points.shape), left=False)
        return met.mT[:, :width] * self.signs[:, :, None]

    def combine(self, slopes: Tensor) -> Tensor:
        """The sum over frames of (U·slopes)ᵀ, slopes (frames·width, n): (n, dim)."""
        frames, dim, width = self._columns.shape
        full = slopes.new_zeros(frames, dim, slopes.shape[1])
        torch.mul(slopes.view(frames, width, -1), self.signs[:, :, None], out=full[:, :width])
        met = torch.ormqr(self._columns, self._tau, full.mT, left=False, transpose=True)
        return met.sum(0)
