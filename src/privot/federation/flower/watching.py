"""Bounded waits: a watched call with a deadline, and growing pauses between attempts. It knows no message."""

from __future__ import annotations

import queue
import random
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

T = TypeVar("T")

LOOK = 0.2
"""Seconds between two checks of what a call depends on."""
FIRST_PAUSE, MAX_PAUSE = 1.0, 15.0
CALL = 30.0
"""Longest time in seconds of one call over the network."""


class Late(Exception):  # noqa: N818 - not an error: the deadline came first
    """A call did not return before its deadline."""


def bounded(call: Callable[[], T], seconds: float, watch: Callable[[], None]) -> T:
    """The result of `call()`; raises `Late` after `seconds`, and passes on what `watch` raises.

    `watch` checks what the call depends on (a process). An abandoned call goes on in a thread that does not keep the
    process alive, and its result is not used.
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
            # if a process died, report that rather than the failed call
            watch()
            raise error
        return value  # type: ignore[no-any-return]


def pauses(first: float = FIRST_PAUSE, longest: float = MAX_PAUSE) -> Iterator[float]:
    """Seconds to wait after each failed attempt: doubled every time up to `longest`, and spread by a quarter.

    Without the spread, parties that lost a coordinator together would all reconnect at the same moment.
    """
    pause = first
    while True:
        yield min(longest, pause) * random.uniform(0.75, 1.0)  # noqa: S311 - no secret depends on it
        pause = min(longest, 2.0 * pause)


def limit(client: Any, end: float) -> None:
    """Set the timeout of a Flower client to the time left until `end`."""
    client._client.timeout = max(0.1, min(CALL, end - time.monotonic()))
