"""Comma-separated values, record by record, with a bound on the file and on each record.

A file is unpacked once, and its bytes and lines are counted, before any of it is parsed: parsing takes a hundred times
as long, and what is too large is refused without it.
"""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from privot.errors import DataError
from privot.opening.addresses import is_remote
from privot.opening.limits import MAX_LINE, Meter, max_unpacked, too_large
from privot.opening.plain_files import counted
from privot.opening.remote_files import open_located

_PIECE = 1 << 20


class CsvRows:
    """The records of a CSV text as lists of cells; `line_num` is the line that the last one ended in."""

    def __init__(self, text: io.TextIOBase, name: str, **form: Any) -> None:
        self._text, self._name, self._held = text, name, 0
        self._reader = csv.reader(self._lines(), strict=True, **form)

    @property
    def line_num(self) -> int:
        """How many lines were read."""
        return self._reader.line_num

    def _lines(self) -> Iterator[str]:
        while line := self._text.readline(MAX_LINE + 1):
            self._held += len(line)
            if self._held > MAX_LINE:
                raise DataError(f"{self._name!r} has a record of more than {MAX_LINE} characters: it is no table.")
            yield line

    def __iter__(self) -> Iterator[list[str]]:
        for cells in self._reader:
            self._held = 0
            yield cells


NUMBER = 8
"""Bytes that a cell takes once it is a number."""


@contextmanager
def csv_rows(path: str | Path, *, held: int | None = NUMBER, **form: Any) -> Iterator[CsvRows]:
    """The records of a file (or fsspec address), `.csv` or `.csv.gz` in UTF-8; `form` goes to `csv.reader`.

    `held` says how many bytes each cell takes in memory: 0 where records are passed on, None where the header alone is
    read. A file whose lines take more than may be unpacked is refused before the first record.
    """
    if held is not None and not is_remote(path):
        _check_size(path, held)
    with io.TextIOWrapper(counted(path, under=open_located(path)), encoding="utf-8-sig", newline="") as text:
        yield CsvRows(text, Path(path).name, **form)


def _check_size(path: str | Path, held: int) -> None:
    """Refuse a file of this machine by its bytes and lines, unpacked and counted; nothing is parsed."""
    name = Path(path).name
    with open_located(path) as under:
        size = os.fstat(under.fileno()).st_size
        packed = name.lower().endswith(".gz")
        if not packed:
            Meter(name).claim(size)
        if packed or held * size > max_unpacked():
            with counted(path, under=under) as file:
                first = file.readline(MAX_LINE + 1)
                names = first.split(b"\r")[0].decode("utf-8", "replace")
                width = len(next(csv.reader([names]), [""]))
                # lines end in either, or in both; the last may have no end, and the first holds names
                lines, ends = 0, 0
                while piece := file.read(_PIECE):
                    lines, ends = lines + piece.count(b"\n"), ends + piece.count(b"\r")
                    if held * width * max(lines, ends) > max_unpacked():
                        raise too_large(name, None, max_unpacked())
