"""Reads tables of a TOML file and refuses what is unknown, missing or of another type. It knows no protocol."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from privot.errors import DataError, UsageError
from privot.opening import read_bytes
from privot.opening.json_toml import parse_toml
from privot.opening.limits import MAX_TOML


class TomlTable:
    """A TOML table with a fixed set of allowed names."""

    def __init__(self, where: str, stated: dict[str, Any], known: set[str]) -> None:
        self.where, self.stated = where, stated
        if not isinstance(stated, dict) or set(stated) - known:
            odd = ", ".join(sorted(set(stated) - known)) if isinstance(stated, dict) else "no table"
            raise DataError(f"{where} holds unknown entries ({odd[:80]}): remove or correct them.")

    @classmethod
    def read(cls, path: Path, what: str, version: int, known: set[str]) -> TomlTable:
        """The file `path`, a `what` of this version that holds no names beside `known`."""
        try:
            stated = parse_toml(read_bytes(path, most=MAX_TOML), f"The {what} {path}")
        except FileNotFoundError:
            raise UsageError(f"There is no {what} {path}.") from None
        table = cls(path.name, stated, {"version", *known})
        if table.take("version", int) != version:
            raise DataError(f"The {what} {path.name} must have version {version}.")
        return table

    def take(self, name: str, kind: type, *default: Any) -> Any:
        """The value of `name`, which must be of this type; the default, if one is given, where it is missing."""
        if name not in self.stated:
            if default:
                return default[0]
            raise DataError(f"{self.where} must state {name}.")
        value = self.stated[name]
        if kind is float and isinstance(value, int) and not isinstance(value, bool):
            value = float(value)
        if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
            raise DataError(f"The entry {name} of {self.where} must be of type {kind.__name__}.")
        return value
