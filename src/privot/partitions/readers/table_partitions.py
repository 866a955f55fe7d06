"""Partitions of tables in files: a CSV file each, or a few row groups of a Parquet file; read by the schema."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass

from privot.opening.remote_files import Located
from privot.partitions.partition import BLOCK_ROWS, Block, OwnedBlock
from privot.tables import TableCodec
from privot.tables.table_files import encoded_blocks, parquet_groups
from privot.tables.table_writing import kind_of
from privot.tables.unit_column import owned_blocks

TARGET_ROWS = 2_000_000
"""Row groups of one Parquet file are put together up to about so many records."""


@dataclass(frozen=True, eq=False)
class TablePartition:
    """A file of a table, or some row `groups` of a Parquet file."""

    file: Located
    codec: TableCodec
    groups: tuple[int, ...] | None = None
    rows: int | None = None
    size: int = 0
    unit: str | None = None

    @property
    def name(self) -> str:
        """The file's name, and which row groups where there are several partitions of one."""
        if not self.groups:
            return self.file.name
        return f"{self.file.name}, row groups {self.groups[0]} to {self.groups[-1]}"

    @property
    def stamp(self) -> str:
        """Address, size and time of the file, and the schema it is read by."""
        schema = json.dumps(self.codec.schema.to_dict(), sort_keys=True)
        return self.file.written and f"{self.file.written} {self.groups} {self.unit!r} {schema}"

    @property
    def readers(self) -> tuple[str, ...]:
        """Arrow, which reads Parquet; CSV is read by privot itself."""
        return ("pyarrow",) if kind_of(self.file.name) == ".parquet" else ()

    def blocks(self) -> Iterator[Block]:
        """Compact rows and labels."""
        return encoded_blocks(self.file.address, self.codec, self.groups, BLOCK_ROWS)

    def owned_blocks(self) -> Iterator[OwnedBlock]:
        """Compact rows, labels, and whose each row is by the column of the unit."""
        assert self.unit is not None
        return owned_blocks(self.file.address, self.codec, self.unit, self.groups, BLOCK_ROWS)


def table_partitions(file: Located, codec: TableCodec, unit: str | None = None) -> list[TablePartition]:
    """The partitions of one file; of Parquet its end is read, of CSV nothing."""
    if kind_of(file.name) != ".parquet":
        return [TablePartition(file, codec, size=file.size, unit=unit)]
    sizes = [rows for rows, _ in parquet_groups(file.address)]
    cuts: list[list[int]] = []
    held = 0
    for group, rows in enumerate(sizes):
        # a row group without rows has no pages to read
        if rows == 0:
            continue
        if not cuts or held + rows > TARGET_ROWS:
            cuts.append([])
            held = 0
        cuts[-1].append(group)
        held += rows
    total = max(sum(sizes), 1)
    out = []
    for cut in cuts:
        rows = sum(sizes[group] for group in cut)
        out.append(TablePartition(file, codec, tuple(cut), rows, file.size * rows // total, unit))
    return out
