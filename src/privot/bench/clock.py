"""Times a call honestly: warmed up, waited for on a GPU, the best of several rounds."""

from __future__ import annotations

import time
from collections.abc import Callable

import torch


def seconds(call: Callable[[], object], device: torch.device, budget: float = 1.0) -> float:
    """Seconds of one `call`, the best round within about `budget` seconds (at least three rounds)."""

    def wait() -> None:
        if device.type == "cuda":
            torch.cuda.synchronize(device)

    call()
    wait()
    began = time.perf_counter()
    call()
    wait()
    once = time.perf_counter() - began
    # rounds of about 50 ms drown the clock's own cost; other work on the machine can only slow a round down
    count = max(1, min(200, int(0.05 / max(once, 1e-6))))
    rounds = max(3, min(12, int(budget / max(once * count, 1e-6))))
    best = float("inf")
    for _ in range(rounds):
        began = time.perf_counter()
        for _ in range(count):
            call()
        wait()
        best = min(best, (time.perf_counter() - began) / count)
    return best
