"""A function of tensors of fixed shapes, recorded once as a CUDA graph and replayed; elsewhere it is just called.

A step of hundreds of small kernels takes a GPU a millisecond, and Python ten to launch. What is recorded may not draw
random numbers that must be secret or fresh: a replay would repeat them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from privot.common.cuda_warm_up import side_stream
from privot.errors import UsageError

_WARM_UPS = 3


class Replayed:
    """`function` of tensors to a tuple of tensors, without randomness, waits or branches on values.

    The first call on a CUDA device records it for the shapes of that call; other shapes later are refused. Answers are
    copies: the next call does not overwrite them.
    """

    def __init__(self, function: Callable[..., tuple[Tensor, ...]]) -> None:
        self._function = function
        self._graph: Any = None
        self._inputs: list[Tensor] = []
        self._outputs: tuple[Tensor, ...] = ()

    def __call__(self, *inputs: Tensor) -> tuple[Tensor, ...]:
        if inputs[0].device.type != "cuda":
            return self._function(*inputs)
        with torch.no_grad():
            if self._graph is None:
                self._record(inputs)
            if [t.shape for t in inputs] != [t.shape for t in self._inputs]:
                # a copy would spread a smaller tensor over the larger one
                raise UsageError(
                    "A CUDA graph that was recorded for tensors of some shapes cannot be replayed for others."
                )
            for held, given in zip(self._inputs, inputs, strict=True):
                held.copy_(given)
            self._graph.replay()
            return tuple(t.clone() for t in self._outputs)

    def _record(self, inputs: tuple[Tensor, ...]) -> None:
        self._inputs = [t.detach().clone() for t in inputs]
        with side_stream():
            for _ in range(_WARM_UPS):
                self._function(*self._inputs)
        graph: Any = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            self._outputs = self._function(*self._inputs)
        self._graph = graph
