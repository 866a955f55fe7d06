"""Chooses how float32 clouds are solved on CUDA: replayed graphs at training sizes, streamed blocks beyond."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

import torch

from privot.transport.cuda.sinkhorn_graph import FIRST, Parts, graph_for
from privot.transport.cuda.sinkhorn_streamed import StreamSolver

T = TypeVar("T")


@dataclass(frozen=True)
class Fused(Generic[T]):
    """What a fused solve found: its parts as the caller dressed them, the marginal error, how it got there."""

    dressed: T
    error: float
    largest: float
    """The largest cost, or a bound on it."""
    iterations: int


def solve(
    x: torch.Tensor,
    y: torch.Tensor,
    weights: tuple[torch.Tensor, torch.Tensor] | None,
    reg: float,
    tol: float,
    limit: int,
    l1: float,
    need_x: bool,
    need_y: bool,
    dress: Callable[[Parts], T],
) -> Fused[T] | int:
    """B problems x (B, n, d) against y (B, m, d), cost ‖x−y‖² + l1·‖x−y‖₁, `weights` (a, b) or uniform ones.

    `dress` is called while the GPU works, and again in the rare case that its first iterations did not do. Where this
    path does not reach `tol` in float32 or does not apply, the iterations it spent, so that the plain one can try.
    """
    (batch, n, d), m = x.shape, y.shape[1]
    if torch.cuda.is_current_stream_capturing() or limit < FIRST:
        return 0
    graph = graph_for(batch, n, m, d, x.device, l1, need_y)
    if graph is not None:
        graph.start(x, y, weights, reg, tol, limit)
        dressed = dress(graph.taken())
        iterations, error, largest, again = graph.settle(limit)
        if again:
            dressed = dress(graph.taken())
        # NaN fails this too: then points are not finite, and the plain path says so
        return Fused(dressed, error, largest, iterations) if error <= tol else iterations
    if batch != 1 or l1:
        return 0
    if weights is None:
        log_a, log_b = x.new_full((n,), -math.log(n)), x.new_full((m,), -math.log(m))
    else:
        log_a, log_b = weights[0][0].log(), weights[1][0].log()
    stream = StreamSolver(x[0], y[0], log_a, log_b)
    iterations, error = stream.solve(reg, tol, limit)
    if not error <= tol:
        return iterations
    grad_x = stream.gradient(reg, True)[None] if need_x else None
    grad_y = stream.gradient(reg, False)[None] if need_y else None
    value = stream.value[None].to(x.dtype)
    parts = Parts(grad_x, grad_y, stream.f[None], stream.g[None], value, lambda: stream.gradient(reg, True)[None])
    return Fused(dress(parts), error, stream.largest, iterations)
