"""Chooses how far samples are warped by what the records say of it, for a small part of the budget.

How much of a picture's variety may be taken for granted (`PictureGenerator`) depends on what pictures are of: digits
are written at any slant, clothes are laid out straight. So classifiers are trained on samples warped less, and on
samples warped more, and a count is paid for of how many records each gets right (`Hits`). For every warp there are two
of them, one that sees pixels and one that sees what a network does: what suits the one need not suit the other. The
warp with the most right in all is taken.
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
from privot.synthesis.features.network_features import NetworkFeatures
from privot.synthesis.generators.generator import Generator, build
from privot.synthesis.refinement.relabelling import Drawn, of_network, of_pixels

EACH = 2
"""Classifiers for every warp; their counts stand side by side."""


@dataclass(frozen=True)
class WarpSelection:
    """Among which warps is chosen and how, from public facts alone (`rules.choose_choosing`)."""

    sigma: float
    """The noise on each count."""
    factors: tuple[float, ...]
    """Of the warp that was trained with."""
    samples: int
    """That each classifier is trained on."""

    def __post_init__(self) -> None:
        arguments.sigma(self.sigma)
        check_counting_sigma(self.sigma)
        object.__setattr__(self, "factors", tuple(float(f) for f in self.factors))
        if len(self.factors) < 2 or not all(0.0 < f < math.inf for f in self.factors):
            raise UsageError("A choice is between at least two warps, each a finite multiple above 0.")
        arguments.whole("The samples of a choice", self.samples, 20)

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
            raise DataError("This does not describe a choice of warps.") from None

    def event(self, adjacency: Adjacency) -> Event:
        """What the counts cost."""
        return correct_counts_event(self.sigma, EACH * len(self.factors), adjacency)

    def check(self, release: Release, facts: Facts, delta: float, made_from: str) -> None:
        """Refuse a release that is not what this was paid for, of samples `made_from` what they are made from now."""
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
        if not right or events != [self.event(facts.adjacency).to_dict()] or release.guarantee.at_delta != delta:
            raise DataError("The choice in this folder is not the one its job paid for: restore it from a backup.")

    def chosen(self, release: Release) -> float:
        """The factor whose samples taught most."""
        hits = np.asarray(release.value).reshape(len(self.factors), EACH).sum(axis=1)
        return self.factors[int(np.argmax(hits))]


def classifiers(drawn: Drawn, seed: int) -> list[NetworkFeatures]:
    """Both classifiers of one warp, from samples warped by it."""
    return [of_pixels(drawn, seed), of_network(drawn, seed)]


def check_warps(config: Mapping[str, Any]) -> None:
    """Refuse generators with nothing to choose."""
    if not _built(config).warp:
        raise UsageError("This generator warps nothing: leave out the choosing.")


def warped(generator: Generator, factor: float) -> Generator:
    """The same generator with `factor` times the warp."""
    made = _built({**generator.config, "warp": factor * generator.warp})
    made.load_state_dict(generator.state_dict())
    return made.to(next(generator.parameters()).device)


def _built(config: Mapping[str, Any]) -> Generator:
    with torch.random.fork_rng(devices=[]):
        return build(config)
