"""Names that users type and what stands behind them, here and in other distributions; nothing is imported early.

A registry has entries of its own and those of a group of entry points. Each is imported when it is asked for by name,
so an entry that cannot be imported breaks nothing but itself, and none can take a name that privot has.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from privot.errors import PrivotError, UsageError, brief


@dataclass(frozen=True)
class Registry:
    """What is called `what`, by name: `own` says "module:attribute", `group` is that of entry points.

    >>> Registry("kind", {"vectors": "privot.kinds.numbers:Vectors"}, "privot.kinds").load("vectors").__name__
    'Vectors'
    """

    what: str
    own: Mapping[str, str]
    group: str

    def plugged(self) -> dict[str, EntryPoint]:
        """The entries of other distributions by name, but for names that privot has."""
        return {point.name: point for point in entry_points(group=self.group) if point.name not in self.own}

    @property
    def names(self) -> tuple[str, ...]:
        """All names, privot's first."""
        return (*self.own, *self.plugged())

    def __contains__(self, name: object) -> bool:
        return name in self.own or name in self.plugged()

    def load(self, name: str) -> Any:
        """What is called `name`; refuses a name that nobody has."""
        if name in self.own:
            module, attribute = self.own[name].split(":")
            return getattr(import_module(module), attribute)
        found = self.plugged()
        if name not in found:
            raise UsageError(f"Unknown {self.what} {brief(name)}: expected one of {', '.join(self.names)}.")
        return load(found[name])

    def is_own(self, name: str) -> bool:
        """Whether `name` is privot's."""
        return name in self.own


def load(point: EntryPoint) -> Any:
    """What is behind `point`; whatever its import raises becomes one sentence."""
    try:
        return point.load()
    except PrivotError:
        raise
    except Exception as error:
        where = point.dist.name if point.dist else point.value
        raise UsageError(
            f"{brief(point.name)} of {where} cannot be loaded: {type(error).__name__}: {brief(str(error))}."
        ) from error
