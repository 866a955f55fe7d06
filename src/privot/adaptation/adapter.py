"""The estimator of adaptation: from unlabelled private records in a vault and a public labelled source to a classifier
with a guarantee; it never sees a private record.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from privot.accounting import account
from privot.adaptation.adaptation_config import AdaptationConfig
from privot.adaptation.adaptation_design import AdaptationDesign
from privot.adaptation.adaptation_methods import (
    METHODS,
    method_named,
    method_of,
    read_design,
    source_alone,
    usual_method,
)
from privot.adaptation.adaptation_methods.adaptation_method import AdaptationMethod
from privot.adaptation.adaptation_terms import AdaptationTerms, Source, asked_of
from privot.adaptation.learner import Progress, TargetLearner
from privot.adaptation.model_folder import Adapted, read_model, write_model
from privot.adaptation.networks import Committee, Networks, check_known
from privot.adaptation.paid_training import EVERY_SECONDS, PaidTraining
from privot.common.arguments import check_delta, check_epsilon
from privot.common.declared import declared
from privot.common.devices import usable_device
from privot.common.progress_lines import as_progress
from privot.errors import DataError, UsageError
from privot.guarantee import Guarantee
from privot.jobs.estimator import NotFittedError, PrivateEstimator
from privot.jobs.home import Memory
from privot.jobs.job import NAME, Job
from privot.jobs.run import Run
from privot.kinds import Kind, Vectors, as_kind
from privot.mechanisms.mechanism import Facts
from privot.release import Release
from privot.synthesis.design import facts_of
from privot.synthesis.fitted import FittedGenerator, FittedTable
from privot.synthesis.methods.outside import check_not_proven
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
        "stand-in", "embedding" or "sliced" (DP-SWD), the name of a method that another package brings, or "source",
        which uses no target; or what a method is asked for, such as `Sliced(blocks=4)`: what that leaves out is chosen
        from public facts. By default "stand-in" for images and tables, and "embedding" for vectors.
    network
        "digits", "features", "images" or the import path of your own ("package.module:function"); chosen by default.
    kind
        What the records of both domains are (`privot.kinds`): shape and range. It is left out where a vault is given
        that knows. Of tables it is the schema *with* the label, which only the source has: the vault holds the target
        without it, `Vault.open(file, schema.without_label(), …)`. Source and rows to predict are then `Table` objects,
        and the source may be a file's path.
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
    kind_
        What the records are, label included.
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
        method: str | AdaptationConfig | None = None,
        network: str | None = None,
        kind: Any = None,
        device: str = "auto",
        seed: int | None = None,
        allow_unproven: bool = False,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.method = method
        self.network = network
        self.kind = kind
        self.device = device
        self.seed = seed
        self.allow_unproven = allow_unproven

    def design(self, facts: Facts, source: Source, *, by_request: bool = False) -> AdaptationDesign:
        """What would be released and trained, from public facts and the public source; costs nothing.

        `by_request` the release is one that an `AdaptationRequest` can ask for.
        """
        check_epsilon(self.epsilon), check_delta(self.delta)
        method, terms = self._method, self._terms
        method.check_allowed(self.allow_unproven)
        design = method.plan(terms, facts, *method.source(source, terms.kind), by_request=by_request)
        if not METHODS.is_own(terms.asked.name):
            # what came with another distribution is tried before anything is begun
            self._learner(design, source)
        return design

    @property
    def asked(self) -> dict[str, Any]:
        """What is asked for, as a job in a folder says it."""
        return self._terms.to_dict()

    @property
    def _kind(self) -> Kind:
        """The kind of the records: that of the vault, job or folder that was read, else the one that was told."""
        found: Kind | None = getattr(self, "kind_", None)
        return found or (Vectors() if self.kind is None else as_kind(self.kind))

    def _meet(self, kind: Kind) -> None:
        """Use the kind that a vault or a design states from now on; refuses another one than was asked for.

        A vault of an array states nothing, and the target's table has no label.
        """
        if self.kind is None:
            self.kind_ = kind
        elif type(kind) is Vectors and kind.plain:
            self.kind_ = as_kind(self.kind)
        else:
            asked = as_kind(self.kind)
            if asked.unlabelled().to_params() != kind.unlabelled().to_params():
                raise UsageError(
                    f"The vault holds records of the kind {kind.name}, stated otherwise than the adapter was told: "
                    "leave kind out, or of a table give the vault's schema with the label."
                )
            self.kind_ = asked

    @property
    def _method(self) -> AdaptationMethod:
        """The method that is asked for."""
        return method_named(self._terms.asked.name, self._kind)

    @property
    def _terms(self) -> AdaptationTerms:
        """The parameters that decide the design, frozen."""
        kind, asked = self._kind, self.method
        if not isinstance(asked, AdaptationConfig):
            asked = method_named(usual_method(kind) if asked is None else asked, kind).config()
        return AdaptationTerms(self.epsilon, self.delta, asked, self.network, kind, self.device, self.seed)

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
            The public pair (x, y): rows of shape (n, dim) and whole labels from 0 of shape (n,); for tables a `Table`,
            or the path of one.
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
        self._meet(vault.kind)
        home = Memory() if folder is None else self._job(Path(folder), vault, facts, source)
        return self.run(Run(home, lambda: vault, vault.charges, vault.ledger, pay_again), source, progress=progress)

    def _job(self, folder: Path, vault: Vault, facts: Facts, source: Source) -> Job:
        """The job in `folder`, which must have been started with the same arguments; a new job if there is none."""
        if not (folder / NAME).exists():
            design = self.design(facts, source).to_dict()
            return Job.start(folder, {"asked": self.asked, "design": design, "ledger": vault.ledger})
        job = Job.open(folder)
        self.check_same(job)
        return job

    def check_same(self, job: Job, typed: Mapping[str, Any] | None = None) -> None:
        """Refuse to continue a job that was not begun with these parameters.

        `typed` is what a command is told beside them; of a job that was begun from Python the vault says it.
        """
        wrong = DataError(
            f"The job in {job.folder} does not describe an adaptation that a ledger pays for: choose another folder."
        )
        if "request" in job.settings:
            raise UsageError(f"The job in {job.folder} waits for an answer to its request: use privot adapt --answer.")
        if not all(isinstance(job.settings.get(name), dict) for name in ("asked", "design")):
            raise wrong
        try:
            found = asked_of(job.settings)
        except (KeyError, TypeError, ValueError, AttributeError):
            raise wrong from None
        asked, given = self.asked, self._terms.asked.given()
        then, decided = found.get("settings") or {}, job.settings["design"].get("settings", {})
        # an earlier version wrote all settings, whether they were stated or chosen
        whole = {f.name for f in fields(self._method.config)} <= then.keys()
        stated = whole or then.keys() <= {"method", *given}
        if stated and all(decided.get(name) == value for name, value in given.items()):
            # more may be stated now, if it is what was decided then
            asked["settings"] = found.get("settings")
        if self.seed is None:
            # not given then and not given now: the seed drawn then is kept
            asked["seed"] = found.get("seed")
        if "classes" in found:
            asked |= typed or {}
        job.check_same(asked, found)

    def fit_stream(
        self, stream: Stream, facts: Facts, source: Source, *, progress: Progress | None = None
    ) -> DomainAdapter:
        """Train on a stream of projected representations, paid for by the vault's holder, until it is used up."""
        method = self._method
        design = method.paid_elsewhere(self.design(facts, source), stream.guarantee, stream.steps)
        learner = method.learner(
            design, *method.source(source, self._kind), usable_device(self.device, auto=True), None
        )
        learner.before(progress, None)
        learner.run_block(stream, None, lambda release: None, progress)
        learner.after(progress, None)
        self._use(design, learner)
        self.guarantee_, self.charged_, self.lost_ = stream.guarantee, 1, 0
        return self

    def baseline(self, facts: Facts, source: Source, *, progress: Progress | None = None) -> DomainAdapter:
        """The same networks trained on the public source alone, for as many steps: what adaptation has to beat.

        It needs no vault and releases nothing. `facts` are the public facts of the target, as for `design`; after `fit`
        the settings are those of the fit.
        """
        design = self.design_ if self.__sklearn_is_fitted__() else self.design(facts, source)
        alone = DomainAdapter(
            self.epsilon, self.delta, method=source_alone.Source.like(design.settings), kind=self._kind,
            network=design.networks["kind"], device=self.device, seed=design.seed,
        )  # fmt: skip
        learner = alone._learner(alone.design(facts, source), source)
        return alone._finished(PaidTraining(learner, Run(Memory(), _no_vault, lambda mark: 0)), progress)

    def run(
        self, run: Run, source: Source, *, progress: Progress | None = None, every: float = EVERY_SECONDS
    ) -> DomainAdapter:
        """Run or resume a job to its end; no other process can work on it meanwhile.

        The ledger of `run` must be the one that the job was started with, if it names one. `every` is the number of
        seconds between checkpoints.
        """
        if isinstance(run.home, Job):
            design = self._designed(run.home)
            if run.home.settings.get("ledger") not in (None, run.ledger):
                raise DataError(f"The job in {run.folder} pays from another ledger: continue with that one.")
        else:
            design = self.design(run.open_vault().facts, source)
        with run.home.alone():
            learner = self._learner(design, source, run.folder)
            return self._finished(PaidTraining(learner, run, self.allow_unproven, every), progress)

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
        design = replace(self._designed(job), sigma=float(release.public["sigma"]))
        with job.alone():
            learner, kept = self._learner(design, source, job.folder), job.file("block 1").path
            if kept.exists() and Release.load(kept, inside=job.folder).digest() != release.digest():
                raise DataError(f"The job in {job.folder} learns from another answer: continue with that one.")
            release.save(kept)
            paid = Run(job, _no_vault, lambda mark: 1)
            training = PaidTraining(learner, paid, checkpoint_interval=every, block=release.guarantee)
            return self._finished(training, progress)

    def _designed(self, job: Job) -> AdaptationDesign:
        """What `job` decided; its kind is used from now on, and its network if the same was asked for."""
        design = read_design(job.settings.get("design", {}))
        check_known(design.networks["kind"], self.network)
        self._meet(design.kind)
        return design

    def rehearse(self, design: AdaptationDesign, source: Source) -> None:
        """Refuse a design that could not be trained or costs more than `epsilon`, before anything is asked or paid."""
        learner = self._learner(design, source)
        learner.rehearse(learner.mechanism())

    def _learner(self, design: AdaptationDesign, source: Source, folder: Path | None = None) -> TargetLearner:
        """Networks ready to train; refuses, before anything is paid, a design that costs more than `epsilon`, and a
        source that `design` was not made for.
        """
        method = method_of(design)
        x, y = method.source(source, design.kind)
        design.check_source(x, y)
        learner = method.learner(design, x, y, usable_device(self.device, auto=True), folder)
        if design.settings.blocks:
            mechanism = learner.mechanism()
            check_not_proven(design.settings.name, mechanism)
            cost = account(design.cost(mechanism, design.settings.blocks), design.delta)
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

    def _use(self, design: AdaptationDesign, learner: TargetLearner) -> None:
        self.design_, self.networks_, self.kind_ = design, learner.networks.eval(), design.kind
        self.stand_in_, self.checks_ = learner.generator, learner.checks
        self.losses_, self.change_, self.fitted_ = learner.losses, learner.change, learner.fitted

    def __sklearn_is_fitted__(self) -> bool:
        """Whether `predict` works."""
        return hasattr(self, "networks_")

    def _check_fitted(self) -> None:
        if not self.__sklearn_is_fitted__():
            raise NotFittedError("This DomainAdapter is not fitted yet: call fit or load first.")

    def predict_proba(self, x: Any) -> NDArray[np.float64]:
        """The probability of every class, of shape (rows, classes).

        `x` holds rows of shape (n, dim); for tables it may be a `Table`, whose label is not read.
        """
        self._check_fitted()
        rows = method_of(self.design_).rows(x, self.design_.kind)
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
        """The class of every row; class i of a table is `schema.classes[i]`."""
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
        made = cls(
            design.epsilon, design.delta, method=design.settings, network=design.networks["kind"], kind=design.kind,
            device=device, seed=design.seed,
        )  # fmt: skip
        made.kind_ = design.kind
        made.design_, made.networks_, made.guarantee_ = design, networks, adapted.guarantee
        made.losses_, made.charged_, made.lost_ = adapted.losses, adapted.charged, adapted.lost
        made.checks_, made.stand_in_ = adapted.checks, None
        return made

    guarantee_: Guarantee | None
    networks_: Networks | Committee
    stand_in_: FittedGenerator | FittedTable | None
    checks_: Any
    kind_: Kind
    design_: AdaptationDesign
    losses_: list[float]
    charged_: int
    lost_: int


def _no_vault() -> Vault:
    raise UsageError("A training on an answer has no vault to ask.")
