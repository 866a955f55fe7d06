"""Runs a training block by block, each block charged before its first release; it sees releases only.

The rules of `privot.jobs.blocks` hold. A block that was charged and is neither finished nor kept on disk is lost: it
counts in the guarantee, and it is not run again unless it is explicitly paid for again.
"""

from __future__ import annotations

import json
import time
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

from privot.accounting import account
from privot.accounting.events import Event, of_standing
from privot.adaptation.learner import Progress, TargetLearner
from privot.errors import DataError, LostReleaseError
from privot.guarantee import Guarantee, Standing
from privot.jobs.blocks import check_block, counted_anew
from privot.jobs.charges import check_charged
from privot.jobs.paid_file import PaidFile
from privot.jobs.run import Plan, Run
from privot.jobs.tensor_files import read_tensors, write_tensors
from privot.mechanisms import Mechanism
from privot.release import Release
from privot.synthesis.methods.outside import check_not_proven

CHECKPOINT = "checkpoint.safetensors"
EVERY_SECONDS = 60.0


@dataclass
class PaidTraining:
    """One training whose blocks are paid one by one through a run, and what was paid."""

    learner: TargetLearner
    paying: Run
    allow_unproven: bool = False
    checkpoint_interval: float = EVERY_SECONDS
    charged: int = 0
    lost: int = 0
    block: Guarantee | None = None
    """The guarantee of one block."""

    def __post_init__(self) -> None:
        design = self.learner.design
        self.paying.plan = Plan(
            f"adaptation by {design.settings.name}",
            design.delta,
            self.allow_unproven,
            check=lambda vault: design.check_facts(vault.facts),
        )

    def run(self, progress: Progress | None = None) -> Guarantee | None:
        """Train to the end; the guarantee of everything that was charged, None if nothing was charged."""
        learner = self.learner
        self._restore()
        last = [time.monotonic()]

        def keep(now: bool) -> None:
            if now or time.monotonic() - last[0] >= self.checkpoint_interval:
                self._keep()
                last[0] = time.monotonic()

        learner.before(progress, keep)
        for number in range(learner.done, learner.design.settings.blocks):
            self._block(number, progress)
        learner.after(progress, keep)
        self._keep()
        learner.networks.eval()
        return self.guarantee()

    def guarantee(self) -> Guarantee | None:
        """The guarantee of all charged blocks, lost ones included; None if none was charged."""
        design = self.learner.design
        if not self.charged:
            return None
        mechanism = self._mechanism()
        if self.block is None:
            self.block = account(of_standing(design.cost(mechanism, 1), mechanism.standing), design.delta)
        if self.block.standing is not Standing.PROVEN:
            # what makes one block unproven makes all of them unproven
            return self.block.compose(*[self.block] * (self.charged - 1)) if self.charged > 1 else self.block
        event = design.cost(mechanism, self.charged)
        return replace(account(event, design.delta), assumptions=self.block.assumptions)

    def _mechanism(self) -> Mechanism:
        """The mechanism of one block; one that came with another distribution may not call itself proven."""
        made = self.learner.mechanism()
        check_not_proven(self.learner.design.settings.name, made)
        return made

    @property
    def _mark(self) -> str:
        """The beginning of the marks of all blocks."""
        return f"{self.paying.home.any_mark}, block "

    def _prepared(self) -> Mechanism:
        """The mechanism of the next block, once all that can be refused is: the blocks to come are reserved."""
        # the weights of the query must be on disk after a kill
        self._keep()
        mechanism, design, vault = self._mechanism(), self.learner.design, self.paying.vault
        self.learner.rehearse(mechanism)
        left = design.settings.blocks - self.learner.done
        if left > 1:
            # whole, or the budget refuses them before one of them is paid
            event = of_standing(design.cost(mechanism, left), mechanism.standing)
            blocks = f"{self._mark}s {self.learner.done + 1} to {design.settings.blocks})"
            purpose = f"{self.paying.plan.purpose} {blocks}"
            vault.reserve(event, purpose=purpose, mark=self._mark, allow_unproven=self.allow_unproven)
        return mechanism

    def _block(self, number: int, progress: Progress | None) -> None:
        """Run or resume one block."""
        learner, paying, part = self.learner, self.paying, f"block {number + 1}"
        alone = learner.design.settings.releases_per_block == 1
        file = paying.home.file(part) if alone else None
        there, paid = file is not None and file.path.exists(), paying.charged(part)
        try:
            if paid and not there and not paying.pay_again and not self._remade(file):
                raise paying.home.lost(part)
            if file is not None and (there or paying.vault.repeats(self._mechanism())):
                self._repeated_block(file, part, progress)
            else:
                self._streamed_block(file, part, progress)
        except LostReleaseError:
            if learner.design.settings.blocks == 1:
                raise
            learner.done, self.lost = number + 1, self.lost + 1
        self._keep()
        if file is not None and not learner.keeps_release:
            file.path.unlink(missing_ok=True)

    def _remade(self, file: PaidFile | None) -> bool:
        """Whether the release of a charged block can be made again for no charge; no vault is opened without a salt."""
        return file is not None and file.again.exists() and file.remade(self.paying.vault, self._mechanism())

    def _repeated_block(self, file: PaidFile, part: str, progress: Progress | None) -> None:
        """A block of one release that is on disk, or that a kill cannot lose."""

        def check(release: Release) -> None:
            check_block(release.guarantee, self._one_block())

        try:
            kept, _ = self.paying.release(self._prepared, check, part)
        except OSError as error:
            if not self.paying.charged(part):
                raise
            raise _unwritten(file, error) from None
        self._count()
        self.block = self.block or kept.guarantee
        self.learner.run_block(None, kept, lambda release: None, progress)

    def _streamed_block(self, file: PaidFile | None, part: str, progress: Progress | None) -> None:
        """A block of a stream; an interrupt waits from the charge until its releases are kept or used."""
        mechanism = self._prepared()
        with ExitStack() as held:
            stream = held.enter_context(self.paying.block(mechanism, part))
            self._count()
            self.block = stream.guarantee

            def save(release: Release) -> None:
                if file is None:
                    return
                try:
                    file.write(release, file.path)
                except OSError as error:
                    raise _unwritten(file, error) from None
                # kept: from here on an interrupt loses nothing
                held.close()

            self.learner.run_block(stream, None, save, progress)

    def _count(self) -> None:
        """How many blocks were charged, as the ledger says it."""
        self.charged = self.paying.spent(self._mark)

    def _one_block(self) -> Event:
        return self.learner.design.cost(self._mechanism(), 1)

    def _restore(self) -> None:
        folder = self.paying.folder
        if folder is None:
            return
        self._count()
        path = folder / CHECKPOINT
        if path.exists():
            tensors, facts = read_tensors(path)
            if facts.get("job") != self.paying.name:
                raise DataError(f"{path} belongs to another job: remove it.")
            self.learner.restore(tensors, facts)
            self.lost = int(facts["lost"])
            if facts["block"] is not None:
                self.block = counted_anew(json.dumps(facts["block"]))
                check_block(self.block, self._one_block())
        if self.charged:
            # the guarantee counts the design's event for every block, lost ones included
            check_charged(self.charged, self._one_block(), folder, all_of_them=True)
        # lost blocks were charged too
        if self.learner.done > self.charged:
            raise DataError(f"{path} lists more blocks than the ledger was charged for: restore both from a backup.")

    def _keep(self) -> None:
        if self.paying.folder is None:
            return
        tensors, facts = self.learner.state()
        block = None if self.block is None else self.block.to_dict()
        path: Path = self.paying.folder / CHECKPOINT
        write_tensors(path, tensors, {**facts, "job": self.paying.name, "lost": self.lost, "block": block})


def _unwritten(file: PaidFile, error: OSError) -> DataError:
    """The sentence for a release that was paid for and could not be written."""
    what = "run it again, which costs nothing more" if file.again.exists() else "this release is lost, its charge stays"
    return DataError(f"{file.path} could not be written ({error.strerror}): {what}.")
