"""Draws Haar-random frames on CUDA in few launches, as `Frames` of `device_directions` does on a CPU; it sees no data.

A frame of some hundred columns is more waiting for the next kernel than arithmetic. So one kernel draws all vectors to
reflect in and gives them their length, and the triangle of the reflections' product is inverted by halves, all of one
size at once. Products are in float64: no slower on such a GPU at these sizes, and no setting for products in float32
makes a frame crooked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from privot.transport.slice_directions import Frame

SHORT = 32
"""Rows of a triangle that one program inverts by itself."""


@triton.jit
def _draw(out, factors, seed, salt, rows, width, dim, reflect: tl.constexpr, block: tl.constexpr):
    """Row i of a frame of `rows`, of which `width` are drawn, the others zero.

    To `reflect`, Gaussian from column i on, made the vector v of its reflection, |v|² = 2, and minus the sign of its
    i-th entry; else Gaussian throughout, and 1/its norm.
    """
    which = tl.program_id(0)
    i = which % rows
    out += which.to(tl.int64) * dim
    key = tl.load(seed)
    total = tl.zeros((block,), tl.float64)
    at_i = tl.zeros((block,), tl.float64)
    for start in range(0, dim, block):
        column = start + tl.arange(0, block)
        none = tl.zeros_like(column)
        a, b, _, _ = tl.philox(key, column, none + which, none + salt, none)
        z, _ = tl.pair_uniform_to_normal(tl.uint_to_uniform_float(a), tl.uint_to_uniform_float(b))
        drawn = (column < dim) & (i < width)
        if reflect:
            drawn = drawn & (column >= i)
        z = tl.where(drawn, z, 0.0).to(tl.float64)
        total += z * z
        at_i += tl.where(column == i, z, 0.0)
        tl.store(out + column, z, mask=column < dim)
    length = tl.sqrt(tl.sum(total, 0))
    if reflect:
        head = tl.sum(at_i, 0)
        sign = tl.where(head < 0, -1.0, 1.0)
        head += sign * length
        # a vector of zeros stays one and reflects nothing
        scale = 1.0 / tl.sqrt(tl.maximum(length * tl.abs(head), 1e-300))
        tl.debug_barrier()
        for start in range(0, dim, block):
            column = start + tl.arange(0, block)
            z = tl.load(out + column, mask=column < dim, other=0.0)
            tl.store(out + column, tl.where(column == i, head, z) * scale, mask=(column < dim) & (i < width))
        tl.store(factors + which, -sign)
    else:
        tl.store(factors + which, 1.0 / length)


@triton.jit
def _invert(given, found, side, full, size: tl.constexpr):
    """The inverses of unit lower triangles on the diagonal, blocks of `side` ≤ size = 32 in frames (full + 1, full).

    (I + N)⁻¹ = (I − N)(I + N²)(I + N⁴)(I + N⁸)(I + N¹⁶), since N³² = 0.
    """
    i = tl.arange(0, size)
    at = tl.program_id(0).to(tl.int64) * side * (full + 1) + i[:, None] * full + i[None, :]
    inside = (i[:, None] < side) & (i[None, :] < side)
    below = inside & (i[:, None] > i[None, :])
    power = tl.load(given + at, mask=below, other=0.0)
    total = tl.where(i[:, None] == i[None, :], 1.0, 0.0).to(tl.float64) - power
    for _ in tl.static_range(4):
        power = tl.dot(power, power, input_precision="ieee", out_dtype=tl.float64)
        total += tl.dot(total, power, input_precision="ieee", out_dtype=tl.float64)
    tl.store(found + at, total, mask=inside)


@triton.jit
def _finish(product, signs, out, rows, width, dim, block: tl.constexpr):
    """Row i of a frame: sᵢ(eᵢ − row i of the product)."""
    which = tl.program_id(0)
    i = which % width
    sign = tl.load(signs + which // width * rows + i)
    for start in range(0, dim, block):
        column = start + tl.arange(0, block)
        at = which.to(tl.int64) * dim + column
        row = tl.load(product + at, mask=column < dim, other=0.0)
        row = (tl.where(column == i, 1.0, 0.0) - row) * sign
        tl.store(out + at, row, mask=column < dim)


@triton.jit
def _scale(drawn, factors, out, dim, block: tl.constexpr):
    """Each row times its factor."""
    which = tl.program_id(0).to(tl.int64)
    factor = tl.load(factors + which)
    for start in range(0, dim, block):
        column = start + tl.arange(0, block)
        row = tl.load(drawn + which * dim + column, mask=column < dim, other=0.0)
        tl.store(out + which * dim + column, row * factor, mask=column < dim)


def seed_on_device(seed: int, device: torch.device) -> Tensor:
    """The key of `draw_into`."""
    return torch.full((1,), low_bits(seed), dtype=torch.int64, device=device)


def low_bits(seed: int) -> int:
    """What `draw_into` reads of a seed."""
    return seed % (1 << 63)


def draw_into(across: Tensor, frame: Frame, seed: Tensor) -> None:
    """Write unit vectors, the rows of `across` (slices, dim): in whole frames, or independent; it never waits."""
    slices, dim = across.shape
    with torch.cuda.device(across.device):  # Triton launches on the current device
        if frame == "independent":
            drawn, factors = _drawn(1, slices, slices, dim, seed, 0, False)
            _scale[(slices,)](drawn, factors, across, dim, block=_block(dim))
            return
        rest = slices % dim
        with beside() as join:
            if rest < slices:
                _frames(across[: slices - rest].view(-1, dim, dim), seed, 0)
        if rest:
            _frames(across[slices - rest :][None], seed, 1)
        join()


@contextmanager
def beside() -> Iterator[Callable[[], None]]:
    """While a graph is recorded, what is done within goes beside what follows, until `join()`."""
    if not torch.cuda.is_current_stream_capturing():
        yield lambda: None
        return
    here: Any = torch.cuda.current_stream()
    aside: Any = torch.cuda.Stream()
    aside.wait_stream(here)
    with torch.cuda.stream(aside):
        yield lambda: here.wait_stream(aside)


def _block(dim: int) -> int:
    block: int = min(2048, max(16, triton.next_power_of_2(dim)))
    return block


def _drawn(
    frames: int, rows: int, width: int, dim: int, seed: Tensor, salt: int, reflect: bool
) -> tuple[Tensor, Tensor]:
    """What `_draw` makes of the seed: the vectors (frames, rows, dim), and a factor of each."""
    v = torch.empty(frames, rows, dim, dtype=torch.float64, device=seed.device)
    factors = torch.empty(frames, rows, dtype=torch.float64, device=seed.device)
    _draw[(frames * rows,)](v, factors, seed, salt, rows, width, dim, reflect=reflect, block=_block(dim))
    return v, factors


def _frames(out: Tensor, seed: Tensor, salt: int) -> None:
    """Write the first columns of Haar-random matrices as rows of `out` (frames, width, dim).

    The law and the product I − VᵀTV are those of `Frames`.
    """
    frames, width, dim = out.shape
    halvings = max(0, -(-width // SHORT) - 1).bit_length()
    side = -(-width >> halvings)
    full = side << halvings
    # what is drawn no more is zero; with a row to spare, blocks lie evenly apart from the first frame to the last
    v, signs = _drawn(frames, full + 1, width, dim, seed, salt, True)
    gram = v @ v[:, :full].mT
    met = v[:, :full, :width].mT @ _inverse(gram, side)
    _finish[(frames * width,)](met @ v[:, :full], signs, out, full + 1, width, dim, block=_block(dim))


def _inverse(gram: Tensor, side: int) -> Tensor:
    """The inverses of triangles with ones on the diagonal, in frames (full + 1, full), full = side·2^h.

    By halves, [[A, 0], [B, C]]⁻¹ = [[A⁻¹, 0], [−C⁻¹BA⁻¹, C⁻¹]], from small blocks up and all of one size at once: a few
    products, where substitution waits for one row after another. What stands on the diagonal and above is not read.
    """
    frames, _, full = gram.shape
    found = torch.zeros_like(gram)
    _invert[(frames * full // side,)](gram, found, side, full, size=SHORT)

    def blocks(of: Tensor, apart: int, row: int, column: int) -> Tensor:
        shape, strides = (frames * full // apart, side, side), (apart * (full + 1), full, 1)
        return of.as_strided(shape, strides, of.storage_offset() + row * full + column)

    while side < full:
        a, b, c = blocks(found, 2 * side, 0, 0), blocks(gram, 2 * side, side, 0), blocks(found, 2 * side, side, side)
        blocks(found, 2 * side, side, 0).baddbmm_(c @ b, a, alpha=-1.0)
        side *= 2
    out: Tensor = found[:, :full]
    return out
