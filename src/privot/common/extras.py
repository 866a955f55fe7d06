"""The optional packages, the extra of privot that installs each, and the one sentence said where one is missing.

Packages that cannot work without one import it inside `needing`; what is paid for calls `require` before it pays.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec

from privot.errors import MissingDependencyError

__all__ = ["OPTIONAL", "needing", "require"]

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
