"""ChaCha20 and normal variates in plain tensor operations on any device; it may not choose or keep a key.

The block function is that of RFC 8439, section 2.3, on all blocks of a call at once: int32 addition wraps,
and the arithmetic right shift is masked into a logical one. Nothing is copied from the device or waited
for. The same code runs on CPU tensors, where it is tested against the RFC and against OpenSSL. On CUDA the
words come in one launch (`chacha_kernels`) where that gives the RFC's own example right, which is tried once
a process.
"""

from __future__ import annotations

import math
import struct
from functools import lru_cache
from importlib.util import find_spec
from typing import TYPE_CHECKING

from privot.errors import UsageError
from privot.noise.normals import DITHER, SUMMANDS

if TYPE_CHECKING:
    import torch

CHUNK = 1 << 21
"""Normals made from one key: 2²⁰ blocks, 2²⁴ words."""

_CONSTANTS = b"expand 32-byte k"
_EXAMPLE_NONCE = bytes.fromhex("000000090000004a00000000")
_EXAMPLE = bytes.fromhex(
    "e4e7f11015593bd11fdd0f50c47120a3c7f4d1c70368c0339aaa22044e6cd4c3"
    "466482d209aa9f0705d7c214a2028bd9d19c12b5b94e16dee883d0cb4e3c50a2"
)
"""The sixteen words of the RFC's example, as it writes them."""


def chacha20_words(key: bytes, nonce: bytes, counter: int, blocks: int, device: torch.device | str) -> torch.Tensor:
    """Words of the ChaCha20 keystream: int32, shape (16, blocks), column j is block `counter` + j.

    `key` has 32 bytes and `nonce` 12. The block counter has 32 bits and never wraps: a range beyond it is
    refused.
    """
    import torch

    if counter < 0 or blocks < 1 or counter + blocks > 1 << 32:
        raise UsageError(f"ChaCha20 has 2³² blocks per key, got blocks {counter} to {counter + blocks - 1}.")
    first = _first_block(key, nonce, device)
    if first.is_cuda and _fused(first.device):
        from privot.noise.chacha_cuda import words_of

        return words_of(first, counter, blocks)
    last = first[3].repeat(1, blocks)
    # narrowing keeps the low 32 bits: the counter as the RFC's unsigned word
    last[0] = torch.arange(counter, counter + blocks, dtype=torch.int64, device=device).to(torch.int32)

    a, b, c = (first[row].repeat(1, blocks) for row in range(3))
    d = last.clone()
    scratch = torch.empty_like(a)
    for _ in range(10):
        _quarter_rounds(a, b, c, d, scratch)
        b, c, d = b.roll(-1, 0), c.roll(-2, 0), d.roll(-3, 0)
        _quarter_rounds(a, b, c, d, scratch)
        b, c, d = b.roll(1, 0), c.roll(2, 0), d.roll(3, 0)
    return torch.cat([a.add_(first[0]), b.add_(first[1]), c.add_(first[2]), d.add_(last)])


def _first_block(key: bytes, nonce: bytes, device: torch.device | str) -> torch.Tensor:
    """The sixteen words that go into block 0, (4, 4, 1)."""
    import torch

    first = torch.empty((4, 4, 1), dtype=torch.int32, device=device)
    for place, word in enumerate(struct.unpack("<16i", _CONSTANTS + key + bytes(4) + nonce)):
        # a fill carries the number with the launch, where a copied array would make the host wait
        first[place // 4, place % 4].fill_(word)
    return first


@lru_cache(maxsize=16)
def _fused(device: torch.device) -> bool:
    """Whether one launch in place of nine hundred finds the block of RFC 8439, section 2.3.2."""
    if find_spec("triton") is None:
        return False
    try:
        from privot.noise.chacha_cuda import words_of

        found = words_of(_first_block(bytes(range(32)), _EXAMPLE_NONCE, device), 1, 1)
        return bool(found[:, 0].tolist() == list(struct.unpack(">16i", _EXAMPLE)))
    except Exception:
        # no compiler, no room for its cache, a device it does not know: noise was paid for and must come all the same
        return False


def _quarter_rounds(a: torch.Tensor, b: torch.Tensor, c: torch.Tensor, d: torch.Tensor, scratch: torch.Tensor) -> None:
    """The four quarter rounds of one round, side by side, in place (RFC 8439, section 2.1)."""
    for x, y, z, turn in ((a, b, d, 16), (c, d, b, 12), (a, b, d, 8), (c, d, b, 7)):
        x.add_(y)
        z.bitwise_xor_(x)
        _rotate_left(z, turn, scratch)


def _rotate_left(x: torch.Tensor, turn: int, scratch: torch.Tensor) -> None:
    """Rotate every 32-bit word of `x` left by `turn` bits, in place."""
    import torch

    torch.bitwise_left_shift(x, turn, out=scratch)
    x.bitwise_right_shift_(32 - turn).bitwise_and_((1 << turn) - 1).bitwise_or_(scratch)


def _signed_53_bits(high: torch.Tensor, low: torch.Tensor) -> torch.Tensor:
    """Uniform on {−2⁵², …, 2⁵² − 1} as float64, exactly: all of `high` and 21 bits of `low`."""
    import torch

    words = high.to(torch.int64).bitwise_left_shift_(21)
    words.bitwise_or_(low.bitwise_and(0x1FFFFF))
    return words.to(torch.float64)


def normal_chunk(key: bytes, sigma: float, count: int, device: torch.device | str) -> torch.Tensor:
    """`count` ≤ `CHUNK` independent N(0, σ²) variates as float64 on `device`, from `key`'s keystream.

    The dithered sum of `privot.noise.normals`, which says what it guards against. The sixteen words of a
    block are one pair of normals: three radii, three angles and two dithers of two words each.
    """
    import torch

    words = chacha20_words(key, bytes(12), 0, (count + 1) // 2, device)
    # u in {1, …, 2⁵³}·2⁻⁵³: the logarithm never sees 0
    radius = _signed_53_bits(words[0:3], words[3:6]).add_(2.0**52 + 1.0).mul_(2.0**-53)
    radius.log_().mul_(-2.0 / SUMMANDS).sqrt_()
    angle = _signed_53_bits(words[6:9], words[9:12]).mul_(2.0 * math.pi * 2.0**-53)
    dither = _signed_53_bits(words[12:14], words[14:16]).mul_(sigma * DITHER * 2.0**-52)
    pairs = torch.stack([(angle.cos() * radius).sum(0), (angle.sin() * radius).sum(0)])
    return pairs.mul_(sigma).add_(dither).flatten()[:count]
