"""Releases how many records there are, or how many a public condition on one column holds for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from privot.accounting.events import Event
from privot.common.block_sums import Totals
from privot.errors import UsageError, brief
from privot.mechanisms.mechanism import Facts, PublicColumn, Records
from privot.mechanisms.summaries.array_columns import checked_pair, find_column
from privot.mechanisms.summaries.summary import ColumnSum, Summary
from privot.noise import NoiseSource
from privot.noise.noisy_counts import add_noise_to_counts, check_counting_sigma
from privot.noise.shared_noise import carried


@dataclass(frozen=True)
class WithinCount(ColumnSum):
    """How many records have a coordinate from `first` to `last`."""

    first: float
    last: float

    def zeros(self) -> Totals:
        """One number."""
        return (np.zeros(1, dtype=np.int64),)

    def add(self, totals: Totals, rows: NDArray[np.float64], labels: NDArray[np.int64] | None) -> None:
        """Count one block of rows."""
        at = self.coordinates(rows, labels)
        totals[0][0] += int(((self.first <= at) & (at <= self.last)).sum())


@dataclass(frozen=True)
class Count(Summary):
    """The number of records, or of those whose value in one column is as stated, plus N(0, σ²).

    Parameters
    ----------
    column
        Name of the column that the condition is about, or its number from 0. Without one all records are counted,
        which add-remove hides and replace-one does not.
    between
        (low, high): count records with low ≤ value ≤ high. For a column of numbers.
    category
        Count records of this category. For a column of categories; "label" names the labels of an array.
    epsilon, delta
        What the release may cost; σ is found from it.
    level
        Probability with which the interval holds the exact number.

    Returns
    -------
    Release
        Of the vault, arrays without axes: `estimate`, and `low` and `high` of the interval. The estimate is unbiased,
        so it may be negative; the interval is cut at 0, and at the number of records where that is public.

    Raises
    ------
    UsageError
        If the column or the condition does not fit, or the number is public: before anything is paid.

    Notes
    -----
    Formal guarantees: one record adds 0 or 1, so adding, removing or replacing it moves the count by at most 1: Δ = 1.
    Counts are whole numbers and noise is added on a grid that holds them (`privot.noise.noisy_counts`), so no rounding
    adds to Δ.

    Examples
    --------
    >>> import numpy as np
    >>> from privot import Count, Vault
    >>> vault = Vault(np.arange(200.0)[:, None], clip=1.0, adjacency="add-remove", budget=(2.0, 1e-6))
    >>> release = vault.release(Count(0, between=(0, 49), epsilon=1.0, delta=1e-6), purpose="how many are below 50")
    >>> bool(release.value["low"] <= release.value["high"]), release.guarantee.epsilon() <= 1.0
    (True, True)
    """

    stable_name: ClassVar[str] = "privot.mechanisms.summaries.count.Count"

    column: int | str | None = None
    between: tuple[float, float] | None = None
    category: str | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.between is not None:
            object.__setattr__(self, "between", checked_pair("between", self.between))
        if (self.column is None) != (self.between is None and self.category is None):
            raise UsageError("A condition needs a column, and a column a condition: give both or neither.")
        if self.between is not None and self.category is not None:
            raise UsageError("A condition is either between two numbers or of one category: leave one out.")

    def event(self, facts: Facts) -> Event:
        """One Gaussian release of sensitivity 1."""
        if self.column is None:
            if facts.records is not None:
                raise UsageError(
                    f"The number of records, {facts.records}, is public under replace-one: no release is needed."
                )
        else:
            self._wanted(find_column(self.column, facts))
        event = self.calibrated(1.0, facts)
        check_counting_sigma(event.sigma)
        return event

    def margin(self, facts: Facts) -> float:
        """Half the width of the interval, in records: z·σ, before it is cut to what a number of records can be."""
        return self.reach * self.paid_sigma(event := self.event(facts), event)

    def run(
        self, records: Records, noise: NoiseSource, event: Event, step: int
    ) -> tuple[dict[str, NDArray[np.float64]], Mapping[str, Any]]:
        """The noisy count with its interval, and what is public about it."""
        facts = records.facts
        sigma = self.paid_sigma(event, self.event(facts))
        estimate = add_noise_to_counts(np.array([self._count(records)]), noise, sigma)[0]
        sigma = carried(noise, sigma)
        stated = self.public(
            "count",
            facts,
            sigma,
            column=None if self.column is None else find_column(self.column, facts).name,
            between=None if self.between is None else list(self.between),
            category=self.category,
        )
        return self.around(estimate, sigma, facts), stated

    def _wanted(self, column: PublicColumn) -> tuple[float, float]:
        """The coordinates, from first to last, of records that count."""
        if self.category is not None:
            if column.categories is None:
                raise UsageError(f"The values of {brief(column.name)} are numbers: state between, not a category.")
            if self.category not in column.categories:
                raise UsageError(f"{brief(column.name)} has no category {brief(self.category)}.")
            place = float(column.categories.index(self.category))
            return place, place
        if column.categories is not None:
            raise UsageError(f"The values of {brief(column.name)} are categories: state a category, not between.")
        assert self.between is not None
        low, high = self.between
        if column.range is not None and (high < column.range[0] or low > column.range[1]):
            raise UsageError(f"No value of {brief(column.name)} lies there: its range is stated otherwise.")
        ends = np.clip(self.between, *column.range) if column.range is not None else np.asarray(self.between)
        first, last = column.coordinates(ends.astype(np.float64))
        return float(first), float(last)

    def _count(self, records: Records) -> int:
        if self.column is None:
            return records.count
        column = find_column(self.column, records.facts)
        return int(records.sums(WithinCount(column, *self._wanted(column)))[0][0])
