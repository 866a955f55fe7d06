"""Finds the engine that a user names."""

from __future__ import annotations

from privot.errors import UsageError
from privot.partitions.engines.dask_engine import DaskEngine
from privot.partitions.engines.engine import Engine
from privot.partitions.engines.local_engine import LocalEngine


def choose_engine(name: str = "local", *, workers: int | None = None, scheduler: str | None = None) -> Engine:
    """The engine called "local" or "dask".

    Parameters
    ----------
    workers
        How many processes; all cores of this machine unless given.
    scheduler
        The address of a running Dask scheduler, such as tcp://10.0.0.1:8786. Without it, Dask starts its own workers.
    """
    if workers is not None and (isinstance(workers, bool) or not isinstance(workers, int) or workers < 1):
        raise UsageError(f"The number of workers must be a whole number of at least 1, got {workers!r}.")
    if name == "local":
        if scheduler is not None:
            raise UsageError("Only the engine dask has a scheduler: leave it out, or choose that engine.")
        return LocalEngine(workers)
    if name == "dask":
        return DaskEngine(scheduler, workers)
    raise UsageError(f"Expected the engine local or dask, got {name!r}.")
