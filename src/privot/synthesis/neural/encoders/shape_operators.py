"""Operators that move an image's numbers without computing: each keeps the axis of the rows first."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch

from privot.synthesis.neural.encoders.exact_arithmetic import Constant
from privot.synthesis.neural.encoders.operators import axes_in, fits, operator, rows_in
from privot.synthesis.neural.encoders.tape import MAX_STEPS, ROWS, RefusedEncoderError, Rows, Tape


def _moved(tape: Tape, function: Any, *rows: Rows) -> Rows:
    return tape.add(function, *rows, fresh=False)


@operator("size", "sym_size")
def _size(tape: Tape, self: Any, dim: Any = None) -> Any:
    sizes = list(self.shape) if isinstance(self, Constant) else [ROWS, *rows_in(self, "aten::size").sizes]
    return sizes if dim is None else sizes[dim]


@operator("dim")
def _dim(tape: Tape, self: Any) -> int:
    return self.value.dim() if isinstance(self, Constant) else rows_in(self, "aten::dim").dim


@operator("view", "reshape", "_unsafe_view")
def _view(tape: Tape, self: Any, size: Any = None, *, shape: Any = None) -> Any:
    wanted = list(size if shape is None else shape)
    if isinstance(self, Constant):
        return tape.constant(self.value.reshape([_whole(s) for s in wanted]))
    rows = rows_in(self, "aten::view")
    inner = [_whole(s) for s in wanted[1:]]
    count, known = math.prod(rows.sizes), math.prod(s for s in inner if s != -1)
    if inner.count(-1) == 1 and known and count % known == 0:
        inner[inner.index(-1)] = count // known
    # the number of rows that a program was exported with, if it was for one only, and −1 where the rest says how long a
    # row is; whatever stands there, every row is reshaped by itself
    first = wanted[0] is ROWS or wanted[0] in (-1, tape.exported_rows)
    if not inner or not first or math.prod(inner) != count or min(inner) < 0:
        raise RefusedEncoderError(
            "The encoder reshapes a tensor so that rows would mix: keep the rows first, as in flatten(1)."
        )
    return _moved(tape, lambda x: x.reshape(len(x), *inner), rows)


def _whole(value: Any) -> int:
    if type(value) is not int:
        raise RefusedEncoderError("The encoder uses the number of rows for another axis than the first.")
    return value


@operator("flatten")
def _flatten(tape: Tape, self: Any, start_dim: int = 0, end_dim: int = -1) -> Any:
    if isinstance(self, Constant):
        return tape.constant(self.value.flatten(start_dim, end_dim))
    rows = rows_in(self, "aten::flatten")
    start, end = axes_in(start_dim, rows.dim, "aten::flatten") + axes_in(end_dim, rows.dim, "aten::flatten")
    return _moved(tape, lambda x: x.flatten(start, end), rows)


@operator("permute")
def _permute(tape: Tape, self: Any, dims: Sequence[int]) -> Any:
    if isinstance(self, Constant):
        return tape.constant(self.value.permute(*dims))
    rows = rows_in(self, "aten::permute")
    order = [d + rows.dim if d < 0 else d for d in dims]
    if order[:1] != [0]:
        raise RefusedEncoderError("The encoder moves the axis of the rows: keep it first.")
    return _moved(tape, lambda x: x.permute(*order), rows)


@operator("transpose")
def _transpose(tape: Tape, self: Any, dim0: int, dim1: int) -> Any:
    if isinstance(self, Constant):
        return tape.constant(self.value.transpose(dim0, dim1))
    rows = rows_in(self, "aten::transpose")
    one, other = axes_in([dim0], rows.dim, "aten::transpose") + axes_in([dim1], rows.dim, "aten::transpose")
    return _moved(tape, lambda x: x.transpose(one, other), rows)


@operator("t")
def _t(tape: Tape, self: Any) -> Any:
    if not isinstance(self, Constant):
        raise RefusedEncoderError("The encoder exchanges the axis of the rows with another: keep it first.")
    return tape.constant(self.value.t())


@operator("squeeze")
def _squeeze(tape: Tape, self: Any, dim: Any = None) -> Any:
    if isinstance(self, Constant):
        return tape.constant(self.value.squeeze() if dim is None else self.value.squeeze(dim))
    rows = rows_in(self, "aten::squeeze")
    dims = axes_in(dim, rows.dim, "aten::squeeze")
    return _moved(tape, lambda x: x.squeeze(dims), rows)


@operator("unsqueeze")
def _unsqueeze(tape: Tape, self: Any, dim: int) -> Any:
    if isinstance(self, Constant):
        return tape.constant(self.value.unsqueeze(dim))
    rows = rows_in(self, "aten::unsqueeze")
    at = axes_in(dim, rows.dim + 1, "aten::unsqueeze")[0]
    return _moved(tape, lambda x: x.unsqueeze(at), rows)


@operator("expand", "expand_as")
def _expand(tape: Tape, self: Any, size: Any = None, implicit: Any = False, *, other: Any = None) -> Any:
    like = other if other is not None else size
    if isinstance(self, Rows) and isinstance(like, Rows) and self.dim == like.dim:
        return _moved(tape, lambda x, y: x.expand_as(y), self, like)
    if isinstance(self, Constant) and isinstance(like, Rows):
        fits(like, self)
        return _moved(tape, lambda y: self.on(y).expand_as(y), like)
    if isinstance(self, Rows) and isinstance(like, list) and len(like) == self.dim and like[0] in (ROWS, -1):
        inner = [_whole(s) for s in like[1:]]
        return _moved(tape, lambda x: x.expand(len(x), *inner), self)
    raise RefusedEncoderError("The encoder expands a tensor so that rows would mix.")


@operator("slice")
def _slice(tape: Tape, self: Any, dim: int = 0, start: Any = None, end: Any = None, step: int = 1) -> Any:
    along = slice(start, end, step)
    if isinstance(self, Constant):
        at = dim + self.value.dim() if dim < 0 else dim
        return tape.constant(self.value[(slice(None),) * at + (along,)])
    rows = rows_in(self, "aten::slice")
    if dim == 0 and (start in (None, 0)) and (end is None or end >= 2**62) and step == 1:
        return _moved(tape, lambda x: x, rows)
    at = axes_in(dim, rows.dim, "aten::slice")[0]
    return _moved(tape, lambda x: x[(slice(None),) * at + (along,)], rows)


@operator("select")
def _select(tape: Tape, self: Any, dim: int, index: int) -> Any:
    if isinstance(self, Constant):
        return tape.constant(self.value.select(dim, index))
    rows = rows_in(self, "aten::select")
    at = axes_in(dim, rows.dim, "aten::select")[0]
    return _moved(tape, lambda x: x.select(at, index), rows)


@operator("chunk")
def _chunk(tape: Tape, self: Any, chunks: int, dim: int = 0) -> list[Rows]:
    rows = rows_in(self, "aten::chunk")
    at = axes_in(dim, rows.dim, "aten::chunk")[0]
    if type(chunks) is not int or chunks < 1:
        raise RefusedEncoderError("The encoder cuts a tensor into fewer than one part.")
    side = rows.sizes[at - 1]
    step = max(1, -(-side // chunks))
    if side // step > MAX_STEPS:
        raise RefusedEncoderError(f"The encoder cuts a tensor into more than {MAX_STEPS} parts.")
    # each part by itself: cutting all of them for each would take the square of their number
    first = (slice(None),) * at
    return [_moved(tape, lambda x, i=i: x[(*first, slice(i, i + step))], rows) for i in range(0, max(side, 1), step)]


@operator("cat", "concat")
def _cat(tape: Tape, tensors: Any, dim: int = 0) -> Rows:
    rows = [rows_in(part, "aten::cat") for part in tensors]
    at = axes_in(dim, rows[0].dim, "aten::cat")[0]
    return tape.add(lambda *parts: torch.cat(parts, dim=at), *rows)


@operator("stack")
def _stack(tape: Tape, tensors: Any, dim: int = 0) -> Rows:
    rows = [rows_in(part, "aten::stack") for part in tensors]
    at = axes_in(dim, rows[0].dim + 1, "aten::stack")[0]
    return tape.add(lambda *parts: torch.stack(parts, dim=at), *rows)


@operator("pad", "constant_pad_nd")
def _pad(tape: Tape, self: Any, pad: Sequence[int], mode: Any = "constant", value: Any = None) -> Rows:
    # the second operator has no mode: there the value stands in its place
    filled = mode if isinstance(mode, int | float) else value
    rows, sides = rows_in(self, "aten::pad"), list(pad)
    if (isinstance(mode, str) and mode != "constant") or len(sides) > 2 * (rows.dim - 1):
        raise RefusedEncoderError("The encoder pads with other numbers than a constant, or along the rows.")
    number = 0.0 if filled is None else float(filled)
    return tape.add(lambda x: torch.nn.functional.pad(x, sides, value=number), rows)


@operator("contiguous", "clone", "detach", "alias", "lift_fresh_copy")
def _same(tape: Tape, self: Any, memory_format: Any = None) -> Any:
    return self if isinstance(self, Constant) else _moved(tape, lambda x: x, rows_in(self, "aten::clone"))


@operator("to", "_to_copy")
def _to(
    tape: Tape, self: Any, dtype: Any = None, layout: Any = None, device: Any = None, pin_memory: Any = None,
    non_blocking: Any = None, copy: Any = None, memory_format: Any = None,
) -> Any:  # fmt: skip
    if dtype not in ("float32", "float64"):
        raise RefusedEncoderError("The encoder changes to another number type, or device, than float32 or float64.")
    return self if isinstance(self, Constant) else _moved(tape, lambda x: x, rows_in(self, "aten::to"))


@operator("dropout", "feature_dropout", "alpha_dropout")
def _dropout(tape: Tape, input: Any, p: Any, train: Any) -> Rows:
    if train is not False:
        raise RefusedEncoderError("The encoder drops numbers at random (dropout in training mode): call eval() first.")
    return _moved(tape, lambda x: x, rows_in(input, "aten::dropout"))
