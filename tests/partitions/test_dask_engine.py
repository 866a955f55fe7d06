"""Partitions on Dask: real schedulers and workers, killed at random, change neither sums nor charges."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from partition_samples import CODEC, SCHEMA, cut, exact, open_table, people, same, table_release, write_parquet
from worker_sums import SlowCount

from dask_cluster import Cluster
from privot import Ledger, Vault
from privot.errors import PrivotError, UsageError
from privot.kinds import Files
from privot.partitions import choose_engine
from privot.partitions.engines.local_engine import LocalEngine
from privot.partitions.source_opening import open_source

pytest.importorskip("distributed", reason="the engine dask needs Dask")
pytestmark = [pytest.mark.slow]
PEOPLE = people(300)


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
