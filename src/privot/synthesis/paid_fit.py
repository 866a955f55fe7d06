"""How a synthesizer pays and trains: a vault goes in, releases are charged, their outcome is kept; it sees no record.

It connects the parts: a frozen config (`config`), a design made from it (`planner`), a method that runs the design
(`methods`), and a run that charges and keeps (`privot.jobs.run`). With a folder it is a job, which a second call
with the same arguments continues.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any, Self

from privot.common.devices import usable_device
from privot.common.progress_lines import as_progress
from privot.errors import DataError, UsageError
from privot.jobs.estimator import PrivateEstimator
from privot.jobs.home import Memory
from privot.jobs.job import NAME, Job, private_job
from privot.jobs.run import Plan, Run
from privot.kinds import Kind, Vectors, as_kind
from privot.kinds.kind_registry import kind_of_params
from privot.mechanisms.mechanism import Facts
from privot.synthesis.config import SynthesisConfig
from privot.synthesis.design import Design, facts_of
from privot.synthesis.job_files import BEFORE, LABELS, MADE
from privot.synthesis.method_configs import MethodConfig
from privot.synthesis.methods.method import Outcome, SynthesisRun
from privot.synthesis.neural.generator_training import checkpoint
from privot.synthesis.neural.generator_training.distributed import ALONE, Team
from privot.synthesis.neural.generator_training.training_state import Progress
from privot.synthesis.neural.public.public_images import check_given
from privot.synthesis.of_kind import output_of
from privot.synthesis.planner import method_of, plan, read_design
from privot.transport.slice_directions import check_seed
from privot.vault import Vault


class PaidFit(PrivateEstimator):
    """The part of a `Synthesizer` that plans, pays and trains; the parameters are the synthesizer's."""

    epsilon: float
    delta: float
    method: str | MethodConfig
    kind: Any
    records: int | None
    device: str
    seed: int | None
    allow_unproven: bool
    kind_: Kind
    outcome_: Outcome

    @property
    def config(self) -> SynthesisConfig:
        """What is asked for, frozen, of records of their kind."""
        return self._config(self._kind)

    @property
    def _kind(self) -> Kind:
        """The kind of the records: that of the vault, job or folder that was read, else the one that was told."""
        found: Kind | None = getattr(self, "kind_", None)
        return found or (Vectors() if self.kind is None else as_kind(self.kind))

    def _config(self, kind: Kind) -> SynthesisConfig:
        named = isinstance(self.method, str)
        name, asked = (self.method, MethodConfig()) if named else (self.method.name, self.method)  # type: ignore[union-attr]
        same = {field: getattr(self, field) for field in ("epsilon", "delta", "records", "device", "seed")}
        return SynthesisConfig(method=name, asked=asked, kind=kind, allow_unproven=self.allow_unproven, **same)  # type: ignore[arg-type]

    def _meet(self, kind: Kind) -> None:
        """Use the kind that a vault or a job states from now on; refuses another one than was asked for."""
        if self.kind is not None:
            asked = as_kind(self.kind)
            # an array in a vault may say no more than that it holds vectors
            if type(kind) is Vectors and kind.plain:
                kind = asked
            elif kind.to_params() != asked.to_params():
                raise UsageError(
                    f"The vault holds records of the kind {kind.name}, stated otherwise than the synthesizer was told: "
                    "leave kind out."
                )
        self.kind_ = kind

    def design(self, facts: Facts, kind: Any = None) -> Any:
        """What would be released and trained, from public facts alone; costs nothing.

        `kind` is that of the records with these `facts` (`vault.kind`); the synthesizer's own unless given.
        """
        return plan(self._config(self._kind if kind is None else as_kind(kind)), facts)

    def fit(
        self,
        vault: Vault,
        *,
        folder: str | Path | None = None,
        pay_again: bool = False,
        progress: Progress | bool | None = None,
    ) -> Self:
        """Pay for releases and train on them.

        Parameters
        ----------
        vault
            Holds the records; only its public facts and its releases are used.
        folder
            Where what was paid for and learned is kept. Called again with the same arguments after a kill, `fit`
            continues from there and pays for nothing twice, provided the vault pays from a ledger: a budget in memory
            is forgotten with its process. With other arguments, another ledger or other records it refuses. Without a
            folder, what a ledger paid for is kept beside it until `fit` ends.
        pay_again
            Allows a second charge where a release was lost between its charge and the disk.
        progress
            Called with (step, steps, loss). True prints a plain line every few seconds, in notebooks as in terminals.

        Raises
        ------
        BudgetError
            The budget does not cover the releases: nothing was paid.
        LostReleaseError
            An earlier process was killed between a charge and its release, and `pay_again` is not set.
        """
        facts, progress = facts_of(vault), as_progress(progress, "training")
        self._meet(vault.kind)
        with nullcontext(folder) if folder is not None else self._place(vault) as place:
            home = Memory() if place is None else self._job(Path(place), vault, facts)
            run = Run(home, lambda: vault, vault.charges, vault.ledger, pay_again)
            return self.run(run, progress=progress)._in_form_of(vault)

    def _place(self, vault: Vault) -> AbstractContextManager[Path | None]:
        """Where a fit without a folder keeps what a ledger pays for until it ends; a budget in memory keeps nothing."""
        if not isinstance(vault, Vault) or vault.ledger_file is None:
            return nullcontext()
        config = self.config
        # the name is made of what was asked for, before a design refuses what cannot be
        check_given(config.public, config.shape)
        more = [None if given is None else given.to_dict() for given in (config.rules, config.features)]
        return private_job(vault, config.to_dict(), self.seed, more)

    def _in_form_of(self, vault: Vault) -> Self:
        """Samples come in the form that the records came in, which is public."""
        if self.outcome_.fitted is not None:
            self.outcome_.fitted.form = vault.kind.form
        return self

    def run(
        self,
        run: Run,
        *,
        progress: Progress | None = None,
        every: float = checkpoint.EVERY_SECONDS,
        team: Team = ALONE,
    ) -> Self:
        """Run or resume a job to its end; no other process can work on it meanwhile.

        The ledger of `run` must be the one that the job was started with, if it names one. `every` is the number of
        seconds between checkpoints.
        """
        device = usable_device(self.device, auto=True)
        if isinstance(run.home, Job):
            asked = run.home.settings
            if isinstance(params := asked.get("params"), dict):
                self._meet(kind_of_params(params))
            design = read_design(asked.get("design", {}), self.config, device)
            if asked.get("ledger") not in (None, run.ledger):
                raise DataError(f"The job in {run.folder} pays from another ledger: continue with that one.")
        else:
            design = self.design(run.open_vault().facts)
        config, run.plan = self.config, self._plan(design, device)
        with run.home.alone():
            for part in set(BEFORE) - set(design.parts):
                if run.has(part):
                    raise DataError(
                        f"The job in {run.folder} has a {part}.npz that its {NAME} does not mention: restore it."
                    )
            how: dict[str, Any] = {"progress": progress, "checkpoint_interval": every, "team": team}
            self._keep(method_of(config).run(SynthesisRun(config, design, run, device, self._keep, **how)))
        return self

    def _plan(self, design: Design, device: str) -> Plan:
        """Of every charge: what it is for, what is checked before it, and what is assumed of public images."""
        config = self.config

        def check(vault: Vault) -> None:
            design.check(vault.facts, self.epsilon, self.delta, device)
            # a resumed job pays anew, so the opt-in has to be given anew
            design.check_standing(self.allow_unproven)

        return Plan(
            f"synthesis by {config.method}",
            design.delta,
            self.allow_unproven,
            () if config.public is None else (config.public.assumption,),
            check,
            design.due if design.several else None,
            LABELS in design.parts,
            (*MADE, *output_of(self._kind).made_files(self._kind)),
            BEFORE,
        )

    def _keep(self, outcome: Outcome | None) -> None:
        """Use this outcome from now on; with None, the estimator is not fitted any more."""
        if outcome is not None:
            self.outcome_ = outcome
        elif hasattr(self, "outcome_"):
            del self.outcome_

    def _job(self, folder: Path, vault: Vault, facts: Facts) -> Job:
        """The job in `folder`, which must have been started with the same arguments; a new job if there is none."""
        if not (folder / NAME).exists():
            settings = {"params": self.config.to_dict(), "design": self.design(facts).to_dict()}
            return Job.start(folder, {**settings, "ledger": vault.ledger})
        job = Job.open(folder)
        stored, designed = job.settings.get("params"), job.settings.get("design")
        if not isinstance(stored, dict) or not isinstance(designed, dict):
            raise DataError(f"{folder / NAME} does not describe a synthesis: choose another folder.")
        config = self.config
        wanted, found = config.to_dict(), dict(stored)
        wanted["adjacency"], found["adjacency"] = str(facts.adjacency), designed.get("adjacency")
        # what was not given then was drawn or decided then, and is kept
        for name, given in (
            ("seed", None if self.seed is None else check_seed(self.seed)),
            ("rules", None if config.rules is None else _bare(config.rules.to_dict())),
            ("features", None if config.features is None else config.features.to_dict()),
        ):
            if given is not None:
                held = designed.get(name)
                wanted[name] = json.loads(json.dumps(given))
                found[name] = _bare(held) if name == "rules" and isinstance(held, dict) else held
        if found.get("public") is not None and config.public is None:
            raise UsageError(f"The job in {folder} was started with public images: give them again.")
        job.check_same(wanted, found)
        return job


def _bare(rules: Mapping[str, Any]) -> dict[str, Any]:
    """Rules as they were given: planning writes the cost of later releases into their options."""
    parts = ("choosing", "labelling", "public")
    options = rules.get("options") or {}
    if not isinstance(options, Mapping):
        # of a file: nobody gave such options, so they differ from all that are given
        return dict(rules)
    return {**rules, "options": {n: v for n, v in options.items() if n not in parts}}
