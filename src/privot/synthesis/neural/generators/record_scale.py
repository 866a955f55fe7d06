"""The scale between a generator's [0, 1] and the public range of the records."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch


@dataclass(frozen=True)
class RecordScale:
    """Between a generator's [0, 1] and the public range of the records."""

    low: torch.Tensor
    span: torch.Tensor

    @classmethod
    def of(cls, features: Any, device: torch.device | str = "cpu") -> RecordScale:
        """The range the map says, or [0, 1]; a stack's is its first map's."""
        first = features
        while hasattr(first, "maps"):
            first = first.maps[0]
        low = torch.tensor(getattr(first, "low", 0.0), dtype=torch.float32, device=device)
        high = torch.tensor(getattr(first, "high", 1.0), dtype=torch.float32, device=device)
        return cls(low, high - low)

    def to_records(self, unit: torch.Tensor) -> torch.Tensor:
        """From [0, 1] to the unit of the records."""
        return self.low + self.span * unit
