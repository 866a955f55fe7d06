"""Holds the records and lets nothing out but paid-for releases; it may not show, log or quote a record.

The order of a release is fixed: what the mechanism needs is checked, its cost is counted, an unproven claim
is refused, the budget is charged, and only then are records and noise touched. A refusal therefore costs
nothing and shows nothing; a failure after the charge leaves the charge standing, because what already
happened cannot be undone.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self, cast

import numpy as np
from numpy.typing import NDArray

from privot.accounting import account
from privot.accounting.events import Downgraded, Event, adjacency_of, of_standing, repeated
from privot.common.arguments import check_delta, check_epsilon
from privot.common.block_sums import RowSums
from privot.common.privacy_unit import DEFAULT_ROWS, RECORD, Unit
from privot.data import checked_labels, checked_rows
from privot.errors import DataError, PrivotError, UnprovenError, UsageError
from privot.guarantee import Adjacency, Guarantee, Standing
from privot.mechanisms.clipping import clip_rows
from privot.mechanisms.mechanism import Answer, Answering, Facts, Identified, Mechanism, PublicColumn, refuse_unit
from privot.mechanisms.summaries.array_columns import checked_columns
from privot.noise import KeptNoise, NoiseSource, SystemNoise
from privot.noise.kept_noise import mark_of
from privot.partitions import Engine, PartitionedSource
from privot.partitions.engines.engine import arithmetic_mark
from privot.release import Release, Value
from privot.vault.budget import LedgerBudget, MemoryBudget, expect_ledger, owner_key, row_digests
from privot.vault.contributions import checked_units, kept_rows
from privot.vault.partitioned_records import PartitionedRecords, one_place
from privot.vault.record_files import file_label, read_encoded_table, read_file
from privot.vault.related_records import ORPHANS, RelatedTables, read_related
from privot.vault.stream import Sealed, Stream

if TYPE_CHECKING:
    from privot.ledger import Ledger
    from privot.tables import FrameForm, RelatedCodec, Schema

__all__ = ["CLIP_RANGE", "Stream", "Vault"]

SALT_BYTES = 32
CLIP_RANGE = (1e-100, 1e100)
"""Bounds on norms for which neither a squared norm nor σ leaves the floats."""


class _Records(Sealed, RowSums):
    """The arrays, in closures: an object browser finds functions here, not values."""

    __slots__ = ("__labels", "__rows", "count", "facts")

    def __init__(self, x: NDArray[Any], y: NDArray[np.int64] | None, facts: Facts) -> None:
        def rows(indices: NDArray[np.int64] | None) -> NDArray[np.float64]:
            return np.array(x if indices is None else x[indices], dtype=np.float64)

        def labels(indices: NDArray[np.int64] | None) -> NDArray[np.int64]:
            if y is None:
                raise UsageError("The vault holds no labels: give it y and the number of classes.")
            return np.array(y if indices is None else y[indices])

        self.__rows, self.__labels = rows, labels
        self.count, self.facts = x.shape[0], facts

    def rows(self, indices: NDArray[np.int64] | None = None) -> NDArray[np.float64]:
        return self.__rows(indices)

    def clipped(self, indices: NDArray[np.int64] | None = None) -> NDArray[np.float64]:
        return clip_rows(self.__rows(indices), self.facts.clip)

    def labels(self, indices: NDArray[np.int64] | None = None) -> NDArray[np.int64]:
        return self.__labels(indices)

    def exact_digest(self, row_key: bytes) -> bytes:
        labels = None if self.facts.classes is None else self.__labels(None)
        return row_digests(self.__rows(None), labels).tobytes()


class Vault(Sealed):
    """The records, the public facts about them, the budget they may spend, and the source of noise.

    Nothing leaves a vault except a `Release`, and each one is charged to the budget before a record is touched.
    `Vault.open` and `Vault.from_table` read the records from a file.

    Parameters
    ----------
    x
        Records of shape (records, dimension): an array of finite numbers, or what NumPy makes one of. They are copied,
        so nothing done to `x` later changes what is released. Or a `privot.partitions.PartitionedSource`, of which the
        vault holds where the records are; mechanisms then get sums of them and no rows.
    y
        Labels of shape (records,), whole numbers from 0 to `classes` − 1. They are given together with `classes`.
    clip
        Bound on the norm of a row, public and stated, never estimated. A mechanism that asks for clipped rows gets
        x·min(1, clip/‖x‖).
    adjacency
        "add-remove" or "replace-one", stated, without a default. Under replace-one the number of records is public.
    classes
        How many classes there are: public and stated, never read off the labels.
    ledger
        The ledger that pays. It guards one data set: given any other records, a changed value included, it refuses.
    budget
        (ε, δ). Without a `ledger` it is a budget in memory, for this vault in this process. With one it is what the
        ledger is told if it does not know these records yet.
    noise
        The source of noise; the operating system's entropy unless given. With noise from a seed every release is
        UNPROVEN.
    label
        The name by which a ledger lists these records. It is public.
    new_records
        True states that these are new records, not the ones that the ledger guards with a value changed. The statement
        is written to the ledger.
    columns
        The names of the columns, in order, for mechanisms that read one column. They are public. A file with a header
        or a schema names its own.
    units
        Whose record each is: texts or whole numbers, of shape (records,). Neighbours then differ in *everything that
        one unit has* and not in one record. Add-remove only.
    unit
        What a unit is called (the name of its column); it is public. With a ledger it has to be given.
    per_unit
        At most how many records of each unit take part; 1 unless given. Which ones is decided by a hash of the unit and
        the record alone. Noise grows with it.

    Raises
    ------
    UsageError
        If the clip, the adjacency, the classes or the budget cannot be used, or contradict the ledger.
    DataError
        If the records or labels cannot be used. The sentence quotes none of them.
    OtherRecordsError
        If the ledger guards other records and `new_records` does not state that these are new.

    Notes
    -----
    Formal guarantees:
      * what `release`, `release_once` and `stream` let out is differentially private as the guarantee that it carries
        says, under the assumptions that it lists; floating point is each mechanism's own promise, in its docstring;
      * all releases together cost at most the budget, counted by the accountant before each of them;
      * a refusal touches no record and costs nothing. A failure after the charge leaves the charge standing;
      * with `units`, records are bounded before a mechanism sees them (`privot.vault.contributions`; partitions to the
        same rows, over all of them together, `privot.partitions.chosen_rows`), and each event that a mechanism
        states for one record is charged for `per_unit` of them (`privot.accounting.for_unit`); mechanisms for which
        that is no theorem are refused. A ledger knows the records, all of them, by the same fingerprint with and
        without units, and has one budget for them, for one grouping into units.

    Threat model: the vault protects against mistakes, not against its own process. No attribute, representation, copy,
    pickle, error message or traceback of privot's shows a record; but Python cannot keep code in the same process from
    reading memory, and a mechanism is handed the records: run only mechanisms you trust, in a process you trust. What a
    release *shows* is covered by its guarantee; how long it took, and that a mechanism failed, are not.

    Examples
    --------
    >>> from privot.mechanisms import RandomProjection
    >>> vault = Vault(np.eye(8), clip=0.5, adjacency="replace-one", budget=(10.0, 1e-5))
    >>> vault.release(RandomProjection(slices=4, sigma=1.0), purpose="a first look").value.shape
    (8, 4)
    >>> vault
    <Vault 'records': 8 records in 8 dimensions, clip 0.5, replace-one>
    """

    __slots__ = ("__budget", "__facts", "__form", "__label", "__lock", "__noise", "__records")

    def __init__(
        self,
        x: Any,
        y: Any = None,
        *,
        clip: float,
        adjacency: Adjacency | str,
        classes: int | None = None,
        ledger: Ledger | None = None,
        budget: tuple[float, float] | None = None,
        noise: NoiseSource | None = None,
        label: str = "records",
        new_records: bool = False,
        columns: Sequence[str | PublicColumn] = (),
        units: Any = None,
        unit: str | None = None,
        per_unit: int | None = None,
    ) -> None:
        adjacency = Adjacency.parse(adjacency)
        source = x if isinstance(x, PartitionedSource) else None
        related = x if isinstance(x, RelatedTables) else None
        if source is not None:
            unit = _checked_source_unit(source, units, unit)
        if related is not None:
            if y is not None or units is not None or unit not in (None, related.codec.key) or per_unit is not None:
                raise UsageError("Related tables have their own labels and key: leave out y, classes and units.")
            unit = related.codec.key
        if related is None:
            given = units is not None or (source is not None and source.unit is not None)
            protected = _checked_unit(given, unit, per_unit)
        else:
            protected = related.codec.unit
        if isinstance(clip, bool) or not isinstance(clip, int | float) or not CLIP_RANGE[0] <= clip <= CLIP_RANGE[1]:
            raise UsageError(f"The clip must be a number from {CLIP_RANGE[0]:g} to {CLIP_RANGE[1]:g}, got {clip!r}.")
        if ledger is None and budget is None:
            raise UsageError("A vault needs a budget: give it a ledger, or budget=(ε, δ).")
        if isinstance(noise, KeptNoise):
            # the same for everything asked of it: two releases, or two vaults, would show what differs between them
            raise UsageError("Noise from a kept secret serves one release: leave noise out, and use release_once.")
        if ledger is not None and protected is not None and unit is None:
            raise UsageError("A ledger's budget is for a unit with a name: give unit, what one of the units is called.")
        if source is not None and ledger is not None:
            expect_ledger(source, ledger)
        rows: NDArray[Any] = np.empty((0, 0))
        if source is None:
            # one row per parent, with its children side by side: from here on that is a record
            rows = checked_rows(x if related is None else related.rows())
        count, dim = rows.shape if source is None else (source.count, source.dim)
        # not under add-remove, where refusing one record and taking two would tell neighbours apart
        if count < 2 and adjacency is Adjacency.REPLACE_ONE:
            raise DataError(
                "A single record cannot be hidden among others under replace-one, where the number of records is "
                "public: give at least two."
            )
        if source is None:
            labels = _checked_classes(y, classes, count)
        elif y is not None or classes != source.classes:
            raise UsageError("Partitions hold their own labels: leave y out, and give the source's number of classes.")
        public_count = count if adjacency is Adjacency.REPLACE_ONE else None
        named = checked_columns(columns, dim)
        self.__facts = Facts(
            dim, public_count, float(clip), adjacency, classes, named, protected, whole_units=related is not None
        )
        self.__records: _Records | PartitionedRecords
        if related is not None:
            self.__records = _Records(rows, None, self.__facts)
        elif source is None and protected is not None:
            # from here on no mechanism sees the other rows; only the ledger's fingerprint is of all
            owners = checked_units(units, count, protected.name)
            kept = kept_rows(owners, rows, labels, protected.rows)
            self.__records = _Records(rows[kept], None if labels is None else labels[kept], self.__facts)
        elif source is None:
            self.__records = _Records(rows, labels, self.__facts)
        else:
            # a source that states a unit bounds its rows itself (`privot.partitions.chosen_rows`)
            key = None if ledger is None or protected is None else owner_key(ledger)
            self.__records = PartitionedRecords(source, self.__facts, key)
        self.__noise: NoiseSource = SystemNoise() if noise is None else noise
        self.__form: FrameForm | None = None
        self.__label = str(label)
        self.__lock = threading.Lock()
        self.__budget: MemoryBudget | LedgerBudget
        if ledger is None:
            self.__budget = MemoryBudget(*_pair(budget))
        else:
            terms = None if budget is None else _pair(budget)
            held = related if related is not None else rows if source is None else source
            whose: tuple[Any, ...] = ()
            if protected is not None:
                whose = (protected.name, owners, labels) if held is rows else (protected.name,)
            self.__budget = LedgerBudget(ledger, held, terms, adjacency, self.__label, new_records, *whose)

    @classmethod
    def open(
        cls,
        path: str | Path,
        *,
        adjacency: Adjacency | str,
        clip: float | None = None,
        schema: Schema | str | Path | None = None,
        classes: int | Sequence[str] | None = None,
        shape: Sequence[int] | None = None,
        part: Literal["train", "test"] = "train",
        query: str | None = None,
        parts: int | None = None,
        engine: Engine | None = None,
        ledger: Ledger | None = None,
        budget: tuple[float, float] | None = None,
        noise: NoiseSource | None = None,
        label: str | None = None,
        new_records: bool = False,
        unit: str | None = None,
        per_unit: int | None = None,
        unit_file: str | Path | None = None,
    ) -> Self:
        """A vault of the records in a file or a folder of images, read by what is stated about them.

        Parameters
        ----------
        path
            What `privot.load` reads: `.npz`, `.npy`, `.csv`, `.csv.gz`, an IDX file, a folder of images by class, or
            the built-in "digits". A pattern (`scans/*.tar`, `rows-*.npy`), an fsspec address and tar shards are
            partitioned records: the vault holds where they are and reads them for sums only, every time one is asked.
            Each worker holds one block of rows (of at most 2¹⁵ rows and 2²² numbers) and what its file needs to give
            it: a whole `.npz` or `.npy` file, an image of a shard.
        clip
            As for `Vault`; left out with a schema, which says it.
        schema, query, parts
            A table's public schema and, of a database, the query and into how many parts its rows are cut: then this
            is `Vault.from_table`.
        engine
            What goes over partitions (`privot.partitions.choose_engine`); processes of this machine unless given.
        classes
            The number of classes, or the names of a folder's classes in the order of their numbers; 0 leaves labels
            out. It may be left out only where the file has no labels.
        shape
            The shape of one image, (height, width) or (height, width, channels). A folder of images needs it.
        part
            Which arrays of a `.npz` file with x_train and x_test are read.
        label
            The name by which a ledger lists these records; the file's own unless given.
        unit, per_unit
            As for `Vault.from_table`; without a schema the unit is an array of a `.npz` file, of one whole number or
            text per record, and of tar shards the ending of a file beside each image (000017.patient_id).
        unit_file
            Of a folder of images: a CSV file with the column `file_name`, the path of an image relative to the folder,
            and the column `unit`, whose it is. Every image of the folder has one line.
        adjacency, ledger, budget, noise, new_records
            As for `Vault`.

        Returns
        -------
        Vault
            Of rows as the file has them, with images flattened to rows. Nothing is scaled.

        Raises
        ------
        DataError
            If there is no such file, or it cannot be used. The sentence names a line, a column or a shape, never a
            value.
        UsageError
            If a public fact that the file needs is not stated, or another argument cannot be used.
        OtherRecordsError
            If the ledger guards other records.

        Notes
        -----
        Formal guarantee: a record's row depends on that record and on what is stated here, never on another record, so
        neighbouring files give neighbouring rows. What a release of the vault costs is then said of the file's records.

        Examples
        --------
        >>> Vault.open("digits", classes=10, clip=8.0, adjacency="add-remove", budget=(1.0, 1e-5))
        <Vault 'digits': records in 64 dimensions, clip 8, add-remove>
        """
        more: dict[str, Any] = {"adjacency": adjacency, "ledger": ledger, "budget": budget, "noise": noise}
        more |= {"label": file_label(path) if label is None else label, "new_records": new_records}
        if schema is not None:
            if clip is not None or classes is not None or shape is not None:
                raise UsageError("A schema says the clip and the classes of a table: leave out clip, classes, shape.")
            if unit_file is not None:
                raise UsageError("The unit of a table is one of its columns: leave the file of units out.")
            more |= {"unit": unit, "per_unit": per_unit}
            return cls.from_table(path, schema, query=query, parts=parts, engine=engine, **more)
        if unit is None and per_unit is not None:
            raise UsageError("per_unit bounds the records of a unit: name the array of the unit, or leave it out.")
        if query is not None or parts is not None:
            raise UsageError("The rows of a query are a table: state its schema.")
        if clip is None:
            raise UsageError("A bound on the norm of a row is public and stated: give clip.")
        held = read_file(path, classes=classes, shape=shape, part=part, engine=engine, unit=unit, unit_file=unit_file)
        return cls(**held, clip=clip, unit=unit, per_unit=per_unit, **more)

    @classmethod
    def from_table(
        cls,
        path: Any,
        schema: Schema | str | Path,
        *,
        adjacency: Adjacency | str,
        query: str | None = None,
        parts: int | None = None,
        engine: Engine | None = None,
        ledger: Ledger | None = None,
        budget: tuple[float, float] | None = None,
        noise: NoiseSource | None = None,
        label: str | None = None,
        new_records: bool = False,
        unit: str | None = None,
        per_unit: int | None = None,
    ) -> Self:
        """A vault of the rows of a table with mixed columns, encoded by its public schema.

        Parameters
        ----------
        path
            The table: `.csv`, `.csv.gz` or `.parquet`. A folder or pattern of such files, an fsspec address, and
            `duckdb:///FILE` or `postgresql://…` with a query are partitioned records: the vault holds where they are
            and reads them for sums only, every time one is asked. Each worker holds one block of at most 2¹⁵ rows and
            what its file needs to give it: a row group of Parquet, some lines of CSV, an Arrow batch of a query. The
            same rows have the same budget however they are cut. Or a DataFrame of pandas or Polars, or an Arrow table:
            its index is not read, and its dtypes are public (`frame_form`).
        schema
            What is public about it, a `privot.Schema` or the file of one (`.json`, `.toml`). The clip and the number
            of classes follow from it.
        query
            A SELECT whose rows are the records of a database. Each row is taken for one record, and must follow from
            the rows of one person only: no LIMIT, window, sample or average over people. What can be seen is refused.
        parts
            Into how many partitions a query is cut, by a hash of the row; 1 unless given.
        engine
            What goes over partitions (`privot.partitions.choose_engine`); processes of this machine unless given. With
            an engine a single file is partitioned records too.
        label
            The name by which a ledger lists these records; the file's own unless given. The column to predict is the
            schema's to name.
        unit
            The column that says whose each row is, such as "patient_id": everything of one value is protected, and not
            one row. It need not be in the schema. It is an identifier: it is read, and is no column of the vault's
            rows. The rows of one unit may lie in several partitions.
        adjacency, ledger, budget, noise, new_records, per_unit
            As for `Vault`.

        Returns
        -------
        Vault
            Of compact rows, one coordinate per column of the schema besides its label (`TableCodec.encode`), as the
            synthesis of tables reads them. Every way into privot encodes a table so: one table has one budget.

        Raises
        ------
        DataError
            If the table or the schema file cannot be read, or a row does not follow the schema. The sentence names a
            line or a column, never a value.
        UsageError
            If the schema is neither a `Schema` nor a file name, or another argument cannot be used.
        OtherRecordsError
            If the ledger guards other records.

        Notes
        -----
        Formal guarantee: a row depends on that record and on the schema, never on another record, and its norm is at
        most the vault's clip. Whose it is depends on that record alone too.

        Examples
        --------
        >>> from tempfile import TemporaryDirectory
        >>> from privot.tables import Column, Schema
        >>> schema = Schema((Column("age", "integer", 0, 120), Column("sex", "categorical", categories=("f", "m"))))
        >>> with TemporaryDirectory() as folder:
        ...     file = Path(folder) / "people.csv"
        ...     _ = file.write_text("age,sex\\n31,f\\n54,m\\n")
        ...     Vault.from_table(file, schema, adjacency="replace-one", budget=(1.0, 1e-5))
        <Vault 'people.csv': 2 records in 2 dimensions, clip 1.41421, replace-one>
        """
        if unit is None and per_unit is not None:
            raise UsageError("per_unit bounds the rows of a unit: name the column of the unit, or leave it out.")
        held, form = read_encoded_table(path, schema, query=query, parts=parts, engine=engine, unit=unit)
        if label is None:
            label = file_label(path) if form is None else "records"
        made = cls(
            **held,
            # said here again: a reader that forgets the units is refused, and not taken for one of single records
            unit=unit,
            per_unit=per_unit,
            adjacency=adjacency,
            ledger=ledger,
            budget=budget,
            noise=noise,
            label=label,
            new_records=new_records,
        )
        made.__form = form
        return made

    @classmethod
    def from_tables(
        cls,
        paths: Mapping[str, str | Path],
        codec: RelatedCodec,
        *,
        adjacency: Adjacency | str,
        orphans: str = ORPHANS[0],
        ledger: Ledger | None = None,
        budget: tuple[float, float] | None = None,
        noise: NoiseSource | None = None,
        label: str | None = None,
        new_records: bool = False,
    ) -> Self:
        """A vault of a parent table and tables of its children, of which everything of one key is protected.

        Parameters
        ----------
        paths
            The file of every table (`.csv`, `.csv.gz`, `.parquet`), by the names that `codec` has for them.
        codec
            What is public about the tables: `privot.tables.RelatedCodec`.
        adjacency
            "add-remove": neighbours differ in one parent and all its children.
        orphans
            "refuse" refuses children whose key no parent has, "drop" leaves them out.
        label
            The name by which a ledger lists the tables; those of the files unless given.
        ledger, budget, noise, new_records
            As for `Vault`. A ledger knows all tables together as one data set: of each all rows, and which key each
            has. One that has a budget for one of the tables alone refuses, because its rows would get a second one.

        Raises
        ------
        DataError
            If a table cannot be read, a row does not follow its schema, two parents have one key, or a child has no
            parent. The sentence names a table, a line or a column, never a value.

        Notes
        -----
        Formal guarantee: the vault holds one row per parent, which depends on the rows of that parent's key alone
        (`privot.vault.related_records`), so neighbouring files give rows of which one is added or removed. Of a parent
        at most `codec.per_parent` children take part.

        Examples
        --------
        >>> from tempfile import TemporaryDirectory
        >>> from privot.tables import Column, RelatedCodec, Schema
        >>> people, visits = Schema((Column("age", "integer", 0, 120),)), Schema((Column("days", "integer", 0, 30),))
        >>> codec = RelatedCodec({"people": people, "visits": visits}, key="person", per_parent=3)
        >>> with TemporaryDirectory() as folder:
        ...     files = {name: Path(folder) / f"{name}.csv" for name in codec.names}
        ...     _ = files["people"].write_text("person,age\\na,31\\nb,54\\n")
        ...     _ = files["visits"].write_text("person,days\\nb,2\\nb,9\\n")
        ...     Vault.from_tables(files, codec, adjacency="add-remove", budget=(1.0, 1e-5), label="clinic")
        <Vault 'clinic': records in 5 dimensions, clip 2.23607, add-remove of one person, at most 4 rows>
        """
        related, clip = read_related(paths, codec, orphans)
        if label is None:
            label = ", ".join(file_label(paths[name]) for name in codec.names)
        terms: dict[str, Any] = {"ledger": ledger, "budget": budget, "noise": noise, "new_records": new_records}
        return cls(related, clip=clip, adjacency=adjacency, label=label, **terms)

    @property
    def facts(self) -> Facts:
        """What everybody may know about the records."""
        return self.__facts

    @property
    def frame_form(self) -> FrameForm | None:
        """The kind and dtypes of the DataFrame that the records came in; public. None where they came otherwise."""
        return self.__form

    @property
    def ledger(self) -> str | None:
        """The public name of the ledger that pays (`Ledger.identity`); None for a budget in memory."""
        return self.__budget.identity

    @property
    def partitioned(self) -> bool:
        """Whether the records lie in partitions: a release then takes as long as passes over them do."""
        return isinstance(self.__records, PartitionedRecords)

    def charges(self, mark: str) -> int:
        """How many charges for these records carry `mark` in their purpose: what a job that goes on has paid.

        A budget in memory knows those of this vault only.
        """
        return self.__budget.charges(mark)

    def check(self, event: Event, *, purpose: str, rows: bool = False) -> None:
        """Refuse charges to come that together cost `event` and do not fit the budget; nothing is charged.

        For a job that pays several times: what it cannot finish it should not begin. `rows` says whether one of its
        mechanisms draws or keeps single records, which partitioned records do not give.
        """
        if rows and isinstance(self.__records, PartitionedRecords):
            raise one_place()
        with self.__lock:
            self.__budget.check(event, purpose)

    def release(
        self, mechanism: Mechanism, *, purpose: str, allow_unproven: bool = False, delta: float | None = None
    ) -> Release:
        """Run `mechanism` once and let its value out, after charging for it.

        Parameters
        ----------
        mechanism
            A mechanism of one step; one of several steps, or one that answers queries, is run by `stream`.
        purpose
            What the release is for; it is written to the ledger.
        allow_unproven
            True lets out a release whose guarantee is not a theorem.
        delta
            The δ at which the guarantee is quoted; the budget's unless given.

        Returns
        -------
        Release
            The value, its guarantee, and the public choices behind it.

        Raises
        ------
        BudgetError
            If the budget does not cover the release. Nothing was touched.
        UnprovenError
            If no theorem covers the release and `allow_unproven` is not True. Nothing was touched.
        UsageError
            If the mechanism does not fit the public facts of these records. Nothing was touched.
        PrivotError
            If the mechanism failed after the charge. The charge stays, and what failed is not quoted.
        """
        if mechanism.steps != 1:
            raise UsageError(f"This mechanism runs {mechanism.steps} steps: use the vault's stream.")
        if hasattr(mechanism, "begin"):
            raise UsageError("This mechanism answers queries: use the vault's stream.")
        event, guarantee = self.__pay(mechanism, 1, purpose, allow_unproven, delta)
        return self.__run(mechanism, guarantee, lambda: mechanism.run(self.__records, self.__noise, event, 0))

    def release_once(
        self, mechanism: Identified, *, purpose: str, secret: bytes, delta: float | None = None
    ) -> Release:
        """Like `release`, but asked again with the same `secret` it gives the same value and is not charged again.

        For a release that must survive a crash between charge and delivery: keep 32 bytes of the operating system's
        entropy with the records until the release is safe on disk, and ask again for the same value. The noise is a
        keyed function of the ledger's name for the records, the mechanism to the last bit, its event and the value, so
        another question with the same secret gets independent noise, and pays. It needs a ledger, which remembers what
        was paid. Parameters, returns and raises are those of `release`; nothing unproven is released this way.
        """
        noise, mark = self.__kept(mechanism, secret)
        charged, guarantee = self.__pay(mechanism, 1, purpose, False, delta, noise, mark)
        return self.__run(mechanism, guarantee, lambda: mechanism.run(self.__records, noise, charged, 0))

    def secret_of(self, salt: bytes) -> bytes:
        """A secret for `release_once` that only this `salt` and the ledger's key together give.

        Keep the salt (32 bytes of the operating system's entropy) until the release is on disk: it may lie where the
        secret may not, since without the ledger's key it says nothing of the noise.
        """
        budget = self.__budget
        if not isinstance(budget, LedgerBudget):
            raise UsageError("Only a ledger has a key: give the vault a ledger.")
        if len(salt) != SALT_BYTES:
            raise UsageError(f"A salt has {SALT_BYTES} bytes, got {len(salt)}.")
        return budget.secret_of(salt)

    def forget_sums(self) -> None:
        """Remove the sums of finished partitions that are kept for a release which is on disk now."""
        if isinstance(self.__records, PartitionedRecords):
            self.__records.forget_sums()

    def released_once(self, mechanism: Identified, *, secret: bytes) -> bool:
        """Whether `release_once` with this mechanism and `secret` was paid for: asked again, it charges nothing."""
        budget = self.__budget
        return isinstance(budget, LedgerBudget) and budget.charged_once(self.__kept(mechanism, secret)[1])

    def __kept(self, mechanism: Identified, secret: bytes) -> tuple[KeptNoise, str]:
        """The noise of one release that can be made again, and the mark of its charge.

        Both are bound to the very records, by a digest for which nobody without the ledger's key finds other records:
        one noise on two data sets would show what differs between them, and the second would not pay. They are bound to
        the versions and the rounding of this machine too: a part that is fitted to an earlier one could come out a
        little different elsewhere, and would get fresh noise; so elsewhere it is another release, and pays.
        """
        budget = self.__budget
        if not isinstance(budget, LedgerBudget):
            raise UsageError("Only a ledger remembers what was paid for: give the vault a ledger.")
        if mechanism.steps != 1 or mechanism.seed is not None or not hasattr(mechanism, "identity"):
            raise UsageError("release_once needs a mechanism of one step, with an identity and without a seed.")
        mechanism.needs.check(self.__facts)
        named = [
            budget.data,
            f"{type(mechanism).__module__}.{type(mechanism).__qualname__}",
            repr(self.__facts),
            hashlib.sha256(self.__records.exact_digest(budget.row_key)).hexdigest(),
            repr(sorted(self.__facts.cost(mechanism.event(self.__facts)).to_dict().items())),
            arithmetic_mark(("scipy",), mechanism.needs.tensors),
        ]
        about = "\n".join(named).encode() + b"\n" + mechanism.identity()
        return KeptNoise(secret, about), mark_of(secret, about)

    def stream(
        self, mechanism: Mechanism, *, purpose: str, allow_unproven: bool = False, delta: float | None = None
    ) -> Stream:
        """All steps of `mechanism`, charged together now, run one by one as the stream is read or asked.

        Parameters and raises are those of `release`; every release of the stream carries the guarantee of all steps.
        """
        steps = mechanism.steps
        event, guarantee = self.__pay(mechanism, steps, purpose, allow_unproven, delta)
        if not hasattr(mechanism, "begin"):

            def run(step: int, query: Any) -> Release:
                return self.__run(
                    mechanism, guarantee, lambda: mechanism.run(self.__records, self.__noise, event, step)
                )

            return Stream(run, guarantee, steps)
        answering = cast(Answering, mechanism)
        begun: list[Answer] = []
        lock = threading.Lock()

        def answer(step: int, query: Any) -> Release:
            def work() -> tuple[Value, Mapping[str, Any]]:
                # one at a time: what a mechanism keeps between steps is not made for several threads
                with lock:
                    if not begun:
                        begun.append(answering.begin(self.__records, self.__noise, event))
                    return begun[0](step, query)

            return self.__run(mechanism, guarantee, work)

        return Stream(answer, guarantee, steps, answering.check)

    def __pay(
        self,
        mechanism: Mechanism,
        steps: int,
        purpose: str,
        allow_unproven: bool,
        delta: float | None,
        noise: NoiseSource | None = None,
        mark: str | None = None,
    ) -> tuple[Event, Guarantee]:
        """The event of one step, and the guarantee of all of them, charged (with a `mark`: unless it was before)."""
        noise = self.__noise if noise is None else noise
        if not isinstance(purpose, str) or not purpose.strip():
            raise UsageError("A release needs a purpose, a text that is not empty: it is written to the ledger.")
        if purpose.rstrip().endswith("]") and ("[seed" in purpose or "[once" in purpose):
            raise UsageError('The purpose must not end in "[seed …]" or "[once …]": these suffixes are reserved.')
        mechanism.needs.check(self.__facts)
        if isinstance(self.__records, PartitionedRecords) and not mechanism.needs.sums_only:
            raise one_place()
        if not mechanism.needs.sums_only:
            refuse_unit(self.__facts, f"{type(mechanism).__name__} draws or keeps single records, so it")
        step = mechanism.event(self.__facts)
        if adjacency_of([step]) is not self.__facts.adjacency:
            raise UsageError(
                f"The mechanism's event is not under the vault's adjacency, {self.__facts.adjacency}: make it for that."
            )
        whole = of_standing(repeated(self.__facts.cost(step), steps), mechanism.standing)
        if noise.standing is not Standing.PROVEN:
            whole = Downgraded(whole, noise.standing, "the noise is not secret: it comes from a seed")
        guarantee = account(whole, self.__budget.delta if delta is None else delta)
        if guarantee.standing is not Standing.PROVEN and allow_unproven is not True:
            why = "Only a limit argument" if guarantee.standing is Standing.ASYMPTOTIC else "No theorem"
            raise UnprovenError(f"{why} covers this release: pass allow_unproven=True to make it nevertheless.")
        stated = getattr(mechanism, "assumptions", ())
        assumptions = dict.fromkeys((*guarantee.assumptions, *stated, *noise.assumptions))
        with self.__lock:
            if mark is None:
                self.__budget.charge(whole, purpose, mechanism.seed)
            else:
                assert isinstance(self.__budget, LedgerBudget)
                self.__budget.charge_once(whole, purpose, mark)
        return step, replace(guarantee, assumptions=tuple(assumptions))

    def __run(
        self, mechanism: Mechanism, guarantee: Guarantee, work: Callable[[], tuple[Value, Mapping[str, Any]]]
    ) -> Release:
        """One step, already paid for."""
        try:
            # no name here for what the mechanism returned: this frame goes with the error that is raised below
            return _released(guarantee, *work())
        except BaseException as error:
            failure: type[BaseException] = type(error)
        # raised out here: inside the handler the failure, whose message and frames may hold records, hangs on
        if not issubclass(failure, Exception):
            # an interrupt goes on as one, without the frames that hold un-noised values
            raise failure
        kind = failure if issubclass(failure, PrivotError) else PrivotError
        raise kind(
            f"{type(mechanism).__name__} failed after it was paid for ({failure.__name__}): "
            "the charge stays, and the message is withheld because it could quote a record."
        )

    def __repr__(self) -> str:
        f = self.__facts
        count = "records" if f.records is None else f"{f.records} records"
        of_unit = "" if f.unit is None else f" of {f.unit}"
        return f"<Vault {self.__label!r}: {count} in {f.dim} dimensions, clip {f.clip:g}, {f.adjacency}{of_unit}>"


def _released(guarantee: Guarantee, value: Value, public: Mapping[str, Any]) -> Release:
    return Release(value, guarantee, public)


def _pair(budget: Any) -> tuple[float, float]:
    try:
        epsilon, delta = budget
    except (TypeError, ValueError):
        raise UsageError(f"Expected a budget (ε, δ), a pair of numbers, got {type(budget).__name__}.") from None
    return check_epsilon(epsilon), check_delta(delta)


def _checked_source_unit(source: PartitionedSource, units: Any, unit: str | None) -> str | None:
    """The name of the unit of partitions, which say themselves whose each record is; refuses another one."""
    if units is not None:
        raise UsageError("Partitions say themselves whose each record is: open them with a unit, and leave units out.")
    if unit is not None and unit != source.unit:
        raise UsageError(
            f"These partitions were opened for one {source.unit or RECORD}, and not for one {unit}: open them with "
            "that unit."
        )
    return source.unit


def _checked_unit(given: bool, name: str | None, rows: int | None) -> Unit | None:
    """The unit that is protected; None for single records."""
    if not given:
        if name is not None or rows is not None:
            raise UsageError("A unit needs units: say whose record each is, or leave out unit and per_unit.")
        return None
    return Unit("unit" if name is None else name, DEFAULT_ROWS if rows is None else rows)


def _checked_classes(y: Any, classes: int | None, records: int) -> NDArray[np.int64] | None:
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
