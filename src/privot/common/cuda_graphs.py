"""Work recorded once as a CUDA graph and replayed: a training step, or a function of tensors of fixed shapes.

Launching the hundred kernels of a step from Python takes longer than running them. Elsewhere than on a GPU the work is
just called. No record comes here. What is recorded may not draw random numbers that must be secret or fresh: a replay
would repeat them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from privot.errors import UsageError

_WARM_UPS = 3


def recorded(model: nn.Module, optimizer: torch.optim.Optimizer, work: Callable[[], None]) -> Callable[[], None]:
    """`work` takes one step from fixed buffers: forward, backward, optimiser; gradients are None before it.

    It draws no random numbers but the default generator's, and reads nothing back to the host: the caller fills the
    buffers. The optimiser is one of `adam`.
    """
    if not next(model.parameters()).is_cuda:
        return called(model, optimizer, work)
    with unchanged(model, optimizer), side_stream():
        for _ in range(_WARM_UPS):
            optimizer.zero_grad(set_to_none=True)
            work()
    optimizer.zero_grad(set_to_none=True)
    graph: Any = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        work()
    replay: Callable[[], None] = graph.replay
    return replay


def recordable(optimizer: torch.optim.Optimizer) -> bool:
    """Whether its steps can be recorded, which `adam`'s can on a GPU."""
    return all(group.get("capturable", False) for group in optimizer.param_groups)


def called(model: nn.Module, optimizer: torch.optim.Optimizer, work: Callable[[], None]) -> Callable[[], None]:
    """The same without a recording."""

    def call() -> None:
        optimizer.zero_grad(set_to_none=True)
        work()

    return call


def adam(model: nn.Module, rate: float, **options: Any) -> torch.optim.Adam:
    """Adam whose steps can be recorded on a GPU: there the rate must lie on the device too."""
    first = next(model.parameters())
    if not first.is_cuda:
        return torch.optim.Adam(model.parameters(), lr=rate, **options)
    start = torch.tensor(rate, device=first.device)
    # one kernel for all weights
    return torch.optim.Adam(model.parameters(), lr=start, capturable=True, fused=True, **options)


def lay_out(optimizer: torch.optim.Optimizer) -> None:
    """Give moments that came from a file the layout of their parameters, which the one kernel for all asks for."""
    for group in optimizer.param_groups:
        for p in group["params"]:
            for name, held in optimizer.state.get(p, {}).items():
                if isinstance(held, Tensor) and held.shape == p.shape and held.stride() != p.stride():
                    optimizer.state[p][name] = torch.empty_like(p, dtype=held.dtype).copy_(held)


def cosine(rate: float, step: int, steps: int) -> float:
    """From `rate` to zero: rate·(1 + cos(π·step/steps))/2."""
    return rate * 0.5 * (1.0 + math.cos(math.pi * step / steps))


def set_rate(optimizer: torch.optim.Optimizer, rate: float) -> None:
    """The learning rate of the next steps, recorded ones too."""
    for group in optimizer.param_groups:
        if isinstance(group["lr"], Tensor):
            group["lr"].fill_(rate)
        else:
            group["lr"] = rate


@contextmanager
def unchanged(model: nn.Module, optimizer: torch.optim.Optimizer) -> Iterator[None]:
    """Warming up takes steps: weights, statistics and the optimiser's moments are put back after it."""
    held = [*model.parameters(), *model.buffers(), *_moments(optimizer)]
    copies = [t.detach().clone() for t in held]
    known = {id(t) for t in held}
    yield
    with torch.no_grad():
        for tensor, copy in zip(held, copies, strict=True):
            tensor.copy_(copy)
        for tensor in _moments(optimizer):
            if id(tensor) not in known:
                tensor.zero_()


def _moments(optimizer: torch.optim.Optimizer) -> list[Tensor]:
    return [t for state in optimizer.state.values() for t in state.values() if isinstance(t, Tensor)]


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


@contextmanager
def side_stream(device: torch.device | None = None) -> Iterator[None]:
    """Within, work is queued on a stream of its own, after all work of the current one; what follows waits for it.

    Capturing asks for it: Triton compiles and libraries take their workspaces before anything is recorded. The waits
    are the device's, also where the work failed: whatever is queued next runs when none of it is under way.

    Parameters
    ----------
    device
        The CUDA device of the streams; the current one unless given.
    """
    aside: Any = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
    aside.wait_stream(torch.cuda.current_stream(device))
    try:
        with torch.cuda.stream(aside):
            yield
    finally:
        torch.cuda.current_stream(device).wait_stream(aside)
