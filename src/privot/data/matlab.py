"""Reads arrays of numbers from MATLAB's `.mat` files, versions 5 to 7, as published features are kept in; it scales
nothing.

A file is a header of 128 bytes and variables one after the other, each packed by zlib or not; a variable says its class
and lengths before its values (MathWorks, "MAT-File Format"). Only variables of the names below are unpacked, and only
if they hold numbers: objects, structures and functions are never built. scipy.io.loadmat builds them, and takes memory
for whatever a file unpacks to.
"""

from __future__ import annotations

import math
import os
import struct
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from privot.errors import DataError
from privot.opening.limits import Meter
from privot.opening.plain_files import open_file

RECORD_NAMES = ("x", "fts", "feas", "fea", "features")
"""A variable of one of these names, in any case, holds the records, one per row."""
LABEL_NAMES = ("y", "labels", "label", "gnd")
"""A variable of one of these names, in any case, holds the labels."""
MAX_VARIABLES = 1000
_CLASSES = {
    6: "f8", 7: "f4", 8: "i1", 9: "u1", 10: "i2", 11: "u2", 12: "i4", 13: "u4", 14: "i8", 15: "u8",
}  # fmt: skip
_STORED = {1: "i1", 2: "u1", 3: "i2", 4: "u2", 5: "i4", 6: "u4", 7: "f4", 9: "f8", 12: "i8", 13: "u8"}
_MATRIX, _PACKED, _COMPLEX = 14, 15, 0x08
_HEADER = 1 << 10
"""Bytes of one of the small elements before a variable's values: flags, lengths, name."""
_AXES = 32
_PIECE = 1 << 20


def is_matlab(path: Path) -> bool:
    """Whether the file is named as MATLAB's files are."""
    return path.name.lower().endswith(".mat")


def read_matlab(path: Path) -> tuple[NDArray[np.generic], NDArray[np.generic] | None]:
    """The records, one per row, and their classes if the file has labels.

    MATLAB counts from 1, and so do labels in its files: label 1 is class 0. A variable's type is the one that its
    header states, whatever its values are packed in.

    Formal guarantees
    -----------------
    A row is a function of that row of the variable and of the variable's header (names, class, lengths) alone, bit for
    bit: MATLAB packs values into fewer bytes where all of them fit, and both packings give the same numbers. Whole
    numbers have one zero, so −0 is read as 0 however it is packed.
    """
    name = path.name
    try:
        with open_file(path) as file:
            arrays = _variables(file, name)
    except DataError:
        raise
    except OSError:
        raise DataError(f"{name!r} cannot be read: check its permissions.") from None
    except (ValueError, KeyError, struct.error, zlib.error):
        # a chained error would show what was read
        raise _damaged(name) from None
    if "x" not in arrays:
        raise DataError(
            f"{name!r} holds no variable of numbers called {', '.join(RECORD_NAMES)}: name the records x, one per row."
        )
    labels = arrays.get("y")
    if labels is None:
        return arrays["x"], None
    counted = (labels.reshape(-1) if 1 in labels.shape else labels).astype(np.float64)
    # beyond 2⁵³ numbers are rounded: such a label stays what it is, and is refused as any other
    return arrays["x"], np.where(np.abs(counted) < 2.0**53, counted - 1.0, counted)


def _damaged(name: str) -> DataError:
    return DataError(f"{name!r} cannot be read as a MATLAB file of version 5 to 7: it is damaged or of another kind.")


def _variables(file: BinaryIO, name: str) -> dict[str, NDArray[np.generic]]:
    """The variables of records and labels, as `x` and `y`."""
    order = _byte_order(file.read(128), name)
    end, at, meter = os.fstat(file.fileno()).st_size, 128, Meter(name)
    found: dict[str, NDArray[np.generic]] = {}
    for number in range(MAX_VARIABLES + 1):
        file.seek(at)
        tag = file.read(8)
        if not tag:
            break
        kind, size = struct.unpack(f"{order}II", tag)
        at += 8 + size
        if number == MAX_VARIABLES:
            raise DataError(f"{name!r} holds more than {MAX_VARIABLES} variables: keep records and labels.")
        if at > end or kind not in (_MATRIX, _PACKED):
            raise ValueError(kind)
        stream = _Stream(file, size, packed=kind == _PACKED, order=order)
        if kind == _PACKED:
            stream.tag(_MATRIX)
        variable = _Variable.read(stream)
        role = "x" if variable.name in RECORD_NAMES else "y" if variable.name in LABEL_NAMES else ""
        if role in found:
            raise DataError(f"{name!r} holds two variables of {'records' if role == 'x' else 'labels'}: keep one.")
        if role:
            found[role] = variable.values(stream, meter)
    return found


def _byte_order(header: bytes, name: str) -> str:
    if header.startswith(b"MATLAB 7.3") or header.startswith(b"\x89HDF"):
        raise DataError(f"{name!r} is a MATLAB file of version 7.3 (HDF5): save it by save(…, '-v7').")
    order = {b"\x00\x01IM": "<", b"\x01\x00MI": ">"}.get(header[124:128])
    if order is None or 0 in header[:4]:
        raise _damaged(name)
    return order


class _Stream:
    """The bytes of one variable, unpacked piece by piece: memory is taken for what is there, not for what it claims."""

    def __init__(self, file: BinaryIO, size: int, *, packed: bool, order: str) -> None:
        self._file, self._left, self.order = file, size, order
        self._zlib = zlib.decompressobj() if packed else None

    def take(self, size: int) -> bytearray:
        """Exactly `size` bytes."""
        content = bytearray()
        while len(content) < size:
            piece = self._piece(min(_PIECE, size - len(content)))
            if not piece:
                raise ValueError("cut short")
            content += piece
        return content

    def _piece(self, most: int) -> bytes:
        if self._zlib is None:
            piece = self._file.read(min(most, self._left))
            self._left -= len(piece)
            return piece
        unpacked = b""
        while not unpacked and not self._zlib.eof:
            waiting = self._zlib.unconsumed_tail
            if not waiting:
                waiting = self._file.read(min(_PIECE, self._left))
                self._left -= len(waiting)
                if not waiting:
                    raise ValueError("cut short")
            unpacked = self._zlib.decompress(waiting, most)
        return unpacked

    def finish(self) -> None:
        """What follows the values is less than 8 bytes; of a packed variable its checksum was right."""
        for _ in range(8):
            if not self._piece(1):
                return
        raise ValueError("longer than it says")

    def tag(self, wanted: int | None = None) -> tuple[int, int, bytes | None]:
        """Kind and size of the element that follows, and its bytes where they stand in the tag itself."""
        first, second = struct.unpack(f"{self.order}II", self.take(8))
        if first >> 16:
            kind, size = first & 0xFFFF, first >> 16
            if size > 4:
                raise ValueError(size)
            return kind, size, struct.pack(f"{self.order}I", second)[:size]
        if wanted is not None and first != wanted:
            raise ValueError(first)
        return first, second, None

    def small(self) -> tuple[int, bytes]:
        """Kind and bytes of a small element, with the padding after it."""
        kind, size, held = self.tag()
        if held is None:
            if size > _HEADER:
                raise ValueError(size)
            held = bytes(self.take(size + -size % 8))[:size]
        return kind, held


@dataclass(frozen=True)
class _Variable:
    """What stands before a variable's values."""

    name: str
    kind: int
    is_complex: bool
    lengths: tuple[int, ...]

    @classmethod
    def read(cls, stream: _Stream) -> _Variable:
        flags = struct.unpack(f"{stream.order}I", stream.small()[1][:4])[0]
        kind = flags & 0xFF
        if kind not in range(1, 16):
            # functions and objects of classes are laid out otherwise: passed over, whatever they are called
            return cls("", kind, False, ())
        lengths = np.frombuffer(stream.small()[1], dtype=f"{stream.order}i4")
        name = stream.small()[1].decode("ascii", "replace").lower()
        return cls(name, kind, bool(flags >> 8 & _COMPLEX), tuple(int(n) for n in lengths))

    def values(self, stream: _Stream, meter: Meter) -> NDArray[np.generic]:
        """The values, in the type that the variable states."""
        if self.kind not in _CLASSES or self.is_complex:
            raise DataError(
                f"The records or labels of {meter.name!r} are not a full array of real numbers: save them as one."
            )
        if not 2 <= len(self.lengths) <= _AXES or min(self.lengths) < 0:
            raise ValueError(self.lengths)
        count = math.prod(self.lengths)
        # a number of one byte takes eight once it is used
        meter.claim(8 * count)
        kind, size, held = stream.tag()
        stored, stated = np.dtype(stream.order + _STORED[kind]), np.dtype(_CLASSES[self.kind])
        if size != count * stored.itemsize or not _fits(stored, stated):
            raise ValueError(size)
        content = stream.take(size) if held is None else held
        stream.finish()
        meter.add(8 * count)
        if count == 0:
            return np.empty(self.lengths, stated)
        values = np.frombuffer(content, dtype=stored, count=count).astype(stated)
        if stated.kind == "f":
            # the sign of −0 would be there or not, depending on whether all other values are whole numbers
            values += stated.type(0)
        return values.reshape(self.lengths, order="F")


def _fits(stored: np.dtype[np.generic], stated: np.dtype[np.generic]) -> bool:
    """Whether values of the type `stated` may be packed as `stored`: no number may become another one.

    A float may be packed as any whole number: MATLAB does so only where the numbers are the same.
    """
    return (stated.kind == "f" and stored.kind != "f") or np.can_cast(stored, stated, "safe")
