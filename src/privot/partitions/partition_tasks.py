"""What is done with one partition: name its records, or add them up; both say which records they saw."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from privot.common.block_sums import BlockSum, Totals
from privot.data import Checksum, class_digests
from privot.data.record_digest import LANES
from privot.errors import DataError
from privot.partitions.engines.engine import arithmetic_mark
from privot.partitions.partition import Block, Partition


@dataclass(frozen=True)
class Seen:
    """How many records a partition held when it was read, their keyed checksum, and the worker's `arithmetic_mark`."""

    count: int
    checksum: int
    machine: str


@dataclass(frozen=True)
class Named:
    """What `NameRecords` finds: for every key of a ledger, by class, the digest by which it knows the records."""

    seen: Seen
    digests: tuple[NDArray[np.uint64], ...]


@dataclass(frozen=True)
class Added:
    """What `AddRecords` finds: sums of whole numbers, without noise."""

    seen: Seen
    totals: Totals


@dataclass(frozen=True)
class NameRecords:
    """Reads a partition and refuses what does not fit; it names the records under each of the `row_keys`."""

    dim: int
    classes: int | None
    # not shown: a cluster may write what it runs to its logs
    key: int = field(repr=False)
    row_keys: tuple[bytes, ...] = field(default=(), repr=False)

    def arithmetic(self, readers: tuple[str, ...] = ()) -> str:
        """By which versions this process reads, and how it rounds where reading depends on it."""
        return arithmetic_mark(readers)

    def __call__(self, partition: Partition) -> Named:
        """The digests of its records."""
        checksum, count, total = Checksum(self.key), 0, 0
        digests = tuple(np.zeros((self.classes or 1, 1 + LANES), dtype=np.uint64) for _ in self.row_keys)
        for rows, labels in partition.blocks():
            _check(partition, (rows, labels), self.dim, self.classes)
            for row_key, digest in zip(self.row_keys, digests, strict=True):
                digest += class_digests(row_key, rows, labels, self.classes)
            total += checksum.of(rows, labels)
            count += len(rows)
        return Named(Seen(count, total % 2**64, self.arithmetic(partition.readers)), digests)


@dataclass(frozen=True)
class AddRecords:
    """Adds up what `summand` makes of every record of a partition."""

    summand: BlockSum = field(repr=False)
    dim: int
    classes: int | None
    key: int = field(repr=False)

    def arithmetic(self, readers: tuple[str, ...] = ()) -> str:
        """By which versions this process reads, and how it rounds where the summand depends on it."""
        return arithmetic_mark(readers, tensors=bool(getattr(self.summand, "tensors", False)))

    def __call__(self, partition: Partition) -> Added:
        """The sums, and which records went into them."""
        checksum, count, total, totals = Checksum(self.key), 0, 0, self.summand.zeros()
        for rows, labels in partition.blocks():
            _check(partition, (rows, labels), self.dim, self.classes)
            self.summand.add(totals, rows, labels if self.summand.labels else None)
            total += checksum.of(rows, labels)
            count += len(rows)
        return Added(Seen(count, total % 2**64, self.arithmetic(partition.readers)), totals)


def _check(partition: Partition, block: Block, dim: int, classes: int | None) -> None:
    rows, labels = block
    if rows.shape[1] != dim:
        raise DataError(f"{partition.name!r} has records of {rows.shape[1]} columns where {dim} are stated.")
    if (labels is None) != (classes is None):
        raise DataError(f"{partition.name!r} must hold labels exactly where classes are stated.")
    if labels is not None and len(labels) and not (labels.min() >= 0 and labels.max() < (classes or 0)):
        raise DataError(f"Some labels of {partition.name!r} are not whole numbers from 0 to {(classes or 1) - 1}.")
