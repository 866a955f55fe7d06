"""Sorts many rows at once, with their order where a gradient needs it; it knows nothing of distances."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache, partial
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

THREADED_FROM = 1 << 16
"""Elements from which a second thread earns its start."""


def sort_rows(*pieces: tuple[Tensor, bool]) -> list[tuple[Tensor, Tensor | None]]:
    """For each (z, whether its order is needed): (z sorted along its rows, the order or None); z may be overwritten."""
    if pieces[0][0].device.type != "cpu":
        sorted_ = [torch.sort(z, dim=-1) for z, _ in pieces]
        return [(values, order if need else None) for (values, order), (_, need) in zip(sorted_, pieces, strict=True)]
    jobs: list[Callable[[], None]] = []
    found: list[tuple[Tensor, Tensor | None]] = []
    for z, need in pieces:
        rows = z.contiguous().numpy()
        if not need:
            jobs += _bands(_sort_values, rows)
            found.append((torch.from_numpy(rows), None))
            continue
        order = np.empty(rows.shape, dtype=np.int64)
        jobs += _bands(_sort_packed if rows.dtype == np.float32 else _sort_plain, rows, order)
        found.append((torch.from_numpy(rows), torch.from_numpy(order)))
    _run(jobs)
    return found


def _bands(sort: Callable[..., None], *arrays: NDArray[Any]) -> list[Callable[[], None]]:
    """`sort` on bands of rows, one a thread: NumPy sorts with vector instructions but on one core."""
    rows = len(arrays[0])
    threads = min(torch.get_num_threads(), rows) if arrays[0].size >= THREADED_FROM else 1
    edges = [rows * i // threads for i in range(threads + 1)]
    return [partial(sort, *(array[lo:hi] for array in arrays)) for lo, hi in pairwise(edges)]


def _run(jobs: list[Callable[[], None]]) -> None:
    threads = torch.get_num_threads()
    if threads == 1 or len(jobs) < threads:
        for job in jobs:
            job()
        return
    for done in [_pool(threads, os.getpid()).submit(job) for job in jobs]:
        done.result()


@lru_cache(maxsize=4)
def _pool(threads: int, process: int) -> ThreadPoolExecutor:
    """Threads are kept, since starting them costs as much as a small sort; a forked process has none of them."""
    return ThreadPoolExecutor(threads, thread_name_prefix=f"privot-sort-{process}")


def _sort_values(rows: NDArray[Any]) -> None:
    rows.sort(axis=-1)


def _sort_plain(rows: NDArray[Any], order: NDArray[np.int64]) -> None:
    order[...] = np.argsort(rows, axis=-1)
    rows[...] = np.take_along_axis(rows, order, axis=-1)


def _sort_packed(rows: NDArray[Any], order: NDArray[np.int64]) -> None:
    """Float32 value above, column below in one 64-bit integer: one plain sort gives both, twice as fast.

    A float's bits, read as an integer, are in its order once the magnitude bits of negatives are flipped.
    """
    band = max(1, (1 << 15) // rows.shape[1])
    columns = np.arange(rows.shape[1], dtype=np.int64)
    for start in range(0, len(rows), band):
        values, out = rows[start : start + band], order[start : start + band]
        bits = values.view(np.int32)
        key = (bits ^ ((bits >> 31) & np.int32(0x7FFFFFFF))).astype(np.int64)
        key <<= 32
        key |= columns
        key.sort(axis=-1)
        np.bitwise_and(key, 0xFFFFFFFF, out=out)
        top = (key >> 32).astype(np.int32)
        np.bitwise_xor(top, (top >> 31) & np.int32(0x7FFFFFFF), out=bits)
