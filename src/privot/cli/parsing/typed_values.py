"""Reads what people type after an option: ranges, shapes, NAME=VALUE; it knows nothing of what they are for."""

from __future__ import annotations

import re
from typing import Any

from privot.cli.parsing.option_bounds import check_float
from privot.errors import UsageError, brief


def read_pair(text: str, option: str = "--range") -> tuple[float, float]:
    """LOW,HIGH, two finite numbers; `option` is named in a refusal."""
    try:
        low, high = (float(part) for part in text.split(","))
    except ValueError:
        raise UsageError(f"{option} must be LOW,HIGH, two numbers, got {brief(text)}.") from None
    for end in (low, high):
        check_float(option, end)
    return low, high


def read_numbers(text: str, option: str) -> tuple[float, ...]:
    """NUMBER,NUMBER,…, each finite; `option` is named in a refusal."""
    try:
        numbers = tuple(float(part) for part in text.split(","))
    except ValueError:
        raise UsageError(f"{option} must be numbers with commas between them, got {brief(text)}.") from None
    for number in numbers:
        check_float(option, number)
    return numbers


def read_shape(text: str | None) -> tuple[int, ...] | None:
    """HEIGHT,WIDTH or HEIGHT,WIDTH,CHANNELS."""
    try:
        return None if text is None else tuple(int(part) for part in text.split(","))
    except ValueError:
        raise UsageError(f"--shape must be HEIGHT,WIDTH or HEIGHT,WIDTH,CHANNELS, got {brief(text)}.") from None


def read_classes(text: str) -> int | tuple[str, ...]:
    """N, or NAME,NAME,…."""
    parts = [part.strip() for part in text.split(",")]
    if len(parts) == 1 and re.fullmatch(r"-?[0-9]{1,9}", parts[0]):
        return int(parts[0])
    if not all(parts):
        raise UsageError("--classes must be a number, or NAME,NAME,… with no name empty.")
    return tuple(parts)


def read_options(given: list[str] | None) -> dict[str, Any]:
    """NAME=VALUE, the value a number where it reads as one."""
    options: dict[str, Any] = {}
    for text in given or []:
        name, separator, value = text.partition("=")
        if not separator or not name:
            raise UsageError(f"--set must be NAME=VALUE, got {brief(text)}.")
        for kind in (int, float, str):
            try:
                options[name] = kind(value)
                break
            except ValueError:
                continue
    return options


def positive(steps: int) -> int:
    """A number of steps, if it is one."""
    from privot.common import arguments

    return arguments.whole("The number of steps", steps, 1)
