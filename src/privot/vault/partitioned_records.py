"""Partitioned records as a vault holds them: they give sums and no rows; it knows only where they are."""

from __future__ import annotations

from typing import NoReturn

import numpy as np
from numpy.typing import NDArray

from privot.common.block_sums import BlockSum, Totals
from privot.data.unit_marks import KEY as CHOOSING_KEY
from privot.errors import UsageError
from privot.mechanisms.mechanism import Facts
from privot.partitions.source import PartitionedSource
from privot.vault.stream import Sealed


class PartitionedRecords(Sealed):
    """The records of a source. Every sum is a pass over its partitions."""

    __slots__ = ("_owner_key", "_source", "facts")
    in_one_place = False

    def __init__(self, source: PartitionedSource, facts: Facts, owner_key: bytes | None = None) -> None:
        self._source, self.facts, self._owner_key = source, facts, owner_key

    @property
    def _most(self) -> int | None:
        """At most how many rows of each unit take part; None where single records are protected."""
        return None if self.facts.unit is None else self.facts.unit.rows

    @property
    def count(self) -> int:
        """How many records take part."""
        return self._source.count if self._most is None else self._source.chosen_count(self._most)

    def sums(self, summand: BlockSum) -> Totals:
        """Σ of what `summand` adds, over all records that take part."""
        return self._source.sums(summand, self._most)

    def forget_sums(self) -> None:
        """Remove what the source keeps of finished partitions."""
        if self._source.keeper is not None:
            self._source.keeper.remove()

    def exact_digest(self, row_key: bytes) -> bytes:
        """Which rows there are with which labels, `class_digests` under the key of a ledger.

        With a unit also whose they are, and the public key by which rows of a unit are chosen: under another one other
        rows would take part, and that is another release, which pays.
        """
        named = self._source.named_by_class(row_key).tobytes()
        if self._owner_key is None:
            return named
        return named + self._source.named_owners(self._owner_key).tobytes() + CHOOSING_KEY

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
