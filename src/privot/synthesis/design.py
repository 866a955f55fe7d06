"""What a synthesis decides before anything is paid, and how samples are shared out; it sees public facts only."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from privot.errors import DataError, UsageError
from privot.guarantee import Adjacency
from privot.mechanisms import Facts, MeanEmbedding
from privot.release import Release
from privot.synthesis.features import feature_map
from privot.synthesis.rules import Rules


@dataclass(frozen=True)
class Design:
    """Everything decided from public facts, before anything is paid."""

    mechanism: MeanEmbedding
    rules: Rules
    seed: int
    delta: float
    adjacency: Adjacency
    facts: Facts

    def to_dict(self) -> dict[str, Any]:
        """As plain JSON types."""
        return {
            "sigma": self.mechanism.sigma,
            "features": self.mechanism.features.to_dict(),
            "labels": self.mechanism.labels,
            "rules": self.rules.to_dict(),
            "seed": self.seed,
            "delta": self.delta,
            "adjacency": str(self.adjacency),
            "facts": _plain(self.facts),
        }

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any], device: str) -> Design:
        """Read what `to_dict` wrote, for another device if need be."""
        try:
            mechanism = MeanEmbedding(
                feature_map(fields["features"]), fields["sigma"], bool(fields["labels"]), device=device
            )
            adjacency = Adjacency.parse(fields["adjacency"])
            rules, seed, delta = Rules.from_dict(fields["rules"]), int(fields["seed"]), float(fields["delta"])
            return cls(mechanism, rules, seed, delta, adjacency, Facts(adjacency=adjacency, **fields["facts"]))
        except (KeyError, TypeError) as error:
            raise DataError(f"This does not describe a synthesis ({type(error).__name__}).") from None

    def check_facts(self, facts: Facts) -> None:
        """Refuse records about which other things are public than about those that this was designed for."""
        if self.facts != facts:
            names = [name for name, value in vars(self.facts).items() if value != getattr(facts, name)]
            raise DataError(f"These are not the records this synthesis was designed for: their {names[0]} differs.")

    def check_release(self, release: Release) -> None:
        """Refuse a release whose σ, feature map, weights or events are not those that this design pays for."""
        event = self.mechanism.event(self.facts)
        wanted = {
            "sigma": self.mechanism.sigma,
            "features": json.loads(json.dumps(self.mechanism.features.to_dict())),
            "count_weight": self.mechanism.count_weight,
            "classes": self.facts.classes if self.mechanism.labels else None,
            "records": self.facts.records,
        }
        found = {name: release.public.get(name) for name in wanted}
        events = [dict(e) for e in release.guarantee.events]
        if found != wanted or events != [event.to_dict()] or release.guarantee.at_delta != self.delta:
            raise DataError("The release in this folder is not the one its job paid for: restore it from a backup.")


def _plain(facts: Facts) -> dict[str, Any]:
    """All but the adjacency, as plain JSON types."""
    return {name: value for name, value in vars(facts).items() if name != "adjacency"}


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
