"""Columns of values by name, all of one length; it shows its shape and nothing of what it holds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privot.common.declared import declared
from privot.errors import DataError, brief


class Table(Mapping[str, NDArray[Any]]):
    """name → array of values (numbers, texts, dates, None), in order.

    >>> Table({"age": [31, 54], "city": ["Ulm", None]})
    Table(2 rows: age, city)
    """

    @declared(columns="mapping")
    def __init__(self, columns: Mapping[str, Any]) -> None:
        self._columns = {str(name): _one_axis(name, values) for name, values in columns.items()}
        lengths = {len(values) for values in self._columns.values()}
        if len(lengths) != 1:
            raise DataError("A table needs columns, and all of one length.")
        self.rows = lengths.pop()

    def __getitem__(self, name: str) -> NDArray[Any]:
        return self._columns[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._columns)

    def __len__(self) -> int:
        return len(self._columns)

    def __repr__(self) -> str:
        return f"Table({self.rows} rows: {', '.join(self._columns)})"


def _one_axis(name: object, values: Any) -> NDArray[Any]:
    if isinstance(values, np.ma.MaskedArray):
        raise DataError(f"Column {brief(name)} is a masked array: put None for what is masked.")
    if isinstance(values, np.ndarray):
        array = values
    else:
        array = np.empty(len(values), dtype=object)
        array[:] = list(values)
    if array.ndim != 1:
        raise DataError(f"Column {brief(name)} must have one axis.")
    return array
