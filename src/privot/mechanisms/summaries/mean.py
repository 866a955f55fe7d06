"""Releases the mean of one column, clamped to its public range; where the number of values is private, that too."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from privot.accounting.events import Event
from privot.common.block_sums import Totals
from privot.guarantee import Adjacency
from privot.mechanisms.mechanism import Facts, Records
from privot.mechanisms.summaries.array_columns import bounds_of, checked_pair, find_column
from privot.mechanisms.summaries.summary import UP, ColumnSum, Summary
from privot.noise import NoiseSource
from privot.noise.noisy_counts import add_noise_to_counts, check_counting_sigma
from privot.noise.shared_noise import carried

UNITS = 2**24
"""A value is rounded to this many steps on either side of the middle of its range, so that sums are whole numbers."""
_LARGEST_SUM = 2**62
_LOW_BITS = 20


@dataclass(frozen=True)
class ClampedSum(ColumnSum):
    """Σ rint(2²⁴·s) and the number of values, exact whole numbers whatever the order of the records.

    The sum is kept in two parts, Σ of the parts above and below 2²⁰ of every block: neither leaves 64 bits before there
    are 2⁴⁰ blocks.
    """

    low: float
    high: float

    def zeros(self) -> Totals:
        """The two parts of the sum, and the number."""
        return (np.zeros(3, dtype=np.int64),)

    def add(self, totals: Totals, rows: NDArray[np.float64], labels: NDArray[np.int64] | None) -> None:
        """Add one block of rows."""
        middle, half = self.low + (self.high - self.low) / 2.0, (self.high - self.low) / 2.0
        values = self.column.values(self.coordinates(rows, labels))
        there = ~np.isnan(values)
        scaled = np.clip((np.clip(values[there], self.low, self.high) - middle) / half, -1.0, 1.0)
        total = int(np.rint(scaled * UNITS).astype(np.int64).sum())
        totals[0][:] += np.array([total >> _LOW_BITS, total & ((1 << _LOW_BITS) - 1), int(there.sum())])


@dataclass(frozen=True)
class Mean(Summary):
    """The mean of one column, with Gaussian noise on the sum, and on the number of values where that is private.

    With m the middle and h half the width of the public range, a value v counts as s = (v − m)/h, cut to [−1, 1]. Where
    the number n of values is public (replace-one, none missing) the answer is m + h·(Σs + noise)/n; otherwise Σs and n
    are released together and the answer is m + h·(Σs + noise)/(n + noise).

    Parameters
    ----------
    column
        Name of the column, or its number from 0.
    range
        (low, high), public: values beyond are clamped. A column of a table with a schema has one stated; a narrower one
        may be given.
    epsilon, delta
        What the release may cost; σ is found from it.
    level
        Probability with which the interval holds the exact mean of the clamped values.

    Returns
    -------
    Release
        Of the vault, arrays without axes: `estimate`, and `low` and `high` of the interval; where the number of values
        is private also `count`, the noisy number of them. All but `count` are in the column's own unit and lie in the
        range.

    Raises
    ------
    UsageError
        If the column does not fit, its range is not stated, or the noise would drown everything: before anything is
        paid.

    Notes
    -----
    Formal guarantees:
      * add-remove: a record adds (s, 1) with |s| ≤ 1 to (Σs, n), or nothing where its value is missing: Δ = √2;
      * replace-one: (s, 1) becomes (s', 1), which is at most 2 away, or (0, 0), at most √2 away: Δ = 2, with n released
        and without;
      * that holds in floating point: s is rounded to a multiple of 2⁻²⁴ from its own record alone, Σs is a sum of whole
        numbers, and noise is added on a grid that holds them (`privot.noise.noisy_counts`);
      * the interval is exact for the noise up to that rounding: Σs − θ·n has a known Gaussian law at the true θ = Σs/n
        (Fieller 1954), also where n is small or noisy.

    Examples
    --------
    >>> import numpy as np
    >>> from privot import Mean, Vault
    >>> vault = Vault(np.arange(100.0)[:, None], clip=1.0, adjacency="replace-one", budget=(1.0, 1e-6))
    >>> release = vault.release(Mean(0, range=(0, 100), epsilon=1.0, delta=1e-6), purpose="a mean")
    >>> bool(release.value["low"] <= release.value["estimate"] <= release.value["high"])
    True
    """

    stable_name: ClassVar[str] = "privot.mechanisms.summaries.mean.Mean"

    column: int | str
    range: tuple[float, float] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.range is not None:
            object.__setattr__(self, "range", checked_pair("The range", self.range))

    def event(self, facts: Facts) -> Event:
        """One Gaussian release of the sum, and of the number where that is private."""
        bounds_of(find_column(self.column, facts), self.range)
        sensitivity = 2.0 if facts.adjacency is Adjacency.REPLACE_ONE else math.sqrt(2.0) * UP
        event = self.calibrated(sensitivity, facts)
        check_counting_sigma(event.sigma * UNITS)
        check_counting_sigma(event.sigma)
        return event

    def margin(self, facts: Facts, records: int) -> float:
        """Half the width of the interval for about so many values, in the column's unit, at most half the range.

        Where the number of values is public that is h·z·σ/n whatever the values are; otherwise it is that of a mean in
        the middle of the range, h·z·σ/√(n² − z²σ²), and up to √2 times as wide towards the ends.
        """
        column = find_column(self.column, facts)
        low, high = bounds_of(column, self.range)
        sigma = self.paid_sigma(event := self.event(facts), event)
        known = facts.records is not None and not column.missing
        ends = self._interval(0.0, float(records), sigma, 0.0 if known else sigma)
        return (high - low) / 2.0 * min(1.0, ends[1])

    def run(
        self, records: Records, noise: NoiseSource, event: Event, step: int
    ) -> tuple[dict[str, NDArray[np.float64]], Mapping[str, Any]]:
        """The noisy mean with its interval, and what is public about it."""
        facts = records.facts
        column = find_column(self.column, facts)
        low, high = bounds_of(column, self.range)
        sigma = self.paid_sigma(event, self.event(facts))
        high_part, low_part, present = (int(part) for part in records.sums(ClampedSum(column, low, high))[0])
        total = max(-_LARGEST_SUM, min(_LARGEST_SUM, (high_part << _LOW_BITS) + low_part))
        noisy = float(add_noise_to_counts(np.array([total]), noise, sigma * UNITS)[0]) / UNITS
        known = None if column.missing else facts.records
        number = float(add_noise_to_counts(np.array([present]), noise, sigma)[0]) if known is None else float(known)
        sigma = carried(noise, sigma)
        ends = self._interval(noisy, number, sigma, 0.0 if known is not None else sigma)
        # of fewer than one value there is no mean: dividing by 1 keeps the answer finite
        share = min(max(noisy / max(number, 1.0), -1.0), 1.0)
        middle, half = low + (high - low) / 2.0, (high - low) / 2.0
        shares = (share, min(share, *ends), max(share, *ends))
        answers = [np.array(min(max(middle + half * s, low), high)) for s in shares]
        value = dict(zip(("estimate", "low", "high"), answers, strict=True))
        if known is None:
            value["count"] = np.array(number)
        return value, self.public("mean", facts, sigma, column=column.name, range=[low, high], half_width=half)

    def _interval(self, total: float, number: float, sigma: float, number_sigma: float) -> tuple[float, float]:
        """The smallest interval in [−1, 1] that holds every θ with (Σs − θ·n)² ≤ z²·(σ² + θ²·σ_n²).

        A quadratic a·θ² − 2b·θ + c ≤ 0 with a = n² − z²σ_n². Where a ≤ 0 no number of values can be told from none, the
        set is unbounded, and the whole range is left.
        """
        reach = self.reach
        a = number * number - (reach * number_sigma) ** 2
        b, c = number * total, total * total - (reach * sigma) ** 2
        rounding = 0.5 / UNITS
        inside = b * b - a * c
        if not (a > 0.0 and inside >= 0.0):
            return -1.0, 1.0
        root = math.sqrt(inside)
        return (b - root) / a - rounding, (b + root) / a + rounding
