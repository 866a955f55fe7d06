"""Hostile values: of options, and of fields in JSON or TOML."""

from __future__ import annotations

from random import Random
from typing import Any

HUGE = "1" + "0" * 400
NUMBERS = [
    "", "-1", "0", "1", "9223372036854775807", "9223372036854775808", "-9223372036854775809", "4611686018427387904",
    HUGE, "-" + HUGE, "nan", "inf", "-inf", "1e-320", "5e-324", "1e308", "-0.0", "1.5", "0x10", "1_000", "abc", "١٢",
    "1e400", " 7 ", "1,2", "−1", "True",
]  # fmt: skip
"""As text, for options that take a number."""
TEXTS = [
    "", " ", "\t", "\n", "\x1b[31m", "\x7f", "a" * 5000, "ü€😀", "\u202e", "in/..", ".", "/", "-", "--", "-1", "0",
    "nan",
    "'", '"', "%s%n", "{0}", "a=b", "=", "a=", "NAME=VALUE", "steps=0", "steps=1e400", "batch=-1", "steps=nan", "a,b",
    ",", "0,", "1,0", "nan,1", "0,inf", "1,1", "0,0", "-3,-3", "8,8,8,8", "1000000000,1000000000", "1e-320,1", "$HOME",
]  # fmt: skip
PATHS = [
    "", " ", ".", "in/folder", "in/missing/file.npz", "in/missing", "in/empty", "in/text", "in/fifo", "in/zero",
    "in/loop", "in/nowhere", "in/unreadable", "in/" + "n" * 300, "in/a.npz/x", "ü€😀.npz", "in/a\nb", "~", "-",
]  # fmt: skip
"""Made by `traps`."""
OUTPUTS = [
    "", " ", ".", "in", "in/folder", "in/missing/deeper/file", "in/empty", "in/text", "in/loop", "in/unwritable",
    "in/unwritable/file", "out/" + "n" * 300, "in/text/file", "out/ü€😀", "out/a\nb", "out/.npz", "out/x.weird", "-",
]  # fmt: skip
FIELDS: list[Any] = [
    None, True, False, -1, 0, 1, 2**31, 2**63, 2**64, -(2**63) - 1, 10**400, 1e308, -1e308, 1e-320, 0.5, float("nan"),
    float("inf"), "", "x", "a" * 10_000, "nan", "1", "../../etc/passwd", "\u0000", [], {}, [[]], [0], {"a": 1},
    [1] * 5000,
]  # fmt: skip


def field(random: Random) -> Any:
    """One hostile value of a field, now and then nested deeply."""
    if random.random() < 0.05:
        value: Any = []
        for _ in range(900):
            value = [value]
        return value
    return random.choice(FIELDS)


def of_option(name: str, kind: str, random: Random) -> str:
    """One hostile value of an option; `kind` is number, path, output or text."""
    if random.random() < 0.1:
        return random.choice(random.choice([NUMBERS, TEXTS]))
    return random.choice({"number": NUMBERS, "path": PATHS, "output": OUTPUTS, "text": TEXTS}[kind])
