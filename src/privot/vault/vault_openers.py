"""The ways to make a vault of files; each reads the records and hands them to the vault, and keeps none of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self

from privot.common.arguments import check_file_name
from privot.errors import UsageError
from privot.guarantee import Adjacency
from privot.noise import NoiseSource
from privot.partitions import Engine
from privot.vault.record_files import file_label, read_encoded_table, read_file
from privot.vault.related_records import ORPHANS, read_related
from privot.vault.stream import Sealed

if TYPE_CHECKING:
    from privot.ledger import Ledger
    from privot.tables import FrameForm, RelatedCodec, Schema


class VaultOpeners(Sealed):
    """The part of a `Vault` that opens files: all it holds is the public form of a DataFrame."""

    __slots__ = ("__form",)

    def __init__(self) -> None:
        self.__form: FrameForm | None = None

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
        >>> from privot.vault import Vault
        >>> Vault.open("digits", classes=10, clip=8.0, adjacency="add-remove", budget=(1.0, 1e-5))
        <Vault 'digits': records in 64 dimensions, clip 8, add-remove>
        """
        make: Callable[..., Self] = cls
        more: dict[str, Any] = {"adjacency": adjacency, "ledger": ledger, "budget": budget, "noise": noise}
        more |= {"label": label, "new_records": new_records}
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
        check_file_name(path, "the name of a file or folder (a DataFrame needs a schema, an array is Vault(x, …))")
        more["label"] = file_label(path) if label is None else label
        held = read_file(path, classes=classes, shape=shape, part=part, engine=engine, unit=unit, unit_file=unit_file)
        return make(**held, clip=clip, unit=unit, per_unit=per_unit, **more)

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
        >>> from privot.vault import Vault
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
        make: Callable[..., Self] = cls
        made = make(
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
        >>> from privot.vault import Vault
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
        make: Callable[..., Self] = cls
        terms: dict[str, Any] = {"ledger": ledger, "budget": budget, "noise": noise, "new_records": new_records}
        return make(related, clip=clip, adjacency=adjacency, label=label, **terms)

    @property
    def frame_form(self) -> FrameForm | None:
        """The kind and dtypes of the DataFrame that the records came in; public. None where they came otherwise."""
        return self.__form
