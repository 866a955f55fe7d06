"""Records in many partitions: where they are, what is public about them, and passes over them; it holds no record.

The first pass reads everything once and refuses what does not fit; with a ledger's key it also finds the digest by
which that ledger knows the records (without, they are named in a second pass). Every later pass adds up. If a partition
then holds other records than it did at first, the pass is refused and its sums are dropped. Where a unit is protected,
further passes choose which rows take part, and only those are added (`chosen_rows`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from privot.common.block_sums import BlockSum, Totals, add_totals
from privot.common.unit_values import unit_as_text
from privot.data.record_digest import Checksum
from privot.errors import DataError, PrivotError
from privot.kinds import Kind
from privot.partitions.chosen_rows import ChosenPartition, Collected, CollectMarks, chosen_partitions, shares_for
from privot.partitions.engines.engine import Engine, differing_mark
from privot.partitions.engines.local_engine import LocalEngine
from privot.partitions.partition import OwnedPartition, Partition
from privot.partitions.partition_tasks import Added, AddRecords, Named, NameRecords, Seen

R = TypeVar("R", Named, Added, Collected)
Found = TypeVar("Found", covariant=True)


class PartitionTask(Protocol[Found]):
    """What a pass does with each partition."""

    def __call__(self, partition: Partition) -> Found:
        """Read it."""
        ...

    def arithmetic(self, readers: tuple[str, ...] = ()) -> str:
        """By which versions this process reads and how it rounds, as far as the result depends on it."""
        ...


@dataclass(frozen=True)
class PassProgress:
    """How far one pass over the partitions is: which pass, partitions done of all, records, and seconds so far."""

    what: str
    done: int
    partitions: int
    records: int
    seconds: float

    @property
    def rate(self) -> float:
        """Records per second."""
        return self.records / self.seconds if self.seconds > 0 else 0.0

    @property
    def left(self) -> float:
        """Seconds left, if the other partitions take as long as those that are done."""
        return self.seconds / self.done * (self.partitions - self.done) if self.done else float("nan")


class Keeper(Protocol):
    """Keeps what finished partitions gave, so that a pass that was stopped goes on (`kept_sums.KeptSums`)."""

    def checksum_key(self, unless_known: int) -> int:
        """The key of checksums by which it knows the records; this one from now on if it has none."""
        ...

    def load(self, task: Any, partition: Partition) -> Any:
        """What this task once gave for this partition; None if that is not known."""
        ...

    def save(self, task: Any, partition: Partition, result: Any) -> None:
        """Keep it."""
        ...

    def remove(self) -> None:
        """Remove everything that is kept."""
        ...


@dataclass(eq=False)
class PartitionedSource:
    """Records of `dim` columns in `partitions`, with labels 0 … `classes` − 1 where there are any.

    Parameters
    ----------
    clip
        A bound on the norm of a row that follows from a schema; None where it has to be stated.
    label
        The public name of the source.
    engine
        What goes over the partitions; processes of this machine unless given.
    progress
        Called after each partition with a `PassProgress`.
    whole
        Tells how many records all partitions hold together, where that can be asked in another way: a source whose
        partitions hold another number in the first pass is refused.
    kind
        What the records are, where a schema says it; None where they are numbers.
    unit
        What says whose each record is, where a unit is protected. Sums are then of at most so many rows of each unit.
    """

    partitions: tuple[Partition, ...]
    dim: int
    classes: int | None
    clip: float | None
    label: str
    engine: Engine = field(default_factory=LocalEngine)
    progress: Callable[[PassProgress], None] | None = None
    keeper: Keeper | None = None
    whole: Callable[[], int] | None = None
    unit: str | None = None
    kind: Kind | None = None
    _key: int = field(default_factory=Checksum.fresh_key, repr=False)
    _row_keys: tuple[bytes, ...] = field(default=(), repr=False)
    _owner_keys: tuple[bytes, ...] = field(default=(), repr=False)
    _late_owner_keys: tuple[bytes, ...] = field(default=(), repr=False)
    _named: dict[int, Named] | None = field(default=None, repr=False)
    _digests: dict[bytes, NDArray[np.uint64]] = field(default_factory=dict, repr=False)
    _owned: dict[bytes, NDArray[np.uint64]] = field(default_factory=dict, repr=False)
    _chosen: dict[int, list[ChosenPartition]] = field(default_factory=dict, repr=False)
    _chosen_counts: dict[int, int] = field(default_factory=dict, repr=False)

    def __repr__(self) -> str:
        return f"<PartitionedSource {self.label!r}: {len(self.partitions)} partitions, {self.dim} columns>"

    def keep(self, keeper: Keeper) -> None:
        """Keep results of finished partitions with `keeper` from now on, and use what it has of an earlier process."""
        self.keeper = keeper
        key = keeper.checksum_key(self._key)
        if self._named is None:
            self._key = key
        elif key == self._key:
            for place, found in self._named.items():
                keeper.save(self._naming(self._row_keys, self._owner_keys), self.partitions[place], found)

    def expect(self, *row_keys: bytes, owner_keys: Sequence[bytes] = ()) -> None:
        """Name the records under the keys of these ledgers in the first pass: they are not read once more for it.

        Under `owner_keys` it is named whose each record is; nothing is, where no unit is protected. After the first
        pass these wait for the next one that names records.
        """
        owner_keys = () if self.unit is None else owner_keys
        if self._named is None:
            self._row_keys = tuple(dict.fromkeys((*self._row_keys, *row_keys)))
            self._owner_keys = tuple(dict.fromkeys((*self._owner_keys, *owner_keys)))
        else:
            late = (*self._late_owner_keys, *(key for key in owner_keys if key not in self._owned))
            self._late_owner_keys = tuple(dict.fromkeys(late))

    def name_under(self, *row_keys: bytes) -> None:
        """Name the records under the keys of these ledgers, in one pass for all that are not known yet."""
        self.expect(*row_keys)
        self._first()
        missing = tuple(dict.fromkeys(key for key in row_keys if key not in self._digests))
        if missing:
            self._read(missing, self._late_owner_keys)

    def named_owners(self, owner_key: bytes) -> NDArray[np.uint64]:
        """`owned_digest` of all records with their labels under a ledger's key: whose each is."""
        if self.unit is None:
            raise PrivotError("These partitions say of no record whose it is.")
        self.expect(owner_keys=(owner_key,))
        self._first()
        if owner_key not in self._owned:
            self._read((), self._late_owner_keys)
        return self._owned[owner_key].copy()

    def named(self, row_key: bytes) -> NDArray[np.uint64]:
        """`records_digest` of all records under a ledger's key."""
        out: NDArray[np.uint64] = self.named_by_class(row_key).sum(axis=0, dtype=np.uint64)
        return out

    def named_by_class(self, row_key: bytes) -> NDArray[np.uint64]:
        """`class_digests` of all records under a ledger's key."""
        self.name_under(row_key)
        return self._digests[row_key].copy()

    @property
    def count(self) -> int:
        """How many records there are; everything is read once for it, and refused if a record does not fit."""
        return sum(named.seen.count for named in self._first().values())

    def _naming(self, row_keys: tuple[bytes, ...], owner_keys: tuple[bytes, ...]) -> NameRecords:
        return NameRecords(self.dim, self.classes, self._key, row_keys, owner_keys, self.unit is not None)

    def _first(self) -> dict[int, Named]:
        """What the first pass found."""
        if self._named is None:
            self._read(self._row_keys, self._owner_keys)
        assert self._named is not None
        return self._named

    def _read(self, row_keys: tuple[bytes, ...], owner_keys: tuple[bytes, ...]) -> None:
        """One pass over all records, which names them under each of these keys."""
        found: dict[int, Named] = {}
        for place, named in self._passed("reading", self._naming(row_keys, owner_keys)):
            if self._named is not None:
                self._check_same(place, named.seen)
            found[place] = named
        count = sum(named.seen.count for named in found.values())
        if not count:
            raise DataError(f"{self.label!r} holds no records: give at least one.")
        if self._named is None and self.whole is not None and self.whole() != count:
            raise DataError(
                f"The partitions of {self.label!r} together hold another number of records than the whole: let nobody "
                "write to the data meanwhile, and let no row follow from chance or from the time."
            )
        if {named.numbers for named in found.values()} >= {True, False}:
            # which of the two a file has may follow from its other values, and changes who is whose
            raise unit_as_text(self.unit or "")
        self._named, self._row_keys, self._owner_keys = found, row_keys, owner_keys
        for at, key in enumerate(row_keys):
            self._digests[key] = np.sum([named.digests[at] for named in found.values()], axis=0, dtype=np.uint64)
        self._late_owner_keys = ()
        for at, key in enumerate(owner_keys):
            self._owned[key] = np.sum([named.owned[at] for named in found.values()], axis=0, dtype=np.uint64)

    def sums(self, summand: BlockSum, most: int | None = None) -> Totals:
        """Σ of what `summand` adds, exactly: over all records, or over at most `most` of each unit where there is one.

        Refuses a source with a unit and without a bound: one unit could move such a sum by any amount.
        """
        if (most is None) != (self.unit is None):
            raise PrivotError("Sums of partitions with a unit are bounded per unit, and only those.")
        self._first()
        totals, task = summand.zeros(), AddRecords(summand, self.dim, self.classes, self._key)
        if most is None:
            for place, found in self._passed("adding", task):
                self._check_same(place, found.seen)
                add_totals(totals, found.totals)
            return totals
        for chosen in self._choices(most):
            for place, found in self._passed("adding", task, chosen):
                if found.seen.count != chosen[place].rows:
                    raise PrivotError(f"The engine added other rows of {chosen[place].name!r} than were chosen.")
                add_totals(totals, found.totals)
        return totals

    def chosen_count(self, most: int) -> int:
        """How many rows take part, if at most `most` of each unit do."""
        if most not in self._chosen_counts:
            self._chosen_counts[most] = sum(part.rows or 0 for chosen in self._choices(most) for part in chosen)
        return self._chosen_counts[most]

    def _choices(self, most: int) -> Iterator[list[ChosenPartition]]:
        """For one share of the units after the other, the partitions with those of its rows that take part.

        Where there is one share, what was chosen is kept in memory for the next sum.
        """
        if most in self._chosen:
            yield self._chosen[most]
            return
        shares = shares_for(self.count)
        # an owned source has owned partitions: `open_source` makes them
        partitions: Sequence[OwnedPartition] = self.partitions  # type: ignore[assignment]
        for share in range(shares):
            found: dict[int, Collected] = {}
            task = CollectMarks(self.dim, self.classes, self._key, share, shares)
            # not kept: a file would have a length that tells how many rows there are
            for place, collected in self._passed("choosing", task, keep=False):
                self._check_same(place, collected.seen)
                found[place] = collected
            chosen = chosen_partitions(partitions, [found[place] for place in range(len(partitions))], most)
            if shares == 1:
                self._chosen[most] = chosen
            yield chosen

    def _check_same(self, place: int, seen: Seen) -> None:
        assert self._named is not None
        first = self._named[place].seen
        if (seen.count, seen.checksum) != (first.count, first.checksum):
            raise DataError(
                f"Partition {self.partitions[place].name!r} holds other records than when it was first read: nothing "
                "was released from this pass; let nobody write to the data meanwhile."
            )

    def _passed(
        self, what: str, task: PartitionTask[R], partitions: Sequence[Partition] | None = None, *, keep: bool = True
    ) -> Iterator[tuple[int, R]]:
        """Every partition's result once, of all unless some are given; those that are kept first."""
        partitions, keeper = self.partitions if partitions is None else partitions, self.keeper if keep else None
        here: dict[tuple[str, ...], str] = {}
        started = time.monotonic()
        done = records = 0
        open_places = []

        def tell(found: R) -> None:
            nonlocal done, records
            done, records = done + 1, records + found.seen.count
            if self.progress is not None:
                spent = time.monotonic() - started
                self.progress(PassProgress(what, done, len(partitions), records, spent))

        for place, partition in enumerate(partitions):
            kept: R | None = None if keeper is None else keeper.load(task, partition)
            if kept is None:
                open_places.append(place)
            else:
                tell(kept)
                yield place, kept
        if not open_places:
            return
        missing = set(open_places)
        for index, found in self.engine.map(task, [partitions[place] for place in open_places]):
            place = open_places[index]
            if place not in missing:
                raise PrivotError(f"The engine counted partition {partitions[place].name!r} twice.")
            missing.discard(place)
            readers = partitions[place].readers
            if readers not in here:
                here[readers] = task.arithmetic(readers)
            if found.seen.machine != here[readers]:
                raise DataError(
                    "A worker may make other numbers of the same records than this process: it has "
                    f"{differing_mark(here[readers], found.seen.machine)}. Give all workers the same kind of processor "
                    "and the same versions."
                )
            if keeper is not None:
                keeper.save(task, partitions[place], found)
            tell(found)
            yield place, found
        if missing:
            # a sum without them would be of other records than were named
            raise PrivotError(f"The engine left out partition {partitions[min(missing)].name!r}.")
