"""The engine of one machine: one process per core, each with one partition at a time; a killed process is replaced."""

from __future__ import annotations

import os
import pickle
import queue
import subprocess
import sys
import threading
import weakref
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import IO, Any, TypeVar

from privot.common.devices import usable_cores
from privot.errors import PrivotError, UsageError
from privot.partitions.engines.engine import Task, called
from privot.partitions.partition import Partition

T = TypeVar("T")
MAX_ATTEMPTS = 12
"""How often a partition is tried whose worker died; a partition that kills every worker is refused."""
TASK, PARTITION = b"T", b"P"
"""How a message to a worker begins."""


class LocalEngine:
    """Processes of this machine, as many as there are cores unless `workers` says otherwise.

    The processes are started anew (not forked), so they share no memory with the vault's process, and nothing they
    print is shown. Each holds one block of one partition; memory does not grow with the number of records. They wait
    for the next pass and end with the engine. With one worker, or one partition, the work is done in this process.

    Examples
    --------
    >>> LocalEngine(workers=2).workers
    2
    """

    def __init__(self, workers: int | None = None) -> None:
        self._workers = usable_cores() if workers is None else workers
        self._idle: list[subprocess.Popen[bytes]] = []
        # with the engine its processes go, at the end of the program at the latest
        self._close = weakref.finalize(self, _end_all, self._idle)

    @property
    def workers(self) -> int:
        """How many processes."""
        return self._workers

    def map(self, task: Task[T], partitions: Sequence[Partition]) -> Iterator[tuple[int, T]]:
        """(place, result) of every partition, as they are done."""
        if self._workers == 1 or len(partitions) == 1:
            for place, partition in enumerate(partitions):
                yield place, _result(*called(task, partition))
            return
        try:
            sent = pickle.dumps(task)
            places = [pickle.dumps(partition) for partition in partitions]
        except Exception as error:
            raise UsageError(
                f"This release cannot be sent to other processes ({type(error).__name__}): use one worker, or classes "
                "that are defined in a module."
            ) from None
        names = [partition.name for partition in partitions]
        with _Workers(sent, places, names, min(self._workers, len(partitions)), self._idle) as workers:
            for _ in partitions:
                place, status, answer = workers.answers.get()
                yield place, _result(status, answer)


def _end_all(processes: list[subprocess.Popen[bytes]]) -> None:
    while processes:
        _end(processes.pop())


def _end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            with suppress(OSError):
                pipe.close()


def _result(status: str, answer: Any) -> Any:
    if status == "done":
        return answer
    kind, sentence = answer
    raise kind(sentence)


class _Workers:
    """One thread per process: it sends a partition, waits for the answer, and starts the process again if it died.

    Processes that are `idle` from an earlier pass are used first, and given back at the end of a pass.
    """

    def __init__(
        self,
        task: bytes,
        partitions: Sequence[bytes],
        names: Sequence[str],
        count: int,
        idle: list[subprocess.Popen[bytes]],
    ) -> None:
        self.answers: queue.SimpleQueue[tuple[int, str, Any]] = queue.SimpleQueue()
        self._task, self._partitions, self._names, self._idle = task, partitions, names, idle
        self._open: queue.SimpleQueue[tuple[int, int] | None] = queue.SimpleQueue()
        self._busy: set[subprocess.Popen[bytes]] = set()
        self._lock, self._closed = threading.Lock(), False
        for place in range(len(partitions)):
            self._open.put((place, 1))
        self._threads = [threading.Thread(target=self._serve, daemon=True) for _ in range(count)]

    def __enter__(self) -> _Workers:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        with self._lock:
            self._closed = True
            for process in self._busy:
                # in the middle of a partition: the pass was given up
                process.kill()
        for _ in self._threads:
            self._open.put(None)
        for thread in self._threads:
            thread.join()

    def _serve(self) -> None:
        process: subprocess.Popen[bytes] | None = None
        while (job := self._open.get()) is not None and not self._closed:
            place, attempt = job
            try:
                process = process or self._started()
                answer = self._asked(process, place)
            except Exception as error:
                # it died (killed, or out of memory), or its answer cannot be read: whatever it is, a thread that ended
                # here without an answer would leave the pass waiting for ever. The partition was not counted, and is
                # read again by another process
                failed = type(error).__name__
                if process is not None:
                    _end(process)
                process = None
                if attempt < MAX_ATTEMPTS:
                    self._open.put((place, attempt + 1))
                    continue
                sentence = (
                    f"Partition {self._names[place]!r} was lost by {attempt} worker processes ({failed}), perhaps for "
                    "want of memory."
                )
                answer = ("failed", (PrivotError, sentence))
            self.answers.put((place, *answer))
        if process is not None:
            with self._lock:
                self._idle.append(process)

    def _asked(self, process: subprocess.Popen[bytes], place: int) -> tuple[str, Any]:
        assert process.stdin is not None
        assert process.stdout is not None
        with self._lock:
            if self._closed:
                raise EOFError
            self._busy.add(process)
        try:
            send(process.stdin, PARTITION + self._partitions[place])
            status, answer = pickle.loads(receive(process.stdout))  # noqa: S301 - of our own process
        finally:
            with self._lock:
                self._busy.discard(process)
        return status, answer

    def _started(self) -> subprocess.Popen[bytes]:
        with self._lock:
            process = self._idle.pop() if self._idle else None
        if process is None:
            # one thread each: the processes are what runs side by side
            single = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
            process = subprocess.Popen(
                # -P: a file in the current folder must not take the place of a module
                [sys.executable, "-P", "-c", "from privot.partitions.engines.local_worker import main; main()"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env={**os.environ, **single, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
            )
        assert process.stdin is not None
        try:
            send(process.stdin, TASK + self._task)
        except OSError:
            # an idle one may have died since the last pass
            _end(process)
            raise
        return process


def send(pipe: IO[bytes], content: bytes) -> None:
    """Write `content`, its length first."""
    pipe.write(len(content).to_bytes(8, "little"))
    pipe.write(content)
    pipe.flush()


def receive(pipe: IO[bytes]) -> bytes:
    """What `send` wrote; EOFError where the other side is gone."""
    head = pipe.read(8)
    if len(head) < 8:
        raise EOFError
    length = int.from_bytes(head, "little")
    content = pipe.read(length)
    if len(content) < length:
        raise EOFError
    return content
