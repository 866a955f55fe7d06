"""Noise at random projections of the representation (DP-SWD): the source is aligned with projections of the target."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

from privot.accounting import projection
from privot.accounting.events import Composed, Frame, Projection, Sampled, event_from_dict, leaves
from privot.accounting.sampling import FixedSize
from privot.adaptation.adaptation_config import CHOSEN, Sizes, TrainedConfig
from privot.adaptation.adaptation_design import AdaptationDesign
from privot.adaptation.adaptation_methods.adaptation_method import AdaptationMethod
from privot.adaptation.alignment.smoothed_sliced import smoothed
from privot.adaptation.learner import Learner, Progress
from privot.adaptation.networks import FrozenRepresentation, build, weights_of
from privot.errors import UsageError
from privot.guarantee import Guarantee
from privot.mechanisms import Mechanism
from privot.mechanisms.mechanism import Facts
from privot.mechanisms.representation import ProjectedRepresentation, RepresentationQuery
from privot.release import Release
from privot.vault.stream import Stream


@dataclass(frozen=True, kw_only=True)
class Sliced(TrainedConfig):
    """Noisy projections of the target's representation, a row per record, with which the source is aligned (DP-SWD).

    After every release `steps` gradient steps follow. λ rises as in DANN, λ·(2/(1 + e^(−10p)) − 1) with p the share of
    alignment that is done.

    Parameters
    ----------
    learning_rate, batch, warmup, finish, augment
        As for every method.
    weight
        λ, the weight of alignment at the end of its rise.
    blocks, releases_per_block
        How many charges are made, and how many releases each is for.
    steps
        Gradient steps after each release.
    slices, frame
        How many directions a release projects on, and whether they are orthogonal.
    clip
        The largest norm of a representation that is projected.
    sample
        Records per release; None for all.
    power
        q ≥ 1 of the aligned distance, W_q^q along every direction.

    Examples
    --------
    >>> Sliced(blocks=4).given()
    {'blocks': 4}
    """

    name: ClassVar[str] = "sliced"
    optional: ClassVar[tuple[str, ...]] = ("sample",)

    weight: float = CHOSEN
    blocks: int = CHOSEN  # type: ignore[misc]
    releases_per_block: int = CHOSEN  # type: ignore[misc]
    steps: int = CHOSEN
    slices: int = CHOSEN
    frame: Frame = CHOSEN
    clip: float = CHOSEN
    sample: int | None = None
    power: float = CHOSEN


class SlicedLearner(Learner):
    """Asks for projections at its present weights, and descends on the distance to them."""

    settings: Sliced

    @property
    def strength(self) -> float:
        """λ at the end of its rise."""
        return self.settings.weight

    @property
    def aligned(self) -> int:
        """Steps that use a release."""
        return self.settings.releases * self.settings.steps

    def mechanism(self) -> Mechanism:
        """Projections of g, at the weights of a query."""
        s, g = self.settings, FrozenRepresentation(self.networks, self.device.type)
        assert self.design.sigma is not None
        return ProjectedRepresentation(g, s.slices, self.design.sigma, s.clip, s.frame, s.sample, s.releases_per_block)

    def rehearse(self, mechanism: Mechanism) -> None:
        """Refuse a g that does not treat records one by one."""
        assert isinstance(mechanism, ProjectedRepresentation)
        mechanism.check(RepresentationQuery(weights_of(self.networks.g)))

    def take(self, stream: Stream) -> Release:
        """The projections at the present weights."""
        return stream.answer(RepresentationQuery(weights_of(self.networks.g)))

    def learn(self, release: Release, tell: Progress | None = None) -> None:
        """Steps down L_c + λ·distance."""
        s = self.settings
        loss, before = smoothed(self.networks, release, s.batch, self.aligning, self.random, s.power)
        self.steps(self.step + s.steps, loss, tell, before=before)


class SlicedMethod(AdaptationMethod):
    """Projections of the representation, block by block."""

    config = Sliced
    learner = SlicedLearner

    def defaults(self, sizes: Sizes) -> Sliced:
        """Few releases of all records: their cost does not depend on how long the training on each is."""
        return Sliced(
            **sizes.trained(), warmup=sizes.steps // 2, finish=0, weight=1.0, blocks=10, releases_per_block=1,
            steps=sizes.steps // 20, slices=50, frame="orthogonal", clip=0.5, power=2.0,
        )  # fmt: skip

    def sigma(self, settings: Sliced, size: int, facts: Facts, epsilon: float, delta: float) -> float:
        """σ of every projection."""
        records = self.shown_records(facts)
        check_sample(settings.sample, records)
        return projection(
            size, settings.slices, adjacency=facts.adjacency, delta=delta, epsilon=epsilon, records=records,
            batch=settings.sample, steps=settings.releases, clip=settings.clip, frame=settings.frame,
        ).sigma  # fmt: skip

    def paid_elsewhere(self, design: AdaptationDesign, paid: Guarantee, releases: int) -> AdaptationDesign:
        """`design` with the noise, number and cost of the `releases` of a stream in place of its own."""
        steps = [event for event, _ in leaves(Composed(tuple(event_from_dict(e) for e in paid.events)))]
        one = steps[0].event if isinstance(steps[0], Sampled) else steps[0]
        size = build(design.networks, design.seed).size
        if len(steps) != 1 or not isinstance(one, Projection) or one.dim != size:
            raise UsageError("The stream must answer with projections of a representation of this network's size.")
        sampling = steps[0].sampling if isinstance(steps[0], Sampled) else None
        changes: dict[str, Any] = {
            "blocks": 1,
            "releases_per_block": releases,
            "slices": one.slices,
            "frame": one.frame,
            "clip": one.sensitivity / one.adjacency.sensitivity(1.0),
            "sample": sampling.batch if isinstance(sampling, FixedSize) else None,
        }
        settings = replace(design.settings, **changes)
        return replace(design, settings=settings, sigma=one.sigma, epsilon=paid.epsilon(), delta=paid.at_delta)


def check_sample(sample: int | None, records: int) -> None:
    """Refuse a sample that is larger than the target."""
    if sample is not None and sample > records:
        raise UsageError(f"A sample of {sample} cannot be drawn from {records} target records.")
