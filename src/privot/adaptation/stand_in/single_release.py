"""The one release that a stand-in is made from: taken from a paid stream, or read back; it sees no record."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from privot.adaptation.learner import Keep, Progress
from privot.errors import DataError
from privot.release import Release
from privot.vault.stream import Stream

STAND_IN = "stand-in"
"""The folder of the stand-in's generator, beside the model."""


class SingleRelease:
    """What both learners of a stand-in hold; every stage of theirs follows from the release."""

    keeps_release = True
    fitted = False

    def __init__(self) -> None:
        self.done = 0
        self.losses: list[float] = []
        self.release: Release | None = None
        self.generator: Any = None
        self.checks: Any = None

    def before(self, progress: Progress | None, keep: Keep | None) -> None:
        """Nothing: all of the training may use the release."""

    def run_block(
        self, stream: Stream | None, kept: Release | None, save: Callable[[Release], None], tell: Progress | None
    ) -> None:
        """Take the one release, or the one that was `kept`."""
        if kept is None:
            if stream is None:
                raise DataError("There is neither a stream nor a release to learn from.")
            kept = next(stream)
            save(kept)
        self.release, self.done = kept, 1

    def released(self) -> Release:
        """The release; refuses where there is none."""
        if self.release is None:
            raise DataError("There is no release to learn from.")
        return self.release
