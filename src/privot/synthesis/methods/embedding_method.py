"""The method `embedding`: class means of public features are released once, and a generator is trained to match them.

The noise enters at the embedding. A part of the budget may pay for two later releases
(`after_training_steps`): how far samples are warped, and the labels of samples.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import torch

from privot.accounting import calibrate, embedding
from privot.accounting.events import Composed, Event, Gaussian, leaves, of_standing
from privot.common import arguments
from privot.common.devices import usable_device
from privot.errors import DataError, UsageError
from privot.guarantee import Adjacency
from privot.jobs.run import Run
from privot.mechanisms import Facts, MeanEmbedding
from privot.mechanisms.embedding import FeatureMap
from privot.mechanisms.exact_sums import try_map
from privot.mechanisms.gradients.linear_head import MAX_SIZE
from privot.mechanisms.mechanism import refuse_unit
from privot.release import Release
from privot.synthesis.config import SynthesisConfig
from privot.synthesis.design import (
    GeneratorDesign,
    check_cost,
    check_same_facts,
    check_standing,
)
from privot.synthesis.fitted import FittedGenerator
from privot.synthesis.method_configs import Embedding, MethodConfig
from privot.synthesis.methods.after_training_steps import refine
from privot.synthesis.methods.embedding_training import Target, public_targets, started, train
from privot.synthesis.methods.leaves_target import leaves_target
from privot.synthesis.methods.method import Outcome, SynthesisRun
from privot.synthesis.neural.after_training.relabelling import MAX_RECORDS, Labelling, check_seen
from privot.synthesis.neural.after_training.warp_selection import WarpSelection, check_warps
from privot.synthesis.neural.defaults.after_training_defaults import (
    can_label_leaves,
    choose_labelling,
    choose_warp_selection,
    has_leaves,
    labelling_of,
    wants_common_mean,
)
from privot.synthesis.neural.defaults.common_mean import CommonMean
from privot.synthesis.neural.defaults.feature_defaults import beside_encoder, choose_both, choose_features
from privot.synthesis.neural.defaults.generator_defaults import choose_rules
from privot.synthesis.neural.defaults.problem_and_rules import Problem, Rules
from privot.synthesis.neural.defaults.streaming_defaults import embedding_options
from privot.synthesis.neural.encoders.public_encoder import PublicEncoder
from privot.synthesis.neural.encoders.tape import RefusedEncoderError
from privot.synthesis.neural.features.encoder_codes import EncoderCodes
from privot.synthesis.neural.features.encoder_features import code_width, codes_among
from privot.synthesis.neural.features.fourier import feature_map, public_range
from privot.synthesis.neural.generator_training import checkpoint
from privot.synthesis.neural.generator_training.training_dry_run import rehearse
from privot.transport.slice_directions import check_seed, fresh_seed


@dataclass(frozen=True)
class EmbeddingDesign(GeneratorDesign):
    """One release of a `MeanEmbedding`, and the later parts."""

    method: str = "embedding"

    def to_dict(self) -> dict[str, Any]:
        """As plain JSON types."""
        held = {"sigma": self.mechanism.sigma, "labels": self.mechanism.labels}
        return {**self.common_dict(), **held, "features": self.mechanism.features.to_dict()}

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any], device: str) -> EmbeddingDesign:
        """Read what `to_dict` wrote, for another device if need be."""
        try:
            features = feature_map(fields["features"])
            held = cls.common_fields(fields)
            return cls(mechanism_of(features, fields["sigma"], bool(fields["labels"]), held["rules"], device), **held)
        except (KeyError, TypeError) as error:
            raise DataError(f"This does not describe a synthesis ({type(error).__name__}).") from None

    def _first(self, facts: Facts) -> Event:
        """The first release, as the vault charges it: for one record, or for the unit of the facts."""
        return of_standing(facts.cost(self.mechanism.event(facts)), self.mechanism.standing)

    def event(self, facts: Facts) -> Event:
        """All that will be charged: the first release and the later parts."""
        first = self._first(facts)
        later = [self.part_cost(part, facts) for part in self.parts.values()]
        return Composed((first, *later)) if later else first

    def due(self, run: Run) -> Event:
        """The part of `event` still to be charged for `run`: releases without a file, and those made from them."""
        first = [] if run.has() else [self._first(self.facts)]
        events = (*first, *self.due_parts(run, bool(first)))
        # called only when something is about to be paid
        assert events
        return Composed(events)

    def check(self, facts: Facts, epsilon: float, delta: float, device: str) -> None:
        """Refuse, before anything is paid, a job that would fail or cost too much afterwards."""
        check_same_facts(self.facts, facts)
        classes = (facts.classes or 1) if self.mechanism.labels else 1
        for features in self.mechanism.maps:
            rehearse(features, self.rules, classes, device=device, seed=self.seed)
        self._try_label_encoder(device)
        check_cost(self.event(facts), self.delta, epsilon, delta)

    def _try_label_encoder(self, device: str) -> None:
        """Refuse, before anything is paid, an encoder for labels that fails on this device, on records or on samples.

        The one whose features are released is tried with them.
        """
        known, encoder = codes_among(self.mechanism.maps), self.label_encoder
        if self.labelling is None or self.labelling.encoder is None:
            return
        assert known is not None
        assert encoder is not None
        codes = EncoderCodes(encoder, known.shape, low=known.low, high=known.high)
        try_map(codes, device)
        # samples are encoded in float32, more of them at a time
        with torch.no_grad():
            for _ in codes.blocks(torch.zeros(codes.most_samples(device), codes.dim, device=device)):
                pass

    def check_standing(self, allow_unproven: bool) -> None:
        """Refuse a calibration that no theorem covers, unless it is allowed."""
        check_standing(self.event(self.facts), self.delta, allow_unproven)

    def check_release(self, release: Release) -> None:
        """Refuse a release whose σ, feature map, weights, events or assumptions are not those of this design."""
        event = self._first(self.facts)
        wanted = {
            "sigma": self.mechanism.sigma,
            "features": json.loads(json.dumps(self.mechanism.features.to_dict())),
            "count_weight": self.mechanism.count_weight,
            "classes": self.facts.classes if self.mechanism.labels else None,
            "records": self.facts.records,
        }
        if self.mechanism.common is not None:
            wanted["common"] = json.loads(json.dumps(self.mechanism.common.to_dict()))
        wanted["common_share"] = self.mechanism.common_share
        found = {"common_share": 0.0, **{name: v for name, v in release.public.items() if name in wanted}}
        if self.mechanism.common is None and "common" in release.public:
            found["common"] = release.public["common"]
        events = [dict(e) for e in release.guarantee.events]
        assumed = set(self.mechanism.assumptions) <= set(release.guarantee.assumptions)
        same = found == wanted and assumed and _same_noise(release.public, self.mechanism, self.facts)
        if not same or events != [event.to_dict()] or release.guarantee.at_delta != self.delta:
            raise DataError("The release in this folder is not the one its job paid for: restore it from a backup.")


class EmbeddingMethod:
    """`embedding`: noise at the mean embedding, released once."""

    config: ClassVar[type[MethodConfig]] = Embedding
    watched: ClassVar[str] = "squared MMD to the noisy means"

    def plan(self, config: SynthesisConfig, facts: Facts) -> EmbeddingDesign:
        """σ from (ε, δ) and the later parts; features, generator and training from public facts.

        With a unit of k rows every part is charged for k times its sensitivity (`Facts.cost`), so σ is k times as
        large; how the budget is divided between the parts is the same, because k divides out (`beside`).
        """
        device = usable_device(config.device, auto=True)
        public_range(config.low, config.high, facts.dim)
        shape = config.image_shape(facts)
        records = facts.records
        if config.records is not None:
            records = arguments.whole("The stated number of records", config.records, 1)
        labels, classes, delta = facts.classes is not None, facts.classes or 1, float(config.delta)
        seed = fresh_seed() if config.seed is None else check_seed(config.seed)
        options = embedding_options(config.options or {})
        if options and config.rules is not None:
            raise UsageError("The rules already say what is released and labelled: leave out the options.")
        sigma = self._whole(config, facts)
        codes = None if config.encoder is None or shape is None else code_width(config.encoder, shape)
        named = None if config.label_encoder is None or shape is None else _label_codes(config.label_encoder, shape)
        if config.public is not None:
            # the planner has refused public images of records without a shape
            assert shape is not None
            config.public.check(shape, config.low, config.high)
            if options.get("common") or (config.rules is not None and config.rules.options.get("common")):
                raise UsageError("Public images are not mixed into a mean of all records: leave one of the two out.")
        problem = Problem(facts.dim, classes, sigma, records, shape, device, codes=codes, label_codes=named)
        problem = replace(problem, common=self._has_common_mean(config, problem, facts, options))
        if problem.common and config.features is not None:
            raise UsageError("A mean of all records has a map of its own: leave it out, or the features.")
        problem = replace(problem, leaves=self._labels_leaves(config, problem, facts, options))
        labelling, selection = self._parts(config, problem, facts, options)
        if labelling is not None:
            if shape is None or not labels:
                raise UsageError("Only images of several classes can be labelled: leave out the labelling.")
            labelling.check(shape, classes, records, facts.records)
            sigma = beside(sigma, facts.adjacency, labelling.event(facts.adjacency))
        if selection is not None:
            if shape is None or not labels:
                raise UsageError("A warp is selected only for images of several classes: leave out the selection.")
            check_seen(shape)
            sigma = beside(sigma, facts.adjacency, selection.event(facts.adjacency))
        problem = replace(problem, sigma=sigma)
        rules = config.rules or choose_rules(problem)
        features, common = self._maps(config, problem, seed)
        if selection is not None:
            check_warps(rules.generator)
        parts: dict[str, Any] = {"labelling": labelling, "choosing": selection, "common": common}
        parts["public"] = config.public
        added = {name: part.to_dict() for name, part in parts.items() if part is not None}
        rules = replace(rules, options={**rules.options, **added})
        mechanism = mechanism_of(features, sigma, labels, rules, device)
        return EmbeddingDesign(mechanism, rules, seed, delta, facts)

    def _maps(self, config: SynthesisConfig, problem: Problem, seed: int) -> tuple[FeatureMap, CommonMean | None]:
        """The map by class and that of all records; where the rules are given, they say whether there is one."""
        span = (config.low, config.high)
        if config.features is None and config.rules is None:
            return choose_both(problem, config.encoder, seed, *span)
        features = config.features or choose_features(problem, seed, *span)
        if config.encoder is not None:
            features = beside_encoder(features, config.encoder, problem, seed, *span)
        return features, CommonMean.from_dict(None if config.rules is None else config.rules.options.get("common"))

    def _has_common_mean(
        self, config: SynthesisConfig, problem: Problem, facts: Facts, options: Mapping[str, Any]
    ) -> bool:
        """Whether the mean of all records is released too: by the rules or as the options say.

        By the rules it is only where labels are tuned: they tell classes apart, of which the release then says less.
        """
        if "common" in options:
            return bool(options["common"])
        if options.get("leaves") or not _is_free(config, facts, options):
            return False
        return wants_common_mean(problem, options.get("labelled"))

    def _labels_leaves(
        self, config: SynthesisConfig, problem: Problem, facts: Facts, options: Mapping[str, Any]
    ) -> bool:
        """Whether pictures of leaves are labelled: by the rules or as the options say."""
        possible = _is_free(config, facts, options) and can_label_leaves(problem)
        if options.get("leaves") and not possible:
            raise UsageError(
                "Pictures of leaves need colour images of at least 16 × 16 in several classes, a share for labels and "
                "no unit, encoder, public images, features or mean of all records; on a GPU also noise: leave them out."
            )
        return possible and (has_leaves(problem) if "leaves" not in options else bool(options["leaves"]))

    def _whole(self, config: SynthesisConfig, facts: Facts) -> float:
        """σ of a release that spends all of (ε, δ): in closed form for one record, by search for a unit."""
        if facts.unit is None:
            return embedding(adjacency=facts.adjacency, delta=config.delta, epsilon=config.epsilon).sigma
        reach = facts.adjacency.sensitivity(1.0)
        return calibrate(
            lambda sigma: facts.cost(Gaussian(sigma, reach, facts.adjacency)),
            epsilon=config.epsilon,
            delta=config.delta,
        )

    def _parts(
        self, config: SynthesisConfig, problem: Problem, facts: Facts, options: Mapping[str, Any]
    ) -> tuple[Labelling | None, WarpSelection | None]:
        """The later parts: those that the rules name, or by default; none where records have no labels.

        A labeller is tuned on single records that are kept between its steps, which no unit is protected for: with a
        unit there is none, and one that is asked for is refused.
        """
        if config.rules is not None:
            given = config.rules.options
            labelling = Labelling.from_dict(given.get("labelling"))
            selection = WarpSelection.from_dict(given.get("choosing"))
        else:
            labelled, tunable = facts.classes is not None, facts.classes is not None and facts.unit is None
            labelling = choose_labelling(problem) if tunable else None
            if "labelled" in options:
                labelling = labelling_of(problem, options["labelled"]) if options["labelled"] else None
            selection = choose_warp_selection(problem, facts.adjacency) if labelled else None
        if config.label_encoder is not None or (labelling is not None and labelling.encoder is not None):
            labelling = _labelled_by(config, labelling)
        if labelling is not None:
            refuse_unit(facts, "The tuning of labels")
        return labelling, selection

    def read_design(self, fields: Mapping[str, Any], config: SynthesisConfig, device: str) -> EmbeddingDesign:
        """The design that a job wrote down."""
        design = EmbeddingDesign.from_dict(fields, device)
        known = codes_among(design.mechanism.maps)
        if config.encoder is not None and (known is None or known.encoder.to_dict() != config.encoder.to_dict()):
            raise DataError("This synthesis was designed with another encoder, or with none: give the same.")
        given = None if config.public is None else config.public.to_dict()
        if design.public != given:
            raise DataError("This synthesis was designed with other public images, or with none: give the same.")
        labels = None if config.label_encoder is None else config.label_encoder.to_dict()
        if labels != (None if design.labelling is None else design.labelling.encoder):
            raise DataError("This synthesis was designed with another encoder for labels, or with none: give the same.")
        return design

    def run(self, run: SynthesisRun) -> Outcome:
        """Pay for the means, train the generator, then pay for the later parts."""
        design: EmbeddingDesign = run.design
        release, _ = run.payments.release(lambda: design.mechanism, design.check_release)
        outcome = Outcome(design, release.guarantee, release)
        run.paid(outcome)
        folder, digest = run.payments.folder, release.digest()
        keep = training = None
        if folder is not None:
            path = folder / checkpoint.NAME
            keep = checkpoint.Keeper(path, digest, run.checkpoint_interval)
            training = checkpoint.load(path, design.rules, run.device, release=digest) if path.exists() else None
        targets, used = [Target.of(release)], None
        if run.config.public is not None:
            targets, used = public_targets(release, run.config.public, run.device)
        if design.labels_leaves:
            targets = [leaves_target(targets[0], design.rules, design.seed, run.device)]
        if training is None:
            training = started(targets, release, design.rules, design.seed, run.device, run.team)
        training = train(
            release,
            design.rules,
            device=run.device,
            seed=design.seed,
            training=training,
            progress=run.progress,
            keep=keep,
            team=run.team,
            target=targets[-1],
        )
        mechanism, counts = design.mechanism, targets[-1].counts
        outcome.fitted = FittedGenerator(
            training.generator,
            mechanism.features,
            counts,
            mechanism.labels,
            (run.config.low, run.config.high),
            losses=training.losses,
            public=used,
        )
        return refine(run, outcome, digest)


def _label_codes(encoder: PublicEncoder, shape: tuple[int, ...]) -> int:
    """The numbers that an encoder for labels makes of an image; what stands in the way says which encoder it is."""
    try:
        return code_width(encoder, shape)
    except RefusedEncoderError as error:
        raise RefusedEncoderError(f"As an encoder for labels: {error}") from None


def _labelled_by(config: SynthesisConfig, labelling: Labelling | None) -> Labelling:
    """The same labelling, by the encoder for labels."""
    if labelling is None or labelling.kind != "encoder":
        raise UsageError(
            "Nothing is labelled by the codes of an encoder here: that is for colour images of at least 16 × 16 pixels "
            f"in several classes, in one place, at most {MAX_RECORDS} of them and without a unit, for some of the "
            f"budget (labelled), and for fewer than {MAX_SIZE} codes. Leave out the encoder for labels."
        )
    given = None if config.label_encoder is None else config.label_encoder.to_dict()
    if given is None or labelling.encoder not in (None, given):
        raise UsageError("These rules label samples by an encoder of their own: give that one for labels.")
    return replace(labelling, encoder=given)


def _same_noise(public: Mapping[str, Any], mechanism: MeanEmbedding, facts: Facts) -> bool:
    """Whether a release states the noise of each of its parts as the mechanism makes it."""
    made = mechanism.public(facts, mechanism.sigma)
    return all(
        isinstance(public.get(name), float) and math.isclose(public[name], value, rel_tol=1e-9)
        for name, value in made.items()
        if name.endswith("_sigma")
    )


def _is_free(config: SynthesisConfig, facts: Facts, options: Mapping[str, Any]) -> bool:
    """Whether the rules say what samples are made from, and labels are tuned: no features, rules, public images or unit
    are given, and something is to be spent on labels."""
    given = (config.rules, config.features, config.public, facts.unit)
    return facts.classes is not None and options.get("labelled", 1.0) > 0.0 and all(part is None for part in given)


def mechanism_of(features: FeatureMap, sigma: float, labels: bool, rules: Rules, device: str) -> MeanEmbedding:
    """The first release that these rules ask for."""
    common = CommonMean.from_dict(rules.options.get("common"))
    if common is None:
        return MeanEmbedding(features, sigma, labels, device=device)
    return MeanEmbedding(features, sigma, labels, device=device, common=common.features, common_share=common.share)


def beside(sigma: float, adjacency: Adjacency, event: Event) -> float:
    """The noise σ₁ of a Gaussian release that together with `event`, made of Gaussian ones, costs what `sigma` costs.

    Δ²/σ₁² = Δ²/σ² − Σ (Δᵢ/σᵢ)², plus a little more noise, so that rounding cannot raise the cost of both. All Δ are of
    one record: for a unit of k rows each is k times as large, and k² divides out.
    """
    reach, taken = adjacency.sensitivity(1.0), 0.0
    for leaf, times in leaves(event):
        assert isinstance(leaf, Gaussian)
        taken += times * (leaf.sensitivity / leaf.sigma) ** 2
    whole = (reach / sigma) ** 2
    if not taken < whole * (1.0 - 2e-6):
        raise UsageError("The later releases would cost the whole budget: raise their noise.")
    return (1.0 + 1e-9) * reach / math.sqrt(whole - taken)
