"""JSON, TOML and archives that a stranger wrote to take time, stack or memory are refused in one sentence."""

from __future__ import annotations

import io
import json
import time
import zipfile
from contextlib import suppress
from pathlib import Path

import bombs
import numpy as np
import pytest
from bombs import write

from privot.audit.targets.release_file import read_guarantee_file
from privot.errors import DataError
from privot.federation.parties.request_memory import Memory
from privot.federation.toml_tables import TomlTable
from privot.guarantee import Guarantee
from privot.jobs.released_files import read_json
from privot.opening import parse_json, read_bytes, read_text
from privot.opening.archives import Archive, array_from, read_arrays
from privot.opening.json_toml import parse_toml
from privot.opening.limits import MAX_DEPTH
from privot.tables import Schema


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[" * 100_000, "nested"),
        ('{"a":' * 100_000, "nested"),
        ("[" * (MAX_DEPTH + 1) + "]" * (MAX_DEPTH + 1), "nested"),
        ("1" * 41, "digits"),
        ("-" + "9" * 400, "digits"),
        ("1" * 5000, "digits"),
        ("NaN", "no number"),
        ("[-Infinity]", "no number"),
        ("1e999", "too large"),
        ('{"a": 1, "a": 2}', "twice"),
        ('{"a": 1', "not JSON"),
        ('"' + "\\", "not JSON"),
        ("", "not JSON"),
    ],
)
def test_json_that_privot_never_writes_is_refused(text: str, words: str) -> None:
    with pytest.raises(DataError, match=words):
        parse_json(text)


def test_json_is_bounded_in_values_before_it_is_parsed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("privot.opening.json_toml.MAX_NODES", 1000)
    assert parse_json("[" + "1," * 998 + "1]") == [1] * 999
    with pytest.raises(DataError, match="more than 1000 values"):
        parse_json("[" + "[]," * 1000 + "1]")


def test_json_with_brackets_in_its_texts_is_read() -> None:
    held = {"a": "[" * 1000 + '\\"' + "{" * 1000, "b": [1, 2.5, None, True, -(10**39)], "ä": {"ü": "\u2028"}}
    assert parse_json(json.dumps(held)) == held
    assert parse_json(json.dumps(held, ensure_ascii=False, indent=1).encode()) == held
    assert parse_json("[" * MAX_DEPTH + "]" * MAX_DEPTH) is not None


def test_long_texts_in_json_are_passed_over_in_linear_time() -> None:
    start = time.process_time()
    assert len(parse_json('"' + "\\\\" * (1 << 23) + '"')) == 1 << 23
    assert time.process_time() - start < 20.0


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a = " + "[" * 100_000, "nested"),
        ("a = " + "{a=" * 100_000, "nested"),
        (".".join("a" * 100_000) + " = 1", "nested"),
        ("[" + ".".join("a" * 100_000) + "]", "nested"),
        ("x = {" + ".".join("a" * 100_000) + " = 1}", "nested"),
        ("a = " + "1" * 400, "digits"),
        ("a = 1e", "not TOML"),
        ("a", "not TOML"),
    ],
)
def test_toml_that_nobody_writes_by_hand_is_refused_at_once(text: str, words: str) -> None:
    start = time.process_time()
    with pytest.raises(DataError, match=words):
        parse_toml(text.encode())
    assert time.process_time() - start < 5.0


def test_toml_as_people_write_it_is_read() -> None:
    text = """
a = "a.b.c [[[ # no comment" # a comment with "quotes
b = '''it's [ '''
c = [[1, 2.5], [3]]
[d."e.f"]
g = {h = 1, i.j = 2}
[[k]]
l = 1979-05-27
"""
    found = parse_toml(text.encode())
    assert found["a"] == "a.b.c [[[ # no comment"
    assert found["d"]["e.f"]["g"] == {"h": 1, "i": {"j": 2}}


def test_every_reader_of_json_refuses_depth_with_one_sentence(tmp_path: Path) -> None:
    path = write(tmp_path / "a.json", b"[" * 100_000)
    for read in (read_json, Schema.load, lambda p: Guarantee.from_json(p.read_text())):
        with pytest.raises(DataError, match="nested") as error:
            read(path)
        assert len(str(error.value)) < 300
    path = write(tmp_path / "a.toml", b"a = " + b"[" * 100_000)
    with pytest.raises(DataError, match="nested"):
        Schema.load(path)
    with pytest.raises(DataError, match="nested"):
        TomlTable.read(path, "policy", 1, set())


def test_a_text_with_bytes_that_are_none_is_refused_by_all_who_read_texts(tmp_path: Path) -> None:
    path = write(tmp_path / "a.txt", b'{"at": 1}\n{"at": \xbe}\n')
    for read in (read_text, Memory, read_guarantee_file):
        with pytest.raises(DataError, match=r"'a\.txt' is damaged: it is not text in UTF-8"):
            read(path)


def test_a_text_has_a_size_that_no_option_raises(tmp_path: Path) -> None:
    with open(tmp_path / "a.json", "wb") as file:
        file.truncate(1 << 33)
    with pytest.raises(DataError, match="more than 64 MiB: no file of its kind"):
        read_json(tmp_path / "a.json")


def test_devices_pipes_and_folders_are_refused_and_not_waited_for(tmp_path: Path) -> None:
    import os

    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", Path("/dev/zero"), tmp_path):
        with pytest.raises(DataError, match="a folder, a device or a pipe"):
            read_bytes(path)
    for name in ("a.npz", "a.csv", "a.idx"):
        os.symlink("/dev/zero", tmp_path / name)
    from privot.data.loading import load

    for name in ("a.npz", "a.csv", "a.idx"):
        with pytest.raises(DataError):
            load(tmp_path / name)


def packed(**members: bytes) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return out.getvalue()


def refused(data: bytes, words: str) -> None:
    def read() -> None:
        archive = Archive(io.BytesIO(data), "a.npz")
        for name in archive.names:
            archive.read(name)

    with pytest.raises(DataError, match=words):
        read()


def test_an_archive_with_a_name_twice_is_refused() -> None:
    data = packed(aa=b"1" * 50, bb=b"2" * 50).replace(b"bb", b"aa")
    refused(data, "two files of one name")


def test_an_archive_whose_files_overlap_is_refused() -> None:
    one = bombs.zip_of({"a": (b"x" * 100, 100, 0), "b": (b"y" * 100, 100, 0)})
    at = one.index(b"PK\1\2", one.index(b"PK\1\2") + 1)
    refused(one[: at + 42] + bytes(4) + one[at + 46 :], "damaged")


@pytest.mark.parametrize("size", [50, 99, 101, 10**9, 2**63])
def test_a_stored_file_that_claims_another_size_than_it_has_is_refused(size: int) -> None:
    refused(bombs.zip_of({"a": (b"x" * 100, size, 0)}), "damaged")


def test_a_packed_file_that_claims_more_than_its_bytes_can_hold_is_refused() -> None:
    refused(bombs.zip_of({"a": (b"x" * 100, 200_000, 8)}), "damaged")
    good = packed(a=bytes(10_000))
    assert Archive(io.BytesIO(good), "a").read("a") == bytes(10_000)
    for claim in (9_999, 10_001):
        refused(good.replace((10_000).to_bytes(4, "little"), claim.to_bytes(4, "little")), "damaged")


def test_other_methods_than_deflate_are_refused() -> None:
    for method in (zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA):
        out = io.BytesIO()
        with zipfile.ZipFile(out, "w", method) as archive:
            archive.writestr("a", bytes(1000))
        refused(out.getvalue(), "damaged")


def test_an_archive_of_very_many_files_is_refused_before_its_list_is_read() -> None:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for number in range(10_001):
            archive.writestr(zipfile.ZipInfo(str(number)), b"")
    refused(out.getvalue(), "more than 10000 files")


def test_no_damage_to_an_archive_raises_anything_but_a_refusal(tmp_path: Path) -> None:
    np.savez_compressed(tmp_path / "a.npz", x=np.arange(40.0).reshape(8, 5), y=np.arange(8))
    whole = (tmp_path / "a.npz").read_bytes()
    generator = np.random.default_rng(5)
    for _ in range(400):
        data = bytearray(whole)
        for at in generator.integers(0, len(data), generator.integers(1, 4)):
            data[at] = generator.integers(0, 256)
        cut = generator.integers(1, len(data) + 1) if generator.random() < 0.3 else len(data)
        write(tmp_path / "b.npz", bytes(data[:cut]))
        with suppress(DataError):
            read_arrays(tmp_path / "b.npz")
        with suppress(DataError):
            array_from(bytes(data), "b")
