"""How a job's releases are paid for: straight from a vault, or once, kept in a folder and resumed after a kill.

A method asks for releases and does not know which of the two it runs under. Each release has a `part`: "" for the
first one, a name for later ones. Each part is charged under a mark of its own, and never twice unless a second charge
is allowed explicitly.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol

from privot.accounting.events import repeated
from privot.errors import DataError
from privot.guarantee import Guarantee
from privot.jobs.blocks import paid_block
from privot.jobs.charges import Spent, check_charged, counted
from privot.jobs.job import Job
from privot.jobs.kept_salt import KeptSalt
from privot.mechanisms.mechanism import Mechanism
from privot.release import Release
from privot.vault import Vault
from privot.vault.stream import Stream

Make = Callable[[], Mechanism]
"""Makes the mechanism; called only if something has to be paid."""
Check = Callable[[Release], None]
"""Refuses a release from disk that is not the one the job decided on."""


@dataclass(frozen=True)
class Terms:
    """The terms of every charge of one job."""

    purpose: str
    delta: float
    allow_unproven: bool = False
    assumptions: tuple[str, ...] = ()
    """What everything that the job makes rests on besides its releases, in words: every release is kept with it."""

    def assumed(self, release: Release) -> Release:
        """`release` with the job's assumptions beside its own; value, events and cost are the same."""
        if not self.assumptions:
            return release
        held = release.guarantee
        stated = tuple(dict.fromkeys((*held.assumptions, *self.assumptions)))
        return replace(release, guarantee=replace(held, assumptions=stated))

    def check(self, release: Release) -> None:
        """Refuse a release from disk that does not state the job's assumptions."""
        if not set(self.assumptions) <= set(release.guarantee.assumptions):
            raise DataError("The release in this folder is not the one its job paid for: restore it from a backup.")


class Payments(Protocol):
    """Where a method gets its releases from."""

    @property
    def folder(self) -> Path | None:
        """Where the job keeps its files; None where nothing is kept."""
        ...

    @property
    def name(self) -> str:
        """The job's name; "" where there is none."""
        ...

    def release(self, make: Make, check: Check, part: str = "") -> tuple[Release, int]:
        """The release of this part and how often it was charged."""
        ...

    def charged_blocks(self) -> int:
        """The blocks that were charged so far."""
        ...

    def check_blocks(self, block: Guarantee) -> None:
        """Refuse blocks that were charged as another event than `block` counts."""
        ...

    def block(self, mechanism: Mechanism) -> AbstractContextManager[Stream]:
        """Charge one more block and return its stream."""
        ...


@dataclass
class DirectPayments:
    """Pays from a vault at hand; nothing is kept, so nothing can be resumed."""

    vault: Vault
    terms: Terms
    mark: str = ""
    """What the purpose of every charge carries, where the run has reserved what it costs."""
    folder: None = None
    name: str = ""

    def release(self, make: Make, check: Check, part: str = "") -> tuple[Release, int]:
        """A fresh release, charged once."""
        purpose = self._marked(f"{self.terms.purpose}, {part}" if part else self.terms.purpose)
        return _released(self.vault, make(), purpose, self.terms), 1

    def charged_blocks(self) -> int:
        """None yet: there is no earlier process."""
        return 0

    def check_blocks(self, block: Guarantee) -> None:
        """Every block was charged by this process, as it counts."""

    @contextmanager
    def block(self, mechanism: Mechanism) -> Iterator[Stream]:
        """Charge one more block."""
        terms, purpose = self.terms, self._marked(self.terms.purpose)
        with paid_block(
            self.vault, mechanism, purpose=purpose, delta=terms.delta, allow_unproven=terms.allow_unproven
        ) as stream:
            yield stream

    def _marked(self, purpose: str) -> str:
        return f"{purpose} {self.mark}" if self.mark else purpose


@dataclass
class JobPayments:
    """Pays once per part, keeps every release in the job's folder, and opens the vault only if it has to pay.

    `ready`(vault) refuses, before anything is paid or removed, what would be lost or would cost too much. `made` and
    `before` say which files of the folder are made from a release: see `Job.release`.
    """

    job: Job
    open_vault: Callable[[], Vault]
    spent: Spent
    terms: Terms
    ready: Callable[[Vault], None]
    pay_again: bool = False
    made: tuple[str, ...] = ()
    before: dict[str, tuple[str, ...]] = field(default_factory=dict)
    _vault: Vault | None = field(default=None, repr=False)

    @property
    def folder(self) -> Path:
        """The job's folder."""
        return self.job.folder

    @property
    def name(self) -> str:
        """The job's name."""
        return self.job.name

    def opened(self) -> Vault:
        """The vault, opened and checked once."""
        if self._vault is None:
            vault = self.open_vault()
            self.ready(vault)
            self._vault = vault
        return self._vault

    def release(self, make: Make, check: Check, part: str = "") -> tuple[Release, int]:
        """The release on disk, or a new one, and the number of charges, since a lost release counts too."""
        built: list[Mechanism] = []

        def prepare() -> None:
            if built:
                return
            facts = self.opened().facts
            mechanism = make()
            mechanism.needs.check(facts)
            # made now, because making it refuses all that can be refused
            mechanism.event(facts)
            built.append(mechanism)

        salt = KeptSalt.of(self.job.kept(part))

        def repeatable() -> bool:
            """Whether the ledger was charged for this very release, and its noise can be made again."""
            if not salt.path.exists():
                return False
            prepare()
            return salt.paid(self.opened(), built[0])

        def pay(mark: str) -> Release:
            vault, purpose = self.opened(), f"{self.terms.purpose} {mark}"
            if not vault.repeats(built[0]):
                return _released(vault, built[0], purpose, self.terms)
            charged = bool(self.spent(mark))
            return self.terms.assumed(
                salt.release(vault, built[0], purpose=purpose, delta=self.terms.delta, charged=charged)
            )

        def same(found: Release) -> None:
            self.terms.check(found)
            check(found)

        keep = self.before.get(part, ())
        release = self.job.release(
            pay, self.spent, self.pay_again, same, prepare, part, made=self.made, keep=keep, repeatable=repeatable
        )
        # on disk now: nobody needs its noise again, nor the sums that it was made from
        salt.remove()
        if self._vault is not None:
            self._vault.forget_sums()
        mark = self.job.marked(part) if part else self.job.mark
        paid = self.spent(mark)
        check_charged(paid, counted(release.guarantee), self.folder)
        # an earlier release counts even if its file is gone: somebody may have read it
        return release, max(1, paid)

    def charged_blocks(self) -> int:
        """The blocks that the ledger knows."""
        return int(self.spent(self.job.mark))

    def check_blocks(self, block: Guarantee) -> None:
        """Refuse blocks of which the ledger has charged one as another event than `block` counts."""
        check_charged(self.spent(self.job.mark), counted(block), self.folder, all_of_them=True)

    @contextmanager
    def block(self, mechanism: Mechanism) -> Iterator[Stream]:
        """Charge one more block under the job's mark."""
        terms = self.terms
        purpose = f"{terms.purpose} {self.job.mark}"
        vault = self.opened()
        # before another one is charged: blocks compose to the stated guarantee only if they are equal
        due = repeated(vault.facts.cost(mechanism.event(vault.facts)), mechanism.steps)
        check_charged(self.spent(self.job.mark), due, self.folder, all_of_them=True)
        with paid_block(
            vault, mechanism, purpose=purpose, delta=terms.delta, allow_unproven=terms.allow_unproven
        ) as stream:
            yield stream


def _released(vault: Vault, mechanism: Mechanism, purpose: str, terms: Terms) -> Release:
    made = vault.release(mechanism, purpose=purpose, delta=terms.delta, allow_unproven=terms.allow_unproven)
    return terms.assumed(made)
