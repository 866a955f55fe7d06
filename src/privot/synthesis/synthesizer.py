"""One interface to private synthesis: a vault goes in, a generator with a guarantee comes out; it sees no record.

All it does with the vault is to ask for its public facts and for releases: one (`embedding`), or a stream of them that
training answers with its next query or its next batch (`sinkhorn`, `sliced`). Everything after that is post-processing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import BaseEstimator

from privot.accounting import account, embedding
from privot.errors import DataError, UsageError
from privot.guarantee import Guarantee
from privot.mechanisms import FeatureMap, MeanEmbedding
from privot.mechanisms.mechanism import Facts
from privot.noise import arguments
from privot.release import Release
from privot.synthesis import checkpoint
from privot.synthesis.codecs import Codec
from privot.synthesis.codecs import codec as read_codec
from privot.synthesis.design import Design, shares, strategy_of, usable_device
from privot.synthesis.embedding import Scale, Target, train
from privot.synthesis.features import public_range
from privot.synthesis.generators import Generator, image_axes
from privot.synthesis.job import Job
from privot.synthesis.rules import Problem, Rules, choose_features, choose_rules
from privot.synthesis.streams import run_job, train_blocks
from privot.synthesis.training import Progress, Training
from privot.transport.directions import check_seed, fresh_seed
from privot.vault import Vault

METHODS = ("embedding", "sinkhorn", "sliced")
_SAMPLE_ROWS = 4096


class Synthesizer(BaseEstimator):  # type: ignore[misc]
    """Synthetic records under (ε, δ): `fit(vault)`, then `sample(n)` as often as wanted.

    `low` and `high` are the public range of values and `shape` the public shape of an image; both are stated,
    never read off the records. `method` says where the noise enters: "embedding" (class means of random features,
    released once), "sinkhorn" (gradients at generated points, DP-Sinkhorn) or "sliced" (random projections, DP-SWD);
    `options` are the knobs of the last two. `records` may say about how many there are where that is public although
    the adjacency hides it; it steers sizes only. `features` and `rules` replace what the rules would choose. `seed`
    makes everything but the privacy noise repeatable.

    After `fit`: `guarantee_`, `generator_`, `losses_`, `design_`, and `release_` where there is just one.
    """

    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float = 1e-5,
        *,
        method: str = "embedding",
        shape: Sequence[int] | None = None,
        low: float | Sequence[float] = 0.0,
        high: float | Sequence[float] = 1.0,
        records: int | None = None,
        features: FeatureMap | None = None,
        rules: Rules | None = None,
        options: Mapping[str, Any] | None = None,
        codec: Codec | None = None,
        device: str = "auto",
        seed: int | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.method = method
        self.shape = shape
        self.low = low
        self.high = high
        self.records = records
        self.features = features
        self.rules = rules
        self.options = options
        self.codec = codec
        self.device = device
        self.seed = seed

    def design(self, facts: Facts) -> Design:
        """What would be released and trained, from public facts alone; costs nothing."""
        if self.method not in METHODS:
            raise UsageError(f"Unknown method {self.method!r}: say {' or '.join(METHODS)}.")
        device = usable_device(self.device)
        public_range(self.low, self.high, facts.dim)
        shape = None if self.shape is None else tuple(int(s) for s in self.shape)
        if shape is not None:
            image_axes(shape)
            if int(np.prod(shape)) != facts.dim:
                raise UsageError(f"An image of shape {shape} has {np.prod(shape)} values, a record has {facts.dim}.")
        records = facts.records
        if self.records is not None:
            records = arguments.whole("The stated number of records", self.records, 1)
        segments = None if self.codec is None else tuple(self.codec.segments)
        labels, classes = facts.classes is not None, facts.classes or 1
        seed = fresh_seed() if self.seed is None else check_seed(self.seed)
        if self.method != "embedding":
            if self.features is not None or self.rules is not None:
                raise UsageError(f"The method {self.method} takes options, not features or rules.")
            problem = Problem(facts.dim, classes, math.nan, records, shape, device, segments)
            mechanism, rules = strategy_of(self.method).design(
                problem, facts, (self.epsilon, self.delta), (self.low, self.high), self.options or {}
            )
            return Design(mechanism, rules, seed, float(self.delta), facts.adjacency, self.method, labels)
        if self.options:
            raise UsageError("The method embedding takes features and rules, no options.")
        plan = embedding(adjacency=facts.adjacency, delta=self.delta, epsilon=self.epsilon)
        problem = Problem(facts.dim, classes, plan.sigma, records, shape, device, segments)
        features = self.features or choose_features(problem, seed, self.low, self.high)
        return Design(
            MeanEmbedding(features, plan.sigma, labels, device=device),
            self.rules or choose_rules(problem),
            seed,
            float(self.delta),
            facts.adjacency,
            labels=labels,
        )

    def fit(self, vault: Vault, *, folder: str | Path | None = None, progress: Progress | None = None) -> Synthesizer:
        """Pay for releases and train on them. With `folder`, a killed job goes on there (`resume`)."""
        design = self.design(vault.facts)
        if folder is None and design.method != "embedding":
            start = Training.start(design.rules, design.seed, usable_device(self.device))
            done, guarantee = train_blocks(
                lambda: vault,
                design,
                strategy_of(design.method),
                purpose=f"synthesis by {design.method}",
                training=start,
                progress=progress,
            )
            return self._streamed(design, done, guarantee)
        if folder is None:
            release = vault.release(design.mechanism, purpose=f"synthesis by {self.method}", delta=design.delta)
            return self._trained(
                design,
                release,
                train(release, design.rules, device=design.mechanism.device, seed=design.seed, progress=progress),
            )
        settings = {"params": self.to_params(), "design": design.to_dict()}
        job = Job.start(Path(folder), settings)
        return self.run(job, lambda: vault, lambda mark: False, progress=progress)

    def run(
        self,
        job: Job,
        open_vault: Callable[[], Vault],
        spent: Callable[[str], int],
        *,
        pay_again: bool = False,
        progress: Progress | None = None,
        every: float = checkpoint.EVERY_SECONDS,
    ) -> Synthesizer:
        """Bring `job` to its end from wherever it stands; the vault is opened only if it has to pay.

        `spent`(mark) is the number of charges that carry a mark.
        """
        device = usable_device(self.device)
        design = Design.from_dict(job.settings.get("design", {}), device)
        if design.method != "embedding":
            done, guarantee = run_job(job, design, strategy_of(design.method), open_vault, spent, device, progress)
            return self._streamed(design, done, guarantee)

        def pay(mark: str) -> Release:
            vault = open_vault()
            # the accountant remembers: what the release will say of its cost is worked out before the charge, so
            # that hardly a moment passes between the charge and the release on disk
            account(design.mechanism.event(vault.facts), design.delta).to_dict()
            return vault.release(design.mechanism, purpose=f"synthesis by {self.method} {mark}", delta=design.delta)

        release = job.release(pay, spent, pay_again)
        path = job.folder / checkpoint.NAME
        training = checkpoint.load(path, design.rules, device) if path.exists() else None
        training = train(
            release,
            design.rules,
            device=device,
            seed=design.seed,
            training=training,
            progress=progress,
            keep=checkpoint.Keeper(path, every),
        )
        return self._trained(design, release, training)

    def _streamed(self, design: Design, training: Training, guarantee: Guarantee) -> Synthesizer:
        self.design_, self.guarantee_, self.losses_ = design, guarantee, training.losses
        # how many records a class has was not paid for: samples go round all classes
        self.use(training.best, None, np.ones(training.generator.classes), design.labels)
        return self

    def _trained(self, design: Design, release: Release, training: Training) -> Synthesizer:
        self.design_, self.release_, self.guarantee_ = design, release, release.guarantee
        self.losses_ = training.losses
        self.use(training.generator, design.mechanism.features, Target.of(release).counts, design.mechanism.labels)
        return self

    def use(self, generator: Generator, features: FeatureMap | None, counts: NDArray[Any], labels: bool) -> None:
        """Sample from `generator` from now on."""
        self.generator_ = generator.eval()
        self.features_ = features
        self.counts_ = np.asarray(counts, dtype=np.float64)
        self.labels_ = labels

    def sample(self, n: int, labels: Any = None, seed: int | None = None) -> tuple[Any, NDArray[np.int64] | None]:
        """`n` synthetic records and their labels (None where there are none).

        Labels are the given ones, or follow the released counts. Needs no vault and costs nothing.
        """
        if not hasattr(self, "generator_"):
            raise UsageError("Nothing was learned yet: call fit or load first.")
        n = arguments.whole("The number of samples", n, 1)
        random = np.random.default_rng(seed)
        if labels is None:
            y = random.permutation(shares(self.counts_, n))
        else:
            y = np.asarray(labels, dtype=np.int64)
            if y.shape != (n,) or y.min() < 0 or y.max() >= self.generator_.classes:
                raise UsageError(f"Give {n} labels from 0 to {self.generator_.classes - 1}.")
        device = next(self.generator_.parameters()).device
        scale = Scale.of(self.features_ or self, device)
        parts = []
        with torch.no_grad():
            for start in range(0, n, _SAMPLE_ROWS):
                part = torch.from_numpy(y[start : start + _SAMPLE_ROWS]).to(device)
                z = random.standard_normal((len(part), self.generator_.latent)).astype(np.float32)
                unit = self.generator_(torch.from_numpy(z).to(device), part)
                parts.append(scale.to_records(unit).cpu().numpy())
        x: Any = np.concatenate(parts)
        if self.codec is not None:
            x = self.codec.decode(x)
        return x, y if self.labels_ else None

    def to_params(self) -> dict[str, Any]:
        """The public choices that sampling and reading back need, as plain JSON types."""
        return {
            "epsilon": float(self.epsilon),
            "delta": float(self.delta),
            "method": self.method,
            "shape": None if self.shape is None else [int(s) for s in self.shape],
            "low": np.asarray(self.low, dtype=np.float64).tolist(),
            "high": np.asarray(self.high, dtype=np.float64).tolist(),
            "records": self.records,
            "options": None if self.options is None else dict(self.options),
            "codec": None if self.codec is None else self.codec.to_dict(),
        }

    @classmethod
    def from_params(cls, params: Mapping[str, Any], device: str = "auto") -> Synthesizer:
        """Read what `to_params` wrote."""
        try:
            fields = dict(params)
            codec = fields.pop("codec")
            return cls(**fields, codec=None if codec is None else read_codec(codec), device=device)
        except (KeyError, TypeError) as error:
            raise DataError(f"These are not the settings of a synthesis ({type(error).__name__}).") from None

    def save(self, folder: str | Path) -> None:
        """Write generator.safetensors, config.json and guarantee.json: all that sampling needs."""
        from privot.synthesis.folder import write_generator

        write_generator(self, Path(folder))

    @classmethod
    def load(cls, folder: str | Path, device: str = "cpu") -> Synthesizer:
        """Read what `save` or `privot synth` wrote; needs no vault."""
        from privot.synthesis.folder import read_generator

        return read_generator(Path(folder), device)

    guarantee_: Guarantee
    release_: Release
    generator_: Generator
    losses_: list[float]
    counts_: NDArray[np.float64]
    features_: FeatureMap | None
    labels_: bool
    design_: Design
