"""Partitions of vectors and images in files that `privot.data.load` reads: .npz, .npy, .csv, IDX; one file each."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from privot.data import load
from privot.opening.remote_files import Located
from privot.partitions.partition import BLOCK_ROWS, Block


@dataclass(frozen=True)
class ArrayPartition:
    """A file of records, all of which are read at once: the limits on a file's size bound the memory."""

    file: Located
    classes: int
    shape: tuple[int, ...] | None
    rows: int | None = None

    @property
    def name(self) -> str:
        """The file's name."""
        return self.file.name

    @property
    def size(self) -> int:
        """The file's size."""
        return self.file.size

    @property
    def stamp(self) -> str:
        """Address, size and time of the file."""
        return f"{self.file.address} {self.file.size} {self.file.stamp}"

    def blocks(self) -> Iterator[Block]:
        """Rows in float64 and labels."""
        held = load(self.file.address, classes=self.classes, shape=self.shape)
        for start in range(0, len(held.x), BLOCK_ROWS):
            some = slice(start, start + BLOCK_ROWS)
            yield np.asarray(held.x[some], dtype=np.float64), None if held.y is None else held.y[some]
