"""One interface to private synthesis: a vault goes in, a generator with a guarantee comes out; it sees no record.

All it does with the vault is to ask for its public facts and for releases: one (`embedding`), or a stream of them that
training answers with its next query or its next batch (`sinkhorn`, `sliced`), and perhaps one more for a choice and one
for labels. Everything after that is post-processing.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from privot.common import arguments
from privot.errors import DataError, UsageError
from privot.guarantee import Guarantee
from privot.jobs.estimator import PrivateEstimator
from privot.jobs.job import BEFORE, CHOICE, LABELS, LESSON, NAME, Job
from privot.mechanisms import FeatureMap
from privot.mechanisms.accuracy_counts import CorrectCounts
from privot.mechanisms.gradients.linear_head import TunedHead
from privot.mechanisms.mechanism import Facts, Mechanism
from privot.release import Release
from privot.synthesis import checkpoint
from privot.synthesis.defaults.embedding_defaults import ASSUMED_RECORDS, Rules
from privot.synthesis.design import SynthesisDesign, facts_of, shares, usable_device
from privot.synthesis.distributed import ALONE, Team
from privot.synthesis.features.fourier import to_unit
from privot.synthesis.features.network_features import NetworkFeatures
from privot.synthesis.generators.generator import Generator
from privot.synthesis.methods.embedding_training import Scale, Target, train
from privot.synthesis.methods.paid_blocks import run_job, train_blocks
from privot.synthesis.planner import plan
from privot.synthesis.refinement.relabelling import (
    Drawn,
    Labelling,
    PretrainedLabeller,
    check_labelling,
    labeller,
    labels_of,
)
from privot.synthesis.refinement.warp_selection import WarpSelection, classifiers, warped
from privot.synthesis.tabular.table_design import TableDesign
from privot.synthesis.tabular.table_model import TableModel
from privot.synthesis.training_state import Progress, TrainingState
from privot.tables.codec import TableCodec
from privot.transport.slice_directions import check_seed, fresh_seed
from privot.vault import Vault

_SAMPLE_ROWS = 4096
Check = Callable[[Release], None]
Paid = Callable[[str, Callable[[], Mechanism], Check], tuple[Release, int]]
"""From the name of a later part, what makes its mechanism and what refuses another release: the release, and how often
it was paid for."""


class Synthesizer(PrivateEstimator):
    """Synthetic records under (ε, δ): `fit(vault)`, then `sample(n)` as often as wanted.

    `low` and `high` are the public range of values and `shape` the public shape of an image; both are stated,
    never read off the records. `method` says where the noise enters: "embedding" (class means of random features,
    released once, and on a GPU for images of several classes how far to warp samples or how to label them), "sinkhorn"
    (gradients at generated points, DP-Sinkhorn) or "sliced" (random projections, DP-SWD); `options` are the knobs of
    the method (of embedding one: `labelled`, the share of the budget for labels). `records` may say about how many
    there are where that is public although the adjacency hides it; it steers sizes only. `features` and `rules` replace
    what the rules would choose. `class_names` are the public names of the classes 0, 1, …, kept with the generator.
    `seed` makes everything but the privacy noise repeatable. `allow_unproven` lets releases through that no theorem
    covers.

    With a `TableCodec` the records are rows of a table: what is embedded are the indicators of its cells (marginals),
    and `model_` takes the place of `generator_`.

    After `fit`: `guarantee_`, `generator_`, `losses_`, `design_`, `labeller_` where samples are labelled by one, and
    `release_` where there is no stream of them, which is kept even where training fails: `train(release_, rules)` costs
    nothing more.
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
        codec: TableCodec | None = None,
        class_names: Sequence[str] | None = None,
        device: str = "auto",
        seed: int | None = None,
        allow_unproven: bool = False,
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
        self.class_names = class_names
        self.device = device
        self.seed = seed
        self.allow_unproven = allow_unproven

    def design(self, facts: Facts) -> SynthesisDesign | TableDesign:
        """What would be released and trained, from public facts alone; costs nothing."""
        if self.class_names is not None and len(self.class_names) != facts.classes:
            raise UsageError(f"There are {len(self.class_names)} class names for {facts.classes or 'no'} classes.")
        return plan(self, facts)

    def fit(
        self,
        vault: Vault,
        *,
        folder: str | Path | None = None,
        pay_again: bool = False,
        progress: Progress | None = None,
    ) -> Synthesizer:
        """Pay for releases and train on them.

        With `folder`, what was paid for and learned is kept there. Called again with the same arguments after a kill,
        `fit` goes on from there and pays for nothing twice, provided the vault pays from a ledger: a budget in memory
        is forgotten with its process. Where a release was lost between its charge and the disk, `pay_again` allows a
        second charge for it. With other arguments, another ledger or other records it refuses.
        """
        if folder is not None:
            job = self._job(Path(folder), vault)
            return self.run(
                job, lambda: vault, vault.charges, ledger=vault.ledger, pay_again=pay_again, progress=progress
            )
        design = self.design(facts_of(vault))
        device, purpose = usable_device(self.device), f"synthesis by {self.method}"
        design.check(vault.facts, self.epsilon, self.delta, device)

        if isinstance(design, SynthesisDesign) and design.parts:
            vault.check(design.event(vault.facts), purpose=purpose)

        def paid(part: str, made: Callable[[], Mechanism], _: Check) -> tuple[Release, int]:
            return self._pay(vault, made(), f"{purpose}, {part}"), 1

        if isinstance(design, SynthesisDesign) and design.method != "embedding":
            self._forget()
            start = TrainingState.start(design.rules, design.seed, device)
            trained = train_blocks(
                lambda: vault,
                design,
                purpose=purpose,
                training=start,
                allow_unproven=self.allow_unproven,
                progress=progress,
            )
            self._streamed(design, *trained)
            return self._finish(paid, device, "")
        release = vault.release(design.mechanism, purpose=purpose, delta=design.delta)
        self._paid(design, release)
        if isinstance(design, TableDesign):
            return self.use_model(design.fit(release, progress))
        self._trained(train(release, design.rules, device=device, seed=design.seed, progress=progress))
        return self._finish(paid, device, release.digest())

    def _job(self, folder: Path, vault: Vault) -> Job:
        """The job in `folder`, which must be one that this very call started; a new one where there is none."""
        facts = facts_of(vault)
        if not (folder / NAME).exists():
            settings = {"params": self.to_params(), "design": self.design(facts).to_dict()}
            return Job.start(folder, {**settings, "ledger": vault.ledger})
        job = Job.open(folder)
        stored, designed = job.settings.get("params"), job.settings.get("design")
        if not isinstance(stored, dict) or not isinstance(designed, dict):
            raise DataError(f"{folder / NAME} does not describe a synthesis: choose another folder.")
        wanted, found = dict(self.to_params()), dict(stored)
        wanted["adjacency"], found["adjacency"] = str(facts.adjacency), designed.get("adjacency")
        # what was left out then was drawn or decided then, and stays
        for name, given in (
            ("seed", None if self.seed is None else check_seed(self.seed)),
            ("rules", None if self.rules is None else _bare(self.rules.to_dict())),
            ("features", None if self.features is None else self.features.to_dict()),
        ):
            if given is not None:
                held = designed.get(name)
                wanted[name] = json.loads(json.dumps(given))
                found[name] = _bare(held) if name == "rules" and isinstance(held, dict) else held
        job.check_same(wanted, found)
        return job

    def run(
        self,
        job: Job,
        open_vault: Callable[[], Vault],
        spent: Callable[[str], int],
        *,
        ledger: str | None = None,
        pay_again: bool = False,
        progress: Progress | None = None,
        every: float = checkpoint.EVERY_SECONDS,
        team: Team = ALONE,
    ) -> Synthesizer:
        """Bring `job` to its end from wherever it stands; the vault is opened only if it has to pay.

        `spent`(mark) counts the job's charges in the ledger that has the identity `ledger`, which must be the one
        the job was started with if it says one. No other process can work on the job meanwhile.
        """
        device = usable_device(self.device)
        fields, codec = job.settings.get("design", {}), self.codec
        design = SynthesisDesign.from_dict(fields, device) if codec is None else TableDesign.from_dict(fields, codec)
        if job.settings.get("ledger") not in (None, ledger):
            raise DataError(f"The job in {job.folder} pays from another ledger: go on with that one.")
        opened: list[Vault] = []

        def ready() -> Vault:
            vault = open_vault()
            design.check(vault.facts, self.epsilon, self.delta, device)
            # a job that goes on pays anew, and whoever lets it has to say so anew
            design.check_standing(self.allow_unproven)
            if isinstance(design, SynthesisDesign) and design.parts:
                # what cannot be finished is not begun, and nothing is removed for it
                vault.check(design.due(job, spent), purpose=f"synthesis by {self.method} {job.mark}")
            opened.append(vault)
            return vault

        def pay(mark: str) -> Release:
            vault = opened[0]
            return vault.release(design.mechanism, purpose=f"synthesis by {self.method} {mark}", delta=design.delta)

        with job.alone():
            said = design.parts if isinstance(design, SynthesisDesign) else {}
            for part in set(BEFORE) - set(said):
                if (job.folder / f"{part}.npz").exists():
                    raise DataError(
                        f"The job in {job.folder} has a {part}.npz that it does not speak of: restore its {NAME}."
                    )

            def paid(part: str, made: Callable[[], Mechanism], check: Check) -> tuple[Release, int]:
                built: list[Mechanism] = []

                def prepare() -> None:
                    facts = (opened or [ready()])[0].facts
                    mechanism = made()
                    mechanism.needs.check(facts)
                    # asked now, because it refuses whatever can be refused
                    mechanism.event(facts)
                    built.append(mechanism)

                def pay_part(mark: str) -> Release:
                    return self._pay(opened[0], built[0], f"synthesis by {self.method} {mark}")

                release = job.release(pay_part, spent, pay_again, check, prepare, part)
                # what was paid for before may have been looked at, whatever became of its file
                return release, max(1, int(spent(job.marked(part))))

            if isinstance(design, SynthesisDesign) and design.method != "embedding":
                self._forget()
                unproven = self.allow_unproven
                self._streamed(design, *run_job(job, design, ready, spent, device, progress, unproven))
                return self._finish(paid, device, job.name, job.folder / LESSON)
            release = job.release(pay, spent, pay_again, design.check_release, ready)
            self._paid(design, release)
            if isinstance(design, TableDesign):
                # the release is all the checkpoint there is: the fit takes seconds, and gives the same again
                return self.use_model(design.fit(release, progress))
            path, digest = job.folder / checkpoint.NAME, release.digest()
            training = checkpoint.load(path, design.rules, device, release=digest) if path.exists() else None
            training = train(
                release,
                design.rules,
                device=device,
                seed=design.seed,
                training=training,
                progress=progress,
                keep=checkpoint.Keeper(path, digest, every),
                team=team,
            )
            self._trained(training)
            return self._finish(paid, device, digest, job.folder / LESSON)

    def _finish(self, paid: Paid, device: str, made_from: str, path: Path | None = None) -> Synthesizer:
        """Pay for the later parts that the design speaks of: a choice, then labels.

        `made_from` names what samples are made from, a release or what a job paid; what a labeller learns of them is
        kept at `path`.
        """
        design = self.design_
        assert isinstance(design, SynthesisDesign)
        if design.choosing is not None:
            made_from = self._choose(design, design.choosing, paid, device, made_from)
        if design.labelling is not None:
            known = path is not None and path.exists()
            lesson = (
                PretrainedLabeller.load(path, made_from) if path and known else self._lesson(design.labelling, device)
            )
            if path and not known:
                lesson.save(path, made_from)
            tuning = self._tuning(lesson, device)
            release, times = paid(
                LABELS, lambda: tuning, lambda found: check_labelling(found, tuning, design.facts, design.delta)
            )
            self._labelled(lesson, release, times)
        return self

    def _choose(self, design: SynthesisDesign, choosing: WarpSelection, paid: Paid, device: str, made_from: str) -> str:
        """Warp samples as far as the records say from now on, under the guarantee of all releases; its digest."""
        trained = self.generator_

        def made() -> CorrectCounts:
            found: list[NetworkFeatures] = []
            for factor in choosing.factors:
                other = copy.copy(self)
                other.generator_ = warped(trained, factor).eval()
                found += classifiers(other._drawn(choosing.samples, device), self._public_seed)
            return CorrectCounts(tuple(found), choosing.sigma, device, made_from)

        release, times = paid(CHOICE, made, lambda found: choosing.check(found, design.facts, design.delta, made_from))
        # first, so that nothing is ever drawn under less than it cost
        self.guarantee_ = self.guarantee_.compose(*[release.guarantee] * times)
        self.use(warped(trained, choosing.chosen(release)), self.features_, self.counts_, self.labels_)
        return release.digest()

    def _pay(self, vault: Vault, mechanism: Mechanism, purpose: str) -> Release:
        delta, unproven = self.design_.delta, self.allow_unproven
        return vault.release(mechanism, purpose=purpose, delta=delta, allow_unproven=unproven)

    def _forget(self) -> None:
        """What an earlier release made may not be drawn from under another one's guarantee."""
        for name in ("generator_", "model_", "release_", "guarantee_", "labeller_"):
            if hasattr(self, name):
                delattr(self, name)

    def _paid(self, design: SynthesisDesign | TableDesign, release: Release) -> None:
        """Keep what was paid for, whatever becomes of the training."""
        self._forget()
        self.design_, self.release_, self.guarantee_ = design, release, release.guarantee

    def _trained(self, training: TrainingState) -> Synthesizer:
        mechanism: Any = self.design_.mechanism
        self.losses_ = training.losses
        self.use(training.generator, mechanism.features, Target.of(self.release_).counts, mechanism.labels)
        return self

    def _lesson(self, labelling: Labelling, device: str) -> PretrainedLabeller:
        """What a network learns from samples alone; costs nothing."""
        return PretrainedLabeller.learn(self._drawn(labelling.samples, device), labelling.columns, self._public_seed)

    @property
    def _public_seed(self) -> int:
        assert isinstance(self.design_, SynthesisDesign)
        return self.design_.seed % 2**63

    def _drawn(self, samples: int, device: str) -> Drawn:
        """Samples to learn from; the same z for the same design."""
        assert self.shape is not None
        x, y = self.sample(samples, seed=self._public_seed % 2**32)
        low, high = (torch.as_tensor(np.asarray(v), dtype=torch.float32) for v in (self.low, self.high))
        unit = to_unit(torch.from_numpy(x), low, high - low).to(device)
        labels = torch.from_numpy(y).to(device)
        return Drawn(unit, labels, self.generator_.classes, tuple(self.shape), (self.low, self.high))

    def _tuning(self, lesson: PretrainedLabeller, device: str) -> TunedHead:
        """The mechanism of the second release, from the design and the first one."""
        design = self.design_
        assert isinstance(design, SynthesisDesign)
        assert design.labelling is not None
        records = design.facts.records or self.records or self._counted()
        return lesson.mechanism(design.labelling, float(records), device)

    def _counted(self) -> float:
        """How many records there are, as far as was paid for; a guess where that was not."""
        if not hasattr(self, "release_"):
            return ASSUMED_RECORDS
        value: Any = self.release_.value
        return float(np.asarray(value["counts"]).sum())

    def _labelled(self, lesson: PretrainedLabeller, release: Release, times: int = 1) -> Synthesizer:
        """Label by what was released from now on, under the guarantee of all releases, labels being paid `times`."""
        self.guarantee_ = self.guarantee_.compose(*[release.guarantee] * times)
        self.labeller_ = labeller(lesson, release)
        return self

    def _streamed(self, design: SynthesisDesign, training: TrainingState, guarantee: Guarantee) -> Synthesizer:
        self.design_, self.guarantee_, self.losses_ = design, guarantee, training.losses
        # how many records a class has was not paid for: samples go round all classes
        self.use(training.best, None, np.ones(training.generator.classes), design.labels)
        return self

    def use(self, generator: Generator, features: FeatureMap | None, counts: NDArray[Any], labels: bool) -> None:
        """Sample from `generator` from now on."""
        self.generator_ = generator.eval()
        generator.ease(1.0)
        self.features_ = features
        self.counts_ = np.asarray(counts, dtype=np.float64)
        self.labels_ = labels
        self.labeller_ = None

    def use_model(self, model: TableModel) -> Synthesizer:
        """Sample from `model` from now on."""
        self.model_ = model
        return self

    def sample(self, n: int, labels: Any = None, seed: int | None = None) -> tuple[Any, NDArray[np.int64] | None]:
        """`n` synthetic records and their labels (None where there are none).

        Labels are the given ones, or follow the released counts; where there is a labeller and none are given, it says
        what the labels of the samples are. Of a table the records are a `Table` with all columns,
        the label's among them. Needs no vault and costs nothing.
        """
        if hasattr(self, "model_"):
            if labels is not None:
                raise UsageError("The label of a table is drawn with its row: leave out labels.")
            rows, y = self.model_.sample_rows(n, fresh_seed() if seed is None else check_seed(seed))
            return self.model_.codec.decode(rows, y, compact=True), y
        if not hasattr(self, "generator_"):
            raise UsageError("Nothing was learned yet: call fit or load first.")
        n = arguments.whole("The number of samples", n, 1)
        random = np.random.default_rng(None if seed is None else check_seed(seed))
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
                made = scale.to_records(self.generator_(torch.from_numpy(z).to(device), part))
                if self.labeller_ is not None and labels is None:
                    y[start : start + _SAMPLE_ROWS] = labels_of(self.labeller_, made).cpu().numpy()
                parts.append(made.cpu().numpy())
        x: Any = np.concatenate(parts)
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
            "class_names": None if self.class_names is None else [str(name) for name in self.class_names],
        }

    @classmethod
    def from_params(cls, params: Mapping[str, Any], device: str = "auto") -> Synthesizer:
        """Read what `to_params` wrote."""
        try:
            fields = dict(params)
            codec, names = fields.pop("codec"), fields.get("class_names")
            if names is not None and not (isinstance(names, list) and all(isinstance(name, str) for name in names)):
                raise DataError("The class names of a synthesis are a list of texts.")
            return cls(**fields, codec=None if codec is None else TableCodec.from_dict(codec), device=device)
        except (KeyError, TypeError) as error:
            raise DataError(f"These are not the settings of a synthesis ({type(error).__name__}).") from None

    def save(self, folder: str | Path) -> None:
        """Write generator.safetensors, config.json and guarantee.json: all that sampling needs."""
        from privot.synthesis.output.saved_model import write_generator

        write_generator(self, Path(folder))

    @classmethod
    def load(cls, folder: str | Path, device: str = "cpu") -> Synthesizer:
        """Read what `save` or `privot synth` wrote; needs no vault."""
        from privot.synthesis.output.saved_model import read_generator

        return read_generator(Path(folder), device)

    guarantee_: Guarantee
    release_: Release
    generator_: Generator
    model_: TableModel
    losses_: list[float]
    counts_: NDArray[np.float64]
    features_: FeatureMap | None
    labels_: bool
    labeller_: NetworkFeatures | None
    design_: SynthesisDesign | TableDesign


def _bare(rules: Mapping[str, Any]) -> dict[str, Any]:
    """Rules as they are asked for: planning writes into their options what the later releases cost."""
    parts = ("choosing", "labelling")
    return {**rules, "options": {n: v for n, v in (rules.get("options") or {}).items() if n not in parts}}
