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

from privot.audit.simulation.neighbours import RepeatedRelease
from privot.audit.statistics.epsilon_bounds import Rates
from privot.common.privacy_unit import Unit
from privot.data.unit_marks import MARK_BYTES, OWNER_BYTES
from privot.mechanisms import Axis, Marginals
from privot.noise import SeededNoise
from privot.partitions import LocalEngine, source
from privot.partitions.chosen_rows import ChosenPartition, chosen_partitions

pytestmark = pytest.mark.slow

TRIALS, PER_UNIT, DELTA, CONFIDENCE = 4000, 5, 1e-5, 0.9999
QUESTION = Marginals((Axis(0, 6), Axis(1, 2)), ((0, 1),), 1.0 * PER_UNIT)


class Remembering(LocalEngine):
    """Reads each partition once for each task: thousands of releases add the same sums."""

    def __init__(self) -> None:
        super().__init__(1)
        self._known: dict[Any, Any] = {}

    def map(self, task: Any, partitions: Any) -> Any:
        for place, partition in enumerate(partitions):
            known = type(task).__name__, type(getattr(task, "summand", None)).__name__, partition.stamp
            if known not in self._known:
                ((_, self._known[known]),) = super().map(task, [partition])
            yield place, self._known[known]


def values(folder: Path, seed: int) -> tuple[np.ndarray, float]:
    """So many releases of the counts, and the ε that the vault claims for one."""
    vault = of_arrays(folder, PER_UNIT, Remembering(), noise=SeededNoise(seed))
    one = vault.stream(QUESTION, purpose="audit", allow_unproven=True).guarantee
    assert one.unit == Unit(UNIT, PER_UNIT)
    stream = vault.stream(RepeatedRelease(QUESTION, TRIALS), purpose="audit", allow_unproven=True)
    return np.array([release.value for release in stream]), one.epsilon(DELTA)


def measured(whole: Path, rest: Path) -> tuple[float, float]:
    """(ε measured, ε claimed): a direction from half of the releases, a threshold on the other half."""
    (ones, claimed), (zeros, same) = values(whole, 1), values(rest, 2)
    assert claimed == same
    half = TRIALS // 2
    direction = ones[:half].mean(axis=0) - zeros[:half].mean(axis=0)
    there, gone = ones @ direction, zeros @ direction
    tried = np.quantile(np.concatenate([there[:half], gone[:half]]), np.linspace(0.02, 0.98, 49))

    def bound(part: slice, threshold: float) -> float:
        hits, alarms = int((there[part] > threshold).sum()), int((gone[part] > threshold).sum())
        return Rates.of(hits, half, alarms, half, CONFIDENCE).epsilon(DELTA)

    best = max(tried, key=lambda threshold: bound(slice(half), threshold))
    return bound(slice(half, None), best), claimed


@pytest.mark.parametrize("planted", [1, 5, 500])
def test_measured_epsilon_of_a_patient_is_never_above_the_claim(tmp_path: Path, planted: int) -> None:
    rows = visits(planted=planted, alike=True)
    whole = write_arrays(tmp_path / "whole", parts_of(rows, 20))
    rest = write_arrays(tmp_path / "rest", parts_of(shuffled(without(rows), 9), 7))
    found, claimed = measured(whole, rest)
    assert found <= claimed
    if planted >= PER_UNIT:
        # the attack can see a patient: a bound that it could not reach would prove nothing
        assert found > 0.2 * claimed


def test_a_bound_in_every_partition_by_itself_is_refuted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = visits(planted=500, alike=True)
    whole = write_arrays(tmp_path / "whole", parts_of(rows, 20))
    rest = write_arrays(tmp_path / "rest", parts_of(without(rows), 20))

    def each(partitions: Any, found: Any, most: int) -> list[ChosenPartition]:
        pairs = zip(partitions, found, strict=True)
        return [chosen_partitions([partition], [one], most)[0] for partition, one in pairs]

    monkeypatch.setattr(source, "chosen_partitions", each)
    found, claimed = measured(whole, rest)
    assert found > claimed


def test_a_bound_by_the_order_of_partitions_is_refuted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first rows of every unit, partition by partition: the files without the patient lie in reverse order."""
    own = [{UNIT: "planted", "age": 5, "sex": "m", "ill": "no"}] * 5
    rows = [{UNIT: f"{n}", "age": int(k < 5), "sex": "f", "ill": "no"} for k in range(25) for n in range(40)]
    whole = write_arrays(tmp_path / "whole", parts_of(rows + own, 10))
    rest = write_arrays(tmp_path / "rest", parts_of(rows[::-1], 10))
    found, claimed = measured(whole, rest)
    assert found <= claimed

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
    broken, claimed = measured(whole, rest)
    assert broken > claimed
