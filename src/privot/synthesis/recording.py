"""A training step, recorded once as a CUDA graph and replayed; elsewhere it is just called. It sees no record.

Launching the hundred kernels of a step from Python takes longer than running them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol

import torch
from torch import nn

_WARM_UPS = 3


class Trained(Protocol):
    """What a step changes: the module's weights and statistics, and the optimiser's moments."""

    @property
    def generator(self) -> nn.Module:
        """The module that is trained."""
        ...

    @property
    def optimizer(self) -> torch.optim.Optimizer:
        """Made to be recorded where `device` is a GPU: capturable, its rate a tensor there."""
        ...

    @property
    def device(self) -> torch.device:
        """Where it runs."""
        ...


def recorded(training: Trained, work: Callable[[], None]) -> Callable[[], None]:
    """`work` takes one step from fixed buffers: forward, backward, optimiser; gradients are None before it.

    It may not draw random numbers: whoever calls it fills the buffers.
    """
    if training.device.type != "cuda":
        return called(training, work)
    with unchanged(training):
        # on a side stream, as capturing asks: libraries take their workspaces before anything is recorded
        aside: Any = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        aside.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(aside):
            for _ in range(_WARM_UPS):
                training.optimizer.zero_grad(set_to_none=True)
                work()
        torch.cuda.current_stream().wait_stream(aside)
    training.optimizer.zero_grad(set_to_none=True)
    graph: Any = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        work()
    replay: Callable[[], None] = graph.replay
    return replay


def called(training: Trained, work: Callable[[], None]) -> Callable[[], None]:
    """The same without a recording."""

    def call() -> None:
        training.optimizer.zero_grad(set_to_none=True)
        work()

    return call


@contextmanager
def unchanged(training: Trained) -> Iterator[None]:
    """Warming up takes steps: weights, statistics and the optimiser's moments are put back after it."""
    held = [*training.generator.parameters(), *training.generator.buffers(), *_moments(training.optimizer)]
    copies = [t.detach().clone() for t in held]
    known = {id(t) for t in held}
    yield
    with torch.no_grad():
        for tensor, copy in zip(held, copies, strict=True):
            tensor.copy_(copy)
        for tensor in _moments(training.optimizer):
            if id(tensor) not in known:
                tensor.zero_()


def _moments(optimizer: torch.optim.Optimizer) -> list[torch.Tensor]:
    return [t for state in optimizer.state.values() for t in state.values() if isinstance(t, torch.Tensor)]
