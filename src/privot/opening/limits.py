"""How large a foreign file may be, and how the limits are raised; it opens nothing.

Two limits can be changed, by an environment variable or for one command by `privot --max-unpacked` and
`--max-events`. The others bound what no file of privot's comes near.
"""

from __future__ import annotations

import os
import re

from privot.common.declared import declared
from privot.errors import DataError, UsageError, brief

MAX_UNPACKED = 1 << 29
"""Bytes that one file may unpack to, each number counted as 8: with the copies that loading makes, below 2 GiB."""
MAX_TEXT = 1 << 26
"""Bytes of one JSON document."""
MAX_TOML = 1 << 20
"""Bytes of one TOML document, which is written by hand."""
MAX_DEPTH = 256
"""Levels of one JSON or TOML document; events may be nested 100 deep, and each takes up to two levels."""
MAX_NODES = 5_000_000
"""Values and names in one JSON document."""
MAX_DIGITS = 40
"""Digits of a whole number in JSON: more than any seed or count has."""
MAX_LINE = 1 << 24
"""Characters of one record of a CSV file."""
MAX_MEMBERS = 10_000
"""Files in one archive."""
MAX_DIRECTORY = 1 << 21
"""Bytes of an archive's list of files."""
MAX_EVENTS = 16
"""Distinct events of one guarantee that are composed when it is read, at up to three seconds each."""

UNPACKED_VARIABLE, EVENTS_VARIABLE = "PRIVOT_MAX_UNPACKED", "PRIVOT_MAX_EVENTS"

_SIZE = re.compile(r"(\d{1,18})\s*(|[kmgt]i?b?|b)", re.IGNORECASE)
_UNITS = {"": 0, "b": 0, "k": 1, "m": 2, "g": 3, "t": 4}


def parse_size(text: str) -> int:
    """Bytes from what a user typed; units are binary.

    >>> parse_size("8GiB") == parse_size("8g") == 8 * 2**30
    True
    """
    found = _SIZE.fullmatch(text.strip())
    size = int(found[1]) << (10 * _UNITS[found[2].lower()[:1]]) if found else 0
    if not 0 < size < 1 << 60:
        raise UsageError(f"A size is written like 800MiB or 4GiB, got {brief(text)}.")
    return size


def max_unpacked() -> int:
    """Bytes that one file may unpack to."""
    given = os.environ.get(UNPACKED_VARIABLE)
    return MAX_UNPACKED if not given else parse_size(given)


def max_events() -> int:
    """Distinct events of a foreign guarantee that are composed."""
    given = os.environ.get(EVENTS_VARIABLE)
    if not given:
        return MAX_EVENTS
    if not given.isdecimal() or not 1 <= len(given) <= 9 or int(given) < 1:
        raise UsageError(f"The number of events must be a whole number of at least 1, got {brief(given)}.")
    return int(given)


@declared(unpacked="?word")
def set_limits(unpacked: str | None = None, events: int | None = None) -> None:
    """Change the limits for this process and those it starts; what is None stays as it is."""
    if unpacked is not None:
        os.environ[UNPACKED_VARIABLE] = str(parse_size(unpacked))
    if events is not None:
        os.environ[EVENTS_VARIABLE] = str(events)
        max_events()


def shown(size: int) -> str:
    """A number of bytes in words, rounded up so that it never reads as less than the limit it exceeds."""
    for unit, name in ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")):
        if size >= unit:
            return f"{-(-size * 10 // unit) / 10:,.10g} {name}"
    return f"{size} bytes"


def too_large(name: str, size: int | None, most: int) -> DataError:
    """The sentence that refuses a file; `size` is what it claims, None where reading stopped at the limit."""
    known = size is not None and size < 1 << 60
    claim = f"unpacks to {shown(size or 0)} in memory, more than" if known else "unpacks to more than"
    return DataError(
        f"{name!r} {claim} the {shown(most)} that are read: use a smaller file, or raise {UNPACKED_VARIABLE} "
        "(for example 4GiB) if you trust it."
    )


class Meter:
    """Counts the bytes that one file gives, and refuses it when they are more than `most`.

    >>> meter = Meter("a.csv", most=10)
    >>> meter.add(8)
    >>> meter.add(8)
    Traceback (most recent call last):
    privot.errors.DataError: 'a.csv' unpacks to more than the 10 bytes that are read: use a smaller file, or raise \
PRIVOT_MAX_UNPACKED (for example 4GiB) if you trust it.
    """

    def __init__(self, name: str, most: int | None = None) -> None:
        self.name = name
        self.most = max_unpacked() if most is None else most
        self.taken = 0

    def add(self, size: int) -> None:
        """`size` bytes more were read."""
        self.taken += size
        if self.taken > self.most:
            raise too_large(self.name, None, self.most)

    def claim(self, size: int) -> None:
        """Refuse a header that promises `size` bytes more than may be read; nothing was read yet."""
        if self.taken + size > self.most:
            raise too_large(self.name, self.taken + size, self.most)
