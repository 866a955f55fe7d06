"""How the cost of sliced and of Sinkhorn grows with the number of points: n·k·log n, and n² per step in O(n) memory."""

from __future__ import annotations

import math
import platform
from collections.abc import Callable
from typing import Any

import torch

from privot.errors import UsageError
from privot.transport import sinkhorn, sliced
from privot_lab.bench.clock import seconds
from privot_lab.bench.transport_bench import SLICES, sinkhorn_pair, sliced_pair


def measure_growth(sizes: list[int], device: torch.device, slices: int = SLICES) -> dict[str, Any]:
    """Seconds of sliced, seconds *per iteration* of Sinkhorn, and its peak memory beyond the points, at each size.

    `exponents` are the slopes of log time against log(n·log n) and log n, and of log memory against log n, over the
    upper decade of the sizes, where fixed costs no longer hide the growth.
    """
    if len(sizes) < 2 or sorted(set(sizes)) != sizes or sizes[0] < 2:
        raise UsageError("Expected at least two sizes in rising order, each of at least 2.")
    rows = []
    for n in sizes:
        x, y, u = sliced_pair(n, device, slices)
        row: dict[str, Any] = {"n": n, "sliced": seconds(lambda x=x, y=y, u=u: _sliced(x, y, u), device)}  # type: ignore[misc]
        del x, y, u
        x, y, reg = sinkhorn_pair(n, device, 0.05)
        run = _streamed(x, y, reg, device)
        row["iterations"] = run()
        row["sinkhorn_an_iteration"] = seconds(run, device) / row["iterations"]
        row["sinkhorn_bytes"] = _peak(run, device)
        rows.append(row)
        del x, y, run
    upper = [r for r in rows if 10 * r["n"] >= sizes[-1]]
    return {
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else platform.machine(),
        "slices": slices,
        "rows": rows,
        "exponents": {
            "sliced in n log n": _slope([(r["n"] * math.log(r["n"]), r["sliced"]) for r in upper]),
            "Sinkhorn's iteration in n": _slope([(r["n"], r["sinkhorn_an_iteration"]) for r in upper]),
            "Sinkhorn's memory in n": _slope([(r["n"], r["sinkhorn_bytes"]) for r in upper if r["sinkhorn_bytes"]]),
        },
    }


def _sliced(x: torch.Tensor, y: torch.Tensor, u: torch.Tensor) -> object:
    leaf = x.detach().requires_grad_(True)
    return torch.autograd.grad(sliced(leaf, y, directions=u, check=False).value, leaf)


def _streamed(x: torch.Tensor, y: torch.Tensor, reg: float, device: torch.device) -> Callable[[], int]:
    """A solve that never stores an n × n matrix, whatever its size; it returns its number of iterations."""
    if device.type != "cuda":
        return lambda: sinkhorn(x, y, reg, tol=1e-2, check=False).iterations
    from privot.transport.cuda.sinkhorn_streamed import StreamSolver

    weight = torch.full((len(x),), -math.log(len(x)), device=device)
    return lambda: StreamSolver(x, y, weight, weight, keep=False).solve(reg, 1e-2, 1000)[0]


def _peak(run: Callable[[], object], device: torch.device) -> int | None:
    """Bytes that a solve needs beyond its inputs; None except on CUDA, whose allocator counts them."""
    if device.type != "cuda":
        return None
    torch.cuda.synchronize(device)
    before = torch.cuda.memory_allocated(device)
    torch.cuda.reset_peak_memory_stats(device)
    run()
    return int(torch.cuda.max_memory_allocated(device) - before)


def _slope(points: list[tuple[float, float]]) -> float | None:
    """Least-squares slope of log y against log x."""
    if len(points) < 2:
        return None
    xs, ys = ([math.log(p[i]) for p in points] for i in range(2))
    mx, my = sum(xs) / len(xs), sum(ys) / len(ys)
    return sum((a - mx) * (b - my) for a, b in zip(xs, ys, strict=True)) / sum((a - mx) ** 2 for a in xs)
