"""Partitions of images in tar shards, as WebDataset writes them: 000017.png and 000017.cls are one record.

A record is a run of files of one name up to its first dot. Its image is PNG or JPEG of the stated shape; its class
stands in the file that ends in .cls, as a whole number. With a unit, whose it is stands in the file that ends in the
unit's name (000017.patient_id), as text. Other files of a record are not read. What a file is called may say whose it
is, so a refusal counts records and names none.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from privot.common.unit_values import block_owners
from privot.data.image_folders import ENDINGS, decode_image
from privot.data.stated_facts import StatedFacts
from privot.errors import DataError, UsageError
from privot.opening.tar_shards import tar_members
from privot.partitions.partition import Block, FilePartition, OwnedBlock, block_rows

MAX_IMAGE = 1 << 26
"""Bytes of one image file."""
MAX_CLASS = 64
"""Bytes of one file with a class."""
MAX_UNIT = 1 << 10
"""Bytes of one file that says whose a record is."""
MAX_FILES = 64
"""Files of one record."""
_TAKEN = (*ENDINGS, ".cls", ".")
_CLASS = re.compile(rb"\s*(0|[1-9][0-9]{0,8})\s*")


@dataclass(frozen=True)
class ShardPartition(FilePartition):
    """One tar archive."""

    stated: StatedFacts
    rows: int | None = None
    unit: str | None = None

    def __post_init__(self) -> None:
        if self.unit is not None and ("." in self.unit or "/" in self.unit or f".{self.unit.lower()}" in _TAKEN):
            raise UsageError("The unit of a shard is the ending of a file beside each image, such as patient_id.")

    @property
    def stamp(self) -> str:
        """Address, size and time of the archive, and what is stated about its records."""
        return self.file.written and f"{self.file.written} {self.stated!r} {self.unit!r}"

    @property
    def readers(self) -> tuple[str, ...]:
        """Pillow, and the library by which it decodes JPEG."""
        return ("pillow",)

    def blocks(self) -> Iterator[Block]:
        """Pixels from 0 to 255, and classes where they are stated."""
        for block, _ in self._read():
            yield block

    def owned_blocks(self) -> Iterator[OwnedBlock]:
        """Pixels, classes, and whose each image is."""
        assert self.unit is not None
        for (rows, labels), owners in self._read():
            yield rows, labels, block_owners(owners, len(rows), self.unit)

    def _read(self) -> Iterator[tuple[Block, list[str]]]:
        """Blocks, and with a unit whose each record is."""
        images, classes, owners = [], [], []
        most = block_rows(math.prod(self.stated.shape or (1,)))
        for number, files in enumerate(self._records(), 1):
            which = f"Record {number} of {self.name!r}"
            found = [ending for ending in files if ending in ENDINGS]
            if len(found) != 1:
                raise DataError(f"{which} has {len(found)} images: a record of a shard has one, PNG or JPEG.")
            images.append(decode_image(files[found[0]] or b"", which, self.stated))
            if self.stated.labels:
                classes.append(self._class(files.get(".cls"), which))
            if self.unit is not None:
                owners.append(self._owner(files.get(f".{self.unit.lower()}"), which))
            if len(images) == most:
                yield self._block(images, classes), owners
                images, classes, owners = [], [], []
        if images:
            yield self._block(images, classes), owners

    def _records(self) -> Iterator[dict[str, bytes | None]]:
        """The files of each record by their ending; only the content of an image and a class is read."""
        held: dict[str, bytes | None] = {}
        before: str | None = None
        for path, content in tar_members(self.file.address, self._most):
            key, ending = _parts(path)
            if key is None:
                continue
            if key != before and held:
                yield held
                held = {}
            before = key
            if ending in held:
                raise DataError(f"A record of {self.name!r} has two files of one kind: give each record its own name.")
            if len(held) == MAX_FILES:
                raise DataError(f"A record of {self.name!r} has more than {MAX_FILES} files: keep those of its image.")
            held[ending] = content
        if held:
            yield held

    def _most(self, path: str) -> int:
        """How many bytes of a file are wanted."""
        key, ending = _parts(path)
        if key is None:
            return 0
        if ending == ".cls":
            return MAX_CLASS if self.stated.labels else 0
        if self.unit is not None and ending == f".{self.unit.lower()}":
            return MAX_UNIT
        return MAX_IMAGE if ending in ENDINGS else 0

    def _owner(self, content: bytes | None, which: str) -> str:
        """Whose a record is, as its file says."""
        try:
            return (content or b"").decode("utf-8").strip()
        except UnicodeDecodeError:
            pass
        raise DataError(f"{which} does not say whose it is in UTF-8: write the unit as text.")

    def _class(self, content: bytes | None, which: str) -> int:
        found = None if content is None else _CLASS.fullmatch(content)
        if found is None or int(found[1]) >= (self.stated.count or 0):
            raise DataError(
                f"{which} has no class from 0 to {(self.stated.count or 1) - 1} in a file that ends in .cls."
            )
        return int(found[1])

    def _block(self, images: list[np.ndarray], classes: list[int]) -> Block:
        return np.array(images, dtype=np.float64), np.array(classes, dtype=np.int64) if self.stated.labels else None


def _parts(path: str) -> tuple[str | None, str]:
    """The name of a record and the ending of one of its files; no name for a hidden file."""
    folder, _, base = path.rpartition("/")
    if base.startswith("."):
        return None, ""
    stem, dot, ending = base.partition(".")
    return f"{folder}/{stem}", (dot + ending).lower()
