"""What a codec promises: tables to numbers with public bounds and back, by public facts alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any, Protocol

from numpy.typing import NDArray

from privot.errors import DataError
from privot.synthesis.generators import Segment

_HOMES: dict[str, str] = {}
"""Kind → "module:function" that reads its dictionary; imported only when a folder asks for it."""


class Codec(Protocol):
    """Between what people have and rows of numbers in [0, 1]."""

    @property
    def segments(self) -> list[Segment]:
        """How a generator's output is brought to [0, 1], stretch by stretch."""
        ...

    def encode(self, table: Any) -> NDArray[Any]:
        """(rows, dim) in [0, 1]."""
        ...

    def decode(self, rows: NDArray[Any]) -> Any:
        """Back to what `encode` took."""
        ...

    def to_dict(self) -> dict[str, Any]:
        """Everything, with its `kind`, as plain JSON types."""
        ...


def register(kind: str, home: str) -> None:
    """Make `codec` know a kind by where its reader lives."""
    _HOMES[kind] = home


def codec(fields: Mapping[str, Any]) -> Codec:
    """The codec that `to_dict` wrote down."""
    try:
        module, name = _HOMES[fields["kind"]].split(":")
        reader: Callable[[Mapping[str, Any]], Codec] = getattr(import_module(module), name)
    except (KeyError, TypeError):
        raise DataError("This does not describe a codec that privot knows.") from None
    return reader(fields)
