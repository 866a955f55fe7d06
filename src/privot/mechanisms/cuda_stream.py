"""One private CUDA stream on which a mechanism does everything that touches records; it knows nothing of them itself.

Work on a GPU is queued, not done, when a call returns. Two answers queued on two streams would run at once, in the
same recorded buffers, and a tensor could be read while the records of another answer still pass through it. So a
mechanism has *one* stream of its own, and takes a turn on it for each answer:

  * before: the private stream waits for the caller's (its query must be complete), one turn at a time;
  * during: all of the work is queued on the private stream, where it runs in the order of the turns;
  * after: the caller's stream waits for the private one, also where the turn failed, so that whatever the caller queues
    next, the first look at the answer included, runs when nothing that depends on a record is under way.

The device does the waiting: the host does not stop, so its timing reveals nothing. On a CPU calls return when
the work is done, and a turn is a lock.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING, Any

from privot.errors import UsageError
from privot.noise.noise_source import is_captured

if TYPE_CHECKING:
    import torch

HandOver = Callable[["torch.Tensor"], "torch.Tensor"]
"""Receives the finished answer of a turn and returns it."""


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
        with self._lock, self._device():
            refuse_recording()
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

    def _device(self) -> AbstractContextManager[Any]:
        """The caller's stream is the one of *this* device, where the answer is read, also while another is current."""
        return nullcontext() if self._stream is None else self._cuda.device(self._stream.device)


def refuse_recording() -> None:
    """Refuse to answer while PyTorch records, traces or shows what is computed.

    A CUDA graph, a compiled function or a trace holds the noise of the answer it recorded: every replay adds the same.
    A dispatch or function mode receives every tensor of a computation, records included. PyTorch's anomaly detection
    raises an error with a message where the gradient of a sample, still without noise, is not finite.
    """
    import torch

    if is_captured():
        raise UsageError(
            "Every replay of a CUDA graph, a trace or a compiled function would repeat this answer with the same noise"
            ": send the query outside of it."
        )
    if torch.is_anomaly_enabled() or _watched():
        raise UsageError(
            "No query is answered while a PyTorch mode sees the computation (dispatch and function modes, "
            "make_fx, detect_anomaly), because it would see records: send the query outside of it."
        )


def _watched() -> bool:
    """Whether a mode is active that sees tensors; one that only says where new ones lie (set_default_device) may be."""
    import torch
    from torch.utils._device import DeviceContext
    from torch.utils._python_dispatch import _get_current_dispatch_mode

    count: int = torch._C._len_torch_function_stack()
    seeing = [torch._C._get_function_stack_at(i) for i in range(count)]
    return _get_current_dispatch_mode() is not None or any(type(mode) is not DeviceContext for mode in seeing)
