"""Partitions of the rows of a query, in Arrow batches: DuckDB in this process, or a PostgreSQL server through ADBC.

A row lies in the partition that a hash of the row itself says. The types of columns are those that the database states
for the query. Passwords are never part of an address here: addresses are written to job files.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from privot.common.extras import needing
from privot.errors import DataError, PrivotError, UsageError, brief
from privot.partitions.partition import BLOCK_ROWS, Block
from privot.tables import TableCodec
from privot.tables.arrow_columns import encode_batch
from privot.tables.table_files import check_arrow_schema

DUCKDB, POSTGRESQL = "duckdb", "postgresql"
SCHEMES = {"duckdb": DUCKDB, "postgresql": POSTGRESQL, "postgres": POSTGRESQL}


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

    @property
    def name(self) -> str:
        """The number of the part; the query is not repeated."""
        return "the query" if self.parts == 1 else f"part {self.part + 1} of {self.parts} of the query"

    @property
    def stamp(self) -> str:
        """Empty: nothing tells, before the query runs, whether its rows changed."""
        return ""

    def blocks(self) -> Iterator[Block]:
        """Compact rows and labels of all its rows."""
        kind = SCHEMES[self.address.split("://")[0]]
        with (_duckdb if kind == DUCKDB else _postgresql)(self.address, self._sql(kind)) as batches:
            failed: str | None = None
            try:
                check_arrow_schema(batches.schema, self.name)
                for batch in batches:
                    for start in range(0, batch.num_rows, BLOCK_ROWS):
                        yield encode_batch(_plain(batch.slice(start, BLOCK_ROWS)), self.codec)
            except PrivotError:
                raise
            except Exception as error:  # a database quotes values in its messages
                failed = _said(error)
            if failed is not None:
                raise DataError(f"The database stopped answering the query ({failed}): try it there first.")

    def _sql(self, kind: str) -> str:
        text = self.query.strip().rstrip(";")
        if self.parts == 1:
            return text
        # a function of the row alone, so every row lies in exactly one part
        place = "hash(q) % {n}" if kind == DUCKDB else "mod(abs(hashtext(q::text)::bigint), {n})"
        return f"SELECT q.* FROM ({text}) AS q WHERE {place.format(n=self.parts)} = {self.part}"  # noqa: S608


def query_partitions(address: str, query: str | None, codec: TableCodec, parts: int | None) -> list[QueryPartition]:
    """The partitions of the rows of `query`; nothing is asked of the database yet."""
    if not is_database(address):
        raise UsageError(f"A query is sent to duckdb:// or postgresql://, got {brief(address)}.")
    if query is None or not query.strip():
        raise UsageError("The records of a database are the rows of a query: state the query.")
    parts = 1 if parts is None else parts
    if isinstance(parts, bool) or not isinstance(parts, int) or parts < 1:
        raise UsageError(f"The number of partitions must be a whole number of at least 1, got {parts!r}.")
    if urlsplit(address).password is not None or "password=" in address:
        raise UsageError(
            "The address of a database may hold no password, because it is written to job files: put the password "
            "into ~/.pgpass or the environment (PGPASSWORD)."
        )
    return [QueryPartition(address, query, codec, part, parts) for part in range(parts)]


@contextmanager
def _duckdb(address: str, sql: str) -> Iterator[Any]:
    with needing("Queries to DuckDB need", "partitions"):
        import duckdb
    place = address.removeprefix("duckdb://")
    if place and not Path(place).is_file():
        raise DataError(f"There is no DuckDB file {Path(place).name!r}.")
    # read-only: several processes may read one file
    connection, failed, reader = None, None, None
    try:
        connection = duckdb.connect(place, read_only=True) if place else duckdb.connect()
        connection.execute("SET threads = 1")
        reader = connection.sql(sql).to_arrow_reader(BLOCK_ROWS)
    except Exception as error:  # its message may quote values
        failed = _said(error)
    try:
        if failed is not None:
            raise DataError(f"DuckDB cannot run the query ({failed}): try it there first.")
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


def _said(error: Exception) -> str:
    """What may be repeated of a database's error: its kind, and PostgreSQL's five-letter code where there is one."""
    code = getattr(error, "sqlstate", None)
    return f"{type(error).__name__} {code}" if code else type(error).__name__


def _plain(batch: Any) -> Any:
    """The batch with plain columns: PostgreSQL's numeric comes as text marked as of a foreign type."""
    import pyarrow as pa

    columns = [column.storage if isinstance(column.type, pa.BaseExtensionType) else column for column in batch.columns]
    return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)
