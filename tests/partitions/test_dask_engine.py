"""Partitions on Dask: real schedulers and workers, killed at random, change neither sums nor charges."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from partition_samples import CODEC, SCHEMA, cut, exact, open_table, people, same, table_release, write_parquet
from worker_sums import SlowCount

import privot
from privot import Ledger, Vault
from privot.errors import PrivotError, UsageError
from privot.kinds import Files
from privot.partitions import choose_engine
from privot.partitions.engines.local_engine import LocalEngine
from privot.partitions.source_opening import open_source

pytest.importorskip("distributed", reason="the engine dask needs Dask")
pytestmark = [pytest.mark.slow]
PEOPLE = people(300)
PATHS = os.pathsep.join([str(Path(privot.__file__).parents[1]), str(Path(__file__).parent)])


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = write_parquet(tmp_path_factory.mktemp("whole") / "one", [PEOPLE])
    return exact(open_table(folder / "part-000.parquet"), table_release())


# two workers first: each more is another process that loads Dask
@pytest.mark.gate(2)
@pytest.mark.parametrize(("parts", "workers"), [(1, 2), (7, 2), (50, 2), (50, 3)])
def test_dask_releases_what_one_process_does(
    tmp_path: Path, whole: dict[str, Any], cluster: Cluster, parts: int, workers: int
) -> None:
    folder = write_parquet(tmp_path / "cut", cut(PEOPLE, parts))
    cluster.have(workers)
    engine = choose_engine("dask", scheduler=cluster.address, workers=workers)
    assert same(exact(open_table(folder, engine=engine), table_release()), whole)


def test_dask_starts_its_own_workers(tmp_path: Path) -> None:
    folder = write_parquet(tmp_path / "cut", cut(PEOPLE, 5))
    ours, theirs = (
        open_source(folder, codec=CODEC, engine=engine).named(bytes(32))
        for engine in (LocalEngine(1), choose_engine("dask", workers=2))
    )
    np.testing.assert_array_equal(ours, theirs)


def test_only_the_vaults_process_reaches_the_workers_that_dask_starts() -> None:
    """Any user of this machine can reach its ports: without a certificate of this very cluster nobody is answered."""
    from distributed import Client
    from distributed.security import Security

    engine = choose_engine("dask", workers=1)
    with engine._client() as client:
        address = client.scheduler.address
        assert address.startswith("tls://127.0.0.1:")
        assert client.submit(len, [1, 2]).result() == 2
        for place, security in (
            (address.replace("tls://", "tcp://"), None),
            (address, Security.temporary()),
        ):
            with pytest.raises((OSError, TimeoutError)):
                Client(place, security=security, timeout=3, set_as_default=False)
        assert client.submit(len, [1, 2, 3]).result() == 3


def test_dask_workers_import_nothing_from_the_current_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = write_parquet(tmp_path / "cut", cut(PEOPLE, 2))
    for name in ("multiprocessing", "random", "privot"):
        (tmp_path / f"{name}.py").write_text(f"open({str(tmp_path / 'taken')!r}, 'w')\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", [path for path in sys.path if path not in ("", ".", str(tmp_path))])
    assert open_source(folder, codec=CODEC, engine=choose_engine("dask", workers=1)).count == len(PEOPLE)
    assert not (tmp_path / "taken").exists()


def test_errors_of_workers_are_sentences(tmp_path: Path, cluster: Cluster) -> None:
    records = [{**r, "ill": "31415926"} if k == 200 else r for k, r in enumerate(PEOPLE)]
    folder = write_parquet(tmp_path / "cut", cut(records, 5))
    cluster.have(2)
    with pytest.raises(PrivotError, match=r"part-003\.parquet.*category") as caught:
        open_table(folder, engine=choose_engine("dask", scheduler=cluster.address))
    assert "31415926" not in str(caught.value)
    with pytest.raises(UsageError, match="No Dask scheduler answers"):
        open_table(folder, engine=_quick(choose_engine("dask", scheduler="tcp://127.0.0.1:9")))


def _quick(engine: Any) -> Any:
    from privot.partitions.engines import dask_engine

    dask_engine.CONNECT_SECONDS = 2
    return engine


KILLS = int(os.environ.get("PRIVOT_WORKER_KILLS", "1"))
"""How often a worker is killed, which starts another process each time; ten for the evidence."""


@pytest.mark.kills
def test_killed_workers_change_nothing(tmp_path: Path, whole: dict[str, Any], cluster: Cluster) -> None:
    """Each killed worker is started again, as a cluster does; one charge, the same sums, no hang."""
    folder = write_parquet(tmp_path / "cut", cut(PEOPLE, 14))
    cluster.have(2)
    engine = choose_engine("dask", scheduler=cluster.address, workers=2)
    with Ledger.create(tmp_path / "l.ledger") as ledger, cluster.killing(KILLS) as killed:
        source = open_source(folder, codec=CODEC, engine=engine)
        while len(killed) < KILLS // 2:
            assert int(source.sums(SlowCount(0.5))[0][0]) == len(PEOPLE)
        vault = Vault.open(
            Files(folder, engine=engine), SCHEMA, adjacency="add-remove", ledger=ledger, budget=(5.0, 1e-5)
        )
        vault.release(table_release(), purpose="under fire")
        while len(killed) < KILLS:
            assert int(source.sums(SlowCount(0.5))[0][0]) == len(PEOPLE)
        assert same(exact(open_table(folder, engine=engine), table_release()), whole)
        assert vault.charges("under fire") == 1
    assert len(killed) == KILLS


# --- a cluster of real processes

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
        import json

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
        from contextlib import contextmanager

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
        for process in (*self.workers, self._scheduler):
            self._end(process)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    held = Cluster(tmp_path_factory.mktemp("dask"))
    try:
        yield held
    finally:
        held.close()
