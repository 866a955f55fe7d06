"""The arithmetic of encoders: in float64 a row's numbers are the same to the last bit, whatever rows stand beside it.

Sums are what depends on company: a library adds in another order for another number of rows, threads or device. Here
every row is written as whole numbers of a unit of its own, a power of two, and weights as whole numbers of public
units, few enough digits each that all sums stay below 2⁵³. Such sums have no rounding in any order. Between sums there
are only operations that IEEE 754 rounds one by one (+, −, ×, ÷, √, comparisons), each by a call of its own, so that no
compiler can fuse two of them for some positions and not for others.

In other number types the usual functions of PyTorch are called: those are for training, which sees no record.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from privot.errors import UsageError
from privot.mechanisms.exact_sums import exact_root

HALF = 17
"""Bits of each of the two parts that an input is cut into."""
_WEIGHTS = 35
"""Σ|w| of the weights of one output, in their unit, stays below 2³⁵: 2³⁵ · 2¹⁷ < 2⁵³."""
_SUMMED = 52
_REACH = 400
"""Rows whose largest number is 2⁴⁰⁰ or more count as not finite; numbers below 2⁻⁴⁰⁰ of such rows as zero."""


def is_exact(x: Tensor) -> bool:
    """Whether the exact arithmetic is meant: in float64."""
    return x.dtype is torch.float64


def divided(x: Tensor, number: float) -> Tensor:
    """x / number, rounded once: by a plain number a GPU multiplies with its reciprocal, which is rounded twice."""
    return x / x.new_full((), number) if is_exact(x) else x / number


def power_of_two(exponent: Tensor) -> Tensor:
    """2^exponent in float64, exactly, for whole exponents from −1022 to 1023."""
    return ((exponent.to(torch.int64) + 1023) << 52).view(torch.float64)


def on_grid(x: Tensor, bits: int) -> tuple[Tensor, Tensor]:
    """Whole numbers q with |q| ≤ 2^bits and a power of two u for every row, so that x ≈ q·u, to half a u.

    u follows from the largest number of that row alone. A row with a number that is not finite is NaN throughout, and
    so is its u: no library has to carry a NaN through a sum, where a weight of 0 could lose it.
    """
    flat = x.reshape(len(x), -1)
    top = flat.abs().amax(dim=1) if flat.shape[1] else flat.new_zeros(len(x))
    # the exponent bits of the largest number: top < 2^exponent
    exponent = ((top.view(torch.int64) >> 52) & 0x7FF) - 1022
    known = torch.isfinite(top) & (exponent <= _REACH)
    exponent = exponent.clamp(-_REACH, _REACH)
    scale = torch.where(known, power_of_two(bits - exponent), math.nan)
    along = (len(x),) + (1,) * (x.dim() - 1)
    unit = torch.where(known, power_of_two(exponent - bits), math.nan)
    return torch.round(x * scale.view(along)), unit.view(along)


def halves(x: Tensor, bits: int) -> tuple[Tensor, Tensor, Tensor]:
    """x ≈ (h·2^bits + l)·u with whole |h| ≤ 2^bits and |l| ≤ 2^(bits−1); u is a power of two for every row."""
    whole, unit = on_grid(x, 2 * bits)
    high = torch.round(whole * 2.0**-bits)
    return high, whole - high * 2.0**bits, unit


class Constant:
    """A public tensor of a file, in float64; `on` gives it where it is needed and never changes it."""

    def __init__(self, value: Tensor) -> None:
        self.value = value.detach().to("cpu", torch.float64, copy=True).contiguous()
        if not bool(torch.isfinite(self.value).all()):
            raise UsageError("The encoder holds numbers that are not finite: train it again, or repair the file.")
        self._held: dict[Any, Tensor] = {}

    @property
    def shape(self) -> torch.Size:
        """Its sizes."""
        return self.value.shape

    def on(self, x: Tensor) -> Tensor:
        """The tensor where `x` is, in its number type."""
        if is_exact(x) and x.device.type == "cpu":
            return self.value
        if (x.device, x.dtype) not in self._held:
            self._held[x.device, x.dtype] = self.value.to(x)
        return self._held[x.device, x.dtype]

    def tensors(self, device: torch.device) -> list[Tensor]:
        """What is used on records that are on `device`."""
        return [self._held.get((device, torch.float64), self.value)]


class Weights:
    """W of shape (outputs, inputs), or (groups, outputs, inputs), for products that are exact in float64.

    Each output has a unit of its own, a power of two; the weights are rounded to whole numbers of it. A weight of the
    average size keeps about 34 − log₂(inputs) bits.
    """

    def __init__(self, value: Tensor) -> None:
        self.plain = Constant(value)
        # exact, so that the units do not depend on the order of a sum either
        flat = self.plain.value.abs().reshape(-1, value.shape[-1])
        total = summed(flat, (1,)).reshape(value.shape[:-1])
        if not bool((total < 2.0**_REACH).all()):
            raise UsageError("The weights of the encoder are too large for exact sums.")
        _, exponent = torch.frexp(total.clamp(min=2.0**-_REACH))
        self.unit = power_of_two(exponent - _WEIGHTS + 1)
        self.whole = torch.round(self.plain.value / self.unit[..., None])
        if not bool((self.whole.abs().sum(dim=-1) <= 2.0**_WEIGHTS).all()):
            raise UsageError("The encoder has too many weights for one output.")
        self._held: dict[torch.device, tuple[Tensor, Tensor]] = {}

    def tensors(self, device: torch.device) -> list[Tensor]:
        """What is used on records that are on `device`."""
        return list(self._held.get(device, (self.whole, self.unit)))

    def times(self, x: Tensor) -> Tensor:
        """W·x along the last axis but one of `x`: (rows, …, inputs, positions) to (rows, …, outputs, positions)."""
        if not is_exact(x):
            return torch.matmul(self.plain.on(x), x)
        high, low, unit = halves(x, HALF)
        whole, units = self.on(x)
        first, second = torch.matmul(whole, torch.cat([high, low], dim=-1)).chunk(2, dim=-1)
        return _joined(first, second) * (unit * units[..., None])

    def along_last(self, x: Tensor) -> Tensor:
        """W·x along the last axis of `x`: (rows, …, inputs) to (rows, …, outputs); W has no groups."""
        if not is_exact(x):
            return functional.linear(x, self.plain.on(x))
        high, low, unit = halves(x, HALF)
        whole, units = self.on(x)
        first, second = torch.matmul(torch.cat([high, low]), whole.T).chunk(2)
        return _joined(first, second) * (unit * units)

    def on(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """The whole numbers and their units where `x` is."""
        if x.device.type in ("cpu", "meta"):
            return self.whole.to(x.device), self.unit.to(x.device)
        if x.device not in self._held:
            self._held[x.device] = self.whole.to(x.device), self.unit.to(x.device)
        return self._held[x.device]


def _joined(high: Tensor, low: Tensor) -> Tensor:
    """high·2¹⁷ + low, rounded once."""
    shifted = high * 2.0**HALF
    return shifted + low


def convolved(
    x: Tensor,
    weights: Weights,
    kernel: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
) -> Tensor:
    """A convolution of (rows, channels, height, width), `weights` of shape (groups, filters a group, inputs)."""
    groups, filters, inputs = weights.plain.shape
    if not is_exact(x):
        shaped = weights.plain.on(x).reshape(groups * filters, -1, *kernel)
        return functional.conv2d(x, shaped, None, tuple(stride), tuple(padding), tuple(dilation), groups)
    # by one product: other ways to compute it do not sum whole numbers; cut first, for patches repeat every number
    high, low, unit = halves(x, HALF)
    both = torch.cat([high, low])
    patches = functional.unfold(both, tuple(kernel), tuple(dilation), tuple(padding), tuple(stride))
    first, second = torch.matmul(weights.on(x)[0], patches.view(len(both), groups, inputs, -1)).chunk(2)
    found = _joined(first, second) * (unit * weights.on(x)[1][..., None])
    down, across = (
        (side + 2 * p - d * (k - 1) - 1) // s + 1
        for side, p, d, k, s in zip(x.shape[2:], padding, dilation, kernel, stride, strict=True)
    )
    return found.reshape(len(x), groups * filters, down, across)


def summed(x: Tensor, dims: Sequence[int], keepdim: bool = False) -> Tensor:
    """Σ over `dims`, which do not hold the axis of the rows."""
    if not is_exact(x):
        return x.sum(dim=tuple(dims), keepdim=keepdim)
    count = math.prod(x.shape[d] for d in dims)
    whole, unit = on_grid(x, _bits(count))
    total = whole.sum(dim=tuple(dims), keepdim=True) * unit
    found: Tensor = total if keepdim else total.squeeze(tuple(dims))
    return found


def norms(x: Tensor, dims: Sequence[int], keepdim: bool = False) -> Tensor:
    """√Σx² over `dims`, to a relative 2⁻³⁰ and better where fewer than 2¹² numbers are summed."""
    if not is_exact(x):
        usual: Tensor = torch.linalg.vector_norm(x, dim=tuple(dims), keepdim=keepdim)
        return usual
    count = math.prod(x.shape[d] for d in dims)
    bits = _bits(count) // 2
    high, low, unit = halves(x, bits)
    total = None
    # (h·2^b + l)², smallest first: three exact sums
    for one, other, share in ((low, low, 1.0), (high, low, 2.0 ** (bits + 1)), (high, high, 4.0**bits)):
        part = (one * other).sum(dim=tuple(dims), keepdim=True) * share
        total = part if total is None else total + part
    assert total is not None
    length = root(total) * unit
    found: Tensor = length if keepdim else length.squeeze(tuple(dims))
    return found


def pooled(x: Tensor, down: Tensor, across: Tensor) -> Tensor:
    """Σ over windows of (rows, channels, height, width): matrices of zeros and ones say which rows and columns."""
    if not is_exact(x):
        return torch.matmul(torch.matmul(down.to(x), x), across.to(x).T)
    count = int(down.sum(dim=1).max()) * int(across.sum(dim=1).max())
    whole, unit = on_grid(x, _bits(count))
    return torch.matmul(torch.matmul(down.to(x), whole), across.to(x).T) * unit


def window_sums(x: Tensor, kernel: Sequence[int], stride: Sequence[int], padding: Sequence[int], ceil: bool) -> Tensor:
    """Σ over windows of a fixed size."""
    sizes = (tuple(kernel), tuple(stride), tuple(padding), ceil)
    if not is_exact(x):
        return functional.avg_pool2d(x, *sizes, divisor_override=1)
    whole, unit = on_grid(x, _bits(math.prod(kernel)))
    return functional.avg_pool2d(whole, *sizes, divisor_override=1) * unit


def _bits(count: int) -> int:
    """Bits of numbers of which `count` sum to less than 2⁵²; and their squares, with half as many."""
    return _SUMMED - max(0, count - 1).bit_length()


_INVERSE_LN2 = 1.4426950408889634
_LN2_HIGH, _LN2_LOW = 0.6931471803691238, 1.9082149292705877e-10
"""ln 2 in two parts, the first with few enough bits that its product with a whole number below 2¹¹ is exact."""
_TERMS = [1.0 / math.factorial(k) for k in range(13, -1, -1)]


def exponential(x: Tensor) -> Tensor:
    """eˣ, x cut to [−700, 700]; by a Taylor sum of operations that are rounded one by one, to a relative 1e-15.

    Libraries evaluate the exponential by other formulas in the middle and at the end of a stretch of memory.
    """
    if not is_exact(x):
        return torch.exp(x.clamp(-80.0, 80.0))
    unknown = torch.isnan(x)
    cut = torch.where(unknown, 0.0, x).clamp(-700.0, 700.0)
    turns = torch.round(cut * _INVERSE_LN2)
    rest = cut - turns * _LN2_HIGH
    rest = rest - turns * _LN2_LOW
    found = torch.full_like(rest, _TERMS[0])
    for term in _TERMS[1:]:
        found = found * rest
        found = found + term
    return torch.where(unknown, math.nan, found * power_of_two(turns))


root = exact_root
"""√x, rounded as IEEE 754 says; NaN below 0."""


def digest_of(tensors: Sequence[Tensor]) -> str:
    """SHA-256 of the numbers of all `tensors`, in their order."""
    seal = hashlib.sha256()
    for tensor in tensors:
        seal.update(repr(tuple(tensor.shape)).encode())
        seal.update(tensor.cpu().numpy().tobytes())
    return seal.hexdigest()
