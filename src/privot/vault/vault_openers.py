"""The way to make a vault of files; it reads the records and hands them to the vault, and keeps none of them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from privot.common.privacy_unit import Unit
from privot.errors import UsageError
from privot.guarantee import Adjacency
from privot.kinds import Files, Kind, Vectors, as_kind
from privot.noise import NoiseSource
from privot.vault.record_files import opened
from privot.vault.stream import Sealed

if TYPE_CHECKING:
    from privot.ledger import Ledger
    from privot.tables import RelatedCodec, Schema


class VaultOpeners(Sealed):
    """The part of a `Vault` that opens files."""

    __slots__ = ()

    @classmethod
    def open(
        cls,
        data: Any,
        schema: Kind | Schema | RelatedCodec | str | Path | None = None,
        *,
        adjacency: Adjacency | str,
        ledger: Ledger | None = None,
        budget: tuple[float, float] | None = None,
        unit: Unit | str | None = None,
        noise: NoiseSource | None = None,
        new_records: bool = False,
    ) -> Self:
        """A vault of records in files or in a DataFrame, read by what is stated about them.

        Parameters
        ----------
        data
            Where the records are. Of numbers what `privot.load` reads: `.npz`, `.npy`, `.csv`, `.csv.gz`, an IDX file,
            a folder of images by class, or the built-in "digits". Of a table a `.csv`, `.csv.gz` or `.parquet` file,
            or a DataFrame of pandas or Polars, or an Arrow table: its index is not read, and its dtypes are public
            (`kind.form`). Of related tables a mapping from their names to such files.

            A pattern (`scans/*.tar`, `rows-*.npy`), an fsspec address, tar shards, and of a table a folder or
            `duckdb:///FILE` and `postgresql://…` with a query, are partitioned records: the vault holds where they are
            and reads them for sums only, every time one is asked. Each worker holds one block of rows (of at most 2¹⁵
            rows and 2²² numbers) and what its file needs to give it: a whole `.npz` or `.npy` file, an image of a
            shard, a row group of Parquet, some lines of CSV, an Arrow batch of a query. The same rows have the same
            budget however they are cut. A query, an engine, a file of units and a name for the ledger are stated by
            `privot.kinds.Files`.
        schema
            What is public about the records: `Vectors(…)` or `Images(…)` of `privot.kinds` for numbers, a
            `privot.Schema` for a table, a `privot.tables.RelatedCodec` for related tables, or the file of a schema
            (`.json`, `.toml`). Of a table the clip and the classes follow from it. Whoever is given the vault knows it.
        unit
            What says whose each record is, where everything of one such value is protected and not one record: a
            column of a table, which need not be in the schema; an array of a `.npz` file, of one whole number or text
            per record; of tar shards the ending of a file beside each image (000017.patient_id); of a folder of images
            the column of its `Files(…, unit_file=…)`. A name, or a `Unit` that also says how many records of each take
            part. It is an identifier: it is read, and is no column of the vault's rows.
        adjacency, ledger, budget, noise, new_records
            As for `Vault`. Related tables work under add-remove, where neighbours differ in one parent and all its
            children; a ledger knows them together as one data set, and refuses where it has a budget for one of them
            alone, because its rows would get a second one.

        Returns
        -------
        Vault
            Of numbers, rows as the file has them, with images flattened to rows: nothing is scaled. Of a table compact
            rows, one coordinate per column of the schema besides its label (`TableCodec.encode`): every way into privot
            encodes a table so, and one table has one budget. Of related tables one row per parent.

        Raises
        ------
        DataError
            If there is no such file, or it cannot be used. The sentence names a table, a line, a column or a shape,
            never a value.
        UsageError
            If a public fact that the data need is not stated, or another argument cannot be used.
        OtherRecordsError
            If the ledger guards other records.

        Notes
        -----
        Formal guarantee: a record's row depends on that record and on what is stated here, never on another record, so
        neighbouring data give neighbouring rows. Of a table its norm is at most the vault's clip. What a release of the
        vault costs is then said of the records in the files. Of related tables a row depends on the rows of that
        parent's key alone (`privot.kinds.related_records`), and at most `per_parent` children of it take part.

        Examples
        --------
        >>> from tempfile import TemporaryDirectory
        >>> from privot.tables import Column, RelatedCodec, Schema
        >>> from privot.kinds import Files, Images
        >>> from privot.vault import Vault
        >>> digits = Images((8, 8), classes=10, clip=8.0)
        >>> Vault.open("digits", digits, adjacency="add-remove", budget=(1.0, 1e-5))
        <Vault 'digits': records in 64 dimensions, clip 8, add-remove>
        >>> schema = Schema((Column("age", "integer", 0, 120), Column("sex", "categorical", categories=("f", "m"))))
        >>> with TemporaryDirectory() as folder:
        ...     file = Path(folder) / "people.csv"
        ...     _ = file.write_text("age,sex\\n31,f\\n54,m\\n")
        ...     Vault.open(file, schema, adjacency="replace-one", budget=(1.0, 1e-5))
        <Vault 'people.csv': 2 rows of a table in 2 dimensions, clip 1.41421, replace-one>
        >>> people, visits = (Schema((Column(name, "integer", 0, 99),)) for name in ("age", "days"))
        >>> codec = RelatedCodec({"people": people, "visits": visits}, key="person", per_parent=3)
        >>> with TemporaryDirectory() as folder:
        ...     files = {name: Path(folder) / f"{name}.csv" for name in codec.names}
        ...     _ = files["people"].write_text("person,age\\na,31\\nb,54\\n")
        ...     _ = files["visits"].write_text("person,days\\nb,2\\nb,9\\n")
        ...     Vault.open(Files(files, label="clinic"), codec, adjacency="add-remove", budget=(1.0, 1e-5))
        <Vault 'clinic': related records in 5 dimensions, clip 2.23607, add-remove of one person, at most 4 rows>
        """
        kind, files = Vectors() if schema is None else as_kind(schema), Files.of(data)
        if isinstance(unit, str):
            unit = Unit(unit)
        if not kind.by_schema and (files.query is not None or files.parts is not None):
            raise UsageError("The rows of a query are a table: state its schema.")
        if kind.clip is None:
            raise UsageError(
                "A bound on the norm of a row is public and stated: give a kind with its clip, or a Schema."
            )
        make: Callable[..., Self] = cls
        # said here again: a reader that forgets the units is refused, and not taken for one of single records
        whose = {} if unit is None else {"unit": unit}
        return make(
            **opened(files, kind, None if unit is None else unit.name),
            **whose,
            adjacency=adjacency,
            ledger=ledger,
            budget=budget,
            noise=noise,
            label=files.name,
            new_records=new_records,
        )
