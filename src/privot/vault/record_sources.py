"""What a vault is made of: rows in memory, related tables or partitions, each asked the same by a vault and a ledger.

A source lives while a vault is made, or a ledger is asked for its budget; it shows nothing of the records it holds.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from privot.common.privacy_unit import RECORD, Unit
from privot.data.loading import checked_labels, checked_rows
from privot.data.record_digest import owned_digest, records_digest, row_digests
from privot.errors import UsageError
from privot.kinds import Kind
from privot.kinds.contributions import checked_units, kept_rows
from privot.kinds.related_records import RelatedTables
from privot.kinds.table_kinds import RelatedRows
from privot.mechanisms.mechanism import Facts
from privot.partitions.source import PartitionedSource
from privot.vault.array_records import _Records
from privot.vault.partitioned_records import PartitionedRecords
from privot.vault.stream import Sealed


class RecordSource(Sealed, ABC):
    """Records that a vault may hold."""

    __slots__ = ()

    naming: ClassVar[str] = "x"
    """The name with which a ledger fingerprints their digest."""
    whole_units: ClassVar[bool] = False
    """Whether a row holds everything of one unit."""

    @property
    def kind(self) -> Kind | None:
        """What the records say they are; None where that is stated beside them."""
        return None

    @property
    @abstractmethod
    def labelled(self) -> bool:
        """Whether labels were given."""

    @abstractmethod
    def protected(self, unit: Unit | str | None) -> tuple[str | None, Unit | None]:
        """The name by which a ledger knows whose the records are, and the unit that is protected (None: one record)."""

    @abstractmethod
    def measured(self, classes: int | None) -> tuple[int, int]:
        """The number of records and of columns; refuses rows, and labels beside `classes`, that cannot be used."""

    @abstractmethod
    def records(self, facts: Facts, owner_key: bytes | None) -> _Records | PartitionedRecords:
        """What the vault holds: those of each unit that take part. `owner_key` is the ledger's, where there is one."""

    def expect(self, row_key: bytes, owner_key: bytes) -> None:
        """Name the records under these keys of a ledger in the first pass over them, where there are passes."""

    def name_under(self, *row_keys: bytes) -> None:
        """Name the records under the keys of these ledgers, in one pass where there are passes."""

    @property
    def alone(self) -> tuple[tuple[str, RecordSource], ...]:
        """The name and rows of each table that a ledger may know as a data set by itself."""
        return ()

    @abstractmethod
    def named(self, row_key: bytes) -> NDArray[np.uint64]:
        """What a ledger knows the records by (`records_digest`), under its key."""

    @abstractmethod
    def named_owners(self, owner_key: bytes) -> NDArray[np.uint64]:
        """The same of whose each record is (`owned_digest`)."""

    @abstractmethod
    def older_names(self) -> tuple[NDArray[np.uint8], ...] | None:
        """What a ledger made before sums of hashes may know the records by; None if that cannot be told."""


class RowSource(RecordSource):
    """Rows in memory, with their labels and whose each is."""

    __slots__ = ("_labels", "_owners", "_rows", "_units", "_y")

    def __init__(self, x: Any, y: Any = None, units: Any = None) -> None:
        self._rows, self._y, self._units = x, y, units
        self._labels: NDArray[np.int64] | None = None
        self._owners: list[str] | None = None

    @property
    def labelled(self) -> bool:
        return self._y is not None

    def protected(self, unit: Unit | str | None) -> tuple[str | None, Unit | None]:
        if self._units is None and unit is not None:
            raise UsageError("A unit needs units: say whose record each is, or leave out unit.")
        if self._units is None:
            return None, None
        found = unit if isinstance(unit, Unit) else Unit("unit" if unit is None else unit)
        return None if unit is None else found.name, found

    def measured(self, classes: int | None) -> tuple[int, int]:
        self._rows = checked_rows(self._rows)
        self._labels = _labels(self._y, classes, len(self._rows))
        count, dim = self._rows.shape
        return count, dim

    def records(self, facts: Facts, owner_key: bytes | None) -> _Records:
        rows, labels = self._rows, self._labels
        if facts.unit is None:
            return _Records(rows, labels, facts)
        # from here on no mechanism sees the other rows; only the ledger's fingerprint is of all
        kept = kept_rows(self._whose(facts.unit.name), rows, labels, facts.unit.rows)
        return _Records(rows[kept], None if labels is None else labels[kept], facts)

    def named(self, row_key: bytes) -> NDArray[np.uint64]:
        return records_digest(row_key, self._rows)

    def named_owners(self, owner_key: bytes) -> NDArray[np.uint64]:
        # without the label two people with equal rows could swap theirs, unseen by a ledger
        rows = self._rows if self._labels is None else np.column_stack([self._rows, self._labels])
        return owned_digest(owner_key, rows, self._whose("unit"))

    def older_names(self) -> tuple[NDArray[np.uint8], ...]:
        return (row_digests(self._rows),)

    def _whose(self, name: str) -> list[str]:
        if self._units is None:
            raise UsageError("A unit needs units: say whose record each is.")
        if self._owners is None:
            self._owners = checked_units(self._units, len(self._rows), name)
        return self._owners


class TablesSource(RowSource):
    """Related tables, one row per parent with its children side by side: from here on that is a record."""

    __slots__ = ("_tables",)

    naming = "related"
    whole_units = True

    def __init__(self, tables: RelatedTables, y: Any = None, units: Any = None) -> None:
        super().__init__(None, y, units)
        self._tables = tables

    @property
    def kind(self) -> Kind:
        return RelatedRows(self._tables.codec)

    def protected(self, unit: Unit | str | None) -> tuple[str | None, Unit | None]:
        codec = self._tables.codec
        if self._y is not None or self._units is not None or unit not in (None, codec.key, codec.unit):
            raise UsageError("Related tables have their own labels and key: leave out y, classes and units.")
        return codec.key, codec.unit

    def measured(self, classes: int | None) -> tuple[int, int]:
        self._rows = self._tables.rows()
        return super().measured(classes)

    def records(self, facts: Facts, owner_key: bytes | None) -> _Records:
        return _Records(self._rows, None, facts)

    @property
    def alone(self) -> tuple[tuple[str, RecordSource], ...]:
        return tuple((name, RowSource(rows)) for name, rows in self._tables.alone if len(rows))

    def named(self, row_key: bytes) -> NDArray[np.uint64]:
        return self._tables.named(row_key)

    def named_owners(self, owner_key: bytes) -> NDArray[np.uint64]:
        return self._tables.named_owners(owner_key)

    def older_names(self) -> tuple[NDArray[np.uint8], ...]:
        return ()


class PassedSource(RecordSource):
    """Records in partitions, of which the vault holds where they are."""

    __slots__ = ("_given", "_source")

    def __init__(self, source: PartitionedSource, y: Any = None, units: Any = None) -> None:
        self._source, self._given = source, (y, units)

    @property
    def kind(self) -> Kind | None:
        return self._source.kind

    @property
    def labelled(self) -> bool:
        return True

    def protected(self, unit: Unit | str | None) -> tuple[str | None, Unit | None]:
        own, name = self._source.unit, unit.name if isinstance(unit, Unit) else unit
        if self._given[1] is not None:
            raise UsageError(
                "Partitions say themselves whose each record is: open them with a unit, and leave units out."
            )
        if name is not None and name != own:
            raise UsageError(
                f"These partitions were opened for one {own or RECORD}, and not for one {name}: open them with that "
                "unit."
            )
        return own, None if own is None else unit if isinstance(unit, Unit) else Unit(own)

    def measured(self, classes: int | None) -> tuple[int, int]:
        count = self._source.count
        if self._given[0] is not None or classes != self._source.classes:
            raise UsageError("Partitions hold their own labels: leave y out, and give the source's number of classes.")
        return count, self._source.dim

    def records(self, facts: Facts, owner_key: bytes | None) -> PartitionedRecords:
        # a source that states a unit bounds its rows itself (`privot.partitions.chosen_rows`)
        return PartitionedRecords(self._source, facts, None if facts.unit is None else owner_key)

    def expect(self, row_key: bytes, owner_key: bytes) -> None:
        self._source.expect(row_key, owner_keys=(owner_key,))

    def name_under(self, *row_keys: bytes) -> None:
        self._source.name_under(*row_keys)

    def named(self, row_key: bytes) -> NDArray[np.uint64]:
        return self._source.named(row_key)

    def named_owners(self, owner_key: bytes) -> NDArray[np.uint64]:
        return self._source.named_owners(owner_key)

    def older_names(self) -> None:
        """None: they were known by a sorted list of hashes, which needs all rows in one place."""


def record_source(x: Any, y: Any = None, units: Any = None) -> RecordSource:
    """The source that `x` is, with what is stated beside it.

    >>> record_source(np.zeros((3, 2))).measured(None)
    (3, 2)
    """
    if isinstance(x, RecordSource):
        return x
    makers: dict[type, type[Any]] = {PartitionedSource: PassedSource, RelatedTables: TablesSource}
    found: RecordSource = makers.get(type(x), RowSource)(x, y, units)
    return found


def _labels(y: Any, classes: int | None, records: int) -> NDArray[np.int64] | None:
    """The labels, if there are any, each from 0 to `classes` − 1."""
    if (y is None) != (classes is None):
        raise UsageError(
            "Labels y and the number of classes must be given together: the number is public, never read from labels."
        )
    if y is None or classes is None:
        return None
    if isinstance(classes, bool) or not isinstance(classes, int) or classes < 1:
        raise UsageError(f"The number of classes must be a whole number of at least 1, got {classes!r}.")
    return checked_labels(y, records, classes)
