"""What an adaptation decides before anything is paid: σ, the mechanism of one block and its cost; public facts only."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import nn

from privot.accounting import calibrate, embedding, gradient, projection
from privot.accounting.events import Composed, Event, Gaussian, Repeated, repeated
from privot.accounting.planning.plan_terms import Plan
from privot.adaptation.adaptation_config import AdaptationConfig
from privot.adaptation.alignment.adversarial import DomainGradients
from privot.adaptation.networks import Committee, FrozenRepresentation, Networks
from privot.common.arguments import is_number
from privot.errors import DataError, PrivotError, UsageError
from privot.guarantee import Adjacency
from privot.kinds.kind_registry import kind_of_params
from privot.mechanisms import ClippedGradients, MeanEmbedding
from privot.mechanisms.gradients.dp_sgd import default_sampling
from privot.mechanisms.gradients.gradient_function import Query
from privot.mechanisms.mechanism import Facts, Mechanism, refuse_unit
from privot.mechanisms.representation import ProjectedRepresentation
from privot.mechanisms.unproven.published_alignment import PublishedAlignment
from privot.synthesis.config import SynthesisConfig
from privot.synthesis.method_configs import Embedding
from privot.synthesis.neural.defaults.feature_defaults import BANDWIDTHS as PIXEL_BANDWIDTHS
from privot.synthesis.neural.defaults.feature_defaults import frequencies
from privot.synthesis.neural.defaults.problem_and_rules import Problem
from privot.synthesis.neural.features.fourier import Fourier, feature_map
from privot.synthesis.planner import plan as plan_synthesis
from privot.synthesis.tabular.table_design import TableDesign
from privot.tables.codec import TableCodec

BANDWIDTHS = {True: (0.3, 0.5), False: (1.0, 2.0)}
"""In units of the source's median distance, for images and for vectors: fine bandwidths distinguish styles, as in
synthesis; wide ones give a gradient over long distances, for columns that moved."""
SUMS = ("embedding", "stand-in")
"""The methods that release one sum over all records of the target, and so can protect a unit."""
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
    """The feature map of the methods embedding and stand-in."""
    rules: dict[str, Any] | None = None
    """How the generator of the method stand-in is trained."""
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
    def from_dict(cls, fields: Mapping[str, Any]) -> AdaptationDesign:
        """Read what `to_dict` wrote."""
        try:
            given = dict(fields)
            facts = Facts.from_plain(given.pop("facts"), Adjacency.parse(given.pop("adjacency")))
            made = cls(settings=AdaptationConfig.from_dict(given.pop("settings")), facts=facts, **given)
            made._check_kinds()
            return made
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            if isinstance(error, PrivotError) and not isinstance(error, UsageError):
                raise
            raise DataError(f"This does not describe an adaptation ({type(error).__name__}).") from None

    def _check_kinds(self) -> None:
        """Refuse values of the wrong kind: a design is also read from files that somebody may have edited."""
        n = self.networks
        numbers = [n["low"], n["high"], self.epsilon, self.delta, *([] if self.sigma is None else [self.sigma])]
        sides = [] if n["shape"] is None else list(n["shape"])
        wholes = [n["columns"], n["classes"], self.seed, *sides]
        parts = [part for part in (self.features, self.rules, self.table) if part is not None]
        plain = all(is_number(value) for value in numbers) and all(type(value) is int for value in wholes)
        if not plain or not isinstance(n["kind"], str) or not all(isinstance(part, dict) for part in parts):
            raise DataError("This does not describe an adaptation: a value is of the wrong kind.")
        if self.table is not None:
            self.table_release()

    def check_facts(self, facts: Facts) -> None:
        """Refuse records whose public facts, the unit among them, differ from those of this design."""
        for name in ("dim", "records", "clip", "classes", "adjacency", "unit"):
            if getattr(self.facts, name) != getattr(facts, name):
                raise DataError(f"These are not the records this adaptation was designed for: their {name} differs.")

    def check_source(self, x: NDArray[Any], y: NDArray[np.int64]) -> None:
        """Refuse another source than the design's; a design of an earlier version holds no digest, only sizes."""
        columns, classes = self.networks.get("columns"), int(self.networks["classes"])
        # the schema of a table states its classes, and a source may lack the last of them
        few = int(y.max()) + 1 <= classes if self.table is not None else int(y.max()) + 1 == classes
        fits = x.shape[1] == columns and few
        if not fits or (self.source is not None and source_digest(x, y) != self.source):
            raise DataError(
                "This is not the source that the job was started with: continue with the same rows and labels, in the "
                "same order."
            )

    def codec(self) -> TableCodec | None:
        """The codec of a table, label included; None for records that are no rows of a table."""
        try:
            return None if self.table is None else TableCodec.from_dict(self.table.get("codec", {}))
        except UsageError as error:
            # a schema that a file holds, not the caller
            raise DataError(str(error)) from None

    def table_release(self) -> TableDesign:
        """What is released of a table: its columns without the label."""
        codec = self.codec()
        if codec is None or self.table is None or not isinstance(self.table.get("release"), dict):
            raise DataError("This does not describe the adaptation to a table.")
        return TableDesign.from_dict(self.table["release"], TableCodec(codec.schema.without_label()))

    def mechanism(
        self, networks: Networks | Committee, query: Query | None, domain: DomainGradients | None
    ) -> Mechanism:
        """The mechanism of one block; only DP-SGD needs `query` and `domain`."""
        s, device = self.settings, _device_of(networks)
        if self.sigma is None:
            raise UsageError("A training on the source alone releases nothing.")
        if self.table is not None:
            return self.table_release().mechanism
        if s.method in SUMS:
            return MeanEmbedding(feature_map(self.features or {}), self.sigma, device=device)
        if s.method == "dp-dann":
            if query is None or domain is None or s.sample is None:
                raise UsageError("Gradients of a discriminator need its weights and a sample.")
            sampling = default_sampling(self.facts.adjacency, s.sample / (self.facts.records or 1), self.facts.records)
            return ClippedGradients(domain, query, self.sigma, s.clip, sampling, s.releases_per_block, labels=False)
        assert isinstance(networks, Networks)
        g = FrozenRepresentation(networks, device)
        if s.method == "published":
            return PublishedAlignment(g, s.slices, self.sigma, s.sample or 1, s.releases_per_block, s.frame)
        return ProjectedRepresentation(g, s.slices, self.sigma, s.clip, s.frame, s.sample, s.releases_per_block)

    def cost(self, mechanism: Mechanism, blocks: int) -> Event:
        """What `blocks` charges of `mechanism` cost together, as a vault charges them: for one record, or for the unit
        of the facts.
        """
        one = self.facts.cost(mechanism.event(self.facts))
        block = one if mechanism.steps == 1 else Repeated(one, mechanism.steps)
        return block if blocks == 1 else Composed((block,) * blocks)


def source_digest(x: NDArray[Any], y: NDArray[np.int64]) -> str:
    """SHA-256 of rows and labels as training uses them: in their order, in float32, −0 the same as 0."""
    # a value too large for float32 becomes an infinity in training too
    with np.errstate(over="ignore"):
        rows = np.asarray(x, dtype="<f4") + np.float32(0.0)
    digest = hashlib.sha256(json.dumps(rows.shape).encode())
    digest.update(np.ascontiguousarray(rows).tobytes())
    digest.update(np.asarray(y, dtype="<i8").tobytes())
    return digest.hexdigest()


def plan_sigma(settings: AdaptationConfig, size: int, facts: Facts, epsilon: float, delta: float) -> float | None:
    """σ for (ε, δ) and all releases together; `size` is the latent dimension that is really projected.

    Formal guarantee: a mean embedding is a sum over all records, so a unit of k records moves it by at most k times
    what one record moves it (`privot.accounting.for_unit`), and σ is found for that. The other methods show a row per
    record, or draw samples of records: no theorem here covers a unit of them, and a unit is refused.
    """
    if settings.method == "source":
        return None
    total = settings.releases
    if settings.method in SUMS:
        if facts.unit is not None:
            reach = facts.adjacency.sensitivity(1.0)
            return calibrate(
                lambda sigma: repeated(facts.cost(Gaussian(sigma, reach, facts.adjacency)), total),
                epsilon=epsilon,
                delta=delta,
            )
        _public_count(facts)
        return embedding(adjacency=facts.adjacency, delta=delta, epsilon=epsilon, releases=total).sigma
    refuse_unit(facts, f"The method {settings.method} shows or draws single records, so it")
    return _plan_samples(settings, size, facts, _public_count(facts), epsilon, delta).sigma


def _public_count(facts: Facts) -> int:
    if facts.records is None:
        raise UsageError(
            "Without a unit, adaptation counts under replace-one neighbours, where the number of records is public."
        )
    return facts.records


def _plan_samples(
    settings: AdaptationConfig, size: int, facts: Facts, records: int, epsilon: float, delta: float
) -> Plan:
    """The same of the methods that show a row per record, or draw samples of records."""
    total = settings.releases
    if settings.sample is not None and settings.sample > records:
        raise UsageError(f"A sample of {settings.sample} cannot be drawn from {records} target records.")
    if settings.method == "dp-dann":
        return gradient(
            adjacency=facts.adjacency, delta=delta, epsilon=epsilon, records=records, batch=settings.sample,
            steps=total, clip=settings.clip, clipping="per-example",
        )  # fmt: skip
    # as published: rows are brought to norm 1/2, so Δ = 1
    clip = 0.5 if settings.method == "published" else settings.clip
    return projection(
        size, settings.slices, adjacency=facts.adjacency, delta=delta, epsilon=epsilon, records=records,
        batch=settings.sample, steps=total, clip=clip, frame=settings.frame,
    )  # fmt: skip


def stand_in_map(
    facts: Facts,
    epsilon: float,
    delta: float,
    shape: list[int] | None,
    low: float,
    high: float,
    device: str,
    seed: int,
    *,
    by_request: bool = False,
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The feature map and the rules of a generator that a synthesis of the target without labels would choose.

    `by_request` the map is one of dense Fourier features, which is all that a request may ask for.
    """
    kind = kind_of_params({"shape": shape, "low": low, "high": high})
    config = SynthesisConfig(epsilon, delta, kind=kind, device=device, seed=seed)
    chosen: Any = plan_synthesis(config, facts)
    features = chosen.mechanism.features
    if by_request and (features.to_dict()["kind"] != Fourier.kind or features.frequencies > MAX_ASKED):
        problem = Problem(facts.dim, 1, chosen.mechanism.sigma, facts.records, None, device)
        most = min(frequencies(problem), MAX_ASKED, max(1, MAX_ASKED_NUMBERS // facts.dim))
        widths = [share * math.sqrt(facts.dim) for share in PIXEL_BANDWIDTHS]
        features = Fourier(facts.dim, most, widths, seed, low, high)
        chosen = plan_synthesis(replace(config, asked=Embedding(features=features)), facts)
    return chosen.mechanism.features.to_dict(), chosen.rules.to_dict()


def table_release(codec: TableCodec, facts: Facts, epsilon: float, delta: float, seed: int) -> dict[str, Any]:
    """The field `table` of a design: what a synthesis of the target's columns without the label would release."""
    chosen = TableDesign.choose(TableCodec(codec.schema.without_label()), facts, epsilon, delta, seed)
    return {"codec": codec.to_dict(), "release": chosen.to_dict()}


def embedding_map(
    facts: Facts, sigma: float, spread: float, seed: int, low: float, high: float, most: int, image: bool
) -> dict[str, Any]:
    """Fourier features, `most` frequencies or fewer; `spread` is the median distance of *source* records in [0, 1]."""
    problem = Problem(facts.dim, 1, sigma, facts.records, None, "cpu")
    return {
        "kind": "fourier",
        "dim": facts.dim,
        "frequencies": min(frequencies(problem), most),
        "bandwidths": [share * spread for share in BANDWIDTHS[image]],
        "seed": seed,
        "low": low,
        "high": high,
        "frame": "orthogonal",
    }


def _device_of(networks: nn.Module) -> str:
    return next(networks.parameters()).device.type
