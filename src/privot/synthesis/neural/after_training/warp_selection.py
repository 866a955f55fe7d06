"""Selects the warp of samples by noisy counts of correct predictions, for a small part of the budget.

How much samples should be warped (`PictureGenerator`) depends on the images: digits are written at any slant, clothes
are laid out straight. So classifiers are trained on samples warped less and on samples warped more, and the number of
records that each classifies correctly is released with noise (`CorrectCounts`). There are two classifiers per warp, one
on pixels and one on the features of a network, because a warp may suit one and not the other. The warp with the most
correct predictions in all is selected.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch

from privot.accounting.events import Event
from privot.common import arguments
from privot.errors import DataError, UsageError
from privot.guarantee import Adjacency
from privot.mechanisms.accuracy_counts import correct_counts_event
from privot.mechanisms.mechanism import Facts
from privot.noise.noisy_counts import check_counting_sigma
from privot.release import Release
from privot.synthesis.neural.after_training.relabelling import Drawn, of_network, of_pixels
from privot.synthesis.neural.features.network_features import NetworkFeatures
from privot.synthesis.neural.generators.generator import Generator, build

EACH = 2
"""Classifiers per warp; their counts stand side by side."""


@dataclass(frozen=True)
class WarpSelection:
    """The warps among which one is selected, and how, from public facts alone."""

    sigma: float
    """The noise on each count."""
    factors: tuple[float, ...]
    """Factors on the warp of the training."""
    samples: int
    """Samples that each classifier is trained on."""

    def __post_init__(self) -> None:
        arguments.sigma(self.sigma)
        check_counting_sigma(self.sigma)
        object.__setattr__(self, "factors", tuple(float(f) for f in self.factors))
        if len(self.factors) < 2 or not all(0.0 < f < math.inf for f in self.factors):
            raise UsageError("A warp selection needs at least two factors, each finite and above 0.")
        arguments.whole("The number of samples of a warp selection", self.samples, 20)

    def to_dict(self) -> dict[str, Any]:
        """As plain JSON types."""
        return {**asdict(self), "factors": list(self.factors)}

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any] | None) -> WarpSelection | None:
        """Read what `to_dict` wrote; None where there is none."""
        if fields is None:
            return None
        try:
            return cls(**fields)
        except UsageError:
            raise
        except (TypeError, ValueError):
            raise DataError("This does not describe a warp selection.") from None

    def event(self, adjacency: Adjacency) -> Event:
        """What the counts cost."""
        return correct_counts_event(self.sigma, EACH * len(self.factors), adjacency)

    def check(self, release: Release, facts: Facts, delta: float, made_from: str) -> None:
        """Refuse a release that this selection does not pay for, or whose samples were not `made_from` the same."""
        public, events = release.public, [dict(e) for e in release.guarantee.events]
        wanted = {
            "mechanism": "hits",
            "classes": facts.classes,
            "records": facts.records,
            "sigma": self.sigma,
            "made_from": made_from,
        }
        found = {name: public.get(name) for name in wanted}
        value = release.value
        right = found == wanted and isinstance(value, np.ndarray) and value.shape == (EACH * len(self.factors),)
        right = right and bool(np.isfinite(np.asarray(value)).all())
        paid = facts.cost(self.event(facts.adjacency))
        if not right or events != [paid.to_dict()] or release.guarantee.at_delta != delta:
            raise DataError(
                "The warp selection in this folder is not the one its job paid for: restore it from a backup."
            )

    def chosen(self, release: Release) -> float:
        """The factor with the most correct predictions."""
        hits = np.asarray(release.value).reshape(len(self.factors), EACH).sum(axis=1)
        return self.factors[int(np.argmax(hits))]


def classifiers(drawn: Drawn, seed: int) -> list[NetworkFeatures]:
    """Both classifiers of one warp, from samples warped by it."""
    return [of_pixels(drawn, seed), of_network(drawn, seed)]


def check_warps(config: Mapping[str, Any]) -> None:
    """Refuse a generator that does not warp."""
    if not _built(config).warp:
        raise UsageError("This generator does not warp: leave out the warp selection.")


def warped(generator: Generator, factor: float) -> Generator:
    """The same generator with `factor` times the warp."""
    made = _built({**generator.config, "warp": factor * generator.warp})
    made.load_state_dict(generator.state_dict())
    return made.to(next(generator.parameters()).device)


def _built(config: Mapping[str, Any]) -> Generator:
    with torch.random.fork_rng(devices=[]):
        return build(config)
