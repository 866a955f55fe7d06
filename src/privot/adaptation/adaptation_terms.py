"""What was asked of an adaptation: frozen, in public terms, as a job in a folder says it; it plans nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from privot.adaptation.adaptation_config import AdaptationConfig
from privot.errors import UsageError
from privot.kinds import Kind
from privot.transport.slice_directions import check_seed

Source = tuple[Any, Any] | Mapping[str, Any] | str | Path
"""A pair (x, y); for a table the table itself, or the path of its file."""


@dataclass(frozen=True)
class AdaptationTerms:
    """The parameters of `DomainAdapter` that decide its design, and the kind of the records of both domains."""

    epsilon: float
    delta: float
    asked: AdaptationConfig
    network: str | None
    kind: Kind
    device: str
    seed: int | None

    @property
    def span(self) -> tuple[float, float]:
        """The public range of values, the same for all columns."""
        low, high = self.kind.low, self.kind.high
        if not isinstance(low, int | float) or not isinstance(high, int | float):
            raise UsageError("An adaptation has one range for all columns: state the lowest and the highest value.")
        return float(low), float(high)

    def to_dict(self) -> dict[str, Any]:
        """What was asked for, as plain JSON types."""
        low, high = self.span
        codec = self.kind.to_params().get("codec")
        given = self.asked.given()
        return {
            **({} if codec is None else {"codec": codec}),
            "epsilon": float(self.epsilon),
            "delta": float(self.delta),
            "method": self.asked.name,
            "network": self.network,
            "shape": None if self.kind.shape is None else list(self.kind.shape),
            "low": low,
            "high": high,
            "settings": {"method": self.asked.name, **given} if given else None,
            "seed": None if self.seed is None else check_seed(self.seed),
        }


def asked_of(job: Mapping[str, Any]) -> dict[str, Any]:
    """What was asked of the job with these settings, as `AdaptationTerms.to_dict` writes it.

    An earlier command wrote what was typed: a shape as text, and changed settings as texts.
    """
    asked: dict[str, Any] = dict(job["asked"])
    if "set" not in asked:
        return asked
    changed, shape = asked.pop("set"), asked["shape"]
    sides = None if shape is None else [int(side) for side in shape.split(",")]
    return {**asked, "shape": sides, "settings": job["design"]["settings"] if changed else None}
