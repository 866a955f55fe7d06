"""One synthesis on disk: what was asked for, whether it was paid for, and what was released; it may not pay itself.

The order on disk makes a kill harmless. `job.json` names the job before anything is paid; the charge carries the
job's name in its purpose; `release.npz` is written as soon as there is one. So after a kill: no charge with this
name, and nothing was paid; a charge and a release, and training goes on with what was paid for; a charge without a
release, and the budget is spent with nothing to show, which only an explicit second payment can mend.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from privot.errors import BudgetError, DataError, UsageError
from privot.release import Release
from privot.synthesis.files import read_json, sync, write_json

NAME = "job.json"
RELEASE = "release.npz"
SCHEMA_VERSION = 1


@dataclass(frozen=True)
class Job:
    """A folder, the job's name, and everything that was decided before paying, as plain JSON types."""

    folder: Path
    name: str
    settings: Mapping[str, Any]

    @classmethod
    def start(cls, folder: Path, settings: Mapping[str, Any]) -> Job:
        """A new job in `folder`, which must be empty or new."""
        prepare(folder)
        job = cls(folder, secrets.token_hex(8), dict(settings))
        write_json(folder / NAME, {"schema": SCHEMA_VERSION, "job": job.name, "settings": job.settings})
        return job

    @classmethod
    def open(cls, folder: Path) -> Job:
        """The job that was started in `folder`."""
        fields = read_json(folder / NAME)
        try:
            if fields["schema"] != SCHEMA_VERSION:
                raise DataError(f"{folder / NAME} has another schema than this privot reads.")
            return cls(folder, str(fields["job"]), dict(fields["settings"]))
        except (KeyError, TypeError, ValueError) as error:
            if isinstance(error, DataError):
                raise
            raise DataError(f"{folder / NAME} does not describe a job ({type(error).__name__}).") from None

    @property
    def mark(self) -> str:
        """What a charge of this job carries in its purpose."""
        return f"(job {self.name})"

    def release(self, pay: Callable[[str], Release], spent: Callable[[str], int], again: bool = False) -> Release:
        """The release of this job: the one on disk, or a new one from `pay`(mark), written down at once.

        `spent`(mark) says how many charges with that mark stand. `again` allows a second charge where the first
        one's release was lost.
        """
        path = self.folder / RELEASE
        if path.exists():
            return Release.load(path)
        if spent(self.mark) and not again:
            raise BudgetError(
                f"This job was stopped between its charge and its release, so its budget is spent and nothing can "
                f"be shown for it: add --pay-again to charge a second time for {self.folder}."
            )
        release = pay(self.mark)
        release.save(path)
        sync(path)
        sync(self.folder)
        return release


def prepare(folder: Path) -> None:
    """Make `folder` if need be, and refuse one that holds something or cannot be written, before paying."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if any(folder.iterdir()):
            raise UsageError(f"{folder} is not empty: choose another folder, or add --resume to go on with its job.")
        probe = folder / ".probe"
        probe.write_bytes(b"")
        probe.unlink()
    except OSError as error:
        raise DataError(f"{folder} cannot be written ({error.strerror}): choose another folder.") from None
