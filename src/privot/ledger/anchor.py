"""The anchor: a ledger's row count and last seal, kept beside it so that lost rows are noticed.

It is written after each commit, whole or not at all. A crash in between leaves it *behind* the rows, which
is harmless; rows behind the anchor have been lost or rolled back. An attacker who puts back an old ledger together
with its old anchor goes unnoticed by both: keep the newest row number somewhere else if that has to be
excluded.
"""

from __future__ import annotations

import hmac
import json
import os
from dataclasses import dataclass
from pathlib import Path

from privot.errors import CorruptLedgerError, DataError
from privot.ledger.ledger_files import beside
from privot.opening import read_json


@dataclass(frozen=True)
class Anchor:
    """A ledger had `count` rows, the last one sealed `head`."""

    count: int
    head: str

    def _mac(self, key: bytes) -> str:
        return hmac.digest(key, json.dumps([self.count, self.head]).encode(), "sha256").hex()

    def write(self, ledger: Path, key: bytes) -> None:
        """Replace the anchor of `ledger`. Only the holder of the ledger's write lock may do this."""
        path, fresh = beside(ledger, ".anchor"), beside(ledger, ".anchor.new")
        text = json.dumps({"count": self.count, "head": self.head, "mac": self._mac(key)})
        try:
            with open(fresh, "w", encoding="utf-8", opener=_private) as file:
                file.write(text + "\n")
                file.flush()
                os.fsync(file.fileno())
            # the folder is not synced: after a power cut an older anchor may come back, which is only behind
            os.replace(fresh, path)
        except OSError as error:
            raise DataError(
                f"The anchor {path} could not be written ({error.strerror}), so nothing was released, "
                "though it may have been charged: make room or allow writing, and try again."
            ) from None

    @classmethod
    def read(cls, ledger: Path, key: bytes) -> Anchor:
        """The anchor of `ledger`."""
        path = beside(ledger, ".anchor")
        try:
            fields = read_json(path)
            anchor = cls(fields["count"], fields["head"])
            mac = fields["mac"].encode()
            genuine = type(anchor.count) is int and anchor.count > 0 and set(fields) == {"count", "head", "mac"}
        except FileNotFoundError:
            raise CorruptLedgerError(f"The anchor {path} is missing: restore it together with the ledger.") from None
        except OSError as error:
            raise DataError(f"The anchor {path} cannot be read ({error.strerror}).") from None
        except (ValueError, KeyError, TypeError, AttributeError):
            genuine = False
        if not genuine or not hmac.compare_digest(mac, anchor._mac(key).encode()):
            raise CorruptLedgerError(
                f"The anchor {path} has been changed, or does not belong to this key: restore a backup."
            )
        return anchor


def _private(path: str, flags: int) -> int:
    # never through a link that somebody laid in the way
    return os.open(path, flags | os.O_NOFOLLOW, 0o600)
