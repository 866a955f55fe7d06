"""Reads IDX files, the format MNIST comes in, and finds the labels beside the images; it scales nothing.

A file is two zero bytes, a type code, the number of axes, the length of each axis as a big-endian 32-bit number, and
then the values, big-endian, the last axis fastest (Y. LeCun, C. Cortes & C. Burges, The MNIST database).
"""

from __future__ import annotations

import math
import re
import zlib
from io import BufferedIOBase
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privot.errors import DataError
from privot.opening.limits import Meter
from privot.opening.plain_files import counted

_TYPES = {0x08: ">u1", 0x09: ">i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}
_CHUNK = 2**24
_NAME = re.compile(r"(^|[-._])idx\d?(-(u?byte|short|int|float|double))?(\.gz)?$")


def is_idx(path: Path) -> bool:
    """Whether the file is named as IDX files are: `train-images-idx3-ubyte`, `a.idx`, each also with `.gz`."""
    return _NAME.search(path.name.lower()) is not None


def read_idx(path: Path) -> tuple[NDArray[Any], NDArray[Any] | None]:
    """Rows of values, flattened, and labels from the file beside that is named `labels` where this is `images`.

    A file without `images` in its name has no labels; one with it must have them.
    """
    values = _read(path)
    if values.ndim < 2:
        raise DataError(
            f"{path.name!r} holds one value per record, as a file of labels does: give the file with the images."
        )
    rows = values.reshape(values.shape[0], -1)
    if "images" not in path.name.lower():
        return rows, None
    labels = _read(_labels_beside(path))
    if labels.ndim != 1 or labels.dtype.kind not in "iu":
        raise DataError(f"The labels beside {path.name!r} are not one whole number per record: give their own file.")
    return rows, labels


def _labels_beside(path: Path) -> Path:
    """`train-labels-idx1-ubyte` for `train-images-idx3-ubyte`, whichever of the two is compressed."""
    plain = re.sub(r"\.gz$", "", path.name, flags=re.IGNORECASE)
    name = re.sub("images", lambda m: "LABELS" if m[0].isupper() else "labels", plain, flags=re.IGNORECASE)
    name = re.sub(r"(idx)\d", r"\g<1>1", name, flags=re.IGNORECASE)
    for found in (path.with_name(name), path.with_name(name + ".gz")):
        if found.is_file():
            return found
    raise DataError(f"There are no labels beside {path.name!r}: put {name!r} there, or rename a file that has none.")


def _read(path: Path) -> NDArray[Any]:
    """The array in one file, with at most two axes: what follows the first is flattened."""
    header: tuple[int, tuple[int, ...]] | None = None
    content = b""
    try:
        with counted(path) as file:
            header = _header(path, file)
            size = np.dtype(_TYPES[header[0]]).itemsize * math.prod(header[1])
            # one byte more than there may be
            content = _at_most(file, size + 1)
    except (OSError, EOFError, zlib.error):
        header = None
    if header is None:
        raise DataError(f"{path.name!r} cannot be read: it is damaged, or not compressed as its name says.")
    if len(content) != size:
        state = "cut short" if len(content) < size else "longer than its header says"
        raise DataError(f"{path.name!r} is {state}: get the whole file again.")
    code, lengths = header
    flat = np.frombuffer(content, dtype=_TYPES[code])
    return flat if len(lengths) == 1 else flat.reshape(lengths[0], -1)


def _header(path: Path, file: BufferedIOBase) -> tuple[int, tuple[int, ...]]:
    """The type code and the length of each axis; refuses what no IDX file says, and what no memory holds."""
    magic = _at_most(file, 4)
    if len(magic) < 4 or magic[:2] != b"\0\0" or magic[3] == 0:
        raise DataError(f"{path.name!r} does not start as an IDX file does: it is damaged or of another kind.")
    code, axes = magic[2], magic[3]
    if code not in _TYPES:
        raise DataError(f"{path.name!r} has the type code {code:#04x}, which IDX does not know: get the file again.")
    shape = _at_most(file, 4 * axes)
    if len(shape) < 4 * axes:
        raise DataError(f"{path.name!r} is cut short: get the whole file again.")
    lengths = tuple(int(n) for n in np.frombuffer(shape, dtype=">u4"))
    if 0 in lengths:
        raise DataError(f"{path.name!r} holds no records: give at least one of at least one value.")
    # a value of one byte takes eight once it is used
    Meter(path.name).claim(8 * math.prod(lengths))
    return code, lengths


def _at_most(file: BufferedIOBase, size: int) -> bytes:
    """Up to `size` bytes, piece by piece: memory is taken for what is there, not for what a header promises."""
    pieces = []
    while size > 0 and (piece := file.read(min(size, _CHUNK))):
        pieces.append(piece)
        size -= len(piece)
    return b"".join(pieces)
