"""The one release that a stand-in is made from: taken from a paid stream, or read back; it sees no record."""

from __future__ import annotations

from collections.abc import Callable

from privot.errors import DataError
from privot.release import Release
from privot.vault.stream import Stream

STAND_IN = "stand-in"
"""The folder of the stand-in's generator, beside the model."""


def take_release(stream: Stream | None, kept: Release | None, save: Callable[[Release], None]) -> Release:
    """The release that was `kept` or, once `save` has it, the next one of the `stream`."""
    if kept is not None:
        return kept
    if stream is None:
        raise DataError("There is neither a stream nor a release to learn from.")
    release = next(stream)
    save(release)
    return release
