"""One private CUDA stream on which a mechanism does everything that touches records; it knows nothing of them itself.

Work on a GPU is queued, not done, when a call returns. Two answers queued on two streams would run at once, in the
same recorded buffers, and a tensor could be read while the records of another answer still pass through it. So a
mechanism has *one* stream of its own, and takes a turn on it for each answer:

  * before: the private stream waits for the caller's (its query must be complete), one turn at a time;
  * during: all of the work is queued on the private stream, where it runs in the order of the turns;
  * after: the caller's stream waits for the private one, also where the turn failed, so that whatever the caller queues
    next, the first look at the answer included, runs when nothing that depends on a record is under way.

Those waits are the device's own: the host does not stop, so the time it takes says nothing. On a CPU calls return when
the work is done, and a turn is a lock.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from privot.errors import UsageError

if TYPE_CHECKING:
    import torch

HandOver = Callable[["torch.Tensor"], "torch.Tensor"]
"""Takes the finished answer of a turn, and answers with it."""


class Lane:
    """A private stream on `device`; `cuda` stands in for `torch.cuda` where there is none."""

    def __init__(self, device: str, cuda: Any = None) -> None:
        self._lock = threading.Lock()
        self._cuda: Any = cuda
        self._stream: Any = None
        if device == "cuda" and cuda is None:
            import torch

            self._cuda = torch.cuda
        if self._cuda is not None:
            self._stream = self._cuda.Stream()

    @contextmanager
    def turn(self) -> Iterator[HandOver]:
        """Everything inside runs on the private stream, after all earlier turns and before all later ones."""
        refuse_recording()
        with self._lock:
            if self._stream is None:
                yield lambda value: value
                return
            caller = self._cuda.current_stream()

            def hand_over(value: torch.Tensor) -> torch.Tensor:
                # its memory belongs to the private stream, which may not use it again before the caller has read it
                value.record_stream(caller)
                return value

            self._stream.wait_stream(caller)
            try:
                with self._cuda.stream(self._stream):
                    yield hand_over
            finally:
                caller.wait_stream(self._stream)


def refuse_recording() -> None:
    """Refuse to answer while somebody records a CUDA graph or compiles: a replay would use the same noise again."""
    import torch

    started = torch.cuda.is_initialized()  # type: ignore[no-untyped-call]
    if (started and torch.cuda.is_current_stream_capturing()) or torch.compiler.is_compiling():
        raise UsageError(
            "An answer recorded in a CUDA graph or a compiled function would be repeated with the same noise by every "
            "replay: ask outside of it."
        )
