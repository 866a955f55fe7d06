"""Operators that sum: convolutions, products with weights, normalisation and pooling; their sums are exact."""

from __future__ import annotations

import math
import operator as python
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from privot.synthesis.neural.encoders import exact_arithmetic as exact
from privot.synthesis.neural.encoders.exact_arithmetic import Constant
from privot.synthesis.neural.encoders.operators import axes_in, combined, number_in, operator, quotient, rows_in
from privot.synthesis.neural.encoders.tape import RefusedEncoderError, Rows, Tape

_COPIED = 4
_MAX_TERMS = 2**30
"""Terms of all windows of one channel together."""


def constant_in(value: Any, where: str) -> Tensor:
    """`value`, which must be a tensor of the file."""
    if not isinstance(value, Constant):
        raise RefusedEncoderError(f"The encoder calls {where} with weights that depend on the image.")
    return value.value


def _pair(value: Any, where: str) -> tuple[int, int]:
    given = [value] * 2 if type(value) is int else list(value)
    given = given * 2 if len(given) == 1 else given
    if len(given) != 2 or not all(type(v) is int and 0 <= v < 2**16 for v in given):
        raise RefusedEncoderError(f"The encoder calls {where} with sizes that are not two whole numbers below 65536.")
    return given[0], given[1]


@operator("conv2d")
def _conv2d(
    tape: Tape,
    input: Any,
    weight: Any,
    bias: Any = None,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> Rows:
    rows, value = rows_in(input, "aten::conv2d"), constant_in(weight, "aten::conv2d")
    if rows.dim != 4 or value.dim() != 4:
        raise RefusedEncoderError("The encoder convolves something else than images: conv2d is what privot evaluates.")
    filters, inputs, *kernel = value.shape
    if rows.sizes[0] != inputs * groups or filters % groups:
        raise RefusedEncoderError(
            f"The encoder was made for images of {inputs * groups} channels, and meets {rows.sizes[0]}."
        )
    if isinstance(padding, str):
        if padding not in ("valid", "same") or (padding == "same" and not all(k % 2 for k in kernel)):
            raise RefusedEncoderError("The encoder pads a convolution unevenly: state the padding as numbers.")
        around = _pair(dilation, "aten::conv2d")
        padding = [d * (k - 1) // 2 if padding == "same" else 0 for d, k in zip(around, kernel, strict=True)]
    sizes = [_pair(value, "aten::conv2d") for value in (stride, padding, dilation)]
    weights = tape.weights(value.reshape(groups, filters // groups, -1))
    # what the patches of one row take, twice: the parts of each number
    down, across = rows.sizes[1:]
    numbers = 2 * rows.sizes[0] * math.prod(kernel) * (down + 2 * sizes[1][0]) * (across + 2 * sizes[1][1])
    # and once more where the product copies them, with the weights of every row's groups
    numbers = 2 * (numbers + value.numel())
    terms = inputs * math.prod(kernel)
    found = tape.add(lambda x: exact.convolved(x, weights, kernel, *sizes), rows, numbers=numbers, terms=terms)
    return _shifted(tape, found, bias, 1)


@operator("convolution")
def _convolution(
    tape: Tape,
    input: Any,
    weight: Any,
    bias: Any,
    stride: Any,
    padding: Any,
    dilation: Any,
    transposed: Any,
    output_padding: Any,
    groups: int,
) -> Rows:
    if transposed is not False:
        raise RefusedEncoderError("The encoder uses a transposed convolution, which privot does not evaluate.")
    return _conv2d(tape, input, weight, bias, stride, padding, dilation, groups)  # type: ignore[no-any-return]


def _along(value: Any, rows: Rows, axis: int, where: str) -> Tensor:
    """A tensor of the file with one number for every place of `axis`, in a shape that has 1 everywhere else."""
    given = constant_in(value, where)
    if not 1 <= axis < rows.dim or tuple(given.shape) != (rows.sizes[axis - 1],):
        raise RefusedEncoderError(f"The encoder calls {where} with weights that do not fit the axis they are for.")
    shape = [1] * rows.dim
    shape[axis] = -1
    return given.reshape(shape)


def _joined(tape: Tape, function: Any, rows: Rows, value: Tensor) -> Rows:
    """`rows` and a public tensor, element by element, by the rule that all such operators share."""
    found: Rows = combined(tape, function, rows, tape.constant(value))
    return found


def _shifted(tape: Tape, rows: Rows, bias: Any, axis: int) -> Rows:
    """`rows` with an offset for every place of `axis`."""
    return rows if bias is None else _joined(tape, python.add, rows, _along(bias, rows, axis, "a bias"))


@operator("linear")
def _linear(tape: Tape, input: Any, weight: Any, bias: Any = None) -> Rows:
    rows, value = rows_in(input, "aten::linear"), constant_in(weight, "aten::linear")
    if value.dim() != 2 or rows.dim < 2:
        raise RefusedEncoderError("The encoder uses aten::linear with weights that are no matrix.")
    weights = tape.weights(value)
    found = tape.add(weights.along_last, rows, terms=value.shape[1])
    return _shifted(tape, found, bias, rows.dim - 1)


@operator("matmul", "mm")
def _matmul(tape: Tape, self: Any, other: Any = None, *, mat2: Any = None) -> Rows:
    matrix = _turned(mat2 if other is None else other, "aten::matmul")
    return _linear(tape, self, tape.constant(matrix))  # type: ignore[no-any-return]


def _turned(value: Any, where: str) -> Tensor:
    """The transpose of a public matrix."""
    given = constant_in(value, where)
    if given.dim() != 2:
        raise RefusedEncoderError(f"The encoder calls {where} with weights that are no matrix.")
    return given.T


@operator("addmm")
def _addmm(tape: Tape, self: Any, mat1: Any, mat2: Any, beta: Any = 1, alpha: Any = 1) -> Rows:
    if beta != 1 or alpha != 1:
        raise RefusedEncoderError("The encoder uses aten::addmm with factors.")
    return _linear(tape, mat1, tape.constant(_turned(mat2, "aten::addmm")), self)  # type: ignore[no-any-return]


@operator("batch_norm")
def _batch_norm(
    tape: Tape,
    input: Any,
    weight: Any,
    bias: Any,
    running_mean: Any,
    running_var: Any,
    training: Any,
    momentum: Any = 0.0,
    eps: float = 1e-5,
    cudnn_enabled: Any = False,
) -> Rows:
    rows = rows_in(input, "aten::batch_norm")
    if training is not False or running_mean is None or running_var is None:
        raise RefusedEncoderError(
            "The encoder normalises by the images beside an image (batch norm in training mode): call eval() first."
        )
    mean, spread = (_along(v, rows, 1, "aten::batch_norm") for v in (running_mean, running_var))
    scale = 1.0 / exact.root(spread + number_in(eps, "aten::batch_norm"))
    scale = scale if weight is None else scale * _along(weight, rows, 1, "aten::batch_norm")
    centred = _joined(tape, python.sub, rows, mean)
    return _shifted(tape, _joined(tape, python.mul, centred, scale), bias, 1)


@operator("_native_batch_norm_legit_no_training")
def _no_training(
    tape: Tape, input: Any, weight: Any, bias: Any, running_mean: Any, running_var: Any, momentum: Any, eps: float
) -> tuple[Rows, None, None]:
    return _batch_norm(tape, input, weight, bias, running_mean, running_var, False, momentum, eps), None, None


def _standard(x: Tensor, dims: Sequence[int], eps: float) -> Tensor:
    """(x − mean)/√(variance + eps) over `dims` of every row."""
    count = math.prod(x.shape[d] for d in dims)
    rest = x - exact.divided(exact.summed(x, dims, keepdim=True), count)
    size = exact.norms(rest, dims, keepdim=True)
    return rest / exact.root(exact.divided(size * size, count) + eps)


@operator("layer_norm")
def _layer_norm(
    tape: Tape, input: Any, normalized_shape: Sequence[int], weight: Any = None, bias: Any = None, eps: float = 1e-5,
    cudnn_enable: Any = False,
) -> Rows:  # fmt: skip
    rows, width = rows_in(input, "aten::layer_norm"), len(list(normalized_shape))
    if not 1 <= width < rows.dim or list(rows.sizes[-width:]) != list(normalized_shape):
        raise RefusedEncoderError("The encoder normalises over the axis of the rows.")
    dims, own = list(range(rows.dim - width, rows.dim)), number_in(eps, "aten::layer_norm")
    found = tape.add(lambda x: _standard(x, dims, own), rows)
    for function, value in ((python.mul, weight), (python.add, bias)):
        if value is None:
            continue
        given = constant_in(value, "aten::layer_norm")
        if list(given.shape) != list(normalized_shape):
            raise RefusedEncoderError("The encoder calls aten::layer_norm with weights of another shape than it names.")
        found = _joined(tape, function, found, given)
    return found


@operator("group_norm")
def _group_norm(
    tape: Tape, input: Any, num_groups: int, weight: Any = None, bias: Any = None, eps: float = 1e-5,
    cudnn_enabled: Any = False,
) -> Rows:  # fmt: skip
    rows = rows_in(input, "aten::group_norm")
    if type(num_groups) is not int or rows.dim < 2 or num_groups < 1 or rows.sizes[0] % num_groups:
        raise RefusedEncoderError("The encoder's groups do not fill its channels.")
    own = number_in(eps, "aten::group_norm")

    def step(x: Tensor) -> Tensor:
        groups = x.reshape(len(x), num_groups, math.prod(x.shape[1:]) // num_groups)
        return _standard(groups, [2], own).reshape(x.shape)

    found = tape.add(step, rows)
    if weight is not None:
        found = _joined(tape, python.mul, found, _along(weight, found, 1, "aten::group_norm"))
    return _shifted(tape, found, bias, 1)


@operator("max_pool2d")
def _max_pool2d(
    tape: Tape, self: Any, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1,
    ceil_mode: Any = False,
) -> Rows:  # fmt: skip
    rows, kernel, step, around = _windows(self, kernel_size, stride, padding, "aten::max_pool2d")
    apart = _pair(dilation, "aten::max_pool2d")
    pooled = lambda x: functional.max_pool2d(x, kernel, step, around, apart, bool(ceil_mode))  # noqa: E731
    return tape.add(pooled, rows, terms=math.prod(kernel))


@operator("max_pool2d_with_indices")
def _with_indices(
    tape: Tape, self: Any, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1,
    ceil_mode: Any = False,
) -> tuple[Rows, None]:  # fmt: skip
    return _max_pool2d(tape, self, kernel_size, stride, padding, dilation, ceil_mode), None


def _windows(self: Any, kernel_size: Any, stride: Any, padding: Any, where: str) -> tuple[Rows, Any, Any, Any]:
    rows = rows_in(self, where)
    if rows.dim != 4:
        raise RefusedEncoderError(f"The encoder calls {where} on something else than images.")
    kernel = _pair(kernel_size, where)
    step = _pair(stride, where) if stride else kernel
    # axis by axis: a long stride along a short axis saves nothing along the other
    positions = [side // max(1, s) + 2 for side, s in zip(rows.sizes[1:], step, strict=True)]
    if math.prod(kernel) * math.prod(positions) > _MAX_TERMS:
        raise RefusedEncoderError(f"The encoder calls {where} with windows that are too large for its images.")
    return rows, kernel, step, _pair(padding, where)


@operator("avg_pool2d")
def _avg_pool2d(
    tape: Tape, self: Any, kernel_size: Any, stride: Any = None, padding: Any = 0, ceil_mode: Any = False,
    count_include_pad: Any = True, divisor_override: Any = None,
) -> Rows:  # fmt: skip
    rows, kernel, step, around = _windows(self, kernel_size, stride, padding, "aten::avg_pool2d")
    ceil = bool(ceil_mode)
    found = tape.add(lambda x: exact.window_sums(x, kernel, step, around, ceil), rows, terms=math.prod(kernel))
    if divisor_override is not None:
        return combined(tape, quotient, found, divisor_override)  # type: ignore[no-any-return]
    tape.room(math.prod(found.sizes[1:]))
    sides = zip(rows.sizes[1:], found.sizes[1:], kernel, step, around, strict=True)
    down, across = (_window_lengths(*side, bool(count_include_pad)) for side in sides)
    # by how many each sum is divided, at every position
    return _joined(tape, quotient, found, down[:, None] * across)


def _window_lengths(side: int, count: int, kernel: int, step: int, around: int, padded: bool) -> Tensor:
    """How many places each of `count` windows along one axis has, those of the padding counted or not; at least 1.

    By formula: to average ones would take as long as an image, for each of thousands of calls.
    """
    start = torch.arange(count, dtype=torch.int64, device="cpu") * step - around
    end = (start + kernel).clamp(max=side + around)
    inside = end.clamp(max=side) - start.clamp(min=0)
    # a window in the padding alone sums nothing: 0, whatever it is divided by
    return torch.where(inside > 0, end - start if padded else inside, 1).to(torch.float64)


@operator("adaptive_avg_pool2d", "_adaptive_avg_pool2d")
def _adaptive_avg_pool2d(tape: Tape, self: Any, output_size: Any) -> Rows:
    rows = rows_in(self, "aten::adaptive_avg_pool2d")
    if rows.dim != 4:
        raise RefusedEncoderError("The encoder calls aten::adaptive_avg_pool2d on something else than images.")
    wanted = _pair(output_size, "aten::adaptive_avg_pool2d")
    tape.room(sum(side * n for side, n in zip(rows.sizes[1:], wanted, strict=True)) + math.prod(wanted))
    parts = [tape.constant(_windows_of(side, n)) for side, n in zip(rows.sizes[1:], wanted, strict=True)]
    counts = parts[0].value.sum(dim=1)[:, None] * parts[1].value.sum(dim=1)
    # what stands between the two products: new rows, old columns
    between = _COPIED * rows.sizes[0] * max(wanted[0], rows.sizes[1]) * max(wanted[1], rows.sizes[2])
    # the first product has the old columns still, for each of which the second has a row
    terms = rows.sizes[1] * -(-rows.sizes[2] // max(1, wanted[1])) + rows.sizes[2]
    found = tape.add(lambda x: exact.pooled(x, parts[0].on(x), parts[1].on(x)), rows, numbers=between, terms=terms)
    return _joined(tape, quotient, found, counts)


def _windows_of(side: int, count: int) -> Tensor:
    """(count, side): ones from ⌊i·side/count⌋ to ⌈(i + 1)·side/count⌉ in row i."""
    place, window = torch.arange(side), torch.arange(count)[:, None]
    inside = (place >= window * side // count) & (place * count < (window + 1) * side)
    return inside.to(torch.float64)


def _reduction(divide: bool, name: str) -> Any:
    def step(tape: Tape, self: Any, dim: Any = None, keepdim: Any = False, dtype: Any = None) -> Rows:
        rows = rows_in(self, name)
        if dtype is not None:
            raise RefusedEncoderError(f"The encoder calls {name} in another number type.")
        dims = axes_in(dim, rows.dim, name)
        count = math.prod(rows.sizes[d - 1] for d in dims)
        if divide:
            return tape.add(lambda x: exact.divided(exact.summed(x, dims, bool(keepdim)), count), rows)
        return tape.add(lambda x: exact.summed(x, dims, bool(keepdim)), rows)

    return step


for _divide, _name in ((True, "mean"), (False, "sum")):
    operator(_name)(_reduction(_divide, f"aten::{_name}"))


def _extreme(function: Any, name: str) -> Any:
    def step(tape: Tape, self: Any, dim: Any = (), keepdim: Any = False) -> Rows:
        rows = rows_in(self, name)
        dims = axes_in(dim, rows.dim, name)
        return tape.add(lambda x: function(x, dim=dims, keepdim=bool(keepdim)), rows)

    return step


for _function, _name in ((torch.amax, "amax"), (torch.amin, "amin")):
    operator(_name)(_extreme(_function, f"aten::{_name}"))


@operator("linalg_vector_norm", "norm")
def _norm(
    tape: Tape, self: Any, ord: Any = 2, dim: Any = None, keepdim: Any = False, dtype: Any = None, *, p: Any = None
) -> Rows:
    rows = rows_in(self, "aten::norm")
    if number_in(ord if p is None else p, "aten::norm") != 2 or dtype is not None:
        raise RefusedEncoderError("The encoder uses another norm than the Euclidean one.")
    dims = axes_in(dim, rows.dim, "aten::norm")
    return tape.add(lambda x: exact.norms(x, dims, bool(keepdim)), rows)
