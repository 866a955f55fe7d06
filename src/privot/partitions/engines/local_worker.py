"""One process of the local engine: partitions come in by standard input, results go out; it prints nothing."""

from __future__ import annotations

import os
import pickle
import signal
from functools import lru_cache
from typing import Any

from privot.errors import UsageError
from privot.partitions.engines.engine import called
from privot.partitions.engines.local_engine import TASK, receive, send


def main() -> None:
    """Answer until the process that started this one is gone."""
    # an interrupt is for the process that pays; it ends this one when it ends
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with os.fdopen(os.dup(0), "rb") as inward, os.fdopen(os.dup(1), "wb") as outward:
        # whatever a library prints must not stand between two answers
        nowhere = os.open(os.devnull, os.O_RDWR)
        os.dup2(nowhere, 0)
        os.dup2(nowhere, 1)
        try:
            task = b""
            while True:
                message = receive(inward)
                if message[:1] == TASK:
                    task = message[1:]
                else:
                    send(outward, pickle.dumps(_answer(task, message[1:])))
        except (EOFError, OSError):
            return


@lru_cache(maxsize=1)
def _task(sent: bytes) -> Any:
    return pickle.loads(sent)  # noqa: S301 - from the process that started this one


def _answer(sent: bytes, place: bytes) -> tuple[str, Any]:
    try:
        task = _task(sent)
        partition = pickle.loads(place)  # noqa: S301 - likewise
    except Exception as error:
        return "failed", (
            UsageError,
            f"This release cannot be read by other processes ({type(error).__name__}): use one worker, or classes that "
            "are defined in a module.",
        )
    return called(task, partition)
