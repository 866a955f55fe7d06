"""Partitions of vectors and images in files that `privot.data.load` reads: .npz, .npy, .csv, IDX; one file each."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from privot.common.unit_values import block_owners
from privot.data.loading import load
from privot.partitions.partition import Block, FilePartition, OwnedBlock, block_rows


@dataclass(frozen=True)
class ArrayPartition(FilePartition):
    """A file of records, all of which are read at once: the limits on a file's size bound the memory."""

    classes: int
    shape: tuple[int, ...] | None
    rows: int | None = None
    unit: str | None = None

    @property
    def stamp(self) -> str:
        """Address, size and time of the file, and what is stated about its records."""
        return self.file.written and f"{self.file.written} {self.classes} {self.shape} {self.unit!r}"

    @property
    def readers(self) -> tuple[str, ...]:
        """None but NumPy."""
        return ()

    def blocks(self) -> Iterator[Block]:
        """Rows in float64 and labels."""
        held = load(self.file.address, classes=self.classes, shape=self.shape)
        rows = block_rows(held.x.shape[1])
        for start in range(0, len(held.x), rows):
            some = slice(start, start + rows)
            yield np.asarray(held.x[some], dtype=np.float64), None if held.y is None else held.y[some]

    def owned_blocks(self) -> Iterator[OwnedBlock]:
        """Rows, labels, and whose each record is by the array of the unit."""
        assert self.unit is not None
        held = load(self.file.address, classes=self.classes, shape=self.shape, unit=self.unit)
        owners = block_owners(held.units, len(held.x), self.unit)
        rows = block_rows(held.x.shape[1])
        for start in range(0, len(held.x), rows):
            some = slice(start, start + rows)
            labels = None if held.y is None else held.y[some]
            yield np.asarray(held.x[some], dtype=np.float64), labels, replace(owners, texts=owners.texts[some])
