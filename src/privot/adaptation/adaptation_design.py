"""What an adaptation decides before anything is paid: its settings, σ and what is released; public facts only."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privot.accounting.events import Composed, Event, Repeated
from privot.adaptation.adaptation_config import AdaptationConfig
from privot.common.arguments import is_number
from privot.errors import DataError, PrivotError, UsageError, brief
from privot.guarantee import Adjacency
from privot.kinds import Kind
from privot.kinds.kind_registry import kind_of_params
from privot.mechanisms import MeanEmbedding
from privot.mechanisms.mechanism import Facts, Mechanism
from privot.synthesis.neural.features.fourier import feature_map

MAX_ASKED, MAX_ASKED_NUMBERS = 10_000, 1 << 24
"""Most frequencies of a map that a request asks for, and most numbers in its matrix (128 MiB)."""


@dataclass(frozen=True)
class AdaptationDesign:
    """Everything decided from public facts and the public source, as plain JSON types but for `facts`."""

    settings: AdaptationConfig
    networks: dict[str, Any]
    sigma: float | None
    epsilon: float
    delta: float
    seed: int
    facts: Facts
    features: dict[str, Any] | None = None
    """The feature map, where a mean embedding is released."""
    rules: dict[str, Any] | None = None
    """How the generator of a stand-in is trained."""
    table: dict[str, Any] | None = None
    """For a table: its `codec`, label included, and the `release` of its columns without the label."""
    source: str | None = None
    """The digest of the source: kept in the folder of a job, and left out of what is sent or published."""

    def to_dict(self) -> dict[str, Any]:
        """As plain JSON types."""
        fields: dict[str, Any] = {
            "settings": self.settings.to_dict(),
            "networks": self.networks,
            "sigma": self.sigma,
            "epsilon": self.epsilon,
            "delta": self.delta,
            "seed": self.seed,
            "adjacency": str(self.facts.adjacency),
            "facts": self.facts.plain(),
            "features": self.features,
        }
        for name in ("rules", "table"):
            if getattr(self, name) is not None:
                fields[name] = getattr(self, name)
        return fields if self.source is None else {**fields, "source": self.source}

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any], config: type[AdaptationConfig]) -> AdaptationDesign:
        """Read what `to_dict` wrote of a method with this `config`."""
        try:
            given = dict(fields)
            facts = Facts.from_plain(given.pop("facts"), Adjacency.parse(given.pop("adjacency")))
            made = cls(settings=config.from_dict(given.pop("settings")), facts=facts, **given)
            made._check_plain()
            return made
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            if isinstance(error, PrivotError) and not isinstance(error, UsageError):
                raise
            raise DataError(f"This does not describe an adaptation ({type(error).__name__}).") from None

    def _check_plain(self) -> None:
        """Refuse values of the wrong kind: a design is also read from files that somebody may have edited."""
        n = self.networks
        numbers = [n["low"], n["high"], self.epsilon, self.delta, *([] if self.sigma is None else [self.sigma])]
        sides = [] if n["shape"] is None else list(n["shape"])
        wholes = [n["columns"], n["classes"], self.seed, *sides]
        parts = [part for part in (self.features, self.rules, self.table) if part is not None]
        plain = all(is_number(value) for value in numbers) and all(type(value) is int for value in wholes)
        if not plain or not isinstance(n["kind"], str) or not all(isinstance(part, dict) for part in parts):
            raise DataError("This does not describe an adaptation: a value is of the wrong kind.")

    @property
    def kind(self) -> Kind:
        """What the records of both domains are; of a table with the label."""
        return kind_of_design(self.networks, self.table)

    def check_facts(self, facts: Facts) -> None:
        """Refuse records whose public facts, the unit among them, differ from those of this design."""
        for name in ("dim", "records", "clip", "classes", "adjacency", "unit"):
            if getattr(self.facts, name) != getattr(facts, name):
                raise DataError(f"These are not the records this adaptation was designed for: their {name} differs.")

    def check_source(self, x: NDArray[Any], y: NDArray[np.int64]) -> None:
        """Refuse another source than the design's; a design of an earlier version holds no digest, only sizes."""
        columns, classes = self.networks.get("columns"), int(self.networks["classes"])
        found = int(y.max()) + 1
        # where a schema states the classes, a source may lack the last of them
        fits = x.shape[1] == columns and (found == classes or found < classes == self.kind.count)
        if not fits or (self.source is not None and source_digest(x, y) != self.source):
            raise DataError(
                "This is not the source that the job was started with: continue with the same rows and labels, in the "
                "same order."
            )

    def mean_embedding(self, device: str) -> MeanEmbedding:
        """The mechanism that releases the mean of `features` over the target."""
        if self.sigma is None or self.features is None:
            raise DataError("This design has no feature map to release the mean of.")
        return MeanEmbedding(feature_map(self.features), self.sigma, device=device)

    def cost(self, mechanism: Mechanism, blocks: int) -> Event:
        """What `blocks` charges of `mechanism` cost together, as a vault charges them: for one record, or for the unit
        of the facts.
        """
        one = self.facts.cost(mechanism.event(self.facts))
        block = one if mechanism.steps == 1 else Repeated(one, mechanism.steps)
        return block if blocks == 1 else Composed((block,) * blocks)


def kind_of_design(networks: Mapping[str, Any], table: Mapping[str, Any] | None) -> Kind:
    """The kind of the records of a design with these fields."""
    try:
        held = {name: networks[name] for name in ("shape", "low", "high")}
        return kind_of_params({**held, "codec": None if table is None else table["codec"]})
    except (KeyError, TypeError, AttributeError, PrivotError) as error:
        # a schema that a file holds, not the caller
        raise DataError(f"This does not describe an adaptation: {brief(str(error))}.") from None


def source_digest(x: NDArray[Any], y: NDArray[np.int64]) -> str:
    """SHA-256 of rows and labels as training uses them: in their order, in float32, −0 the same as 0."""
    # a value too large for float32 becomes an infinity in training too
    with np.errstate(over="ignore"):
        rows = np.asarray(x, dtype="<f4") + np.float32(0.0)
    digest = hashlib.sha256(json.dumps(rows.shape).encode())
    digest.update(np.ascontiguousarray(rows).tobytes())
    digest.update(np.asarray(y, dtype="<i8").tobytes())
    return digest.hexdigest()
