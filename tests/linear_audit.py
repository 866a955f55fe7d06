"""Thousands of real releases of a vault, and the best linear test between two sets of them: a lower bound on ε.

The bound rests on no assumption about the mechanism: a direction and a threshold are chosen from one half of the
releases, and the rates of that one test are bounded from the other half (Clopper & Pearson 1934). It exceeds the true ε
with a probability of at most 1 − `CONFIDENCE` = 10⁻⁴.

What so few releases can show (`TRIALS` = 2000, half of them counted). Data sets that a test tells apart without error
give a bound of 4.61 on ε, above the 4.38 that one unit costs at a distance of σ. Planted bugs move sums by at least
19 σ: that one of 2000 releases errs has a probability below 10⁻¹⁷. A unit that moves sums by σ, as a correct bound
allows, is seen: the bound on the shift between the two normal laws is 0.65 on average where the truth is 1, with a
standard deviation of 0.06 over 8,000 simulated audits of 12 counts (the least was 0.40), and so above `SEEN` = 0.3. A
threshold for the shift is sought in the middle of the releases only: at their ends a lucky first half chose one that
the second half took back (5 of the 8,000 then saw less than 0.3). The audits' noise is seeded: what they find is
the same in every run.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privot.accounting.events import Event
from privot.audit.statistics.epsilon_bounds import Rates, shift_epsilon
from privot.common.privacy_unit import Unit
from privot.mechanisms import Facts, Needs
from privot.mechanisms.mechanism import Records
from privot.mechanisms.table_counts.marginals import Marginals
from privot.noise import NoiseSource
from privot.vault import Vault

TRIALS, DELTA, CONFIDENCE = 2000, 1e-5, 0.9999
SEEN = 0.3
"""A bound on the shift from which on an attack has seen a unit: one that sees nothing would prove nothing."""

MIDDLE = range(9, 40)
"""Of the 49 thresholds that are tried, those between the quantiles 0.2 and 0.8."""


class _SameSums:
    """Records whose sums are added up once: they are the same in every release, and only the noise is fresh."""

    def __init__(self, records: Records) -> None:
        self.facts, self.count, self._records = records.facts, records.count, records
        self._known: dict[str, Any] = {}

    def sums(self, summand: Any) -> Any:
        name = type(summand).__name__
        if name not in self._known:
            self._known[name] = self._records.sums(summand)
        return self._known[name]


class RepeatedCounts:
    """`steps` releases of the same marginals; the pass over the records is made once."""

    seed = None

    def __init__(self, question: Marginals, steps: int) -> None:
        self.question, self.steps, self.standing = question, steps, question.standing
        self._held: _SameSums | None = None

    @property
    def needs(self) -> Needs:
        return self.question.needs

    def event(self, facts: Facts) -> Event:
        return self.question.event(facts)

    def run(self, records: Records, noise: NoiseSource, event: Event, step: int) -> tuple[Any, Mapping[str, Any]]:
        self._held = self._held or _SameSums(records)
        return self.question.run(self._held, noise, event, step)  # type: ignore[arg-type]


def released(vault: Vault, question: Marginals, unit: Unit, trials: int = TRIALS) -> tuple[NDArray[np.float64], float]:
    """So many releases of the counts, one per row, and the ε that the vault claims for one; it must name `unit`."""
    claimed = vault.stream(question, purpose="audit", allow_unproven=True).guarantee
    assert claimed.unit == unit
    stream = vault.stream(RepeatedCounts(question, trials), purpose="audit", allow_unproven=True)
    return np.array([release.value for release in stream]), claimed.epsilon(DELTA)


@dataclass(frozen=True)
class Measured:
    """Lower bounds from the best linear tests: on ε at `DELTA`, and on the shift μ of a Gaussian mechanism."""

    epsilon: float
    shift: float

    def within(self, claimed: float) -> bool:
        """Whether neither bound refutes `claimed`; the noise is normal, so a shift is an ε too (`shift_epsilon`).

        ε alone misses a forgotten factor of 5 rows (0.73 claimed, a shift of 1) in 16 % of 2,000 simulated audits; the
        shift, of which the least was 0.40, says 1.57 then.
        """
        return max(self.epsilon, shift_epsilon(self.shift, DELTA)) <= claimed


def measured(ones: NDArray[np.float64], zeros: NDArray[np.float64]) -> Measured:
    """A direction and a threshold for each bound from the first half of the releases, counted on the second."""
    half = len(ones) // 2
    direction = ones[:half].mean(axis=0) - zeros[:half].mean(axis=0)
    there, gone = ones @ direction, zeros @ direction
    tried = np.quantile(np.concatenate([there[:half], gone[:half]]), np.linspace(0.02, 0.98, 49))

    def rates(part: slice, threshold: float) -> Rates:
        hits, alarms = int((there[part] > threshold).sum()), int((gone[part] > threshold).sum())
        return Rates.of(hits, half, alarms, half, CONFIDENCE)

    first = [rates(slice(half), threshold) for threshold in tried]
    by_epsilon = max(range(len(tried)), key=lambda place: first[place].epsilon(DELTA))
    by_shift = max(MIDDLE, key=lambda place: first[place].shift())
    seen, moved = (rates(slice(half, None), tried[place]) for place in (by_epsilon, by_shift))
    return Measured(seen.epsilon(DELTA), moved.shift())
