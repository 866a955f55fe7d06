"""Trains a generator to match released mean embeddings: post-processing, so it may run as long as it likes.

The loss is Σ_c w_c·‖μ̃_c − mean φ(G(z, c))‖², a squared MMD to the noisy class means μ̃_c = sums_c/counts_c. It sees
a release, never a record.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from privot.errors import ConvergenceError, DataError, PrivotError, UsageError
from privot.mechanisms.embedding import FeatureMap
from privot.release import Release
from privot.synthesis.features import feature_map
from privot.synthesis.generators import Generator, build
from privot.synthesis.rules import Rules

Progress = Callable[[int, int, float], None]
"""Step, steps in all, loss."""


@dataclass(frozen=True, eq=False)
class Target:
    """What a release says: noisy means of shape (classes, size), how far to trust each, and noisy counts."""

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
        # one record is the least a class can have, and below that a division would only blow up noise
        held = np.maximum(counts, max(1.0, counts_sigma))
        noise = sums_sigma * math.sqrt(features.size) / held
        return cls(features, sums / held[:, None], 1.0 / (1.0 + noise**2), present(counts, counts_sigma))


def present(counts: NDArray[np.float64], sigma: float) -> NDArray[np.float64]:
    """Counts, with those that cannot be told from zero (below 3σ) set to zero; all ones if none is left."""
    told = np.where(counts >= 3.0 * sigma, np.maximum(counts, 0.0), 0.0)
    return told if told.sum() > 0.0 else np.ones_like(counts)


@dataclass
class Training:
    """A training under way: everything that `checkpoint` keeps, so that it goes on as if never interrupted."""

    generator: Generator
    optimizer: torch.optim.Adam
    random: torch.Generator
    rules: Rules
    step: int = 0
    losses: list[float] = field(default_factory=list)

    @classmethod
    def start(cls, rules: Rules, seed: int, device: str) -> Training:
        """Fresh weights from `seed`, which is public."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed % 2**63)
            generator = build(rules.generator)
        generator.to(device)
        random = torch.Generator(device=device)
        random.manual_seed((seed + 1) % 2**63)
        optimizer = torch.optim.Adam(generator.parameters(), lr=rules.learning_rate, betas=(0.5, 0.99))
        return cls(generator, optimizer, random, rules)

    @property
    def device(self) -> torch.device:
        """Where it runs."""
        return self.random.device


def rehearse(features: FeatureMap, rules: Rules, classes: int, *, device: str = "cpu", seed: int = 0) -> None:
    """Go through the first step of `train` without a release, so that what cannot be trained is found before paying."""
    if min(rules.steps, rules.batch) < 1 or not 0.0 < rules.learning_rate < math.inf:
        raise UsageError("A training needs at least one step, one sample a class, and a learning rate above 0.")
    try:
        generator = Training.start(rules, seed, device).generator
        if (generator.classes, generator.dim) != (classes, features.dim):
            raise UsageError(
                f"The generator makes {generator.classes} classes of {generator.dim} columns, the records have "
                f"{classes} of {features.dim}."
            )
        # with gradients, as in training: without them other code would be tried
        labels = torch.arange(classes, device=device).repeat_interleave(rules.batch)
        made = generator(torch.zeros(len(labels), generator.latent, device=device), labels)
        phi = features.features(Scale.of(features, device).to_records(made))
    except (RuntimeError, ValueError, TypeError, IndexError) as error:
        if isinstance(error, PrivotError):
            raise
        raise UsageError(
            f"The generator cannot take a first step ({type(error).__name__}): change its rules."
        ) from None
    if phi.shape != (len(labels), features.size):
        raise UsageError("The generator's samples do not have the features that are released.")


def train(
    release: Release,
    rules: Rules,
    *,
    device: str = "cpu",
    seed: int = 0,
    training: Training | None = None,
    progress: Progress | None = None,
    keep: Callable[[Training], None] | None = None,
) -> Training:
    """Train to the end, from the beginning or from `training`.

    `progress` hears every step; `keep` is called after every step and decides itself when to write a checkpoint.
    """
    training = Training.start(rules, seed, device) if training is None else training
    target = Target.of(release)
    where = training.device
    means = torch.as_tensor(target.means, dtype=torch.float32, device=where)
    weights = torch.as_tensor(target.weights / target.weights.sum(), dtype=torch.float32, device=where)
    classes = training.generator.classes
    if classes != len(means):
        raise DataError(f"The generator knows {classes} classes, the release {len(means)}.")
    labels = torch.arange(classes, device=where).repeat_interleave(rules.batch)
    scale = Scale.of(target.features, where)
    training.generator.train()
    losses: list[torch.Tensor] = []
    for step in range(training.step, rules.steps):
        for group in training.optimizer.param_groups:
            group["lr"] = rules.learning_rate * 0.5 * (1.0 + math.cos(math.pi * step / rules.steps))
        z = torch.randn(len(labels), training.generator.latent, generator=training.random, device=where)
        phi = target.features.features(scale.to_records(training.generator(z, labels)))
        gap = means - phi.view(classes, rules.batch, -1).mean(dim=1)
        loss = (weights * gap.square().sum(dim=1)).sum()
        training.optimizer.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        training.optimizer.step()
        training.step = step + 1
        losses.append(loss.detach())
        # read in bunches: a loss asked for at every step would make the device wait
        if len(losses) == 20 or training.step == rules.steps:
            training.losses += [float(v) for v in torch.stack(losses).tolist()]
            losses.clear()
            if not math.isfinite(training.losses[-1]):
                raise ConvergenceError(f"Training left the numbers at step {training.step}: lower the learning rate.")
            if progress is not None:
                progress(training.step, rules.steps, training.losses[-1])
            if keep is not None:
                keep(training)
    training.generator.eval()
    return training


@dataclass(frozen=True)
class Scale:
    """Between a generator's [0, 1] and the public range of the records."""

    low: torch.Tensor
    span: torch.Tensor

    @classmethod
    def of(cls, features: Any, device: torch.device | str = "cpu") -> Scale:
        """The range the map says, or [0, 1]; a stack's is its first map's."""
        first = features.maps[0] if hasattr(features, "maps") else features
        low = torch.tensor(getattr(first, "low", 0.0), dtype=torch.float32, device=device)
        high = torch.tensor(getattr(first, "high", 1.0), dtype=torch.float32, device=device)
        return cls(low, high - low)

    def to_records(self, unit: torch.Tensor) -> torch.Tensor:
        """From [0, 1] to the unit of the records."""
        return self.low + self.span * unit
