"""Audit of the unit: planted patients of 1, 5 and 500 rows; what is measured is never above what is claimed.

Real releases of a vault, thousands of them, on two neighbouring files in different orders; the best linear test between
them gives a lower bound on ε without any assumption. The planted bug, a bound by order in the file, is caught by it.
"""

from __future__ import annotations

import numpy as np
import pytest
from unit_samples import AXES, PLANTED, Rows, table

from privot.audit.simulation.neighbours import RepeatedRelease
from privot.audit.statistics.epsilon_bounds import Rates
from privot.common.privacy_unit import Unit
from privot.mechanisms import Marginals
from privot.noise import SeededNoise
from privot.vault import Vault
from privot.vault import vault as vault_module

pytestmark = pytest.mark.slow

TRIALS, PER_UNIT, DELTA, CONFIDENCE = 4000, 5, 1e-5, 0.9999
QUESTION = Marginals(AXES, ((0, 1),), 1.0 * PER_UNIT)


def values(rows: Rows, trials: int, seed: int) -> tuple[np.ndarray, float]:
    """So many releases of the counts, and the ε that the vault claims for one."""
    vault = Vault(**rows.held(PER_UNIT), noise=SeededNoise(seed))
    one = vault.stream(QUESTION, purpose="audit", allow_unproven=True).guarantee
    assert one.unit == Unit("patient_id", PER_UNIT)
    stream = vault.stream(RepeatedRelease(QUESTION, trials), purpose="audit", allow_unproven=True)
    return np.array([release.value for release in stream]), one.epsilon(DELTA)


def measured(whole: Rows, rest: Rows) -> tuple[float, float]:
    """(ε measured, ε claimed): a direction from half of the releases, a threshold on the other half."""
    (ones, claimed), (zeros, same) = values(whole, TRIALS, 1), values(rest, TRIALS, 2)
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


@pytest.mark.parametrize("planted", PLANTED)
def test_measured_epsilon_of_a_patient_is_never_above_the_claim(planted: int):
    whole = table(5, planted, alike=True)
    rest = whole.without("planted").at(np.random.default_rng(9).permutation(200))
    found, claimed = measured(whole, rest)
    assert found <= claimed
    if planted >= PER_UNIT:
        # the attack can see a patient: a bound that it could not reach would prove nothing
        assert found > 0.2 * claimed


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
    found, claimed = measured(whole, rest)
    assert found <= claimed
    monkeypatch.setattr(vault_module, "kept_rows", first_rows)
    broken, claimed = measured(whole, rest)
    assert broken > claimed
