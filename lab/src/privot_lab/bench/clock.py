"""Times calls: after a warm-up, with GPU synchronisation, in turns; the best round, and single calls. No data."""

from __future__ import annotations

import time
from collections.abc import Callable
from statistics import median

import torch

LONGEST_ROUND = 0.05
"""Target length of a round in seconds, so that the cost of the clock does not matter."""


def seconds(call: Callable[[], object], device: torch.device, budget: float = 1.0) -> float:
    """Seconds of one `call`, the best round within about `budget` seconds (at least three rounds)."""
    return race([call], device, budget)[0]


def race(calls: list[Callable[[], object]], device: torch.device, budget: float = 1.0) -> list[float]:
    """Seconds of each call, about `budget` seconds for each, in turns so that all run under the same conditions.

    Other work on the machine can only slow a round down, so the best round counts.
    """
    counts = []
    for call in calls:
        _round(call, 1, device)
        once = _round(call, 1, device)
        counts.append(max(1, min(200, int(LONGEST_ROUND / max(once, 1e-6)))))
    best = [float("inf")] * len(calls)
    spent = [0.0] * len(calls)
    rounds = 0
    while rounds < 3 or (rounds < 40 and min(spent) < budget):
        for i, call in enumerate(calls):
            if rounds >= 3 and spent[i] >= budget:
                continue
            took = _round(call, counts[i], device)
            spent[i] += took
            best[i] = min(best[i], took / counts[i])
        rounds += 1
    return best


def singles(calls: list[Callable[[], object]], device: torch.device, budget: float = 0.5) -> list[float]:
    """Median seconds of each call made alone: the device is idle before it and waited for after it.

    Calls of one kind follow each other, as in a loop that reads every result, in three blocks that alternate with the
    blocks of the other calls.
    """
    took: list[list[float]] = [[] for _ in calls]
    for _ in range(3):
        for i, call in enumerate(calls):
            _round(call, 1, device)
            took[i].append(once := _round(call, 1, device))
            took[i] += [_round(call, 1, device) for _ in range(min(100, int(budget / 3.0 / max(once, 1e-6))))]
    return [median(each) for each in took]


def _round(call: Callable[[], object], count: int, device: torch.device) -> float:
    began = time.perf_counter()
    for _ in range(count):
        call()
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter() - began
