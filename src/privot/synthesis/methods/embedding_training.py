"""Trains a generator to match released mean embeddings: post-processing, so its length costs no budget.

The loss is Σ_c w_c·‖μ̃_c − mean φ(G(z, c))‖², a squared MMD to the noisy class means μ̃_c = sums_c/counts_c. It sees
a release, never a record.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from privot.common.cuda_graphs import called, lay_out, recorded
from privot.common.interruption import Stop, finishing
from privot.errors import ConvergenceError, DataError
from privot.mechanisms.embedding import FeatureMap
from privot.release import Release
from privot.synthesis.defaults.embedding_defaults import Rules
from privot.synthesis.features.class_means import class_means
from privot.synthesis.features.fourier import feature_map
from privot.synthesis.generator_training.distributed import ALONE, Team
from privot.synthesis.generator_training.training_state import Progress, TrainingState, generated
from privot.synthesis.generators.record_scale import RecordScale


@dataclass(frozen=True, eq=False)
class Target:
    """The contents of a release: noisy means of shape (classes, size), the weight of each, and noisy counts."""

    features: FeatureMap
    means: NDArray[np.float64]
    weights: NDArray[np.float64]
    counts: NDArray[np.float64]

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
        # a class has at least one record; dividing by less would only increase the noise
        held = np.maximum(counts, max(1.0, counts_sigma))
        noise = sums_sigma * math.sqrt(features.size) / held
        return cls(features, sums / held[:, None], 1.0 / (1.0 + noise**2), present(counts, counts_sigma))


def present(counts: NDArray[np.float64], sigma: float) -> NDArray[np.float64]:
    """Counts, with those below 3σ, which may be zero, set to zero; all ones if none is left."""
    told = np.where(counts >= 3.0 * sigma, np.maximum(counts, 0.0), 0.0)
    return told if told.sum() > 0.0 else np.ones_like(counts)


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
) -> TrainingState:
    """Train to the end, from the beginning or from `training`.

    `progress` and `keep` are called after every step; `keep` decides itself when to write a checkpoint. The other
    processes of a `team` train along (`follow`).
    """
    target = Target.of(release)
    training = TrainingState.start(rules, seed, device) if training is None else training
    if training.generator.classes != len(target.means):
        raise DataError(f"The generator has {training.generator.classes} classes, the release has {len(target.means)}.")
    shares = target.weights / target.weights.sum()
    states = training.generator.state_dict(), training.optimizer.state_dict()
    with team.training((target.features.to_dict(), target.means, shares, rules, seed, training.step, *states)):
        return _train(training, target.features, target.means, shares, progress, keep, team)


def _train(
    training: TrainingState,
    features: FeatureMap,
    means: NDArray[np.float64],
    shares: NDArray[np.float64],
    progress: Progress | None,
    keep: Callable[..., None] | None,
    team: Team,
) -> TrainingState:
    rules = training.rules
    wanted, weights = (torch.as_tensor(a, dtype=torch.float32, device=training.device) for a in (means, shares))
    step = _Step(training, features, wanted, weights, team)
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
        features, means, shares, rules, seed, step, weights, moments = shared
        training = TrainingState.start(rules, seed, device)
        training.generator.load_state_dict(weights)
        training.optimizer.load_state_dict(moments)
        lay_out(training.optimizer)
        training.step = step
        # z of its own, and others than before if the job was resumed
        training.random.manual_seed(hash((seed, step, team.rank)) % 2**63)
        _train(training, feature_map(features), means, shares, None, None, team)


class _Step:
    """One step on fresh z, with `rules.batch` samples per class and member; on a GPU in half precision, recorded."""

    def __init__(
        self, training: TrainingState, features: FeatureMap, means: torch.Tensor, weights: torch.Tensor, team: Team
    ) -> None:
        self._training, self._features = training, features
        self._team, self._generator = team, team.together(training.generator)
        # each member is compared with the release separately, as each class is
        members = training.generator.members
        batch = team.part(training.rules.batch) * members
        self._labels = torch.arange(len(means), device=means.device).repeat_interleave(batch)
        self._means, self._weights = (t.repeat_interleave(members, dim=0) for t in (means, weights / members))
        self._z = torch.zeros(len(self._labels), training.generator.latent, device=means.device)
        self._loss = torch.zeros((), device=means.device)
        self._scale = RecordScale.of(features, means.device)
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
        made = generated(self._generator, self._z, self._labels)
        own = class_means(self._features, self._scale.to_records(made), len(self._means))
        found = self._team.mean(own)
        loss = (self._weights * (self._means - found).square().sum(dim=1)).sum()
        loss.backward()  # type: ignore[no-untyped-call]
        self._training.optimizer.step()
        self._loss.copy_(loss.detach())
