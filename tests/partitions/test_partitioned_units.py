"""A unit over many partitions: the same rows take part as in one place, however the data are cut; no more ever do."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from owned_samples import (
    HERE,
    SCHEMA,
    TERMS,
    UNIT,
    in_one_place,
    of_arrays,
    of_table,
    parts_of,
    shuffled,
    visits,
    without,
    write_arrays,
    write_csv,
    write_parquet,
    write_shards,
)

from privot import Count, Ledger, Vault
from privot.accounting import Gaussian
from privot.common.block_sums import add_totals
from privot.common.privacy_unit import Unit
from privot.common.unit_values import block_owners
from privot.errors import DataError, PrivotError, UsageError
from privot.guarantee import Adjacency, Standing
from privot.kinds import Files, Images
from privot.mechanisms import Facts, Needs, SketchDesign
from privot.mechanisms.sketching.private_sketch import PrivateSketch
from privot.partitions import chosen_rows
from privot.partitions.chosen_rows import ChosenPartition, CollectMarks, chosen_partitions
from privot.partitions.engines.local_engine import LocalEngine
from privot.partitions.readers.array_partitions import ArrayPartition
from privot.partitions.source_opening import open_source
from privot.vault.budget import account_name, grouping_name
from privot.vault.partitioned_records import PartitionedRecords
from privot.vault.record_sources import record_source

PARTS = (1, 2, 9, 50)


class RowCounts:
    """How often each row (age, sex, label) takes part, by place in an array of 100 × 2 × 2."""

    labels = True

    def zeros(self) -> Any:
        return (np.zeros((100, 2, 2), dtype=np.int64),)

    def add(self, totals: Any, rows: Any, labels: Any) -> None:
        # a table's sex is a category, 0 or 1, and its age a coordinate in [0, 1] unless it is an array's
        age = np.rint(rows[:, 0] * 99 if rows[:, 0].max(initial=0.0) <= 1.0 and self.scaled else rows[:, 0])
        np.add.at(totals[0], (age.astype(int), np.rint(rows[:, 1]).astype(int), labels), 1)

    def __init__(self, scaled: bool = False) -> None:
        self.scaled = scaled


class Shown:
    """The counts *without noise*: for tests of what takes part."""

    steps, seed, standing = 1, None, Standing.PROVEN
    needs = Needs(labels=True, sums_only=True)

    def __init__(self, scaled: bool = False) -> None:
        self.scaled = scaled

    def event(self, facts: Any) -> Any:
        return Gaussian(1.0, 1.0, Adjacency.ADD_REMOVE)

    def run(self, records: Any, noise: Any, event: Any, step: int) -> Any:
        counts = records.sums(RowCounts(self.scaled))[0]
        assert records.count == counts.sum()
        return counts.astype(float), {}


def shown(vault: Vault, scaled: bool = False) -> np.ndarray:
    return np.asarray(vault.release(Shown(scaled), purpose="test").value)


@pytest.mark.parametrize("per_unit", [1, 3, 8])
@pytest.mark.parametrize("parts", PARTS)
def test_the_rows_that_take_part_are_those_of_one_place(tmp_path: Path, parts: int, per_unit: int) -> None:
    rows = visits(planted=60)
    whole = shown(in_one_place(rows, per_unit))
    folder = write_arrays(tmp_path / "cut", parts_of(shuffled(rows, parts), parts))
    vault = of_arrays(folder, per_unit)
    assert np.array_equal(shown(vault), whole)
    assert whole.sum() < len(rows)
    assert str(vault.facts.unit) == f"one {UNIT}, at most {per_unit} row{'' if per_unit == 1 else 's'}"


@settings(max_examples=30, deadline=None, phases=(Phase.generate,), suppress_health_check=list(HealthCheck))
@given(draw=st.data())
def test_any_cut_in_any_order_gives_the_same_sums(tmp_path_factory: Any, draw: st.DataObject) -> None:
    rows = visits(draw.draw(st.integers(1, 60)), draw.draw(st.integers(0, 30)), draw.draw(st.integers(0, 99)))
    ends = sorted(draw.draw(st.lists(st.integers(0, len(rows)), max_size=6)))
    mixed = shuffled(rows, draw.draw(st.integers(0, 99)))
    parts = [mixed[a:b] for a, b in zip([0, *ends], [*ends, len(rows)], strict=True) if a < b]
    per_unit = draw.draw(st.integers(1, 6))
    folder = write_arrays(tmp_path_factory.mktemp("any") / "cut", parts)
    assert np.array_equal(shown(of_arrays(folder, per_unit)), shown(in_one_place(rows, per_unit)))


@pytest.mark.parametrize("write", [write_csv, write_parquet])
def test_tables_in_parts_keep_what_a_table_keeps(tmp_path: Path, write: Any) -> None:
    if write is write_parquet:
        pytest.importorskip("pyarrow")
    rows = visits(planted=60)
    one = write(tmp_path / "one", [rows])
    whole = shown(of_table(next(one.iterdir()), 3, engine=None), True)
    for parts in (2, 9):
        folder = write(tmp_path / f"cut-{parts}", parts_of(shuffled(rows, parts), parts))
        assert np.array_equal(shown(of_table(folder, 3), True), whole)
    # one file with an engine, whose row groups may be partitions, is partitioned too
    assert np.array_equal(shown(of_table(next(one.iterdir()), 3), True), whole)


def test_row_groups_of_one_file_are_bounded_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pyarrow")
    from privot.partitions.readers import table_partitions

    rows = visits(planted=60)
    file = next(write_parquet(tmp_path / "one", [rows]).iterdir())
    whole = shown(of_table(file, 2, engine=None), True)
    monkeypatch.setattr(table_partitions, "TARGET_ROWS", 20)
    assert np.array_equal(shown(of_table(file, 2), True), whole)


def test_shards_say_whose_an_image_is(tmp_path: Path) -> None:
    pytest.importorskip("PIL")
    rows = visits(planted=30)
    whole = shown(in_one_place(rows, 3))
    told: dict[str, Any] = {"schema": Images((2, 1), classes=2, clip=200.0), "unit": Unit(UNIT, 3)}
    for parts in (1, 4):
        folder = write_shards(tmp_path / f"cut-{parts}", parts_of(shuffled(rows, parts), parts))
        assert np.array_equal(shown(Vault.open(Files(str(folder / "*.tar"), engine=HERE), **told, **TERMS)), whole)
    nobody = write_shards(tmp_path / "nobody", [[{**rows[0], UNIT: None}, rows[1]]])
    with pytest.raises(DataError, match="whose it is"):
        Vault.open(Files(str(nobody / "*.tar"), engine=HERE), **told, **TERMS)
    with pytest.raises(UsageError, match="ending of a file"):
        Vault.open(Files(str(folder / "*.tar"), engine=HERE), **{**told, "unit": "cls"}, **TERMS)


@pytest.mark.slow
def test_queries_name_the_unit_by_a_column(tmp_path: Path) -> None:
    duckdb = pytest.importorskip("duckdb")
    rows = visits(planted=60)
    whole = shown(of_table(next(write_csv(tmp_path / "one", [rows]).iterdir()), 3, engine=None), True)
    with duckdb.connect(str(tmp_path / "a.db")) as database:
        database.execute(f"CREATE TABLE visits ({UNIT} VARCHAR, age INTEGER, sex VARCHAR, ill VARCHAR)")
        database.executemany("INSERT INTO visits VALUES (?, ?, ?, ?)", [list(row.values()) for row in rows])
    for parts in (1, 5):
        place = f"duckdb://{tmp_path / 'a.db'}"
        vault = of_table(place, 3, query="SELECT * FROM visits", parts=parts)
        assert np.array_equal(shown(vault, True), whole)
    with pytest.raises(DataError, match="lacks column"):
        of_table(place, 3, query="SELECT age, sex, ill FROM visits")


@pytest.mark.parametrize("planted", [1, 5, 500])
@pytest.mark.parametrize("per_unit", [1, 5, 50])
def test_neighbours_differ_in_at_most_so_many_rows_and_in_no_other(tmp_path: Path, planted: int, per_unit: int) -> None:
    rows = visits(planted=planted, seed=planted)
    found = []
    for number, some in enumerate((rows, without(rows))):
        # other files, in another order, cut otherwise
        parts = parts_of(shuffled(some, number), 3 + 4 * number)
        found.append(shown(of_arrays(write_arrays(tmp_path / f"{number}", parts), per_unit)))
    assert (found[0] >= found[1]).all()
    assert (found[0] - found[1]).sum() == min(planted, per_unit)


def test_shares_of_the_units_change_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = visits(planted=60)
    folder = write_arrays(tmp_path / "cut", parts_of(rows, 6))
    whole = shown(of_arrays(folder, 3))
    largest: list[int] = []
    choose = chosen_rows.chosen_partitions

    def watched(partitions: Any, found: Any, most: int) -> Any:
        largest.append(sum(len(one.copies) for one in found))
        return choose(partitions, found, most)

    monkeypatch.setattr("privot.partitions.source.chosen_partitions", watched)
    monkeypatch.setattr(chosen_rows, "SHARE_ROWS", 20)
    vault = of_arrays(folder, 3)
    assert np.array_equal(shown(vault), whole)
    # thirteen shares, chosen once for the sum and once for the number of rows
    assert len(largest) == 2 * 13
    # marks of one share are held at a time; the largest has those of the planted patient
    assert max(largest) < sum(largest[:13]) / 2


def test_processes_choose_what_one_process_does(tmp_path: Path) -> None:
    rows = visits(planted=60)
    folder = write_arrays(tmp_path / "cut", parts_of(rows, 6))
    vault = of_arrays(folder, 3, LocalEngine(2))
    count = Count(epsilon=5000.0, delta=1e-6)
    value: Any = vault.release(count, purpose="t").value
    # the noise has a deviation far below a half
    assert round(float(value["estimate"])) == shown(in_one_place(rows, 3)).sum()


def test_a_partition_gives_no_row_without_a_permit(tmp_path: Path) -> None:
    """The bound holds whatever a partition holds by the time its rows are added: more rows of a unit do not pass."""
    rows = visits(60, planted=12, alike=True)
    folder = write_arrays(tmp_path / "cut", parts_of(rows, 3))
    source = open_source(str(folder / "*.npz"), classes=2, shape=(2,), engine=HERE, unit=UNIT)
    collect = CollectMarks(2, 2, 1, 0, 1)
    chosen = chosen_partitions(source.partitions, [collect(part) for part in source.partitions], 4)  # type: ignore[arg-type]
    for number in range(3):
        more = visits(0, planted=100, alike=True)
        x_parts = write_arrays(tmp_path / f"more-{number}", [parts_of(rows, 3)[number] + more])
        (x_parts / "part-000.npz").replace(folder / f"part-{number:03}.npz")
    totals = RowCounts().zeros()
    for part in chosen:
        own = RowCounts().zeros()
        for block in part.blocks():
            RowCounts().add(own, *block)
        add_totals(totals, own)
    # 312 equal rows of one patient lie there now, and four permits
    assert totals[0].sum() == sum(part.rows or 0 for part in chosen)
    planted = [row for row in rows if row[UNIT] == "planted"]
    assert len(planted) == 12
    others = shown(in_one_place(without(rows), 4))
    assert (totals[0] - others).sum() == 4


def test_a_permit_that_is_not_used_is_noticed(tmp_path: Path) -> None:
    rows = visits(60)
    folder = write_arrays(tmp_path / "cut", [rows])
    source = open_source(str(folder / "*.npz"), classes=2, shape=(2,), engine=HERE, unit=UNIT)
    (part,) = chosen_partitions(source.partitions, [CollectMarks(2, 2, 1, 0, 1)(source.partitions[0])], 4)  # type: ignore[arg-type]
    list(part.blocks())
    # the same rows, but two of them change hands
    changed = [{**row, UNIT: "somebody else"} for row in rows[:2]] + rows[2:]
    write_arrays(tmp_path / "other", [changed])
    (tmp_path / "other" / "part-000.npz").replace(folder / "part-000.npz")
    with pytest.raises(DataError, match="other records"):
        list(part.blocks())


@pytest.mark.parametrize("what", ["age", UNIT])
def test_records_that_change_after_the_first_pass_are_refused(tmp_path: Path, what: str) -> None:
    rows = visits(60)
    folder = write_arrays(tmp_path / "cut", parts_of(rows, 3))
    vault = of_arrays(folder, 2)
    changed = [{**rows[0], what: 97 if what == "age" else "somebody else"}, *rows[1:]]
    write_arrays(tmp_path / "other", parts_of(changed, 3))
    (tmp_path / "other" / "part-000.npz").replace(folder / "part-000.npz")
    with pytest.raises(DataError, match="after it was paid for"):
        shown(vault)


def test_an_engine_that_adds_more_than_was_chosen_is_refused(tmp_path: Path) -> None:
    class Generous(LocalEngine):
        def map(self, task: Any, partitions: Any) -> Any:
            plain = [part.partition if isinstance(part, ChosenPartition) else part for part in partitions]
            return super().map(task, plain)

    folder = write_arrays(tmp_path / "cut", parts_of(visits(planted=60), 3))
    source = open_source(str(folder / "*.npz"), classes=2, shape=(2,), engine=Generous(1), unit=UNIT)
    with pytest.raises(PrivotError, match="than were chosen"):
        source.sums(RowCounts(), 2)


def test_sums_of_a_source_with_a_unit_are_bounded_or_refused(tmp_path: Path) -> None:
    folder = write_arrays(tmp_path / "cut", parts_of(visits(), 3))
    told: dict[str, Any] = {"classes": 2, "shape": (2,), "engine": HERE}
    with pytest.raises(PrivotError, match="bounded per unit"):
        open_source(str(folder / "*.npz"), **told, unit=UNIT).sums(RowCounts())
    with pytest.raises(PrivotError, match="bounded per unit"):
        open_source(str(folder / "*.npz"), **told).sums(RowCounts(), 3)
    vault = Vault(open_source(str(folder / "*.npz"), **told, unit=UNIT), classes=2, clip=200.0, **TERMS)
    # who opened partitions with a unit did not mean single records
    assert str(vault.facts.unit) == f"one {UNIT}, at most 1 row"


def test_one_budget_and_one_grouping_in_one_place_and_in_parts(tmp_path: Path) -> None:
    rows = visits(planted=20)
    folder = write_arrays(tmp_path / "cut", parts_of(shuffled(rows, 1), 5))
    with Ledger.create(tmp_path / "a.ledger") as book:
        terms: dict[str, Any] = {"ledger": book, "budget": (9.0, 1e-6)}
        in_one_place(rows, 3, **terms).release(Count(epsilon=1.0, delta=1e-6), purpose="whole")
        of_arrays(folder, 2, **terms).release(Count(epsilon=1.0, delta=1e-6), purpose="parts")
        (data,) = book.datasets()
        assert len(book.entries(data.fingerprint)) == 2
        swapped = [{**rows[0], UNIT: rows[1][UNIT]}, {**rows[1], UNIT: rows[0][UNIT]}, *rows[2:]]
        assert rows[0][UNIT] != rows[1][UNIT]
        other = write_arrays(tmp_path / "other", parts_of(swapped, 5))
        with pytest.raises(UsageError, match="grouped otherwise"):
            of_arrays(other, 3, **terms)
        told: dict[str, Any] = {"classes": 2, "shape": (2,), "engine": HERE}
        with pytest.raises(UsageError, match=f"protects one {UNIT}"):
            Vault(open_source(str(folder / "*.npz"), **told), classes=2, clip=200.0, **{**TERMS, **terms})
        source = open_source(str(folder / "*.npz"), **told, unit=UNIT)
        names = account_name(book, source), grouping_name(book, record_source(source))
        assert names == (data.fingerprint, data.grouping)


def test_a_new_vault_names_records_and_owners_in_the_first_pass(tmp_path: Path) -> None:
    folder = write_arrays(tmp_path / "cut", parts_of(visits(), 3))
    passes: list[str] = []
    with Ledger.create(tmp_path / "a.ledger") as book:
        source = open_source(str(folder / "*.npz"), classes=2, shape=(2,), engine=HERE, unit=UNIT)
        source.progress = lambda told: passes.append(told.what)
        Vault(source, classes=2, clip=200.0, ledger=book, **TERMS)
    assert passes == ["reading"] * 3


def test_partitions_of_texts_and_of_numbers_are_refused(tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow")
    rows = [{**row, UNIT: str(number % 7)} for number, row in enumerate(visits(40))]
    folder = write_parquet(tmp_path / "cut", [rows])
    numbers = [{**row, UNIT: int(row[UNIT])} for row in rows]
    write_parquet(tmp_path / "other", [numbers], unit=pa.int32())
    # alone each of them is read, and gives the same
    found = [shown(of_table(place, 3), True) for place in (folder, tmp_path / "other")]
    assert np.array_equal(*found)
    (tmp_path / "other" / "part-000.parquet").replace(folder / "part-001.parquet")
    with pytest.raises(DataError, match="neither texts alone nor whole numbers alone"):
        of_table(folder, 3)


def test_blocks_without_a_row_are_of_texts_and_of_numbers(tmp_path: Path) -> None:
    class Gaps(ArrayPartition):
        def owned_blocks(self) -> Any:
            for rows, labels, owners in super().owned_blocks():
                nobody = block_owners(np.array([], dtype=np.int64), 0, UNIT)
                yield from ((rows[:0], labels[:0], nobody), (rows, labels, owners), (rows[:0], labels[:0], nobody))

    rows = [{**row, UNIT: number % 7} for number, row in enumerate(visits(40))]
    folder = write_arrays(tmp_path / "cut", parts_of(rows, 2))
    source = open_source(str(folder / "*.npz"), classes=2, shape=(2,), engine=HERE, unit=UNIT)
    parts = tuple(Gaps(part.file, 2, (2,), unit=UNIT) for part in source.partitions)  # type: ignore[attr-defined]
    vault = Vault(replace(source, partitions=parts), classes=2, clip=200.0, unit=Unit(UNIT, 3), **TERMS)
    assert np.array_equal(shown(vault), shown(in_one_place(rows, 3)))


def test_units_that_share_a_salt_are_two_units(tmp_path: Path) -> None:
    """7 and 007 hash their rows alike; each has its own bound, and neither decides about the other's rows."""
    dice = np.random.default_rng(5)
    rows = [{**row, UNIT: ("7", "007", "+7", "7.0")[dice.integers(4)]} for row in visits(60)]
    whole = shown(of_arrays(write_arrays(tmp_path / "all", parts_of(rows, 4)), 3))
    assert np.array_equal(whole, shown(in_one_place(rows, 3)))
    assert whole.sum() == 4 * 3
    for unit in ("7", "007", "+7", "7.0"):
        folder = write_arrays(tmp_path / f"without {unit}", parts_of(shuffled(without(rows, unit), 1), 3))
        left = whole - shown(of_arrays(folder, 3))
        assert left.min() >= 0
        assert left.sum() == 3


@pytest.mark.parametrize("cell", ["", "NA", "?"])
def test_a_row_that_is_nobodys_is_refused_wherever_it_lies(tmp_path: Path, cell: str) -> None:
    rows = visits(40)
    rows[33][UNIT] = cell
    with pytest.raises(DataError, match="whose it is") as refused:
        of_table(write_csv(tmp_path / "cut", parts_of(rows, 4)), 3)
    assert "patient 1" not in str(refused.value)


def test_a_codec_with_the_unit_as_a_column_is_refused(tmp_path: Path) -> None:
    from privot.tables import Column, TableCodec

    folder = write_csv(tmp_path / "cut", [visits(10)])
    described = replace(SCHEMA, columns=(Column(UNIT, "categorical", categories=("a",)), *SCHEMA.columns))
    with pytest.raises(UsageError, match="dropping"):
        open_source(folder, codec=TableCodec(described), unit=UNIT)
    with pytest.raises(UsageError, match="is the label"):
        of_table(folder, 3).open(folder, SCHEMA, unit="ill", **TERMS)


def test_a_release_that_can_be_made_again_is_bound_to_whose_the_records_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One noise for two groupings, or for two choices of rows, would show what differs, and the second be unpaid."""
    rows, row_key, key = visits(planted=20), bytes(32), bytes(range(32))
    swapped = [{**rows[0], UNIT: rows[1][UNIT]}, {**rows[1], UNIT: rows[0][UNIT]}, *rows[2:]]
    assert rows[0][UNIT] != rows[1][UNIT]
    facts = Facts(2, None, 200.0, Adjacency.ADD_REMOVE, 2, unit=Unit(UNIT, 3))

    def digest(some: list[dict[str, Any]], parts: int, name: str) -> bytes:
        folder = write_arrays(tmp_path / name, parts_of(some, parts))
        source = open_source(str(folder / "*.npz"), classes=2, shape=(2,), engine=HERE, unit=UNIT)
        return PartitionedRecords(source, facts, key).exact_digest(row_key)

    first = digest(rows, 3, "first")
    assert digest(shuffled(rows, 1), 5, "cut otherwise") == first
    assert digest(swapped, 3, "swapped") != first
    monkeypatch.setattr("privot.vault.partitioned_records.CHOOSING_KEY", b"version 3")
    assert digest(rows, 3, "chosen otherwise") != first


def test_the_same_secret_pays_again_for_other_rows_of_the_units(tmp_path: Path) -> None:
    folder = write_arrays(tmp_path / "cut", parts_of(visits(planted=20), 3))
    sums = PrivateSketch(SketchDesign.plain(2, 4.0), 50.0)
    with Ledger.create(tmp_path / "a.ledger") as book:
        values: list[Any] = []
        for per_unit in (2, 2, 3):
            vault = of_arrays(folder, per_unit, ledger=book, budget=(90.0, 1e-6))
            values.append(vault.release_once(sums, purpose="once", secret=bytes(range(32))).value)
            assert vault.charges("once") == 1 + (per_unit == 3)
    told = [repr(value) for value in values]
    assert told[0] == told[1] != told[2]
