"""What a partition is: a place from which records can be read again and again, a block at a time; it holds none."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from privot.common.unit_values import Owners
from privot.opening.remote_files import Located

Block = tuple[NDArray[np.float64], NDArray[np.int64] | None]
"""Rows of shape (records, columns), and their labels where there are any."""

OwnedBlock = tuple[NDArray[np.float64], NDArray[np.int64] | None, Owners]
"""A block, and whose each of its records is."""

BLOCK_ROWS, BLOCK_NUMBERS = 1 << 15, 1 << 22
"""At most so many rows, and numbers, of one block: what a worker encodes at once does not grow with the partition."""


def block_rows(dim: int) -> int:
    """How many rows of `dim` columns one block has.

    >>> block_rows(10), block_rows(784)
    (32768, 5349)
    """
    return max(1, min(BLOCK_ROWS, BLOCK_NUMBERS // max(1, dim)))


class Partition(Protocol):
    """Where some of the records are. It can be pickled; what it makes of a record depends on that record alone."""

    @property
    def name(self) -> str:
        """How errors and progress name it; it quotes no record."""
        ...

    @property
    def rows(self) -> int | None:
        """How many records it says it holds before it is read; None if it does not say."""
        ...

    @property
    def size(self) -> int:
        """Bytes to read, as far as that is known; 0 if not."""
        ...

    @property
    def stamp(self) -> str:
        """What changes, as far as can be told without reading, when its records do, or what is made of them.

        It says where they are, when they were written, and by which public facts they are read (a schema, a shape).
        Empty where nothing tells.
        """
        ...

    @property
    def readers(self) -> tuple[str, ...]:
        """The packages, beside NumPy, whose version may decide what is made of a record."""
        ...

    def blocks(self) -> Iterator[Block]:
        """All its records, a block at a time; no block where it has none."""
        ...


class OwnedPartition(Partition, Protocol):
    """A partition that says of each record whose it is, where a `unit` is named; that too depends on it alone."""

    @property
    def unit(self) -> str | None:
        """The column, array or file that says it; None where nobody asked."""
        ...

    def owned_blocks(self) -> Iterator[OwnedBlock]:
        """What `blocks` gives, and whose each record is; refuses a record that does not say."""
        ...


@dataclass(frozen=True)
class FilePartition:
    """What partitions that are one whole file have in common."""

    file: Located

    @property
    def name(self) -> str:
        """The file's name."""
        return self.file.name

    @property
    def size(self) -> int:
        """The file's size."""
        return self.file.size
