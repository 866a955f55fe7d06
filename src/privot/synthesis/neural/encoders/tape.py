"""A network as a list of pure steps from rows to rows; nothing in it is changed by running it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from privot.errors import UsageError
from privot.synthesis.neural.encoders.arithmetic_checks import check_products, check_threads
from privot.synthesis.neural.encoders.exact_arithmetic import Constant, Weights, digest_of

MAX_STEPS = 20_000
MAX_NUMBERS = 2**28
"""Numbers that one row, and that all public tensors, may take: 2 GiB each in float64."""
MAX_EFFORT = 2**38
"""Operations for one row: numbers that steps hold, and two products for every term that they sum."""
MAX_WIDTH = 2**16
"""Numbers of all outputs together: the Fourier features need a matrix with a row for each, and norms of so many are
known to a relative 2⁻²²."""
HELD = 2**25
"""Numbers that are held at a time where rows are small enough: 256 MiB in float64."""
HELD_ON_GPU = 2**29
"""The same on a GPU, 4 GiB: a few rows would leave most of it idle."""
_COUNTS = (1, 2, 3)
"""Rows of the examples: a public tensor that fits one of these numbers does not fit the others."""
MAX_COPIES = 16
"""Tensors of the size of its inputs and its output together that a step may hold while it computes; about ten do."""


class RefusedEncoderError(UsageError):
    """An encoder that privot does not evaluate; the sentence says what stands in the way."""


@dataclass(frozen=True, eq=False)
class Rows:
    """One tensor of the network, its first axis the rows.

    `examples` show its shape for each of several numbers of rows; they hold no numbers (device "meta").
    """

    slot: int
    examples: tuple[Tensor, ...]
    fresh: bool
    """Whether a step of its own made it: a view, or the input itself, shares its memory with another tensor."""

    @property
    def dim(self) -> int:
        """Its number of axes, that of the rows included."""
        return self.examples[0].dim()

    @property
    def sizes(self) -> tuple[int, ...]:
        """The sizes of one row."""
        return tuple(self.examples[0].shape[1:])

    @property
    def numbers(self) -> int:
        """The numbers of one row."""
        return math.prod(self.sizes)


@dataclass(frozen=True)
class _Step:
    function: Callable[..., Tensor]
    inputs: tuple[int, ...]
    sizes: tuple[int, ...]
    work: int
    """Numbers a row that it may hold while it computes, its output included."""
    products: int
    """Products that it sums for a row."""
    done: tuple[int, ...] = ()
    """Slots that nobody reads after this step."""


class Tape:
    """The steps of one network, in order; `run` takes (rows, *sizes) and gives its outputs."""

    def __init__(self, sizes: Sequence[int]) -> None:
        self.input = Rows(0, tuple(torch.empty(n, *sizes, device="meta") for n in _COUNTS), fresh=False)
        self._steps: list[_Step] = []
        self._numbers = [self.input.numbers]
        self._constants: list[Constant | Weights] = []
        self._held = 0
        self._outputs: tuple[int, ...] = ()
        self.widths: tuple[int, ...] = ()
        """Numbers a row of every output."""
        self._order: list[int] = []
        self.exported_rows: int | None = None
        """The number of rows that a program was exported for, where it names one."""
        self.numbers_per_row = self.input.numbers
        """The most numbers that are held for one row at a time; set by `finish`."""

    @property
    def block(self) -> int:
        """Rows that are evaluated together."""
        return self.block_on("cpu")

    def block_on(self, kind: str) -> int:
        """The same on a device of this kind; which rows are evaluated together changes no bit of them."""
        return max(1, (HELD if kind == "cpu" else HELD_ON_GPU) // self.numbers_per_row)

    def room(self, numbers: int) -> None:
        """Refuse public tensors that would take too much memory, before they are made."""
        if self._held + numbers > MAX_NUMBERS:
            raise RefusedEncoderError(f"The encoder holds more than {MAX_NUMBERS} weights: use a smaller network.")

    def constant(self, value: Tensor) -> Constant:
        """A public tensor that steps may read."""
        self.room(value.numel())
        self._held += value.numel()
        self._constants.append(held := Constant(value))
        return held

    def weights(self, value: Tensor) -> Weights:
        """Public weights for exact products."""
        self.room(value.numel())
        self._held += value.numel()
        self._constants.append(held := Weights(value))
        return held

    def add(
        self, function: Callable[..., Tensor], *rows: Rows, fresh: bool = True, numbers: int = 0, terms: int = 0
    ) -> Rows:
        """One more step. `function` must treat every row by itself, read nothing but constants, and change nothing.

        `numbers` are held for a row beside what `MAX_COPIES` counts, and each number of the result is a sum of so many
        `terms`. The step is tried on the shapes of one, two and three rows: it keeps as many rows, and the sizes of a
        row do not depend on their number.
        """
        if len(self._steps) >= MAX_STEPS:
            raise RefusedEncoderError(f"The encoder takes more than {MAX_STEPS} steps: use a smaller network.")
        examples = []
        for place, count in enumerate(_COUNTS):
            with torch.no_grad():
                examples.append(found := function(*(row.examples[place] for row in rows)))
            if found.dim() < 1 or len(found) != count or found.shape[1:] != examples[0].shape[1:]:
                raise RefusedEncoderError("The encoder loses the axis of the rows: keep it first throughout.")
        made = Rows(len(self._steps) + 1, tuple(examples), fresh)
        work = MAX_COPIES * (made.numbers + sum(row.numbers for row in rows)) + numbers
        if work > MAX_NUMBERS:
            raise RefusedEncoderError("The encoder takes too much memory for one image: use a smaller network.")
        self._steps.append(_Step(function, tuple(row.slot for row in rows), made.sizes, work, made.numbers * terms))
        self._numbers.append(made.numbers)
        return made

    def finish(self, outputs: Sequence[Rows]) -> None:
        """Say what the network returns; steps that lead nowhere are dropped, and memory is bounded."""
        self._outputs = tuple(row.slot for row in outputs)
        self.widths = tuple(row.numbers for row in outputs)
        if sum(self.widths) > MAX_WIDTH:
            raise RefusedEncoderError(
                f"The encoder returns {sum(self.widths)} numbers for an image, more than {MAX_WIDTH}: average its "
                "positions, or return a smaller layer."
            )
        last: dict[int, int] = {}
        needed = set(self._outputs)
        for number in range(len(self._steps), 0, -1):
            if number in needed:
                for slot in self._steps[number - 1].inputs:
                    needed.add(slot)
                    last.setdefault(slot, number)
        kept = set(self._outputs)
        self._order = [number for number in range(1, len(self._steps) + 1) if number in needed]
        effort = sum(self._steps[number - 1].work + 2 * self._steps[number - 1].products for number in self._order)
        if effort > MAX_EFFORT:
            raise RefusedEncoderError("The encoder takes too long for one image: use a smaller network.")
        held, most = self._numbers[0], self._numbers[0]
        for number in self._order:
            step = self._steps[number - 1]
            done = tuple(slot for slot in set(step.inputs) if last[slot] == number and slot not in kept)
            self._steps[number - 1] = replace(step, done=done)
            # views count as if they were copies
            most = max(most, held + step.work)
            held += self._numbers[number] - sum(self._numbers[slot] for slot in done)
        self.numbers_per_row = most + MAX_COPIES * sum(row.numbers for row in outputs)
        if self.numbers_per_row > MAX_NUMBERS:
            raise RefusedEncoderError("The encoder takes too much memory for one image: use a smaller network.")

    def rehearse(self, device: torch.device | str = "cpu") -> None:
        """Evaluate public rows as records are evaluated, together and alone: the same to the last bit, or refused.

        Beside them stands a row of numbers that are none. A GPU, whose library may take another way for more rows or
        for such numbers, evaluates whole blocks, with such rows and without.
        """
        check_threads(device)
        check_products(device)
        kind = torch.device(device).type
        block = self.block_on(kind)
        count = min(block, _COUNTS[-1])
        random = torch.Generator("cpu").manual_seed(0)
        rows = torch.rand(count, *self.input.sizes, generator=random, dtype=torch.float64, device="cpu").to(device)
        others = block - count if kind != "cpu" else min(1, block - count)
        beside = rows[:1].expand(others, *self.input.sizes)
        companies = [torch.cat([rows, torch.full_like(beside, math.nan)])]
        if kind != "cpu":
            companies += [rows, torch.cat([rows, beside])]
        try:
            with torch.no_grad():
                alone = [self.run_checked(row[None]) for row in rows]
                together = [self.run_checked(company) for company in companies]
        except Exception as error:  # anything that a step may meet: no record has been seen yet
            raise RefusedEncoderError(
                f"The encoder cannot be evaluated on images of this shape ({type(error).__name__})."
            ) from None
        for outputs, finite in together:
            for i, (own, known) in enumerate(alone):
                same = all(torch.equal(many[i : i + 1], one) for many, one in zip(outputs, own, strict=True))
                if bool(known[0]) != bool(finite[i]) or (bool(known[0]) and not same):
                    raise RefusedEncoderError("The encoder gives an image other features beside other images.")

    def run(self, x: Tensor) -> list[Tensor]:
        """The outputs for the rows of `x`."""
        return self._run(x, [])

    def run_half(self, x: Tensor) -> list[Tensor]:
        """The outputs for images `x` in float32, with products in bfloat16: for training, which sees no record.

        Nothing is cached between calls, since a recorded step must not read what another one made.
        """
        laid = x.contiguous(memory_format=torch.channels_last)
        with torch.autocast(x.device.type, torch.bfloat16, cache_enabled=False):
            found = self.run(laid)
        return [layer.float() for layer in found]

    def run_checked(self, x: Tensor) -> tuple[list[Tensor], Tensor]:
        """The outputs, and for every row whether all numbers on the way to them were finite.

        What becomes of a NaN in a minimum or a maximum, and of the sign of a zero, may differ between the middle and
        the end of a stretch of memory. So a row counts as lost at its first number that is not finite, whatever later
        steps make of it; and division, which alone tells the zeros apart, gives such a number.
        """
        finite = [torch.isfinite(x).reshape(len(x), -1).all(dim=1)]
        outputs = self._run(x, finite)
        return outputs, torch.stack(finite).all(dim=0)

    def _run(self, x: Tensor, finite: list[Tensor]) -> list[Tensor]:
        held: dict[int, Tensor] = {0: x}
        for number in self._order:
            step = self._steps[number - 1]
            found = step.function(*(held[slot] for slot in step.inputs))
            if finite and found.untyped_storage().nbytes() > found.numel() * found.element_size():
                # a piece of a tensor holds the memory of all of it, which `finish` counts as given back
                found = found.clone()
            held[number] = found
            if found.shape != (len(x), *step.sizes):
                # cannot be, after `add`; if it is, rows might have met, so none of them is used
                raise RefusedEncoderError("The encoder does not keep its rows apart.")
            if finite:
                finite.append(torch.isfinite(found).reshape(len(found), -1).all(dim=1))
            for slot in step.done:
                del held[slot]
        return [held[slot] for slot in self._outputs]

    def digest(self, device: torch.device | str = "cpu") -> str:
        """SHA-256 of all numbers that steps use on records that are on `device`."""
        where = torch.device(device)
        return digest_of([tensor for constant in self._constants for tensor in constant.tensors(where)])


class RowCount:
    """The number of rows where a network asks for it: it may say where the axis of the rows is, and nothing else."""

    def __repr__(self) -> str:
        return "the number of rows"


ROWS: Any = RowCount()
