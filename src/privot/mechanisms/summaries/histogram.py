"""Releases how many records fall into each of the public bins or categories of one column."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from privot.accounting.events import Event
from privot.common.arguments import check_count, is_number
from privot.errors import UsageError, brief
from privot.mechanisms.mechanism import Facts, PublicColumn, Records
from privot.mechanisms.summaries.array_columns import bounds_of, checked_pair, find_column
from privot.mechanisms.summaries.summary import Summary
from privot.mechanisms.table_counts.cell_axes import Axis
from privot.mechanisms.table_counts.marginals import Marginals
from privot.noise import NoiseSource
from privot.noise.shared_noise import carried

BINS = 10
MAX_BINS = 100_000


@dataclass(frozen=True)
class Histogram(Summary):
    """The number of records in each bin of one column, plus N(0, σ²) in every bin.

    Parameters
    ----------
    column
        Name of the column, or its number from 0; "label" names the labels of an array.
    bins
        Of a column of numbers, public: how many bins of equal width the range is cut into (10 unless given), or their
        edges, rising. A bin holds its lower edge, and the last one both; values beyond the edges fall into the first
        and last bin. A column of categories has one bin each, and takes no bins.
    range
        (low, high) of bins of equal width, public; stated already for a column of a table with a schema.
    epsilon, delta
        What the release may cost; σ is found from it.
    level
        Probability with which the interval of one bin holds its exact number; it is that of each bin, not of all.

    Returns
    -------
    Release
        Of the vault: `estimate`, `low` and `high`, each of shape (bins,). Where values may be missing the last bin
        counts those. Its `public` names the bins: `edges` or `categories`.

    Raises
    ------
    UsageError
        If the column or the bins do not fit: before anything is paid.

    Notes
    -----
    Formal guarantees: one record stands in exactly one bin, so adding or removing it moves one bin by 1 (Δ = 1), and
    replacing it moves at most two bins by 1 each (Δ = √2). It is one marginal of `Marginals`, with its guarantees in
    floating point.

    Examples
    --------
    >>> import numpy as np
    >>> from privot import Histogram, Vault
    >>> vault = Vault(np.arange(100.0)[:, None], clip=1.0, adjacency="add-remove", budget=(1.0, 1e-6))
    >>> release = vault.release(Histogram(0, bins=4, range=(0, 100), epsilon=1.0, delta=1e-6), purpose="quarters")
    >>> release.value["estimate"].shape, release.public["edges"]
    ((4,), [0.0, 25.0, 50.0, 75.0, 100.0])
    """

    stable_name: ClassVar[str] = "privot.mechanisms.summaries.histogram.Histogram"

    column: int | str
    bins: int | Sequence[float] | None = None
    range: tuple[float, float] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.range is not None:
            object.__setattr__(self, "range", checked_pair("The range", self.range))
        if self.bins is None:
            return
        if isinstance(self.bins, int):
            check_count("The number of bins", self.bins, most=MAX_BINS)
            return
        edges = tuple(self.bins)
        if not all(is_number(edge) for edge in edges) or not 2 <= len(edges) <= MAX_BINS + 1:
            raise UsageError(f"The edges of bins must be from 2 to {MAX_BINS + 1} numbers, got {brief(edges)}.")
        edges = tuple(float(edge) for edge in edges)
        if any(a >= b for a, b in pairwise(edges)):
            raise UsageError("The edges of bins must rise.")
        if self.range is not None:
            raise UsageError("Bins have either edges or a range: leave the range out.")
        object.__setattr__(self, "bins", edges)

    def event(self, facts: Facts) -> Event:
        """One Gaussian release of all bins."""
        event = self.calibrated(self._marginal(facts, 1.0).sensitivity(facts.adjacency), facts)
        # asked again with the noise it will have, which refuses what cannot be added to counts
        return self._marginal(facts, event.sigma).event(facts)

    def margin(self, facts: Facts) -> float:
        """Half the width of the interval of one bin, in records: z·σ, before it is cut to what a number can be."""
        return self.reach * self.paid_sigma(event := self.event(facts), event)

    def run(
        self, records: Records, noise: NoiseSource, event: Event, step: int
    ) -> tuple[dict[str, NDArray[np.float64]], Mapping[str, Any]]:
        """The noisy numbers with their intervals, and what is public about them."""
        facts = records.facts
        sigma = self.paid_sigma(event, self.event(facts))
        estimate, _ = self._marginal(facts, sigma).run(records, noise, event, step)
        sigma = carried(noise, sigma)
        column = find_column(self.column, facts)
        edges = None if column.categories is not None else list(self._edges(column))
        names = None if column.categories is None else list(column.categories)
        stated = {"column": column.name, "edges": edges, "categories": names, "missing": column.missing}
        return self.around(estimate, sigma, facts), self.public("histogram", facts, sigma, **stated)

    def _edges(self, column: PublicColumn) -> tuple[float, ...]:
        if isinstance(self.bins, tuple):
            if column.range is not None and not column.range[0] <= self.bins[0] <= self.bins[-1] <= column.range[1]:
                raise UsageError(
                    f"The edges must lie within the stated range of {brief(column.name)}, {column.range[0]:g} to "
                    f"{column.range[1]:g}."
                )
            return self.bins
        low, high = bounds_of(column, self.range)
        return tuple(float(edge) for edge in np.linspace(low, high, (self.bins or BINS) + 1))  # type: ignore[operator]

    def _marginal(self, facts: Facts, sigma: float) -> Marginals:
        column = find_column(self.column, facts)
        if column.categories is not None:
            if self.bins is not None or self.range is not None:
                raise UsageError(f"The values of {brief(column.name)} are categories: leave bins and range out.")
            axis = Axis(column.place, len(column.categories))
        else:
            inner = np.asarray(self._edges(column)[1:-1], dtype=np.float64)
            axis = number_axis(column, column.coordinates(inner))
        return Marginals((axis,), ((0,),), sigma)


def number_axis(column: PublicColumn, cuts: NDArray[np.float64]) -> Axis:
    """The axis of a column of numbers cut at these coordinates, with a cell for missing values where allowed."""
    if len(np.unique(cuts)) != len(cuts):
        raise UsageError(f"The bins of {brief(column.name)} are finer than numbers can tell apart: use fewer.")
    edges = tuple(float(cut) for cut in cuts)
    return Axis(column.place, len(edges) + 1 + column.missing, edges, missing=column.missing, ordered=True)
