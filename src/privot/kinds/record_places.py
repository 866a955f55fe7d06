"""Where records lie, where a path alone does not say it; nothing is opened here."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from privot.opening.addresses import is_remote, shown_address
from privot.opening.remote_files import fixed_part


@dataclass(frozen=True)
class Files:
    """Records in files, in a database or in a DataFrame, and how they are opened.

    Parameters
    ----------
    data
        A path, a pattern, an address, a DataFrame, or of related tables a mapping from their names to paths.
    label
        The name by which a ledger lists the records; the file's own unless given.
    part
        Which arrays of a `.npz` file with x_train and x_test are read.
    query
        A SELECT whose rows are the records of a database. Each row is taken for one record, and must follow from the
        rows of one person only: no LIMIT, window, sample or average over people. What can be seen is refused.
    parts
        Into how many partitions a query is cut, by a hash of the row; 1 unless given.
    engine
        What goes over partitions (`privot.partitions.choose_engine`); processes of this machine unless given. With an
        engine a single table is partitioned records too.
    unit_file
        Of a folder of images: a CSV file with the column `file_name`, the path of an image relative to the folder, and
        the column of the unit, whose it is. Every image of the folder has one line.

    Examples
    --------
    >>> Files("duckdb:///clinic.db", query="SELECT age, ward FROM visits", parts=4).name
    'duckdb:///clinic.db'
    """

    data: Any
    label: str | None = None
    part: Literal["train", "test"] = "train"
    query: str | None = None
    parts: int | None = None
    engine: Any = None
    unit_file: str | Path | None = None

    @classmethod
    def of(cls, data: Any) -> Files:
        """`data` itself where it says how it is opened."""
        return data if isinstance(data, Files) else cls(data)

    @property
    def name(self) -> str:
        """The name by which a ledger lists the records."""
        if self.label is not None:
            return self.label
        if isinstance(self.data, Mapping):
            return ", ".join(file_label(path) for path in self.data.values())
        return file_label(self.data) if isinstance(self.data, str | os.PathLike) else "records"


def file_label(path: str | os.PathLike[str]) -> str:
    """The name by which a ledger lists the records of a file: the file's own, whatever link leads to it.

    A pattern is listed by its folder and itself, an address without user and options.
    """
    if is_remote(path):  # type: ignore[arg-type]
        return shown_address(path)  # type: ignore[arg-type]
    folder = fixed_part(path)  # type: ignore[arg-type]
    if folder != Path(path):
        return f"{Path(os.path.realpath(folder)).name}/{Path(path).relative_to(folder)}"
    return os.path.basename(os.path.realpath(path))  # unlike Path.resolve it has an answer for a link to itself
