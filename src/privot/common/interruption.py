"""Ctrl-C and SIGTERM: what is paid for is finished first, and what was written to ledgers can be asked of them.

Without this an interrupt between a charge and its release would spend a budget and leave nothing to show for it. Work
that has to be finished runs within `finishing`: the first signal waits for its end, the second one does not.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


@dataclass(frozen=True)
class Written:
    """A row that this process wrote, or was about to write, to a ledger: which of them are there the ledger knows."""

    ledger: str
    kind: str
    number: int
    seal: str


written: list[Written] = []
"""The rows of this process, oldest first."""
_listeners: list[Callable[[], None]] = []
_held: list[Stop] = []


@dataclass
class Stop:
    """Whether the user or the system asked to stop."""

    asked: bool = False


@contextmanager
def finishing() -> Iterator[Stop]:
    """Let the first Ctrl-C (or SIGTERM, where it interrupts) wait until the end of this block, which then raises it.

    A loop within looks at `stop.asked` after every step, keeps what it has and leaves. A second Ctrl-C is raised at
    once. Blocks may be nested: the outermost one raises. Outside the main thread nothing changes.

    >>> with finishing() as stop:
    ...     stop.asked
    False
    """
    if _held or threading.current_thread() is not threading.main_thread():
        yield _held[-1] if _held else Stop()
        return
    stop = Stop()

    def note(number: int, frame: Any) -> None:
        if stop.asked:
            raise KeyboardInterrupt
        stop.asked = True
        for listener in _listeners:
            # a message that cannot be written (a terminal that is gone) must not end what is paid for
            with suppress(Exception):
                listener()

    before = {number: signal.getsignal(number) for number in _SIGNALS}
    # what is ignored, or ends the process without a word, stays as it is
    taken = [number for number, handler in before.items() if callable(handler)]
    for number in taken:
        signal.signal(number, note)
    _held.append(stop)
    try:
        yield stop
    finally:
        _held.remove(stop)
        for number in taken:
            signal.signal(number, before[number])
    if stop.asked:
        raise KeyboardInterrupt


def interrupt_on_termination() -> None:
    """Let SIGTERM interrupt as Ctrl-C does, unless somebody handles it already: schedulers send it before they kill."""

    def interrupt(number: int, frame: Any) -> None:
        raise KeyboardInterrupt

    if threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, interrupt)


def tell_when_waiting(listener: Callable[[], None]) -> None:
    """Call `listener` when a signal has to wait for the end of a block."""
    _listeners[:] = [listener]
