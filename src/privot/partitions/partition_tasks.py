"""What is done with one partition: name its records, or add them up; both say which records they saw."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from privot.common.block_sums import BlockSum, Totals
from privot.data.record_digest import LANES, Checksum, class_digests, owned_digest
from privot.data.unit_marks import row_marks
from privot.errors import DataError
from privot.partitions.engines.engine import arithmetic_mark
from privot.partitions.partition import Block, OwnedBlock, Partition


@dataclass(frozen=True)
class Seen:
    """How many records a partition held when it was read, their keyed checksum, and the worker's `arithmetic_mark`."""

    count: int
    checksum: int
    machine: str


@dataclass(frozen=True)
class Named:
    """What `NameRecords` finds: for every key of a ledger, by class, the digest by which it knows the records.

    Where a unit is named, also for every owner key the digest of whose each record is, and whether whole numbers say so
    (None where there is no record).
    """

    seen: Seen
    digests: tuple[NDArray[np.uint64], ...]
    owned: tuple[NDArray[np.uint64], ...] = ()
    numbers: bool | None = None


@dataclass(frozen=True)
class Added:
    """What `AddRecords` finds: sums of whole numbers, without noise."""

    seen: Seen
    totals: Totals


@dataclass(frozen=True)
class NameRecords:
    """Reads a partition and refuses what does not fit; it names the records under each of the `row_keys`.

    With `owned` it reads whose each record is too, and names that under each of the `owner_keys`.
    """

    dim: int
    classes: int | None
    # not shown: a cluster may write what it runs to its logs
    key: int = field(repr=False)
    row_keys: tuple[bytes, ...] = field(default=(), repr=False)
    owner_keys: tuple[bytes, ...] = field(default=(), repr=False)
    owned: bool = False

    def arithmetic(self, readers: tuple[str, ...] = ()) -> str:
        """By which versions this process reads, and how it rounds where reading depends on it."""
        return arithmetic_mark(readers)

    def __call__(self, partition: Partition) -> Named:
        """The digests of its records."""
        if self.owned:
            return self._owned(partition)
        checksum, count, total = Checksum(self.key), 0, 0
        digests = tuple(np.zeros((self.classes or 1, 1 + LANES), dtype=np.uint64) for _ in self.row_keys)
        for rows, labels in partition.blocks():
            _check(partition, (rows, labels), self.dim, self.classes)
            for row_key, digest in zip(self.row_keys, digests, strict=True):
                digest += class_digests(row_key, rows, labels, self.classes)
            total += checksum.of(rows, labels)
            count += len(rows)
        return Named(Seen(count, total % 2**64, self.arithmetic(partition.readers)), digests)

    def _owned(self, partition: Partition) -> Named:
        checksum, count, total = Checksum(self.key), 0, 0
        digests = tuple(np.zeros((self.classes or 1, 1 + LANES), dtype=np.uint64) for _ in self.row_keys)
        owned = tuple(np.zeros(1 + LANES, dtype=np.uint64) for _ in self.owner_keys)
        numbers: bool | None = None
        for rows, labels, owners in checked_owned_blocks(partition, self.dim, self.classes):
            numbers = owners.numbers
            for row_key, digest in zip(self.row_keys, digests, strict=True):
                digest += class_digests(row_key, rows, labels, self.classes)
            # whose a record is includes its label, as for records in one place
            with_labels = rows if labels is None else np.column_stack([rows, labels])
            for owner_key, of_owners in zip(self.owner_keys, owned, strict=True):
                of_owners += owned_digest(owner_key, with_labels, owners.texts)
            total += checksum.of(rows, labels) + checksum.of_marks(row_marks(owners.texts, rows, labels))
            count += len(rows)
        seen = Seen(count, total % 2**64, self.arithmetic(partition.readers))
        return Named(seen, digests, owned, numbers)


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


def checked_owned_blocks(partition: Partition, dim: int, classes: int | None) -> Iterator[OwnedBlock]:
    """The blocks of a partition with a unit; refuses what does not fit, and units that are now texts, now numbers."""
    numbers: bool | None = None
    # a partition that says nothing of units has no such method, and fails here rather than be taken for single records
    for rows, labels, owners in partition.owned_blocks():  # type: ignore[attr-defined]
        _check(partition, (rows, labels), dim, classes)
        if not len(rows):
            # no row is neither text nor number: where the only unit of a block is left out, nothing is to be refused
            continue
        if len(owners.texts) != len(rows) or numbers not in (None, owners.numbers):
            raise DataError(f"{partition.name!r} must say of every record whose it is, always by text or by number.")
        numbers = owners.numbers
        yield rows, labels, owners


def _check(partition: Partition, block: Block, dim: int, classes: int | None) -> None:
    rows, labels = block
    if rows.shape[1] != dim:
        raise DataError(f"{partition.name!r} has records of {rows.shape[1]} columns where {dim} are stated.")
    if (labels is None) != (classes is None):
        raise DataError(f"{partition.name!r} must hold labels exactly where classes are stated.")
    if labels is not None and len(labels) and not (labels.min() >= 0 and labels.max() < (classes or 0)):
        raise DataError(f"Some labels of {partition.name!r} are not whole numbers from 0 to {(classes or 1) - 1}.")
