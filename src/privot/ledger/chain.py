"""The chain that makes a ledger append-only in fact: each row is sealed together with the seal before it.

    mac_i = HMAC-SHA256(key, JSON[mac_{i−1}, id, kind, fingerprint, body, note, at]),   mac_0 = ""

(HMAC: RFC 2104.) JSON of a list of strings and one integer is injective, so a changed, missing, added or
moved row gives another seal, and nobody without the key can compute the right one. What a chain cannot see,
the loss of its last rows, the anchor does. This module opens no file.
"""

from __future__ import annotations

import hmac
import json
from typing import Any

from privot.errors import CorruptLedgerError
from privot.ledger.anchor import Anchor
from privot.ledger.ledger_rows import HEADER, Row


def seal(key: bytes, previous: str, id: int, kind: str, fingerprint: str, body: str, note: str, at: str) -> str:
    """The seal of a row that follows the row sealed `previous`."""
    text = json.dumps([previous, id, kind, fingerprint, body, note, at])
    return hmac.digest(key, text.encode(), "sha256").hex()


def next_row(key: bytes, rows: list[Row], kind: str, fingerprint: str, body: str, note: str, at: str) -> Row:
    """The sealed row that continues `rows`."""
    id = len(rows) + 1
    previous = rows[-1].mac if rows else ""
    return Row(id, kind, fingerprint, body, note, at, seal(key, previous, id, kind, fingerprint, body, note, at))


def checked(key: bytes, anchor: Anchor, stored: list[tuple[Any, ...]], known: list[Row]) -> list[Row]:
    """`stored` as rows, once every seal and the anchor agree; otherwise names the first bad row.

    `known` were found good before: where `stored` still begins with exactly these, only the rest is new.
    """
    rows = known.copy() if stored[: len(known)] == known else []
    previous = rows[-1].mac if rows else ""
    for number, values in enumerate(stored[len(rows) :], start=len(rows) + 1):
        row = Row._make(values)
        # exact types: SQLite would hand back a text turned into a blob or a number without complaint
        if type(row.id) is not int or any(type(v) is not str for v in values[1:]):
            raise CorruptLedgerError(f"Row {number} of the ledger has been changed: restore a backup.")
        if row.id != number:
            raise CorruptLedgerError(f"Row {number} of the ledger is missing or out of order: restore a backup.")
        if not hmac.compare_digest(row.mac.encode(), seal(key, previous, *row[:-1]).encode()):
            raise CorruptLedgerError(
                f"Row {number} of the ledger has been changed, or the key is not the one it was made with: "
                "restore a backup."
            )
        if (row.kind == HEADER) is not (number == 1):
            raise CorruptLedgerError(f"Row {number} of the ledger is of the wrong kind: restore a backup.")
        rows.append(row)
        previous = row.mac
    if len(rows) < anchor.count:
        raise CorruptLedgerError(
            f"Row {len(rows) + 1} of the ledger is missing: {anchor.count} were written; restore a backup."
        )
    if rows[anchor.count - 1].mac != anchor.head:
        raise CorruptLedgerError(f"Row {anchor.count} of the ledger is not the one its anchor saw: restore a backup.")
    return rows
