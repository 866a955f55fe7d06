"""ChaCha20 in one launch on CUDA: bit for bit what `privot.noise.chacha` computes; it may not choose or keep a key.

The block function of RFC 8439, section 2.3. The first block is read from memory, not handed over as numbers: what is
compiled, and kept on disk, is the same for every key.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

_BLOCKS = 128
"""A program's share."""


@triton.jit
def _rotate(x, turn: tl.constexpr):
    return (x << turn) | (x >> (32 - turn))


@triton.jit
def _quarter(a, b, c, d):
    a = a + b
    d = _rotate(d ^ a, 16)
    c = c + d
    b = _rotate(b ^ c, 12)
    a = a + b
    d = _rotate(d ^ a, 8)
    c = c + d
    b = _rotate(b ^ c, 7)
    return a, b, c, d


@triton.jit
def _word(first, place: tl.constexpr, size: tl.constexpr):
    """A word of the first block, for every block."""
    return tl.load(first + place).to(tl.uint32, bitcast=True) + tl.zeros((size,), tl.uint32)


@triton.jit
def _words(first, out, counter, blocks, size: tl.constexpr):
    """Column j of `out` (16, blocks) is block `counter` + j; `first` has the sixteen words, its counter 0."""
    j = tl.program_id(0).to(tl.int64) * size + tl.arange(0, size)
    s0, s1, s2, s3 = _word(first, 0, size), _word(first, 1, size), _word(first, 2, size), _word(first, 3, size)
    s4, s5, s6, s7 = _word(first, 4, size), _word(first, 5, size), _word(first, 6, size), _word(first, 7, size)
    s8, s9, s10, s11 = _word(first, 8, size), _word(first, 9, size), _word(first, 10, size), _word(first, 11, size)
    # narrowing keeps the low 32 bits
    s12 = (counter + j).to(tl.int32).to(tl.uint32, bitcast=True)
    s13, s14, s15 = _word(first, 13, size), _word(first, 14, size), _word(first, 15, size)
    a0, a1, a2, a3, b0, b1, b2, b3 = s0, s1, s2, s3, s4, s5, s6, s7
    c0, c1, c2, c3, d0, d1, d2, d3 = s8, s9, s10, s11, s12, s13, s14, s15
    for _ in range(10):
        a0, b0, c0, d0 = _quarter(a0, b0, c0, d0)
        a1, b1, c1, d1 = _quarter(a1, b1, c1, d1)
        a2, b2, c2, d2 = _quarter(a2, b2, c2, d2)
        a3, b3, c3, d3 = _quarter(a3, b3, c3, d3)
        a0, b1, c2, d3 = _quarter(a0, b1, c2, d3)
        a1, b2, c3, d0 = _quarter(a1, b2, c3, d0)
        a2, b3, c0, d1 = _quarter(a2, b3, c0, d1)
        a3, b0, c1, d2 = _quarter(a3, b0, c1, d2)
    there = j < blocks
    # in 64 bits, as the last row may lie beyond 2³¹
    far = tl.zeros((size,), tl.int64) + blocks
    tl.store(out + j, (a0 + s0).to(tl.int32, bitcast=True), mask=there)
    tl.store(out + far + j, (a1 + s1).to(tl.int32, bitcast=True), mask=there)
    tl.store(out + 2 * far + j, (a2 + s2).to(tl.int32, bitcast=True), mask=there)
    tl.store(out + 3 * far + j, (a3 + s3).to(tl.int32, bitcast=True), mask=there)
    tl.store(out + 4 * far + j, (b0 + s4).to(tl.int32, bitcast=True), mask=there)
    tl.store(out + 5 * far + j, (b1 + s5).to(tl.int32, bitcast=True), mask=there)
    tl.store(out + 6 * far + j, (b2 + s6).to(tl.int32, bitcast=True), mask=there)
    tl.store(out + 7 * far + j, (b3 + s7).to(tl.int32, bitcast=True), mask=there)
    tl.store(out + 8 * far + j, (c0 + s8).to(tl.int32, bitcast=True), mask=there)
    tl.store(out + 9 * far + j, (c1 + s9).to(tl.int32, bitcast=True), mask=there)
    tl.store(out + 10 * far + j, (c2 + s10).to(tl.int32, bitcast=True), mask=there)
    tl.store(out + 11 * far + j, (c3 + s11).to(tl.int32, bitcast=True), mask=there)
    tl.store(out + 12 * far + j, (d0 + s12).to(tl.int32, bitcast=True), mask=there)
    tl.store(out + 13 * far + j, (d1 + s13).to(tl.int32, bitcast=True), mask=there)
    tl.store(out + 14 * far + j, (d2 + s14).to(tl.int32, bitcast=True), mask=there)
    tl.store(out + 15 * far + j, (d3 + s15).to(tl.int32, bitcast=True), mask=there)


def words_of(first: torch.Tensor, counter: int, blocks: int) -> torch.Tensor:
    """The keystream's words, int32, (16, blocks), from the sixteen words of its first block (int32, on the device)."""
    out = torch.empty((16, blocks), dtype=torch.int32, device=first.device)
    # Triton launches on the current device and stream: on another's, nothing would keep the words of an earlier key out
    with torch.cuda.device(first.device):
        _words[(triton.cdiv(blocks, _BLOCKS),)](first.contiguous(), out, counter, blocks, size=_BLOCKS, num_warps=4)
    return out
