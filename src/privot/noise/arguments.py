"""What may be asked of a noise source; it only checks, and may not draw anything.

A σ of 0 is refused: whoever wants no noise should not call for it, and a 0 here is a bug that would release
data.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable
from fractions import Fraction
from numbers import Rational, Real
from typing import Any

from privot.errors import UsageError

Shape = int | tuple[int, ...]

# Narrow enough that neither σ·z nor its square overflows or falls below the type's grain.
SIGMA_RANGE = {"float64": (1e-150, 1e150), "float32": (1e-30, 1e30)}

LARGEST_SIGMA_SQUARED = 2**100
"""Keeps a discrete Gaussian in int64: |x| ≥ 2⁶³ would be at least 2¹³ standard deviations out."""


def whole(name: str, value: object, least: int) -> int:
    """`value` as an int if it is a whole number of at least `least`."""
    try:
        if isinstance(value, bool):
            raise TypeError
        number: int = operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        raise UsageError(f"{name} must be a whole number, got {value!r}.") from None
    if not least <= number < 2**63:
        raise UsageError(f"{name} must lie between {least} and 2^63 - 1, got {value!r}.")
    return number


def shape(value: Any) -> tuple[int, ...]:
    """`value` (a whole number or several) as a tuple of lengths."""
    lengths: Iterable[object] = value if isinstance(value, Iterable) else (value,)
    return tuple(whole("Each length of a noise shape", length, 0) for length in lengths)


def sigma(value: object, dtype: str = "float64") -> float:
    """`value` as a float if it is a standard deviation that noise of type `dtype` can carry."""
    if dtype not in SIGMA_RANGE:
        raise UsageError(f"Noise comes as float32 or float64, got {dtype}: half precision is too coarse.")
    low, high = SIGMA_RANGE[dtype]
    number = _real("σ", value)
    if not low <= number <= high:
        raise UsageError(f"σ must be a finite number from {low:g} to {high:g} in {dtype}, got {value!r}.")
    return number


def sigma_squared(value: object) -> Fraction:
    """`value` as an exact fraction if it is the parameter of a discrete Gaussian."""
    if isinstance(value, Rational) and not isinstance(value, bool):
        number = Fraction(int(value.numerator), int(value.denominator))
    elif math.isfinite(real := _real("σ²", value)):
        number = Fraction(real)
    else:
        raise UsageError(f"σ² must be finite, got {value!r}.")
    if not 0 < number <= LARGEST_SIGMA_SQUARED:
        raise UsageError(f"σ² must be greater than 0 and at most 2^100, got {value!r}.")
    return number


def rate(value: object) -> float:
    """`value` as a float if it is a sampling rate in (0, 1]."""
    number = _real("The sampling rate", value)
    if not 0.0 < number <= 1.0:
        raise UsageError(f"The sampling rate must be greater than 0 and at most 1, got {value!r}.")
    return number


def _real(name: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, Real):
        raise UsageError(f"{name} must be a number, got {value!r}.")
    try:
        return float(value)
    except OverflowError:
        return math.inf
