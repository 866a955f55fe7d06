"""DP-SWD's adaptation as Rakotomamonjy & Ralaivola 2021 publish it: UNPROVEN."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from privot.accounting import projection
from privot.accounting.events import Frame
from privot.adaptation.adaptation_config import CHOSEN, Sizes
from privot.adaptation.adaptation_methods.adaptation_method import AdaptationMethod
from privot.adaptation.adaptation_methods.sliced_alignment import check_sample
from privot.adaptation.learner import Progress
from privot.adaptation.networks import FrozenRepresentation, weights_of
from privot.mechanisms import Facts, Mechanism
from privot.release import Release
from privot.vault.stream import Stream
from privot_lab.baselines.dp_dann import SampledConfig, SampledLearner
from privot_lab.baselines.published_alignment import AlignmentQuery, PublishedAlignment


@dataclass(frozen=True, kw_only=True)
class Published(SampledConfig):
    """The published gradient of a smoothed sliced distance, as its authors count it."""

    name: ClassVar[str] = "published"

    slices: int = CHOSEN
    frame: Frame = CHOSEN


class PublishedLearner(SampledLearner):
    """Adds λ times the released gradient of g to that of the source's own loss."""

    settings: Published
    _asked: tuple[Tensor, Tensor] | None = None

    def mechanism(self) -> Mechanism:
        """The published gradient."""
        s, g = self.settings, FrozenRepresentation(self.networks, self.device.type)
        assert self.design.sigma is not None
        return PublishedAlignment(g, s.slices, self.design.sigma, s.sample, s.releases_per_block, s.frame)

    def take(self, stream: Stream) -> Release:
        """The gradient at the present weights, between a batch of the source and one of the target."""
        self._asked = self.batch()
        return stream.answer(AlignmentQuery(weights_of(self.networks.g), self._asked[0]))

    def learn(self, release: Release, tell: Progress | None = None) -> None:
        """One step."""
        value: Any = release.value
        self.optimizer.zero_grad(set_to_none=True)
        # after a kill the source rows of the query are lost: other rows are used for the source's own loss
        rows, labels = self._asked or self.batch()
        loss = nn.functional.cross_entropy(self.networks(rows), labels)
        loss.backward()  # type: ignore[no-untyped-call]
        for name, p in self.networks.g.named_parameters():
            if p.grad is not None:
                # from a file it comes as an array that may not be written to
                found = np.array(value[name]) if isinstance(value[name], np.ndarray) else value[name]
                p.grad += self.weight() * torch.as_tensor(found).to(p)
        self.apply(loss, tell)


class PublishedMethod(AdaptationMethod):
    """One gradient before every step."""

    config = Published
    learner = PublishedLearner
    unproven = True

    def defaults(self, sizes: Sizes) -> SampledConfig:
        """Independent directions, as published."""
        return Published.usual(sizes, slices=200 if sizes.image else 100, frame="independent")

    def sigma(self, settings: Published, size: int, facts: Facts, epsilon: float, delta: float) -> float:
        """σ of every projection, as published: rows are brought to norm 1/2, so Δ = 1."""
        records = self.shown_records(facts)
        check_sample(settings.sample, records)
        return projection(
            size, settings.slices, adjacency=facts.adjacency, delta=delta, epsilon=epsilon, records=records,
            batch=settings.sample, steps=settings.releases, clip=0.5, frame=settings.frame,
        ).sigma  # fmt: skip
