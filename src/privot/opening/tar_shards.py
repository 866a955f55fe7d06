"""Tar archives as streams of small files, in the order they lie in; nothing is unpacked to disk.

The reader is our own, because Python's reads names and headers of any size a file claims. It knows the headers of POSIX
(ustar and pax) and GNU's long names; a link, a device or a sparse file is refused, and so is an archive that is cut off
or followed by something, since records would be lost without a word.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO

from privot.errors import DataError
from privot.opening.limits import shown
from privot.opening.remote_files import open_located

MAX_NAME = 1 << 10
"""Bytes of the name of one file in a shard."""
MAX_EXTRA = 1 << 16
"""Bytes of one header that goes before a file: its long name, its exact time."""
_BLOCK = 512
_PIECE = 1 << 20
_PLAIN, _FOLDER, _PAX, _GLOBAL, _LONG = (b"0", b"\0", b"7"), b"5", b"x", b"g", b"L"


class _BrokenTarError(Exception):
    """The archive is not one, or not whole."""


def tar_members(address: str | Path, most: Callable[[str], int]) -> Iterator[tuple[str, bytes | None]]:
    """(name, content) of every plain file in the tar archive at a path or fsspec address.

    `most`(name) is how many bytes its content may have; content of which 0 bytes are wanted is passed over, as None.
    """
    name, broken = Path(address).name, False
    try:
        with open_located(address) as file:
            yield from _members(file, name, most)
    except (OSError, EOFError, _BrokenTarError):
        broken = True
    if broken:
        raise DataError(f"{name!r} cannot be read as a tar archive: it is damaged, cut off or of another kind.")


def _members(file: BinaryIO, archive: str, most: Callable[[str], int]) -> Iterator[tuple[str, bytes | None]]:
    extra: dict[bytes, bytes] = {}
    while any(header := _exactly(file, _BLOCK)):
        if _checksum(header) != _number(header[148:156]):
            raise _BrokenTarError
        kind, size = header[156:157], _number(header[124:136])
        if kind in (_PAX, _GLOBAL, _LONG):
            if size > MAX_EXTRA:
                raise DataError(f"{archive!r} has a header of more than {shown(MAX_EXTRA)}: no file of a record has.")
            content = _padded(file, size)
            found = {b"path": content.rstrip(b"\0")} if kind == _LONG else _pax_fields(content)
            sparse = any(key.startswith(b"GNU.sparse") for key in found)
            if sparse or (kind == _GLOBAL and {b"path", b"size"} & set(found)):
                raise DataError(f"{archive!r} holds sparse files or common names: a shard holds plain files.")
            extra |= {} if kind == _GLOBAL else found
            continue
        size = _decimal(extra[b"size"]) if b"size" in extra else size
        path = extra.get(b"path", _name(header))
        extra = {}
        if kind == _FOLDER or (kind == b"\0" and path.endswith(b"/")):
            _pass(file, size)
            continue
        if kind not in _PLAIN:
            raise DataError(f"{archive!r} holds a link or a device: a shard holds plain files.")
        if len(path) > MAX_NAME:
            raise DataError(f"{archive!r} holds a file with a name of more than {MAX_NAME} bytes: give it a short one.")
        named = path.decode("utf-8", "surrogateescape")
        wanted = most(named)
        if wanted == 0:
            _pass(file, size)
            yield named, None
            continue
        if size > wanted:
            raise DataError(f"{archive!r} holds a file of more than {shown(wanted)}: no such part of a record is.")
        yield named, _padded(file, size)
    while piece := file.read(_PIECE):
        if any(piece):
            raise DataError(f"{archive!r} goes on after its end, as two archives in one file do: give them apart.")


def _exactly(file: BinaryIO, size: int) -> bytes:
    content = file.read(size)
    while len(content) < size:
        more = file.read(size - len(content))
        if not more:
            raise EOFError
        content += more
    return content


def _padded(file: BinaryIO, size: int) -> bytes:
    """`size` bytes, and on to the next block."""
    return _exactly(file, size + -size % _BLOCK)[:size]


def _pass(file: BinaryIO, size: int) -> None:
    left = size + -size % _BLOCK
    if left and file.seekable():
        # the last byte is read, so that an archive that is cut off is noticed
        file.seek(left - 1, 1)
        left = 1
    while left:
        left -= len(_exactly(file, min(left, _PIECE)))


def _checksum(header: bytes) -> int:
    return sum(header) - sum(header[148:156]) + 8 * ord(" ")


def _number(field: bytes) -> int:
    """Octal digits, or a number of base 256 behind a first byte of 128."""
    if field[0] == 0x80:
        return int.from_bytes(field[1:], "big")
    digits = field.strip(b" \0")
    if digits and not all(48 <= digit < 56 for digit in digits):
        raise _BrokenTarError
    return int(digits or b"0", 8)


def _decimal(text: bytes) -> int:
    if not text.isdigit() or len(text) > 18:
        raise _BrokenTarError
    return int(text)


def _name(header: bytes) -> bytes:
    name = header[:100].partition(b"\0")[0]
    prefix = header[345:500].partition(b"\0")[0] if header[257:263] == b"ustar\0" else b""
    return prefix + b"/" + name if prefix else name


def _pax_fields(content: bytes) -> dict[bytes, bytes]:
    """The records "LENGTH KEY=VALUE" of a pax header."""
    out, place = {}, 0
    while place < len(content):
        length, space, _ = content[place : place + 20].partition(b" ")
        if not space or not 5 <= _decimal(length) <= len(content) - place:
            raise _BrokenTarError
        record = content[place + len(length) + 1 : place + int(length)]
        key, equals, value = record.partition(b"=")
        if not equals or not value.endswith(b"\n"):
            raise _BrokenTarError
        out[key] = value[:-1]
        place += int(length)
    return out
