"""Progress of long work as plain lines, which a terminal, a notebook and a log file all show; it knows no data."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable
from typing import TextIO

EVERY_SECONDS = 3.0
"""Work that is over sooner prints nothing, and other work one line in so many seconds."""

Told = Callable[[int, int, float], None]


class ProgressLines:
    """Called with (step, steps, loss), prints how far the work is and about how long it will take.

    Parameters
    ----------
    what
        What is under way.
    every
        Seconds between two lines; none is printed before.
    stream
        Where lines go: standard error unless given.
    clock
        Seconds, from any beginning.

    Examples
    --------
    >>> import sys
    >>> seconds = iter([0.0, 1.0, 10.0, 11.0])
    >>> tell = ProgressLines("training", stream=sys.stdout, clock=lambda: next(seconds))
    >>> for step in (1, 50, 51):
    ...     tell(step, 200, 0.25)
    training: step 50 of 200, loss 0.25, about 30 s left
    """

    def __init__(
        self,
        what: str,
        every: float = EVERY_SECONDS,
        stream: TextIO | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._what, self._every, self._stream, self._clock = what, every, stream, clock
        self._began = self._last = clock()

    def __call__(self, step: int, steps: int, loss: float = math.nan) -> None:
        """Say how far the work is, if the last line is long enough ago."""
        now = self._clock()
        if now - self._last < self._every or step < 1:
            return
        self._last = now
        left = (now - self._began) / step * max(steps - step, 0)
        known = "" if math.isnan(loss) else f", loss {loss:.4g}"
        line = f"{self._what}: step {step} of {steps}{known}, about {left:.0f} s left"
        print(line, file=self._stream or sys.stderr, flush=True)


def as_progress(progress: Told | bool | None, what: str) -> Told | None:
    """What is to be told of progress: lines for True, nothing for False and None, otherwise the function itself."""
    if progress is None or progress is False:
        return None
    return ProgressLines(what) if progress is True else progress
