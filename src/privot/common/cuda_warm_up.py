"""The side stream on which work is run before it is recorded as a CUDA graph; it knows nothing of the work."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch


@contextmanager
def side_stream(device: torch.device | None = None) -> Iterator[None]:
    """Within, work is queued on a stream of its own, after all work of the current one; what follows waits for it.

    Capturing asks for it: Triton compiles and libraries take their workspaces before anything is recorded. The waits
    are the device's, also where the work failed: whatever is queued next runs when none of it is under way.

    Parameters
    ----------
    device
        The CUDA device of the streams; the current one unless given.
    """
    aside: Any = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
    aside.wait_stream(torch.cuda.current_stream(device))
    try:
        with torch.cuda.stream(aside):
            yield
    finally:
        torch.cuda.current_stream(device).wait_stream(aside)
