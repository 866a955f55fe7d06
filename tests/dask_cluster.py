"""A Dask scheduler and its workers as processes of their own, for tests that read partitions on a cluster."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import privot

PATHS = os.pathsep.join([str(Path(privot.__file__).parents[1]), str(Path(__file__).parent / "partitions")])
"""Where workers find the product, and what tests hand them."""

CALM = {
    "DASK_DISTRIBUTED__WORKER__PROFILE__ENABLED": "False",
    "DASK_DISTRIBUTED__ADMIN__TICK__INTERVAL": "1s",
    "DASK_DISTRIBUTED__ADMIN__SYSTEM_MONITOR__INTERVAL": "5s",
}
"""Dask watches itself a hundred times a second, in every process; here nobody looks."""


class Cluster:
    """A scheduler and workers as processes of their own."""

    def __init__(self, folder: Path) -> None:
        self._folder, self.workers, self._lock = folder, [], threading.Lock()
        self._environment = {**os.environ, **CALM, "PYTHONPATH": os.pathsep.join([PATHS, *filter(None, sys.path)])}
        place = folder / "scheduler.json"
        self._scheduler = self._start("scheduler", "--scheduler-file", str(place), "--port", "0", "--no-dashboard")
        clock = time.monotonic()
        while not place.exists() or not place.read_text().strip():
            assert time.monotonic() - clock < 60, "the scheduler did not start"
            time.sleep(0.1)
        self.address = json.loads(place.read_text())["address"]

    def _start(self, *words: str) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [sys.executable, "-m", "distributed.cli.dask_" + words[0], *words[1:]],
            cwd=self._folder,
            env=self._environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def have(self, count: int) -> None:
        """Let there be so many workers."""
        with self._lock:
            while len(self.workers) > count:
                self._end(self.workers.pop())
            while len(self.workers) < count:
                self.workers.append(self._worker())

    def _worker(self) -> subprocess.Popen[bytes]:
        return self._start("worker", self.address, "--nthreads", "1", "--no-nanny", "--no-dashboard")

    def killing(self, times: int) -> Any:
        """While this is open, kill workers at random moments, and start another for each."""

        @contextmanager
        def during() -> Iterator[list[int]]:
            killed: list[int] = []
            done = threading.Event()

            def kill() -> None:
                dice = np.random.default_rng(1)
                while len(killed) < times and not done.wait(0.5 + 3.0 * dice.random()):
                    with self._lock:
                        place = int(dice.integers(len(self.workers)))
                        os.kill(self.workers[place].pid, signal.SIGKILL)
                        self.workers[place].wait()
                        self.workers[place] = self._worker()
                    killed.append(place)

            thread = threading.Thread(target=kill)
            thread.start()
            try:
                yield killed
            finally:
                done.set()
                thread.join()

        return during()

    @staticmethod
    def _end(process: subprocess.Popen[bytes]) -> None:
        process.kill()
        process.wait()

    def close(self) -> None:
        """End them all."""
        for process in (*self.workers, self._scheduler):
            self._end(process)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """One without workers yet, for the tests of a module."""
    pytest.importorskip("distributed", reason="a cluster needs Dask")
    held = Cluster(tmp_path_factory.mktemp("dask"))
    try:
        yield held
    finally:
        held.close()
