"""Audit of a unit over partitions: planted patients of 1, 5 and 500 rows; measured is never above what is claimed.

Thousands of real releases of two neighbouring sets of files, in other orders and cut otherwise; the best linear test
between them bounds ε from below without any assumption. Two planted bugs are refuted by it: a bound in every partition
by itself, and a bound by the order of rows.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from owned_samples import UNIT, of_arrays, parts_of, shuffled, visits, without, write_arrays

from linear_audit import SEEN, Measured, measured, released
from privot.common.privacy_unit import Unit
from privot.data.unit_marks import MARK_BYTES, OWNER_BYTES
from privot.mechanisms.table_counts.cell_axes import Axis
from privot.mechanisms.table_counts.marginals import Marginals
from privot.noise import SeededNoise
from privot.partitions import source
from privot.partitions.chosen_rows import ChosenPartition, chosen_partitions
from privot.partitions.engines.local_engine import LocalEngine

pytestmark = pytest.mark.slow

PER_UNIT = 5
QUESTION = Marginals((Axis(0, 6), Axis(1, 2)), ((0, 1),), 1.0 * PER_UNIT)


def audited(whole: Path, rest: Path) -> tuple[Measured, float]:
    """What an attack measures between two neighbouring sets of files, and the ε that the vault claims."""
    unit = Unit(UNIT, PER_UNIT)
    opened = [
        of_arrays(folder, PER_UNIT, LocalEngine(1), noise=SeededNoise(n)) for n, folder in ((1, whole), (2, rest))
    ]
    (ones, claimed), (zeros, same) = (released(vault, QUESTION, unit) for vault in opened)
    assert claimed == same
    return measured(ones, zeros), claimed


@pytest.mark.gate(2)
@pytest.mark.parametrize("planted", [1, 5, 500])
def test_measured_epsilon_of_a_patient_is_never_above_the_claim(tmp_path: Path, planted: int) -> None:
    rows = visits(planted=planted, alike=True)
    whole = write_arrays(tmp_path / "whole", parts_of(rows, 20))
    rest = write_arrays(tmp_path / "rest", parts_of(shuffled(without(rows), 9), 7))
    found, claimed = audited(whole, rest)
    assert found.within(claimed)
    assert found.shift <= 1.0
    assert (found.shift > SEEN) == (planted >= PER_UNIT)


def test_a_bound_in_every_partition_by_itself_is_refuted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = visits(planted=500, alike=True)
    whole = write_arrays(tmp_path / "whole", parts_of(rows, 20))
    rest = write_arrays(tmp_path / "rest", parts_of(without(rows), 20))

    def each(partitions: Any, found: Any, most: int) -> list[ChosenPartition]:
        pairs = zip(partitions, found, strict=True)
        return [chosen_partitions([partition], [one], most)[0] for partition, one in pairs]

    monkeypatch.setattr(source, "chosen_partitions", each)
    found, claimed = audited(whole, rest)
    assert found.epsilon > claimed


def test_a_bound_by_the_order_of_partitions_is_refuted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first rows of every unit, partition by partition: the files without the patient lie in reverse order."""
    own = [{UNIT: "planted", "age": 5, "sex": "m", "ill": "no"}] * 5
    rows = [{UNIT: f"{n}", "age": int(k < 5), "sex": "f", "ill": "no"} for k in range(25) for n in range(40)]
    whole = write_arrays(tmp_path / "whole", parts_of(rows + own, 10))
    rest = write_arrays(tmp_path / "rest", parts_of(rows[::-1], 10))
    found, claimed = audited(whole, rest)
    assert found.within(claimed)

    def first(partitions: Any, found: Any, most: int) -> list[ChosenPartition]:
        left: dict[bytes, int] = {}
        out = []
        for partition, one in zip(partitions, found, strict=True):
            given = []
            for place, copies in enumerate(one.copies.tolist()):
                owner = one.marks[place * MARK_BYTES : place * MARK_BYTES + OWNER_BYTES]
                given.append(min(copies, left.setdefault(owner, most)))
                left[owner] -= given[-1]
            out.append(ChosenPartition(partition, one.marks, np.array(given, dtype=np.int64)))
        return out

    monkeypatch.setattr(source, "chosen_partitions", first)
    broken, claimed = audited(whole, rest)
    assert broken.epsilon > claimed
