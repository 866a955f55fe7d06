"""A file that is paid for at most once: what makes its release again lies beside it until the release is on disk.

It lies there from before the charge, so a kill between the two loses nothing: the same release is made again and
charges nothing more (`Vault.release_once`). In a job's folder, which others may read, it is a salt: only with the
ledger's key does it make the noise. In a private folder beside the ledger it is the secret itself.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from privot.common.files import sync, write_whole
from privot.errors import BudgetError
from privot.mechanisms.mechanism import Identified, Mechanism
from privot.opening import read_bytes
from privot.release import Release
from privot.vault import Vault
from privot.vault.release_steps import SALT_BYTES

SALT = ".salt"


def load(path: Path) -> Release:
    """The release in a file, which must lie in its folder, links followed."""
    return Release.load(path, inside=path.parent)


def save(release: Release, path: Path) -> None:
    """Write a release, whole or not at all."""
    release.save(path)


@dataclass(frozen=True)
class PaidFile:
    """The file `path` of a release, and `again`, the file of what makes it again; whether they exist yet or not."""

    path: Path
    again: Path
    secret: Callable[[Vault], bytes] | None = None
    """What the noise is made of; unless given it follows from the salt in `again` and the key of the vault's ledger."""
    needed: Callable[[], bool] | None = None
    """Whether another release still needs `again`."""
    read: Callable[[Path], Release] = load
    write: Callable[[Release, Path], object] = save

    @classmethod
    def salted(cls, path: Path) -> PaidFile:
        """The release in `path`, made again from a salt beside it."""
        return cls(path, path.with_suffix(SALT))

    def remade(self, vault: Vault, mechanism: Mechanism) -> bool:
        """Whether the ledger was charged for the very release that would be made here, at no further cost.

        False for a release that cannot be made again, or not by these versions and this processor.
        """
        if not self.again.exists() or not vault.repeats(mechanism):
            return False
        return vault.released_once(cast(Identified, mechanism), secret=self._secret(vault))

    def release(self, vault: Vault, mechanism: Mechanism, *, purpose: str, delta: float, charged: bool) -> Release:
        """A release that a kill cannot lose, of a mechanism that `vault` repeats; charged unless it was paid for.

        `charged` says whether the ledger holds a charge of it: what makes it again then outlives a refusal.
        """
        if not self.again.exists():
            write_whole(self.again, os.urandom(SALT_BYTES))
            sync(self.again.parent)
        try:
            return vault.release_once(
                cast(Identified, mechanism), purpose=purpose, secret=self._secret(vault), delta=delta
            )
        except BudgetError:
            # refused before anything was charged or touched: it serves nothing
            if not charged:
                self.forget()
            raise

    def forget(self) -> None:
        """Remove what makes the release again: it is on disk, or nothing was paid."""
        if self.needed is None or not self.needed():
            self.again.unlink(missing_ok=True)
            sync(self.again.parent)

    def _secret(self, vault: Vault) -> bytes:
        if self.secret is not None:
            return self.secret(vault)
        return vault.secret_of(read_bytes(self.again, most=SALT_BYTES, inside=self.again.parent))
