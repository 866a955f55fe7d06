"""Releases quantiles of one column, read off noisy counts on a public grid of cells."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from privot.accounting.events import Event
from privot.common.arguments import check_count, is_number
from privot.errors import UsageError, brief
from privot.mechanisms.mechanism import Facts, PublicColumn, Records
from privot.mechanisms.summaries.array_columns import bounds_of, checked_pair, find_column
from privot.mechanisms.summaries.histogram import number_axis
from privot.mechanisms.summaries.summary import Summary
from privot.mechanisms.table_counts.marginals import Marginals
from privot.noise import NoiseSource
from privot.noise.shared_noise import carried

CELLS = 1024
MAX_GRID = 2**20


@dataclass(frozen=True)
class _Grid:
    """Cells of a column: `cuts` between them in coordinates, and the least and the largest value of each."""

    cuts: NDArray[np.float64]
    lows: NDArray[np.float64]
    highs: NDArray[np.float64]


@dataclass(frozen=True)
class Quantiles(Summary):
    """Quantiles of one column: the cell of a public grid in which each of them lies, by counts of a binary tree.

    The range is cut into k cells. Counted are the records in every cell, in every pair of neighbouring cells, in every
    four of them, and so on, each with N(0, σ²). The number of records below an edge is a sum of at most log₂ k of these
    counts, so its noise stays small however fine the grid is. Everything after the counts is post-processing, so
    several quantiles cost no more than one.

    Parameters
    ----------
    column
        Name of the column, or its number from 0.
    probabilities
        Which quantiles, each strictly between 0 and 1: the median unless given. The q-quantile is the smallest value
        that at least a share q of the records does not exceed.
    range
        (low, high), public: values beyond are clamped. Stated already for a column of a table with a schema.
    cells
        How many cells the range is cut into: 1024 unless given; a column of fewer whole numbers has one cell each.
    epsilon, delta
        What the release may cost; σ is found from it.
    level
        Probability with which the interval of one quantile holds its cell; it is that of each, not of all.

    Returns
    -------
    Release
        Of the vault: `estimate` (middles of cells), `low` and `high` (edges of cells), each of shape (quantiles,).

    Raises
    ------
    UsageError
        If the column, the range or the probabilities do not fit: before anything is paid.

    Notes
    -----
    Formal guarantees:
      * one record stands in one cell of each of L levels: Δ = √L if it is added or removed, √(2L) if it is replaced.
        The levels are marginals of one `Marginals`, with its guarantees in floating point. The level that counts all
        records is left out where their number is public;
      * the interval holds the quantile's cell with probability at least `level`: a cell is kept unless the noisy counts
        below its two edges are too far on the wrong side of q·n, each by more than its own Gaussian quantile. Only the
        tests of the true cell matter, so no correction for many cells is needed.

    References
    ----------
    Hay, Rastogi, Miklau & Suciu 2010, "Boosting the accuracy of differentially private histograms through consistency"
    (the tree of counts); Dwork, Naor, Pitassi & Rothblum 2010, "Differential privacy under continual observation".

    Examples
    --------
    >>> import numpy as np
    >>> from privot import Quantiles, Vault
    >>> vault = Vault(np.arange(1000.0)[:, None], clip=1.0, adjacency="add-remove", budget=(1.0, 1e-6))
    >>> median = Quantiles(0, (0.5,), range=(0, 1000), epsilon=1.0, delta=1e-6)
    >>> value = vault.release(median, purpose="a median").value
    >>> bool((value["low"] <= value["estimate"]).all() and (value["estimate"] <= value["high"]).all())
    True
    """

    stable_name: ClassVar[str] = "privot.mechanisms.summaries.quantiles.Quantiles"

    column: int | str
    probabilities: Sequence[float] = (0.5,)
    range: tuple[float, float] | None = None
    cells: int = CELLS

    def __post_init__(self) -> None:
        super().__post_init__()
        given: Any = self.probabilities
        wanted = (given,) if is_number(given) else tuple(given)
        if not wanted or not all(is_number(q) and 0.0 < q < 1.0 for q in wanted):
            raise UsageError(f"Quantiles are asked for at probabilities strictly between 0 and 1, got {brief(wanted)}.")
        object.__setattr__(self, "probabilities", tuple(float(q) for q in wanted))
        check_count("The number of cells", self.cells, 2, MAX_GRID)
        if self.range is not None:
            object.__setattr__(self, "range", checked_pair("The range", self.range))

    def event(self, facts: Facts) -> Event:
        """One Gaussian release of all levels of counts."""
        event = self.calibrated(self._tree(facts, 1.0).sensitivity(facts.adjacency), facts)
        return self._tree(facts, event.sigma).event(facts)

    def run(
        self, records: Records, noise: NoiseSource, event: Event, step: int
    ) -> tuple[dict[str, NDArray[np.float64]], Mapping[str, Any]]:
        """The quantiles with their intervals, and what is public about them."""
        facts = records.facts
        sigma = self.paid_sigma(event, self.event(facts))
        tree = self._tree(facts, sigma)
        counts, _ = tree.run(records, noise, event, step)
        sigma = carried(noise, sigma)
        column = find_column(self.column, facts)
        grid = self._grid(column)
        levels = [level[: len(level) - column.missing] for level in np.split(counts, np.cumsum(tree.lengths)[:-1])]
        below, terms = _prefixes(levels, len(grid.lows))
        known = self._known(column, facts)
        total, further = (levels[-1][0], 1.0) if known is None else (float(known), 0.0)
        places = [
            _cell(below - q * total, sigma * np.sqrt(terms + q * q * further), self.reach) for q in self.probabilities
        ]
        middle, first, last = (np.array(part) for part in zip(*places, strict=True))
        value = {
            "estimate": (grid.lows[middle] + grid.highs[middle]) / 2.0,
            "low": grid.lows[first],
            "high": grid.highs[last],
        }
        stated = {"column": column.name, "probabilities": list(self.probabilities), "cells": len(grid.lows)}
        ends = [float(grid.lows[0]), float(grid.highs[-1])]
        return value, self.public("quantiles", facts, sigma, **stated, range=ends)

    def _known(self, column: PublicColumn, facts: Facts) -> int | None:
        """How many values there are, where that is public."""
        return None if column.missing else facts.records

    def _grid(self, column: PublicColumn) -> _Grid:
        low, high = bounds_of(column, self.range)
        if column.whole and np.floor(high) - np.ceil(low) < self.cells:
            numbers = np.arange(np.ceil(low), np.floor(high) + 1.0)
            if len(numbers) < 2:
                raise UsageError(f"The range of {brief(column.name)} holds fewer than two whole numbers: widen it.")
            return _Grid(column.coordinates(numbers[:-1] + 0.5), numbers, numbers)
        ends = column.coordinates(np.array([low, high]))
        cuts = np.linspace(ends[0], ends[1], self.cells + 1)
        edges = np.clip(column.values(cuts), low, high)
        edges[0], edges[-1] = low, high
        return _Grid(cuts[1:-1], edges[:-1], edges[1:])

    def _tree(self, facts: Facts, sigma: float) -> Marginals:
        """One marginal per level, the finest first: cells, pairs of cells, … and all of them where n is private."""
        column = find_column(self.column, facts)
        cuts = self._grid(column).cuts
        height = len(cuts).bit_length()  # 2^height covers all cells
        levels = height if self._known(column, facts) is not None else height + 1
        axes = tuple(number_axis(column, cuts[(1 << level) - 1 :: 1 << level]) for level in range(levels))
        return Marginals(axes, tuple((place,) for place in range(levels)), sigma)


def _prefixes(levels: list[NDArray[np.float64]], cells: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The noisy number of records below each inner edge, and how many noisy counts it is a sum of."""
    edges = np.arange(1, cells)
    total, terms = np.zeros(cells - 1), np.zeros(cells - 1)
    for level in range((cells - 1).bit_length()):
        taken = (edges >> level) & 1 == 1
        # below edge j lies, for each bit of j, one whole node of that level: the one before j >> level
        total[taken] += levels[level][(edges[taken] >> level) - 1]
        terms += taken
    return total, terms


def _cell(
    over: NDArray[np.float64], deviation: NDArray[np.float64], reach: float
) -> tuple[np.intp | int, np.intp | int, np.intp | int]:
    """The estimated cell, and the first and last cell of its interval.

    `over` is the noisy number below each inner edge less q·n. The quantile's cell j has F(j) < q·n ≤ F(j + 1): it is
    kept unless `over` is above reach·deviation at its lower edge, or below −reach·deviation at its upper edge.
    """
    cell = int((over < 0.0).sum())
    fits_below = np.concatenate([[True], over <= reach * deviation])
    fits_above = np.concatenate([over >= -reach * deviation, [True]])
    kept = np.flatnonzero(fits_below & fits_above)
    first, last = (cell, cell) if len(kept) == 0 else (min(cell, int(kept[0])), max(cell, int(kept[-1])))
    return cell, first, last
