"""Runs a training block by block, each block charged before its first release; it sees releases only.

The rules of `privot.jobs.blocks` hold. A block that was charged and is neither finished nor kept on disk is lost: it
counts in the guarantee, and it is not run again unless it is explicitly paid for again.
"""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path

from privot.accounting import account
from privot.accounting.events import of_standing
from privot.adaptation.learner import Progress, TargetLearner
from privot.common.interruption import finishing
from privot.errors import DataError, LostReleaseError
from privot.guarantee import Guarantee, Standing
from privot.jobs.blocks import check_block, counted_anew, paid_block
from privot.jobs.charges import check_charged, counted
from privot.jobs.home import Spent
from privot.jobs.job import Job
from privot.jobs.paid_file import PaidFile
from privot.jobs.tensor_files import read_tensors, write_tensors
from privot.mechanisms import Mechanism
from privot.release import Release
from privot.synthesis.methods.outside import check_not_proven
from privot.vault import Vault
from privot.vault.stream import Stream

CHECKPOINT = "checkpoint.safetensors"
EVERY_SECONDS = 60.0


@dataclass
class PaidTraining:
    """One training whose blocks are paid one by one, and what was paid; without a `job` nothing is kept on disk."""

    learner: TargetLearner
    open_vault: Callable[[], Vault]
    job: Job | None = None
    spent: Spent = lambda mark: 0
    pay_again: bool = False
    allow_unproven: bool = False
    checkpoint_interval: float = EVERY_SECONDS
    charged: int = 0
    lost: int = 0
    block: Guarantee | None = None
    """The guarantee of one block."""
    run_mark: str = field(default_factory=lambda: f"(run {secrets.token_hex(8)}")
    """What every charge of a training without a job carries."""

    def run(self, progress: Progress | None = None) -> Guarantee | None:
        """Train to the end; the guarantee of everything that was charged, None if nothing was charged."""
        learner, s = self.learner, self.learner.design.settings
        self._restore()
        last = [time.monotonic()]

        def keep(now: bool) -> None:
            if now or time.monotonic() - last[0] >= self.checkpoint_interval:
                self._keep()
                last[0] = time.monotonic()

        learner.before(progress, keep)
        vault: list[Vault] = []
        for number in range(learner.done, s.blocks):
            self._block(number, vault, progress)
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

    def _mark(self, number: int | None = None) -> str:
        of = self.run_mark if self.job is None else self.job.any_mark
        return f"{of}, block " + ("" if number is None else f"{number + 1})")

    def _reserve(self, vault: Vault) -> None:
        """Charge whole what the blocks to come cost, or let the budget refuse them before one of them is paid."""
        design = self.learner.design
        left = design.settings.blocks - self.learner.done
        if left > 1:
            mechanism = self._mechanism()
            event = of_standing(design.cost(mechanism, left), mechanism.standing)
            mark = self._mark()
            purpose = (
                f"adaptation by {design.settings.name} {mark}s {self.learner.done + 1} to {design.settings.blocks})"
            )
            vault.reserve(event, purpose=purpose, mark=mark, allow_unproven=self.allow_unproven)

    def _block(self, number: int, vault: list[Vault], progress: Progress | None) -> None:
        """Run or resume one block."""
        with ExitStack() as held:
            self._pay_block(number, vault, progress, held)

    def _pay_block(self, number: int, vault: list[Vault], progress: Progress | None, held: ExitStack) -> None:
        """The same; `held` delays interrupts from the charge until the releases are kept or used."""
        learner, design = self.learner, self.learner.design
        path = None if self.job is None or design.settings.releases_per_block != 1 else kept_release(self.job, number)
        times = 0 if self.job is None else self.spent(self._mark(number))
        kept: Release | None = None
        stream: Stream | None = None
        if path is not None and path.exists():
            if not times:
                raise DataError(f"{path} was never paid for: the ledger holds no charge of this block.")
            kept = Release.load(path, inside=path.parent)
            self._check(kept.guarantee)
            check_charged(times, counted(kept.guarantee), path.parent)
            self.block = self.block or kept.guarantee
        elif times and not self.pay_again and not self._repeatable(number, vault):
            if design.settings.blocks == 1:
                raise LostReleaseError(
                    "This job was stopped between its charge and its release: its budget is spent and the release is "
                    "lost, so allow a second charge (pay_again), if its ledger has room for it."
                )
            learner.done, self.lost = number + 1, self.lost + 1
            self._keep()
            return
        else:
            opened = self._opened(vault)
            # the weights of the query must be on disk after a kill
            self._keep()
            mechanism = self._mechanism()
            learner.rehearse(mechanism)
            self._reserve(opened)
            purpose = f"adaptation by {design.settings.name} {self._mark(number)}"
            if path is not None and opened.repeats(mechanism):
                held.enter_context(finishing())
                kept = PaidFile.salted(path).release(
                    opened, mechanism, purpose=purpose, delta=design.delta, charged=bool(times)
                )
                # a second charge of this block, where the first cannot be made again, counts too
                self.charged += int(self.spent(self._mark(number))) - int(times)
                self.block = kept.guarantee
            else:
                allowed = self.allow_unproven
                block = paid_block(opened, mechanism, purpose=purpose, delta=design.delta, allow_unproven=allowed)
                stream = held.enter_context(block)
                self.charged += 1
                self.block = stream.guarantee

        def save(release: Release) -> None:
            if path is None:
                return
            try:
                release.save(path)
            except OSError as error:
                again = PaidFile.salted(path).again.exists()
                what = "run it again, which costs nothing more" if again else "this release is lost, its charge stays"
                raise DataError(f"{path} could not be written ({error.strerror}): {what}.") from None
            # kept: from here on an interrupt loses nothing
            PaidFile.salted(path).forget()
            held.close()

        if kept is not None and stream is None and path is not None:
            if not path.exists():
                save(kept)
            # a kill may have left it beside a release that is whole
            PaidFile.salted(path).forget()
        learner.run_block(stream, kept, save, progress)
        self._keep()
        if path is not None and not learner.keeps_release:
            path.unlink(missing_ok=True)

    def _opened(self, vault: list[Vault]) -> Vault:
        """The vault, opened and checked once."""
        if not vault:
            vault.append(self.open_vault())
            self.learner.design.check_facts(vault[0].facts)
        return vault[0]

    def _repeatable(self, number: int, vault: list[Vault]) -> bool:
        """Whether the release of a charged block can be made again, for no charge, from the salt that is kept."""
        if self.job is None:
            return False
        file = PaidFile.salted(kept_release(self.job, number))
        return file.again.exists() and file.remade(self._opened(vault), self._mechanism())

    def _check(self, block: Guarantee) -> None:
        """Refuse a block that was charged as another event than the design's."""
        check_block(block, self.learner.design.cost(self._mechanism(), 1))

    def _restore(self) -> None:
        if self.job is None:
            return
        self.charged = self.spent(self._mark())
        path = self.job.folder / CHECKPOINT
        if path.exists():
            tensors, facts = read_tensors(path)
            if facts.get("job") != self.job.name:
                raise DataError(f"{path} belongs to another job: remove it.")
            self.learner.restore(tensors, facts)
            self.lost = int(facts["lost"])
            if facts["block"] is not None:
                self.block = counted_anew(json.dumps(facts["block"]))
                self._check(self.block)
        if self.charged:
            # the guarantee counts the design's event for every block, lost ones included
            event = self.learner.design.cost(self._mechanism(), 1)
            check_charged(self.charged, event, self.job.folder, all_of_them=True)
        # lost blocks were charged too
        if self.learner.done > self.charged:
            raise DataError(f"{path} lists more blocks than the ledger was charged for: restore both from a backup.")

    def _keep(self) -> None:
        if self.job is None:
            return
        tensors, facts = self.learner.state()
        block = None if self.block is None else self.block.to_dict()
        folder: Path = self.job.folder
        write_tensors(folder / CHECKPOINT, tensors, {**facts, "job": self.job.name, "lost": self.lost, "block": block})


def kept_release(job: Job, number: int) -> Path:
    """Where the one release of a block is kept."""
    return job.folder / f"block-{number + 1}.npz"
