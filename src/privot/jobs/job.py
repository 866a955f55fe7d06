"""One job on disk: what was asked for, whether it was paid for, and what was released; it may not pay itself.

The order on disk makes a kill harmless. `job.json` names the job before anything is paid; the charge carries the
job's name in its purpose; `release.npz` is written as soon as there is one. So after a kill there are four cases.
Without a charge of this name, nothing was paid. With a charge and a release, work continues on the release. With a
charge and what makes its release again, it is made again. With neither, the budget is spent and the release is lost;
only an explicit second payment makes another. The same holds for later parts, whose charges have marks of their own.

Files in the folder are untrusted: a release is checked against what the job decided and against the ledger, and files
made from an earlier release are removed before another one is paid for. One process at a time
works on a folder.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import secrets
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from privot.common.files import PART, private_folder, sync
from privot.errors import DataError, UsageError
from privot.jobs.home import Home
from privot.jobs.paid_file import SALT, PaidFile
from privot.jobs.released_files import read_json, write_json
from privot.vault import Vault

try:
    import fcntl
except ImportError:  # only POSIX has it; elsewhere two processes on one folder are not kept apart
    fcntl = None  # type: ignore[assignment]

NAME = "job.json"
RELEASE = "release.npz"
VERSION = 2
"""Of `job.json`; the first said `"schema": 1` in its place, and is read as well."""


@dataclass(frozen=True)
class Job(Home):
    """A folder, the job's name, and everything that was decided before paying, as plain JSON types."""

    folder: Path
    name: str
    settings: Mapping[str, Any]
    _held: list[int] = field(default_factory=list, compare=False, repr=False)

    @classmethod
    def start(cls, folder: Path, settings: Mapping[str, Any]) -> Job:
        """A new job in `folder`, which must be empty or new."""
        prepare(folder)
        job = cls(folder, secrets.token_hex(8), dict(settings))
        fields = {"version": VERSION, "job": job.name, "settings": job.settings}
        try:
            write_json(folder / NAME, fields, fresh=True)
        except FileExistsError:
            raise _occupied(folder) from None
        return job

    @classmethod
    def open(cls, folder: Path) -> Job:
        """The job that was started in `folder`."""
        fields = read_json(folder / NAME)
        try:
            if fields["schema" if "schema" in fields else "version"] != (1 if "schema" in fields else VERSION):
                raise DataError(f"{folder / NAME} is of another version than the first and the second, which are read.")
            name = fields["job"]
            if not isinstance(name, str) or not re.fullmatch(r"[0-9a-f]{16}", name):
                # a name that is part of other names would count other jobs' charges as its own
                raise DataError(f"{folder / NAME} does not describe a job: its name must be 16 hexadecimal digits.")
            return cls(folder, name, dict(fields["settings"]))
        except (KeyError, TypeError, ValueError) as error:
            if isinstance(error, DataError):
                raise
            raise DataError(f"{folder / NAME} does not describe a job ({type(error).__name__}).") from None

    def check_same(self, wanted: Mapping[str, Any], found: Mapping[str, Any]) -> None:
        """Refuse to continue where `wanted` differs from `found`, what the job was started with."""
        differ = [name for name in wanted if wanted[name] != found.get(name)]
        if differ:
            raise UsageError(
                f"The job in {self.folder} was started with another {differ[0]}: "
                "continue with the same, or choose another folder."
            )

    def file(self, part: str = "") -> PaidFile:
        """Where the release of a part is kept, and the salt that makes it again."""
        return PaidFile.salted(self.folder / (f"{part.replace(' ', '-')}.npz" if part else RELEASE))

    def clear(self, made: Sequence[str], keep: Sequence[str]) -> None:
        """Remove files made from an earlier release, and parts of files that a kill left."""
        for pattern in (*made, f"*{PART}"):
            for old in self.folder.glob(pattern):
                if old.name not in keep:
                    old.unlink()
        sync(self.folder)

    def discard(self) -> bool:
        """Remove a job that has released nothing, with what it kept beforehand; False where the folder holds more.

        The caller has asked the ledger: nothing of this job was paid.
        """
        kept = [path for path in self.folder.iterdir() if not _made_before_paying(path)]
        if kept:
            return False
        for path in self.folder.iterdir():
            if path.name != NAME:
                shutil.rmtree(path) if path.is_dir() else path.unlink()
        # last: until then a second attempt finds the job and goes on here
        (self.folder / NAME).unlink()
        sync(self.folder)
        return True

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Keep every other process out of the folder; a process that holds the lock may take it again."""
        if self._held:
            yield
            return
        try:
            handle = os.open(self.folder / NAME, os.O_RDWR)
        except OSError as error:
            raise DataError(f"{self.folder / NAME} cannot be locked ({error.strerror}).") from None
        try:
            try:
                # the system drops the lock when the process dies, however it dies
                if fcntl is not None:
                    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise UsageError(
                    f"Another process is working on the job in {self.folder}: wait until it is done."
                ) from None
            self._held.append(handle)
            yield
        finally:
            with suppress(ValueError):
                self._held.remove(handle)
            os.close(handle)


@contextmanager
def private_job(vault: Vault, *asked: object) -> Iterator[Path]:
    """A folder for a job that was given none: beside the ledger of `vault`, named for what was `asked`.

    It goes when the block ends, so that the next job is another one. After a kill, or a failure once something was paid
    for, it stays, and the same job goes on there.
    """
    ledger = vault.ledger_file
    assert ledger is not None
    # of the very records: equal rows under other labels are another job, which the release of these does not answer
    named = json.dumps([vault.content_name(), vault.facts.identity(), *asked], sort_keys=True)
    name = hashlib.sha256(named.encode("utf-8", "surrogatepass")).hexdigest()[:32]
    folder = private_folder(ledger.with_name(f"{ledger.name}.jobs")) / name
    try:
        yield folder
    except Exception:
        if (folder / NAME).exists() and not vault.knows((job := Job.open(folder)).any_mark):
            with job.alone():
                job.discard()
            folder.rmdir()
        raise
    shutil.rmtree(folder)


def _made_before_paying(path: Path) -> bool:
    """Whether a file of a job lies there before anything is paid: its name, a salt, public weights, partitions."""
    known = (NAME, "checkpoint.safetensors", "partitions")
    return path.name in known or path.suffix in (SALT, PART)


def _occupied(folder: Path) -> UsageError:
    return UsageError(f"{folder} is not empty: choose another folder.")


def prepare(folder: Path) -> None:
    """Make `folder` if need be, and refuse one that holds something or cannot be written, before paying."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        # a job killed while job.json was written left a part of that file and nothing else
        if any(not (p.name.removeprefix(".").startswith(NAME) and p.suffix == PART) for p in folder.iterdir()):
            raise _occupied(folder)
        probe = folder / ".probe"
        probe.write_bytes(b"")
        probe.unlink()
    except OSError as error:
        raise DataError(f"{folder} cannot be written ({error.strerror}): choose another folder.") from None


@contextmanager
def prepared(folder: Path) -> Iterator[None]:
    """`prepare`, and at the end remove the folders it made that are still empty, so that a refused job leaves none."""
    made = [place for place in (folder, *folder.parents) if not place.exists()]
    try:
        prepare(folder)
        yield
    finally:
        with suppress(OSError):  # a folder that holds something stays, and so do its parents
            for place in made:
                place.rmdir()
