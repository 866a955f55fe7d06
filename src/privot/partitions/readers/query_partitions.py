"""Partitions of the rows of a query, in Arrow batches: a DuckDB file, or a PostgreSQL server through ADBC.

A row lies in the partition that a hash of the row itself says. The types of columns are those that the database states
for the query: DuckDB is opened without access to anything outside its file, because a reader of files in SQL would
infer types from other records. Passwords are never part of an address here: addresses are written to job files.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from privot.common.extras import needing
from privot.errors import DataError, PrivotError, UsageError
from privot.opening.addresses import check_no_secret
from privot.partitions.partition import BLOCK_ROWS, Block, OwnedBlock
from privot.partitions.readers.query_text import checked_query
from privot.tables import TableCodec
from privot.tables.arrow_columns import encode_batch
from privot.tables.table_files import check_arrow_schema
from privot.tables.unit_column import owned_batch

DUCKDB, POSTGRESQL = "duckdb", "postgresql"
SCHEMES = {"duckdb": DUCKDB, "postgresql": POSTGRESQL, "postgres": POSTGRESQL}
_DIALECTS = {DUCKDB: "duckdb", POSTGRESQL: "postgres"}
"""What sqlglot calls their SQL."""
_READERS = {DUCKDB: ("duckdb", "pyarrow"), POSTGRESQL: ("adbc_driver_postgresql", "adbc_driver_manager", "pyarrow")}


def is_database(data: str) -> bool:
    """Whether this is an address of a database that queries are sent to."""
    return data.split("://")[0] in SCHEMES if "://" in data else False


@dataclass(frozen=True, eq=False)
class QueryPartition:
    """Part number `part` of `parts` of the rows of `query`."""

    address: str
    query: str
    codec: TableCodec
    part: int = 0
    parts: int = 1
    rows: int | None = None
    size: int = 0
    unit: str | None = None

    @property
    def name(self) -> str:
        """The number of the part; the query is not repeated."""
        return "the query" if self.parts == 1 else f"part {self.part + 1} of {self.parts} of the query"

    @property
    def stamp(self) -> str:
        """Empty: nothing tells, before the query runs, whether its rows changed."""
        return ""

    @property
    def readers(self) -> tuple[str, ...]:
        """DuckDB, whose hash cuts the rows, or the driver of PostgreSQL; and Arrow."""
        return _READERS[SCHEMES[self.address.split("://")[0]]]

    def blocks(self) -> Iterator[Block]:
        """Compact rows and labels of all its rows."""
        for batch in self._batches():
            yield encode_batch(batch, self.codec)

    def owned_blocks(self) -> Iterator[OwnedBlock]:
        """Compact rows, labels, and whose each row is by the column of the unit."""
        assert self.unit is not None
        for batch in self._batches():
            yield owned_batch(batch, self.codec, self.unit)

    def _batches(self) -> Iterator[Any]:
        """All its rows as record batches of Arrow, a block each."""
        kind = SCHEMES[self.address.split("://")[0]]
        place = _PLACES[kind].format(n=self.parts)
        where = "" if self.parts == 1 else f" WHERE {place} = {self.part}"
        with _answer(self.address, f"SELECT {_ROWS}.* FROM {_inner(self.query)}{where}") as batches:  # noqa: S608
            failed: str | None = None
            try:
                check_arrow_schema(batches.schema, self.name)
                for batch in batches:
                    for start in range(0, batch.num_rows, BLOCK_ROWS):
                        yield _plain(batch.slice(start, BLOCK_ROWS))
            except PrivotError:
                raise
            except Exception as error:  # a database quotes values in its messages
                failed = _said(error)
            if failed is not None:
                raise _stopped(failed)


_ROWS = "privot_rows_of_the_query"
"""The alias of the query: a column of the same name would be hashed in place of the row."""
# functions of the row alone, so every row lies in exactly one part; a NULL would lie in none
_PLACES = {
    DUCKDB: f"COALESCE(hash({_ROWS}), 0) % {{n}}",
    POSTGRESQL: f"COALESCE(mod(abs(hashtext({_ROWS}::text)::bigint), {{n}}), 0)",
}


# what a row looks like as text, and on which day a moment lies, may not follow from a worker's environment (PGTZ, TZ,
# PGDATESTYLE, PGOPTIONS): a row would lie in another part there, and be counted twice or never
_POSTGRESQL_SETTINGS = (
    "TimeZone = 'UTC'", "DateStyle = 'ISO, YMD'", "IntervalStyle = 'postgres'", "extra_float_digits = 1",
    "bytea_output = 'hex'", "lc_monetary = 'C'", "xmlbinary = 'base64'", "xmloption = 'content'",
)  # fmt: skip
_DUCKDB_SETTINGS = ("TimeZone = 'UTC'", "Calendar = 'gregorian'")


def _inner(query: str) -> str:
    """The query as a table; on lines of its own, because it may end in a comment."""
    return f"(\n{query}\n) AS {_ROWS}"


@dataclass(frozen=True)
class QueryCount:
    """How many rows the whole of a query has, asked in one statement."""

    address: str
    query: str

    def __call__(self) -> int:
        """Ask now."""
        failed = ""
        with _answer(self.address, f"SELECT count(*) AS rows FROM {_inner(self.query)}") as batches:  # noqa: S608
            try:
                return int(sum(value.as_py() for batch in batches for value in batch.column(0)))
            except Exception as error:  # a database quotes values in its messages, also while it answers
                failed = _said(error)
        raise _stopped(failed)


def query_partitions(
    address: str, query: str | None, codec: TableCodec, parts: int | None, unit: str | None = None
) -> list[QueryPartition]:
    """The partitions of the rows of `query`; nothing is asked of the database yet."""
    if not is_database(address):
        raise UsageError("A query is sent to duckdb:///FILE or postgresql://…: give such an address.")
    query = checked_query(query, _DIALECTS[SCHEMES[address.split("://")[0]]])
    parts = 1 if parts is None else parts
    if isinstance(parts, bool) or not isinstance(parts, int) or parts < 1:
        raise UsageError(f"The number of partitions must be a whole number of at least 1, got {parts!r}.")
    check_no_secret(address)
    if address.startswith("duckdb://"):
        _duckdb_file(address)
    return [QueryPartition(address, query, codec, part, parts, unit=unit) for part in range(parts)]


def _duckdb_file(address: str) -> str:
    place = address.removeprefix("duckdb://")
    if not place:
        raise UsageError(
            "DuckDB is asked about a database file, whose columns have stated types (duckdb:///path/file.db): files of "
            "records are read by privot itself, so give their pattern in place of duckdb://."
        )
    if not Path(place).is_file():
        raise DataError(f"There is no DuckDB file {Path(place).name!r}.")
    return place


@contextmanager
def _answer(address: str, sql: str) -> Iterator[Any]:
    """The rows of one statement as a reader of Arrow batches."""
    opened = _duckdb if SCHEMES[address.split("://")[0]] == DUCKDB else _postgresql
    with opened(address, sql) as batches:
        yield batches


@contextmanager
def _duckdb(address: str, sql: str) -> Iterator[Any]:
    with needing("Queries to DuckDB need", "partitions"):
        import duckdb
    place = _duckdb_file(address)
    connection, failed, reader = None, None, None
    try:
        # read-only: several processes may read one file
        connection = duckdb.connect(place, read_only=True, config={"threads": "1"})
        for setting in ("enable_external_access", "python_enable_replacements", "autoload_known_extensions"):
            # no files, variables or extensions: only the tables of this file, whose types are stated
            connection.execute(f"SET {setting} = false")
        for setting in _DUCKDB_SETTINGS:
            connection.execute(f"SET {setting}")
        connection.execute("SET lock_configuration = true")
        reader = connection.sql(sql).to_arrow_reader(BLOCK_ROWS)
    except Exception as error:  # its message may quote values
        failed = _said(error)
    try:
        if failed is not None:
            raise DataError(
                f"DuckDB cannot run the query ({failed}): it may read the tables of its file and nothing else; try it "
                "there first."
            )
        yield reader
    finally:
        if connection is not None:
            connection.close()


@contextmanager
def _postgresql(address: str, sql: str) -> Iterator[Any]:
    with needing("Queries to PostgreSQL need", "postgresql"):
        from adbc_driver_postgresql import dbapi
    connection, cursor, failed, reader = None, None, None, None
    try:
        connection = dbapi.connect(address)
        cursor = connection.cursor()
        for setting in _POSTGRESQL_SETTINGS:
            cursor.execute(f"SET {setting}")
        # whatever the query calls may not write
        cursor.execute("SET TRANSACTION READ ONLY")
        cursor.execute(sql)
        reader = cursor.fetch_record_batch()
    except Exception as error:  # its message may quote values
        failed = _said(error)
    try:
        if failed is not None:
            raise DataError(f"PostgreSQL cannot run the query ({failed}): check address and query with psql first.")
        yield reader
    finally:
        for held in (reader, cursor, connection):
            if held is not None:
                held.close()


def _stopped(failed: str) -> DataError:
    return DataError(f"The database stopped answering the query ({failed}): try it there first.")


def _said(error: Exception) -> str:
    """What may be repeated of a database's error: its kind, and PostgreSQL's five-letter code where there is one."""
    code = getattr(error, "sqlstate", None)
    return f"{type(error).__name__} {code}" if code else type(error).__name__


def _plain(batch: Any) -> Any:
    """The batch with plain columns: PostgreSQL's numeric comes as text marked as of a foreign type."""
    import pyarrow as pa

    columns = [column.storage if isinstance(column.type, pa.BaseExtensionType) else column for column in batch.columns]
    return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)
