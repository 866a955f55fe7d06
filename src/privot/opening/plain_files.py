"""Plain files, whole or as streams: bounded, never a device, and never through a link that leaves the folder."""

from __future__ import annotations

import gzip
import io
import os
import stat
from pathlib import Path
from typing import IO, BinaryIO

from privot.common.declared import declared
from privot.errors import DataError
from privot.opening.limits import Meter, max_unpacked, shown, too_large

BUFFER = 1 << 16


def stays_inside(path: Path, folder: Path) -> bool:
    """Whether `path`, every link followed, lies in `folder`."""
    return Path(os.path.realpath(path)).is_relative_to(os.path.realpath(folder))


def check_inside(path: Path, folder: Path) -> Path:
    """`path`, if it lies in `folder` with every link followed."""
    if not stays_inside(path, folder):
        raise DataError(
            f"{path.name!r} in {folder.name!r} is a link that leaves the folder: put the file itself there."
        )
    return path


def open_file(path: str | Path, *, inside: Path | None = None) -> BinaryIO:
    """The plain file at `path`, to be read.

    A user may name a link, since that is what was typed. What lies `inside` a folder may not: a link that leaves the
    folder would publish, or feed into a job, whatever the folder's author pointed at. Devices, pipes and folders are
    refused: they have no size. Raises OSError where there is no file.
    """
    path = Path(path)
    if not stat.S_ISREG(os.stat(path).st_mode):
        raise DataError(f"{path.name!r} is a folder, a device or a pipe where a file was expected: give a file.")
    if inside is not None:
        check_inside(path, inside)
    # a pipe that took the file's place meanwhile must not be waited for
    handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise DataError(f"{path.name!r} is not a plain file.")
    return os.fdopen(handle, "rb")


@declared(path="path")
def read_bytes(path: str | Path, *, most: int | None = None, inside: Path | None = None) -> bytes:
    """All of a plain file: of at most `max_unpacked` bytes, or of `most`, which nobody needs to raise."""
    path, limit = Path(path), max_unpacked() if most is None else most
    with open_file(path, inside=inside) as file:
        size = os.fstat(file.fileno()).st_size
        content = file.read(limit + 1) if size <= limit else b""
    if max(size, len(content)) > limit:
        if most is not None:
            raise DataError(f"{path.name!r} has more than {shown(most)}: no file of its kind does.")
        raise too_large(path.name, max(size, len(content)), limit)
    return content


class _Counted(io.RawIOBase):
    """A stream whose bytes are counted as they are read."""

    def __init__(self, file: IO[bytes], under: IO[bytes], meter: Meter) -> None:
        self._file, self._under, self._meter = file, under, meter

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]
        piece = self._file.read(len(buffer))
        self._meter.add(len(piece))
        buffer[: len(piece)] = piece
        return len(piece)

    def close(self) -> None:
        if not self.closed:
            # a gzip reader does not close what it was handed
            self._file.close()
            self._under.close()
        super().close()


def counted(path: str | Path, *, inside: Path | None = None, under: BinaryIO | None = None) -> io.BufferedReader:
    """A file as a stream, unpacked where its name ends in `.gz`; ends in a refusal when more comes than is allowed.

    `under` is the file where it is open already.
    """
    path = Path(path)
    under = open_file(path, inside=inside) if under is None else under
    file: IO[bytes] = gzip.GzipFile(fileobj=under) if path.name.lower().endswith(".gz") else under  # type: ignore[assignment]
    return io.BufferedReader(_Counted(file, under, Meter(path.name)), BUFFER)
