"""Checks of arguments, in one place: what is no ε, δ, σ, count or rate is refused in one sentence.

`check_…` refuses; the others also convert. A σ of 0 is refused: it is a bug that would release data.
"""

from __future__ import annotations

import math
import operator
import os
import sys
from collections.abc import Iterable
from fractions import Fraction
from numbers import Rational, Real
from typing import Any

from privot.errors import UsageError, brief

LARGEST_COUNT = 10**15
"""Larger counts lose their last digits as floats, and no release is repeated as often."""
LARGEST = 1e60
"""Numbers beyond it, and their inverses, are mistakes; squares of their ratios would overflow."""

Shape = int | tuple[int, ...]

# Narrow enough that neither σ·z nor its square overflows or falls below the type's grain.
SIGMA_RANGE = {"float64": (1e-150, 1e150), "float32": (1e-30, 1e30)}

LARGEST_SIGMA_SQUARED = 2**100
"""Keeps a discrete Gaussian in int64: |x| ≥ 2⁶³ would be at least 2¹³ standard deviations out."""


def is_number(value: object) -> bool:
    """Whether `value` is a real number that a float can hold; NaN, ±∞ and True are none."""
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= sys.float_info.max


def is_within(array: Any, largest: float) -> bool:
    """Whether every number of the NumPy array is finite and at most `largest` in size, whatever its type.

    The largest of them is compared, as a float: a bound that float32 cannot hold would be infinity beside the array.
    """
    return float(abs(array).max(initial=0)) <= largest  # false for a NaN


def check_delta(delta: float, *, pure: bool = False) -> float:
    """Return `delta` as a float if it lies strictly between 0 and 1; with `pure` also if it is 0."""
    if pure and is_number(delta) and delta == 0:
        return 0.0
    if not is_number(delta) or not 0.0 < float(delta) < 1.0:
        raise UsageError(f"δ must lie strictly between 0 and 1, got {brief(delta)}.")
    return float(delta)


def check_epsilon(epsilon: float) -> float:
    """Return `epsilon` as a float if it is a finite number greater than 0."""
    if not is_number(epsilon) or epsilon <= 0.0:
        raise UsageError(f"ε must be a finite number greater than 0, got {brief(epsilon)}.")
    return float(epsilon)


def check_frame(frame: object) -> None:
    """Refuse anything but the two ways to draw directions."""
    if frame not in ("orthogonal", "independent"):
        raise UsageError(f"Unknown frame {brief(frame)}: say orthogonal or independent.")


def check_positive(name: str, value: float) -> None:
    """Refuse anything but a number greater than 0, of a size that can be meant."""
    if not is_number(value) or not 1.0 / LARGEST <= value <= LARGEST:
        raise UsageError(f"{name} must be a finite number greater than 0 (1e-60 to 1e60), got {brief(value)}.")


def check_count(name: str, value: int, least: int = 1, most: int = LARGEST_COUNT) -> None:
    """Refuse anything but a whole number of at least `least` and at most `most`."""
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise UsageError(f"{name} must be a whole number from {least} to {most}, got {brief(value)}.")


def check_kind(name: str, value: object, kind: type) -> None:
    """Refuse anything but an instance of `kind`."""
    if not isinstance(value, kind):
        raise UsageError(f"{name} must be of type {kind.__name__}, got {brief(value)}.")


def check_file_name(value: object, expected: str) -> None:
    """Refuse what is not the name of a file, by its type: it may be records, of which no sentence quotes one.

    >>> check_file_name(3, "the name of a file")
    Traceback (most recent call last):
        ...
    privot.errors.UsageError: Expected the name of a file, got int.
    """
    if not isinstance(value, str | os.PathLike) or not isinstance(os.fspath(value), str):
        kind = type(value).__name__
        instead = {"Series": ": call to_frame() first", "RecordBatchReader": ": call read_all() first"}.get(kind, "")
        raise UsageError(f"Expected {expected}, got {kind}{instead}.")


def real(name: str, value: float, least: float = 0.0, strict: bool = True) -> float:
    """`value` as a float, if it is a finite number above `least` (or at least that)."""
    if isinstance(value, bool) or not isinstance(value, Real):
        raise UsageError(f"{name} must be a number, got {brief(value)}.")
    number = float(value)
    if not math.isfinite(number) or number < least or (strict and number == least):
        bound = f"greater than {least:g}" if strict else f"of at least {least:g}"
        raise UsageError(f"{name} must be a finite number {bound}, got {brief(value)}.")
    return number


def whole(name: str, value: object, least: int) -> int:
    """`value` as an int if it is a whole number of at least `least`."""
    try:
        if isinstance(value, bool):
            raise TypeError
        number: int = operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        raise UsageError(f"{name} must be a whole number, got {brief(value)}.") from None
    if not least <= number < 2**63:
        raise UsageError(f"{name} must lie between {least} and 2^63 - 1, got {brief(value)}.")
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
        raise UsageError(f"σ must be a finite number from {low:g} to {high:g} in {dtype}, got {brief(value)}.")
    return number


def sigma_squared(value: object) -> Fraction:
    """`value` as an exact fraction if it is the parameter of a discrete Gaussian."""
    if isinstance(value, Rational) and not isinstance(value, bool):
        number = Fraction(int(value.numerator), int(value.denominator))
    elif math.isfinite(real := _real("σ²", value)):
        number = Fraction(real)
    else:
        raise UsageError(f"σ² must be finite, got {brief(value)}.")
    if not 0 < number <= LARGEST_SIGMA_SQUARED:
        raise UsageError(f"σ² must be greater than 0 and at most 2^100, got {brief(value)}.")
    return number


def rate(value: object) -> float:
    """`value` as a float if it is a sampling rate in (0, 1]."""
    number = _real("The sampling rate", value)
    if not 0.0 < number <= 1.0:
        raise UsageError(f"The sampling rate must be greater than 0 and at most 1, got {brief(value)}.")
    return number


def _real(name: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, Real):
        raise UsageError(f"{name} must be a number, got {brief(value)}.")
    try:
        return float(value)
    except OverflowError:
        return math.inf
