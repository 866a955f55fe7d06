"""The engine of a cluster: Dask's workers read partitions and send sums back; workers that die are replaced by Dask.

Workers are inside the trust boundary, and so are the scheduler and the wires between them: sums without noise go over
them, and the vault's process unpickles what they send. They see neither the ledger nor its secret. The workers that
this engine starts itself spill nothing to disk, show no dashboard, and talk by TLS under credentials made for one pass:
other users of the machine can neither listen nor submit work. Those of a running cluster do as their configuration says
(docs/sharp-edges.md).
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import Any, TypeVar

from privot.common.devices import usable_cores
from privot.common.extras import needing
from privot.errors import PrivotError, UsageError
from privot.partitions.engines.engine import Task, called
from privot.partitions.partition import Partition

T = TypeVar("T")
MAX_ATTEMPTS = 12
"""How often a partition is handed out again whose workers died."""
_QUIET = {
    "distributed.worker.memory.target": False,
    "distributed.worker.memory.spill": False,
    "distributed.worker.memory.pause": False,
    "distributed.scheduler.allowed-failures": MAX_ATTEMPTS,
    "distributed.admin.log-length": 0,
    "distributed.scheduler.http.routes": [],
    "distributed.worker.http.routes": [],
}
CONNECT_SECONDS = 30


class DaskEngine:
    """Partitions on the workers of a Dask cluster.

    Parameters
    ----------
    scheduler
        The address of a running scheduler, such as tcp://10.0.0.1:8786 or tls://10.0.0.1:8786. Without it, workers are
        started on this machine for each pass.
    workers
        How many workers to start, or, of a running cluster, how many partitions to hand out at once.
    """

    def __init__(self, scheduler: str | None = None, workers: int | None = None) -> None:
        self._scheduler = scheduler
        self._workers = usable_cores() if workers is None else workers
        with needing("The engine dask needs", "dask"):
            import distributed  # noqa: F401

    @property
    def workers(self) -> int:
        """How many partitions are read at once."""
        return self._workers

    def map(self, task: Task[T], partitions: Sequence[Partition]) -> Iterator[tuple[int, T]]:
        """(place, result) of every partition, as they are done."""
        with self._client() as client:
            yield from _mapped(client, task, partitions, 2 * self._workers)

    @contextmanager
    def _client(self) -> Iterator[Any]:
        import dask
        from distributed import Client, LocalCluster

        with dask.config.set(_QUIET):
            if self._scheduler is None:
                with (
                    _safe_path(),
                    LocalCluster(
                        n_workers=self._workers,
                        threads_per_worker=1,
                        processes=True,
                        host="127.0.0.1",
                        # certificates of this cluster alone: any local user can reach a port of this machine
                        security=True,
                        dashboard_address=None,
                        silence_logs=50,
                    ) as cluster,
                    Client(cluster) as client,
                ):
                    yield client
                return
            try:
                client = Client(self._scheduler, timeout=CONNECT_SECONDS, set_as_default=False)
            except (OSError, TimeoutError, ValueError):
                raise UsageError(
                    f"No Dask scheduler answers at {self._scheduler}: start one, or check the address."
                ) from None
            with client:
                yield client


@contextmanager
def _safe_path() -> Iterator[None]:
    """A file in the current folder must not take the place of a module in any process that is started meanwhile."""
    name, before = "PYTHONSAFEPATH", os.environ.get("PYTHONSAFEPATH")
    os.environ[name] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before


def _mapped(client: Any, task: Task[T], partitions: Sequence[Partition], at_once: int) -> Iterator[tuple[int, T]]:
    """Hand out partitions, a few ahead of the workers; what dies with its worker is handed out again."""
    from distributed import as_completed

    places: dict[str, tuple[int, int]] = {}
    left = iter(range(len(partitions)))

    def submit(place: int, attempt: int) -> Any:
        future = client.submit(called, task, partitions[place], pure=False)
        places[future.key] = (place, attempt)
        return future

    running = as_completed(loop=client.loop)
    for place in islice(left, at_once):
        running.add(submit(place, 1))
    for future in running:
        place, attempt = places.pop(future.key)
        failed: str | None = None
        status: str = ""
        answer: Any = None
        try:
            status, answer = future.result()
        except Exception as error:  # a worker died, or the scheduler is gone: the error is Dask's own
            failed = type(error).__name__
        future.release()
        if failed is not None:
            if attempt >= MAX_ATTEMPTS or client.status != "running":
                raise PrivotError(f"Partition {partitions[place].name!r} was lost by the Dask cluster ({failed}).")
            running.add(submit(place, attempt + 1))
            continue
        if status == "failed":
            kind, sentence = answer
            raise kind(sentence)
        ahead = next(left, None)
        if ahead is not None:
            running.add(submit(ahead, 1))
        yield place, answer
