"""Noise at a mean embedding of the target: a transformation of the source is fitted to it, and a classifier to that."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from privot.adaptation.adaptation_config import CHOSEN, FittingConfig, Sizes
from privot.adaptation.adaptation_design import AdaptationDesign
from privot.adaptation.adaptation_methods.adaptation_method import SumsMethod
from privot.adaptation.alignment.transformation_fit import fit
from privot.adaptation.learner import Learner, Progress
from privot.mechanisms import Mechanism
from privot.release import Release
from privot.synthesis.neural.defaults.feature_defaults import frequencies
from privot.synthesis.neural.defaults.problem_and_rules import Problem

BANDWIDTHS = {True: (0.3, 0.5), False: (1.0, 2.0)}
"""In units of the source's median distance, for images and for vectors: fine bandwidths distinguish styles, as in
synthesis; wide ones give a gradient over long distances, for columns that moved."""


@dataclass(frozen=True, kw_only=True)
class Embedding(FittingConfig):
    """A noisy mean embedding of the target, to which a transformation of the source is fitted.

    All of the classifier's training, `finish` steps, is on transformed records.

    Parameters
    ----------
    learning_rate, batch, warmup, finish, augment
        As for every method.
    blocks
        How many charges are made, each of one release.
    frequencies
        Most frequencies: a transformation has few parameters, and more would cost time and add noise.
    fit, fit_batch, tries, wide
        Steps of the fit, source records per step, how often it is started, and the factor on fitted spreads.

    Examples
    --------
    >>> Embedding(finish=2000).to_dict()["method"]
    'embedding'
    """

    name: ClassVar[str] = "embedding"

    blocks: int = CHOSEN  # type: ignore[misc]
    frequencies: int = CHOSEN


class EmbeddingLearner(Learner):
    """Fits the transformation to each release; all other steps are on the source, transformed."""

    settings: Embedding
    keeps_release = True

    @property
    def wide(self) -> float:
        """The factor on fitted spreads."""
        return self.settings.wide

    @property
    def bend(self) -> bool:
        """Vectors too are distorted, by a little."""
        return self.settings.augment

    def mechanism(self) -> Mechanism:
        """One mean embedding of the target."""
        return self.design.mean_embedding(self.device.type)

    def learn(self, release: Release, tell: Progress | None = None) -> None:
        """Fit the transformation."""
        fit(self.change, self.source, release, self.settings, self.random)
        self.fitted, self._shares = True, None


class EmbeddingMethod(SumsMethod):
    """Mean embeddings along the source's own bandwidths."""

    config = Embedding
    learner = EmbeddingLearner

    def defaults(self, sizes: Sizes) -> Embedding:
        """One release."""
        most = 1000 if sizes.image else 300
        return Embedding(**sizes.trained(), **sizes.fitted(), warmup=0, finish=sizes.steps, blocks=1, frequencies=most)

    def completed(self, design: AdaptationDesign, x: NDArray[Any], device: str, by_request: bool) -> AdaptationDesign:
        """With Fourier features, whose bandwidths follow from the median distance of *source* records in [0, 1]."""
        n, settings, facts = design.networks, design.settings, design.facts
        assert isinstance(settings, Embedding)
        assert design.sigma is not None
        spread = _spread(x, n["low"], n["high"], design.seed)
        problem = Problem(facts.dim, 1, design.sigma, facts.records, None, "cpu")
        features = {
            "kind": "fourier",
            "dim": facts.dim,
            "frequencies": min(frequencies(problem), settings.frequencies),
            "bandwidths": [share * spread for share in BANDWIDTHS[n["shape"] is not None]],
            "seed": design.seed,
            "low": n["low"],
            "high": n["high"],
            "frame": "orthogonal",
        }
        return replace(design, features=features)


def _spread(x: NDArray[Any], low: float, high: float, seed: int) -> float:
    """The median distance of pairs of *source* records, which are public, in [0, 1]."""
    dice = np.random.default_rng(seed)
    a, b = (np.clip((x[dice.integers(len(x), size=1000)] - low) / (high - low), 0.0, 1.0) for _ in range(2))
    return float(max(np.median(np.linalg.norm(a - b, axis=1)), 1e-3))
