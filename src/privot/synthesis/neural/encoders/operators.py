"""The operators that an encoder may be made of, each written anew as a step on single rows; nothing else is evaluated.

An operator is called as the file calls it, by the names of PyTorch's own arguments (ATen); an argument that has no name
here, such as `out`, is refused. Arguments are `Rows` (what depends on the image), `Constant` (public tensors of the
file), or plain numbers of the file. The first axis is that of the rows, and no operator here touches it: whatever is
computed of two tensors element by element goes through `combined`.
"""

from __future__ import annotations

import math
import operator as python
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from privot.synthesis.neural.encoders.exact_arithmetic import Constant, divided, exponential, is_exact, root
from privot.synthesis.neural.encoders.tape import MAX_COPIES, RefusedEncoderError, Rows, Tape

Operator = Callable[..., Any]
OPERATORS: dict[str, Operator] = {}
"""By the name in ATen, without the overload."""


def operator(*names: str) -> Callable[[Operator], Operator]:
    """Put an operator on the list."""

    def keep(function: Operator) -> Operator:
        OPERATORS.update(dict.fromkeys(names, function))
        return function

    return keep


def apply(tape: Tape, name: str, arguments: Mapping[str, Any], sole: bool) -> Any:
    """What the operator called `name` gives. `sole`: nobody but this call reads its first argument.

    An operator that writes into its first argument is the same as one that does not where nobody else can see that
    argument: neither by its name (`sole`) nor by its memory (`Rows.fresh`).
    """
    base = name.removesuffix("_") if not name.endswith("__") else name
    if name.startswith("aten::") and base.removeprefix("aten::") in OPERATORS:
        found = _called(tape, base.removeprefix("aten::"), arguments)
        if base == name:
            return found
        first = arguments.get("self", arguments.get("input"))
        if isinstance(first, Rows) and isinstance(found, Rows) and first.fresh and sole and found.sizes == first.sizes:
            return found
        raise RefusedEncoderError(
            f"The encoder writes with {name} into a tensor that something else may read: save it with inplace=False, "
            "and without counters or other state."
        )
    raise RefusedEncoderError(
        f"The encoder uses {name}, which is not on the list of operators that privot evaluates: save the part of the "
        "network that computes features, in evaluation mode and without state, randomness, output or control flow."
    )


def _called(tape: Tape, name: str, arguments: Mapping[str, Any]) -> Any:
    try:
        return OPERATORS[name](tape, **arguments)
    except RefusedEncoderError:
        raise
    except (TypeError, ValueError, RuntimeError, LookupError, AttributeError, ArithmeticError, MemoryError) as error:
        raise RefusedEncoderError(
            f"The encoder uses {name} in a way that privot does not evaluate, or that does not fit images of this "
            f"shape ({type(error).__name__})."
        ) from None


def rows_in(value: Any, where: str) -> Rows:
    """`value`, which must depend on the image."""
    if not isinstance(value, Rows):
        raise RefusedEncoderError(f"The encoder calls {where} on something else than the image's own numbers.")
    return value


def number_in(value: Any, where: str) -> float:
    """`value`, which must be a plain number, or a public tensor with one number."""
    if isinstance(value, Constant) and value.value.numel() == 1:
        return float(value.value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise RefusedEncoderError(f"The encoder calls {where} with something else than a plain number.")
    return value


def axes_in(dims: Any, count: int, where: str) -> tuple[int, ...]:
    """The axes `dims` of a tensor with `count` axes, from 0; never that of the rows."""
    given = [dims] if isinstance(dims, int) else list(dims or [])
    found = tuple(d + count if d < 0 else d for d in given)
    if not found or not all(type(d) is int and 1 <= d < count for d in found) or len(set(found)) != len(found):
        raise RefusedEncoderError(
            f"The encoder calls {where} over the axis of the rows, or over all axes: an image must be treated by "
            "itself, so name the other axes."
        )
    return found


def fits(rows: Rows, constant: Constant) -> None:
    """Refuse a public tensor that says something different for different rows."""
    own = constant.value.dim()
    if own > rows.dim or (own == rows.dim and constant.shape[0] != 1):
        raise RefusedEncoderError("The encoder joins rows with a public tensor that has an axis for the rows.")


Binary = Callable[[Any, Any], Tensor]


def combined(tape: Tape, function: Binary, one: Any, other: Any) -> Any:
    """`function` of two values, at least one of which depends on the image, element by element."""
    if isinstance(one, Rows) and isinstance(other, Rows):
        # with as many axes, or the rows of one would meet another axis of the other
        if one.dim != other.dim:
            raise RefusedEncoderError("The encoder joins two tensors of the image that have different axes.")
        return tape.add(function, one, other)
    if isinstance(one, Rows) and isinstance(other, Constant):
        fits(one, other)
        return tape.add(lambda x: function(x, other.on(x)), one)
    if isinstance(other, Rows) and isinstance(one, Constant):
        fits(other, one)
        return tape.add(lambda x: function(one.on(x), x), other)
    if isinstance(one, Rows):
        number = number_in(other, "arithmetic")
        return tape.add(lambda x: function(x, number), one)
    if isinstance(other, Rows):
        number = number_in(one, "arithmetic")
        return tape.add(lambda x: function(number, x), other)
    if isinstance(one, Constant) or isinstance(other, Constant):
        # tensors of the file alone: public, computed once
        first, second = (v.value if isinstance(v, Constant) else number_in(v, "arithmetic") for v in (one, other))
        # at most so many numbers, before they are computed
        tape.room(math.prod(v.value.numel() for v in (one, other) if isinstance(v, Constant)))
        return tape.constant(torch.as_tensor(function(first, second)))
    raise RefusedEncoderError("The encoder computes with plain numbers, or with the number of rows: export it again.")


def _register_arithmetic() -> None:
    def scaled(value: Any, alpha: Any, tape: Tape) -> Any:
        return value if alpha == 1 else combined(tape, python.mul, value, alpha)

    for name, function in {"add": python.add, "sub": python.sub, "rsub": lambda a, b: b - a}.items():

        def linear(tape: Tape, self: Any, other: Any, alpha: Any = 1, _function: Binary = function) -> Any:
            if alpha != 1 and _function not in (python.add, python.sub):
                raise RefusedEncoderError("The encoder uses aten::rsub with a factor.")
            return combined(tape, _function, self, scaled(other, alpha, tape))

        operator(name)(linear)
    for names, function in {
        ("mul", "multiply"): python.mul,
        ("maximum",): lambda a, b: torch.maximum(*_tensors(a, b)),
        ("minimum",): lambda a, b: torch.minimum(*_tensors(a, b)),
    }.items():

        def product(tape: Tape, self: Any, other: Any, _function: Binary = function) -> Any:
            return combined(tape, _function, self, other)

        operator(*names)(product)


def _tensors(a: Any, b: Any) -> tuple[Tensor, Tensor]:
    whole = a if isinstance(a, Tensor) else b
    first, second = (v if isinstance(v, Tensor) else whole.new_full((), v) for v in (a, b))
    return first, second


_register_arithmetic()


@operator("div", "divide", "true_divide")
def _div(tape: Tape, self: Any, other: Any, rounding_mode: Any = None) -> Any:
    if rounding_mode is not None:
        raise RefusedEncoderError("The encoder rounds a quotient, which makes its features jump.")
    return combined(tape, quotient, self, other)


def quotient(a: Any, b: Any) -> Tensor:
    """a / b, one of which is a tensor, rounded once on every device."""
    found: Tensor = divided(a, b) if isinstance(a, Tensor) and not isinstance(b, Tensor) else a / b
    return found


def _unary(function: Callable[[Tensor], Tensor]) -> Operator:
    def step(tape: Tape, self: Any) -> Any:
        if isinstance(self, Constant):
            tape.room(MAX_COPIES * self.value.numel())
            return tape.constant(function(self.value))
        if isinstance(self, Rows):
            return tape.add(function, self)
        raise RefusedEncoderError("The encoder calls an operator on tensors with something else.")

    return step


def _sigmoid(x: Tensor) -> Tensor:
    if not is_exact(x):
        return torch.sigmoid(x)
    below = exponential(-x.abs())
    return torch.where(x >= 0.0, 1.0 / (below + 1.0), below / (below + 1.0))


def _tanh(x: Tensor) -> Tensor:
    if not is_exact(x):
        return torch.tanh(x)
    below = exponential(x.abs() * -2.0)
    size = (1.0 - below) / (below + 1.0)
    return torch.where(x >= 0.0, size, -size)


def _hard_sigmoid(x: Tensor) -> Tensor:
    return divided((x + 3.0).clamp(0.0, 6.0), 6.0)


for _name, _function in {
    "relu": torch.relu,
    "relu6": lambda x: x.clamp(0.0, 6.0),
    "abs": torch.abs,
    "neg": torch.neg,
    "sqrt": root,
    "square": lambda x: x * x,
    "rsqrt": lambda x: 1.0 / root(x),
    "reciprocal": lambda x: 1.0 / x,
    "sigmoid": _sigmoid,
    "tanh": _tanh,
    "silu": lambda x: x * _sigmoid(x),
    "hardsigmoid": _hard_sigmoid,
    "hardswish": lambda x: x * _hard_sigmoid(x),
}.items():
    operator(_name)(_unary(_function))


@operator("pow")
def _pow(tape: Tape, self: Any, exponent: Any) -> Any:
    if number_in(exponent, "aten::pow") != 2:
        raise RefusedEncoderError("The encoder uses aten::pow with another exponent than 2.")
    return OPERATORS["square"](tape, self)


@operator("leaky_relu")
def _leaky_relu(tape: Tape, self: Any, negative_slope: Any = 0.01) -> Rows:
    slope = number_in(negative_slope, "aten::leaky_relu")
    return tape.add(lambda x: torch.where(x > 0.0, x, x * slope), rows_in(self, "aten::leaky_relu"))


@operator("clamp", "clip")
def _clamp(tape: Tape, self: Any, min: Any = None, max: Any = None) -> Rows:
    bounds = [None if end is None else number_in(end, "aten::clamp") for end in (min, max)]
    return tape.add(lambda x: x.clamp(*bounds), rows_in(self, "aten::clamp"))


@operator("hardtanh")
def _hardtanh(tape: Tape, self: Any, min_val: Any = -1.0, max_val: Any = 1.0) -> Rows:
    return _clamp(tape, self, min_val, max_val)  # type: ignore[no-any-return]


@operator("clamp_min")
def _clamp_min(tape: Tape, self: Any, min: Any) -> Rows:
    return _clamp(tape, self, min)  # type: ignore[no-any-return]


@operator("clamp_max")
def _clamp_max(tape: Tape, self: Any, max: Any) -> Rows:
    return _clamp(tape, self, None, max)  # type: ignore[no-any-return]
