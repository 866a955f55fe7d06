"""The memory and the processor time of a process and of all that it starts (Linux)."""

from __future__ import annotations

import resource
import threading
from pathlib import Path


def processor_seconds() -> float:
    """Seconds of processors of this process and of those that it started and that have ended."""
    own, below = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
    return own.ru_utime + own.ru_stime + below.ru_utime + below.ru_stime


class Memory:
    """The largest memory of a process and all that it started, in MiB; pages that they share count once."""

    def __init__(self, process: int) -> None:
        self.peak = 0.0
        self._process, self._done = process, threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def _watch(self) -> None:
        while not self._done.wait(0.2):
            self.peak = max(self.peak, sum(_pss(process) for process in _family(self._process)) / 1024.0)

    def stop(self) -> float:
        """The peak."""
        self._done.set()
        self._thread.join()
        return self.peak


def _family(process: int) -> list[int]:
    parents = {}
    for place in Path("/proc").iterdir():
        if place.name.isdecimal():
            try:
                fields = (place / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            parents[int(place.name)] = int(fields[1])
    found = {process}
    while more := {child for child, parent in parents.items() if parent in found} - found:
        found |= more
    return sorted(found)


def _pss(process: int) -> float:
    try:
        lines = Path(f"/proc/{process}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0.0
    return float(next((line.split()[1] for line in lines if line.startswith("Pss:")), 0.0))
