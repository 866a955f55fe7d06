"""A job over partitions goes on after a kill: one charge, the same release, finished partitions are not read again."""

from __future__ import annotations

import json
import pickle
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from partition_samples import CODEC, SCHEMA, cut, people, same, table_release, write_parquet

from privot import Count, Ledger, Mean, Vault
from privot.cli import run
from privot.errors import UsageError
from privot.jobs.run import Run
from privot.kinds import Files
from privot.mechanisms import SketchDesign
from privot.mechanisms.sketching.private_sketch import SketchSums
from privot.mechanisms.summaries import count, mean
from privot.mechanisms.table_counts import marginals
from privot.noise import noisy_counts
from privot.partitions.engines.local_engine import LocalEngine
from privot.partitions.kept_sums import FOLDER, KeptSums, described
from privot.partitions.source import PartitionedSource
from privot.partitions.source_opening import open_source
from privot.tables import Column, Schema, TableCodec

pytest.importorskip("pyarrow", reason="Parquet needs pyarrow")
PEOPLE = people(300)
HERE = LocalEngine(1)
KEY = bytes(range(32))
TERMS = ["--epsilon", "1", "--delta", "1e-5", "--adjacency", "add-remove", "--device", "cpu", "--seed", "1"]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    SCHEMA.save(tmp_path / "schema.json")
    return write_parquet(tmp_path / "visits", cut(PEOPLE, 6))


def start(*more: str) -> int:
    return run(
        ["synth", "visits/*.parquet", "--schema", "schema.json", *TERMS, "--set", "workers=1", "--samples", "20",
         "--out", "made", "--ledger", "visits.ledger", *more]
    )  # fmt: skip


class Read:
    """Counts the partitions that are really read, and stops a pass in the middle."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, stop_in: str = "", after: int = 0) -> None:
        self.places: list[tuple[str, int]] = []
        engine_map, passed = LocalEngine.map, PartitionedSource._passed
        now = [""]

        def mapped(engine: Any, task: Any, partitions: Any) -> Iterator[Any]:
            for place, found in engine_map(engine, task, partitions):
                self.places.append((now[0], place))
                yield place, found

        def counted(source: Any, what: str, task: Any, *more: Any, **how: Any) -> Iterator[Any]:
            now[0] = type(getattr(task, "summand", task)).__name__
            for number, found in enumerate(passed(source, what, task, *more, **how)):
                if now[0] == stop_in and number == after:
                    raise KeyboardInterrupt
                yield found

        monkeypatch.setattr(LocalEngine, "map", mapped)
        monkeypatch.setattr(PartitionedSource, "_passed", counted)

    def of(self, name: str) -> int:
        return sum(what == name for what, _ in self.places)


@pytest.mark.slow
@pytest.mark.gate(1)
@pytest.mark.parametrize("where", ["CellCounts", "ScoreSums"])
def test_a_job_stopped_after_its_charge_goes_on_without_a_second_one(
    folder: Path, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    with monkeypatch.context() as patch:
        first = Read(patch, where, after=4)
        assert start() == 130
        # read once before a ledger is made, and once more under its key
        assert (first.of("NameRecords"), first.of(where)) == (12, 5)
    made = folder.parent / "made"
    assert not (made / "release.npz").exists()
    assert (made / "release.salt").stat().st_mode & 0o077 == 0
    with Ledger.open(folder.parent / "visits.ledger") as ledger:
        assert len(list(ledger.entries())) == 1
    with monkeypatch.context() as patch:
        second = Read(patch)
        assert run(["synth", "--resume", "--out", "made"]) == 0
        # nothing that was finished is read again, and the fifth was counted though its sum was not yet used; cells are
        # counted twice, over the grid and over what is chosen by it
        assert second.of("NameRecords") == 0
        assert second.of(where) == (7 if where == "CellCounts" else 1)
    with Ledger.open(folder.parent / "visits.ledger") as ledger:
        assert len(list(ledger.entries())) == 1
    assert (made / "release.npz").exists()
    assert not (made / "release.salt").exists()
    assert not (made / "partitions").exists()


def test_a_job_whose_salt_is_another_one_is_not_charged_again_in_silence(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    """That a salt lies there does not say that the ledger was charged for what it makes."""
    with monkeypatch.context() as patch:
        Read(patch, "CellCounts", after=2)
        assert start() == 130
    (folder.parent / "made" / "release.salt").write_bytes(bytes(32))
    assert run(["synth", "--resume", "--out", "made"]) != 0
    assert "allow a second charge" in capsys.readouterr().err
    with Ledger.open(folder.parent / "visits.ledger") as ledger:
        assert len(list(ledger.entries())) == 1


@pytest.mark.slow
def test_the_folder_of_a_stopped_job_does_not_tell_its_noise(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who has the folder, and later the release, must not be able to take the noise off again."""
    secrets = []
    release_once = Vault.release_once

    def told(vault: Vault, mechanism: Any, **more: Any) -> Any:
        secrets.append(more["secret"])
        return release_once(vault, mechanism, **more)

    with monkeypatch.context() as patch:
        Read(patch, "ScoreSums", after=4)
        patch.setattr(Vault, "release_once", told)
        assert start() == 130
    files = [path.read_bytes() for path in (folder.parent / "made").rglob("*") if path.is_file()]
    assert len(files) > 6
    assert len(secrets[0]) == 32
    assert not any(secrets[0] in held or secrets[0].hex().encode() in held for held in files)
    with monkeypatch.context() as patch:
        patch.setattr(Vault, "release_once", told)
        assert run(["synth", "--resume", "--out", "made"]) == 0
    # the very same noise after the kill
    assert len(secrets) == 2
    assert secrets[0] == secrets[1]
    # and another ledger, with another key, makes another secret of the same salt
    with Ledger.create(folder.parent / "a.ledger") as one, Ledger.create(folder.parent / "b.ledger") as two:
        terms: dict[str, Any] = {"clip": 1.0, "adjacency": "add-remove", "budget": (1.0, 1e-5)}
        first, other = (Vault(np.eye(3), ledger=ledger, **terms).secret_of(bytes(32)) for ledger in (one, two))
        assert first != other
        with pytest.raises(UsageError, match="32 bytes"):
            Vault(np.eye(3), ledger=one, **{**terms, "budget": None}).secret_of(b"short")


@pytest.mark.slow
def test_kept_sums_go_when_the_release_is_on_disk_not_after_training(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []
    release = Run.release

    def watched(payments: Any, *args: Any, **more: Any) -> Any:
        out = release(payments, *args, **more)
        seen.append(((folder.parent / "made" / "release.npz").exists(), (folder.parent / "made" / FOLDER).exists()))
        return out

    def noticed(source: Any, *asked: Any) -> Any:
        # while the release is made they are there
        assert (folder.parent / "made" / FOLDER).exists()
        return sums(source, *asked)

    sums = PartitionedSource.sums
    monkeypatch.setattr(Run, "release", watched)
    monkeypatch.setattr(PartitionedSource, "sums", noticed)
    assert start() == 0
    assert seen == [(True, False)]


def test_a_ledger_that_is_there_names_the_records_in_the_first_pass(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Ledger.create(folder.parent / "visits.ledger").close()
    read = Read(monkeypatch, "CellCounts", after=0)
    assert start() == 130
    assert read.of("NameRecords") == 6


@pytest.mark.slow
def test_a_job_that_was_not_stopped_leaves_neither_salt_nor_sums(folder: Path, capsys: Any) -> None:
    assert start("--json") == 0
    assert json.loads(capsys.readouterr().out)["guarantee"]["epsilon"] <= 1.0
    left = {path.name for path in (folder.parent / "made").iterdir()}
    assert not left & {"partitions", "release.salt"}


@pytest.mark.slow
def test_the_same_secret_gives_the_same_release_and_one_charge(folder: Path, tmp_path: Path) -> None:
    secret = bytes(range(32))
    with Ledger.create(tmp_path / "l.ledger") as ledger:
        terms: dict[str, Any] = {"adjacency": "add-remove", "ledger": ledger, "budget": (30.0, 1e-5)}
        values = []
        for engine in (HERE, HERE):
            vault = Vault.open(Files(folder, engine=engine), SCHEMA, **terms)
            values.append(dict(vault.release_once(table_release(), purpose="once", secret=secret).value))
        assert same(*values)
        assert vault.charges("once") == 1
        # another secret: another release, and a charge of its own
        other = dict(vault.release_once(table_release(), purpose="once", secret=bytes(32)).value)
        assert not np.array_equal(other["fine"], values[0]["fine"])
        assert vault.charges("once") == 2
        # the same rows with other labels are another question
        swapped = [{**r, "ill": "no" if r["ill"] == "yes" else "yes"} for r in PEOPLE]
        turned = Vault.open(Files(write_parquet(tmp_path / "turned", [swapped]), engine=HERE), SCHEMA, **terms)
        turned.release_once(table_release(), purpose="once", secret=secret)
        assert turned.charges("once") == 3


def test_kept_sums_are_sealed_and_of_one_ledger(folder: Path, tmp_path: Path) -> None:
    source = open_source(folder, codec=CODEC, engine=HERE)
    kept = KeptSums(tmp_path / "kept", bytes(32))
    source.keep(kept)
    source.named(KEY)
    files = sorted((tmp_path / "kept").iterdir())
    assert len(files) == 7
    assert all(file.stat().st_mode & 0o077 == 0 for file in files)
    assert not any(b"Seen" in file.read_bytes() for file in files)
    again = open_source(folder, codec=CODEC, engine=_Refusing())
    again.keep(KeptSums(tmp_path / "kept", bytes(32)))
    np.testing.assert_array_equal(again.named(KEY), source.named(KEY))
    # under another key, or changed, they are not used
    stranger = open_source(folder, codec=CODEC, engine=_Refusing())
    stranger.keep(KeptSums(tmp_path / "kept", bytes(31) + b"x"))
    with pytest.raises(AssertionError):
        stranger.named(KEY)


def test_the_length_of_a_kept_file_tells_no_count(tmp_path: Path) -> None:
    sizes = set()
    for number in (0, 255, 256, 10**6, 10**18):
        kept = KeptSums(tmp_path / str(number), bytes(32))
        kept.checksum_key(number)
        (file,) = (tmp_path / str(number)).iterdir()
        sizes.add(file.stat().st_size)
        assert kept.checksum_key(7) == number
    assert len(sizes) == 1


class _Refusing:
    workers = 1

    def map(self, task: Any, partitions: Any) -> Any:
        raise AssertionError("a partition is read")


def test_a_partition_written_again_is_read_again(folder: Path, tmp_path: Path) -> None:
    source = open_source(folder, codec=CODEC, engine=HERE)
    source.keep(KeptSums(tmp_path / "kept", bytes(32)))
    before = source.named(KEY)
    (folder / "part-002.parquet").write_bytes((folder / "part-003.parquet").read_bytes())
    again = open_source(folder, codec=CODEC, engine=HERE)
    again.keep(KeptSums(tmp_path / "kept", bytes(32)))
    assert not np.array_equal(again.named(KEY), before)


def test_sums_under_another_schema_are_not_used(folder: Path, tmp_path: Path) -> None:
    """Both have the same columns and the same task: only what is made of an age differs."""
    narrow = Schema((Column("age", "integer", 0, 60, missing=True), *SCHEMA.columns[1:]), label="ill")
    for schema in (SCHEMA, narrow):
        source = open_source(folder, codec=TableCodec(schema), engine=HERE)
        source.keep(KeptSums(tmp_path / "kept", bytes(32)))
        fresh = open_source(folder, codec=TableCodec(schema), engine=HERE)
        np.testing.assert_array_equal(source.named(KEY), fresh.named(KEY))


def test_sums_of_a_process_that_rounds_differently_are_not_used(folder: Path, tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    shown = []
    before = torch.get_float32_matmul_precision()
    try:
        for precision in ("highest", "medium"):
            torch.set_float32_matmul_precision(precision)
            source = open_source(folder, codec=CODEC, engine=HERE)
            kept = KeptSums(tmp_path / "kept", bytes(32))
            source.keep(kept)
            source.sums(ByTensors())
            shown.append(len(list((tmp_path / "kept").iterdir())))
    finally:
        torch.set_float32_matmul_precision(before)
    # a key, six results of naming, and six sums for each precision
    assert shown == [13, 19]


@dataclass(frozen=True)
class ByTensors:
    """A sum that PyTorch computes."""

    labels: bool = False
    tensors: ClassVar[bool] = True

    def zeros(self) -> Any:
        return (np.zeros(1, dtype=np.int64),)

    def add(self, totals: Any, rows: Any, labels: Any) -> None:
        totals[0][0] += len(rows)


def test_a_task_is_described_to_the_last_bit() -> None:
    class Map:
        dim, size, rounding = 2, 2, 0.0

    first, other = (table_release().marginals.summands(None)[0] for _ in range(2))
    assert described(first) == described(other) is not None
    assert described((1, 2.0)) != described((1, 2))
    assert described(np.array([1.0])) != described(np.array([1.0 + 2**-52]))
    assert described(Map()) is None


def test_a_dry_run_tells_and_charges_nothing(folder: Path, capsys: Any) -> None:
    assert start("--dry-run", "--json") == 0
    said = json.loads(capsys.readouterr().out)
    assert (said["rows"], said["partitions"], said["passes"]) == (300, 6, 4)
    assert said["bytes"] == sum(file.stat().st_size for file in folder.iterdir())
    assert said["minutes"] is not None
    assert said["privacy"].startswith("none: this is an exact answer")
    assert not (folder.parent / "made").exists()
    assert not list(folder.parent.glob("*.ledger"))


def test_progress_tells_partitions_rate_and_time_left(folder: Path) -> None:
    told = []
    source = open_source(folder, codec=CODEC, engine=HERE)
    source.progress = told.append
    source.named(KEY)
    assert [now.done for now in told] == [1, 2, 3, 4, 5, 6]
    assert told[-1].records == 300
    assert told[-1].left == 0.0
    assert told[2].rate > 0


@pytest.mark.slow
def test_a_ledger_is_made_for_partitions_and_pays_for_them(folder: Path, capsys: Any) -> None:
    budget = ["--epsilon", "1.5", "--delta", "1e-5", "--adjacency", "add-remove", "--schema", "schema.json"]
    assert run(["ledger", "init", "visits.ledger", "--data", "visits", *budget, "--set", "workers=1"]) == 0
    assert "visits may spend" in capsys.readouterr().out
    assert start() == 0
    with Ledger.open(folder.parent / "visits.ledger") as ledger:
        assert len(ledger.datasets()) == len(ledger.entries()) == 1
        assert ledger.datasets()[0].epsilon == 1.5
    # however they are cut
    (folder / "more").mkdir()
    assert run(["ledger", "init", "visits.ledger", "--data", "visits/part-*", *budget, "--set", "workers=1"]) == 0
    assert (
        run(["ledger", "init", "visits.ledger", "--data", "visits/part-00[1-5]*", *budget, "--set", "workers=1"]) == 4
    )


@pytest.mark.slow
def test_a_sketch_of_partitions_is_that_of_the_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    x, y = rng.uniform(0, 1, (90, 3)), np.arange(90) % 2
    np.savez("whole.npz", x=x, y=y)
    for number in range(3):
        np.savez(f"part-{number}.npz", x=x[number::3], y=y[number::3])
    budget = ["--epsilon", "1.6", "--delta", "1e-5", "--adjacency", "add-remove"]
    stated = ["--shape", "3", "--set", "workers=1"]
    assert run(["ledger", "init", "l.ledger", "--data", "part-*.npz", *budget, *stated]) == 0
    terms = ["--epsilon", "1", "--delta", "1e-5", "--adjacency", "add-remove", "--range", "0,1", "--classes", "2"]
    made = ["sketch", "part-*.npz", *terms, *stated, "--out", "a.sketch"]
    assert run(made) == 2
    assert run([*made, "--ledger", "l.ledger"]) == 0
    # one budget with the whole file
    assert run(["sketch", "whole.npz", *terms, "--ledger", "l.ledger", "--out", "b.sketch"]) == 0
    assert run(["sketch", "whole.npz", *terms, "--ledger", "l.ledger", "--out", "c.sketch"]) == 4
    with Ledger.open("l.ledger") as ledger:
        assert len(ledger.datasets()) == 1
        assert len(ledger.entries()) == 2
    assert run(["compare", "a.sketch", "b.sketch"]) == 0


def test_the_sums_of_a_sketch_go_to_other_processes_as_they_are() -> None:
    design = SketchDesign.plain(300, 2.0, directions=16).labelled(2)
    sent = pickle.loads(pickle.dumps(SketchSums(design)))
    assert sent.design.exact_bytes() == design.exact_bytes()
    assert sent.design.matrix.tobytes() == design.matrix.tobytes()
    assert not sent.design.matrix.flags.writeable
    rows, labels, totals = np.random.default_rng(0).normal(size=(20, 300)), np.arange(20) % 2, []
    for sums in (SketchSums(design), sent):
        totals.append(sums.zeros())
        sums.add(totals[-1], rows, labels)
    assert np.array_equal(totals[0][0], totals[1][0])


def test_what_needs_rows_is_refused_before_anything_is_read(folder: Path) -> None:
    for method in ("sliced", "sinkhorn"):
        assert start("--method", method) == 2
    assert not list(folder.parent.glob("*.ledger"))


@pytest.mark.slow
def test_a_copy_of_guarded_partitions_is_warned_of_in_one_pass(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    budget = ["--epsilon", "0.5", "--delta", "1e-5", "--adjacency", "add-remove", "--schema", "schema.json"]
    set_budget = ["ledger", "init", "visits.ledger", "--data", "visits", *budget, "--set", "workers=1"]
    assert run(set_budget) == 0
    Ledger.create(folder.parent / "empty.ledger").close()
    other = write_parquet(folder.parent / "more", cut(people(30, seed=5), 2))
    assert run(["ledger", "init", "more.ledger", "--data", other.name, *budget, "--set", "workers=1"]) == 0
    assert "Warning" not in capsys.readouterr().err
    # the same rows, cut otherwise and copied, under a new ledger, with three others near
    write_parquet(folder.parent / "copy", cut(PEOPLE, 2))
    read = Read(monkeypatch)
    assert run(["ledger", "init", "copy.ledger", "--data", "copy/*.parquet", *budget, "--set", "workers=1"]) == 0
    said = capsys.readouterr().err
    assert said.count("Warning") == 1
    assert "visits.ledger guards these very records" in said.replace("\n", " ")
    # once before a ledger is made, once under the keys of all of them
    assert read.of("NameRecords") == 4
    assert start() == 4
    # a job under a new ledger reads no more often, although four lie near
    read.places.clear()
    assert start("--ledger", "new.ledger", "--out", "other") == 0
    assert "visits.ledger guards these very records" in capsys.readouterr().err.replace("\n", " ")
    assert read.of("NameRecords") == 12
    # and a single file of the same rows, in memory
    write_parquet(folder.parent / "whole", [PEOPLE])
    assert run(["ledger", "init", "whole.ledger", "--data", "whole/part-000.parquet", *budget]) == 0
    assert "visits.ledger guards these very records" in capsys.readouterr().err.replace("\n", " ")


@pytest.mark.parametrize(
    "asked",
    [
        ["count"],
        ["count", "--column", "age", "--between", "18,65"],
        ["count", "--column", "city", "--category", "Ulm"],
        ["mean", "--column", "income"],
        ["histogram", "--column", "ill"],
        ["quantile", "--column", "age", "--at", "0.25,0.5"],
    ],
)
def test_simple_numbers_of_partitions_are_those_of_the_whole(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any, asked: list[str]
) -> None:
    """To the bit, before noise. And one budget pays for both."""
    write_parquet(folder.parent / "whole", [PEOPLE])
    add = noisy_counts.add_noise_to_counts
    seen: list[bytes] = []

    def watched(counts: Any, noise: Any, sigma: float) -> Any:
        seen.append(np.asarray(counts, dtype=np.int64).tobytes())
        return add(counts, noise, sigma)

    for module in (count, mean, marginals):
        monkeypatch.setattr(module, "add_noise_to_counts", watched)
    terms = ["--epsilon", "1", "--delta", "1e-5", "--adjacency", "add-remove", "--schema", "schema.json", "--json"]
    paid = ["--ledger", "l.ledger", "--budget", "1.6"]
    verb, more = asked[0], asked[1:]
    runs = []
    for data, cuts in (("visits/*.parquet", ["--set", "workers=1"]), ("whole/part-000.parquet", [])):
        seen.clear()
        assert run(["release", verb, data, *more, *terms, *paid, *cuts]) == 0
        assert json.loads(capsys.readouterr().out)["guarantee"]["epsilon"] <= 1.0
        runs.append(list(seen))
    assert runs[0] == runs[1] != []
    with Ledger.open("l.ledger") as ledger:
        assert len(ledger.datasets()) == 1
        assert len(ledger.entries()) == 2
    # the third does not fit, and partitions need their ledger named
    assert run(["release", verb, "visits", *more, *terms, *paid, "--set", "workers=1"]) == 4
    assert run(["release", verb, "visits", *more, *terms]) == 2


def test_a_mean_of_partitions_is_the_mean(folder: Path) -> None:
    """Against the values themselves, with noise so small that it does not matter."""
    ages = np.array([r["age"] for r in PEOPLE if r["age"] is not None]).clip(0, 120)
    vault = Vault.open(Files(folder, engine=HERE), SCHEMA, adjacency="add-remove", budget=(1e8, 1e-5))
    value = vault.release(Mean("age", range=(0, 60), epsilon=1e4, delta=1e-6), purpose="test").value
    assert float(value["estimate"]) == pytest.approx(ages.clip(0, 60).mean(), abs=0.5)
    assert float(value["count"]) == pytest.approx(len(ages), abs=1.0)
    value = vault.release(Count("age", between=(18, 65), epsilon=1e4, delta=1e-6), purpose="test").value
    assert float(value["estimate"]) == pytest.approx(((ages >= 18) & (ages <= 65)).sum(), abs=1.0)
