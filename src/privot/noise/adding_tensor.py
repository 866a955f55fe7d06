"""Adds Gaussian noise to a tensor where it lies, on the grid of `privot.noise.adding`; it may not keep either.

With g = 2^(⌊log₂ σ⌋ − 40), v the value and n the noise, both float64 on the device,

    out = g·(k + K),        k = rint(v/g),    K = rint(n/g),    k + K in 64-bit integers.

Why the support of `out` does not depend on v. K is drawn without looking at v. Division by g is exact (a power of
two), so K is the whole number nearest to n/g. The last summand of n is a dither, uniform on ±2⁻³⁰σ in steps of
2⁻⁸²σ (`privot.noise.normals`): about 2¹¹ neighbouring whole numbers are reached from every single value of the rest
of n, and the rest is spread over ±8σ at least, in steps far below the dither's width, so no whole number in between is
left out. The sum k + K of whole numbers is exact: |k| ≤ 2²¹·2⁴¹ by the public bound that is checked below, |K| < 2⁴⁶.
So out/g runs through *all* whole numbers around k whatever the bits of v, and P(out/g = j) = P(K = j − k) depends on v
through the whole number k alone: the Gaussian mechanism applied to g·k, rounded. A plain sum has neither property
(Mironov 2012). Rounding k + K to float64 at the end, and to float32 in a training, is post-processing.

Nothing here waits for the device or branches on the value, so neither an exception nor a moment's pause tells about it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from privot.errors import UsageError
from privot.noise.adding import check_ratio, grid_of
from privot.noise.noise_source import NoiseSource

if TYPE_CHECKING:
    import torch


def plain(tensor: torch.Tensor, what: str) -> torch.Tensor:
    """A copy of `tensor`, if it is one tensor of numbers and no stand-in for several.

    Inside vmap, grad or jvp a tensor wraps many values, and one draw of noise would serve them all; a subclass would
    see every operand it meets.
    """
    import torch

    if type(tensor) not in (torch.Tensor, torch.nn.Parameter) or tensor.layout != torch.strided:
        raise UsageError(f"{what} must be a plain tensor.")
    try:
        tensor.data_ptr()
        held = tensor.detach().clone()
        # inside grad and jvp even what is made of a plain tensor is wrapped
        held.data_ptr()
    except RuntimeError:
        raise UsageError(f"{what} cannot be used inside vmap, grad or jvp: noise serves one value.") from None
    return held


def add_noise_tensor(
    value: torch.Tensor, noise: NoiseSource, sigma: float, bound: float, drawn: torch.Tensor | None = None
) -> torch.Tensor:
    """`value` plus N(0, `sigma`²) in every coordinate, as float64 on the value's device.

    `bound` is public: coordinates are clamped to ±`bound`, and one that is not a number counts as 0, so that no value
    can make the sum leave the integers or raise. `drawn` is noise of this σ that was drawn from `noise` beforehand, as
    float64, and is used here only.
    """
    import torch

    check_ratio(bound, sigma)
    value = plain(value, "What noise is added to")
    if drawn is None:
        drawn = noise.normal_tensor(tuple(value.shape), sigma, value.device, torch.float64)
    return add_drawn(value, drawn, sigma, bound)


def add_drawn(value: torch.Tensor, drawn: torch.Tensor, sigma: float, bound: float) -> torch.Tensor:
    """g·(k + K) of the value and of noise that was drawn for it, as above: no draw, no look at a number, no wait.

    So it may be part of what a mechanism records, if every replay is given noise of its own. Noise of another shape is
    refused, because a sum would spread one number of it over several of the value.
    """
    import torch

    if drawn.shape != value.shape or drawn.dtype != torch.float64:
        raise UsageError("Noise drawn beforehand must have the shape of the value, in float64: none is used twice.")
    grid = grid_of(sigma)
    with torch.no_grad():
        held = torch.nan_to_num(value.to(torch.float64), nan=0.0).clamp_(-bound, bound)
        whole = held.div_(grid).round_().to(torch.int64)
        whole += (drawn / grid).round_().to(torch.int64)
        return whole.to(torch.float64).mul_(grid)
