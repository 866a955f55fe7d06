"""Parquet files: rows, columns and every page are added up from their headers before Arrow unpacks any of them.

A page says how many bytes it unpacks to, and Arrow takes that much memory for it; run lengths and dictionaries then
stand for many more rows than there are bytes. The first is summed here, the second bounded by rows × columns. Headers
are Thrift's compact protocol (https://github.com/apache/parquet-format).
"""

from __future__ import annotations

import os
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any

from privot.errors import DataError, brief
from privot.opening.limits import Meter
from privot.opening.remote_files import open_located

_FOOTER = 1 << 24
_PAGE_HEADER = 1 << 16
_LISTED = 1 << 20
_PAGES = 1 << 20
_DELTA_BYTE_ARRAY = 7
"""An encoding in which a text repeats the start of the one before: a megabyte of file can stand for terabytes."""


def open_parquet(path: str | Path, library: Any, groups: Sequence[int] | None = None) -> Any:
    """`path` as a `ParquetFile` of the PyArrow `library`, once its claims were checked; texts stay in dictionaries.

    With `groups` only these row groups will be read, one after another, so only their claims are checked, and each by
    itself; without, those of the whole file together. Raises what the library raises where the file is damaged, OSError
    where there is none.
    """
    file = open_located(path)
    path = Path(path)
    try:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - 8))
        end = file.read(8)
        if len(end) < 8 or end[4:] != b"PAR1" or struct.unpack("<I", end[:4])[0] > min(size, _FOOTER):
            raise ValueError("no footer")
        file.seek(0)
        limits = {"thrift_string_size_limit": _FOOTER, "thrift_container_size_limit": _LISTED}
        found = library.parquet.ParquetFile(file, **limits)
        _check(path.name, file, size, found, groups)
        kinds = library.types
        texts = [
            field.name
            for field in found.schema_arrow
            if kinds.is_string(field.type) or kinds.is_large_string(field.type) or kinds.is_binary(field.type)
        ]
        file.seek(0)
        return library.parquet.ParquetFile(file, read_dictionary=texts, **limits) if texts else found
    except BaseException:
        file.close()
        raise


def check_batch(name: str, batch: Any, library: Any) -> None:
    """Refuse a batch whose texts, written out row by row, would not fit."""
    from pyarrow import compute

    meter = Meter(name)
    for column in batch.columns:
        if library.types.is_dictionary(column.type):
            lengths = compute.binary_length(column.dictionary)
            total = compute.sum(compute.cast(lengths.take(column.indices), "int64")).as_py()
            meter.add(total or 0)
        else:
            meter.add(column.nbytes)


def _check(name: str, file: IO[bytes], size: int, found: Any, chosen: Sequence[int] | None) -> None:
    meta = found.metadata
    for k in range(meta.num_columns):
        column = found.schema.column(k)
        if column.max_repetition_level > 0:
            which = brief(column.path.split(".")[0])
            raise DataError(f"Column {which} holds lists, objects or bytes: a table has one value per cell.")
    if meta.num_row_groups * meta.num_columns > _LISTED:
        raise DataError(f"{name!r} is split into more than {_LISTED} pieces: no table is.")
    if chosen is not None and not all(0 <= k < meta.num_row_groups for k in chosen):
        raise ValueError("row group")
    groups = [meta.row_group(k) for k in (range(meta.num_row_groups) if chosen is None else chosen)]
    whole = Meter(name)
    if chosen is None:
        whole.claim(max(meta.num_rows, sum(group.num_rows for group in groups)) * meta.num_columns * 8)
    pages = 0
    for group in groups:
        meter = whole if chosen is None else Meter(name)
        meter.claim(group.num_rows * meta.num_columns * 8)
        for k in range(group.num_columns):
            chunk = group.column(k)
            first = chunk.data_page_offset
            if chunk.has_dictionary_page and chunk.dictionary_page_offset:
                first = min(first, chunk.dictionary_page_offset)
            pages = _check_pages(file, size, first, chunk.total_compressed_size, meter, pages)


def _check_pages(file: IO[bytes], size: int, at: int, length: int, meter: Meter, pages: int) -> int:
    """Walk the pages of one column chunk, adding up what they unpack to; answers how many were seen so far."""
    end = at + length
    if not 0 <= at <= end <= size:
        raise ValueError("outside")
    while at < end:
        pages += 1
        if pages > _PAGES:
            raise DataError(f"{meter.name!r} is split into more than {_PAGES} pieces: no table is.")
        file.seek(at)
        header = _Compact(file.read(min(_PAGE_HEADER, end - at)))
        fields = header.struct()
        unpacked, packed = fields.get(2), fields.get(3)
        if not isinstance(unpacked, int) or not isinstance(packed, int) or unpacked < 0 or packed < 0:
            raise ValueError("page")
        for number, place in ((5, 2), (8, 4)):
            inner = fields.get(number)
            if isinstance(inner, dict) and inner.get(place) == _DELTA_BYTE_ARRAY:
                raise DataError(f"{meter.name!r} uses the encoding DELTA_BYTE_ARRAY: save it with plain or dictionary.")
        meter.claim(unpacked)
        meter.add(unpacked)
        at += header.at + packed
    return pages


class _Compact:
    """Reads structs of Thrift's compact protocol."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def _number(self) -> int:
        value = shift = 0
        while True:
            byte = self.data[self.at]
            self.at += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7
            if shift > 63:
                raise ValueError("number")

    def _signed(self) -> int:
        value = self._number()
        return (value >> 1) ^ -(value & 1)

    def _value(self, kind: int, depth: int) -> Any:
        if kind in (4, 5, 6):
            return self._signed()
        if kind in (3, 7, 8):
            skipped = self._number() if kind == 8 else 1 if kind == 3 else 8
            self.at += skipped
            return None
        if kind == 12:
            return self.struct(depth + 1)
        if kind in (9, 10):
            head = self.data[self.at]
            self.at += 1
            count = self._number() if head >> 4 == 15 else head >> 4
            for _ in range(min(count, len(self.data))):
                self._value(3 if head & 15 in (1, 2) else head & 15, depth + 1)
            return None
        raise ValueError("kind")

    def struct(self, depth: int = 0) -> dict[int, Any]:
        """The fields of one struct by number; IndexError where it is cut short."""
        if depth > 8:
            raise ValueError("depth")
        fields: dict[int, Any] = {}
        number = 0
        while (head := self.data[self.at]) != 0:
            self.at += 1
            number = number + (head >> 4) if head >> 4 else self._signed()
            kind = head & 15
            fields[number] = kind == 1 if kind in (1, 2) else self._value(kind, depth)
        self.at += 1
        return fields
