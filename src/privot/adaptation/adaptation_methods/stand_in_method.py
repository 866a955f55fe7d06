"""Noise at a mean embedding of the target: a generator of stand-in records is trained on it, then a classifier."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from numpy.typing import NDArray

from privot.adaptation.adaptation_config import CHOSEN, FittingConfig, Sizes
from privot.adaptation.adaptation_design import MAX_ASKED, MAX_ASKED_NUMBERS, AdaptationDesign
from privot.adaptation.adaptation_methods.adaptation_method import SumsMethod
from privot.adaptation.networks import Committee, build_committee
from privot.adaptation.stand_in.stand_in_learner import Checks, StandInLearner
from privot.synthesis.config import SynthesisConfig
from privot.synthesis.method_configs import Embedding as SynthesisEmbedding
from privot.synthesis.neural.defaults.feature_defaults import BANDWIDTHS, frequencies
from privot.synthesis.neural.defaults.problem_and_rules import Problem
from privot.synthesis.neural.features.fourier import Fourier
from privot.synthesis.planner import plan as plan_synthesis


@dataclass(frozen=True, kw_only=True)
class StandIn(FittingConfig):
    """A private stand-in: synthetic target records from one release, then adaptation as if they were real.

    After the one release each of `members` networks takes `warmup` steps on the source and `finish` on source and
    stand-in. Of a table only `samples` is chosen.

    Parameters
    ----------
    learning_rate, batch, warmup, finish, augment
        As for every method.
    weight
        λ, what the stand-in weighs at the end of its rise.
    members
        How many networks vote.
    threshold
        The least probability of a label of the stand-in that they learn from.
    check
        Steps of the network that learns from the stand-in alone, to check it.
    samples
        How many records are drawn as the stand-in.
    generator
        Steps of their generator; as many as a synthesis would take unless given.
    fit, fit_batch, tries, wide
        Of the transformation that is fitted to the release: steps, source records per step, how often it is started,
        and the factor on fitted spreads.

    Examples
    --------
    >>> StandIn(members=3).releases
    1
    """

    name: ClassVar[str] = "stand-in"
    blocks: ClassVar[int] = 1
    optional: ClassVar[tuple[str, ...]] = ("generator",)

    weight: float = CHOSEN
    members: int = CHOSEN
    threshold: float = CHOSEN
    check: int = CHOSEN
    samples: int = CHOSEN
    generator: int | None = None


class StandInMethod(SumsMethod):
    """One mean embedding, of the features that a synthesis would release."""

    config = StandIn
    learner = StandInLearner
    follows = "generator, stand-in, checks and classifier"
    checks = Checks

    def network(self, image: bool) -> str:
        """One of its own for images."""
        return "images" if image else "features"

    def defaults(self, sizes: Sizes) -> StandIn:
        """A committee on a GPU; on a CPU a step of the network for images takes a tenth of a second."""
        trained = {**sizes.trained(), "learning_rate": 2e-3}
        size: dict[str, Any]
        if sizes.cuda:
            size = {"warmup": 2000, "finish": 2000, "members": 3, "check": 500, "samples": 30_000}
        else:
            short = 400 if sizes.image else 300
            size = {"warmup": short, "finish": short, "members": 1, "check": short // 4, "samples": 10_000}
            trained["batch"] = 64
        return StandIn(**trained, **sizes.fitted(), **size, weight=0.3, threshold=0.9)

    def completed(self, design: AdaptationDesign, x: NDArray[Any], device: str, by_request: bool) -> AdaptationDesign:
        """With the feature map and the rules of a generator that a synthesis without labels would choose.

        `by_request` the map is one of dense Fourier features, which is all that a request may ask for.
        """
        facts, settings = design.facts, design.settings
        config = SynthesisConfig(design.epsilon, design.delta, kind=design.kind, device=device, seed=design.seed)
        chosen: Any = plan_synthesis(config, facts)
        features = chosen.mechanism.features
        if by_request and (features.to_dict()["kind"] != Fourier.kind or features.frequencies > MAX_ASKED):
            problem = Problem(facts.dim, 1, chosen.mechanism.sigma, facts.records, None, device)
            most = min(frequencies(problem), MAX_ASKED, max(1, MAX_ASKED_NUMBERS // facts.dim))
            widths = [share * math.sqrt(facts.dim) for share in BANDWIDTHS]
            low, high = design.networks["low"], design.networks["high"]
            features = Fourier(facts.dim, most, widths, design.seed, low, high)
            chosen = plan_synthesis(replace(config, asked=SynthesisEmbedding(features=features)), facts)
        rules = chosen.rules.to_dict()
        assert isinstance(settings, StandIn)
        if settings.generator is not None:
            rules["steps"] = settings.generator
        return replace(design, features=chosen.mechanism.features.to_dict(), rules=rules)

    def networks(self, design: AdaptationDesign) -> Committee:
        """A committee."""
        assert isinstance(design.settings, StandIn)
        return build_committee(design.networks, design.seed, design.settings.members)
