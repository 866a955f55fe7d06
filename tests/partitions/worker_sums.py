"""Sums that workers compute for the tests. Workers import this module by its name: it loads NumPy and nothing else."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class SlowCount:
    """How many rows there are; `seconds` for a block, so that a worker can be killed in the middle of it."""

    seconds: float
    labels: bool = False

    def zeros(self) -> Any:
        return (np.zeros(1, dtype=np.int64),)

    def add(self, totals: Any, rows: Any, labels: Any) -> None:
        time.sleep(self.seconds)
        totals[0][0] += len(rows)


@dataclass(frozen=True)
class Ages:
    """Counts of ages; `seconds` for a block, so that a worker can be killed in the middle of it."""

    seconds: float = 0.0
    labels: bool = False

    def zeros(self) -> Any:
        return (np.zeros(100, dtype=np.int64),)

    def add(self, totals: Any, rows: Any, labels: Any) -> None:
        time.sleep(self.seconds)
        totals[0][:] += np.bincount(np.rint(rows[:, 0]).astype(int), minlength=100)
