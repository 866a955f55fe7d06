"""What a synthesis decides before anything is paid, and how samples are shared out; it sees public facts only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from privot.errors import DataError, UsageError
from privot.guarantee import Adjacency
from privot.mechanisms import MeanEmbedding
from privot.synthesis.features import feature_map
from privot.synthesis.rules import Rules

if TYPE_CHECKING:
    from privot.synthesis.streams import Strategy


@dataclass(frozen=True)
class Design:
    """Everything decided from public facts, before anything is paid."""

    mechanism: Any
    """What is released: a `MeanEmbedding` once, or the mechanism of one block of a stream."""
    rules: Rules
    seed: int
    delta: float
    adjacency: Adjacency
    method: str = "embedding"
    labels: bool = False

    def to_dict(self) -> dict[str, Any]:
        """As plain JSON types."""
        common = {
            "method": self.method,
            "rules": self.rules.to_dict(),
            "seed": self.seed,
            "delta": self.delta,
            "adjacency": str(self.adjacency),
            "labels": self.labels,
        }
        if self.method != "embedding":
            return {**common, "mechanism": strategy_of(self.method).write(self.mechanism)}
        return {**common, "sigma": self.mechanism.sigma, "features": self.mechanism.features.to_dict()}

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any], device: str) -> Design:
        """Read what `to_dict` wrote, for another device if need be."""
        try:
            method, labels = str(fields.get("method", "embedding")), bool(fields["labels"])
            mechanism: Any
            if method == "embedding":
                mechanism = MeanEmbedding(feature_map(fields["features"]), fields["sigma"], labels, device=device)
            else:
                mechanism = strategy_of(method).read(fields["mechanism"], device)
            rules, adjacency = Rules.from_dict(fields["rules"]), Adjacency.parse(fields["adjacency"])
            return cls(mechanism, rules, int(fields["seed"]), float(fields["delta"]), adjacency, method, labels)
        except (KeyError, TypeError) as error:
            raise DataError(f"This does not describe a synthesis ({type(error).__name__}).") from None


def strategy_of(method: str) -> Strategy:
    """How a method that pays as it goes does it."""
    if method == "sinkhorn":
        from privot.synthesis.sinkhorn import SinkhornStrategy

        return SinkhornStrategy()
    if method == "sliced":
        from privot.synthesis.sliced import SlicedStrategy

        return SlicedStrategy()
    raise DataError(f"There is no method {method!r} that pays as it goes.")


def shares(counts: NDArray[np.float64], n: int) -> NDArray[np.int64]:
    """`n` labels in the proportion of `counts`, by largest remainders, in rising order."""
    exact = n * counts / counts.sum()
    whole = np.floor(exact).astype(np.int64)
    rest = n - int(whole.sum())
    whole[np.argsort(whole - exact, kind="stable")[:rest]] += 1
    return np.repeat(np.arange(len(counts), dtype=np.int64), whole)


def usable_device(name: str) -> str:
    """`name`, with auto resolved."""
    if name == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    if name not in ("cpu", "cuda"):
        raise UsageError(f"Unknown device {name!r}: say auto, cpu or cuda.")
    if name == "cuda" and not torch.cuda.is_available():
        raise UsageError("There is no CUDA device here: use --device cpu.")
    return name
