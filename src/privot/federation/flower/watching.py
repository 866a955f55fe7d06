"""Waits that end: a watched call with a deadline, and pauses that grow between attempts. It knows no message."""

from __future__ import annotations

import queue
import random
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

T = TypeVar("T")

LOOK = 0.2
"""Seconds between two looks at whatever a call depends on."""
FIRST_PAUSE, MAX_PAUSE = 1.0, 15.0
CALL = 30.0
"""The most seconds that one call over the network may take."""


class Late(Exception):  # noqa: N818 - not an error: the deadline came first
    """A call did not return before its deadline."""


def bounded(call: Callable[[], T], seconds: float, watch: Callable[[], None]) -> T:
    """`call()`, waited for at most `seconds`; raises `Late` after that, and whatever `watch` raises as soon as it does.

    `watch` looks at what the call depends on (a process). A call that is not waited for any more goes on in a thread
    that does not keep the process alive; nothing that it returns is used.
    """
    done: queue.SimpleQueue[tuple[Any, BaseException | None]] = queue.SimpleQueue()

    def run() -> None:
        try:
            done.put((call(), None))
        except BaseException as error:
            done.put((None, error))

    end = time.monotonic() + seconds
    threading.Thread(target=run, daemon=True).start()
    while True:
        try:
            value, error = done.get(timeout=max(0.001, min(LOOK, end - time.monotonic())))
        except queue.Empty:
            watch()
            if time.monotonic() >= end:
                raise Late from None
            continue
        if error is not None:
            # a call that failed because a process died is reported as that
            watch()
            raise error
        return value  # type: ignore[no-any-return]


def pauses(first: float = FIRST_PAUSE, longest: float = MAX_PAUSE) -> Iterator[float]:
    """Seconds to wait after each failed attempt: doubled every time up to `longest`, and spread by a quarter.

    Without the spread, parties that lost one coordinator at once would all come back at once.
    """
    pause = first
    while True:
        yield min(longest, pause) * random.uniform(0.75, 1.0)  # noqa: S311 - no secret depends on it
        pause = min(longest, 2.0 * pause)


def limit(client: Any, end: float) -> None:
    """Bound the next calls of one of Flower's clients by the time left until `end`."""
    client._client.timeout = max(0.1, min(CALL, end - time.monotonic()))
