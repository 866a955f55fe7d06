"""Partitioned records as a vault holds them: they give sums and no rows; it knows only where they are."""

from __future__ import annotations

from typing import NoReturn

import numpy as np
from numpy.typing import NDArray

from privot.common.block_sums import BlockSum, Totals
from privot.errors import UsageError
from privot.mechanisms.mechanism import Facts
from privot.partitions import PartitionedSource
from privot.vault.stream import Sealed


class PartitionedRecords(Sealed):
    """The records of a source. Every sum is a pass over its partitions."""

    __slots__ = ("_source", "count", "facts")

    def __init__(self, source: PartitionedSource, facts: Facts) -> None:
        self._source, self.facts, self.count = source, facts, source.count

    def sums(self, summand: BlockSum) -> Totals:
        """Σ of what `summand` adds, over all records."""
        return self._source.sums(summand)

    def forget_sums(self) -> None:
        """Remove what the source keeps of finished partitions."""
        if self._source.keeper is not None:
            self._source.keeper.remove()

    def exact_digest(self, row_key: bytes) -> bytes:
        """Which rows there are with which labels: `class_digests` under the key of a ledger."""
        return self._source.named_by_class(row_key).tobytes()

    def rows(self, indices: NDArray[np.int64] | None = None) -> NoReturn:
        """Refused."""
        raise one_place()

    def clipped(self, indices: NDArray[np.int64] | None = None) -> NoReturn:
        """Refused."""
        raise one_place()

    def labels(self, indices: NDArray[np.int64] | None = None) -> NoReturn:
        """Refused."""
        raise one_place()


def one_place() -> UsageError:
    """The sentence for a mechanism that needs single rows."""
    return UsageError(
        "This mechanism draws or keeps single records, so it needs all of them in one place: partitioned records "
        "release sums only (tables, embeddings, sketches, counts)."
    )


def units_in_one_place() -> UsageError:
    """The sentence for partitioned records with a unit."""
    return UsageError(
        "Rows of one unit may lie in several partitions, so a unit needs all records in one place: give one file "
        "(.csv, .csv.gz or .parquet) without an engine, or protect single records."
    )
