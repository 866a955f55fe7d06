"""Plans an adaptation: from what was asked, public facts and the public source to a design; it opens no vault."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privot.accounting.events import Composed, Projection, Sampled, event_from_dict, leaves
from privot.accounting.sampling import FixedSize
from privot.adaptation.adaptation_config import AdaptationConfig, choose, choose_for_table, default_method
from privot.adaptation.adaptation_design import (
    AdaptationDesign,
    embedding_map,
    plan_sigma,
    source_digest,
    stand_in_map,
    table_release,
)
from privot.adaptation.networks import build
from privot.adaptation.stand_in.table_rows import cell_width, labelled_rows
from privot.common.arguments import check_delta, check_epsilon
from privot.common.devices import usable_device
from privot.data.loading import checked_labels, checked_rows
from privot.errors import DataError, UsageError
from privot.guarantee import Guarantee
from privot.mechanisms.mechanism import Facts
from privot.synthesis.neural.features.fourier import public_range
from privot.tables.codec import TableCodec
from privot.transport.slice_directions import check_seed, fresh_seed

Source = tuple[Any, Any] | Mapping[str, Any] | str | Path
"""A pair (x, y); for a table the table itself, or the path of its file."""


@dataclass(frozen=True)
class AdaptationTerms:
    """What was asked of an adaptation: the parameters of `DomainAdapter` that decide its design, under their names."""

    epsilon: float
    delta: float
    method: str | None
    network: str | None
    shape: Sequence[int] | None
    low: float
    high: float
    codec: TableCodec | None
    settings: AdaptationConfig | None
    device: str
    seed: int | None

    def plan(self, facts: Facts, source: Source, *, by_request: bool = False) -> AdaptationDesign:
        """What would be released and trained; `by_request` it is what an `AdaptationRequest` can ask for."""
        check_epsilon(self.epsilon), check_delta(self.delta)
        x, y = self.rows(source)
        if self.codec is not None:
            return self._table_design(self.codec, facts, x, y)
        device = usable_device(self.device, auto=True)
        public_range(self.low, self.high, facts.dim)
        if x.shape[1] != facts.dim:
            raise DataError(f"The source has {x.shape[1]} columns, the target {facts.dim}: give both the same.")
        shape = None if self.shape is None else [int(side) for side in self.shape]
        if shape is not None and int(np.prod(shape)) != facts.dim:
            raise UsageError(f"An image of shape {tuple(shape)} has {np.prod(shape)} values, a record {facts.dim}.")
        settings = self.settings or choose(
            self.chosen_method, shape is not None, facts.records or 1, self.network, device == "cuda"
        )
        config = {
            "kind": settings.network,
            "columns": facts.dim,
            "shape": shape,
            "classes": int(y.max()) + 1,
            "low": float(self.low),
            "high": float(self.high),
        }
        seed = fresh_seed() if self.seed is None else check_seed(self.seed)
        size = build(config, seed).size
        sigma = plan_sigma(settings, size, facts, float(self.epsilon), float(self.delta))
        features = None
        if settings.method == "embedding" and sigma is not None:
            ends = float(self.low), float(self.high)
            spread = _spread(x, *ends, seed)
            features = embedding_map(facts, sigma, spread, seed, *ends, settings.frequencies, shape is not None)
        terms = float(self.epsilon), float(self.delta)
        rules = None
        if settings.method == "stand-in":
            ends = float(self.low), float(self.high)
            features, rules = stand_in_map(facts, *terms, shape, *ends, device, seed, by_request=by_request)
            if settings.generator is not None:
                rules["steps"] = settings.generator
        digest = source_digest(x, y)
        return AdaptationDesign(settings, config, sigma, *terms, seed, facts, features, rules, source=digest)

    def _table_design(self, codec: TableCodec, facts: Facts, x: NDArray[Any], y: NDArray[np.int64]) -> AdaptationDesign:
        """The same for tables: what is released and the width of a row follow from the schema."""
        method = self.chosen_method if self.settings is None else self.settings.method
        if method != "stand-in" or self.shape is not None or (self.low, self.high) != (0.0, 1.0):
            raise UsageError("A table is adapted by the method stand-in: choose that, and leave out shape and range.")
        settings = self.settings or choose_for_table()
        if self.network not in (None, "linear") or settings.network != "linear":
            raise UsageError("A table has a linear classifier of its cells: leave out the network.")
        config = {
            "kind": settings.network,
            "columns": cell_width(codec),
            "shape": None,
            "classes": codec.classes,
            "low": 0.0,
            "high": 1.0,
        }
        seed = fresh_seed() if self.seed is None else check_seed(self.seed)
        build(config, seed)
        terms = float(self.epsilon), float(self.delta)
        table = table_release(codec, facts, *terms, seed)
        # of the pairs' counts; what is released and charged is read from `table`
        sigma = float(table["release"]["sigma"][1])
        return AdaptationDesign(settings, config, sigma, *terms, seed, facts, table=table, source=source_digest(x, y))

    @property
    def chosen_method(self) -> str:
        """The method that was asked for, or the default."""
        return self.method or default_method(self.shape is not None, self.codec is not None)

    def rows(self, source: Source) -> tuple[NDArray[Any], NDArray[np.int64]]:
        """The public source as rows and labels."""
        return checked_source(source if self.codec is None else labelled_rows(source, self.codec))

    def to_dict(self) -> dict[str, Any]:
        """What was asked for, as plain JSON types."""
        table = {} if self.codec is None else {"codec": self.codec.to_dict()}
        return {
            **table,
            "epsilon": float(self.epsilon),
            "delta": float(self.delta),
            "method": self.chosen_method,
            "network": self.network,
            "shape": None if self.shape is None else [int(side) for side in self.shape],
            "low": float(self.low),
            "high": float(self.high),
            "settings": None if self.settings is None else self.settings.to_dict(),
            "seed": None if self.seed is None else check_seed(self.seed),
        }


def asked_of(job: Mapping[str, Any]) -> dict[str, Any]:
    """What was asked of the job with these settings, as `AdaptationTerms.to_dict` writes it.

    A command writes what was typed: a shape as text, changed settings as texts, and what only it is told.
    """
    asked: dict[str, Any] = dict(job["asked"])
    if "set" not in asked:
        return asked
    changed, shape = asked.pop("set"), asked["shape"]
    for only_typed in ("classes", "unit", "per_unit"):
        asked.pop(only_typed, None)
    sides = None if shape is None else [int(side) for side in shape.split(",")]
    return {**asked, "shape": sides, "settings": job["design"]["settings"] if changed else None}


def checked_source(source: Any) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Public rows and labels 0, 1, …; refuses a source that cannot be trained on."""
    try:
        x, y = source
    except (TypeError, ValueError):
        raise UsageError("The source must be a pair (x, y) of rows and labels.") from None
    if y is None:
        raise DataError("The source has no labels: name them y.")
    rows = checked_rows(x)
    labels = checked_labels(y, len(rows))
    if labels.min() < 0 or labels.max() > 10_000 or labels.max() < 1:
        raise DataError("The source's labels must be whole numbers from 0, of at least two classes.")
    return rows, labels


def paid_elsewhere(design: AdaptationDesign, paid: Guarantee, releases: int) -> AdaptationDesign:
    """`design` with the noise, number and cost of the `releases` of a stream in place of its own; refuses others."""
    steps = [event for event, _ in leaves(Composed(tuple(event_from_dict(e) for e in paid.events)))]
    one = steps[0].event if isinstance(steps[0], Sampled) else steps[0]
    if len(steps) != 1 or not isinstance(one, Projection) or one.dim != build(design.networks, design.seed).size:
        raise UsageError("The stream must answer with projections of a representation of this network's size.")
    sampling = steps[0].sampling if isinstance(steps[0], Sampled) else None
    settings = replace(
        design.settings, blocks=1, releases_per_block=releases, slices=one.slices, frame=one.frame,
        clip=one.sensitivity / one.adjacency.sensitivity(1.0),
        sample=sampling.batch if isinstance(sampling, FixedSize) else None,
    )  # fmt: skip
    return replace(design, settings=settings, sigma=one.sigma, epsilon=paid.epsilon(), delta=paid.at_delta)


def _spread(x: NDArray[Any], low: float, high: float, seed: int) -> float:
    """The median distance of pairs of *source* records, which are public, in [0, 1]."""
    dice = np.random.default_rng(seed)
    a, b = (np.clip((x[dice.integers(len(x), size=1000)] - low) / (high - low), 0.0, 1.0) for _ in range(2))
    return float(max(np.median(np.linalg.norm(a - b, axis=1)), 1e-3))
