"""What is released from partitions is, before noise, what is released from one array, to the bit, however it is cut."""

from __future__ import annotations

import gzip
import os
import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from partition_samples import (
    BUDGET,
    CODEC,
    SCHEMA,
    arrow_table,
    cut,
    exact,
    open_table,
    people,
    same,
    silent,
    table_release,
    write_csv,
    write_parquet,
)
from worker_sums import SlowCount

from privot import Ledger, Vault
from privot.data.record_digest import records_digest
from privot.errors import BudgetError, DataError, OtherRecordsError, PrivotError, UsageError
from privot.kinds import Files, Images, Vectors
from privot.mechanisms import MeanEmbedding, RandomProjection, SketchDesign
from privot.mechanisms.sketching.private_sketch import PrivateSketch
from privot.mechanisms.table_counts import grouped_marginals
from privot.mechanisms.table_counts.grouped_marginals import GroupedMarginals
from privot.partitions import choose_engine
from privot.partitions.engines.local_engine import LocalEngine
from privot.partitions.source_opening import open_source
from privot.synthesis import Synthesizer
from privot.synthesis.neural.defaults import generator_defaults
from privot.synthesis.neural.features.fourier import Fourier
from privot.synthesis.neural.features.hadamard import HadamardFourier
from privot.tables import encode_file
from synthesis_asked import flat

pytest.importorskip("pyarrow", reason="Parquet needs pyarrow")
PEOPLE = people(300)
HERE = LocalEngine(1)
KEY = bytes(range(32))


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The value of one file held in memory."""
    folder = write_parquet(tmp_path_factory.mktemp("whole") / "one", [PEOPLE])
    return exact(open_table(folder / "part-000.parquet"), table_release())


@pytest.mark.slow
@pytest.mark.parametrize("parts", [1, 7, 50])
@pytest.mark.parametrize("write", [write_parquet, write_csv])
def test_a_table_in_parts_releases_what_it_releases_whole(
    tmp_path: Path, whole: dict[str, Any], parts: int, write: Any
) -> None:
    folder = write(tmp_path / "cut", cut(PEOPLE, parts))
    assert same(exact(open_table(folder, engine=HERE), table_release()), whole)
    # all three parts of the release, and they say something
    assert whole["fine"].sum() == len(PEOPLE) * 5
    assert whole["pairs"].sum() == len(PEOPLE) * 10
    assert np.abs(whole["scores"]).sum() > 0


@pytest.mark.slow
def test_processes_release_what_one_process_does(tmp_path: Path, whole: dict[str, Any]) -> None:
    folder = write_parquet(tmp_path / "cut", cut(PEOPLE, 7))
    assert same(exact(open_table(folder, engine=LocalEngine(2)), table_release()), whole)


@pytest.mark.slow
@settings(max_examples=8, deadline=None, phases=(Phase.generate,), suppress_health_check=list(HealthCheck))
@given(draw=st.data())
def test_any_cut_of_any_records_gives_the_same_sums(tmp_path_factory: Any, draw: st.DataObject) -> None:
    records = people(draw.draw(st.integers(1, 40)), draw.draw(st.integers(0, 99)))
    folder = tmp_path_factory.mktemp("any")
    one = write_parquet(folder / "one", [records])
    # in another order, cut anywhere, parts may be empty
    mixed = draw.draw(st.permutations(records))
    ends = sorted(draw.draw(st.lists(st.integers(0, len(records)), max_size=6)))
    parts = [mixed[a:b] for a, b in zip([0, *ends], [*ends, len(records)], strict=True)]
    many = write_parquet(folder / "many", parts, group=draw.draw(st.integers(1, 9)))
    held, named = open_table(one / "part-000.parquet"), open_source(many, codec=CODEC, engine=HERE)
    assert same(exact(held, table_release()), exact(open_table(many, engine=HERE), table_release()))
    rows, _ = encode_file(one / "part-000.parquet", CODEC, compact=True)
    np.testing.assert_array_equal(named.named(KEY), records_digest(KEY, rows))


def test_pairs_counted_ahead_and_merged_are_the_pairs_counted_over_groups(
    tmp_path: Path, whole: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = write_parquet(tmp_path / "one", [PEOPLE])
    monkeypatch.setattr(grouped_marginals, "MAX_PAIR_CELLS", 0)
    mechanism = table_release()
    assert isinstance(mechanism.marginals, GroupedMarginals)
    assert mechanism.marginals._ahead() == ((), ())
    assert same(exact(open_table(folder / "part-000.parquet"), mechanism), whole)


class Halves:
    """φ(x) = x/2 of two columns, with a third that every record shares."""

    dim, size, rounding = 2, 3, 0.0

    def features(self, x: Any) -> Any:
        import torch

        return torch.cat([x / 2, torch.full((len(x), 1), 0.1, dtype=x.dtype)], dim=1)

    def to_dict(self) -> dict[str, Any]:
        return {"kind": "halves"}


@pytest.mark.parametrize("parts", [1, 7, 50])
@pytest.mark.parametrize(
    "what", ["embedding", "Fourier features", "structured features", "common row", "sketch", "labelled sketch"]
)
def test_vectors_in_parts_release_what_they_release_whole(tmp_path: Path, parts: int, what: str) -> None:
    rng = np.random.default_rng(3)
    x, y = rng.uniform(-1, 1, (200, 2)), rng.integers(0, 3, 200)
    design = SketchDesign.plain(2, 1.0)
    mechanism: Any = {
        "embedding": lambda: MeanEmbedding(Halves(), 4.0, labels=True),
        "Fourier features": lambda: MeanEmbedding(Fourier(2, 30, (0.5, 2.0), seed=1, low=-1.0), 4.0, labels=True),
        "structured features": lambda: MeanEmbedding(HadamardFourier(2, 30, (0.5, 2.0), 1, -1.0), 4.0, labels=True),
        "common row": lambda: MeanEmbedding(
            Halves(), 4.0, labels=True, common=HadamardFourier(2, 30, (0.5, 2.0), 1, -1.0), common_share=0.3
        ),
        "sketch": lambda: PrivateSketch(design, 4.0),
        "labelled sketch": lambda: PrivateSketch(design.labelled(3), 4.0),
    }[what]()
    terms = {"adjacency": "add-remove", "budget": BUDGET}
    for k in range(parts):
        some = slice(200 * k // parts, 200 * (k + 1) // parts)
        np.savez(tmp_path / f"part-{k:02d}.npz", x=x[some], y=y[some])
    cut_up = Vault.open(Files(f"{tmp_path}/part-*.npz", engine=HERE), Vectors(3, 1.0, width=2), noise=silent(), **terms)
    held = Vault(x, y, classes=3, clip=1.0, noise=silent(), **terms)
    assert same(exact(cut_up, mechanism), exact(held, mechanism))


# --- the vault's rules


def test_one_budget_however_the_records_are_cut(tmp_path: Path) -> None:
    one, seven = (write_parquet(tmp_path / f"{k}", cut(PEOPLE, k)) for k in (1, 7))
    with Ledger.create(tmp_path / "l.ledger") as ledger:
        terms = {"adjacency": "add-remove", "ledger": ledger, "budget": (1.0, 1e-5)}
        first = Vault.open(one / "part-000.parquet", SCHEMA, **terms)
        first.release(table_release(0.9), purpose="whole")
        for place in (seven, f"{seven}/*.parquet", one):
            again = Vault.open(Files(place, engine=HERE), SCHEMA, **terms)
            with pytest.raises(BudgetError):
                again.release(table_release(0.9), purpose="cut")
        fewer = write_parquet(tmp_path / "fewer", cut(PEOPLE[:-1], 7))
        with pytest.raises(OtherRecordsError):
            Vault.open(Files(fewer, engine=HERE), SCHEMA, **terms)


def test_a_partition_that_changes_between_passes_is_refused_and_named(tmp_path: Path) -> None:
    folder = write_parquet(tmp_path / "cut", cut(PEOPLE, 5))
    vault = open_table(folder, engine=HERE)
    changed = cut(PEOPLE, 5)[3]
    changed[4] = {**changed[4], "age": 33 if changed[4]["age"] != 33 else 34}
    other = write_parquet(tmp_path / "other", [changed])
    shutil.copy(other / "part-000.parquet", folder / "part-003.parquet")
    # a mechanism's failure is withheld after the charge; the source's own sentence names the partition
    with pytest.raises(DataError, match="the charge stays"):
        vault.release(table_release(), purpose="test", allow_unproven=True)
    source = open_source(folder, codec=CODEC, engine=HERE)
    source.named(KEY)
    shutil.copy(folder / "part-002.parquet", folder / "part-003.parquet")
    with pytest.raises(DataError, match=r"part-003\.parquet.*other records than when it was first read"):
        source.sums(table_release().marginals.summands(vault.facts)[0])


def test_labels_that_swap_between_passes_are_noticed(tmp_path: Path) -> None:
    parts = cut(PEOPLE, 2)
    folder = write_parquet(tmp_path / "cut", parts)
    source = open_source(folder, codec=CODEC, engine=HERE)
    source.named(KEY)
    parts[1][0] = {**parts[1][0], "ill": "no" if parts[1][0]["ill"] == "yes" else "yes"}
    shutil.rmtree(folder)
    write_parquet(folder, parts)
    with pytest.raises(DataError, match="other records"):
        source.sums(table_release().marginals.summands(None)[0])


def test_a_partition_that_cannot_be_read_is_named_before_anything_is_paid(tmp_path: Path) -> None:
    folder = write_parquet(tmp_path / "cut", cut(PEOPLE, 4))
    damaged = folder / "part-002.parquet"
    content = bytearray(damaged.read_bytes())
    content[40:400] = os.urandom(360)
    damaged.write_bytes(content)
    with (
        Ledger.create(tmp_path / "l.ledger") as ledger,
        pytest.raises(PrivotError, match=r"part-002\.parquet"),
    ):
        Vault.open(Files(folder, engine=HERE), SCHEMA, adjacency="add-remove", ledger=ledger, budget=(1.0, 1e-5))


@pytest.mark.slow
def test_a_record_that_does_not_fit_is_refused_wherever_it_lies(tmp_path: Path) -> None:
    for parts in (1, 7, 100):
        records = list(PEOPLE)
        records[211] = {**records[211], "ill": "31415926"}
        folder = write_parquet(tmp_path / f"{parts}", cut(records, parts))
        with pytest.raises(DataError, match="category") as caught:
            open_table(folder, engine=LocalEngine(2) if parts == 7 else HERE)
        assert "31415926" not in str(caught.value)


def test_mechanisms_that_need_rows_are_refused_before_they_are_paid(tmp_path: Path) -> None:
    folder = write_parquet(tmp_path / "cut", cut(PEOPLE, 4))
    with Ledger.create(tmp_path / "l.ledger") as ledger:
        vault = Vault.open(
            Files(folder, engine=HERE), SCHEMA, adjacency="replace-one", ledger=ledger, budget=(1.0, 1e-5)
        )
        assert vault.facts.records == len(PEOPLE)
        with pytest.raises(UsageError, match="one place"):
            vault.release(RandomProjection(slices=4, sigma=100.0), purpose="test")
        assert vault.charges("test") == 0


def test_empty_sources_are_refused_and_empty_parts_are_not(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no records"):
        open_table(write_parquet(tmp_path / "none", [[], []]), engine=HERE)
    some = open_table(write_parquet(tmp_path / "some", [[], PEOPLE[:3], []]), engine=HERE)
    assert exact(some, table_release())["fine"].sum() == 15
    (tmp_path / "bare").mkdir()
    with pytest.raises(DataError, match="no files of records"):
        open_table(tmp_path / "bare")


def test_row_groups_of_one_file_are_partitions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("privot.partitions.readers.table_partitions.TARGET_ROWS", 100)
    folder = write_parquet(tmp_path / "one", [PEOPLE], group=40)
    source = open_source(folder / "part-000.parquet", codec=CODEC, engine=HERE)
    assert [partition.rows for partition in source.partitions] == [80, 80, 80, 60]
    rows, _ = encode_file(folder / "part-000.parquet", CODEC, compact=True)
    np.testing.assert_array_equal(source.named(KEY), records_digest(KEY, rows))


def test_a_file_whose_name_looks_like_a_pattern_is_a_file(tmp_path: Path, whole: dict[str, Any]) -> None:
    folder = write_parquet(tmp_path / "one", [PEOPLE])
    odd = (folder / "part-000.parquet").rename(folder / "visits[1].parquet")
    assert same(exact(open_table(odd), table_release()), whole)
    assert same(exact(open_table(odd, engine=HERE), table_release()), whole)


@pytest.mark.parametrize("link", [os.link, os.symlink])
@pytest.mark.parametrize("place", ["{}", "{}/*.csv", "file://{}/*.csv"])
def test_one_file_under_two_names_is_refused(tmp_path: Path, link: Any, place: str) -> None:
    if "://" in place:
        pytest.importorskip("fsspec")
    folder = write_csv(tmp_path / "cut", cut(PEOPLE, 2))
    link(folder / "part-000.csv", folder / "part-007.csv")
    with pytest.raises(DataError, match=r"'part-000\.csv' and 'part-007\.csv' are one file"):
        open_source(place.format(folder), codec=CODEC, engine=HERE)
    # of other names nothing is said
    assert open_source(f"{folder}/part-00[01].csv", codec=CODEC, engine=HERE).count == len(PEOPLE)


def test_a_folder_whose_name_looks_like_a_pattern_is_a_folder(tmp_path: Path) -> None:
    folder = write_csv(tmp_path / "visits[1]", cut(PEOPLE, 2))
    assert open_source(folder, codec=CODEC, engine=HERE).count == len(PEOPLE)


def test_workers_import_nothing_from_the_current_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = write_csv(tmp_path / "cut", cut(PEOPLE, 4))
    for name in ("privot", "numpy", "pickle"):
        (tmp_path / f"{name}.py").write_text(f"open({str(tmp_path / 'taken')!r}, 'w')\n")
    monkeypatch.chdir(tmp_path)
    # what this process itself would import from is its own affair
    monkeypatch.setattr("sys.path", [path for path in sys.path if path not in ("", ".", str(tmp_path))])
    assert open_source(folder, codec=CODEC, engine=LocalEngine(2)).count == len(PEOPLE)
    assert not (tmp_path / "taken").exists()


@pytest.mark.parametrize("address", ["file://{}/*.parquet", "memory://people/*.parquet", "memory://people/"])
def test_addresses_of_fsspec_are_sources(tmp_path: Path, whole: dict[str, Any], address: str) -> None:
    fsspec = pytest.importorskip("fsspec")
    import pyarrow.parquet as parquet

    if address.startswith("file"):
        place = address.format(write_parquet(tmp_path / "cut", cut(PEOPLE, 3)))
    else:
        place = address
        for number, part in enumerate(cut(PEOPLE, 3)):
            with fsspec.open(f"memory://people/part-{number}.parquet", "wb") as file:
                parquet.write_table(arrow_table(part), file)
    assert same(exact(open_table(place, engine=HERE), table_release()), whole)


@pytest.mark.parametrize(
    ("names", "place"),
    [
        (("a.csv", "a.parquet"), "cut"),
        (("a.csv", "b.csv.gz"), "cut/*"),
        (("a.parquet", "sub/a.csv"), "cut/**/a*"),
        (("a.CSV", "b.parquet"), "file://{}/cut/"),
    ],
)
def test_files_with_two_endings_are_refused(tmp_path: Path, names: tuple[str, str], place: str) -> None:
    """An export beside its conversion would be counted twice."""
    for name in names:
        file = tmp_path / "cut" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        made = write_parquet if name.endswith("parquet") else write_csv
        content = next(made(tmp_path / f"made-{name.replace('/', '-')}", [PEOPLE]).iterdir()).read_bytes()
        file.write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    address = place.format(tmp_path) if "://" in place else str(tmp_path / place)
    with pytest.raises(DataError, match=r"end in \.\S+ and in \.\S+, perhaps the same records twice"):
        open_source(address, codec=CODEC, engine=HERE)
    # each kind alone is a source
    assert open_source(tmp_path / "cut" / names[0], codec=CODEC, engine=HERE).count == len(PEOPLE)


def test_arrays_beside_shards_are_refused(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.zeros((3, 4)))
    (tmp_path / "b.tar").write_bytes(bytes(1024))
    with pytest.raises(DataError, match="perhaps the same records twice"):
        open_source(f"{tmp_path}/*", classes=0, shape=(4,), engine=HERE)


def test_engines_are_chosen_by_name() -> None:
    assert choose_engine("local", workers=3).workers == 3
    for bad in ({"name": "spark"}, {"name": "local", "scheduler": "tcp://x:1"}, {"name": "local", "workers": 0}):
        with pytest.raises(UsageError):
            choose_engine(**bad)


@pytest.mark.parametrize("places", [[0, 1, 2, 3], [0, 1, 2, 3, 4, 4], [0, 1, 1, 2, 3]])
def test_an_engine_that_loses_or_repeats_a_partition_is_refused(tmp_path: Path, places: list[int]) -> None:
    class Careless:
        workers = 1

        def map(self, task: Any, partitions: Any) -> Any:
            return ((place, task(partitions[place])) for place in places)

    source = open_source(write_parquet(tmp_path / "cut", cut(PEOPLE, 5)), codec=CODEC, engine=Careless())
    with pytest.raises(PrivotError, match=r"left out|twice"):
        source.named(KEY)


@pytest.mark.kills
def test_killed_processes_change_neither_the_sums_nor_hang(tmp_path: Path, whole_run: bool) -> None:
    import signal
    import threading
    import time

    engine = LocalEngine(2)
    source = open_source(write_parquet(tmp_path / "cut", cut(PEOPLE, 12)), codec=CODEC, engine=engine)
    source.named(KEY)
    killed = []
    done = threading.Event()

    def kill() -> None:
        dice = np.random.default_rng(0)
        while len(killed) < (10 if whole_run else 3) and not done.is_set():
            time.sleep(0.1 + 0.3 * dice.random())
            found = [int(p.name) for p in Path("/proc").iterdir() if p.name.isdecimal() and _is_worker(p)]
            if found:
                os.kill(int(dice.choice(found)), signal.SIGKILL)
                killed.append(1)

    killer = threading.Thread(target=kill)
    killer.start()
    try:
        total = source.sums(SlowCount(0.3))
    finally:
        done.set()
        killer.join()
    assert int(total[0][0]) == len(PEOPLE)
    assert len(killed) >= 3


def _is_worker(place: Path) -> bool:
    """Whether a process is a worker that this one started."""
    try:
        parent = int((place / "stat").read_text().rpartition(")")[2].split()[1])
        return parent == os.getpid() and b"local_worker" in (place / "cmdline").read_bytes()
    except (OSError, IndexError, ValueError):
        return False


def test_an_answer_that_cannot_be_read_is_asked_for_again_and_nothing_hangs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import threading

    from privot.partitions.engines import local_engine

    source = open_source(write_parquet(tmp_path / "cut", cut(PEOPLE, 6)), codec=CODEC, engine=LocalEngine(2))
    real, garbled, found = local_engine.receive, [0], []

    def receive(pipe: Any) -> bytes:
        content = real(pipe)
        garbled[0] += 1
        return b"not a pickle" if garbled[0] in (1, 2, 4) else content

    monkeypatch.setattr(local_engine, "receive", receive)
    asking = threading.Thread(target=lambda: found.append(source.named(KEY)), daemon=True)
    asking.start()
    asking.join(120)
    assert found, "the pass waits for an answer that never comes"
    np.testing.assert_array_equal(found[0], open_source(tmp_path / "cut", codec=CODEC, engine=HERE).named(KEY))
    # an engine whose workers never answer gives up, and names the partition
    monkeypatch.setattr(local_engine, "receive", lambda pipe: real(pipe) and b"not a pickle")
    monkeypatch.setattr(local_engine, "MAX_ATTEMPTS", 2)
    with pytest.raises(PrivotError, match=r"'part-00.*' was lost by 2 worker processes \(UnpicklingError\)"):
        open_source(tmp_path / "cut", codec=CODEC, engine=LocalEngine(2)).named(KEY)


def test_labels_of_partitioned_images_are_refused_before_anything_is_paid(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A labeller keeps single records between its steps; the first release alone would be paid for in vain."""
    # a training that should not begin is at least short
    monkeypatch.setattr(generator_defaults, "steps", lambda problem: 2)
    random = np.random.default_rng(0)
    for number in range(2):
        x, y = random.integers(0, 256, (20, 16, 16, 3), dtype=np.uint8), np.arange(20) % 2
        np.savez(tmp_path / f"part-{number}.npz", x=x, y=y)
    ledger = Ledger.create(tmp_path / "ledger")
    stated: dict[str, Any] = {"adjacency": "add-remove", "ledger": ledger, "budget": (8.0, 1e-5)}
    vault = Vault.open(
        Files(f"{tmp_path}/part-*.npz", engine=HERE), Images((16, 16, 3), classes=2, clip=1e4, high=255.0), **stated
    )
    asked: dict[str, Any] = {"shape": (16, 16, 3), "low": 0.0, "high": 255.0, "device": "cpu", "seed": 1}
    for folder in (None, tmp_path / "job"):
        with pytest.raises(UsageError, match="in one place"):
            Synthesizer(8.0, 1e-5, **flat(**asked)).fit(vault, folder=folder)
    assert not list(ledger.entries())
