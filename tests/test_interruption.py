"""What is paid for is finished before an interrupt takes effect, whatever becomes of the message about it."""

from __future__ import annotations

import os
import signal

import pytest

from privot.common import interruption


def _interrupted(done: list[bool]) -> None:
    with interruption.finishing() as stop:
        os.kill(os.getpid(), signal.SIGINT)
        done.append(stop.asked)


def test_a_message_that_cannot_be_written_does_not_end_what_is_paid_for() -> None:
    def fail() -> None:
        raise OSError("the terminal is gone")

    # a shell ignores the signal for what it runs in the background
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    done: list[bool] = []
    interruption.tell_when_waiting(fail)
    try:
        with pytest.raises(KeyboardInterrupt):
            _interrupted(done)
    finally:
        interruption.tell_when_waiting(lambda: None)
        signal.signal(signal.SIGINT, before)
    assert done == [True]
