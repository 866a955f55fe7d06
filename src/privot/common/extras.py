"""What may be installed beside privot: optional packages, and what other distributions plug in by entry points.

For each optional package there is the extra that installs it, and one sentence where it is missing.
Packages that cannot work without one import it inside `needing`; what is paid for calls `require` before it pays.
A `Registry` has entries of its own and those of a group of entry points. Each is imported when it is asked for by name,
so an entry that cannot be imported breaks nothing but itself, and none can take a name that privot has.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from importlib.util import find_spec
from typing import Any

from privot.errors import MissingDependencyError, PrivotError, UsageError, brief

__all__ = ["OPTIONAL", "Registry", "load", "needing", "require"]

OPTIONAL = {
    "adbc_driver_postgresql": ("the ADBC driver of PostgreSQL", "postgresql"),
    "dask": ("Dask", "dask"),
    "distributed": ("Dask distributed", "dask"),
    "duckdb": ("DuckDB", "partitions"),
    "fsspec": ("fsspec", "partitions"),
    "flwr": ("Flower", "federation"),
    "httpx": ("HTTPX", "federation"),
    "jinja2": ("Jinja2", "synthesis"),
    "opacus": ("Opacus", "opacus"),
    "ot": ("POT", "exact"),
    "pandas": ("pandas", "frames"),
    "polars": ("Polars", "frames"),
    "pyarrow": ("pyarrow", "synthesis"),
    "safetensors": ("safetensors", "synthesis"),
    "sqlglot": ("sqlglot", "synthesis"),
    "torch": ("PyTorch", "torch"),
}
"""Module → its name in prose, and the smallest extra that installs it."""


def require(need: str, extra: str, *modules: str) -> None:
    """Refuse unless all of `modules` are installed; none of them is imported.

    Parameters
    ----------
    need
        How the sentence begins: what cannot be done without them, such as "Synthesis needs".
    extra
        The extra of privot that installs all of them.
    modules
        Names as they are imported, each in `OPTIONAL`.

    >>> require("Synthesis needs", "synthesis", "torch", "safetensors", "jinja2")
    """
    for module in modules:
        if find_spec(module) is None:
            raise _missing(module, need, extra)


@contextmanager
def needing(need: str, extra: str | None = None) -> Iterator[None]:
    """Imports of optional packages: where one is missing, `MissingDependencyError` says which extra to install.

    Without `extra` it is the smallest one that installs the missing package, and an error that already names an extra
    is left as it is. Any other missing module stays a ModuleNotFoundError: it is a fault, not a choice.

    >>> with needing("Reports need", "synthesis"):
    ...     import jinja2
    """
    try:
        yield
    except ModuleNotFoundError as error:
        module = (error.name or "").partition(".")[0]
        if module not in OPTIONAL or (extra is None and isinstance(error, MissingDependencyError)):
            raise
        raise _missing(module, need, extra) from error


def _missing(module: str, need: str, extra: str | None) -> MissingDependencyError:
    prose, smallest = OPTIONAL[module]
    return MissingDependencyError(f"{need} {prose}: pip install 'privot[{extra or smallest}]'.", name=module)


@lru_cache(maxsize=64)
def _points(group: str, places: tuple[tuple[str, int], ...]) -> tuple[EntryPoint, ...]:
    """The entries of a group where `places` are searched: finding them reads a file of every distribution."""
    return tuple(entry_points(group=group))


def _changed(place: str) -> int:
    """When something was last installed in a folder, or removed; -1 where there is none."""
    try:
        return os.stat(place or os.curdir).st_mtime_ns
    except OSError:
        return -1


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
        found = _points(self.group, tuple((place, _changed(place)) for place in sys.path))
        return {point.name: point for point in found if point.name not in self.own}

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
