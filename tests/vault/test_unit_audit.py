"""Audit of the unit: planted patients of 1, 5 and 500 rows; what is measured is never above what is claimed.

Real releases of a vault, thousands of them, on two neighbouring files in different orders; the best linear test between
them gives a lower bound on ε without any assumption. The planted bug, a bound by order in the file, is caught by it.
"""

from __future__ import annotations

import numpy as np
import pytest
from unit_samples import AXES, PLANTED, Rows, table

from linear_audit import SEEN, Measured, measured, released
from privot.common.privacy_unit import Unit
from privot.mechanisms.table_counts.marginals import Marginals
from privot.noise import SeededNoise
from privot.vault import Vault, record_sources

pytestmark = pytest.mark.slow

PER_UNIT = 5
QUESTION = Marginals(AXES, ((0, 1),), 1.0 * PER_UNIT)


def audited(whole: Rows, rest: Rows) -> tuple[Measured, float]:
    """What an attack measures between two neighbouring tables, and the ε that the vault claims."""
    unit = Unit("patient_id", PER_UNIT)
    vaults = [Vault(**rows.held(PER_UNIT), noise=SeededNoise(seed)) for seed, rows in ((1, whole), (2, rest))]
    (ones, claimed), (zeros, same) = (released(vault, QUESTION, unit) for vault in vaults)
    assert claimed == same
    return measured(ones, zeros), claimed


@pytest.mark.gate(2)
@pytest.mark.parametrize("planted", PLANTED)
def test_measured_epsilon_of_a_patient_is_never_above_the_claim(planted: int):
    whole = table(5, planted, alike=True)
    rest = whole.without("planted").at(np.random.default_rng(9).permutation(200))
    found, claimed = audited(whole, rest)
    assert found.within(claimed)
    assert found.shift <= 1.0
    assert (found.shift > SEEN) == (planted >= PER_UNIT)


def test_a_bound_by_order_in_the_file_is_refuted(monkeypatch: pytest.MonkeyPatch):
    def first_rows(units: list[str], rows: np.ndarray, labels: np.ndarray | None, most: int) -> np.ndarray:
        seen: dict[str, int] = {}
        kept = []
        for place, unit in enumerate(units):
            seen[unit] = seen.get(unit, 0) + 1
            if seen[unit] <= most:
                kept.append(place)
        return np.array(kept)

    # everybody has 25 rows, of two kinds; the file without the patient happens to be sorted the other way round
    units = [f"unit {number}" for number in range(40) for _ in range(25)] + ["planted"] * 5
    x = np.array([[float(place % 25 < 5), 0.0] for place in range(1000)] + [[3.0, 2.0]] * 5)
    whole = Rows(x, np.zeros(1005, dtype=np.int64), units)
    rest = whole.without("planted").at(np.arange(1000)[::-1].copy())
    found, claimed = audited(whole, rest)
    assert found.within(claimed)
    monkeypatch.setattr(record_sources, "kept_rows", first_rows)
    broken, claimed = audited(whole, rest)
    assert broken.epsilon > claimed
