"""Jobs over partitions with a unit: stopped, resumed, on any engine, with dying workers; one charge, the same rows."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from owned_samples import SCHEMA, UNIT, parts_of, shuffled, visits, write_arrays, write_csv
from worker_sums import Ages

from privot import Ledger
from privot.cli import run
from privot.partitions import choose_engine
from privot.partitions.engines.local_engine import LocalEngine
from privot.partitions.kept_sums import FOLDER, KeptSums
from privot.partitions.source import PartitionedSource
from privot.partitions.source_opening import open_source

TERMS = "--epsilon 2 --delta 1e-5 --adjacency add-remove --device cpu --seed 1".split()
BOUND = ["--unit", UNIT, "--per-unit", "3"]
KEY = bytes(range(32))
ROWS = [{**row, UNIT: f"SECRET-{row[UNIT]}"} for row in visits(300, planted=40)]


def source_of(folder: Path, engine: Any) -> PartitionedSource:
    return open_source(str(folder / "*.npz"), classes=2, shape=(2,), engine=engine, unit=UNIT)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    SCHEMA.save(tmp_path / "schema.json")
    return write_csv(tmp_path / "visits", parts_of(ROWS, 6))


def start(*more: str) -> int:
    public = ["--schema", "schema.json", "--ledger", "visits.ledger"]
    return run(["synth", "visits/*.csv", *public, *TERMS, *BOUND, "--samples", "20", "--out", "made", *more])


@pytest.mark.slow
def test_every_page_names_the_unit_and_none_has_an_identifier(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert start("--set", "workers=1", "--json") == 0
    shown = capsys.readouterr()
    answer = json.loads(shown.out)
    assert answer["guarantee"]["unit"] == {"column": UNIT, "rows": 3}
    assert answer["guarantee"]["epsilon"] <= 2.0
    made = folder.parent / "made"
    page = (made / "report.html").read_text(encoding="utf-8")
    assert f"one {UNIT}, at most 3 rows" in page
    assert "one record" not in page
    assert (made / "synthetic.csv").read_text(encoding="utf-8").splitlines()[0] == "age,sex,ill"
    for file in made.rglob("*"):
        assert not file.is_file() or b"SECRET" not in file.read_bytes()
    assert "SECRET" not in shown.out + shown.err
    # the same rows in one file, with the same owners, have the same budget: all of it is spent
    one = write_csv(folder.parent / "one", [shuffled(ROWS, 1)]) / "part-000.csv"
    count = ["release", "count", str(one), "--schema", "schema.json", "--ledger", "visits.ledger", *TERMS[:6]]
    assert run([*count, *BOUND]) == 4
    assert run(count) == 3


@pytest.mark.slow
def test_a_job_stopped_in_the_middle_goes_on_with_one_charge(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    passed, read = PartitionedSource._passed, []

    def counted(stop: str) -> Any:
        def passes(source: Any, what: str, task: Any, *more: Any, **how: Any) -> Iterator[Any]:
            kind = type(getattr(task, "summand", task)).__name__
            for number, found in enumerate(passed(source, what, task, *more, **how)):
                if kind == stop and number == 4:
                    raise KeyboardInterrupt
                yield found

        return passes

    engine_map = LocalEngine.map

    def mapped(engine: Any, task: Any, partitions: Any) -> Iterator[Any]:
        for place, found in engine_map(engine, task, partitions):
            read.append(type(getattr(task, "summand", task)).__name__)
            yield place, found

    with monkeypatch.context() as patch:
        patch.setattr(PartitionedSource, "_passed", counted("CellCounts"))
        assert start("--set", "workers=1") == 130
    made = folder.parent / "made"
    kept = sorted((made / FOLDER).iterdir())
    # lengths tell no number of rows, and no file has anything of a unit
    assert len({file.stat().st_size for file in kept}) <= 3
    assert all(b"SECRET" not in file.read_bytes() for file in kept)
    with monkeypatch.context() as patch:
        patch.setattr(LocalEngine, "map", mapped)
        assert run(["synth", "--resume", "--out", "made"]) == 0
    # names are known, marks are collected again since they are never written down, and five sums are used again
    assert (read.count("NameRecords"), read.count("CollectMarks"), read.count("CellCounts")) == (0, 6, 1)
    with Ledger.open(folder.parent / "visits.ledger") as ledger:
        assert len(list(ledger.entries())) == 1
    assert not (made / FOLDER).exists()
    assert json.loads((made / "guarantee.json").read_text())["unit"] == {"column": UNIT, "rows": 3}


@pytest.mark.slow
def test_commands_take_units_of_partitions(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ledger = ["--ledger", "a.ledger"]
    table = ["visits/*.csv", "--schema", "schema.json", "--set", "workers=1"]
    made = ["ledger", "init", "a.ledger", "--data", "visits/*.csv", "--schema", "schema.json", "--unit", UNIT]
    assert run([*made, "--epsilon", "9", "--delta", "1e-5", "--adjacency", "add-remove"]) == 0
    assert f"add-remove of one {UNIT}" in capsys.readouterr().out
    assert run(["release", "count", *table, *ledger, *TERMS[:6], *BOUND, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["guarantee"]["unit"] == {"column": UNIT, "rows": 3}
    assert run(["release", "count", *table, *ledger, *TERMS[:6]]) != 0
    write_arrays(folder.parent / "arrays", parts_of(ROWS, 3))
    sketch = ["sketch", "arrays/*.npz", "--shape", "2", "--range", "0,99", *TERMS[:6], *BOUND, "--ledger", "b.ledger"]
    made = ["ledger", "init", "b.ledger", "--data", "arrays/*.npz", "--shape", "2", "--unit", UNIT]
    assert run([*made, "--epsilon", "9", "--delta", "1e-5", "--adjacency", "add-remove"]) == 0
    capsys.readouterr()
    assert run([*sketch, "--set", "workers=2", "--out", "a.sketch", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["guarantee"]["unit"] == {"column": UNIT, "rows": 3}
    images = ["synth", "arrays/*.npz", "--shape", "2,1", "--range", "0,99", "--classes", "0", *TERMS, *BOUND]
    assert run([*images, "--set", "steps=5", "--samples", "10", "--out", "pictures", "--ledger", "c.ledger"]) == 0
    assert run([*images, "--method", "sliced", "--out", "no", "--ledger", "d.ledger"]) == 2
    assert not Path("d.ledger").exists()


def test_a_dry_run_counts_the_passes_that_choose(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = []
    for more in (BOUND, []):
        dropped = SCHEMA.dropping(UNIT)
        dropped.save(folder.parent / "schema.json")
        asked = ["synth", "visits/*.csv", "--schema", "schema.json", *TERMS, *more, "--out", "never"]
        assert run([*asked, "--ledger", "visits.ledger", "--dry-run", "--json"]) == 0
        found.append(json.loads(capsys.readouterr().out))
    assert found[0]["passes"] == found[1]["passes"] + 1
    assert found[0]["peak_memory_mib"] >= found[1]["peak_memory_mib"]
    noise = [max(column["error"] for column in one["errors"][0]["columns"]) for one in found]
    assert noise[0] > noise[1]


def test_neither_lengths_nor_numbers_of_kept_files_tell_what_takes_part(tmp_path: Path) -> None:
    """One unit's rows or another's, a partition in which none takes part: the same files of the same lengths."""
    seen = []
    few, many = visits(60), visits(60, planted=300, alike=True)
    for number, rows in enumerate((few, many)):
        folder = write_arrays(tmp_path / f"{number}", parts_of(rows, 3))
        source = source_of(folder, LocalEngine(1))
        source.keep(KeptSums(tmp_path / f"kept-{number}", KEY))
        source.sums(Ages(), 1)
        seen.append(sorted(file.stat().st_size for file in (tmp_path / f"kept-{number}").iterdir()))
    assert seen[0] == seen[1]
    # a key, three names, three sums
    assert len(seen[0]) == 7


def test_names_of_kept_files_follow_from_a_key(tmp_path: Path) -> None:
    folder = write_arrays(tmp_path / "cut", parts_of(visits(60), 3))
    names = []
    for key in (KEY, KEY[::-1]):
        source = source_of(folder, LocalEngine(1))
        kept = KeptSums(tmp_path / f"kept-{key[0]}", key)
        kept.checksum_key(7)
        source.keep(kept)
        source.sums(Ages(), 2)
        names.append({file.name for file in (tmp_path / f"kept-{key[0]}").iterdir()} - {"key"})
    assert len(names[0]) == len(names[1]) == 6
    assert not names[0] & names[1]


def test_kept_sums_of_other_rows_of_the_units_are_not_used(tmp_path: Path) -> None:
    folder = write_arrays(tmp_path / "cut", parts_of(visits(60, planted=30), 3))
    kept = KeptSums(tmp_path / "kept", KEY)
    found = []
    for most in (1, 4, 1):
        source = source_of(folder, LocalEngine(1))
        source.keep(kept)
        found.append(source.sums(Ages(), most)[0])
    assert found[0].sum() < found[1].sum()
    assert np.array_equal(found[0], found[2])


@pytest.mark.full("sums of chosen rows on workers: the gate runs them on local ones, and Dask on sums of all rows")
@pytest.mark.slow
def test_dask_chooses_what_one_process_does(tmp_path: Path) -> None:
    pytest.importorskip("distributed")
    folder = write_arrays(tmp_path / "cut", parts_of(visits(planted=60), 5))
    ours, theirs = (
        source_of(folder, engine).sums(Ages(0.3), 2)[0] for engine in (LocalEngine(1), choose_engine("dask", workers=2))
    )
    assert np.array_equal(ours, theirs)
    assert ours.sum() <= 2 * 41


@pytest.mark.kills
def test_killed_workers_change_neither_the_choice_nor_the_sums(tmp_path: Path, whole_run: bool) -> None:
    folder = write_arrays(tmp_path / "cut", parts_of(visits(planted=60), 12))
    whole = source_of(folder, LocalEngine(1)).sums(Ages(), 2)[0]
    source, killed, done = source_of(folder, LocalEngine(2)), [], threading.Event()

    def kill() -> None:
        dice = np.random.default_rng(0)
        while len(killed) < (10 if whole_run else 4) and not done.is_set():
            time.sleep(0.1 + 0.3 * dice.random())
            found = [int(p.name) for p in Path("/proc").iterdir() if p.name.isdecimal() and _is_worker(p)]
            if found:
                os.kill(int(dice.choice(found)), signal.SIGKILL)
                killed.append(1)

    killer = threading.Thread(target=kill)
    killer.start()
    try:
        total = source.sums(Ages(0.3), 2)[0]
    finally:
        done.set()
        killer.join()
    assert np.array_equal(total, whole)
    assert len(killed) >= 3


def _is_worker(place: Path) -> bool:
    """Whether a process is a worker that this one started."""
    try:
        parent = int((place / "stat").read_text().rpartition(")")[2].split()[1])
        return parent == os.getpid() and b"local_worker" in (place / "cmdline").read_bytes()
    except (OSError, IndexError, ValueError):
        return False
