"""Tar archives are read as Python's own reader reads them, within bounds, and nothing is left out in silence."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path
from typing import Any

import pytest

from privot.errors import DataError
from privot.opening.tar_shards import MAX_EXTRA, MAX_NAME, tar_members

FILES = {
    "a/000.png": b"x" * 700,
    "a/000.cls": b"3",
    "b" * 130 + "/001.png": b"",
    "b/002.json": b"{}" * 400,
}
LONG = {"b/" + "c" * 120 + ".json": b"{}" * 400, "ü.png": b"1"}


def archive(path: Path, kind: int, files: dict[str, bytes] = FILES, **fields: Any) -> Path:
    with tarfile.open(path, "w", format=kind) as made:
        folder = tarfile.TarInfo("a")
        folder.type = tarfile.DIRTYPE
        made.addfile(folder)
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size, member.mtime = len(content), 1234567.25 if kind == tarfile.PAX_FORMAT else 1234567
            for field, value in fields.items():
                setattr(member, field, value)
            made.addfile(member, io.BytesIO(content))
    return path


@pytest.mark.parametrize("kind", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_every_format_is_read_as_pythons_reader_does(tmp_path: Path, kind: int) -> None:
    path = archive(tmp_path / "a.tar", kind, FILES if kind == tarfile.USTAR_FORMAT else {**FILES, **LONG})
    with tarfile.open(path) as other:
        expected = [(m.name, other.extractfile(m).read()) for m in other if m.isreg()]  # type: ignore[union-attr]
    assert list(tar_members(path, lambda name: 1 << 20)) == expected
    # content that nobody wants is passed over, however large it is
    few = list(tar_members(path, lambda name: 10 if name.endswith(".cls") else 0))
    assert few == [(name, content if name.endswith(".cls") else None) for name, content in expected]


def test_a_file_larger_than_wanted_is_refused(tmp_path: Path) -> None:
    path = archive(tmp_path / "a.tar", tarfile.USTAR_FORMAT)
    with pytest.raises(DataError, match="more than 699 bytes"):
        list(tar_members(path, lambda name: 699))


@pytest.mark.parametrize("kind", [tarfile.LNKTYPE, tarfile.SYMTYPE, tarfile.FIFOTYPE, tarfile.CHRTYPE])
def test_links_and_devices_are_refused(tmp_path: Path, kind: bytes) -> None:
    path = archive(tmp_path / "a.tar", tarfile.USTAR_FORMAT, {"x.png": b""}, type=kind, linkname="/etc/passwd")
    with pytest.raises(DataError, match="link or a device"):
        list(tar_members(path, lambda name: 99))


@pytest.mark.parametrize("kind", [b"x", b"L", b"g"])
def test_a_header_that_claims_gigabytes_is_refused_before_it_is_read(tmp_path: Path, kind: bytes) -> None:
    """Python's reader takes the memory that the header claims."""
    member = tarfile.TarInfo("x")
    member.type, member.size = kind, 1 << 35
    (tmp_path / "a.tar").write_bytes(member.tobuf(tarfile.GNU_FORMAT) + bytes(4096))
    with pytest.raises(DataError, match="header of more than"):
        list(tar_members(tmp_path / "a.tar", lambda name: 99))
    assert MAX_EXTRA < 1 << 20


def test_long_names_are_refused(tmp_path: Path) -> None:
    path = archive(tmp_path / "a.tar", tarfile.PAX_FORMAT, {"x" * (MAX_NAME + 1): b""})
    with pytest.raises(DataError, match=f"more than {MAX_NAME} bytes"):
        list(tar_members(path, lambda name: 99))


@pytest.mark.parametrize("wanted", [0, 1 << 20])
@pytest.mark.parametrize("left", [0, 100, 512, 1024, 1100, 1536, 2000])
def test_an_archive_that_is_cut_off_is_refused(tmp_path: Path, wanted: int, left: int) -> None:
    content = archive(tmp_path / "a.tar", tarfile.USTAR_FORMAT, {"000.png": b"x" * 600, "000.cls": b"1"}).read_bytes()
    (tmp_path / "a.tar").write_bytes(content[:left])
    with pytest.raises(DataError, match="cut off"):
        list(tar_members(tmp_path / "a.tar", lambda name: wanted))


def test_two_archives_in_one_file_are_refused(tmp_path: Path) -> None:
    content = archive(tmp_path / "a.tar", tarfile.USTAR_FORMAT).read_bytes()
    (tmp_path / "a.tar").write_bytes(content + content)
    with pytest.raises(DataError, match="goes on after its end"):
        list(tar_members(tmp_path / "a.tar", lambda name: 1 << 20))


@pytest.mark.parametrize("place", [0, 110, 150, 156, 300])
def test_a_changed_header_is_refused(tmp_path: Path, place: int) -> None:
    content = bytearray(archive(tmp_path / "a.tar", tarfile.USTAR_FORMAT).read_bytes())
    content[place] ^= 1
    (tmp_path / "a.tar").write_bytes(content)
    with pytest.raises(DataError, match="cannot be read as a tar archive"):
        list(tar_members(tmp_path / "a.tar", lambda name: 1 << 20))


@pytest.mark.parametrize("text", [b"9 path=a", b"99 path=a\n", b"x path=a\n", b"8 path a\n", b"12 size=-5\n\n"])
def test_broken_pax_headers_are_refused(tmp_path: Path, text: bytes) -> None:
    head, member = tarfile.TarInfo("x"), tarfile.TarInfo("y")
    head.type, head.size = b"x", len(text)
    (tmp_path / "a.tar").write_bytes(head.tobuf() + text.ljust(512, b"\0") + member.tobuf() + bytes(1024))
    with pytest.raises(DataError, match="cannot be read as a tar archive"):
        list(tar_members(tmp_path / "a.tar", lambda name: 99))
