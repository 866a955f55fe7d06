"""Archives (`.zip`, `.npz`) and NumPy arrays: what a file claims is checked before any of it is unpacked.

An archive's list of files and an array's header say how much follows; both are read first, with whole numbers that
cannot overflow, and compared with what is really there. Nothing is ever unpickled.
"""

from __future__ import annotations

import io
import math
import os
import struct
import zipfile
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from privot.errors import DataError
from privot.opening.limits import MAX_DIRECTORY, MAX_MEMBERS, Meter
from privot.opening.plain_files import open_file

_PIECE = 1 << 20
_DEFLATE = 1040
"""Bytes that one byte of Deflate can stand for, at most 1032, and a little more."""
_HEADER = 10_000
"""Bytes of an array's header; NumPy itself reads no longer one."""
_READERS = {1: np.lib.format.read_array_header_1_0, 2: np.lib.format.read_array_header_2_0}


class Archive:
    """An archive whose claims were checked; what is read from it, all together, stays within one limit."""

    def __init__(self, file: IO[bytes], name: str, *, stored: bool = False) -> None:
        self.name, self._damaged = name, DataError(f"{name!r} is damaged, or not an archive that privot reads.")
        self._meter = Meter(name)
        size = file.seek(0, os.SEEK_END)
        _check_directory(file, size, name)
        try:
            self._zip = zipfile.ZipFile(file)
        except Exception:  # a damaged list can raise nearly anything
            raise self._damaged from None
        self._check(size, stored)

    @property
    def names(self) -> list[str]:
        """What the files in it are called."""
        return self._zip.namelist()

    def read(self, member: str) -> bytes:
        """One file, whole; raises KeyError where there is none."""
        info = self._zip.getinfo(member)
        self._meter.claim(info.file_size)
        try:
            with self._zip.open(info) as file:
                content = _taken(file, info.file_size)
        except Exception:  # nor does a damaged file stop at one kind of error
            raise self._damaged from None
        self._meter.add(len(content))
        return bytes(content)

    def array(self, member: str) -> NDArray[Any]:
        """One file as an array."""
        info = self._zip.getinfo(member)
        try:
            with self._zip.open(info) as file:
                return _array(file, info.file_size, self._meter)
        except DataError:
            raise
        except Exception:
            raise self._damaged from None

    def _check(self, size: int, stored: bool) -> None:
        """Refuse what no honest archive holds: names twice, parts that overlap, claims that cannot be true."""
        items = sorted(self._zip.infolist(), key=lambda item: item.header_offset)
        if len(items) > MAX_MEMBERS:
            raise DataError(f"{self.name!r} holds more than {MAX_MEMBERS} files: no archive of privot's does.")
        if len({item.filename for item in items}) != len(items):
            raise DataError(f"{self.name!r} holds two files of one name: it is damaged.")
        ends = [item.header_offset for item in items[1:]] + [size]
        for item, end in zip(items, ends, strict=True):
            packed = item.compress_type == zipfile.ZIP_DEFLATED
            possible = item.file_size <= (_DEFLATE * item.compress_size if packed else item.compress_size)
            known = packed or (item.compress_type == zipfile.ZIP_STORED and item.file_size == item.compress_size)
            apart = item.header_offset >= 0 and item.header_offset + 30 + item.compress_size <= end
            if not (possible and known and apart) or item.flag_bits & 1 or (packed and stored):
                raise self._damaged

    def close(self) -> None:
        """Let go of the file."""
        self._zip.close()


@contextmanager
def open_archive(path: str | Path, *, inside: Path | None = None) -> Iterator[Archive]:
    """The archive at `path`; raises OSError where there is no file."""
    path = Path(path)
    with open_file(path, inside=inside) as file:
        archive = Archive(file, path.name)
        try:
            yield archive
        finally:
            archive.close()


def members_of(path: str | Path) -> list[str]:
    """The names in an archive; none where the file is no archive or is not there. To tell kinds of files apart."""
    try:
        with open_archive(path) as archive:
            return archive.names
    except (OSError, DataError):
        return []


def array_names(path: str | Path) -> list[str]:
    """The names of the arrays in a `.npz` file; `x` for a `.npy` file."""
    with _numpy_file(path) as (_, archive):
        return ["x"] if archive is None else _array_names(archive)


def read_arrays(path: str | Path, names: Collection[str] | None = None) -> dict[str, NDArray[Any]]:
    """The arrays of a `.npz` file by name, those of `names` alone if given; or the one of a `.npy` file, called `x`.

    Each number counts as 8 bytes, since that is what it takes once it is used. Raises OSError where there is no file.
    """
    with _numpy_file(path) as (file, archive):
        if archive is not None:
            held = [name for name in _array_names(archive) if names is None or name in names]
            return {name: archive.array(name + ".npy") for name in held}
        name = Path(path).name
        try:
            return {"x": _array(file, os.fstat(file.fileno()).st_size, Meter(name))}
        except DataError:
            raise
        except Exception:  # a damaged file can raise nearly anything, up to a syntax error in its header
            raise DataError(f"{name!r} cannot be read as NumPy arrays of numbers: it is damaged.") from None


@contextmanager
def _numpy_file(path: str | Path) -> Iterator[tuple[IO[bytes], Archive | None]]:
    """A file at its start, and the archive in it if it is one."""
    with open_file(path) as file:
        packed = file.read(4) in (b"PK\3\4", b"PK\5\6")
        file.seek(0)
        yield file, Archive(file, Path(path).name) if packed else None


def _array_names(archive: Archive) -> list[str]:
    return [name.removesuffix(".npy") for name in archive.names if name.endswith(".npy")]


def array_from(data: bytes, name: str) -> NDArray[Any]:
    """The array that `data`, the bytes of a `.npy` file, holds."""
    try:
        return _array(io.BytesIO(data), len(data), Meter(name))
    except DataError:
        raise
    except Exception:
        raise DataError(f"{name!r} is not an array of numbers.") from None


def _array(file: IO[bytes], size: int, meter: Meter) -> NDArray[Any]:
    """The array in a stream of `size` bytes: its header first, then exactly what that announces."""
    magic = bytes(_taken(file, 8))
    # versions 2 and 3 have a longer field for the length
    version, rest = magic[6], b""
    if magic[:6] != b"\x93NUMPY" or version not in (1, 2, 3) or magic[7] != 0:
        raise ValueError(magic)
    rest = bytes(_taken(file, 2 if version == 1 else 4))
    length = struct.unpack("<H" if version == 1 else "<I", rest)[0]
    if length > _HEADER:
        raise ValueError(length)
    header = rest + bytes(_taken(file, length))
    reader = _READERS[min(version, 2)]
    shape, fortran, dtype = reader(io.BytesIO(header), max_header_size=_HEADER)
    if dtype.hasobject:
        raise DataError(f"{meter.name!r} holds Python objects, which are never unpickled: save numbers or texts.")
    count = math.prod(int(n) for n in shape)
    if any(n < 0 for n in shape):
        raise ValueError(shape)
    # a number of one byte takes eight once it is used
    meter.claim(count * max(8, dtype.itemsize))
    if size != 8 + len(header) + count * dtype.itemsize:
        raise ValueError(size)
    content = _taken(file, count * dtype.itemsize)
    meter.add(count * max(8, dtype.itemsize))
    array: NDArray[Any] = np.frombuffer(content, dtype=dtype, count=count) if content else np.empty(count, dtype)
    return array.reshape(shape[::-1]).T if fortran else array.reshape(shape)


def _taken(file: IO[bytes], size: int) -> bytearray:
    """Exactly `size` bytes, piece by piece: memory is taken for what is there, not for what is claimed."""
    content = bytearray()
    while len(content) < size:
        piece = file.read(min(_PIECE, size - len(content)))
        if not piece:
            raise ValueError("cut short")
        content += piece
    return content


def _check_directory(file: IO[bytes], size: int, name: str) -> None:
    """Refuse an archive whose list of files is long, before it is read: each entry takes a kilobyte of memory."""
    start = max(0, size - 22 - 65_535 - 76)
    file.seek(start)
    tail = file.read(size - start)
    at = tail.rfind(b"PK\5\6")
    if at < 0 or len(tail) < at + 22:
        raise DataError(f"{name!r} is damaged, or not an archive that privot reads.")
    entries, length = struct.unpack("<HI", tail[at + 10 : at + 16])
    if at >= 76 and tail[at - 20 : at - 16] == b"PK\6\7":
        # the record for large archives wins where there is one
        large = tail[at - 76 : at - 20]
        more = struct.unpack("<QQ", large[32:48]) if large[:4] == b"PK\6\6" else (0, 0)
        entries, length = max(entries, more[0]), max(length, more[1])
    if entries > MAX_MEMBERS or length > MAX_DIRECTORY:
        raise DataError(f"{name!r} holds more than {MAX_MEMBERS} files: no archive of privot's does.")
    file.seek(0)
