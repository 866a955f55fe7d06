"""Whoever edits, removes, adds or moves a row, or flips a byte of one, is noticed."""

from __future__ import annotations

import hashlib
import hmac
import json
import random
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from ledger_samples import ADD, DELTA, copy, gaussian

from privot.errors import CorruptLedgerError, DataError
from privot.ledger import Ledger

ROWS = 8
COLUMNS = ("kind", "fingerprint", "body", "note", "at", "mac")


def noticed(path: Path, says: str = ".") -> None:
    """Opening does not get past the damage."""
    with pytest.raises(CorruptLedgerError, match=says) as caught:
        Ledger.open(path)
    assert "\n" not in str(caught.value)


def check(path: Path) -> int:
    with Ledger.open(path) as ledger:
        return ledger.verify()


def test_untouched_it_verifies(filled: Path, raw: Callable[..., None]) -> None:
    assert check(filled) == ROWS
    raw()  # lifting the triggers and putting them back is not what the other tests notice
    assert check(filled) == ROWS


def test_the_chain_is_what_it_says(filled: Path) -> None:
    secret = bytes.fromhex(Path(f"{filled}.key").read_text())
    key = hmac.new(secret, b"privot ledger chain", hashlib.sha256).digest()
    connection = sqlite3.connect(filled)
    previous = ""
    for *fields, mac in connection.execute("SELECT * FROM ledger ORDER BY id"):
        assert mac == hmac.new(key, json.dumps([previous, *fields]).encode(), hashlib.sha256).hexdigest()
        previous = mac
    connection.close()


@pytest.mark.gate(2, each="column")
@pytest.mark.slow
@pytest.mark.parametrize("row", range(1, ROWS + 1))
@pytest.mark.parametrize("column", COLUMNS)
def test_an_edited_value(filled: Path, raw: Callable[..., None], row: int, column: str) -> None:
    raw(f"UPDATE ledger SET {column} = {column} || ' ' WHERE id = {row}")
    noticed(filled, f"Row {row} ")


@pytest.mark.parametrize("row", range(1, ROWS + 1))
@pytest.mark.parametrize("column", COLUMNS)
def test_a_value_of_another_type(filled: Path, raw: Callable[..., None], row: int, column: str) -> None:
    raw(f"UPDATE ledger SET {column} = CAST({column} AS BLOB) WHERE id = {row}")
    noticed(filled, f"Row {row} ")


@pytest.mark.parametrize("row", range(1, ROWS + 1))
def test_a_removed_row(filled: Path, raw: Callable[..., None], row: int) -> None:
    raw(f"DELETE FROM ledger WHERE id = {row}")
    noticed(filled, f"Row {row} ")


@pytest.mark.parametrize("row", range(1, ROWS + 1))
def test_a_removed_row_with_the_gap_closed(filled: Path, raw: Callable[..., None], row: int) -> None:
    moves = [f"UPDATE ledger SET id = {i - 1} WHERE id = {i}" for i in range(row + 1, ROWS + 1)]
    raw(f"DELETE FROM ledger WHERE id = {row}", *moves)
    noticed(filled, f"Row {row} ")


@pytest.mark.parametrize("row", range(1, ROWS))
def test_two_rows_exchanged(filled: Path, raw: Callable[..., None], row: int) -> None:
    ids = [(row, 99), (row + 1, row), (99, row + 1)]
    raw(*(f"UPDATE ledger SET id = {new} WHERE id = {old}" for old, new in ids))
    noticed(filled, f"Row {row} ")


def test_a_row_added(filled: Path, raw: Callable[..., None]) -> None:
    raw(f"INSERT INTO ledger SELECT {ROWS + 1}, kind, fingerprint, body, note, at, mac FROM ledger LIMIT 1")
    noticed(filled, f"Row {ROWS + 1} ")


@pytest.mark.parametrize("kept", range(1, ROWS))
def test_the_last_rows_cut_off(filled: Path, raw: Callable[..., None], kept: int) -> None:
    raw(f"DELETE FROM ledger WHERE id > {kept}")
    noticed(filled, f"Row {kept + 1} of the ledger is missing")


def test_an_empty_table(filled: Path, raw: Callable[..., None]) -> None:
    raw("DELETE FROM ledger")
    noticed(filled, "Row 1 ")


def test_an_old_copy_put_back(filled: Path, tmp_path: Path) -> None:
    old = copy(filled, tmp_path / "old")
    with Ledger.open(filled) as ledger:
        ledger.charge(ledger.datasets()[0].fingerprint, gaussian(50.0), "later")
    shutil.copy(old, filled)
    noticed(filled, "Row 9 of the ledger is missing")


def test_a_branch_from_an_old_copy(filled: Path, tmp_path: Path) -> None:
    """A ledger continued in two places: each place knows its own rows only."""
    branch = copy(filled, tmp_path / "branch")
    for path in (filled, branch):
        with Ledger.open(path) as ledger:
            ledger.charge(ledger.datasets()[0].fingerprint, gaussian(50.0), path.parent.name)
    shutil.copy(branch, filled)
    noticed(filled, "Row 9 ")


def test_another_ledgers_rows(filled: Path, tmp_path: Path) -> None:
    Ledger.create(tmp_path / "b.ledger").close()
    shutil.copy(tmp_path / "b.ledger", filled)
    noticed(filled, "Row 1 .* key")


def test_the_budget_cannot_be_raised_behind_its_back(filled: Path, raw: Callable[..., None]) -> None:
    raw("""UPDATE ledger SET body = replace(body, '"epsilon":1.0', '"epsilon":9.0') WHERE id = 2""")
    noticed(filled, "Row 2 ")


@pytest.mark.parametrize(
    "statement",
    [
        "DROP TRIGGER ledger_delete",
        "CREATE TRIGGER thief AFTER INSERT ON ledger BEGIN DELETE FROM ledger WHERE id = NEW.id; END",
        "CREATE TABLE aside (x)",
        "PRAGMA user_version = 0",
        # a ledger with a budget for a unit, and this one has none
        "PRAGMA user_version = 2",
        "PRAGMA application_id = 0",
    ],
)
def test_a_changed_layout(filled: Path, statement: str) -> None:
    connection = sqlite3.connect(filled, isolation_level=None)
    connection.execute(statement)
    connection.close()
    noticed(filled, "layout")


def test_a_newer_version(filled: Path) -> None:
    connection = sqlite3.connect(filled, isolation_level=None)
    connection.execute("PRAGMA user_version = 4")
    connection.close()
    noticed(filled, "update privot")


def test_damage_while_open_stops_the_next_charge(filled: Path, raw: Callable[..., None]) -> None:
    with Ledger.open(filled) as ledger:
        data = ledger.datasets()[0].fingerprint
        raw("UPDATE ledger SET note = 'x' WHERE id = 4")
        for attempt in (
            lambda: ledger.charge(data, gaussian(90.0), "x"),
            lambda: ledger.set_budget("0" * 64, 1.0, DELTA, ADD, "x"),
            lambda: ledger.spent(data),
            ledger.entries,
            ledger.verify,
        ):
            with pytest.raises(CorruptLedgerError, match="Row 4 "):
                attempt()


def test_the_anchor_may_be_behind_but_not_ahead_or_other(filled: Path, tmp_path: Path) -> None:
    anchor = Path(f"{filled}.anchor")
    old = anchor.read_bytes()
    with Ledger.open(filled) as ledger:
        data = ledger.datasets()[0].fingerprint
        ledger.charge(data, gaussian(50.0), "later")
    anchor.write_bytes(old)  # as after a crash between commit and anchor
    assert check(filled) == ROWS + 1
    with Ledger.open(filled) as ledger:
        ledger.charge(data, gaussian(50.0), "last")
    assert json.loads(anchor.read_text())["count"] == ROWS + 2
    forged = json.loads(old)
    for change in (
        {"count": 1},
        {"count": ROWS + 1},
        {"count": -1},
        {"head": "0" * 64},
        {"mac": "é"},
        {"more": 1},
    ):
        anchor.write_text(json.dumps(forged | change))
        noticed(filled, "anchor")
    for text in ("", "[]", "{}", "null", '{"count": 1}'):
        anchor.write_text(text)
        noticed(filled, "anchor")
    anchor.unlink()
    noticed(filled, "anchor .* is missing")


def test_the_anchor_never_goes_back(filled: Path) -> None:
    """A slow process that anchors after a fast one leaves the later anchor alone."""
    with Ledger.open(filled) as slow, Ledger.open(filled) as fast:
        data = slow.datasets()[0].fingerprint
        anchor = slow._anchor
        slow._anchor = lambda row: (fast.charge(data, gaussian(70.0), "fast"), anchor(row))  # type: ignore[assignment,func-returns-value]
        slow.charge(data, gaussian(70.0), "slow")
    assert json.loads(Path(f"{filled}.anchor").read_text())["count"] == ROWS + 2


def test_keys(filled: Path) -> None:
    key = Path(f"{filled}.key")
    assert key.stat().st_mode & 0o777 == 0o600
    good = key.read_text()
    for text in ("", "zz" * 32, good[:-3], "\u00e9"):
        key.write_text(text)
        noticed(filled, "key")
    key.write_text("00" * 32 + "\n")
    noticed(filled, "key")
    key.write_text(good)
    key.chmod(0o644)
    with pytest.raises(DataError, match="chmod"):
        Ledger.open(filled)
    key.unlink()
    with pytest.raises(DataError, match=r"key .* is missing"):
        Ledger.open(filled)


def content(image: bytes) -> list[int]:
    """Every position of the file that holds rows or the way to them, by SQLite's file format.

    Pages other than the first (the layout, compared as text): header, cell pointers and cells of each B-tree
    page, and overflow pages whole, less the unused end of a chain's last page.
    """
    size = int.from_bytes(image[16:18], "big")
    found: list[int] = []
    for page in range(1, len(image) // size):
        start = page * size
        kind = image[start]
        if kind in (2, 10):  # interior or leaf page of an index tree, which a WITHOUT ROWID table is
            head = 12 if kind == 2 else 8
            cells = int.from_bytes(image[start + 3 : start + 5], "big")
            first = int.from_bytes(image[start + 5 : start + 7], "big")
            found += range(start, start + head + 2 * cells)
            free: set[int] = set()
            block = int.from_bytes(image[start + 1 : start + 3], "big")
            while block:  # what a split left behind: where the next block is, how long this one is, then nothing
                length = int.from_bytes(image[start + block + 2 : start + block + 4], "big")
                free |= set(range(start + block + 4, start + block + length))
                block = int.from_bytes(image[start + block : start + block + 2], "big")
            found += [p for p in range(start + first, start + size) if p not in free]
        else:
            used = len(image[start : start + size].rstrip(b"\0"))
            found += range(start, start + max(used, 4))
    return found


@pytest.mark.slow
def test_any_flipped_byte_of_any_row(filled: Path) -> None:
    image = filled.read_bytes()
    positions = content(image)
    assert len(positions) > 3500  # data pages and an overflow chain
    assert b"long curve" in bytes(image[p] for p in positions)
    dice = random.Random(5)
    missed = []
    # bytes of text differ in nothing but their place within a row, and every third is flipped; of all others each is
    text = range(0x20, 0x7F)
    inside = {p for p in range(3, len(image) - 3) if all(byte in text for byte in image[p - 3 : p + 4])}
    some = [p for number, p in enumerate(positions) if p not in inside or number % 3 == 0]
    assert len(some) > 1200
    for position in some:
        damaged = bytearray(image)
        damaged[position] ^= dice.randrange(1, 256)
        filled.write_bytes(damaged)
        try:
            check(filled)
        except CorruptLedgerError:
            continue
        missed.append(position)
    assert missed == []


@pytest.mark.slow
def test_flips_anywhere_else_lose_nothing(filled: Path) -> None:
    """Headers and free space: either noticed, or every row is still as it was."""
    with Ledger.open(filled) as ledger:
        good = ledger.entries(), ledger.datasets()
    image = filled.read_bytes()
    dice = random.Random(6)
    for position in [*range(100), *dice.sample(range(100, len(image)), 300)]:
        damaged = bytearray(image)
        damaged[position] ^= dice.randrange(1, 256)
        filled.write_bytes(damaged)
        try:
            with Ledger.open(filled) as ledger:
                assert (ledger.entries(), ledger.datasets()) == good
        except DataError:
            pass


def test_flips_in_the_log_of_a_killed_process(filled: Path, tmp_path: Path) -> None:
    """Rows only in the write-ahead log: its checksums drop the damaged frames, and the anchor misses them."""
    with Ledger.open(filled) as ledger:
        ledger.charge(ledger.datasets()[0].fingerprint, gaussian(50.0), "in the log")
        crashed = copy(filled, tmp_path / "crashed")
    log = Path(f"{crashed}-wal")
    image, base = log.read_bytes(), crashed.read_bytes()
    Path(f"{crashed}-shm").unlink()
    assert check(copy(crashed, tmp_path / "sound")) == ROWS + 1
    for position in random.Random(7).sample(range(32, len(image)), 200):
        damaged = bytearray(image)
        damaged[position] ^= 0x10
        crashed.write_bytes(base)
        log.write_bytes(damaged)
        noticed(crashed)


@pytest.mark.slow
def test_flips_in_a_tree_of_several_pages(ledger: Ledger, path: Path) -> None:
    data = ledger.fingerprint({"x": np.zeros(1)})
    ledger.set_budget(data, 5.0, DELTA, ADD, "many")
    for i in range(40):
        ledger.charge(data, gaussian(100.0 + i), f"step {i}")
    ledger.close()
    image = path.read_bytes()
    positions = content(image)
    assert {position // 4096 for position in positions} == {1, 2, 3, 4, 5}
    for position in random.Random(8).sample(positions, 500):
        damaged = bytearray(image)
        damaged[position] ^= 1 << position % 8
        path.write_bytes(damaged)
        with pytest.raises(CorruptLedgerError):
            check(path)
