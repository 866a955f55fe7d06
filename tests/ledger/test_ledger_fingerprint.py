"""Fingerprints: an independent computation, one name per content, none without the key."""

from __future__ import annotations

import hashlib
import hmac
import tracemalloc
from pathlib import Path

import numpy as np
import pytest

from privot.errors import DataError, UsageError
from privot.ledger import Ledger


def by_hand(path: Path, arrays: dict[str, np.ndarray]) -> str:
    """HMAC (RFC 2104) written out with SHA-256 over one long byte string."""
    secret = bytes.fromhex(Path(str(path) + ".key").read_text())
    key = hmac.new(secret, b"privot ledger fingerprint", hashlib.sha256).digest()
    text = b""
    for name, array in sorted(arrays.items()):
        little = array.astype(array.dtype.newbyteorder("<"))
        for part in (name, little.dtype.str, ",".join(str(n) for n in array.shape)):
            text += len(part.encode()).to_bytes(8, "little") + part.encode()
        text += little.tobytes("C")
    inner, outer = (bytes(b ^ pad for b in key.ljust(64, b"\0")) for pad in (0x36, 0x5C))
    return hashlib.sha256(outer + hashlib.sha256(inner + text).digest()).hexdigest()


ARRAYS = [
    np.arange(200_000.0).reshape(400, 500),
    np.arange(200_000.0).reshape(400, 500).T,
    np.arange(90_000.0).reshape(300, 300)[::3, ::-2],
    np.asfortranarray(np.arange(24, dtype=">i4").reshape(2, 3, 4)),
    np.arange(100_000, dtype=">f8")[::2],
    np.array(7),
    np.zeros((0, 3), np.float32),
    np.array(["a", "bcd"]),
    np.array([True, False]),
    np.array(["2024-01-01"], dtype="datetime64[D]"),
    np.broadcast_to(np.float32(3.0), (5, 70_000)),
]


@pytest.mark.parametrize("array", ARRAYS, ids=lambda a: f"{a.dtype.str}{a.shape}")
def test_as_computed_by_hand(ledger: Ledger, path: Path, array: np.ndarray) -> None:
    arrays = {"x": array, "a": np.arange(3)}
    assert ledger.fingerprint(arrays) == by_hand(path, arrays)


def test_layout_and_order_of_names_do_not_matter(ledger: Ledger) -> None:
    x, y = np.arange(12.0).reshape(3, 4), np.arange(3)
    name = ledger.fingerprint({"x": x, "y": y})
    assert name == ledger.fingerprint({"y": y.astype(">i8"), "x": np.asfortranarray(x)})


def test_every_difference_matters(ledger: Ledger) -> None:
    x = np.arange(12.0)
    variants = [
        {"x": x},
        {"y": x},
        {"x": x.reshape(3, 4)},
        {"x": x.reshape(4, 3)},
        {"x": x.astype(np.float32)},
        {"x": np.nextafter(x, 99.0)},
        {"x": x.view(np.int64)},
        {"x": x[:6], "y": x[6:]},
        {"x": x[:7], "y": x[7:]},
    ]
    assert len({ledger.fingerprint(v) for v in variants}) == len(variants)


def test_another_key_another_name(ledger: Ledger, tmp_path: Path) -> None:
    with Ledger.create(tmp_path / "b.ledger") as other:
        assert other.fingerprint({"x": np.zeros(1)}) != ledger.fingerprint({"x": np.zeros(1)})


def test_large_arrays_are_not_copied(ledger: Ledger) -> None:
    x = np.zeros((4000, 1000))  # 32 MB
    tracemalloc.start()
    ledger.fingerprint({"x": x, "t": x.T})
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 4e6


@pytest.mark.parametrize(
    "array", [np.array([object()]), np.zeros(2, np.longdouble), np.zeros(2, [("a", "i1"), ("b", "f8")])]
)
def test_bytes_that_are_not_fixed(ledger: Ledger, array: np.ndarray) -> None:
    with pytest.raises(DataError, match="convert"):
        ledger.fingerprint({"x": array})


def test_nothing_to_take_a_fingerprint_of(ledger: Ledger) -> None:
    for arrays in ({}, {1: np.zeros(1)}):
        with pytest.raises(UsageError):
            ledger.fingerprint(arrays)


def test_no_data_reaches_the_files_or_the_repr(ledger: Ledger, data: str, path: Path) -> None:
    marker = np.frombuffer(b"SECRETREC0RD", np.uint8)
    ledger.fingerprint({"x": marker})
    assert repr(ledger) == f"Ledger({str(path)!r})"
    secret = Path(str(path) + ".key").read_text().strip()
    assert secret not in repr(vars(ledger))
    ledger.close()
    for file in path.parent.iterdir():
        assert b"SECRETREC0RD" not in file.read_bytes()
