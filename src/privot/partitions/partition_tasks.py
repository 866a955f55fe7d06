"""What is done with one partition: name its records, or add them up; both say which records they saw."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from privot.common.block_sums import BlockSum, Totals
from privot.data import Checksum, class_digests
from privot.errors import DataError
from privot.partitions.engine import arithmetic_mark
from privot.partitions.partition import Block, Partition


@dataclass(frozen=True)
class Seen:
    """How many records a partition held when it was read, their keyed checksum, and how the worker rounds."""

    count: int
    checksum: int
    machine: str


@dataclass(frozen=True)
class Named:
    """What `NameRecords` finds: by class, the digest by which a ledger knows the records, without a key."""

    seen: Seen
    digest: NDArray[np.uint64]


@dataclass(frozen=True)
class Added:
    """What `AddRecords` finds: sums of whole numbers, without noise."""

    seen: Seen
    totals: Totals


@dataclass(frozen=True)
class NameRecords:
    """Reads a partition and refuses what does not fit."""

    dim: int
    classes: int | None
    key: int

    def __call__(self, partition: Partition) -> Named:
        """The digest of its records."""
        checksum, count, total = Checksum(self.key), 0, 0
        digest = np.zeros((self.classes or 1, 5), dtype=np.uint64)
        for rows, labels in partition.blocks():
            _check(partition, (rows, labels), self.dim, self.classes)
            digest += class_digests(rows, labels, self.classes)
            total += checksum.of(rows, labels)
            count += len(rows)
        return Named(Seen(count, total % 2**64, arithmetic_mark()), digest)


@dataclass(frozen=True)
class AddRecords:
    """Adds up what `summand` makes of every record of a partition."""

    summand: BlockSum
    dim: int
    classes: int | None
    key: int

    def __call__(self, partition: Partition) -> Added:
        """The sums, and which records went into them."""
        checksum, count, total, totals = Checksum(self.key), 0, 0, self.summand.zeros()
        for rows, labels in partition.blocks():
            _check(partition, (rows, labels), self.dim, self.classes)
            self.summand.add(totals, rows, labels if self.summand.labels else None)
            total += checksum.of(rows, labels)
            count += len(rows)
        return Added(Seen(count, total % 2**64, arithmetic_mark()), totals)


def _check(partition: Partition, block: Block, dim: int, classes: int | None) -> None:
    rows, labels = block
    if rows.shape[1] != dim:
        raise DataError(f"{partition.name!r} has records of {rows.shape[1]} columns where {dim} are stated.")
    if (labels is None) != (classes is None):
        raise DataError(f"{partition.name!r} must hold labels exactly where classes are stated.")
    if labels is not None and len(labels) and not (labels.min() >= 0 and labels.max() < (classes or 0)):
        raise DataError(f"Some labels of {partition.name!r} are not whole numbers from 0 to {(classes or 1) - 1}.")
