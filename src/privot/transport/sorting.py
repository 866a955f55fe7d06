"""Sorts many rows at once, with their order where a gradient needs it; it knows nothing of distances."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

THREADED_FROM = 1 << 16
"""Elements from which a second thread earns its start."""


def sort_rows(z: Tensor, need_order: bool) -> tuple[Tensor, Tensor | None]:
    """(z sorted along each row, the order that does it or None); `z` may be overwritten."""
    if z.device.type != "cpu":
        values, indices = torch.sort(z, dim=-1)
        return values, indices if need_order else None
    rows = z.contiguous().numpy()
    if not need_order:
        _by_bands(_sort_values, rows)
        return torch.from_numpy(rows), None
    order = np.empty(rows.shape, dtype=np.int64)
    _by_bands(_sort_packed if rows.dtype == np.float32 else _sort_plain, rows, order)
    return torch.from_numpy(rows), torch.from_numpy(order)


def _by_bands(sort: Callable[..., None], *arrays: NDArray[Any]) -> None:
    """Run `sort` on bands of rows, one a thread: NumPy sorts with vector instructions but on one core."""
    rows = len(arrays[0])
    threads = min(torch.get_num_threads(), rows) if arrays[0].size >= THREADED_FROM else 1
    if threads == 1:
        sort(*arrays)
        return
    edges = [rows * i // threads for i in range(threads + 1)]
    with ThreadPoolExecutor(threads) as pool:
        bands = [pool.submit(sort, *(array[lo:hi] for array in arrays)) for lo, hi in pairwise(edges)]
        for band in bands:
            band.result()


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
        key = np.where(bits < 0, bits ^ np.int32(0x7FFFFFFF), bits).astype(np.int64)
        key <<= 32
        key |= columns
        key.sort(axis=-1)
        np.bitwise_and(key, 0xFFFFFFFF, out=out)
        top = (key >> 32).astype(np.int32)
        bits[...] = np.where(top < 0, top ^ np.int32(0x7FFFFFFF), top)
