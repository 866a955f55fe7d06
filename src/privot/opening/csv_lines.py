"""Comma-separated values, record by record, with a bound on the file and on each record."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from privot.errors import DataError
from privot.opening.limits import MAX_LINE
from privot.opening.plain_files import counted
from privot.opening.remote_files import open_located


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


@contextmanager
def csv_rows(path: str | Path, **form: Any) -> Iterator[CsvRows]:
    """The records of a file (or fsspec address), `.csv` or `.csv.gz` in UTF-8; `form` goes to `csv.reader`."""
    with io.TextIOWrapper(counted(path, under=open_located(path)), encoding="utf-8-sig", newline="") as text:
        yield CsvRows(text, Path(path).name, **form)
