"""The salt of one release in a job's folder: with the ledger's key it makes the noise of that release again.

It lies there from before the charge until the release is on disk, so a kill between the two loses nothing: the same
release is made again and charges nothing more (`Vault.release_once`). Without the ledger's key it says nothing.
"""

from __future__ import annotations

import os
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

SUFFIX = ".salt"


@dataclass(frozen=True)
class KeptSalt:
    """The salt at `path`, whether it exists yet or not."""

    path: Path

    @classmethod
    def of(cls, release: Path) -> KeptSalt:
        """The salt of the release that is kept in the file `release`."""
        return cls(release.with_suffix(SUFFIX))

    def paid(self, vault: Vault, mechanism: Mechanism) -> bool:
        """Whether the ledger was charged for the very release that this salt makes here, at no further cost.

        False for a release that cannot be made again, or not by these versions and this processor.
        """
        if not self.path.exists() or not vault.repeats(mechanism):
            return False
        return vault.released_once(cast(Identified, mechanism), secret=self._secret(vault))

    def release(self, vault: Vault, mechanism: Mechanism, *, purpose: str, delta: float, charged: bool) -> Release:
        """A release that a kill cannot lose, of a mechanism that `vault` repeats; charged unless it was paid for.

        `charged` says whether the ledger holds a charge of this part of the job: the salt then outlives a refusal.
        """
        if not self.path.exists():
            write_whole(self.path, os.urandom(SALT_BYTES))
            sync(self.path.parent)
        try:
            secret = self._secret(vault)
            return vault.release_once(cast(Identified, mechanism), purpose=purpose, secret=secret, delta=delta)
        except BudgetError:
            # refused before anything was charged or touched: the salt serves nothing
            if not charged:
                self.path.unlink(missing_ok=True)
            raise

    def remove(self) -> None:
        """The release is on disk: nobody needs its noise again."""
        self.path.unlink(missing_ok=True)
        sync(self.path.parent)

    def _secret(self, vault: Vault) -> bytes:
        return vault.secret_of(read_bytes(self.path, most=SALT_BYTES, inside=self.path.parent))
