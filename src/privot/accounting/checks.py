"""Refuses arguments that no event can mean, each in one sentence; knows no event and no accountant."""

from __future__ import annotations

from privot.errors import UsageError, brief
from privot.guarantee import is_number

LARGEST_COUNT = 10**15
"""Larger counts lose their last digits as floats, and no release is repeated as often."""
LARGEST = 1e60
"""Numbers beyond it, and their inverses, are mistakes; squares of their ratios would overflow."""


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
