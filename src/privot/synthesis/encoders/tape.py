"""A network as a list of pure steps from rows to rows; nothing in it is changed by running it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from privot.errors import UsageError
from privot.synthesis.encoders.exact_arithmetic import Constant, Weights, digest_of

MAX_STEPS = 20_000


class RefusedEncoderError(UsageError):
    """An encoder that privot does not evaluate; the sentence says what stands in the way."""


@dataclass(frozen=True, eq=False)
class Rows:
    """One tensor of the network, its first axis the rows; `example` shows its shape on two public rows."""

    slot: int
    example: Tensor
    fresh: bool
    """Whether a step of its own made it: a view, or the input itself, shares its memory with another tensor."""

    @property
    def dim(self) -> int:
        """Its number of axes, that of the rows included."""
        return self.example.dim()

    @property
    def sizes(self) -> tuple[int, ...]:
        """The sizes of one row."""
        return tuple(self.example.shape[1:])


@dataclass(frozen=True)
class _Step:
    function: Callable[..., Tensor]
    inputs: tuple[int, ...]
    done: tuple[int, ...] = ()
    """Slots that nobody reads after this step."""


class Tape:
    """The steps of one network, in order; `run` takes (rows, channels, height, width) and gives its outputs."""

    def __init__(self, example: Tensor) -> None:
        self.input = Rows(0, example, fresh=False)
        self._steps: list[_Step] = []
        self._constants: list[Constant | Weights] = []
        self._outputs: tuple[int, ...] = ()
        self._order: list[int] = []
        self.exported_rows: int | None = None
        """The number of rows that a program was exported for, where it names one."""
        self.numbers_per_row = example[0].numel()
        """The most numbers that a step holds for one row."""

    def constant(self, value: Tensor) -> Constant:
        """A public tensor that steps may read."""
        self._constants.append(held := Constant(value))
        return held

    def weights(self, value: Tensor) -> Weights:
        """Public weights for exact products."""
        self._constants.append(held := Weights(value))
        return held

    def add(self, function: Callable[..., Tensor], *rows: Rows, fresh: bool = True, numbers: int = 0) -> Rows:
        """One more step. `function` must treat every row by itself, read nothing but constants, and change nothing."""
        if len(self._steps) >= MAX_STEPS:
            raise RefusedEncoderError(f"The encoder takes more than {MAX_STEPS} steps: use a smaller network.")
        with torch.no_grad():
            example = function(*(row.example for row in rows))
        if example.dim() < 1 or len(example) != len(self.input.example):
            raise RefusedEncoderError("The encoder loses the axis of the rows: keep it first throughout.")
        self._steps.append(_Step(function, tuple(row.slot for row in rows)))
        self.numbers_per_row = max(self.numbers_per_row, numbers, example[0].numel())
        return Rows(len(self._steps), example, fresh)

    def finish(self, outputs: Sequence[Rows]) -> None:
        """Say what the network returns; steps that lead nowhere are dropped."""
        self._outputs = tuple(row.slot for row in outputs)
        last: dict[int, int] = {}
        needed = set(self._outputs)
        for number in range(len(self._steps), 0, -1):
            if number in needed:
                for slot in self._steps[number - 1].inputs:
                    needed.add(slot)
                    last.setdefault(slot, number)
        kept = set(self._outputs)
        self._order = [number for number in range(1, len(self._steps) + 1) if number in needed]
        for number in self._order:
            step = self._steps[number - 1]
            done = tuple(slot for slot in set(step.inputs) if last[slot] == number and slot not in kept)
            self._steps[number - 1] = _Step(step.function, step.inputs, done)

    def run(self, x: Tensor) -> list[Tensor]:
        """The outputs for the rows of `x`."""
        return self._run(x, [])

    def run_checked(self, x: Tensor) -> tuple[list[Tensor], Tensor]:
        """The outputs, and for every row whether all numbers on the way to them were finite.

        What becomes of a NaN in a minimum or a maximum may differ between the middle and the end of a stretch of
        memory. So a row counts as lost at its first number that is not finite, whatever later steps make of it.
        """
        finite = [torch.isfinite(x).reshape(len(x), -1).all(dim=1)]
        outputs = self._run(x, finite)
        return outputs, torch.stack(finite).all(dim=0)

    def _run(self, x: Tensor, finite: list[Tensor]) -> list[Tensor]:
        held: dict[int, Tensor] = {0: x}
        for number in self._order:
            step = self._steps[number - 1]
            held[number] = found = step.function(*(held[slot] for slot in step.inputs))
            if finite:
                finite.append(torch.isfinite(found).reshape(len(found), -1).all(dim=1))
            for slot in step.done:
                del held[slot]
        return [held[slot] for slot in self._outputs]

    def digest(self) -> str:
        """SHA-256 of all numbers that steps use on records."""
        return digest_of([tensor for constant in self._constants for tensor in constant.tensors()])


class RowCount:
    """The number of rows where a network asks for it: it may say where the axis of the rows is, and nothing else."""

    def __repr__(self) -> str:
        return "the number of rows"


ROWS: Any = RowCount()
