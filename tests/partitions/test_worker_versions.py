"""Workers that may make other numbers of the same records are refused: other versions of readers, other settings."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from partition_samples import CODEC, arrow_table, cut, people, write_csv, write_parquet

from privot.errors import DataError
from privot.partitions.engines import engine as engines
from privot.partitions.engines.local_engine import LocalEngine
from privot.partitions.kept_sums import KeptSums
from privot.partitions.readers.query_partitions import _answer
from privot.partitions.source_opening import open_source

pytest.importorskip("pyarrow", reason="Parquet needs pyarrow")
PEOPLE = people(60)
KEY = bytes(range(32))
QUERY = "SELECT age, income, city, born, smokes, ill FROM people"


class OtherWorker(LocalEngine):
    """A worker on which one package has another version."""

    def __init__(self, package: str) -> None:
        super().__init__(1)
        self.package = package

    def map(self, task: Any, partitions: Any) -> Iterator[Any]:
        real = engines.reader_version
        other = lambda name: "0.0.1" if name == self.package else real(name)  # noqa: E731
        with patch.object(engines, "reader_version", other):
            found = list(super().map(task, partitions))
        yield from found


class ByTensors:
    """A sum that PyTorch computes."""

    labels, tensors = False, True

    def zeros(self) -> Any:
        return (np.zeros(1, dtype=np.int64),)

    def add(self, totals: Any, rows: Any, labels: Any) -> None:
        totals[0][0] += len(rows)


def shard(folder: Path) -> Path:
    image = pytest.importorskip("PIL.Image")
    folder.mkdir()
    with tarfile.open(folder / "a.tar", "w") as archive:
        for number in range(3):
            held = io.BytesIO()
            image.fromarray(np.full((4, 4), 9 * number, dtype=np.uint8)).save(held, "PNG")
            entry = tarfile.TarInfo(f"{number}.png")
            entry.size = held.tell()
            held.seek(0)
            archive.addfile(entry, held)
    return folder


def duckdb_file(folder: Path) -> str:
    duckdb = pytest.importorskip("duckdb")
    folder.mkdir()
    with duckdb.connect(str(folder / "people.db")) as connection:
        connection.register("held", arrow_table(PEOPLE))
        connection.execute("CREATE TABLE people AS SELECT * FROM held")
    return f"duckdb://{folder / 'people.db'}"


@pytest.mark.parametrize(
    ("kind", "packages"),
    [
        ("parquet", ("privot", "python", "numpy", "pyarrow")),
        ("csv", ("privot", "numpy")),
        ("shards", ("privot", "pillow")),
        ("duckdb", ("privot", "duckdb", "pyarrow")),
        ("postgresql", ("adbc_driver_postgresql", "adbc_driver_manager", "pyarrow")),
    ],
)
def test_workers_with_another_version_of_a_reader_are_refused_by_name(
    tmp_path: Path, kind: str, packages: tuple[str, ...], request: pytest.FixtureRequest
) -> None:
    more: dict[str, Any] = {"codec": CODEC}
    if kind == "parquet":
        place: Any = write_parquet(tmp_path / "cut", cut(PEOPLE, 2))
    elif kind == "csv":
        place = write_csv(tmp_path / "cut", cut(PEOPLE, 2))
    elif kind == "shards":
        place, more = shard(tmp_path / "cut"), {"classes": 0, "shape": (4, 4)}
    elif kind == "duckdb":
        place, more = duckdb_file(tmp_path / "cut"), {"codec": CODEC, "query": QUERY}
    else:
        place = request.getfixturevalue("postgresql")
        more["query"] = QUERY.replace("FROM people", "FROM (SELECT 3 AS age, 2.5::float8 AS income, 'Ulm' AS city, "
            "DATE '1990-01-01' AS born, TRUE AS smokes, 'no' AS ill) AS one")  # fmt: skip
    assert open_source(place, engine=LocalEngine(1), **more).count > 0
    for package in packages:
        source = open_source(place, engine=OtherWorker(package), **more)
        with pytest.raises(DataError, match=f"it has {package} 0.0.1 where this process has {package} "):
            source.named(KEY)
    # what is not read by a package may have any version
    assert open_source(place, engine=OtherWorker("opacus"), **more).count > 0


def test_workers_with_another_torch_are_refused_where_tensors_are_summed(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    source = open_source(write_csv(tmp_path / "cut", cut(PEOPLE, 2)), codec=CODEC, engine=OtherWorker("torch"))
    # reading a table needs none
    assert source.count == len(PEOPLE)
    with pytest.raises(DataError, match=r"torch 0\.0\.1"):
        source.sums(ByTensors())


def test_the_mark_says_by_which_library_jpeg_is_decoded() -> None:
    features = pytest.importorskip("PIL.features")
    assert f"jpeg {features.version('jpg')}" in engines.arithmetic_mark(("pillow",))
    assert "no_such_package_at_all none" in engines.arithmetic_mark(("no_such_package_at_all",))


def test_kept_sums_of_another_version_are_not_used(tmp_path: Path) -> None:
    folder = write_parquet(tmp_path / "cut", cut(PEOPLE, 3))
    for package, kept in (("opacus", 4), ("opacus", 4), ("pyarrow", 7)):
        real = engines.reader_version
        other = lambda name, package=package, real=real: "0.0.1" if name == package else real(name)  # noqa: E731
        with patch.object(engines, "reader_version", other):
            source = open_source(folder, codec=CODEC, engine=LocalEngine(1))
            source.keep(KeptSums(tmp_path / "kept", bytes(32)))
            source.named(KEY)
        assert len(list((tmp_path / "kept").iterdir())) == kept


SETTINGS = [
    {"PGTZ": "Asia/Tokyo", "PGDATESTYLE": "SQL, DMY", "PGOPTIONS": "-c intervalstyle=iso_8601"},
    {"PGTZ": "America/Los_Angeles", "PGDATESTYLE": "German", "PGOPTIONS": "-c extra_float_digits=-15"},
]


def test_the_environment_of_a_worker_does_not_move_rows_of_postgresql(
    postgresql: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each part is read by a worker with other settings: every row must still lie in exactly one of them."""
    query = (
        "SELECT n % 100 AS age, n / 7.0::float8 AS income, (TIMESTAMPTZ '2001-01-01 00:30+00' + n * INTERVAL '1 day')"
        "::date AS born, (n * INTERVAL '1 hour')::text AS stay FROM numbers_to_200"
    )
    from adbc_driver_postgresql.dbapi import connect

    with connect(postgresql) as held, held.cursor() as cursor:
        cursor.execute("CREATE TABLE IF NOT EXISTS numbers_to_200 AS SELECT n FROM generate_series(1, 200) AS n")
        held.commit()

    class Unlike:
        """Workers in different places of the world."""

        workers = 1

        def map(self, task: Any, partitions: Any) -> Iterator[Any]:
            for place, partition in enumerate(partitions):
                for name, value in SETTINGS[place % 2].items():
                    monkeypatch.setenv(name, value)
                yield place, task(partition)
                for name in SETTINGS[place % 2]:
                    monkeypatch.delenv(name)

    from privot.tables import Column, Schema, TableCodec

    columns = [Column("age", "integer", 0, 120), Column("income", "continuous", 0, 1000)]
    columns += [Column("born", "date", "1900-01-01", "2024-12-31")]
    columns += [Column("stay", "categorical", categories=("01:00:00",), unknown="other")]
    codec = TableCodec(Schema(tuple(columns)))
    whole = open_source(postgresql, codec=codec, query=query, engine=LocalEngine(1))
    parts = open_source(postgresql, codec=codec, query=query, parts=5, engine=Unlike())
    np.testing.assert_array_equal(parts.named(KEY), whole.named(KEY))


@pytest.mark.slow
def test_the_time_zone_of_a_worker_does_not_reach_duckdb(tmp_path: Path) -> None:
    place = duckdb_file(tmp_path / "cut")
    script = (
        "import sys; from privot.partitions.readers.query_partitions import _answer\n"
        f"with _answer({place!r}, \"SELECT CAST(TIMESTAMPTZ '2001-01-01 20:00+00' AS DATE) AS day\") as found:\n"
        "    print([value.as_py().isoformat() for batch in found for value in batch.column(0)])"
    )
    path = os.pathsep.join(path for path in sys.path if path)
    for zone in ("Asia/Tokyo", "America/Los_Angeles"):
        environment = {**os.environ, "TZ": zone, "PYTHONPATH": path}
        command = [sys.executable, "-c", script]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        assert done.stdout.strip() == "['2001-01-01']"
    with _answer(place, "SELECT current_setting('TimeZone') AS zone") as found:
        assert [value.as_py() for batch in found for value in batch.column(0)] == ["UTC"]
