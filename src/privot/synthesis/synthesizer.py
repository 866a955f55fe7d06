"""One interface to private synthesis: a vault goes in, a generator with a guarantee comes out; it sees no record.

All it does with the vault is to ask for its public facts and for one release. Everything after that is
post-processing.
"""

from __future__ import annotations

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
from privot.synthesis.design import Design, shares, usable_device
from privot.synthesis.embedding import Progress, Scale, Target, Training, rehearse, train
from privot.synthesis.features import feature_map, public_range
from privot.synthesis.generators import Generator, build, image_axes
from privot.synthesis.job import Job
from privot.synthesis.rules import Problem, Rules, choose_features, choose_rules
from privot.transport.directions import check_seed, fresh_seed
from privot.vault import Vault

METHODS = ("embedding",)
_SAMPLE_ROWS = 4096


class Synthesizer(BaseEstimator):  # type: ignore[misc]
    """Synthetic records under (ε, δ): `fit(vault)`, then `sample(n)` as often as wanted.

    `low` and `high` are the public range of values and `shape` the public shape of an image; both are stated,
    never read off the records. `records` may say about how many there are where that is public although the
    adjacency hides it; it steers sizes only. `features` and `rules` replace what the rules would choose. `seed`
    makes everything but the privacy noise repeatable.

    After `fit`: `release_`, `guarantee_`, `generator_`, `losses_`, `design_`. The release is kept even where training
    fails: `train(release_, rules)` costs nothing more.
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
        plan = embedding(adjacency=facts.adjacency, delta=self.delta, epsilon=self.epsilon)
        records = facts.records
        if self.records is not None:
            records = arguments.whole("The stated number of records", self.records, 1)
        segments = None if self.codec is None else tuple(self.codec.segments)
        problem = Problem(facts.dim, facts.classes or 1, plan.sigma, records, shape, device, segments)
        seed = fresh_seed() if self.seed is None else check_seed(self.seed)
        features = self.features or choose_features(problem, seed, self.low, self.high)
        mechanism = MeanEmbedding(features, plan.sigma, facts.classes is not None, device=device)
        rules = self.rules or choose_rules(problem)
        return Design(mechanism, rules, seed, float(self.delta), facts.adjacency, facts)

    def fit(self, vault: Vault, *, folder: str | Path | None = None, progress: Progress | None = None) -> Synthesizer:
        """Pay for one release and train on it. With `folder`, a killed job goes on there (`resume`)."""
        design = self.design(vault.facts)
        if folder is None:
            self._check(design, vault.facts)
            release = vault.release(design.mechanism, purpose=f"synthesis by {self.method}", delta=design.delta)
            self._paid(design, release)
            return self._trained(
                train(release, design.rules, device=design.mechanism.device, seed=design.seed, progress=progress)
            )
        settings = {"params": self.to_params(), "design": design.to_dict()}
        job = Job.start(Path(folder), settings)
        return self.run(job, lambda: vault, lambda mark: False, progress=progress)

    def run(
        self,
        job: Job,
        open_vault: Callable[[], Vault],
        spent: Callable[[str], bool],
        *,
        ledger: str | None = None,
        pay_again: bool = False,
        progress: Progress | None = None,
        every: float = checkpoint.EVERY_SECONDS,
    ) -> Synthesizer:
        """Bring `job` to its end from wherever it stands; the vault is opened only if it has to pay.

        `spent`(mark) looks for the job's charge in the ledger that has the identity `ledger`, which must be the one
        the job was started with if it says one. No other process can work on the job meanwhile.
        """
        device = usable_device(self.device)
        design = Design.from_dict(job.settings.get("design", {}), device)
        if job.settings.get("ledger") not in (None, ledger):
            raise DataError(f"The job in {job.folder} pays from another ledger: resume it with that one (--ledger).")
        opened: list[Vault] = []

        def ready() -> None:
            vault = open_vault()
            self._check(design, vault.facts)
            opened.append(vault)

        def pay(mark: str) -> Release:
            vault = opened[0]
            return vault.release(design.mechanism, purpose=f"synthesis by {self.method} {mark}", delta=design.delta)

        with job.alone():
            release = job.release(pay, spent, pay_again, design.check_release, ready)
            self._paid(design, release)
            path, digest = job.folder / checkpoint.NAME, release.digest()
            training = checkpoint.load(path, design.rules, device, digest) if path.exists() else None
            training = train(
                release,
                design.rules,
                device=device,
                seed=design.seed,
                training=training,
                progress=progress,
                keep=checkpoint.Keeper(path, digest, every),
            )
            return self._trained(training)

    def _check(self, design: Design, facts: Facts) -> None:
        """Refuse, before anything is paid, what would be lost or cost too much afterwards.

        The accountant remembers: what the release will say of its cost is worked out here, so that hardly a moment
        passes between the charge and the release on disk.
        """
        design.check_facts(facts)
        classes = (facts.classes or 1) if design.mechanism.labels else 1
        rehearse(design.mechanism.features, design.rules, classes, device=design.mechanism.device, seed=design.seed)
        cost = account(design.mechanism.event(facts), design.delta)
        cost.to_dict()
        # written so that a NaN is refused; the slack is that of the search for σ
        if design.delta != self.delta or not cost.epsilon() <= self.epsilon * (1.0 + 1e-9):
            raise DataError(
                f"The noise that was decided on costs ε = {cost.epsilon():.6g} at δ = {design.delta:g}, not the "
                f"ε = {self.epsilon:g} at δ = {self.delta:g} that is asked for: nothing was paid."
            )

    def _paid(self, design: Design, release: Release) -> None:
        """Keep what was paid for, whatever becomes of the training."""
        if hasattr(self, "generator_"):
            # of an earlier release: it may not be drawn from under this one's guarantee
            del self.generator_
        self.design_, self.release_, self.guarantee_ = design, release, release.guarantee

    def _trained(self, training: Training) -> Synthesizer:
        mechanism = self.design_.mechanism
        self.losses_ = training.losses
        self._use(training.generator, mechanism.features, Target.of(self.release_).counts, mechanism.labels)
        return self

    def _use(self, generator: Generator, features: FeatureMap, counts: NDArray[Any], labels: bool) -> None:
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
        scale = Scale.of(self.features_, device)
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
    features_: FeatureMap
    labels_: bool
    design_: Design


def restore(
    params: Mapping[str, Any], learned: Mapping[str, Any], weights: Mapping[str, torch.Tensor], device: str
) -> Synthesizer:
    """A fitted synthesizer from the parts of its folder."""
    synthesizer = Synthesizer.from_params(params, device)
    try:
        generator = build(learned["generator"])
        generator.load_state_dict(dict(weights))
        counts, labels = np.array(learned["counts"], dtype=np.float64), bool(learned["labels"])
        if counts.shape != (generator.classes,) or not np.isfinite(counts).all() or counts.min() < 0.0:
            raise DataError("The counts of this generator do not fit its classes.")
        synthesizer._use(generator.to(usable_device(device)), feature_map(learned["features"]), counts, labels)
    except (KeyError, TypeError, RuntimeError) as error:
        raise DataError(f"The weights do not fit the configuration ({type(error).__name__}).") from None
    return synthesizer
