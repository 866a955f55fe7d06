"""Trains a generator to match released mean embeddings: post-processing, so its length costs no budget.

The loss is Σ_c w_c·‖μ̃_c − mean φ(G(z, c))‖², a squared MMD to the noisy class means μ̃_c = sums_c/counts_c. Where the
release has a mean of all records ν̃, it is that with the maps weighted by their noise (`column_scales`), plus
‖ν̃ − Σ_c p_c·mean χ(G(z, c))‖², weighted alike, p_c the released share of class c. It sees a release, never a record.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray

from privot.common.cuda_graphs import called, lay_out, recorded
from privot.common.declared import declared
from privot.common.interruption import Stop, finishing
from privot.errors import ConvergenceError, DataError
from privot.mechanisms.embedding import FeatureMap
from privot.release import Release
from privot.synthesis.neural.defaults.common_mean import column_scales
from privot.synthesis.neural.defaults.problem_and_rules import Rules
from privot.synthesis.neural.features.class_means import class_means
from privot.synthesis.neural.features.fourier import feature_map, ready_to_train
from privot.synthesis.neural.generator_training.distributed import ALONE, Team
from privot.synthesis.neural.generator_training.training_state import Progress, TrainingState, generated
from privot.synthesis.neural.generators.record_scale import RecordScale
from privot.synthesis.neural.public.public_images import PublicImages
from privot.synthesis.neural.public.public_means import PublicUse, mix


@dataclass(frozen=True, eq=False)
class CommonTarget:
    """The noisy mean of all records, of shape (size,), its map, the factors of its columns, and the share of each
    class."""

    features: FeatureMap
    mean: NDArray[np.float64]
    scales: NDArray[np.float64]
    shares: NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Target:
    """The contents of a release: noisy means of shape (classes, size), the weight of each, and noisy counts."""

    features: FeatureMap
    means: NDArray[np.float64]
    weights: NDArray[np.float64]
    counts: NDArray[np.float64]
    scales: NDArray[np.float64] | None = None
    """Factors of the columns in the loss; None: 1."""
    common: CommonTarget | None = None

    @classmethod
    def of(cls, release: Release) -> Target:
        """Divide sums by counts; a class whose noise is as large as its signal weighs little.

        The noise on μ̃_c has norm ν = σ√size/n_c, against ‖μ_c‖ ≤ 1, so w_c = 1/(1 + ν²).
        """
        try:
            public, value = release.public, release.value
            assert isinstance(value, Mapping)
            sums, counts = np.asarray(value["sums"]), np.asarray(value["counts"])
            sums_sigma, counts_sigma = float(public["sums_sigma"]), float(public["counts_sigma"])
            features = feature_map(public["features"])
        except (KeyError, TypeError, AssertionError):
            raise DataError("This release is not a mean embedding.") from None
        if sums.shape != (len(counts), features.size):
            raise DataError("This release is not a mean embedding: its arrays do not fit its feature map.")
        held = divided_by(counts, counts_sigma)
        noise = sums_sigma * math.sqrt(features.size) / held
        found = cls(features, sums / held[:, None], 1.0 / (1.0 + noise**2), present(counts, counts_sigma))
        if "common" not in public:
            return found
        return found._with_common(public, value, sums_sigma, max(1.0, float(counts.sum()), counts_sigma))

    def to_share(self) -> dict[str, Any]:
        """For other processes: maps by their dictionaries, which are drawn again."""
        common = None if self.common is None else {**vars(self.common), "features": self.common.features.to_dict()}
        return {**vars(self), "features": self.features.to_dict(), "common": common}

    @classmethod
    def from_share(cls, fields: Mapping[str, Any]) -> Target:
        """What `to_share` made."""
        common = fields["common"]
        if common is not None:
            common = CommonTarget(**{**common, "features": feature_map(common["features"])})
        return cls(**{**fields, "features": feature_map(fields["features"]), "common": common})

    def _with_common(
        self, public: Mapping[str, Any], value: Mapping[str, Any], sums_sigma: float, records: float
    ) -> Target:
        """The same with the mean of all records, of which there are `records` by the release."""
        try:
            features, sigma = feature_map(public["common"]), float(public["common_sigma"])
            total = np.asarray(value["common"], dtype=np.float64)
        except DataError:
            # which says what is missing: the file of an encoder
            raise
        except (KeyError, TypeError, ValueError):
            raise DataError("This release is not a mean embedding.") from None
        if total.shape != (features.size,):
            raise DataError("This release is not a mean embedding: its arrays do not fit its feature map.")
        shares = self.counts / self.counts.sum()
        by_class = np.array(column_scales(self.features, sums_sigma * len(shares) / records))
        scales = np.array(column_scales(features, sigma / records))
        return replace(self, scales=by_class, common=CommonTarget(features, total / records, scales, shares))


def divided_by(counts: NDArray[np.float64], sigma: float) -> NDArray[np.float64]:
    """Noisy counts that sums are divided by: a class has at least one record, and less would only raise the noise."""
    return np.maximum(counts, max(1.0, sigma))


def public_targets(release: Release, public: PublicImages, device: str) -> tuple[list[Target], PublicUse]:
    """What to train on one after the other where there are public images, and what was made of them.

    First the means of public classes alone, if they are used at all; then released means with public ones mixed in.
    """
    target, value = Target.of(release), cast(Mapping[str, Any], release.value)
    held = divided_by(np.asarray(value["counts"]), float(release.public["counts_sigma"]))
    noise = float(release.public["sums_sigma"]) / held
    means, own, used = mix(target.features, target.means, noise, public, device)
    found = [replace(target, means=means)]
    return (found if own is None else [replace(target, means=own, weights=np.ones(len(own))), *found]), used


def started(targets: list[Target], release: Release, rules: Rules, seed: int, device: str, team: Team) -> TrainingState:
    """A training that starts from weights that were trained on all `targets` but the last.

    Nothing of it is kept on disk: it follows from public images, the seed and the rules, so a job that is killed
    meanwhile starts again here.
    """
    training = TrainingState.start(rules, seed, device)
    for target in targets[:-1]:
        before = train(release, rules, device=device, seed=seed, training=training, team=team, target=target)
        training = TrainingState.start(rules, seed, device)
        training.generator.load_state_dict(before.generator.state_dict())
    return training


def present(counts: NDArray[np.float64], sigma: float) -> NDArray[np.float64]:
    """Counts, with those below 3σ, which may be zero, set to zero; all ones if none is left."""
    told = np.where(counts >= 3.0 * sigma, np.maximum(counts, 0.0), 0.0)
    return told if told.sum() > 0.0 else np.ones_like(counts)


@declared(release="privot.release:Release", rules="privot.synthesis.neural.defaults.problem_and_rules:Rules")
def train(
    release: Release,
    rules: Rules,
    *,
    device: str = "cpu",
    seed: int = 0,
    training: TrainingState | None = None,
    progress: Progress | None = None,
    keep: Callable[..., None] | None = None,
    team: Team = ALONE,
    target: Target | None = None,
) -> TrainingState:
    """Train to the end, from the beginning or from `training`, on `release` or on the `target` made of it.

    `progress` and `keep` are called after every step; `keep` decides itself when to write a checkpoint. The other
    processes of a `team` train along (`follow`).
    """
    target = Target.of(release) if target is None else target
    training = TrainingState.start(rules, seed, device) if training is None else training
    if training.generator.classes != len(target.means):
        raise DataError(f"The generator has {training.generator.classes} classes, the release has {len(target.means)}.")
    states = training.generator.state_dict(), training.optimizer.state_dict()
    with team.training((target.to_share(), rules, seed, training.step, *states)):
        return _train(training, target, progress, keep, team)


def _train(
    training: TrainingState,
    target: Target,
    progress: Progress | None,
    keep: Callable[..., None] | None,
    team: Team,
) -> TrainingState:
    rules = training.rules
    step = _Step(training, target, team)
    training.generator.train()
    losses: list[torch.Tensor] = []
    # several processes stop together or not at all
    with finishing() if team.size == 1 and keep is not None else nullcontext(Stop()) as stop:
        for number in range(training.step, rules.steps):
            training.decay_rate()
            losses.append(step.take())
            training.step = number + 1
            # read many at once: reading a loss at every step would make the device wait
            if len(losses) == 20 or training.step == rules.steps or stop.asked:
                training.losses += [float(v) for v in torch.stack(losses).tolist()]
                losses.clear()
                if not math.isfinite(training.losses[-1]):
                    raise ConvergenceError(
                        f"The loss became non-finite (step {training.step}): lower the learning rate."
                    )
                if progress is not None:
                    progress(training.step, rules.steps, training.losses[-1])
                if keep is not None:
                    keep(training, now=stop.asked)
            if stop.asked:
                break
    training.generator.eval()
    return training


def follow(team: Team, device: str) -> None:
    """Run by all processes but the leader: train on what the leader shares, until it shares nothing more."""
    while (shared := team.share(None)) is not None:
        target, rules, seed, step, weights, moments = shared
        training = TrainingState.start(rules, seed, device)
        training.generator.load_state_dict(weights)
        training.optimizer.load_state_dict(moments)
        lay_out(training.optimizer)
        training.step = step
        # z of its own, and others than before if the job was resumed
        training.random.manual_seed(hash((seed, step, team.rank)) % 2**63)
        _train(training, Target.from_share(target), None, None, team)


class _Step:
    """One step on fresh z, with `rules.batch` samples per class and member; on a GPU in half precision, recorded."""

    def __init__(self, training: TrainingState, target: Target, team: Team) -> None:
        self._training, self._features, device = training, target.features, training.device

        def held(array: NDArray[np.float64]) -> torch.Tensor:
            return torch.as_tensor(array, dtype=torch.float32, device=device)

        ready_to_train(target.features, device)
        means, weights = held(target.means), held(target.weights / target.weights.sum())
        self._team, self._generator = team, team.together(training.generator)
        # each member is compared with the release separately, as each class is
        members = training.generator.members
        batch = team.part(training.rules.batch) * members
        self._labels = torch.arange(len(means), device=device).repeat_interleave(batch)
        self._means, self._weights = (t.repeat_interleave(members, dim=0) for t in (means, weights / members))
        self._scales = None if target.scales is None else held(target.scales)
        self._common = target.common
        if target.common is not None:
            shares = held(target.common.shares / members).repeat_interleave(members)
            self._wanted, self._shares, self._common_scales = (
                held(target.common.mean),
                shares,
                held(target.common.scales),
            )
        self._z = torch.zeros(len(self._labels), training.generator.latent, device=device)
        self._loss = torch.zeros((), device=device)
        self._scale = RecordScale.of(target.features, device)
        self._run: Callable[[], None] | None = None

    def take(self) -> torch.Tensor:
        """The loss at the samples that the step was made from."""
        if self._run is None:
            # communication between processes cannot be recorded
            model, optimizer = self._training.generator, self._training.optimizer
            alone = self._team.size == 1
            self._run = (recorded if alone else called)(model, optimizer, self._work)
        self._z.normal_(generator=self._training.random)
        self._run()
        return self._loss.clone()

    def _work(self) -> None:
        made = self._scale.to_records(generated(self._generator, self._z, self._labels))
        known: dict[str, torch.Tensor] = {}
        own = class_means(self._features, made, len(self._means), known)
        found = self._team.mean(own)
        apart = self._means - found if self._scales is None else (self._means - found) * self._scales
        loss = (self._weights * apart.square().sum(dim=1)).sum()
        if self._common is not None:
            own = self._shares @ class_means(self._common.features, made, len(self._means), known)
            loss = loss + ((self._wanted - self._team.mean(own)) * self._common_scales).square().sum()
        loss.backward()  # type: ignore[no-untyped-call]
        self._training.optimizer.step()
        self._loss.copy_(loss.detach())
