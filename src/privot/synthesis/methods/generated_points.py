"""The generated points of one training step, and the optimiser step that follows; it sees no record.

On a GPU both halves are recorded once as CUDA graphs and replayed, because launching a generator's hundred kernels
from Python takes longer than running them. Nothing secret is drawn here: z is public, and a replay reads fresh z.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn

from privot.common.cuda_graphs import recordable, recorded
from privot.synthesis.neural.generator_training.training_state import TrainingState, generated


class Points:
    """x = 2·G(z, label) − 1 for `rows` fresh z, labels cycling through all classes; `learn` follows −∂loss/∂x."""

    def __init__(self, training: TrainingState, rows: int) -> None:
        self.training, self.rows = training, rows
        self._x: torch.Tensor | None = None

    def make(self) -> torch.Tensor:
        """New points, (rows, dim) in [−1, 1]; they may change when the next ones are made."""
        self._x = self._forward(*self.training.draw(self.rows))
        return self._x.detach()

    def learn(self, slope: torch.Tensor) -> None:
        """One step of the optimiser, with ∂loss/∂x = `slope` at the last points."""
        assert self._x is not None
        self.training.optimizer.zero_grad(set_to_none=True)
        self._x.backward(slope)  # type: ignore[no-untyped-call]
        self.training.optimizer.step()

    def aside(self, rows: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Other points and their labels, for diagnostics only."""
        # never fewer than in a step: batch statistics need several points
        z, labels = self.training.draw(max(rows, self.rows))
        with still(self.training.generator), torch.no_grad():
            return self._forward(z, labels)[:rows], labels[:rows]

    def _forward(self, z: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        made: torch.Tensor = 2.0 * generated(self.training.generator, z, labels) - 1.0
        return made


class RecordedPoints(Points):
    """The same on a GPU, as two graphs; the second computes the points again, which is cheaper than keeping them."""

    def __init__(self, training: TrainingState, rows: int) -> None:
        super().__init__(training, rows)
        self._z, self._labels = training.draw(rows)
        self._slope = torch.zeros(rows, training.generator.dim, device=training.device)
        self._graphs: tuple[Any, Any] | None = None

    def make(self) -> torch.Tensor:
        """New points."""
        if self._graphs is None:
            self._graphs = self._record()
        self._z.normal_(generator=self.training.random)
        self._graphs[0]()
        assert self._x is not None
        return self._x

    def learn(self, slope: torch.Tensor) -> None:
        """One step of the optimiser."""
        assert self._graphs is not None
        self._slope.copy_(slope)
        self._graphs[1]()

    def _work(self) -> None:
        x = self._forward(self._z, self._labels)
        x.backward(self._slope)  # type: ignore[no-untyped-call]
        self.training.optimizer.step()

    def _record(self) -> tuple[Any, Any]:
        second = recorded(self.training.generator, self.training.optimizer, self._work)
        first: Any = torch.cuda.CUDAGraph()
        with still(self.training.generator), torch.no_grad(), torch.cuda.graph(first):
            self._x = self._forward(self._z, self._labels)
        return first.replay, second


@contextmanager
def still(generator: nn.Module) -> Iterator[None]:
    """Batch statistics are used but not stored: the same points are made twice per step and must count once."""
    layers = [m for m in generator.modules() if isinstance(m, nn.BatchNorm1d | nn.BatchNorm2d)]
    momenta = [m.momentum for m in layers]
    try:
        for m in layers:
            m.momentum = 0.0
        yield
    finally:
        for m, momentum in zip(layers, momenta, strict=True):
            m.momentum = momentum


def points_of(training: TrainingState, rows: int) -> Points:
    """Recorded where possible: on a GPU, with an optimiser that can be recorded."""
    recording = training.device.type == "cuda" and recordable(training.optimizer)
    return RecordedPoints(training, rows) if recording else Points(training, rows)
