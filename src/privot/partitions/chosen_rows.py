"""Which rows of partitioned records take part where a unit is protected: bounded over all partitions together.

One unit's rows may lie in several partitions, so no partition can bound them by itself. Two kinds of passes do:

 1. *Collecting.* Every worker sends, of the rows of its partition, their marks (`privot.data.unit_marks`: hashes of
    whose a row is and which row it is) and how often each occurs. Rows stay where they are.
 2. *Choosing*, in the vault's process. The marks of a unit from all partitions together say which of its rows have the
    smallest hashes. For those, and for no others, permits are handed out, to one partition after the other: at most
    k = `most` for each unit, over all partitions.
 3. *Adding.* A partition gives only rows for which it holds a permit, and each permit lets one row through.

Formal guarantee, for every unit u. (a) *At most k rows of u take part*, whatever the partitions hold by the time of the
third step: a row of u passes only with a permit for a mark of u, a permit is used once, and at most k exist. A
partition that has not used all its permits at its end holds other records than were collected, and is refused.
(b) *Which rows take part is a function of u's own rows*, as a multiset, and of k: permits for u follow from how often
each of its marks occurs in all partitions together (`smallest_copies`), which is the same however the rows are cut, in
whatever order they lie, and whatever other units there are. Where equal rows of u lie in two partitions, which of the
partitions gets the permit changes no sum. So the rows that take part are those that `privot.kinds.contributions` keeps
of the same records in one place, and adding or removing u adds or removes at most k of them and changes no other.

Memory. Marks are held for one share of the units at a time: those whose hash has one remainder modulo the number of
shares, so that a share has about `SHARE_ROWS` rows. The number of shares follows from the number of rows and decides
nothing but how often the partitions are read. Of one single unit all distinct marks are held at once.

Nothing of this is written to disk: marks and permits live in the memory of the vault's process and of its workers.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privot.data.record_digest import Checksum
from privot.data.unit_marks import MARK_BYTES, OWNER_BYTES, row_marks, smallest_copies
from privot.errors import DataError
from privot.partitions.engines.engine import arithmetic_mark
from privot.partitions.partition import Block, OwnedPartition, Partition
from privot.partitions.partition_tasks import Seen, checked_owned_blocks

SHARE_ROWS = 1 << 22
"""Rows of one share, about: some 300 bytes each in the vault's process while rows are chosen, and 200 in a worker."""


@dataclass(frozen=True)
class Collected:
    """What `CollectMarks` finds: the distinct marks, one after the other, and how often each occurs."""

    seen: Seen
    marks: bytes = field(repr=False)
    copies: NDArray[np.int64] = field(repr=False)


@dataclass(frozen=True)
class CollectMarks:
    """Reads a partition and gives the marks of its rows, of those units that belong to share `share` of `shares`."""

    dim: int
    classes: int | None
    key: int = field(repr=False)
    share: int
    shares: int

    def arithmetic(self, readers: tuple[str, ...] = ()) -> str:
        """By which versions this process reads, and how it rounds where reading depends on it."""
        return arithmetic_mark(readers)

    def __call__(self, partition: Partition) -> Collected:
        """The marks of its rows, and which records it held."""
        checksum, count, total = Checksum(self.key), 0, 0
        found: Counter[bytes] = Counter()
        for rows, labels, owners in checked_owned_blocks(partition, self.dim, self.classes):
            marks = row_marks(owners.texts, rows, labels)
            total += checksum.of(rows, labels) + checksum.of_marks(marks)
            count += len(rows)
            found.update(mark for mark in marks if share_of(mark, self.shares) == self.share)
        marks, copies = list(found), np.fromiter(found.values(), dtype=np.int64, count=len(found))
        return Collected(Seen(count, total % 2**64, self.arithmetic(partition.readers)), b"".join(marks), copies)


def share_of(mark: bytes, shares: int) -> int:
    """The share that the unit of this mark belongs to: all its rows, wherever they lie, belong to one."""
    return int.from_bytes(mark[:8], "little") % shares


def shares_for(rows: int) -> int:
    """Into how many shares the units of so many rows are divided.

    >>> shares_for(1), shares_for(SHARE_ROWS), shares_for(SHARE_ROWS + 1)
    (1, 1, 2)
    """
    return max(1, -(-rows // SHARE_ROWS))


@dataclass(frozen=True, eq=False)
class ChosenPartition:
    """The rows of `partition` for which there are permits: `copies[i]` for the i-th of the `marks`."""

    partition: OwnedPartition
    marks: bytes = field(repr=False)
    copies: NDArray[np.int64] = field(repr=False)

    @property
    def name(self) -> str:
        """That of the partition."""
        return self.partition.name

    @property
    def rows(self) -> int | None:
        """How many permits there are."""
        return int(self.copies.sum())

    @property
    def size(self) -> int:
        """That of the partition: all of it is read, if there is a permit."""
        return self.partition.size

    @property
    def stamp(self) -> str:
        """That of the partition, and a digest of the permits; `KeptSums` writes neither to disk as it stands."""
        digest = hashlib.blake2b(self.marks + self.copies.astype("<i8").tobytes(), digest_size=32).hexdigest()
        return self.partition.stamp and f"{self.partition.stamp} {digest}"

    @property
    def readers(self) -> tuple[str, ...]:
        """Those of the partition."""
        return self.partition.readers

    def blocks(self) -> Iterator[Block]:
        """The rows that take part; refuses a partition that has not used all its permits at its end."""
        if not self.marks:
            return
        left = dict(zip(_split(self.marks), self.copies.tolist(), strict=True))
        for rows, labels, owners in self.partition.owned_blocks():
            passes = np.zeros(len(rows), dtype=bool)
            for place, mark in enumerate(row_marks(owners.texts, rows, labels)):
                permits = left.get(mark, 0)
                if permits:
                    left[mark], passes[place] = permits - 1, True
            if passes.any():
                yield rows[passes], None if labels is None else labels[passes]
        if any(left.values()):
            raise DataError(
                f"Partition {self.name!r} holds other records than when it was first read: nothing was released from "
                "this pass; let nobody write to the data meanwhile."
            )


def chosen_partitions(
    partitions: Sequence[OwnedPartition], found: Sequence[Collected], most: int
) -> list[ChosenPartition]:
    """Each of the `partitions` with its permits, by what was `found` in it: at most `most` rows of every unit in all.

    A partition without a permit is among them, and gives no row: which ones have none is not seen by what is kept.
    """
    marks = np.frombuffer(b"".join(one.marks for one in found), dtype=np.uint8).reshape(-1, MARK_BYTES)
    if not len(marks):
        return [ChosenPartition(partition, b"", np.zeros(0, dtype=np.int64)) for partition in partitions]
    copies = np.concatenate([one.copies for one in found])
    places = np.repeat(np.arange(len(found)), [len(one.copies) for one in found])
    # stable: equal marks stay in the order of their partitions
    order = np.argsort(marks.reshape(-1).view(f"S{MARK_BYTES}"), kind="stable")
    marks, copies, places = marks[order], copies[order], places[order]
    # where another row begins, and where another unit
    starts = np.flatnonzero(_changes(marks))
    totals = np.add.reduceat(copies, starts)
    units = np.flatnonzero(_changes(marks[starts][:, :OWNER_BYTES]))
    permits = _permits(marks[starts], totals, units, most)
    # to one partition after the other, until those of a row are given out
    row_of = np.cumsum(_changes(marks)) - 1
    before = np.cumsum(copies) - copies
    given = np.clip(permits[row_of] - (before - before[starts][row_of]), 0, copies)
    out = []
    for place, partition in enumerate(partitions):
        mine = np.flatnonzero((places == place) & (given > 0))
        out.append(ChosenPartition(partition, marks[mine].tobytes(), given[mine]))
    return out


def _permits(rows: NDArray[np.uint8], totals: NDArray[np.int64], units: NDArray[Any], most: int) -> NDArray[np.int64]:
    """How many copies of each distinct row take part; `units` says where the rows of each unit begin."""
    permits = totals.copy()
    ends = np.append(units[1:], len(rows))
    for unit in np.flatnonzero(np.add.reduceat(totals, units) > most):
        first, last = int(units[unit]), int(ends[unit])
        own = [rows[row].tobytes() for row in range(first, last)]
        kept = smallest_copies(dict(zip(own, totals[first:last].tolist(), strict=True)), most)
        permits[first:last] = [kept.get(mark, 0) for mark in own]
    return permits


def _changes(rows: NDArray[np.uint8]) -> NDArray[np.bool_]:
    """Whether a row differs from the one before it; the first does."""
    return np.append(True, (rows[1:] != rows[:-1]).any(axis=1))


def _split(marks: bytes) -> list[bytes]:
    return [marks[start : start + MARK_BYTES] for start in range(0, len(marks), MARK_BYTES)]
