"""What a party keeps of one job, so that no question is answered under two noises; of numbers it holds digests.

A party's share of the noise follows from a secret: this folder's salt with the key of the ledger that pays
(`Vault.release_shared`). So the share of one question may be made as often as an attempt fails, also after a kill or
from a copy of the folder, and is the same each time. Fresh noise on the same records could be averaged away, and the
same noise on other numbers would show their difference. Therefore

  * the folder is bound to one release: the question, the records, the noise (`bind`);
  * a round is answered for one question only, and with the same numbers each time (`answer`);
  * every party commits to its secret and its records, and the commitments that came with the first round hold for ever
    (`hold`). A party that lost its salt draws other noise: it would pay again, but the parties who pay once would see
    their sums under noise that the others share and hers does not. So the others end the job.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import secrets
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from privot.common.files import lock_folder, private_folder, sync, write_whole
from privot.errors import DataError, UsageError
from privot.opening import parse_json, read_bytes

SALT_BYTES = 32
_MOST = 1 << 20
_SALT, _RELEASE, _COMMITMENTS = "salt", "release.json", "commitments.json"


class RoundMemory:
    """The rounds of one job in a private `folder`; `job` is the digest of the job with its parties and its t.

    Where the folder is lost, another charge is due, and the other parties end the job. A folder that is restored from
    an older copy forgets which questions were answered: another question then gets noise of its own, which nobody pays,
    so keep it out of backups. A coordinator, or any party, can end a job for ever by what it sends; the next job pays
    anew. One process at a time works with a folder; it is held until `close`.
    """

    def __init__(self, folder: Path, job: str) -> None:
        self.folder, self.job = folder, job
        private_folder(folder)
        self._lock: int | None = lock_folder(folder, "party of the job")
        try:
            self.salt = self._kept_salt()
        except BaseException:
            self.close()
            raise

    def _kept_salt(self) -> bytes:
        path = self.folder / _SALT
        if not path.exists():
            if any(held.suffix == ".json" for held in self.folder.iterdir()):
                raise DataError(f"{self.folder} holds rounds and no salt, so its noise is lost: end this job.")
            write_whole(path, secrets.token_bytes(SALT_BYTES), mode=0o600)
        # also where an earlier process wrote it, which may have been killed before its name was on disk
        sync(self.folder)
        salt = read_bytes(path, most=SALT_BYTES, inside=self.folder)
        if len(salt) != SALT_BYTES:
            raise DataError(f"{path} is damaged: end this job.")
        return salt

    def bind(self, release: str) -> None:
        """Let the folder serve the release of this digest, and refuse every other one for ever."""
        self._same(_RELEASE, {"release": release}, "another release, or for records that have changed")

    def answer(self, number: int, question: str, numbers: bytes) -> None:
        """Let round `number` be answered for the question of this digest with these `numbers`, and refuse all else.

        Noise is that of the very numbers that it hides: others, of a computer that rounds otherwise today, would come
        with other noise.
        """
        held = hmac.digest(self.salt, numbers, hashlib.sha256).hex()
        about = {"question": question, "numbers": held}
        self._same(f"round-{number}.json", about, "another question, or with sums that came out otherwise")

    def hold(self, commitments: Mapping[str, str]) -> None:
        """Keep what all parties committed to when the first round began, and refuse all else for ever."""
        self._same(_COMMITMENTS, dict(commitments), "parties who now bring other noise or other records")

    def close(self) -> None:
        """Let other processes have the folder; from here on this memory refuses everything."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def _same(self, name: str, fields: Mapping[str, Any], what: str) -> None:
        if self._lock is None:
            raise UsageError("The memory of this party is closed, and another process may hold its folder.")
        path, about = self.folder / name, {"job": self.job, **fields}
        # who comes second finds what the first one wrote
        with suppress(FileExistsError):
            write_whole(path, json.dumps(about).encode(), mode=0o600, fresh=True)
        # on disk before anything that rests on it is sent, whoever wrote it
        sync(self.folder)
        if parse_json(read_bytes(path, most=_MOST, inside=self.folder), name) != about:
            raise DataError(f"This party took part for {what}, or in another job: end this job.")
