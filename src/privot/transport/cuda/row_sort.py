"""Sorts every row of a float32 matrix on CUDA, with 16-bit positions or none at all.

A library sort carries 64-bit positions through every pass; rows of up to 65,536 numbers need 16 bits, and the side
whose gradient nobody asks for needs none. One block sorts one row by four stable passes of eight bits, the least
significant digit first: ranks within a warp by matching digits, across warps by prefix sums, and each tile is ordered
in shared memory before it is written out, so that writes are runs.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import torch

MAX_ROW_LENGTH = 1 << 16
_THREADS = 512
_SOURCE = r"""
extern "C" __global__ void __launch_bounds__(THREADS, 2) sort_rows(
    const float* __restrict__ input, unsigned* keys_a, unsigned* keys_b,
    unsigned short* at_a, unsigned short* at_b, int n)
{
    constexpr int WARPS = THREADS / 32, TILE = THREADS * ITEMS, DIGITS = 256;
    __shared__ unsigned histogram[4][DIGITS];
    __shared__ unsigned short warp_count[WARPS][DIGITS];
    __shared__ unsigned base[DIGITS], tile_start[DIGITS], scan[DIGITS];
    __shared__ unsigned stage[TILE];
#if PAIRS
    __shared__ unsigned short stage_at[TILE];
#endif
    const int thread = threadIdx.x, warp = thread >> 5, lane = thread & 31;
    const size_t row = (size_t)blockIdx.x * n;
    input += row; keys_a += row; keys_b += row; at_a += row; at_b += row;

    for (int i = thread; i < 4 * DIGITS; i += THREADS) (&histogram[0][0])[i] = 0;
    __syncthreads();
    for (int i = thread; i < n; i += THREADS) {
        unsigned bits = __float_as_uint(input[i]);
        bits ^= (bits >> 31) ? 0xffffffffu : 0x80000000u;
        keys_b[i] = bits;
        #pragma unroll
        for (int pass = 0; pass < 4; ++pass) atomicAdd(&histogram[pass][(bits >> (8 * pass)) & 255], 1u);
    }
    __syncthreads();

    unsigned* from = keys_b; unsigned* to = keys_a;
    unsigned short* at_from = at_b; unsigned short* at_to = at_a;
    for (int pass = 0; pass < 4; ++pass) {
        const int shift = 8 * pass;
        // exclusive prefix sum of the row's histogram: where each digit begins
        if (thread < DIGITS) scan[thread] = histogram[pass][thread];
        __syncthreads();
        for (int step = 1; step < DIGITS; step <<= 1) {
            unsigned add = (thread < DIGITS && thread >= step) ? scan[thread - step] : 0;
            __syncthreads();
            if (thread < DIGITS) scan[thread] += add;
            __syncthreads();
        }
        if (thread < DIGITS) base[thread] = scan[thread] - histogram[pass][thread];

        for (int tile = 0; tile < n; tile += TILE) {
            for (int i = thread; i < WARPS * DIGITS / 2; i += THREADS) ((unsigned*)&warp_count[0][0])[i] = 0;
            __syncthreads();
            unsigned key[ITEMS]; unsigned short rank[ITEMS];
#if PAIRS
            unsigned short at[ITEMS];
#endif
            const int first = tile + warp * 32 * ITEMS + lane;
            #pragma unroll
            for (int i = 0; i < ITEMS; ++i) {
                const int position = first + 32 * i;
                key[i] = position < n ? from[position] : 0xffffffffu;
#if PAIRS
                at[i] = position < n ? (pass == 0 ? (unsigned short)position : at_from[position]) : 0;
#endif
            }
            #pragma unroll
            for (int i = 0; i < ITEMS; ++i) {
                const bool real = first + 32 * i < n;
                const unsigned digit = real ? (key[i] >> shift) & 255 : 256;
                const unsigned peers = __match_any_sync(0xffffffffu, digit);
                const unsigned before = __popc(peers & ((1u << lane) - 1));
                const int leader = __ffs(peers) - 1;
                unsigned seen = 0;
                if (real && lane == leader) {
                    seen = warp_count[warp][digit];
                    warp_count[warp][digit] = (unsigned short)(seen + __popc(peers));
                }
                seen = __shfl_sync(0xffffffffu, seen, leader);
                rank[i] = (unsigned short)(seen + before);
                __syncwarp();
            }
            __syncthreads();
            // per digit: prefix over warps, then over digits
            unsigned total = 0;
            if (thread < DIGITS) {
                for (int w = 0; w < WARPS; ++w) {
                    unsigned count = warp_count[w][thread];
                    warp_count[w][thread] = (unsigned short)total;
                    total += count;
                }
                scan[thread] = total;
            }
            __syncthreads();
            for (int step = 1; step < DIGITS; step <<= 1) {
                unsigned add = (thread < DIGITS && thread >= step) ? scan[thread - step] : 0;
                __syncthreads();
                if (thread < DIGITS) scan[thread] += add;
                __syncthreads();
            }
            if (thread < DIGITS) tile_start[thread] = scan[thread] - total;
            __syncthreads();
            #pragma unroll
            for (int i = 0; i < ITEMS; ++i) {
                if (first + 32 * i < n) {
                    const unsigned digit = (key[i] >> shift) & 255;
                    const unsigned slot = tile_start[digit] + warp_count[warp][digit] + rank[i];
                    stage[slot] = key[i];
#if PAIRS
                    stage_at[slot] = at[i];
#endif
                }
            }
            __syncthreads();
            const int filled = min(TILE, n - tile);
            for (int slot = thread; slot < filled; slot += THREADS) {
                const unsigned k = stage[slot];
                const unsigned digit = (k >> shift) & 255;
                const unsigned target = base[digit] + slot - tile_start[digit];
                unsigned out = k;
                if (pass == 3) out ^= (k >> 31) ? 0x80000000u : 0xffffffffu;
                to[target] = out;
#if PAIRS
                at_to[target] = stage_at[slot];
#endif
            }
            __syncthreads();
            if (thread < DIGITS) base[thread] += total;
        }
        __syncthreads();
        unsigned* swap = from; from = to; to = swap;
        unsigned short* swap_at = at_from; at_from = at_to; at_to = swap_at;
    }
}
"""


@lru_cache(maxsize=8)
def _kernel(pairs: bool, device: int) -> Any:
    with torch.cuda.device(device):
        items = 8
        source = f"#define THREADS {_THREADS}\n#define ITEMS {items}\n#define PAIRS {int(pairs)}\n" + _SOURCE
        return torch.cuda._compile_kernel(source, "sort_rows")


def sort_rows(values: torch.Tensor, positions: bool) -> tuple[torch.Tensor, torch.Tensor | None]:
    """Every row of `values` (rows, n ≤ 65,536), float32, sorted; with `positions`, where each number stood (uint16)."""
    rows, n = values.shape
    keys = torch.empty_like(values), torch.empty_like(values)
    spare = torch.empty((rows, n) if positions else (1, 1), dtype=torch.uint16, device=values.device)
    at = torch.empty_like(spare)
    _kernel(positions, values.device.index or 0)(
        grid=(rows, 1, 1), block=(_THREADS, 1, 1), args=[values, keys[0], keys[1], spare, at, n]
    )
    # four passes: b → a → b → a → b
    return keys[1], at if positions else None
