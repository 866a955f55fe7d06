"""MATLAB's files are read as scipy writes them, and a hostile one is refused in a sentence before it takes memory."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path

import numpy as np
import pytest
from scipy.io import savemat

from privot.cli import run
from privot.data.loading import load
from privot.errors import DataError

X = np.random.default_rng(0).standard_normal((7, 5))
Y = np.array([1, 2, 3, 1, 2, 3, 1])


@pytest.mark.parametrize("packed", [True, False])
@pytest.mark.parametrize("kind", ["f8", "f4", "u1", "i2", "i8"])
@pytest.mark.parametrize(("records", "labels"), [("fts", "labels"), ("X", "Y"), ("feas", "gnd")])
def test_features_and_labels_are_read_as_they_were_written(
    tmp_path: Path, packed: bool, kind: str, records: str, labels: str
) -> None:
    x = (100 * np.abs(X)).astype(kind)
    other = {"names": np.array(["a", "b"], dtype=object), "meta": {"by": "somebody"}, "S": np.eye(3) * 1j}
    savemat(tmp_path / "a.mat", {**other, records: x, labels: Y[:, None]}, do_compression=packed)
    held = load(tmp_path / "a.mat", classes=3)
    assert held.x.dtype == (np.float32 if kind == "f4" else np.float64)
    np.testing.assert_array_equal(held.x, x)
    # MATLAB counts from 1
    assert held.y is not None
    assert held.y.tolist() == (Y - 1).tolist()


def test_labels_may_lie_or_be_missing_and_images_are_flattened(tmp_path: Path) -> None:
    savemat(tmp_path / "row.mat", {"x": X, "y": Y[None, :]})
    assert load(tmp_path / "row.mat").y.tolist() == (Y - 1).tolist()  # type: ignore[union-attr]
    savemat(tmp_path / "none.mat", {"x": X})
    assert load(tmp_path / "none.mat").y is None
    images = np.arange(24.0).reshape(2, 3, 4)
    savemat(tmp_path / "images.mat", {"x": images})
    np.testing.assert_array_equal(load(tmp_path / "images.mat", shape=(3, 4)).x, images.reshape(2, 12))


def element(kind: int, content: bytes, order: str = "<") -> bytes:
    return struct.pack(f"{order}II", kind, len(content)) + content + bytes(-len(content) % 8)


def variable(
    values: bytes, *, lengths: tuple[int, ...] = (2, 2), kind: int = 6, flags: int = 0, stored: int = 9,
    name: bytes = b"x", order: str = "<"
) -> bytes:  # fmt: skip
    parts = [
        element(6, struct.pack(f"{order}II", flags << 8 | kind, 0), order),
        element(5, struct.pack(f"{order}{len(lengths)}i", *lengths), order),
        element(1, name, order),
        element(stored, values, order),
    ]
    return element(14, b"".join(parts), order)


def file(*variables: bytes, mark: bytes = b"\x00\x01IM") -> bytes:
    return b"MATLAB 5.0 MAT-file".ljust(124) + mark + b"".join(variables)


def packed(content: bytes) -> bytes:
    body = zlib.compress(content)
    return struct.pack("<II", 15, len(body)) + body


FOUR = np.arange(4.0).astype("<f8").tobytes()
ZEROS = bytes(1 << 24)
HOSTILE = {
    "empty": b"",
    "header alone": file()[:100],
    "no variable": file(),
    "version 4": bytes(20) + FOUR,
    "cut short": file(variable(FOUR))[:-9],
    "cut short, packed": file(packed(variable(FOUR)))[:-9],
    "wrong checksum": file(packed(variable(FOUR))[:-1] + b"\x00"),
    "fewer values": file(variable(FOUR[:-8])),
    "more values": file(variable(FOUR + FOUR)),
    "packed bomb of another variable": file(packed(variable(ZEROS, name=b"other", lengths=(1 << 21, 1)))),
    "packed bomb after the values": file(packed(variable(FOUR) + ZEROS)),
    "claims more than memory": file(variable(FOUR, lengths=(1 << 30, 1 << 30))),
    "claims more than memory, packed": file(packed(variable(FOUR, lengths=(1 << 30, 1 << 30, 1 << 30)))),
    "negative length": file(variable(FOUR, lengths=(-2, -2))),
    "one axis": file(variable(FOUR, lengths=(4,))),
    "many axes": file(variable(FOUR, lengths=(2, 2, *(1,) * 40))),
    "long name": file(variable(FOUR, name=b"x" * 5000)),
    "complex": file(variable(FOUR, flags=8)),
    "cells": file(variable(FOUR, kind=1)),
    "structure": file(variable(FOUR, kind=2)),
    "text": file(variable(FOUR, kind=4)),
    "sparse": file(variable(FOUR, kind=5)),
    "function": file(variable(FOUR, kind=16)),
    "object": file(variable(FOUR, kind=17)),
    "floats in whole numbers": file(variable(FOUR, kind=12)),
    "larger than it states": file(variable(FOUR, kind=7)),
    "sign lost": file(variable(bytes([200, 1, 2, 3]), kind=8, stored=2)),
    "sign in numbers without": file(variable(bytes([200, 1, 2, 3]), kind=11, stored=1)),
    "rows without columns": file(variable(b"", lengths=(2**31 - 1, 0))),
    "more axes than memory": file(variable(b"", lengths=(0, *(2**31 - 1,) * 4))),
    "unknown packing": file(variable(FOUR, stored=99)),
    "two of one name": file(variable(FOUR), variable(FOUR)),
    "two names of records": file(variable(FOUR), variable(FOUR, name=b"fts")),
    "nothing in it": file(variable(b"", lengths=(0, 2))),
    "no number": file(variable(np.full(4, np.nan).tobytes())),
    "many variables": file(*[variable(FOUR, name=b"other")] * 1001),
    "other byte order": file(variable(FOUR), mark=b"\x01\x00MI"),
    "version 7.3": b"MATLAB 7.3 MAT-file".ljust(512) + b"\x89HDF\r\n\x1a\n",
}

SAID = {
    **dict.fromkeys(("complex", "cells", "structure", "text", "sparse"), "not a full array of real numbers"),
    **dict.fromkeys(("no variable", "packed bomb of another variable", "function", "object"), "no variable of numbers"),
    **dict.fromkeys(("claims more than memory", "claims more than memory, packed"), "unpacks to"),
    **dict.fromkeys(("two of one name", "two names of records"), "two variables of records"),
    **dict.fromkeys(("nothing in it", "rows without columns"), "no records"),
    "no number": "missing or infinite",
    "many variables": "more than 1000",
    "version 7.3": "-v7",
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_a_hostile_file_is_refused_in_one_sentence(kind: str, tmp_path: Path) -> None:
    import tracemalloc

    (tmp_path / "a.mat").write_bytes(HOSTILE[kind])
    tracemalloc.start()
    with pytest.raises(DataError, match=r"^[^\n]+\.$") as refused:
        load(tmp_path / "a.mat")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1 << 23
    assert SAID.get(kind, "damaged") in str(refused.value)


def test_files_as_matlab_may_write_them_are_read(tmp_path: Path) -> None:
    path = tmp_path / "a.mat"
    # doubles that are whole numbers are packed as bytes, also in the tag itself; either byte order
    for content in (
        file(variable(bytes([0, 1, 2, 3]), stored=2)),
        file(variable(FOUR), variable(FOUR, kind=17, name=b"other")),
        file(packed(variable(FOUR))),
        file(variable(np.arange(4.0).astype(">f8").tobytes(), order=">"), mark=b"\x01\x00MI"),
    ):
        path.write_bytes(content)
        assert load(path).x.tolist() == [[0.0, 2.0], [1.0, 3.0]]
    small = variable(b"", stored=2)[:-8] + struct.pack("<HH4B", 2, 4, 0, 1, 2, 3)
    path.write_bytes(file(small))
    assert load(path).x.tolist() == [[0.0, 2.0], [1.0, 3.0]]


def test_a_row_is_the_same_however_the_others_make_matlab_pack_it(tmp_path: Path) -> None:
    """All values whole: packed in bytes, which have no −0; one that is not: doubles, which have."""
    path = tmp_path / "a.mat"
    path.write_bytes(file(variable(bytes([0, 1, 2, 3]), stored=2)))
    whole = load(path).x[0].tobytes()
    path.write_bytes(file(variable(np.array([-0.0, 1.5, 2.0, 3.0]).astype("<f8").tobytes())))
    assert load(path).x[0].tobytes() == whole
    savemat(path, {"x": np.array([[-0.0, 1.5]], dtype=np.float32)})
    assert load(path).x.tobytes() == np.array([[0.0, 1.5]], dtype=np.float32).tobytes()


def test_labels_beyond_what_a_number_holds_are_refused(tmp_path: Path) -> None:
    savemat(tmp_path / "a.mat", {"x": X, "y": Y + 2**53})
    with pytest.raises(DataError, match="whole numbers"):
        load(tmp_path / "a.mat")
    # counted from 0, as other formats do: refused, not shifted silently
    savemat(tmp_path / "b.mat", {"x": X, "y": Y - 1})
    with pytest.raises(DataError, match="from 0 to 2"):
        load(tmp_path / "b.mat", classes=3)


def test_the_command_line_reads_them_and_refuses_with_3(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    savemat(tmp_path / "a.mat", {"fts": X, "labels": Y})
    assert run(["compare", str(tmp_path / "a.mat"), str(tmp_path / "a.mat"), "--method", "exact", "--json"]) == 0
    capsys.readouterr()
    (tmp_path / "b.mat").write_bytes(HOSTILE["version 7.3"])
    assert run(["compare", str(tmp_path / "b.mat"), str(tmp_path / "a.mat"), "--method", "exact"]) == 3
    assert "7.3" in capsys.readouterr().err
