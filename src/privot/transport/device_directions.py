"""Draws directions where the points are, for calls that nobody has to repeat elsewhere; it sees no data.

Whole frames as `slice_directions` draws them, from the same law, not the same numbers: many times faster, and
repeatable on one kind of device only.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor

from privot.transport.slice_directions import Frame

REFLECTIONS = {"cpu": 128, "cuda": 1024}
"""Applied at once: on a CPU few, which saves arithmetic, on a GPU many, which saves launches."""
SHORT = 64
"""Rows up to which a GPU does well to solve with a triangle one row after another."""

Normals = Callable[[int, int, int], Tensor]
"""A shape to as many independent Gaussian numbers."""


def draw_on_device(dim: int, slices: int, frame: Frame, seed: int, device: torch.device, dtype: torch.dtype) -> Tensor:
    """Random unit vectors, the columns of U (dim, slices): in whole Haar-random frames, or independent."""
    U = torch.empty(slices, dim, device=device, dtype=dtype).T
    if device.type == "cpu":
        draw_into(U, frame, _normals_on_cpu(seed, dtype))
    else:
        generator = torch.Generator(device)
        seed_device(generator, seed)
        draw_into(U, frame, normals_on_device(generator))
    return U


def draw_into(U: Tensor, frame: Frame, normals: Normals) -> None:
    """`draw_on_device` into U, the transposed of a contiguous tensor; it never waits for the device."""
    dim, slices = U.shape
    if frame == "independent":
        U.copy_(torch.nn.functional.normalize(normals(1, slices, dim)[0], dim=1).T)
        return
    rest = slices % dim
    with _fork() as join:
        if rest:
            _frames(U[:, slices - rest :].T[None], normals)
    if rest < slices:
        _frames(U[:, : slices - rest].T.view(-1, dim, dim), normals)
    join()


@contextmanager
def _fork() -> Iterator[Callable[[], None]]:
    """While a graph is recorded, what is done within goes beside what follows, until `join()`."""
    started: bool = torch.cuda.is_initialized()  # type: ignore[no-untyped-call]
    if not (started and torch.cuda.is_current_stream_capturing()):
        yield lambda: None
        return
    here: Any = torch.cuda.current_stream()
    aside: Any = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    aside.wait_stream(here)
    with torch.cuda.stream(aside):
        yield lambda: here.wait_stream(aside)


def seed_device(generator: torch.Generator, seed: int) -> None:
    """PyTorch's generator on a GPU takes the lower 63 bits."""
    generator.manual_seed(seed & (1 << 63) - 1)


def normals_on_device(generator: torch.Generator) -> Normals:
    """In float64, so that no setting for products in float32 makes a frame crooked."""

    def draw(*shape: int) -> Tensor:
        return torch.randn(shape, generator=generator, device=generator.device, dtype=torch.float64)

    return draw


def _normals_on_cpu(seed: int, dtype: torch.dtype) -> Normals:
    """From NumPy's generator: PyTorch's own takes 32 bits of a seed there."""
    generator = np.random.Generator(np.random.SFC64(np.random.SeedSequence(seed)))

    def draw(*shape: int) -> Tensor:
        if dtype != torch.float32:
            return torch.from_numpy(generator.standard_normal(shape))
        # by Box & Muller 1958, "A note on the generation of random normal deviates": half as long as NumPy takes
        count = math.prod(shape)
        length, angle = torch.from_numpy(generator.random((2, -(-count // 2)), dtype=np.float32))
        length.neg_().log1p_().mul_(-2.0).sqrt_()
        angle.mul_(2.0 * math.pi)
        return torch.cat((angle.cos().mul_(length), angle.sin_().mul_(length)))[:count].view(shape)

    return draw


def _frames(out: Tensor, normals: Normals) -> None:
    """Write the first columns of Haar-random matrices, orthonormal to a few roundings, as rows of out.

    Householder's QR of a Gaussian matrix turns one vector after another onto an axis, the i-th in dim − i + 1
    dimensions, and what it finds there is Gaussian, whatever came before. So Q is a product of reflections made from
    as many fresh Gaussian vectors: there is nothing to factor, and nothing is lost where a matrix would have been
    nearly singular (Stewart 1980, "The efficient generation of random orthogonal matrices with an application to
    condition estimators"). The signs of its columns are those that make R's diagonal positive (Mezzadri 2007). With
    the vectors as rows vᵢ of V, |vᵢ|² = 2, the product of I − vᵢᵀvᵢ is I − VᵀTV, T⁻¹ the upper triangle of VVᵀ with
    ones on the diagonal (Joffrain, Low, Quintana-Ortí, van de Geijn & Van Zee 2006, "Accumulating Householder
    transformations, revisited").
    """
    frames, width, dim = out.shape
    block = REFLECTIONS.get(out.device.type, REFLECTIONS["cuda"])
    q = signs = out
    for start in reversed(range(0, width, block)):
        stop = min(start + block, width)
        v = normals(frames, stop - start, dim - start).triu_()
        head = v.diagonal(dim1=1, dim2=2)
        length = torch.linalg.vector_norm(v, dim=2)
        head += torch.copysign(length, head)
        sign = torch.copysign(torch.ones_like(length), -head)
        # a vector of zeros, which float32 can draw, stays one and reflects nothing
        v *= (length * head.abs()).clamp_(min=torch.finfo(v.dtype).tiny).rsqrt_()[:, :, None]
        met = v[:, :, : stop - start].mT
        if stop == width:
            q = torch.zeros(frames, width, dim, dtype=v.dtype, device=v.device)
            q.diagonal(dim1=1, dim2=2).fill_(1.0)
            signs = sign
        else:
            met = torch.cat((met, q[:, stop:, stop:] @ v[:, :, stop - start :].mT), 1)
            signs = torch.cat((sign, signs), 1)
        gram = v @ v.mT
        if out.device.type == "cpu" or stop - start <= SHORT:
            met = torch.linalg.solve_triangular(gram, met, upper=False, left=False, unitriangular=True)
        else:
            met = met @ _inverse(gram)
        q[:, start:, start:].baddbmm_(met, v, alpha=-1.0)
    if q.dtype == torch.float32:  # whose roundings of a length would be seen
        signs = signs / torch.linalg.vector_norm(q, dim=2)
    torch.mul(q, signs[:, :, None], out=out)


def _inverse(lower: Tensor) -> Tensor:
    """The inverses of triangles (frames, n, n) with ones on the diagonal; what stands there and above is not read.

    By halves, [[A, 0], [B, C]]⁻¹ = [[A⁻¹, 0], [−C⁻¹BA⁻¹, C⁻¹]], from small blocks up and all of one size at once: a few
    products, where substitution waits for one row after another.
    """
    frames, n = lower.shape[:2]
    halvings = max(0, math.ceil(math.log2(n / SHORT)))
    side = -(-n >> halvings)
    full = side << halvings
    # with a row to spare, blocks lie evenly apart from the first frame to the last
    given, found = torch.zeros(2, frames, full + 1, full, dtype=lower.dtype, device=lower.device)
    given[:, :n, :n] = lower

    def blocks(of: Tensor, apart: int, row: int, column: int) -> Tensor:
        shape, strides = (frames * full // apart, side, side), (apart * (full + 1), full, 1)
        return of.as_strided(shape, strides, of.storage_offset() + row * full + column)

    eye = torch.eye(side, dtype=lower.dtype, device=lower.device).expand(frames << halvings, side, side)
    solved = torch.linalg.solve_triangular(blocks(given, side, 0, 0), eye, upper=False, unitriangular=True)
    blocks(found, side, 0, 0).copy_(solved)
    while side < full:
        a, b, c = blocks(found, 2 * side, 0, 0), blocks(given, 2 * side, side, 0), blocks(found, 2 * side, side, side)
        blocks(found, 2 * side, side, 0).baddbmm_(c @ b, a, alpha=-1.0)
        side *= 2
    out: Tensor = found[:, :n, :n]
    return out
