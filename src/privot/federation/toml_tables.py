"""What people state in a TOML file, read so that whatever is unknown, missing or of another kind is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from privot.errors import DataError, UsageError
from privot.opening import parse_toml, read_bytes
from privot.opening.limits import MAX_TOML


class TomlTable:
    """A TOML table that knows which names it may hold."""

    def __init__(self, where: str, said: dict[str, Any], known: set[str]) -> None:
        self.where, self.said = where, said
        if not isinstance(said, dict) or set(said) - known:
            odd = ", ".join(sorted(set(said) - known)) if isinstance(said, dict) else "no table"
            raise DataError(f"{where} holds what privot does not know ({odd[:80]}): nothing is guessed.")

    @classmethod
    def read(cls, path: Path, what: str, version: int, known: set[str]) -> TomlTable:
        """The file `path`, a `what` of this version that says nothing beside `known`."""
        try:
            said = parse_toml(read_bytes(path, most=MAX_TOML), f"The {what} {path}")
        except FileNotFoundError:
            raise UsageError(f"There is no {what} {path}.") from None
        table = cls(path.name, said, {"version", *known})
        if table.take("version", int) != version:
            raise DataError(f"The {what} {path.name} has another version than {version}.")
        return table

    def take(self, name: str, kind: type, *default: Any) -> Any:
        """What is said under `name`, of this kind."""
        if name not in self.said:
            if default:
                return default[0]
            raise DataError(f"{self.where} does not say {name}.")
        value = self.said[name]
        if kind is float and isinstance(value, int) and not isinstance(value, bool):
            value = float(value)
        if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
            raise DataError(f"{self.where} says {name} in another form than {kind.__name__}.")
        return value
