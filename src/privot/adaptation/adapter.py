"""The estimator of adaptation: from unlabelled private records in a vault and a public labelled source to a classifier
with a guarantee; it never sees a private record.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from privot.accounting import account
from privot.adaptation.adaptation_config import AdaptationConfig
from privot.adaptation.adaptation_design import (
    AdaptationDesign,
)
from privot.adaptation.adaptation_planner import AdaptationTerms, Source, asked_of, paid_elsewhere
from privot.adaptation.learner import Learner, Progress
from privot.adaptation.model_folder import Adapted, read_model, write_model
from privot.adaptation.networks import Committee, Networks, check_known
from privot.adaptation.paid_training import EVERY_SECONDS, AnyLearner, PaidTraining, kept_release
from privot.adaptation.stand_in.stand_in_learner import Checks, StandInLearner
from privot.adaptation.stand_in.table_learner import TableLearner
from privot.adaptation.stand_in.table_rows import cell_rows, unlabelled_rows
from privot.adaptation.stand_in.weighted_training import TableChecks
from privot.common.declared import declared
from privot.common.devices import usable_device
from privot.common.progress_lines import as_progress
from privot.data.loading import checked_rows
from privot.errors import DataError, UsageError
from privot.guarantee import Guarantee
from privot.jobs.estimator import NotFittedError, PrivateEstimator
from privot.jobs.home import Spent
from privot.jobs.job import NAME, Job
from privot.mechanisms.mechanism import Facts
from privot.release import Release
from privot.synthesis.design import facts_of
from privot.synthesis.fitted import FittedGenerator, FittedTable
from privot.tables.codec import TableCodec
from privot.vault import Vault
from privot.vault.stream import Stream

_ROWS = 2048


class DomainAdapter(PrivateEstimator):
    """A classifier for private unlabelled records, from public labelled ones, under (ε, δ).

    Call `fit(vault, (x, y))`, then `predict(rows)`.

    Parameters
    ----------
    epsilon, delta
        The budget of everything that is released. The adjacency is the vault's: replace-one; of a vault with a unit
        add-remove, for the methods "stand-in" and "embedding".
    method
        "stand-in", "embedding", "sliced" (DP-SWD) or "dp-dann", which are proven; "published", which is not; or
        "source", which uses no target. By default "stand-in" for images and tables, and "embedding" for vectors.
    network
        "digits", "features" or the import path of your own ("package.module:function"); chosen by default.
    shape
        The public shape of an image, the same for both domains; None for vectors.
    low, high
        The public range of values, the same for both domains.
    codec
        With a `TableCodec` both domains are tables with its columns, the label missing in the target. The method must
        be "stand-in", and the vault holds the target without the label: `Vault.open(file,
        schema.without_label(), …)`. Source and rows to predict are `Table` objects; the source may be a file's path.
    settings
        An `AdaptationConfig` that replaces the default one; it is recorded either way.
    device
        "auto", "cpu" or "cuda".
    seed
        Makes everything but the privacy noise repeatable.
    allow_unproven
        Allows releases that no theorem covers.

    Attributes
    ----------
    networks_, design_, losses_
        After `fit`: the trained networks, the design made before anything was paid, and the losses of training.
    guarantee_
        What was spent; None where nothing was released.
    charged_, lost_
        The number of blocks that were charged, and how many of them were lost.
    """

    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float = 1e-5,
        *,
        method: str | None = None,
        network: str | None = None,
        shape: Sequence[int] | None = None,
        low: float = 0.0,
        high: float = 1.0,
        codec: TableCodec | None = None,
        settings: AdaptationConfig | None = None,
        device: str = "auto",
        seed: int | None = None,
        allow_unproven: bool = False,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.method = method
        self.network = network
        self.shape = shape
        self.low = low
        self.high = high
        self.codec = codec
        self.settings = settings
        self.device = device
        self.seed = seed
        self.allow_unproven = allow_unproven

    def design(self, facts: Facts, source: Source, *, by_request: bool = False) -> AdaptationDesign:
        """What would be released and trained, from public facts and the public source; costs nothing.

        `by_request` the release is one that an `AdaptationRequest` can ask for.
        """
        return self._terms.plan(facts, source, by_request=by_request)

    @property
    def asked(self) -> dict[str, Any]:
        """What is asked for, as a job in a folder says it."""
        return self._terms.to_dict()

    @property
    def _terms(self) -> AdaptationTerms:
        """The parameters that decide the design, frozen."""
        return AdaptationTerms(**{name: getattr(self, name) for name in AdaptationTerms.__dataclass_fields__})

    def fit(
        self,
        vault: Vault,
        source: Source,
        *,
        folder: str | Path | None = None,
        pay_again: bool = False,
        progress: Progress | bool | None = None,
    ) -> DomainAdapter:
        """Pay for what the method needs and train on it. For a stream that somebody else paid for: `fit_stream`.

        Parameters
        ----------
        vault
            Holds the private target; only its public facts and its releases are used.
        source
            The public pair (x, y): rows of shape (n, dim) and whole labels from 0 of shape (n,); with a `codec` a
            `Table`, or the path of one.
        folder
            Where what was paid for and learned is kept. Called again with the same arguments after a kill, `fit`
            continues from there and pays for nothing twice, provided the vault pays from a ledger. With other
            arguments, another source, another ledger or other records it refuses.
        pay_again
            Allows a second charge where a release was lost between its charge and the disk.
        progress
            Called with (step, steps, loss). True prints a plain line every few seconds, in notebooks as in terminals.

        Raises
        ------
        BudgetError
            The budget does not cover the first block: nothing was paid.
        LostReleaseError
            An earlier process was killed between a charge and its release, and `pay_again` is not set.
        """
        facts, progress = facts_of(vault), as_progress(progress, "adaptation")
        if folder is not None:
            job = self._job(Path(folder), vault, facts, source)
            return self.run(
                job, source, lambda: vault, vault.charges, ledger=vault.ledger, pay_again=pay_again, progress=progress
            )
        learner = self._learner(self.design(facts, source), source)
        return self._finished(PaidTraining(learner, lambda: vault, allow_unproven=self.allow_unproven), progress)

    def _job(self, folder: Path, vault: Vault, facts: Facts, source: Source) -> Job:
        """The job in `folder`, which must have been started with the same arguments; a new job if there is none."""
        asked = self._terms.to_dict()
        if not (folder / NAME).exists():
            design = self.design(facts, source).to_dict()
            return Job.start(folder, {"asked": asked, "design": design, "ledger": vault.ledger})
        job = Job.open(folder)
        found, designed = job.settings.get("asked"), job.settings.get("design")
        if not isinstance(found, dict) or not isinstance(designed, dict) or "request" in job.settings:
            raise DataError(f"{folder / NAME} does not describe an adaptation: choose another folder.")
        try:
            found = asked_of(job.settings)
        except (KeyError, TypeError, ValueError, AttributeError):
            raise DataError(f"{folder / NAME} does not describe an adaptation: choose another folder.") from None
        if self.seed is None:
            # not given then and not given now: the seed drawn then is kept
            asked = {**asked, "seed": found.get("seed")}
        job.check_same(asked, found)
        return job

    def fit_stream(
        self, stream: Stream, facts: Facts, source: Source, *, progress: Progress | None = None
    ) -> DomainAdapter:
        """Train on a stream of projected representations, paid for by the vault's holder, until it is used up."""
        design = self.design(facts, source)
        if design.settings.method != "sliced":
            raise UsageError("A stream answers with projections: use the method sliced.")
        design = paid_elsewhere(design, stream.guarantee, stream.steps)
        learner = Learner(design, *self._terms.rows(source), usable_device(self.device, auto=True))
        learner.public_steps(design.settings.warmup, progress, None)
        learner.run_block(stream, None, lambda release: None, progress)
        learner.public_steps(learner.total, progress, None)
        self._use(design, learner)
        self.guarantee_, self.charged_, self.lost_ = stream.guarantee, 1, 0
        return self

    def baseline(self, facts: Facts, source: Source, *, progress: Progress | None = None) -> DomainAdapter:
        """The same networks trained on the public source alone, for as many steps: what adaptation has to beat.

        It needs no vault and releases nothing. `facts` are the public facts of the target, as for `design`; after `fit`
        the settings are those of the fit.
        """
        design = self.design_ if self.__sklearn_is_fitted__() else self.design(facts, source)
        settings = replace(design.settings, method="source")
        alone = DomainAdapter(
            self.epsilon, self.delta, method="source", network=self.network, shape=self.shape, low=self.low,
            high=self.high, settings=settings, device=self.device, seed=design.seed,
        )  # fmt: skip
        learner = alone._learner(alone.design(facts, source), source)
        return alone._finished(PaidTraining(learner, _no_vault), progress)

    def run(
        self,
        job: Job,
        source: Source,
        open_vault: Callable[[], Vault],
        spent: Spent,
        *,
        ledger: str | None = None,
        pay_again: bool = False,
        progress: Progress | None = None,
        every: float = EVERY_SECONDS,
    ) -> DomainAdapter:
        """Run or resume `job` to its end; the vault is opened only if something has to be paid.

        `spent`(mark) returns the number of charges with that mark in the ledger that has the identity `ledger`.
        """
        design = AdaptationDesign.from_dict(job.settings.get("design", {}))
        if job.settings.get("ledger") not in (None, ledger):
            raise DataError(f"The job in {job.folder} pays from another ledger: continue with that one.")
        check_known(design.networks["kind"], self.network)
        with job.alone():
            learner = self._learner(design, source, job.folder)
            training = PaidTraining(learner, open_vault, job, spent, pay_again, self.allow_unproven, every)
            return self._finished(training, progress)

    def learn(
        self,
        job: Job,
        release: Release,
        source: Source,
        *,
        progress: Progress | None = None,
        every: float = EVERY_SECONDS,
    ) -> DomainAdapter:
        """Run or resume `job` on its one release, which the holder of the records paid for (`adaptation_answer`).

        The classifier is the one that `run` would have trained on the same release.
        """
        # σ as it was computed there, which may differ by a rounding
        design = replace(
            AdaptationDesign.from_dict(job.settings.get("design", {})), sigma=float(release.public["sigma"])
        )
        check_known(design.networks["kind"], self.network)
        with job.alone():
            learner, kept = self._learner(design, source, job.folder), kept_release(job, 0)
            if kept.exists() and Release.load(kept, inside=job.folder).digest() != release.digest():
                raise DataError(f"The job in {job.folder} learns from another answer: continue with that one.")
            release.save(kept)
            training = PaidTraining(
                learner, _no_vault, job, lambda mark: 1, checkpoint_interval=every, block=release.guarantee
            )
            return self._finished(training, progress)

    def rehearse(self, design: AdaptationDesign, source: Source) -> None:
        """Refuse a design that could not be trained or costs more than `epsilon`, before anything is asked or paid."""
        learner = self._learner(design, source)
        learner.rehearse(learner.mechanism())

    def _learner(self, design: AdaptationDesign, source: Source, folder: Path | None = None) -> AnyLearner:
        """Networks ready to train; refuses, before anything is paid, a design that costs more than `epsilon`, and a
        source that `design` was not made for.
        """
        if (None if design.table is None else design.table.get("codec")) != (
            None if self.codec is None else self.codec.to_dict()
        ):
            raise DataError("The job was started with another schema: continue with that one.")
        x, y = self._terms.rows(source)
        design.check_source(x, y)
        device = usable_device(self.device, auto=True)
        learner: AnyLearner
        if design.table is not None:
            learner = TableLearner(design, x, y, device, folder)
        elif design.settings.method == "stand-in":
            learner = StandInLearner(design, x, y, device, folder)
        else:
            learner = Learner(design, x, y, device)
        if design.sigma is not None or design.table is not None:
            cost = account(design.cost(learner.mechanism(), design.settings.blocks), design.delta)
            # written so that a NaN is refused; the slack is that of the search for σ
            if (design.epsilon, design.delta) != (self.epsilon, self.delta) or not cost.epsilon() <= self.epsilon * (
                1.0 + 1e-9
            ):
                raise DataError(
                    f"The noise that was decided on costs ε = {cost.epsilon():.6g} at δ = {design.delta:g}, not the "
                    f"ε = {self.epsilon:g} at δ = {self.delta:g} that were requested: nothing was paid."
                )
        return learner

    def _finished(self, training: PaidTraining, progress: Progress | None) -> DomainAdapter:
        guarantee = training.run(progress)
        self._use(training.learner.design, training.learner)
        self.guarantee_, self.charged_, self.lost_ = guarantee, training.charged, training.lost
        return self

    def _use(self, design: AdaptationDesign, learner: AnyLearner) -> None:
        self.design_, self.networks_ = design, learner.networks.eval()
        self.stand_in_ = None if isinstance(learner, Learner) else learner.generator
        self.checks_ = None if isinstance(learner, Learner) else learner.checks
        self.losses_, self.change_, self.fitted_ = learner.losses, learner.change, learner.fitted

    def __sklearn_is_fitted__(self) -> bool:
        """Whether `predict` works."""
        return hasattr(self, "networks_")

    def _check_fitted(self) -> None:
        if not self.__sklearn_is_fitted__():
            raise NotFittedError("This DomainAdapter is not fitted yet: call fit or load first.")

    def predict_proba(self, x: Any) -> NDArray[np.float64]:
        """The probability of every class, of shape (rows, classes).

        `x` holds rows of shape (n, dim); with a `codec` it may be a `Table`, whose label is not read.
        """
        self._check_fitted()
        if self.codec is not None and isinstance(x, Mapping):
            x = cell_rows(unlabelled_rows(x, self.codec), self.codec)
        rows = checked_rows(x)
        if rows.shape[1] != self.networks_.columns:
            raise DataError(f"A record has {self.networks_.columns} columns, these have {rows.shape[1]}.")
        device = next(self.networks_.parameters()).device
        parts = []
        with torch.no_grad():
            for start in range(0, len(rows), _ROWS):
                part = torch.as_tensor(rows[start : start + _ROWS], dtype=torch.float32, device=device)
                parts.append(torch.softmax(self.networks_(part), dim=1).double().cpu().numpy())
        return np.concatenate(parts)

    def predict(self, x: Any) -> NDArray[np.int64]:
        """The class of every row; class i of a table is `codec.schema.classes[i]`."""
        return np.asarray(self.predict_proba(x).argmax(axis=1), dtype=np.int64)

    def score(self, x: Any, y: Any) -> float:
        """The accuracy on labelled rows: use a held-out test set, never the one used for alignment."""
        return float(np.mean(self.predict(x) == np.asarray(y)))

    def save(self, folder: str | Path) -> None:
        """Write model.safetensors, config.json and guarantee.json: all that predicting needs."""
        self._check_fitted()
        adapted = Adapted(self.design_, self.guarantee_, self.losses_, self.charged_, self.lost_)
        adapted.checks = self.checks_
        write_model(Path(folder), adapted, self.networks_)

    @classmethod
    @declared(folder="path")
    def load(cls, folder: str | Path, device: str = "cpu", network: str | None = None) -> DomainAdapter:
        """Read what `save` or `privot adapt` wrote; needs no vault.

        A folder may name a network of your own ("package.module:function"). That code is only run where `network` says
        the same: a folder from elsewhere could name any.
        """
        adapted, networks = read_model(Path(folder), device, network)
        design = adapted.design
        config = design.networks
        made = cls(
            design.epsilon, design.delta, method=design.settings.method, network=config["kind"], shape=config["shape"],
            low=config["low"], high=config["high"], codec=design.codec(), settings=design.settings, device=device,
            seed=design.seed,
        )  # fmt: skip
        made.design_, made.networks_, made.guarantee_ = design, networks, adapted.guarantee
        made.losses_, made.charged_, made.lost_ = adapted.losses, adapted.charged, adapted.lost
        made.checks_, made.stand_in_ = adapted.checks, None
        return made

    guarantee_: Guarantee | None
    networks_: Networks | Committee
    stand_in_: FittedGenerator | FittedTable | None
    checks_: Checks | TableChecks | None
    design_: AdaptationDesign
    losses_: list[float]
    charged_: int
    lost_: int


def _no_vault() -> Vault:
    raise UsageError("A training on an answer has no vault to ask.")
