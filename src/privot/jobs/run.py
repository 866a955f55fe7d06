"""One run: whatever is released is planned, charged, kept and resumed here, from Python and the command line alike.

A run has a *home*, which says what was asked for and keeps its files: a job's folder (`Job`), a private place beside
the ledger (`Question`), or memory (`Memory`). It has a frozen *plan*, made before anything is paid. Whoever works asks
it for releases and does not know which home it has. Each release has a `part`: "" for the first one, a name for later
ones. Each part is charged under a mark of its own, and never twice unless a second charge is allowed explicitly.

The order on disk makes a kill harmless: what was asked for, what makes the release again, the charge, the release.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

from privot.accounting.events import Event, repeated
from privot.common.interruption import finishing
from privot.errors import DataError
from privot.guarantee import Guarantee
from privot.jobs.blocks import paid_block
from privot.jobs.charges import check_charged, counted
from privot.jobs.home import Home, Spent
from privot.jobs.paid_file import PaidFile
from privot.mechanisms.mechanism import Mechanism
from privot.release import Release
from privot.vault import Vault
from privot.vault.stream import Stream

Make = Callable[[], Mechanism]
"""Makes the mechanism; called only if something has to be paid."""
Check = Callable[[Release], object]
"""Refuses a release from disk that is not the one the plan decided on."""


@dataclass(frozen=True)
class Plan:
    """What is decided before anything is paid, of every charge of one run."""

    purpose: str
    delta: float
    allow_unproven: bool = False
    assumptions: tuple[str, ...] = ()
    """What everything that is made rests on besides its releases, in words: every release is kept with it."""
    check: Callable[[Vault], object] = lambda vault: None
    """Refuses, before anything is paid or removed, what would fail or cost too much afterwards."""
    due: Callable[[Run], Event] | None = None
    """What a run of several charges has still to pay for: it is reserved first. None where it pays once."""
    rows: bool = False
    """Whether one of several releases draws or keeps single records."""
    made: tuple[str, ...] = ()
    """Patterns of the files that are made from a release."""
    before: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """By part, those that stay when it is paid for again."""

    def assumed(self, release: Release) -> Release:
        """`release` with the plan's assumptions beside its own; value, events and cost are the same."""
        if not self.assumptions:
            return release
        held = release.guarantee
        stated = tuple(dict.fromkeys((*held.assumptions, *self.assumptions)))
        return replace(release, guarantee=replace(held, assumptions=stated))


@dataclass
class Run:
    """One run: the vault is opened only if something has to be paid.

    `spent`(mark) counts the charges in the ledger that has the identity `ledger`. `pay_again` allows a second charge
    where a release was lost between its charge and the disk.
    """

    home: Home
    open_vault: Callable[[], Vault]
    spent: Spent
    ledger: str | None = None
    pay_again: bool = False
    plan: Plan = Plan("", 0.0)

    @property
    def folder(self) -> Path | None:
        """Where its files lie; None where nothing is kept."""
        return self.home.folder

    @property
    def name(self) -> str:
        """The name of the job; "" where there is none."""
        return self.home.name

    @cached_property
    def vault(self) -> Vault:
        """The vault, opened and checked once; a run of several charges has reserved what they cost."""
        vault, plan, home = self.open_vault(), self.plan, self.home
        plan.check(vault)
        if plan.due is not None:
            # a run that cannot be finished is not started, and no file is removed for it
            vault.reserve(
                plan.due(self), purpose=f"{plan.purpose} {home.marked()}", mark=home.any_mark, rows=plan.rows,
                allow_unproven=plan.allow_unproven,
            )  # fmt: skip
        return vault

    def has(self, part: str = "") -> bool:
        """Whether the release of this part is on disk."""
        file = self.home.file(part)
        return file is not None and file.path.exists()

    def charged(self, part: str = "") -> int:
        """How often the ledger was charged for this part, blocks included."""
        return self.home.charged(self.spent, part)

    def release(self, make: Make, check: Check = lambda found: None, part: str = "") -> tuple[Release, int]:
        """The release of this part, the one on disk or a new one, and how often it was charged.

        A release on disk without a charge is refused, and so is one that `check` refuses. Files made from an earlier
        release are removed before anything is paid, so that later files follow from the last payment.
        """
        built: list[Mechanism] = []

        def prepared() -> Mechanism:
            if not built:
                facts, mechanism = self.vault.facts, make()
                mechanism.needs.check(facts)
                # made now, because making it refuses all that can be refused
                mechanism.event(facts)
                built.append(mechanism)
            return built[0]

        home, plan, file = self.home, self.plan, self.home.file(part)
        if file is None:
            return self._paid(prepared(), part), 1
        with home.alone():
            # counted under the lock: another process may have paid in the meantime
            paid = self.charged(part)
            if file.path.exists():
                release = file.read(file.path)
                if not paid:
                    raise DataError(
                        f"{file.path} was never paid for: the budget at hand holds no charge of this job for these "
                        "records. Continue with the ledger and the records that the job was started with."
                    )
                if not set(plan.assumptions) <= set(release.guarantee.assumptions):
                    raise DataError(
                        "The release in this folder is not the one its job paid for: restore it from a backup."
                    )
                check(release)
            else:
                if paid and not self.pay_again and not (file.again.exists() and file.remade(self.vault, prepared())):
                    raise home.lost(part)
                prepared()
                home.clear(plan.made, plan.before.get(part, ()))
                with finishing():
                    release = self._paid(prepared(), part, file, bool(paid))
                    file.write(release, file.path)
        # on disk now: nobody needs its noise again, nor the sums that it was made from
        file.forget()
        if "vault" in vars(self):
            self.vault.forget_sums()
        paid = self.charged(part)
        check_charged(paid, counted(release.guarantee), file.path.parent)
        # an earlier release counts even if its file is gone: somebody may have read it
        return release, max(1, paid)

    def check_blocks(self, block: Guarantee) -> None:
        """Refuse blocks of which the ledger has charged one as another event than `block` counts."""
        if self.folder is not None:
            check_charged(self.charged(), counted(block), self.folder, all_of_them=True)

    @contextmanager
    def block(self, mechanism: Mechanism, part: str = "") -> Iterator[Stream]:
        """Charge one more block of this part, and hand out its stream."""
        vault, plan = self.vault, self.plan
        if self.folder is not None:
            # before another one is charged: blocks compose to the stated guarantee only if they are equal
            due = repeated(vault.facts.cost(mechanism.event(vault.facts)), mechanism.steps)
            check_charged(self.charged(part), due, self.folder, all_of_them=True)
        purpose, allowed = self._purpose(part), plan.allow_unproven
        with paid_block(vault, mechanism, purpose=purpose, delta=plan.delta, allow_unproven=allowed) as stream:
            yield stream

    def _paid(self, mechanism: Mechanism, part: str, file: PaidFile | None = None, charged: bool = False) -> Release:
        vault, plan, purpose = self.vault, self.plan, self._purpose(part)
        if file is None or not vault.repeats(mechanism):
            allowed = plan.allow_unproven
            return plan.assumed(vault.release(mechanism, purpose=purpose, delta=plan.delta, allow_unproven=allowed))
        return plan.assumed(file.release(vault, mechanism, purpose=purpose, delta=plan.delta, charged=charged))

    def _purpose(self, part: str) -> str:
        return f"{self.plan.purpose} {self.home.marked(part)}".rstrip()
